//go:build linux

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/snap"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// tale is a job whose workspace is kept step by step.
type tale struct {
	*env
	l    store.Lease
	repo *snap.Repo
	dir  string
	last string
	n    int
}

func newTale(t *testing.T) *tale {
	t.Helper()
	s := &tale{env: newEnv(t), repo: snap.NewRepo(t.TempDir()), dir: t.TempDir()}
	t.Cleanup(func() { s.repo.Close() })
	s.submit("t")
	s.l = s.claim()
	return s
}

// keep makes a checkpoint after files were written; an empty text removes one.
func (s *tale) keep(files map[string]string) string {
	s.t.Helper()
	for name, text := range files {
		p := filepath.Join(s.dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if text == "" {
			err = os.Remove(p)
		} else if err == nil {
			err = os.WriteFile(p, []byte(text), 0o644)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	var pack bytes.Buffer
	var info snap.Info
	err := s.repo.Checkpoint(s.dir, s.last, "m", func(f func() error) error { return f() }, func(i snap.Info) error { info = i; return nil }, &pack)
	if err != nil {
		s.t.Fatal(err)
	}
	s.n++
	c := glovebox.CheckpointSaved{Commit: info.Commit.String(), Parent: s.last, Pack: fmt.Sprintf("%scheckpoints/%d.pack", blob.JobPrefix(s.l.JobID), s.n), Whole: info.Whole}
	for _, f := range info.Changes {
		c.Changes = append(c.Changes, glovebox.FileChange(f))
	}
	if _, err := s.blobs.Put(context.Background(), c.Pack, &pack, 1<<30); err != nil {
		s.t.Fatal(err)
	}
	s.append(s.l, ev(glovebox.EventCheckpoint, c))
	s.last = c.Commit
	return c.Commit
}

// step records a step that calls tools.
func (s *tale) step(n int64, tools ...string) {
	s.t.Helper()
	s.append(s.l, ev(glovebox.EventModelRequested, glovebox.ModelRequested{Step: n}),
		ev(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: "overloaded", Retry: true, Usage: glovebox.Usage{Input: 1}}),
		ev(glovebox.EventModelRequested, glovebox.ModelRequested{Step: n, Attempt: 2}),
		ev(glovebox.EventModelAnswered, glovebox.ModelAnswered{Usage: glovebox.Usage{Input: 10, Calls: 1}}))
	for i, name := range tools {
		s.append(s.l, ev(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: fmt.Sprint(n, i), Name: name, IsError: strings.HasPrefix(name, "bad")}))
	}
}

func (s *tale) get(path string) reply {
	s.t.Helper()
	return s.do("GET", "/jobs/"+s.l.JobID+path, "")
}

// tell tells of two steps.
func (s *tale) tell() (start, one, two string) {
	s.t.Helper()
	start = s.keep(map[string]string{"given.txt": "a\nb\n"})
	s.step(1, "shell", "bad_tool", "shell")
	one = s.keep(map[string]string{"src/new.txt": "1\n", "given.txt": "a\nB\n", "page.html": "<script>alert(1)</script>\n"})
	s.append(s.l, ev(glovebox.EventPhase, glovebox.PhaseChanged{Phase: glovebox.PhaseWorking}),
		ev(glovebox.EventPlan, glovebox.PlanUpdated{Steps: []glovebox.PlanStep{{Text: "x", Status: glovebox.PlanActive}}}))
	s.step(2, "gui")
	// The picture of a step may come when the next one has begun.
	s.append(s.l, ev(glovebox.EventScreen, glovebox.ScreenCaptured{Step: 1, Blob: "out-first", Width: 8, Height: 5}),
		ev(glovebox.EventControl, glovebox.ControlChanged{Control: glovebox.ControlUser}))
	two = s.keep(map[string]string{"src/new.txt": "", "bin": "\x00\x01"})
	s.append(s.l, ev(glovebox.EventScreen, glovebox.ScreenCaptured{Step: 2, Blob: "out-second", Width: 8, Height: 5}))
	return start, one, two
}

func TestStepsOfAJob(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	if l := decode[glovebox.StepList](t, s.get("/steps").body); len(l.Steps) != 1 || l.Steps[0].Last != 2 || l.Steps[0].Commit != "" || l.End {
		t.Errorf("before it begins: %+v", l)
	}
	start, one, two := s.tell()
	l := decode[glovebox.StepList](t, s.get("/steps").body)
	if len(l.Steps) != 3 || l.More || l.End || l.Next != 2 {
		t.Fatalf("%+v", l)
	}
	for i, want := range []string{
		fmt.Sprintf(`{"step":0,"calls":0,"failed":0,"changed_files":0,"phase":"preparing","commit":%q,"usage":0}`, start),
		fmt.Sprintf(`{"step":1,"tools":["shell","bad_tool"],"calls":3,"failed":1,"changed_files":3,"changes":["given.txt","page.html","src/new.txt"],"phase":"working","plan":true,"commit":%q,"frame":"out-first","usage":11}`, one),
		fmt.Sprintf(`{"step":2,"tools":["gui"],"calls":1,"failed":0,"changed_files":2,"changes":["bin","src/new.txt"],"phase":"working","control":"user","plan":true,"commit":%q,"frame":"out-second","usage":22}`, two),
	} {
		g := l.Steps[i]
		short := struct {
			Step         int64            `json:"step"`
			Tools        []string         `json:"tools,omitempty"`
			Calls        int64            `json:"calls"`
			Failed       int64            `json:"failed"`
			ChangedFiles int64            `json:"changed_files"`
			Changes      []string         `json:"changes,omitempty"`
			Phase        glovebox.Phase   `json:"phase"`
			Control      glovebox.Control `json:"control,omitempty"`
			Plan         bool             `json:"plan,omitempty"`
			Commit       string           `json:"commit"`
			Frame        string           `json:"frame,omitempty"`
			Usage        int64            `json:"usage"`
		}{g.Step, g.Tools, g.Calls, g.Failed, g.ChangedFiles, nil, g.Phase, g.Control, g.PlanSeq > 0, g.Commit, g.Frame, g.Usage.Tokens()}
		for _, c := range g.Changes {
			short.Changes = append(short.Changes, c.Path)
		}
		if got, _ := json.Marshal(short); string(got) != want {
			t.Errorf("step %d is\n%s, want\n%s", i, got, want)
		}
		if i > 0 && g.First != l.Steps[i-1].Last+1 {
			t.Errorf("step %d begins at event %d, the one before ends at %d", i, g.First, l.Steps[i-1].Last)
		}
	}
	if l.Steps[2].Last != l.Seq {
		t.Errorf("the last event is %d of %d", l.Steps[2].Last, l.Seq)
	}
	if p := decode[glovebox.StepList](t, s.get("/steps?limit=1").body); len(p.Steps) != 1 || !p.More || p.Next != 0 {
		t.Errorf("the first page: %+v", p)
	}
	s.append(s.l, finished(glovebox.StatusCancelled))
	if p := decode[glovebox.StepList](t, s.get("/steps?after=1&limit=5").body); len(p.Steps) != 1 || p.Steps[0].Step != 2 || !p.End || p.Steps[0].Phase != glovebox.PhaseDone || p.Steps[0].Control != "" {
		t.Errorf("the last page: %+v", p)
	}
	if p := decode[glovebox.StepList](t, s.get("/steps?after=7").body); len(p.Steps) != 0 || p.More || p.Next != 7 {
		t.Errorf("beyond the end: %+v", p)
	}
	for _, bad := range []string{"?after=x", "?after=-1", "?limit=0", "?limit=501", "?x=1"} {
		if r := s.get("/steps" + bad); r.StatusCode != 400 {
			t.Errorf("%s: %d", bad, r.StatusCode)
		}
	}
}

func TestDiffOfSteps(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	if d := decode[glovebox.WorkspaceDiff](t, s.get("/diff").body); len(d.Files) != 0 || d.To.Commit != "" {
		t.Errorf("before there is anything: %+v", d)
	}
	start, one, two := s.tell()
	names := func(d glovebox.WorkspaceDiff) string {
		var out []string
		for _, f := range d.Files {
			out = append(out, f.Status+" "+f.Path)
		}
		return strings.Join(out, ", ")
	}
	for query, want := range map[string]string{
		"":                        "added bin, modified given.txt, added page.html",
		"?from=start&to=1":        "modified given.txt, added page.html, added src/new.txt",
		"?from=1&to=2":            "added bin, deleted src/new.txt",
		"?from=2&to=0":            "deleted bin, modified given.txt, deleted page.html",
		"?to=now&path=given.txt":  "modified given.txt",
		"?from=1&to=now&path=src": "deleted src/new.txt",
		"?from=2":                 "",
	} {
		r := s.get("/diff" + query)
		if d := decode[glovebox.WorkspaceDiff](t, r.body); names(d) != want {
			t.Errorf("%s: %s", query, r.body)
		}
	}
	r := s.get("/diff?path=given.txt")
	d := decode[glovebox.WorkspaceDiff](t, r.body)
	if f := d.Files[0]; f.Text != "@@ -1,2 +1,2 @@\n a\n-b\n+B\n" || f.Added != 1 || f.Deleted != 1 || d.From.Commit != start || d.To.Commit != two || d.To.Step != 2 {
		t.Errorf("%s", r.body)
	}
	if again := s.do("GET", "/jobs/"+s.l.JobID+"/diff?path=given.txt", "", "If-None-Match", r.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("again: %d", again.StatusCode)
	}
	for query, status := range map[string]int{"?from=x": 400, "?to=-1": 400, "?from=99": 404, "?path=../x": 404, "?path=nowhere": 404, "?x=1": 400} {
		if r := s.get("/diff" + query); r.StatusCode != status {
			t.Errorf("%s: %d %s", query, r.StatusCode, r.body)
		}
	}
	_ = one
}

func TestFilesOfAStep(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	if r := s.get("/files/?step=0"); r.StatusCode != 200 || len(decode[glovebox.DirList](t, r.body).Entries) != 0 {
		t.Errorf("before there is anything: %d %s", r.StatusCode, r.body)
	}
	s.tell()
	for path, want := range map[string]string{
		"/files/given.txt?step=start": "a\nb\n", "/files/given.txt?step=1": "a\nB\n", "/files/src/new.txt?step=1": "1\n", "/files/page.html?step=now": "<script>alert(1)</script>\n",
	} {
		r := s.get(path)
		if r.StatusCode != 200 || string(r.body) != want || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" || r.Header.Get("Content-Disposition") == "" {
			t.Errorf("%s: %d %q %v", path, r.StatusCode, r.body, r.Header)
		}
	}
	if l := decode[glovebox.DirList](t, s.get("/files/?step=1").body); len(l.Entries) != 3 || l.Entries[0] != (glovebox.DirEntry{Name: "given.txt", Type: "file", Size: 4}) || l.Entries[2].Type != "dir" {
		t.Errorf("%+v", l)
	}
	for path, status := range map[string]int{
		"/files/src/new.txt?step=2": 404, "/files/src/new.txt?step=0": 404, "/files/x?step=9": 404, "/files/x?step=": 404, "/files/x?step=y": 400, "/files/..%2f..%2fetc%2fpasswd?step=1": 404,
	} {
		if r := s.get(path); r.StatusCode != status {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
}

// TestDamagedHistory: packs come from sandboxes.
func TestDamagedHistory(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	s.tell()
	for key, text := range map[string]string{"checkpoints/2.pack": "PACK, they said", "checkpoints/1.pack": ""} {
		if _, err := s.blobs.Put(context.Background(), blob.JobPrefix(s.l.JobID)+key, strings.NewReader(text), 100); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if r := s.get("/diff?from=1&to=2"); r.StatusCode != 409 || !strings.Contains(r.problem(t).Detail, "can't be read") {
				t.Errorf("%d %s", r.StatusCode, r.body)
			}
		}
	}
	if err := s.blobs.DeletePrefix(context.Background(), blob.JobPrefix(s.l.JobID)); err != nil {
		t.Fatal(err)
	}
	other := newTale(t)
	other.tell()
	if err := other.blobs.DeletePrefix(context.Background(), blob.JobPrefix(other.l.JobID)); err != nil {
		t.Fatal(err)
	}
	if r := other.get("/files/given.txt?step=1"); r.StatusCode != 500 || strings.Contains(string(r.body), "checkpoints/") {
		t.Errorf("packs that are gone: %d %s", r.StatusCode, r.body)
	}
	if r := s.get("/steps"); r.StatusCode != 200 {
		t.Errorf("steps need no packs: %d", r.StatusCode)
	}
}

// TestFramesAreInert: a key frame is served as what it is, and as nothing else.
func TestFramesAreInert(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	for text, want := range map[string]string{
		"\xff\xd8\xff\xe0\x00\x10JFIF": "image/jpeg", "<svg onload=alert(1)>": "text/plain; charset=utf-8", "<html><script>": "text/plain; charset=utf-8",
	} {
		handle := blob.OutputOf([]byte(text))
		key, err := blob.OutputKey(s.l.JobID, handle)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.blobs.Put(context.Background(), key, strings.NewReader(text), 1000); err != nil {
			t.Fatal(err)
		}
		r := s.get("/outputs/" + handle)
		h := r.Header
		if r.StatusCode != 200 || string(r.body) != text || h.Get("Content-Type") != want || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Security-Policy") == "" || h.Get("Content-Disposition") == "" {
			t.Errorf("%q: %d %v", text, r.StatusCode, h)
		}
	}
}

func TestStoriesAreBounded(t *testing.T) {
	t.Parallel()
	var ss stories
	for i := range 5 {
		st := ss.get(fmt.Sprint("job", i))
		ss.trim(st, keptSteps/3)
	}
	if len(ss.m) != 2 || ss.m["job4"] == nil {
		t.Errorf("%d stories are kept", len(ss.m))
	}
	st := &story{}
	for n := int64(1); n <= 3*maxSteps; n += 2 {
		for i, typ := range []glovebox.EventType{glovebox.EventModelRequested, glovebox.EventModelAnswered} {
			e := ev(typ, glovebox.ModelAnswered{Usage: glovebox.Usage{Calls: 1}})
			e.Seq = n + int64(i)
			if err := st.apply(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := st.steps[len(st.steps)-1]
	if len(st.steps) != maxSteps+1 || last.Last != st.seq || last.Usage.Calls != st.seq/2 {
		t.Errorf("%d steps, the last %+v", len(st.steps), last)
	}
}
