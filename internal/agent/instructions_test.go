package agent

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// folder is a workspace in memory: files by path.
type folder struct {
	mu    sync.Mutex
	files map[string]string
	calls []string
	err   error
	stuck bool
}

func (f *folder) enter(ctx context.Context, call string) error {
	if f.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	f.calls = append(f.calls, call)
	return f.err
}

func (f *folder) ReadDir(ctx context.Context, dir string) ([]guest.Entry, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter(ctx, "list "+dir); err != nil {
		return nil, false, err
	}
	var out []guest.Entry
	for p := range f.files {
		if path.Dir(p) == dir {
			out = append(out, guest.Entry{Path: path.Base(p)})
		}
	}
	out = append(out, guest.Entry{Path: "CLAUDE.md", Mode: fs.ModeDir})
	return out, false, nil
}

func (f *folder) ReadFile(ctx context.Context, p string, _, limit int64) ([]byte, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter(ctx, "read "+p); err != nil {
		return nil, 0, err
	}
	text, ok := f.files[p]
	if !ok {
		return nil, 0, glovebox.Errorf(glovebox.CodeNotFound, "no %s", p)
	}
	return []byte(text[:min(len(text), int(limit))]), int64(len(text)), nil
}

// housed returns a world whose job began with files, and its options.
func housed(model modelFunc, f *folder) (*world, Options) {
	w := newWorld(glovebox.Limits{}, model)
	created, _ := glovebox.Decode[glovebox.Created](w.events[0])
	created.Files = &glovebox.Files{}
	w.job, w.events = &glovebox.Job{}, nil
	w.record(event(glovebox.EventCreated, created))
	w.claim()
	o := w.options()
	o.Workspace = func(*guest.Client) Workspace { return f }
	return w, o
}

// instructions returns what was recorded of files of instructions.
func (w *world) instructions() (out []string) {
	for _, e := range w.events {
		if e.Type == glovebox.EventInstructions {
			r, _ := glovebox.Decode[glovebox.InstructionsRead](e)
			out = append(out, r.Path+": "+strings.TrimSpace(r.Text))
		}
	}
	return out
}

func TestInstructionsAreReadBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		f := &folder{files: map[string]string{"AGENTS.md": "Use tabs.\n", "README.md": "# T\n\nHi.\n\n## Style\n\nShort.\n", "main.go": "package main", "web/CLAUDE.md": "no"}}
		var first string
		w, o := housed(func(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
			if first == "" {
				first = fmt.Sprint(r.Messages)
			}
			return script(turn(shell("a", "ls")), turn(shell("b", "ls")), turn(finish("f", "true")))(ctx, r, delta)
		}, f)
		out, err := Run(t.Context(), o)
		if err != nil || out.Status != glovebox.StatusComplete {
			t.Fatal(out, err)
		}
		if got := strings.Join(w.instructions(), "|"); got != "AGENTS.md: Use tabs.|README.md: ## Style\n\nShort." {
			t.Errorf("%q", got)
		}
		if got := strings.Join(f.calls, ","); got != "list .,read AGENTS.md,read README.md" { // once
			t.Errorf("%q", got)
		}
		if !strings.Contains(first, "Use tabs.") {
			t.Errorf("the first request has no instructions: %s", first)
		}
	})
}

func TestInstructionsAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		f := &folder{files: map[string]string{"AGENTS.md": "Old."}}
		w, o := housed(script(turn(shell("a", "1")), turn(shell("b", "2")), turn(shell("c", "3")), turn(shell("d", "4")), turn(finish("f", "true"))), f)
		changes := [][]glovebox.FileChange{
			{{Path: "AGENTS.md"}, {Path: "web/src/a.js"}, {Path: "web/src/b.js"}}, {{Path: "web/src/a.js"}}, {{Path: "AGENTS.md"}, {Path: "web/CLAUDE.md"}}, nil,
		}
		texts := []map[string]string{
			{"AGENTS.md": "New.", "web/CLAUDE.md": "Web."}, {"AGENTS.md": "New.", "web/CLAUDE.md": "Web."}, {"web/CLAUDE.md": "Web."}, {},
		}
		w.checkpoint = func() error {
			n := min(w.saved, len(changes)) - 1
			f.mu.Lock()
			defer f.mu.Unlock()
			f.files = texts[n]
			w.record(event(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c", Changes: changes[n]}))
			return nil
		}
		if out, err := Run(t.Context(), o); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatal(out, err)
		}
		if got := strings.Join(w.instructions(), "|"); got != "AGENTS.md: Old.|AGENTS.md: New.|web/CLAUDE.md: Web.|AGENTS.md: " {
			t.Errorf("%q", got)
		}
		if got := strings.Join(f.calls, ","); got != "list .,read AGENTS.md,list web/src,list web,read AGENTS.md,read web/CLAUDE.md,read AGENTS.md,read web/CLAUDE.md" {
			t.Errorf("%q", got)
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
		n := len(w.events)
		again := w.resumed(w.events[:n-1]) // another worker finds nothing new
		o = again.options()
		o.Workspace = func(*guest.Client) Workspace { return f }
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if len(again.instructions()) != len(w.instructions()) {
			t.Errorf("%q", again.instructions())
		}
	})
}

func TestInstructionsThatCantBeReadAreNoFailure(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*folder{
		"an error": {err: glovebox.Errorf(glovebox.CodeUnavailable, "gone")},
		"no end":   {stuck: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				var turns [][]glovebox.Block
				for i := range 6 {
					turns = append(turns, turn(shell(fmt.Sprint("c", i), fmt.Sprint(i))))
				}
				w, o := housed(script(append(turns, turn(finish("f", "true")))...), f)
				begun := time.Now()
				out, err := Run(t.Context(), o)
				synctest.Wait()
				if err != nil || out.Status != glovebox.StatusComplete || len(w.instructions()) != 0 {
					t.Fatal(out, err, w.instructions())
				}
				if len(f.calls) > sourceTries || time.Since(begun) > (sourceTries+1)*sourceTime {
					t.Errorf("it was tried %d times, for %v", len(f.calls), time.Since(begun))
				}
			})
		})
	}
}

func TestInstructionsAreBounded(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		f := &folder{files: map[string]string{"AGENTS.md": strings.Repeat("A long rule.\n", 10_000)}}
		var changes []glovebox.FileChange
		for i := range 30 {
			f.files[fmt.Sprintf("d%02d/AGENTS.md", i)] = "x"
			changes = append(changes, glovebox.FileChange{Path: fmt.Sprintf("d%02d/main.go", i)})
		}
		w, o := housed(script(turn(shell("a", "1")), turn(shell("b", "2")), turn(shell("c", "3")), turn(shell("d", "4")), turn(finish("f", "true"))), f)
		w.checkpoint = func() error {
			w.record(event(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c", Changes: changes}))
			return nil
		}
		if out, err := Run(t.Context(), o); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatal(out, err)
		}
		got := w.instructions()
		if len(got) != maxSources || len(got[0]) > glovebox.MaxInstructions+20 {
			t.Errorf("%d files, the first of %d bytes", len(got), len(got[0]))
		}
		for _, e := range w.events {
			if e.Type == glovebox.EventInstructions {
				r, _ := glovebox.Decode[glovebox.InstructionsRead](e)
				if whole := w.blobs[r.Blob]; r.Path == "AGENTS.md" && len(whole) != len(f.files["AGENTS.md"]) {
					t.Errorf("the whole has %d bytes", len(whole))
				}
			}
		}
	})
}
