// Package embed has texts turned into vectors by an OpenAI-compatible API:
// OpenAI's own, Ollama's, vLLM's, llama.cpp's.
package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of a call.
const (
	timeout   = time.Minute
	batch     = 64       // texts of one request
	maxText   = 8 << 10  // bytes of one text that are sent; models take no more
	maxAnswer = 64 << 20 // bytes
	maxLength = 8192     // numbers of a vector
)

// Client asks one model of one server. The zero value is of no use; it is safe
// for concurrent use. It does not retry.
type Client struct {
	URL   string       // of the API, such as http://localhost:11434/v1
	Model string       //
	Key   string       // sent as a bearer token; empty: none is
	HTTP  *http.Client // nil: one that follows no redirect
}

// plain follows no redirect: the key is for the server that was named.
var plain = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Embed returns a vector for each text, in order, all of one length. Of a long
// text the beginning counts. An error is CodeUnavailable.
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n := min(batch, len(texts))
		got, err := c.some(ctx, texts[:n])
		if err != nil {
			return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "make embeddings", Msg: "model " + c.Model, Err: err,
				Hint: "check memory.embeddings in the configuration, and GLOVEBOX_EMBEDDINGS_KEY"}
		}
		for _, v := range got {
			if len(out) > 0 && len(v) != len(out[0]) {
				return nil, glovebox.Errorf(glovebox.CodeUnavailable, "embeddings of %d and of %d numbers came", len(out[0]), len(v))
			}
			out = append(out, v)
		}
		texts = texts[n:]
	}
	return out, nil
}

// some embeds the texts of one request.
func (c *Client) some(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	input := make([]string, len(texts))
	for i, t := range texts {
		t = strings.ToValidUTF8(t[:min(len(t), maxText)], "")
		if strings.TrimSpace(t) == "" {
			t = "(nothing)" // servers refuse what is empty
		}
		input[i] = t
	}
	body, err := json.Marshal(struct {
		Model  string   `json:"model"`
		Input  []string `json:"input"`
		Format string   `json:"encoding_format"`
	}{c.Model, input, "float"})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+"/embeddings", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	client := c.HTTP
	if client == nil {
		client = plain
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d: %.200q", resp.StatusCode, answer)
	}
	return read(answer, len(texts))
}

// read returns the vectors of an answer, which has to have n of one length.
func read(answer []byte, n int) ([][]float32, error) {
	var a struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return nil, fmt.Errorf("the answer is not what an API for embeddings gives: %w", err)
	}
	if len(a.Data) != n {
		return nil, fmt.Errorf("%d embeddings came for %d texts", len(a.Data), n)
	}
	out := make([][]float32, n)
	for _, d := range a.Data {
		if d.Index < 0 || d.Index >= n || out[d.Index] != nil {
			return nil, fmt.Errorf("embedding number %d of %d came, or came twice", d.Index, n)
		}
		if k := len(d.Embedding); k == 0 || k > maxLength || k != len(a.Data[0].Embedding) {
			return nil, fmt.Errorf("an embedding of %d numbers came", k)
		}
		for _, x := range d.Embedding {
			if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, fmt.Errorf("embedding number %d is no vector", d.Index)
			}
		}
		out[d.Index] = d.Embedding
	}
	return out, nil
}
