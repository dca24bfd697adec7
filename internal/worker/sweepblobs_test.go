package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// TestSweepBlobs: what is left of an upload without a job, or of a job that
// was deleted, goes; what belongs to a job, or may soon, stays.
func TestSweepBlobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	known, unknown := w.submit(), glovebox.NewID()
	keys := map[string]string{}
	for _, name := range []string{known, unknown, "not-an-id"} {
		keys[name] = blob.JobPrefix(name) + "input.zip"
		if _, err := w.blobs.Put(w.ctx(), keys[name], strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (names string) {
		for _, name := range []string{known, unknown, "not-an-id"} {
			if f, err := w.blobs.Open(w.ctx(), keys[name]); err == nil {
				f.Close()
				names += name + " "
			}
		}
		return names
	}
	all := known + " " + unknown + " not-an-id "
	now := time.Now()
	o := w.options()
	o.Now = func() time.Time { return now }
	worker := New(o)
	if worker.sweepBlobs(w.ctx()); left() != all {
		t.Errorf("a young one: left %s", left())
	}
	now = now.Add(orphanAge + time.Minute)
	o.Store = deafStore{w.store}
	if New(o).sweepBlobs(w.ctx()); left() != all {
		t.Errorf("without an answer of the store: left %s", left())
	}
	if worker.sweepBlobs(w.ctx()); left() != known+" not-an-id " {
		t.Errorf("left %s", left())
	}
}

// deafStore does not say which jobs there are.
type deafStore struct{ store.Store }

func (deafStore) Job(context.Context, string, string) (*glovebox.Job, error) {
	return nil, errors.New("no answer")
}
