package tool

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
)

// TestSettleWaitsForWhatIsMissing: a wait goes on until all has arrived that
// was written, and no longer.
func TestSettleWaitsForWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		written, arrives int64
		want             time.Duration
	}{
		"nothing new":  {written: 8},
		"on its way":   {written: 13, arrives: 13, want: time.Second},
		"lost for now": {written: 13, want: catchUp},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				out := newCapture(8, nil, nil)
				if c.arrives > 0 {
					time.AfterFunc(time.Second, func() { out.reach(guest.Output{Offset: 8, Data: make([]byte, c.arrives-8)}) })
				}
				begun := time.Now()
				err := settle(out, nil, guest.ProcessState{Running: true, OutputSize: c.written})
				if took := time.Since(begun); err != nil || took != c.want {
					t.Errorf("it took %v, want %v; %v", took, c.want, err)
				}
			})
		})
	}
}

// TestCaptureCountsWhatIsLost: kept and lost are what was written, whether the
// lines that tell of gaps are kept or not.
func TestCaptureCountsWhatIsLost(t *testing.T) {
	t.Parallel()
	out := newCapture(0, nil, nil)
	var written int64
	take := func(o guest.Output) {
		o.Offset = written
		out.write(o.Data, nil)
		out.reach(o)
		if o.Dropped == 0 {
			o.Dropped = int64(len(o.Data))
		}
		written += o.Dropped
		kept := int64(bytes.Count(out.bytes(), []byte("z")))
		if lost := out.lost(); kept+lost != written {
			t.Fatalf("of %d bytes %d are kept and %d lost", written, kept, lost)
		}
	}
	for range 7 {
		take(guest.Output{Data: bytes.Repeat([]byte("z"), 1<<20)})
		take(guest.Output{Data: []byte("\n[a gap]\n"), Dropped: 12345})
		take(guest.Output{Data: bytes.Repeat([]byte("z"), captureBound/5)})
	}
}
