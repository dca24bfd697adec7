package worker

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/agent"
	"github.com/glovebox-dev/glovebox/internal/artifact"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

const (
	maxArtifact = 8 << 30 // bytes of the zip
	maxSkipped  = 100     // paths that the event lists; the manifest has more
	packTries   = 3       // sandboxes, or connections, that may be lost over it
)

// pack makes the artifact of a job that is complete. If the sandbox dies over
// it, it is rebuilt from the checkpoint that was made before the proofs.
func (r *run) pack(out agent.Outcome) (agent.Outcome, error) {
	if r.host.state().Phase != glovebox.PhasePacking {
		if err := r.host.append(r.ctx, glovebox.EventPhase, glovebox.PhaseChanged{Phase: glovebox.PhasePacking}); err != nil {
			return out, err
		}
	}
	var made *glovebox.Artifact
	end, err := r.cancellable(func(ctx context.Context) error {
		for try := 1; ; try++ {
			g, err := r.host.Guest(ctx)
			if err != nil {
				return err
			}
			made, err = r.host.pack(ctx, g)
			if err == nil || ctx.Err() != nil || try == packTries || glovebox.CodeOf(err) != glovebox.CodeUnavailable || alive(g) {
				return err
			}
			r.log.Warn("the sandbox was lost while it was packed", "error", err)
		}
	}, func(err error) agent.Outcome {
		return failed(glovebox.Failure{Code: "artifact", Message: "The project is finished and verified, but could not be packed: " + plain(err), Hint: hintOf(err)})
	})
	if err != nil {
		return out, err
	}
	if end != nil {
		return *end, nil
	}
	r.artifact = made
	return out, nil
}

func alive(g *guest.Client) bool {
	select {
	case <-g.Done():
		return false
	default:
		return true
	}
}

// pack writes the artifact into a blob.
func (h *host) pack(ctx context.Context, g *guest.Client) (_ *glovebox.Artifact, err error) {
	ctx, end := span(ctx, "pack artifact")
	defer func() { end(err) }()
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	start := time.Now()
	job := h.state()
	key := blob.JobPrefix(job.ID) + "artifact-" + glovebox.NewID() + ".zip"
	pr, pw := io.Pipe()
	type result struct {
		m   *artifact.Manifest
		err error
	}
	packed := make(chan result, 1)
	go func() {
		m, err := artifact.Pack(ctx, g, guest.Workspace, pw, artifact.Options{JobID: job.ID, Now: h.r.o.Now().UTC()})
		if err != nil {
			err = writeFailed{err}
		}
		pw.CloseWithError(err)
		packed <- result{m, err}
	}()
	info, err := h.r.o.Blobs.Put(ctx, key, pr, maxArtifact)
	pr.CloseWithError(io.ErrClosedPipe) // if Put gave up first
	res := <-packed
	if err != nil {
		if w, ok := errors.AsType[writeFailed](err); ok {
			return nil, w.error
		}
		return nil, err
	}
	if res.err != nil {
		return nil, res.err
	}
	h.r.w.metrics.artifact.Observe(time.Since(start).Seconds())
	a := &glovebox.Artifact{Blob: key, SHA256: info.SHA256, Size: info.Size, Files: int64(len(res.m.Files))}
	a.Skipped = res.m.Skipped[:min(len(res.m.Skipped), maxSkipped)]
	return a, nil
}
