package worker

import (
	"context"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
)

const (
	blobsEvery = time.Hour // looking at every job's blobs is more work than looking at sandboxes

	// orphanAge is how long blobs are left alone whose job the store does not
	// know: an upload is stored a moment before its job is.
	orphanAge = time.Hour
)

// sweepBlobs removes the blobs of jobs that the store does not know: an
// upload whose job was not made before the server died, or what could not be
// removed with its job. So a blob store belongs to one database.
func (w *Worker) sweepBlobs(ctx context.Context) {
	l, ok := w.o.Blobs.(blob.Lister)
	if !ok {
		return
	}
	entries, err := l.List(ctx, blob.Jobs)
	if err != nil {
		if ctx.Err() == nil {
			w.o.Log.Warn("can't look for blobs that are left", "error", err)
		}
		return
	}
	for _, e := range entries {
		id := strings.TrimSuffix(e.Name, "/")
		if !glovebox.ValidID(id) || w.o.Now().Sub(e.Modified) < orphanAge {
			continue
		}
		if _, err := w.o.Store.Job(ctx, "", id); glovebox.CodeOf(err) != glovebox.CodeNotFound {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		if err := w.o.Blobs.DeletePrefix(ctx, blob.JobPrefix(id)); err != nil {
			w.o.Log.Warn("can't remove blobs that no job needs", "job", id, "error", err)
			continue
		}
		w.o.Log.Info("removed blobs that no job needs", "job", id)
	}
}
