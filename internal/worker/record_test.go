package worker

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// fakeScreen shows what it is told to.
type fakeScreen struct {
	hangs bool

	mu      sync.Mutex
	shot    guest.Shot
	windows []guest.Window
	next    uint32
}

// frame is something that looks like a JPEG.
func frame(text string) guest.Shot {
	return guest.Shot{Data: []byte("\xff\xd8\xff" + text), W: 800, H: 500, Digest: text}
}

func (s *fakeScreen) show(shot guest.Shot, titles ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shot = shot
	var list []guest.Window
	for _, title := range titles {
		i := slices.IndexFunc(s.windows, func(w guest.Window) bool { return w.Title == title })
		if i >= 0 {
			list = append(list, s.windows[i])
			continue
		}
		s.next++
		list = append(list, guest.Window{ID: s.next, Title: title})
	}
	s.windows = list
}

func (s *fakeScreen) Screenshot(ctx context.Context, q guest.ShotRequest) (guest.Shot, error) {
	if s.hangs {
		<-ctx.Done()
		return guest.Shot{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shot := s.shot
	if q.Unless != "" && q.Unless == shot.Digest {
		shot.Data = nil
	}
	return shot, nil
}

func (s *fakeScreen) Windows(ctx context.Context) ([]guest.Window, error) {
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.windows, nil
}

// TestRecording: a picture after each step whose screen differs, each stored
// once, all before the end.
func TestRecording(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	screens := []guest.Shot{frame("a"), frame("b"), frame("b"), frame("a"), {Data: []byte("<html>"), W: 800, H: 500, Digest: "x"}}
	var turns script
	for i := range screens {
		turns = append(turns, shell(fmt.Sprintf("echo %d", i)))
	}
	next := make(chan struct{})
	w.model = stepped{append(turns, finish("test -d .")), next}
	shown := make(chan string, 16)
	display := &fakeScreen{}
	o := w.options()
	o.screen = func(*guest.Client) screen { return tellingScreen{display, shown} }
	worker := w.start(o)
	id := w.submit()
	for _, s := range screens {
		display.show(s)
		next <- struct{}{}
		<-shown
	}
	display.show(frame("end"))
	next <- struct{}{}
	<-shown
	if j := w.awaitEnd(id); j.Status != glovebox.StatusComplete {
		t.Errorf("%s", mustJSON(j))
	}
	a, b, end := blob.OutputOf(frame("a").Data), blob.OutputOf(frame("b").Data), blob.OutputOf(frame("end").Data)
	want := []glovebox.ScreenCaptured{{Step: 1, Blob: a, Width: 800, Height: 500}, {Step: 2, Blob: b, Width: 800, Height: 500},
		{Step: 4, Blob: a, Width: 800, Height: 500}, {Step: 6, Blob: end, Width: 800, Height: 500}}
	if got := data[glovebox.ScreenCaptured](w, id, glovebox.EventScreen); !slices.Equal(got, want) {
		t.Errorf("recorded %+v", got)
	}
	key, err := blob.OutputKey(id, b)
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.blobs.Open(w.ctx(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != string(frame("b").Data) {
		t.Errorf("kept %q, %v", got, err)
	}
	w.awaitNoSandbox(worker)
}

// tellingScreen tells of each picture after it was taken.
type tellingScreen struct {
	*fakeScreen
	shown chan<- string
}

func (s tellingScreen) Screenshot(ctx context.Context, q guest.ShotRequest) (guest.Shot, error) {
	shot, err := s.fakeScreen.Screenshot(ctx, q)
	s.shown <- shot.Digest // there is room for all
	return shot, err
}

// TestRecordingThins: of long jobs, a bounded number of steps is recorded, the
// same ones by whichever worker.
func TestRecordingThins(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	n := 0
	for step := int64(1); step <= 1_000_000; step++ {
		if rec.due(step) {
			n++
		}
		if step <= everyFrame && n != int(step) {
			t.Fatalf("step %d is not recorded", step)
		}
	}
	if n > 5000 {
		t.Errorf("%d pictures of a million steps", n)
	}
	rec.bytes = manyFrameBytes + 1
	if rec.due(9) || !rec.due(16) {
		t.Error("many bytes do not thin")
	}
	rec.bytes = maxFrameBytes
	if rec.due(16) {
		t.Error("bytes have no bound")
	}
}

func TestFramesAreChecked(t *testing.T) {
	t.Parallel()
	big := append([]byte("\xff\xd8\xff"), make([]byte, maxFrame)...)
	for name, s := range map[string]guest.Shot{
		"PNG": {Data: []byte("\x89PNG\r\n\x1a\n"), W: 1, H: 1}, "large": {Data: big, W: 1, H: 1}, "wide": {Data: frame("").Data, W: 4000, H: 1}, "flat": {Data: frame("").Data, W: 1},
	} {
		if checkFrame(s) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := checkFrame(frame("x")); err != nil {
		t.Error(err)
	}
}

// changingScreen is another one each time.
type changingScreen struct {
	fakeScreen
	n atomic.Int64
}

func (s *changingScreen) Screenshot(context.Context, guest.ShotRequest) (guest.Shot, error) {
	return frame(fmt.Sprint(s.n.Add(1))), nil
}
