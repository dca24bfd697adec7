//go:build linux

package client_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/snap"
)

// TestStepByStep: control, steps, differences and files of a step.
func TestStepByStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	id := w.schedule("t")
	if v, err := w.c.SetControl(ctx, id, glovebox.ControlUser); err != nil || v.Control != glovebox.ControlUser {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := w.c.SetControl(ctx, id, glovebox.ControlAgent); err != nil || v.Control != glovebox.ControlAgent {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := w.c.SetControl(ctx, id, "root"); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("%v", err)
	}
	l := w.claim()
	repo := snap.NewRepo(t.TempDir())
	defer repo.Close()
	dir := t.TempDir()
	var pack bytes.Buffer
	var commit string
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d/a.txt"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := repo.Checkpoint(dir, "", "m", func(f func() error) error { return f() }, func(i snap.Info) error { commit = i.Commit.String(); return nil }, &pack); err != nil {
		t.Fatal(err)
	}
	key := "jobs/" + id + "/checkpoints/1.pack"
	if _, err := w.blobs.Put(ctx, key, &pack, 1<<20); err != nil {
		t.Fatal(err)
	}
	const steps = 450 // three pages
	for range steps {
		w.append(l, glovebox.NewEvent(time.Now(), glovebox.EventModelRequested, glovebox.ModelRequested{}),
			glovebox.NewEvent(time.Now(), glovebox.EventModelAnswered, glovebox.ModelAnswered{}))
	}
	w.append(l, glovebox.NewEvent(time.Now(), glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: commit, Pack: key, Whole: true}))
	n := int64(0)
	for s, err := range w.c.Steps(ctx, id, -1) {
		if err != nil || s.Step != n {
			t.Fatalf("step %d is %d, %v", n, s.Step, err)
		}
		n++
	}
	if n != steps+1 {
		t.Errorf("%d steps", n)
	}
	for s, err := range w.c.Steps(ctx, id, steps-1) {
		if err != nil || s.Step != steps || s.Commit != commit {
			t.Errorf("%+v, %v", s, err)
		}
	}
	for _, err := range w.c.Steps(ctx, "x", -1) {
		if glovebox.CodeOf(err) != glovebox.CodeNotFound {
			t.Errorf("%v", err)
		}
	}
	d, err := w.c.Diff(ctx, id, "", "", "d")
	if err != nil || len(d.Files) != 1 || !strings.Contains(d.Files[0].Text, "+hello") {
		t.Errorf("%+v, %v", d, err)
	}
	body, size, err := w.c.FileAt(ctx, id, "d/a.txt", "now")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if b, err := io.ReadAll(body); err != nil || string(b) != "hello\n" || size != 6 {
		t.Errorf("%q of %d, %v", b, size, err)
	}
	if l, err := w.c.DirAt(ctx, id, "d", "now"); err != nil || len(l.Entries) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := w.c.DirAt(ctx, id, "d/a.txt", "now"); glovebox.CodeOf(err) != glovebox.CodeConflict {
		t.Errorf("%v", err)
	}
	if _, _, err := w.c.FileAt(ctx, id, "d", "now"); glovebox.CodeOf(err) != glovebox.CodeConflict {
		t.Errorf("%v", err)
	}
	if _, _, err := w.c.FileAt(ctx, id, "d/a.txt", "0"); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("%v", err)
	}
}
