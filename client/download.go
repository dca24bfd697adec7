package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Download fetches the artifact of a job into a file. What arrives is kept in
// name + ".part"; a download that broke off, also in an earlier call, goes on
// from there. The file gets its name only after its SHA-256 was found right
// and it is on disk; a file of that name is replaced.
func (c *Client) Download(ctx context.Context, id, name string) (*glovebox.ArtifactView, error) {
	v, err := c.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	if v.Artifact == nil {
		e := &glovebox.Error{Code: glovebox.CodeConflict, Field: "id", Value: id, Msg: fmt.Sprintf("the job is %s and has no artifact", v.Status), Hint: "wait until it is complete"}
		if v.Status.Terminal() {
			e.Hint = "it ended without one; its state says why"
		}
		return nil, e
	}
	part := name + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, &glovebox.Error{Code: glovebox.CodeInvalid, Op: "download", Field: "name", Value: name, Msg: "can't write there", Err: err}
	}
	defer f.Close()
	if err := c.fetch(ctx, id, *v.Artifact, f); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, diskError(err)
	}
	if err := os.Rename(part, name); err != nil {
		return nil, diskError(err)
	}
	if dir, err := os.Open(filepath.Dir(name)); err == nil {
		_ = dir.Sync() // not every file system can
		dir.Close()
	}
	return v.Artifact, nil
}

func diskError(err error) error {
	return &glovebox.Error{Code: glovebox.CodeInternal, Op: "download", Msg: "can't write the file", Err: err, Hint: "is the disk full?"}
}

// fetch makes f hold the artifact.
func (c *Client) fetch(ctx context.Context, id string, a glovebox.ArtifactView, f *os.File) error {
	sum := sha256.New()
	have, err := io.Copy(sum, io.LimitReader(f, a.Size))
	if err != nil {
		return diskError(err)
	}
	heard := time.Now()
	for n := 1; have < a.Size; n++ {
		got, err := c.fetchRest(ctx, id, a, f, sum, have)
		if got != have {
			have, heard, n = got, time.Now(), 1
		}
		if err == nil {
			continue
		}
		if !passing(err) || time.Since(heard) > c.patience {
			return plain(err)
		}
		if err := pause(ctx, n, err); err != nil {
			return err
		}
	}
	if err := f.Truncate(a.Size); err != nil {
		return diskError(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != a.SHA256 {
		_ = f.Truncate(0) // the next try begins anew
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "download", Msg: fmt.Sprintf("what arrived has SHA-256 %s, and the artifact %s", got, a.SHA256), Hint: "download it again"}
	}
	return nil
}

// fetchRest asks for what is missing after byte have and returns how much is
// there then.
func (c *Client) fetchRest(ctx context.Context, id string, a glovebox.ArtifactView, f *os.File, sum hash.Hash, have int64) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() {
		cancel(&glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "the download from " + c.base + " went silent"})
	})
	defer quiet.Stop()
	header := map[string]string{}
	if have > 0 {
		header["Range"] = fmt.Sprintf("bytes=%d-", have)
		header["If-Range"] = `"` + a.SHA256 + `"`
	}
	resp, err := c.send(ctx, call{method: http.MethodGet, path: jobPath(id, "/artifact.zip"), header: header})
	if err != nil {
		return have, orCause(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		sum.Reset()
		have = 0
	} else if want := fmt.Sprintf("bytes %d-", have); resp.StatusCode != http.StatusPartialContent || !strings.HasPrefix(resp.Header.Get("Content-Range"), want) {
		return have, glovebox.Errorf(glovebox.CodeInternal, "%s answered %s, range %q, to a request for bytes from %d on", c.base, resp.Status, resp.Header.Get("Content-Range"), have)
	}
	w := io.NewOffsetWriter(f, have)
	body := &errReader{r: resp.Body, alive: func() { quiet.Reset(silence) }}
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(body, a.Size-have))
	switch {
	case body.err != nil:
		return have + n, orCause(ctx, c.unreachable(ctx, body.err))
	case err != nil:
		return have + n, diskError(err)
	case have+n < a.Size:
		return have + n, c.unreachable(ctx, io.ErrUnexpectedEOF)
	}
	return have + n, nil
}

// errReader remembers whether it was the reading that failed.
type errReader struct {
	r     io.Reader
	alive func() // called when something arrived
	err   error
}

func (e *errReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.alive()
	if err != nil && !errors.Is(err, io.EOF) {
		e.err = err
	}
	return n, err
}
