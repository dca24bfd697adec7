package api

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/live"
	"github.com/glovebox-dev/glovebox/internal/store"
	"github.com/glovebox-dev/glovebox/internal/store/sqlite"
)

func TestMain(m *testing.M) {
	if runReaders() { // the other half of a benchmark
		return
	}
	leaktest.Main(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// env is a server on TCP with a real store.
type env struct {
	t     testing.TB
	store *sqlite.Store
	blobs *memBlobs
	live  *live.Hub
	api   *API
	srv   *Server
	log   *syncBuffer
}

func newEnv(t testing.TB, change ...func(*Options)) *env {
	t.Helper()
	st, err := sqlite.Open(filepath.Join(t.TempDir(), "glovebox.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	e := &env{t: t, store: st, blobs: &memBlobs{m: map[string][]byte{}}, live: new(live.Hub), log: new(syncBuffer)}
	o := Options{Store: st, Blobs: e.blobs, Live: e.live, DefaultModel: "replay:test", Version: "test",
		Heartbeat: time.Hour, WriteTimeout: time.Hour, // only where a test is about them
		Log: slog.New(slog.NewTextHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, c := range change {
		c(&o)
	}
	e.api = New(o)
	e.api.ready.wait = time.Hour
	e.srv, err = StartServer(ServerOptions{Listen: "127.0.0.1:0", Handler: e.api})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.srv.Stop(ctx); err != nil {
			t.Error("stop:", err)
		}
	})
	return e
}

// reply is an answer, read to its end.
type reply struct {
	*http.Response
	body []byte
}

func (r reply) problem(t testing.TB) glovebox.Problem {
	t.Helper()
	if ct := r.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Fatalf("status %d, content type %q, body %s: not a problem", r.StatusCode, ct, r.body)
	}
	return decode[glovebox.Problem](t, r.body)
}

func decode[T any](t testing.TB, b []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("decode %s: %v", b, err)
	}
	return v
}

// do sends a request; headers are name, value, name, value...
func (e *env) do(method, path, body string, headers ...string) reply {
	e.t.Helper()
	return e.send(e.request(method, path, strings.NewReader(body), headers...))
}

func (e *env) request(method, path string, body io.Reader, headers ...string) *http.Request {
	e.t.Helper()
	req, err := http.NewRequest(method, e.srv.URL()+path, body)
	if err != nil {
		e.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	return req
}

func (e *env) send(req *http.Request) reply {
	e.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return reply{resp, b}
}

// submit creates a job and returns its id.
func (e *env) submit(task string, headers ...string) string {
	e.t.Helper()
	r := e.do("POST", "/schedule", task, append([]string{"Content-Type", "text/plain"}, headers...)...)
	if r.StatusCode != 202 {
		e.t.Fatalf("status %d: %s", r.StatusCode, r.body)
	}
	return decode[glovebox.Accepted](e.t, r.body).JobID
}

func (e *env) view(id string, headers ...string) glovebox.JobView {
	e.t.Helper()
	r := e.do("GET", "/status/"+id, "", headers...)
	if r.StatusCode != 200 {
		e.t.Fatalf("status %d: %s", r.StatusCode, r.body)
	}
	return decode[glovebox.JobView](e.t, r.body)
}

func (e *env) claim() store.Lease {
	e.t.Helper()
	l, err := e.store.Claim(context.Background(), "w1", time.Minute)
	if err != nil || l == nil {
		e.t.Fatalf("claim: %v, %v", l, err)
	}
	return *l
}

func (e *env) append(l store.Lease, events ...glovebox.Event) *glovebox.Job {
	e.t.Helper()
	j, err := e.store.Append(context.Background(), l, events)
	if err != nil {
		e.t.Fatal(err)
	}
	return j
}

func ev(typ glovebox.EventType, data any) glovebox.Event {
	return glovebox.NewEvent(time.Now(), typ, data)
}

func notice(text string) glovebox.Event {
	return ev(glovebox.EventNotice, glovebox.Notice{Text: text})
}

func finished(s glovebox.Status) glovebox.Event {
	f := glovebox.Finished{Status: s}
	if s == glovebox.StatusError {
		f.Failure = &glovebox.Failure{Code: "limit", Limit: "steps", Message: "the limit of 300 steps was reached"}
	}
	return ev(glovebox.EventFinished, f)
}

// complete makes an artifact of files and ends the job with it.
func (e *env) complete(l store.Lease, files map[string]string) glovebox.Artifact {
	e.t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			e.t.Fatal(err)
		}
		io.WriteString(w, text)
	}
	if err := z.Close(); err != nil {
		e.t.Fatal(err)
	}
	key := blob.JobPrefix(l.JobID) + "artifact.zip"
	info, err := e.blobs.Put(context.Background(), key, &buf, 1<<30)
	if err != nil {
		e.t.Fatal(err)
	}
	a := glovebox.Artifact{Blob: key, SHA256: info.SHA256, Size: info.Size, Files: int64(len(files)),
		Skipped: []glovebox.SkippedPath{{Path: "node_modules", Reason: "rebuilt"}}}
	e.append(l, ev(glovebox.EventArtifact, glovebox.ArtifactSaved{Artifact: a}), finished(glovebox.StatusComplete))
	return a
}

// memBlobs is a blob.Store in memory.
type memBlobs struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (b *memBlobs) Put(_ context.Context, key string, r io.Reader, limit int64) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return blob.Info{}, err
	}
	if int64(len(data)) > limit {
		return blob.Info{}, glovebox.Errorf(glovebox.CodeTooLarge, "more than %d bytes", limit)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.m[key] = data
	sum := sha256.Sum256(data)
	return blob.Info{Key: key, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}, nil
}

type memReader struct{ *bytes.Reader }

func (memReader) Close() error { return nil }

func (b *memBlobs) Open(_ context.Context, key string) (blob.Reader, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.m[key]
	if !ok {
		return nil, glovebox.Errorf(glovebox.CodeNotFound, "no blob %q", key)
	}
	return memReader{bytes.NewReader(data)}, nil
}

func (b *memBlobs) DeletePrefix(_ context.Context, prefix string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.m {
		if strings.HasPrefix(k, prefix) {
			delete(b.m, k)
		}
	}
	return nil
}

func (b *memBlobs) List(_ context.Context, prefix string) ([]blob.Entry, error) {
	seen := map[string]bool{}
	var out []blob.Entry
	for _, k := range b.keys() {
		if rest, ok := strings.CutPrefix(k, prefix); ok {
			name, _, deeper := strings.Cut(rest, "/")
			if deeper {
				name += "/"
			}
			if !seen[name] {
				seen[name] = true
				out = append(out, blob.Entry{Name: name})
			}
		}
	}
	return out, nil
}

func (b *memBlobs) keys() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ks []string
	for k := range b.m {
		ks = append(ks, k)
	}
	return ks
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
