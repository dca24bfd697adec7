package client_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/client"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestTheWholeWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	v, err := w.c.Ready(ctx)
	for until := time.Now().Add(time.Minute); glovebox.CodeOf(err) == glovebox.CodeUnavailable && time.Now().Before(until); {
		v, err = w.c.Ready(ctx) // a store that is slow for two seconds is not ready
	}
	if err != nil || v != "1.2" {
		t.Error(v, err)
	}
	id := w.schedule("Build it")
	if v, err := w.c.Status(ctx, id); err != nil || v.Status != glovebox.StatusPending || v.Task != "Build it" {
		t.Fatal(v, err)
	}
	l := w.claim()
	if _, err := w.c.Say(ctx, id, "use TypeScript"); err != nil {
		t.Error(err)
	}
	if _, err := w.c.RaiseLimits(ctx, id, glovebox.Limits{Steps: 999}); err != nil {
		t.Error(err)
	}
	if s, err := w.store.PendingSignals(ctx, id); err != nil || len(s) != 2 || s[0].Text != "use TypeScript" || s[1].Limits.Steps != 999 {
		t.Error(s, err)
	}
	done := make(chan *glovebox.JobView)
	go func() {
		var seen []glovebox.Status
		v, err := w.c.WaitDone(ctx, id, func(v *glovebox.JobView) { seen = append(seen, v.Status) })
		if err != nil || len(seen) < 1 || seen[len(seen)-1] != glovebox.StatusComplete {
			t.Error(seen, err)
		}
		done <- v
	}()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	f, _ := z.Create("src/a b?.txt")
	io.WriteString(f, "hello")
	z.Close()
	w.complete(l, buf.Bytes())
	if v := <-done; v.Artifact == nil || v.Artifact.Size != int64(buf.Len()) {
		t.Errorf("got %+v", v)
	}
	m, err := w.c.Manifest(ctx, id)
	if err != nil || len(m.Entries) != 1 || m.Entries[0].Path != "src/a b?.txt" {
		t.Error(m, err)
	}
	d, err := w.c.Dir(ctx, id, "")
	if err != nil || len(d.Entries) != 1 || d.Entries[0].Name != "src" {
		t.Error(d, err)
	}
	if d, err = w.c.Dir(ctx, id, "/src/"); err != nil || len(d.Entries) != 1 {
		t.Error(d, err)
	}
	body, size, err := w.c.File(ctx, id, "src/a b?.txt")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(body)
	body.Close()
	if string(b) != "hello" || size != 5 {
		t.Errorf("%q, %d", b, size)
	}
	if _, _, err := w.c.File(ctx, id, "src"); glovebox.CodeOf(err) != glovebox.CodeConflict {
		t.Error(err)
	}
	if _, err := w.c.Dir(ctx, id, "src/a b?.txt"); glovebox.CodeOf(err) != glovebox.CodeConflict {
		t.Error(err)
	}
	second := w.schedule("another")
	if v, err := w.c.Cancel(ctx, second); err != nil || v.Status != glovebox.StatusCancelled {
		t.Error(v, err)
	}
	n := 0
	for v, err := range w.c.Jobs(ctx, client.Filter{Limit: 1}) {
		if err != nil || (n == 0) != (v.JobID == second) {
			t.Error(v, err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d jobs", n)
	}
	if l, err := w.c.List(ctx, client.Filter{Status: []glovebox.Status{"complete"}, Query: "build"}); err != nil || len(l.Jobs) != 1 {
		t.Error(l, err)
	}
	if err := w.c.Delete(ctx, id); err != nil {
		t.Error(err)
	}
	if _, err := w.c.Status(ctx, id); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Error(err)
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	w := newWorld(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" && n.Add(1) == 1 { // the first try breaks off in the middle
				io.CopyN(io.Discard, r.Body, 100)
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(rw, r)
		})
	})
	data := append([]byte("PK\x03\x04"), make([]byte, 1<<20)...)
	a, err := w.c.ScheduleArchive(t.Context(), glovebox.Submission{Task: "t", Metadata: map[string]string{"a": "b"}}, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.blobs.get("jobs/" + a.JobID + "/input.zip"); !bytes.Equal(got, data) {
		t.Errorf("%d bytes arrived", len(got))
	}
	n.Store(0)
	if _, err := w.c.ScheduleArchive(t.Context(), glovebox.Submission{Task: "t"}, io.MultiReader(bytes.NewReader(data))); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("what can't be sent again: %v", err)
	}
	if _, err := w.c.ScheduleArchive(t.Context(), glovebox.Submission{Task: "t"}, strings.NewReader("no archive")); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("got %v", err)
	}
}

// TestScheduleTwice: a submission whose answer was lost is sent again and is
// still one job.
func TestScheduleTwice(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	w := newWorld(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 1 {
				h.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(rw, r)
		})
	})
	id := w.schedule("once")
	l, err := w.c.List(t.Context(), client.Filter{})
	if err != nil || len(l.Jobs) != 1 || l.Jobs[0].JobID != id {
		t.Error(l, err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	_, err := w.c.Schedule(ctx, glovebox.Submission{Task: "t", Limits: glovebox.Limits{Steps: -1}})
	e, ok := errors.AsType[*glovebox.Error](err)
	if !ok || e.Code != glovebox.CodeInvalid || e.Field != "limits.steps" || e.Value != "-1" || e.Hint == "" {
		t.Errorf("got %#v", err)
	}
	if _, err := w.c.Status(ctx, "../../x"); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("got %v", err)
	}
	if _, err := w.c.Say(ctx, "x", " "); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("got %v", err)
	}
	down, err := client.New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := down.Status(ctx, "x"); glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "glovebox serve") {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{"", "localhost:8000", "ftp://x", "http://", "http://user:secret@host", "http://h?x"} {
		if _, err := client.New(bad); glovebox.CodeOf(err) != glovebox.CodeInvalid || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := w.c.Status(cancelled, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/jobs/html":
			rw.WriteHeader(403)
		case "/jobs/text":
			io.WriteString(rw, "<html>")
		case "/jobs/text/events":
			io.WriteString(rw, "<html>")
		case "/jobs/bad/events":
			rw.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(rw, "data: {\"seq\":7}\n\n")
		}
	}))
	defer other.Close()
	c, _ := client.New(other.URL)
	defer c.Close()
	for id, want := range map[string]glovebox.Code{"html": glovebox.CodeForbidden, "text": glovebox.CodeInternal} {
		if _, err := c.Status(ctx, id); glovebox.CodeOf(err) != want {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, id := range []string{"text", "bad"} {
		for _, err := range c.Events(ctx, id, 0) {
			if glovebox.CodeOf(err) != glovebox.CodeInternal {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
}

// TestEventsOverBrokenConnections: all events, once, in order, though every
// connection breaks after a few hundred bytes and every other is refused.
func TestEventsOverBrokenConnections(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	w := newWorld(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/events") {
				h.ServeHTTP(rw, r)
				return
			}
			if n.Add(1)%2 == 0 {
				rw.WriteHeader(http.StatusBadGateway)
				return
			}
			h.ServeHTTP(&cutter{ResponseWriter: rw, left: 300 + int(n.Load())*200}, r)
		})
	})
	id := w.schedule("t")
	l := w.claim()
	const events = 60
	go func() {
		for i := range events {
			w.append(l, notice(i))
		}
		w.append(l, glovebox.NewEvent(time.Now(), glovebox.EventFinished, glovebox.Finished{Status: glovebox.StatusCancelled}))
	}()
	var last int64
	for e, err := range w.c.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != last+1 {
			t.Fatalf("event %d after %d", e.Seq, last)
		}
		last = e.Seq
	}
	if last != events+3 || n.Load() < 3 {
		t.Errorf("ended after event %d, %d connections", last, n.Load())
	}
	for e := range w.c.Events(t.Context(), id, last-1) {
		if e.Seq != last {
			t.Errorf("got %d", e.Seq)
		}
		break
	}
	for _, err := range w.c.Events(t.Context(), glovebox.NewID(), 0) {
		if glovebox.CodeOf(err) != glovebox.CodeNotFound {
			t.Errorf("got %v", err)
		}
	}
}

func TestEventsGiveUp(t *testing.T) {
	t.Parallel()
	c, err := client.New("http://127.0.0.1:1", client.WithPatience(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range c.Events(t.Context(), "x", 0) {
		n++
		if glovebox.CodeOf(err) != glovebox.CodeUnavailable {
			t.Errorf("got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
}

// cutter breaks the connection after some bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutter) Write(b []byte) (int, error) {
	if len(b) > c.left {
		c.ResponseWriter.Write(b[:c.left])
		http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// TestDownload: an artifact over connections that break, from a part that is
// there, from a part that is wrong.
func TestDownload(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	var ranged atomic.Int64
	w := newWorld(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".zip") {
				requests.Add(1)
				if r.Header.Get("Range") != "" {
					ranged.Add(1)
				}
				rw = &cutter{ResponseWriter: rw, left: 300_000}
			}
			h.ServeHTTP(rw, r)
		})
	})
	data := make([]byte, 1<<20)
	rand.New(rand.NewSource(1)).Read(data)
	id := w.schedule("t")
	if _, err := w.c.Download(t.Context(), id, filepath.Join(t.TempDir(), "x.zip")); glovebox.CodeOf(err) != glovebox.CodeConflict {
		t.Errorf("too early: %v", err)
	}
	w.complete(w.claim(), data)
	name := filepath.Join(t.TempDir(), "x.zip")
	check := func() {
		t.Helper()
		a, err := w.c.Download(t.Context(), id, name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, data) || a.Size != int64(len(data)) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if _, err := os.Stat(name + ".part"); !os.IsNotExist(err) {
			t.Error("a part is left")
		}
	}
	check()
	if ranged.Load() < 3 {
		t.Errorf("%d requests with a range", ranged.Load())
	}
	os.WriteFile(name+".part", data[:900_000], 0o644)
	requests.Store(0)
	check()
	if requests.Load() != 1 {
		t.Errorf("%d requests for the last bytes", requests.Load())
	}
	os.WriteFile(name+".part", append(bytes.Clone(data), "more"...), 0o644)
	check()
	os.WriteFile(name+".part", make([]byte, 1000), 0o644)
	if _, err := w.c.Download(t.Context(), id, name); glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("a wrong part: %v", err)
	}
	check()
}

// TestPrefix: a server behind a proxy's path.
func TestOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.schedule("t")
	handle := blob.NewOutput()
	key, err := blob.OutputKey(id, handle)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.blobs.Put(t.Context(), key, strings.NewReader("all of it"), 100); err != nil {
		t.Fatal(err)
	}
	body, size, err := w.c.Output(t.Context(), id, handle)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != "all of it" || size != 9 {
		t.Errorf("%q of %d bytes, %v", got, size, err)
	}
	for _, bad := range []string{"", "x", "../artifact.zip", blob.NewOutput()} {
		if _, _, err := w.c.Output(t.Context(), id, bad); glovebox.CodeOf(err) != glovebox.CodeNotFound {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	target, _ := url.Parse(w.c.BaseURL())
	proxy := httptest.NewServer(http.StripPrefix("/glove/box", httputil.NewSingleHostReverseProxy(target)))
	defer proxy.Close()
	c, err := client.New(proxy.URL+"/glove/box/", client.WithToken("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Schedule(t.Context(), glovebox.Submission{Task: "t"}); glovebox.CodeOf(err) != glovebox.CodeUnauthorized {
		t.Errorf("a wrong token: %v", err)
	}
	if c, err = client.New(proxy.URL + "/glove/box/"); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Schedule(t.Context(), glovebox.Submission{Task: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Status(t.Context(), a.JobID); err != nil || v.Status != glovebox.StatusPending {
		t.Error(v, err)
	}
}
