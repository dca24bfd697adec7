//go:build linux

package guestd

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
)

// Bounds of watching.
const (
	maxWatched   = 8192 // directories
	maxBatch     = 1000 // paths; more become the watched directory itself
	batchSilence = 100 * time.Millisecond
)

// watch sends the paths that change below a directory. Directories that are
// rebuilt rather than written are not watched.
func (f *framed) watch() error {
	var q guestpb.WatchRequest
	if err := f.r.ReadMessage(&q); err != nil {
		return err
	}
	dir, err := f.s.resolveDir(q.Dir)
	if err != nil {
		return err
	}
	w, err := fsnotify.NewBufferedWatcher(4096)
	if err != nil {
		return glovebox.Errorf(glovebox.CodeLimit, "watch: %w", err)
	}
	defer w.Close()
	wt := &watcher{f: f, w: w, dir: dir, changed: map[string]bool{}}
	if err := wt.add(dir, true); err != nil {
		return f.s.hide(err)
	}
	f.watchClose(nil)
	if err := f.send(&guestpb.WatchBatch{}); err != nil { // it watches from now on
		return err
	}
	return wt.loop()
}

type watcher struct {
	f       *framed
	w       *fsnotify.Watcher
	dir     string
	dirs    int
	changed map[string]bool
	all     bool // too much changed to be listed
}

// unwatched are directories whose content is made by tools in bulk.
var unwatched = []string{".git", "node_modules", ".venv", "__pycache__", "target", ".cache"}

// add watches a directory and all below. What is found in one that is new
// counts as changed, since it may have come before the watch.
func (wt *watcher) add(dir string, first bool) error {
	return wt.f.s.asUser(func() error {
		return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				if p == wt.dir {
					return err
				}
				return nil
			}
			if !d.IsDir() {
				if !first {
					wt.note(p)
				}
				return nil
			}
			if p != wt.dir && slices.Contains(unwatched, d.Name()) {
				return fs.SkipDir
			}
			if wt.dirs++; wt.dirs > maxWatched {
				wt.all = true
				return fs.SkipAll
			}
			if err := wt.w.Add(p); err != nil && p == wt.dir {
				return err
			}
			return nil
		})
	})
}

func (wt *watcher) note(p string) {
	rel, err := filepath.Rel(wt.dir, p)
	if err != nil || strings.Contains(filepath.Base(p), tempMark) {
		return
	}
	if len(wt.changed) >= maxBatch {
		wt.all = true
		return
	}
	wt.changed[rel] = true
}

func (wt *watcher) loop() error {
	var flush <-chan time.Time
	for {
		select {
		case ev, ok := <-wt.w.Events:
			if !ok {
				return glovebox.Errorf(glovebox.CodeUnavailable, "the watch of %q ended", wt.f.s.virtual(wt.dir))
			}
			if ev.Op == fsnotify.Chmod {
				continue
			}
			wt.note(ev.Name)
			if ev.Has(fsnotify.Create) {
				_ = wt.add(ev.Name, false) // a file is noted again; a directory is watched
			}
		case _, ok := <-wt.w.Errors:
			if !ok {
				return glovebox.Errorf(glovebox.CodeUnavailable, "the watch of %q ended", wt.f.s.virtual(wt.dir))
			}
			wt.all = true // events were lost
		case <-flush:
			flush = nil
			if err := wt.flush(); err != nil {
				return err
			}
			continue
		case <-wt.f.ctx.Done():
			return nil
		}
		if flush == nil && (wt.all || len(wt.changed) > 0) {
			flush = time.After(batchSilence)
		}
	}
}

func (wt *watcher) flush() error {
	b := &guestpb.WatchBatch{}
	if wt.all {
		b.Paths = []string{"."}
	} else {
		for p := range wt.changed {
			b.Paths = append(b.Paths, p)
		}
		slices.Sort(b.Paths)
	}
	wt.changed, wt.all = map[string]bool{}, false
	return wt.f.send(b)
}
