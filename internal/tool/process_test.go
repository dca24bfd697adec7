package tool

import (
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
