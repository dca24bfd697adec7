package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/memory/instruction"
)

// Workspace is what the loop itself reads of a job's workspace, to find files
// of instructions. A *guest.Client is one.
type Workspace interface {
	ReadDir(ctx context.Context, path string) (entries []guest.Entry, more bool, err error)
	ReadFile(ctx context.Context, path string, offset, limit int64) (data []byte, size int64, err error)
}

// Bounds of looking for files of instructions.
const (
	maxSources  = 10 // files that hold instructions at one time
	maxFolders  = 8  // that are looked into before one call of the model
	maxPending  = 64 // folders that are to be looked into
	maxSource   = 256 << 10
	sourceTime  = 3 * time.Second
	sourceTries = 3       // looks in a row that may fail
	allChanges  = 200     // so many changes in one event may not be all
	maxLooked   = 2 << 10 // folders that are remembered
)

// lookout knows which files of instructions have to be read again. It is a
// reading of the log, but for what was looked at in vain.
type lookout struct {
	read    map[string][sha256.Size]byte // newest text that was recorded, by path; of none that is gone
	looked  map[string]bool              // folders
	folders []string                     // to look into
	paths   []string                     // to read again
	root    bool                         // the root has to be looked into
	fails   int
}

// apply reads the next event of the log.
func (l *lookout) apply(e glovebox.Event) error {
	switch e.Type {
	case glovebox.EventCreated:
		c, err := glovebox.Decode[glovebox.Created](e)
		*l = lookout{read: map[string][sha256.Size]byte{}, looked: map[string]bool{}, root: c.Files != nil}
		return err
	case glovebox.EventSandboxReady:
		s, err := glovebox.Decode[glovebox.SandboxReady](e)
		if s.How == "rebuilt" { // what was newer than the copy is gone
			l.again()
		}
		return err
	case glovebox.EventCheckpoint:
		c, err := glovebox.Decode[glovebox.CheckpointSaved](e)
		l.changed(c.Changes)
		return err
	case glovebox.EventControl:
		c, err := glovebox.Decode[glovebox.ControlChanged](e)
		l.changed(c.Changes)
		return err
	case glovebox.EventInstructions:
		r, err := glovebox.Decode[glovebox.InstructionsRead](e)
		if err != nil {
			return err
		}
		if delete(l.read, r.Path); r.Text != "" {
			l.read[r.Path] = textSum(r)
		}
	}
	return nil
}

func textSum(r glovebox.InstructionsRead) [sha256.Size]byte { return sha256.Sum256([]byte(r.Text)) }

// changed notes what has to be looked at after files changed.
func (l *lookout) changed(changes []glovebox.FileChange) {
	if len(changes) >= allChanges {
		l.again()
	}
	touched := make([]string, 0, len(changes))
	for _, c := range changes {
		touched = append(touched, c.Path)
		if p := path.Clean(c.Path); instruction.IsSource(p) && !slices.Contains(l.paths, p) && len(l.paths) < maxPending {
			l.paths = append(l.paths, p)
			l.fails = 0
		}
	}
	for _, f := range instruction.Folders(touched, maxPending) {
		if !l.looked[f] && !slices.Contains(l.folders, f) && len(l.folders) < maxPending {
			l.folders = append(l.folders, f)
		}
	}
}

// again notes that any file may be another.
func (l *lookout) again() {
	l.root = true
	for p := range l.read {
		if !slices.Contains(l.paths, p) {
			l.paths = append(l.paths, p)
		}
	}
	slices.Sort(l.paths)
}

func (l *lookout) due() bool { return l.root || len(l.paths)+len(l.folders) > 0 }

// readInstructions records files of the workspace that hold instructions, if
// there are new ones or they changed. That it can't is no failure of the job.
func (r *run) readInstructions(ctx context.Context) error {
	l := &r.lookout
	if r.Workspace == nil || !l.due() || l.fails >= sourceTries {
		return nil
	}
	var found []glovebox.InstructionsRead
	var failed error
	_, panicked, end := r.during(ctx, action{}, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, sourceTime)
		defer cancel()
		g, err := r.Host.Guest(ctx)
		if err != nil {
			failed = err
			return
		}
		found, failed = r.look(ctx, r.Workspace(g))
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if end != nil {
		return end
	}
	if err := r.sync(ctx); err != nil { // Guest appends too
		return err
	}
	if failed = errors.Join(failed, panicked); failed != nil {
		if glovebox.CodeOf(failed) == glovebox.CodeFenced {
			return failed
		}
		l.fails++
		r.Log.Debug("files of instructions could not be read", "error", failed)
	} else {
		l.fails, l.root, l.paths = 0, false, nil
	}
	events := make([]glovebox.Event, 0, len(found))
	for _, f := range found {
		events = append(events, event(glovebox.EventInstructions, f))
	}
	if len(events) == 0 {
		return nil
	}
	return r.append(ctx, events)
}

// look looks into folders that are due, reads files that are due, and returns
// those that are not as they were recorded. What it found before an error
// counts.
func (r *run) look(ctx context.Context, w Workspace) ([]glovebox.InstructionsRead, error) {
	l := &r.lookout
	var due []string
	if l.root {
		names, err := names(ctx, w, ".")
		if err != nil {
			return nil, err
		}
		due = instruction.Sources("", names)
	}
	add := func(paths []string) {
		for _, p := range paths {
			if !slices.Contains(due, p) {
				due = append(due, p)
			}
		}
	}
	add(l.paths)
	for n := 0; n < maxFolders && len(l.folders) > 0; n++ {
		f := l.folders[0]
		names, err := names(ctx, w, f)
		if err != nil {
			return nil, err
		}
		if l.folders = l.folders[1:]; len(l.looked) < maxLooked {
			l.looked[f] = true
		}
		add(instruction.Sources(f, names))
	}
	var found []glovebox.InstructionsRead
	there := len(l.read)
	for _, p := range due {
		_, known := l.read[p]
		if !known && there >= maxSources {
			r.Log.Debug("a file of instructions is passed over: there are enough", "path", p)
			continue
		}
		f, err := r.source(ctx, w, p)
		if err != nil {
			return found, err
		}
		switch {
		case f.Text == "" && !known, f.Text != "" && l.read[p] == textSum(f):
			continue
		case f.Text == "":
			there--
		case !known:
			there++
		}
		found = append(found, f)
	}
	return found, nil
}

// names returns the names of the regular files in a folder; none if there is
// no such folder.
func names(ctx context.Context, w Workspace, folder string) ([]string, error) {
	entries, _, err := w.ReadDir(ctx, folder)
	if err != nil {
		return nil, unlessMissing(err)
	}
	var out []string
	for _, e := range entries {
		if e.Mode.IsRegular() {
			out = append(out, path.Base(e.Path))
		}
	}
	return out, nil
}

// source reads a file of instructions. Its text is empty if there is none,
// and the whole is kept outside the log if it is too long for an event.
func (r *run) source(ctx context.Context, w Workspace, p string) (glovebox.InstructionsRead, error) {
	f := glovebox.InstructionsRead{Path: p}
	data, size, err := w.ReadFile(ctx, p, 0, maxSource)
	if err != nil {
		return f, unlessMissing(err)
	}
	var cut bool
	f.Text, cut = instruction.Conventions(p, string(data))
	if cut || f.Text != "" && size > int64(len(data)) {
		if f.Blob, err = r.Host.Save(ctx, data); err != nil {
			return f, err
		}
	}
	return f, nil
}

// unlessMissing returns what keeps a file from being read for now, not that
// there is none, or something else in its place.
func unlessMissing(err error) error {
	switch glovebox.CodeOf(err) {
	case glovebox.CodeUnavailable, glovebox.CodeInternal, glovebox.CodeFenced:
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
