//go:build linux

package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/snap"
)

// shelf holds packs, and counts how often they are opened.
type shelf struct {
	mu     sync.Mutex
	packs  map[string][]byte
	opened int
	live   int
}

func newShelf() *shelf { return &shelf{packs: map[string][]byte{}} }

func (s *shelf) open(_ context.Context, key string) (Pack, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.packs[key]
	if !ok {
		return nil, glovebox.Errorf(glovebox.CodeNotFound, "no pack %s", key)
	}
	s.opened++
	s.live++
	return &volume{bytes.NewReader(b), s}, nil
}

type volume struct {
	*bytes.Reader
	s *shelf
}

func (v *volume) Close() error {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.s.live--
	return nil
}

// world is a workspace whose checkpoints go onto a shelf.
type world struct {
	testing.TB
	*shelf
	repo *snap.Repo
	dir  string
	keys []string
	last string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, shelf: newShelf(), repo: snap.NewRepo(t.TempDir()), dir: t.TempDir()}
	t.Cleanup(func() {
		w.repo.Close()
		if w.live != 0 {
			t.Errorf("%d packs are open still", w.live)
		}
	})
	return w
}

func (w *world) write(name, body string) {
	w.Helper()
	p := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(body), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// take makes a checkpoint and returns its commit.
func (w *world) take() string {
	w.Helper()
	var pack bytes.Buffer
	var info snap.Info
	err := w.repo.Checkpoint(w.dir, w.last, "m", func(f func() error) error { return f() }, func(i snap.Info) error { info = i; return nil }, &pack)
	w.must(err)
	if pack.Len() > 0 {
		key := fmt.Sprint("pack-", len(w.keys))
		w.keys = append(w.keys, key)
		w.packs[key] = pack.Bytes()
	}
	w.last = info.Commit.String()
	return w.last
}

func (w *world) load() *Repo {
	w.Helper()
	r := New(w.open)
	w.must(r.Load(w.Context(), w.keys))
	return r
}

func TestSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := w.take()
	w.write("a.txt", "1\n2\n3\n")
	w.write("src/main.go", "package main\n")
	w.write("src/.git/config", "x")
	w.write("bin/tool", "#!/bin/sh\n")
	w.must(os.Chmod(filepath.Join(w.dir, "bin/tool"), 0o755))
	w.must(os.Symlink("../../etc/passwd", filepath.Join(w.dir, "link")))
	one := w.take()
	w.write("a.txt", "1\n2\nthree\n")
	w.write("picture", "\x00\x01")
	w.must(os.Remove(filepath.Join(w.dir, "src/main.go")))
	two := w.take()
	r := w.load()
	ctx := t.Context()

	list, more, err := r.List(ctx, one, ".")
	w.must(err)
	want := []Entry{{Name: "a.txt", Type: "file", Size: 6}, {Name: "bin", Type: "dir"}, {Name: "link", Type: "symlink", Size: 16}, {Name: "src", Type: "dir"}}
	if more || !slices.Equal(list, want) {
		t.Errorf("listed %+v", list)
	}
	for _, c := range []struct{ commit, name, want string }{
		{one, "a.txt", "1\n2\n3\n"}, {two, "a.txt", "1\n2\nthree\n"}, {one, "/src/../src/main.go", "package main\n"}, {two, "src/.git/config", "x"},
	} {
		if got, size, err := r.Read(ctx, c.commit, c.name, 0, 100); err != nil || string(got) != c.want || size != int64(len(c.want)) {
			t.Errorf("%s is %q of %d, %v", c.name, got, size, err)
		}
	}
	if got, size, err := r.Read(ctx, two, "a.txt", 4, 3); err != nil || string(got) != "thr" || size != 10 {
		t.Errorf("a part is %q of %d, %v", got, size, err)
	}
	if e, err := r.Stat(ctx, one, "bin/tool"); err != nil || !e.Executable || e.Type != "file" {
		t.Errorf("%+v, %v", e, err)
	}
	for name, code := range map[string]glovebox.Code{
		"gone": glovebox.CodeNotFound, "a.txt/x": glovebox.CodeNotFound, "src": glovebox.CodeConflict, "link": glovebox.CodeConflict, "": glovebox.CodeConflict,
		strings.Repeat("x/", 300) + "x": glovebox.CodeNotFound,
	} {
		if _, _, err := r.Read(ctx, one, name, 0, 1); glovebox.CodeOf(err) != code {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	if _, _, err := r.List(ctx, one, "a.txt"); glovebox.CodeOf(err) != glovebox.CodeConflict {
		t.Errorf("a file is listed: %v", err)
	}
	for _, commit := range []string{"", "x", strings.Repeat("0", 40)} {
		if _, err := r.Stat(ctx, commit, "."); err == nil {
			t.Errorf("commit %q is there", commit)
		}
	}

	d, err := r.Diff(ctx, one, two, "")
	w.must(err)
	wantDiff := []FileDiff{
		{Path: "a.txt", Status: "modified", Added: 1, Deleted: 1, Text: "@@ -1,3 +1,3 @@\n 1\n 2\n-3\n+three\n", OldMode: "file", NewMode: "file"},
		{Path: "picture", Status: "added", Added: -1, Deleted: -1, Binary: true, NewMode: "file"},
		{Path: "src/main.go", Status: "deleted", Deleted: 1, Text: "@@ -1 +0,0 @@\n-package main\n", OldMode: "file"},
	}
	if d.More || !slices.Equal(d.Files, wantDiff) {
		t.Errorf("differs by %+v", d.Files)
	}
	for _, from := range []string{"", empty} {
		d, err = r.Diff(ctx, from, one, "")
		w.must(err)
		var names []string
		for _, f := range d.Files {
			names = append(names, f.Status+" "+f.NewMode+" "+f.Path)
		}
		if got := strings.Join(names, ", "); got != "added file a.txt, added executable bin/tool, added symlink link, added file src/main.go" {
			t.Errorf("from the start: %s", got)
		}
	}
	for only, n := range map[string]int{"src": 1, "a.txt": 1, "bin": 0, "src/.git": 0, "src/main.go": 1} {
		if d, err := r.Diff(ctx, one, two, only); err != nil || len(d.Files) != n {
			t.Errorf("%s: %+v, %v", only, d.Files, err)
		}
	}
	if _, err := r.Diff(ctx, one, two, "nowhere"); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("a path that is nowhere: %v", err)
	}
	before := w.opened
	w.must(r.Load(ctx, w.keys))
	if w.opened != before {
		t.Error("packs are read in again")
	}
}

// TestDiffAgreesWithPatch applies what Diff says with patch(1).
func TestDiffAgreesWithPatch(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("patch is not installed")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var b strings.Builder
		for range rnd.IntN(60) {
			fmt.Fprintln(&b, rnd.IntN(8))
		}
		s := b.String()
		if rnd.IntN(3) == 0 {
			s = strings.TrimSuffix(s, "\n")
		}
		return s
	}
	dir := t.TempDir()
	for i := range 60 {
		a, b := text(), text()
		if i%2 == 0 { // most differences are small
			ls := strings.SplitAfter(a, "\n")
			ls[rnd.IntN(len(ls))] = "new\n"
			b = strings.Join(ls, "")
		}
		e := compare(lines([]byte(a)), lines([]byte(b)))
		hunks, cut := e.unified(1 << 20)
		if cut {
			t.Fatal("cut")
		}
		var was, is strings.Builder
		for _, x := range e {
			if x.op != '+' {
				was.WriteString(x.text)
			}
			if x.op != '-' {
				is.WriteString(x.text)
			}
		}
		if was.String() != a || is.String() != b {
			t.Fatalf("%q to %q is %v", a, b, e)
		}
		if hunks == "" {
			continue
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, []byte(a), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("patch", "-s", "--fuzz=0", file)
		cmd.Stdin = strings.NewReader("--- a\n+++ b\n" + hunks)
		out, err := cmd.CombinedOutput()
		if got, _ := os.ReadFile(file); err != nil || string(got) != b && len(b) > 0 {
			t.Fatalf("patch: %v %s\n%s\n%q to %q came to %q", err, out, hunks, a, b, got)
		}
	}
}

// TestShortest compares the number of edits with the definition.
func TestShortest(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	var common func(a, b []string) int
	common = func(a, b []string) int {
		switch {
		case len(a) == 0 || len(b) == 0:
			return 0
		case a[0] == b[0]:
			return 1 + common(a[1:], b[1:])
		}
		return max(common(a[1:], b), common(a, b[1:]))
	}
	for range 2000 {
		a, b := make([]string, rnd.IntN(10)), make([]string, rnd.IntN(10))
		for _, s := range [][]string{a, b} {
			for i := range s {
				s[i] = fmt.Sprint(rnd.IntN(4), "\n")
			}
		}
		added, deleted := compare(a, b).count()
		if want := len(a) + len(b) - 2*common(a, b); int(added+deleted) != want {
			t.Fatalf("%q to %q: +%d -%d, want %d", a, b, added, deleted, want)
		}
	}
	many := make([]string, 5000)
	other := make([]string, 4000)
	for i := range many {
		many[i] = fmt.Sprint("a", i, "\n")
	}
	for i := range other {
		other[i] = fmt.Sprint("b", i, "\n")
	}
	if added, deleted := compare(many, other).count(); added != 4000 || deleted != 5000 {
		t.Errorf("what is too different: +%d -%d", added, deleted)
	}
}

func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.take()
	for i := range maxFiles + 5 {
		w.write(fmt.Sprintf("d%d/f%d", i%7, i), strings.Repeat("line\n", 400))
	}
	w.write("0large", strings.Repeat("x", maxCompared+1))
	w.write("1long", strings.Repeat("xxxxxxxxx\n", maxFileText/10+1))
	w.write("2lines", strings.Repeat("\n", maxLines+1))
	b := w.take()
	r := w.load()
	d, err := r.Diff(t.Context(), a, b, "")
	w.must(err)
	total := 0
	for _, f := range d.Files {
		total += len(f.Text)
	}
	if !d.More || len(d.Files) != maxFiles || total > maxTotalText || !d.Files[0].Large || !d.Files[1].Cut || !d.Files[2].Large {
		t.Errorf("%d files with %d bytes, %v", len(d.Files), total, d.Files[0])
	}
	if last := d.Files[len(d.Files)-1]; !last.Cut || last.Added != 400 {
		t.Errorf("beyond the bound: %+v", last)
	}
	if d, err := r.Diff(t.Context(), a, b, d.Files[len(d.Files)-1].Path); err != nil || len(d.Files) != 1 || d.Files[0].Cut {
		t.Errorf("one alone: %v, %v", d, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Diff(ctx, a, b, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits any more: %v", err)
	}
	if err := New(w.open).Load(ctx, w.keys); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits any more: %v", err)
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("a", "1")
	one := w.take()
	first := slices.Clone(w.keys)
	w.write("a", "2")
	two := w.take()
	c := NewCache(w.open)
	ctx := t.Context()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r, err := c.Repo(ctx, "job", first)
			if err != nil {
				t.Error(err)
				return
			}
			if b, _, err := r.Read(ctx, one, "a", 0, 9); err != nil || string(b) != "1" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
	wg.Wait()
	before := w.opened
	r, err := c.Repo(ctx, "job", w.keys)
	w.must(err)
	if w.opened != before+1 {
		t.Errorf("%d packs were opened for one that is new", w.opened-before)
	}
	if b, _, err := r.Read(ctx, two, "a", 0, 9); err != nil || string(b) != "2" {
		t.Errorf("%q, %v", b, err)
	}
	for i := range cachedJobs + 5 {
		if _, err := c.Repo(ctx, fmt.Sprint("job", i), w.keys); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.repos) != cachedJobs || c.repos["job"] != nil {
		t.Errorf("%d jobs are cached", len(c.repos))
	}
	if _, err := c.Repo(ctx, "job", []string{"gone"}); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("a pack that is gone: %v", err)
	}
}

func BenchmarkScrub(b *testing.B) {
	w := newWorld(b)
	var commits []string
	for i := range 30 {
		for k := range 100 {
			w.write(fmt.Sprintf("d%d/f%d.txt", k%10, k*30+i), strings.Repeat(fmt.Sprintln("line", i, k), 100))
		}
		w.write("main.txt", strings.Repeat(fmt.Sprintln("line"), i)+"x\n")
		commits = append(commits, w.take())
	}
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			if err := New(w.open).Load(b.Context(), w.keys); err != nil {
				b.Fatal(err)
			}
		}
	})
	r := w.load()
	b.Run("diff of a step", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			n := i%29 + 1
			if _, err := r.Diff(b.Context(), commits[n-1], commits[n], ""); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("file", func(b *testing.B) {
		for b.Loop() {
			body, _, err := r.Open(b.Context(), commits[29], "main.txt")
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, body)
			body.Close()
		}
	})
}
