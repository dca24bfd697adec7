package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

func TestDownload(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.submit("Build me a \"TODO\" app;\r\n in Réact!")
	a := e.complete(e.claim(), map[string]string{"README.md": "hello"})
	v := e.view(id)
	if v.Status != glovebox.StatusComplete || v.DownloadURL != "/jobs/"+id+"/artifact.zip" || v.Artifact.SHA256 != a.SHA256 {
		t.Fatalf("got %+v", v)
	}
	whole := e.do("GET", v.DownloadURL, "")
	sum := sha256.Sum256(whole.body)
	if whole.StatusCode != 200 || hex.EncodeToString(sum[:]) != a.SHA256 || whole.Header.Get("X-Content-SHA256") != a.SHA256 ||
		whole.Header.Get("Repr-Digest") != "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":" || whole.Header.Get("Content-Type") != "application/zip" {
		t.Errorf("got %d %v", whole.StatusCode, whole.Header)
	}
	if got, want := whole.Header.Get("Content-Disposition"), `attachment; filename="build-me-a-todo-app-in-r-act-`+id[20:]+`.zip"`; got != want {
		t.Errorf("Content-Disposition %s, want %s", got, want)
	}
	tag := whole.Header.Get("ETag")
	for _, tt := range []struct {
		headers []string
		status  int
		body    []byte
	}{
		{[]string{"Range", "bytes=10-"}, 206, whole.body[10:]},
		{[]string{"Range", "bytes=0-0"}, 206, whole.body[:1]},
		{[]string{"Range", "bytes=-5"}, 206, whole.body[len(whole.body)-5:]},
		{[]string{"Range", "bytes=10-", "If-Range", tag}, 206, whole.body[10:]},
		{[]string{"Range", "bytes=10-", "If-Range", `"other"`}, 200, whole.body},
		{[]string{"Range", "bytes=999999-"}, 416, nil},
		{[]string{"Range", "lines=1-2"}, 416, nil},
		{[]string{"If-None-Match", tag}, 304, []byte{}},
	} {
		r := e.do("GET", v.DownloadURL, "", tt.headers...)
		if r.StatusCode != tt.status || (tt.body != nil && string(r.body) != string(tt.body)) {
			t.Errorf("%v: %d, %d bytes", tt.headers, r.StatusCode, len(r.body))
		}
	}
	if r := e.send(e.request(http.MethodHead, v.DownloadURL, nil)); r.StatusCode != 200 || r.ContentLength != a.Size {
		t.Errorf("HEAD: %d %d", r.StatusCode, r.ContentLength)
	}
	m := decode[glovebox.Manifest](t, e.do("GET", "/jobs/"+id+"/artifact", "").body)
	if len(m.Entries) != 1 || m.Entries[0].Path != "README.md" || m.Entries[0].Size != 5 || len(m.Skipped) != 1 || m.SHA256 != a.SHA256 {
		t.Errorf("manifest %+v", m)
	}
	// An artifact that the log knows and the blob store does not, or not all
	// of it, is our fault.
	e.blobs.DeletePrefix(t.Context(), "jobs/")
	if r := e.do("GET", v.DownloadURL, ""); r.StatusCode != 500 || r.problem(t).Instance == "" {
		t.Errorf("lost artifact: %d", r.StatusCode)
	}
	if _, err := e.blobs.Put(t.Context(), a.Blob, bytes.NewReader(whole.body[:20]), 100); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{v.DownloadURL, "/jobs/" + id + "/files/README.md"} {
		if r := e.do("GET", path, ""); r.StatusCode != 500 || r.problem(t).Instance == "" {
			t.Errorf("cut artifact, %s: %d", path, r.StatusCode)
		}
	}
}

func TestArtifactName(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		"": "project", "../../etc/passwd": "etc-passwd", "你好": "project", strings.Repeat("a", 500): strings.Repeat("a", 40), "\"; rm -rf /": "rm-rf", "a\r\nX: y": "a-x-y",
	} {
		if got := artifactName(&glovebox.Job{ID: strings.Repeat("0", 26), Task: task}); got != want+"-000000.zip" {
			t.Errorf("%q: %q", task, got)
		}
	}
}

// TestFilesAreInert: nothing that comes out of a project runs in our origin.
func TestFilesAreInert(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.submit("t")
	e.complete(e.claim(), map[string]string{
		"index.html": "<html><script>alert(1)</script>", "pic.svg": `<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>`, "app.js": "alert(1)",
		"src/a.txt": "grüße", "src/deep/b.bin": "\x00\x01", "p.png": "\x89PNG\r\n\x1a\n....", "data.json": `{"entries":[]}`, "empty": "",
		"od\"d;\r\nname.txt": "x", "x.pdf": "%PDF-1.4 hello",
	})
	for path, want := range map[string]string{
		"index.html": "text/plain; charset=utf-8", "pic.svg": "text/plain; charset=utf-8", "app.js": "text/plain; charset=utf-8", "src/a.txt": "text/plain; charset=utf-8",
		"src/deep/b.bin": "application/octet-stream", "p.png": "image/png", "data.json": "text/plain; charset=utf-8", "empty": "text/plain; charset=utf-8",
		"od%22d;%0D%0Aname.txt": "text/plain; charset=utf-8", "x.pdf": "text/plain; charset=utf-8",
	} {
		r := e.do("GET", "/jobs/"+id+"/files/"+path, "")
		h := r.Header
		if r.StatusCode != 200 || h.Get("Content-Type") != want || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment; filename") ||
			h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox; default-src 'none'") {
			t.Errorf("%s: %d %v", path, r.StatusCode, h)
		}
	}
	if r := e.do("GET", "/jobs/"+id+"/files/src/a.txt", ""); string(r.body) != "grüße" || r.ContentLength != 7 {
		t.Errorf("got %q", r.body)
	}
	list := decode[glovebox.DirList](t, e.do("GET", "/jobs/"+id+"/files/", "").body)
	if len(list.Entries) != 9 || list.Entries[8].Name != "x.pdf" {
		t.Errorf("root: %+v", list)
	}
	for _, p := range []string{"src", "src/"} {
		list = decode[glovebox.DirList](t, e.do("GET", "/jobs/"+id+"/files/"+p, "").body)
		if len(list.Entries) != 2 || list.Entries[0].Name != "a.txt" || list.Entries[0].Type != "file" || list.Entries[1].Name != "deep" || list.Entries[1].Type != "dir" {
			t.Errorf("%s: %+v", p, list)
		}
	}
	for _, p := range []string{"none", "src/none", "%2e%2e/%2e%2e/etc/passwd", "..%2fx", "src%2f..%2f..%2fx", "/etc/passwd", "a%00b", "%ff", strings.Repeat("x/", 3000) + "x", "src%5ca.txt"} {
		if r := e.do("GET", "/jobs/"+id+"/files/"+p, ""); r.StatusCode != 404 {
			t.Errorf("%s: %d %s", p, r.StatusCode, r.body)
		}
	}
}

func (e *env) output(id, data string) (handle string) {
	e.t.Helper()
	handle = blob.NewOutput()
	key, err := blob.OutputKey(id, handle)
	if err == nil {
		_, err = e.blobs.Put(e.t.Context(), key, strings.NewReader(data), 1<<20)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return handle
}

// TestOutputs: a whole output of a tool can be had, of its own job alone, and
// nothing runs.
func TestOutputs(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id, other := e.submit("t"), e.submit("u")
	long := strings.Repeat("<script>0123</script>\n", 5000)
	handle := e.output(id, long)
	at := func(id, handle string, headers ...string) reply {
		return e.do("GET", "/jobs/"+id+"/outputs/"+handle, "", headers...)
	}
	r := at(id, handle)
	if h := r.Header; r.StatusCode != 200 || string(r.body) != long || h.Get("Content-Type") != "text/plain; charset=utf-8" ||
		h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox; default-src 'none'") || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment; filename=") {
		t.Errorf("%d, %d bytes, %v", r.StatusCode, len(r.body), h)
	}
	if r := at(id, handle, "Range", "bytes=8-11"); r.StatusCode != 206 || string(r.body) != "0123" {
		t.Errorf("range: %d %q", r.StatusCode, r.body)
	}
	if r := at(id, handle, "If-None-Match", `"`+handle+`"`); r.StatusCode != 304 {
		t.Errorf("same tag: %d", r.StatusCode)
	}
	if r := at(id, handle, "Range", "bytes=9999999-"); r.StatusCode != 416 {
		t.Errorf("no such range: %d", r.StatusCode)
	}
	if r := at(id, e.output(id, "\x00\x01")); r.Header.Get("Content-Type") != "application/octet-stream" || string(r.body) != "\x00\x01" {
		t.Errorf("binary: %d %v", r.StatusCode, r.Header)
	}
	if r := at(id, e.output(id, "")); r.StatusCode != 200 || len(r.body) != 0 {
		t.Errorf("empty: %d %q", r.StatusCode, r.body)
	}
	for _, bad := range []string{blob.NewOutput(), "x", "out-", "..%2f..%2finput.zip", "out-" + strings.Repeat("u", 26), strings.Repeat("a", 5000)} {
		if r := at(id, bad); r.StatusCode != 404 || r.problem(t).Field != "handle" {
			t.Errorf("%.60s: %d %s", bad, r.StatusCode, r.body)
		}
	}
	if r := at(other, handle); r.StatusCode != 404 {
		t.Errorf("under another job: %d", r.StatusCode)
	}
}

// fakeGuest is the guest of a running job, with files by absolute path.
type fakeGuest struct{ files map[string]string }

func (g fakeGuest) Stat(_ context.Context, path string) (guest.Entry, error) {
	if text, ok := g.files[path]; ok {
		return guest.Entry{Path: path, Size: int64(len(text)), ModTime: time.Unix(1, 0)}, nil
	}
	if path == "/workspace/link" {
		return guest.Entry{Path: path, Mode: fs.ModeSymlink, Link: "/etc/shadow"}, nil
	}
	for p := range g.files {
		if strings.HasPrefix(p, path+"/") {
			return guest.Entry{Path: path, Mode: fs.ModeDir}, nil
		}
	}
	return guest.Entry{}, glovebox.Errorf(glovebox.CodeNotFound, "no %s", path)
}

func (g fakeGuest) ReadDir(_ context.Context, path string) (out []guest.Entry, more bool, err error) {
	for p, text := range g.files {
		if rest, ok := strings.CutPrefix(p, path+"/"); ok && !strings.Contains(rest, "/") {
			out = append(out, guest.Entry{Path: rest, Size: int64(len(text))})
		}
	}
	return out, false, nil
}

func (g fakeGuest) ReadFile(_ context.Context, path string, offset, limit int64) ([]byte, int64, error) {
	text := g.files[path]
	switch {
	case strings.HasSuffix(path, "shrinks") && offset > 0:
		return nil, offset, nil
	case strings.HasSuffix(path, "floods"):
		return make([]byte, limit+1), limit + 1, nil
	}
	return []byte(text[offset:min(offset+limit, int64(len(text)))]), int64(len(text)), nil
}

func TestFilesOfRunningJob(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 200_000) // 3.2 MB, several pieces
	g := fakeGuest{map[string]string{"/workspace/a.txt": "hi", "/workspace/big": big, "/workspace/shrinks": big, "/workspace/floods": "x", "/etc/passwd": "root"}}
	there := true
	e := newEnv(t, func(o *Options) {
		o.Guest = func(string) (Machine, bool) { return &fakeMachine{Files: g}, there }
	})
	id := e.submit("t")
	e.claim()
	if r := e.do("GET", "/jobs/"+id+"/files/a.txt", ""); string(r.body) != "hi" {
		t.Errorf("got %d %s", r.StatusCode, r.body)
	}
	if r := e.do("GET", "/jobs/"+id+"/files/big", ""); string(r.body) != big {
		t.Errorf("got %d, %d bytes", r.StatusCode, len(r.body))
	}
	list := decode[glovebox.DirList](t, e.do("GET", "/jobs/"+id+"/files/", "").body)
	if len(list.Entries) != 4 || list.Entries[0].Name != "a.txt" || list.Entries[0].Size != 2 {
		t.Errorf("got %+v", list)
	}
	for path, want := range map[string]int{"none": 404, "..%2fetc/passwd": 404, "link": 409, "floods": 503} {
		if r := e.do("GET", "/jobs/"+id+"/files/"+path, ""); r.StatusCode != want {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	// A file that shrinks under the reader breaks the answer off, so that nobody takes half for whole.
	resp, err := http.DefaultClient.Do(e.request("GET", "/jobs/"+id+"/files/shrinks", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("half a file was taken for whole")
	}
	if log := e.log.String(); !strings.Contains(log, "answer broken off") {
		t.Error("the log does not say so")
	}
	there = false
	if r := e.do("GET", "/jobs/"+id+"/files/a.txt", ""); r.StatusCode != 503 {
		t.Errorf("no guest: %d", r.StatusCode)
	}
}
