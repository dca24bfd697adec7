package worker

import (
	"bytes"
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// The recording of a job's screen: a small picture after each step, where the
// screen changed. It never keeps the loop waiting, and nobody is told of a
// picture that could not be taken; metrics count them.
const (
	frameW, frameH = 800, 500
	frameQuality   = 60

	frameTimeout = 5 * time.Second // a locked-up display answers within it
	keepTimeout  = time.Minute     // a disk, or a store of blobs, may be slower
	frameGrace   = time.Second     // for the last one, when the job is done

	maxFrame       = 256 << 10 // bytes; a screen of noise has fewer
	everyFrame     = 500       // steps of which each is recorded; then half of them for as many again, and so on
	manyFrameBytes = 64 << 20  // of one run; beyond it one in eight is kept
	maxFrameBytes  = 96 << 20  // of one run; beyond it none is
	maxFrameRest   = 32        // steps without a picture after failures
	rememberFrames = 4096      // handles, so as not to store again what is there
)

// recorder takes the pictures of one run, in a goroutine of its own that
// begins with the first step.
type recorder struct {
	h    *host
	want chan int64 // the newest step that has no picture; for the goroutine

	begin sync.Once
	ctx   context.Context
	stop  context.CancelFunc
	ended chan struct{} // closed when the goroutine has ended, or will not begin
	close sync.Once

	// Of the goroutine.
	digest string          // of the newest picture, as the guest has it
	handle string          // of the newest picture
	stored map[string]bool // handles
	bytes  int64           // stored
	fails  int             // in a row
	rest   int             // steps to leave out
}

func newRecorder(h *host) *recorder {
	ctx, stop := context.WithCancel(h.r.ctx)
	return &recorder{h: h, want: make(chan int64, 1), ctx: ctx, stop: stop, ended: make(chan struct{}), stored: map[string]bool{}}
}

// stepDone asks for a picture. Only the loop calls it.
func (rec *recorder) stepDone(step int64) {
	rec.begin.Do(func() { go rec.run() })
	select {
	case <-rec.want: // the display is slow: a later picture will do
	default:
	}
	select {
	case rec.want <- step:
	default: // never: nobody else sends
	}
}

// finish ends the recording. It waits for the last picture up to grace.
// Nothing is appended after it.
func (rec *recorder) finish(grace time.Duration) {
	rec.begin.Do(func() { close(rec.ended) })
	rec.close.Do(func() { close(rec.want) })
	timer := time.AfterFunc(grace, rec.stop)
	defer timer.Stop()
	<-rec.ended
	rec.stop()
}

func (rec *recorder) run() {
	defer close(rec.ended)
	for step := range rec.want {
		if rec.ctx.Err() != nil {
			return
		}
		result := "skipped"
		if rec.due(step) {
			result = rec.guarded(step)
		}
		rec.h.r.w.metrics.frames.WithLabelValues(result).Inc()
	}
}

// due reports whether a step gets a picture. The longer a job, the fewer do,
// whichever worker it is with.
func (rec *recorder) due(step int64) bool {
	if rec.rest > 0 {
		rec.rest--
		return false
	}
	stride := int64(1)
	for s := step; s > everyFrame; s /= 2 {
		stride *= 2
	}
	if rec.bytes > manyFrameBytes {
		stride *= 8
	}
	return step%stride == 0 && rec.bytes < maxFrameBytes
}

// guarded is capture; a fault in it is no reason to take the server down.
func (rec *recorder) guarded(step int64) (result string) {
	defer func() {
		if v := recover(); v != nil {
			rec.h.r.log.Error("panic while the screen was recorded", "panic", v, "stack", string(debug.Stack()))
			result = "failed"
		}
	}()
	return rec.capture(step)
}

// capture takes a picture and records it if the screen changed. It returns
// what came of it, for the metrics.
func (rec *recorder) capture(step int64) string {
	g := rec.h.box.client()
	if g == nil {
		return "skipped"
	}
	ctx, cancel := context.WithTimeout(rec.ctx, frameTimeout)
	shot, err := rec.h.r.o.screenOf(g).Screenshot(ctx, guest.ShotRequest{MaxW: frameW, MaxH: frameH, JPEG: frameQuality, Pointer: true, Unless: rec.digest})
	cancel()
	if err == nil && len(shot.Data) == 0 {
		rec.fails = 0
		return "same"
	}
	if err == nil {
		err = checkFrame(shot)
	}
	if err == nil {
		ctx, cancel = context.WithTimeout(rec.ctx, keepTimeout)
		err = rec.keep(ctx, step, shot)
		cancel()
	}
	if err != nil {
		rec.h.r.log.Debug("no picture of the screen", "step", step, "error", err)
		rec.fails = min(rec.fails+1, 10)
		rec.rest = min(1<<rec.fails-2, maxFrameRest)
		return "failed"
	}
	rec.fails = 0
	return "kept"
}

// checkFrame refuses what is not what was asked for: a guest is not trusted.
func checkFrame(s guest.Shot) error {
	if len(s.Data) > maxFrame || !bytes.HasPrefix(s.Data, []byte{0xff, 0xd8, 0xff}) || s.W < 1 || s.W > frameW || s.H < 1 || s.H > frameH {
		return glovebox.Errorf(glovebox.CodeUnavailable, "the guest took a picture of %d bytes and %dx%d that is no small JPEG", len(s.Data), s.W, s.H)
	}
	return nil
}

// keep stores a picture under a handle that follows from its bytes, and
// records it.
func (rec *recorder) keep(ctx context.Context, step int64, s guest.Shot) error {
	handle := blob.OutputOf(s.Data)
	if !rec.stored[handle] {
		key, err := blob.OutputKey(rec.h.r.lease.JobID, handle)
		if err == nil {
			_, err = rec.h.r.o.Blobs.Put(ctx, key, bytes.NewReader(s.Data), maxFrame)
		}
		if err != nil {
			return err
		}
		if len(rec.stored) >= rememberFrames {
			rec.stored = map[string]bool{}
		}
		rec.stored[handle] = true
		rec.bytes += int64(len(s.Data))
	}
	rec.digest = s.Digest
	if handle == rec.handle {
		return nil
	}
	e := glovebox.ScreenCaptured{Step: step, Blob: handle, Width: s.W, Height: s.H}
	if err := rec.h.append(ctx, glovebox.EventScreen, e); err != nil {
		return err
	}
	rec.handle = handle
	return nil
}
