package embed

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &Client{URL: s.URL + "/v1/", Model: "m", Key: "secret"}
}

func TestEmbed(t *testing.T) {
	t.Parallel()
	calls := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		var in struct {
			Model string
			Input []string
		}
		b, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(b, &in); err != nil || in.Model != "m" || r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s %s %s: %v", r.Method, r.URL, b, err)
		}
		var out []string
		for i := len(in.Input) - 1; i >= 0; i-- { // in any order
			if in.Input[i] == "" || len(in.Input[i]) > maxText {
				t.Errorf("a text of %d bytes", len(in.Input[i]))
			}
			out = append(out, fmt.Sprintf(`{"index":%d,"embedding":[%d,0.5]}`, i, len(in.Input[i])))
		}
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(out, ","))
	})
	texts := []string{"", "é" + strings.Repeat("x", 2*maxText)}
	for i := range 2 * batch {
		texts = append(texts, strings.Repeat("y", i+1))
	}
	got, err := c.Embed(t.Context(), texts)
	if err != nil || len(got) != len(texts) || calls != 3 {
		t.Fatalf("%d vectors of %d texts in %d calls, %v", len(got), len(texts), calls, err)
	}
	for i := range 2 * batch {
		if got[i+2][0] != float32(i+1) {
			t.Fatalf("vector %d is %v", i+2, got[i+2])
		}
	}
	if got, err := c.Embed(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestBadAnswers(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"", "{", `{"data":[]}`, `{"data":[{"index":0,"embedding":[]}]}`, `{"data":[{"index":1,"embedding":[1]}]}`, `{"data":[{"index":-1,"embedding":[1]}]}`,
		`{"data":[{"index":0,"embedding":[1e99]}]}`, `{"data":[{"index":0,"embedding":"x"}]}`, "500", "302"} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch answer {
			case "500":
				http.Error(w, "no such model", http.StatusInternalServerError)
			case "302":
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			default:
				io.WriteString(w, answer)
			}
		})
		_, err := c.Embed(t.Context(), []string{"x"})
		if glovebox.CodeOf(err) != glovebox.CodeUnavailable || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", answer, err)
		}
	}
}
