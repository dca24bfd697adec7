package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/tui"
)

// view shows the events of a job on standard output: for people, or one JSON
// object a line.
type view struct {
	json    *json.Encoder
	printer *tui.Printer
	gate    *gate
	live    bool  // there is a status line
	after   int64 // events up to this one are not shown
	stop    func()
}

// gate is a writer that can be shut.
type gate struct {
	w    io.Writer
	shut bool
}

// Write writes, or drops what comes while the gate is shut.
func (g *gate) Write(b []byte) (int, error) {
	if g.shut {
		return len(b), nil
	}
	return g.w.Write(b)
}

// view returns a view that shows what comes after an event.
func (a *app) view(asJSON bool, after int64) *view {
	if asJSON {
		return &view{json: json.NewEncoder(a.stdout), after: after, stop: func() {}}
	}
	v := &view{gate: &gate{w: a.stdout, shut: after > 0}, after: after, stop: func() {}}
	o := tui.Options{}
	f, isFile := a.stdout.(*os.File)
	if terminal := isFile && term.IsTerminal(int(f.Fd())); terminal {
		o.Color = tui.ColorWanted(f, true)
		o.Live = os.Getenv("TERM") != "dumb"
		o.Width = func() int {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
				return w
			}
			return 80
		}
	}
	v.printer, v.live = tui.New(v.gate, o), o.Live
	if o.Live {
		v.stop = every(100*time.Millisecond, v.printer.Tick)
	}
	return v
}

// every calls f again and again until the returned function is called.
func every(d time.Duration, f func()) (stop func()) {
	ticker, done := time.NewTicker(d), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ticker.C:
				f()
			case <-done:
				return
			}
		}
	})
	return sync.OnceFunc(func() { ticker.Stop(); close(done); wg.Wait() })
}

// start is the event after which the view wants to get them: all, if it has
// to know the state of the job.
func (v *view) start() int64 {
	if v.json != nil {
		return v.after
	}
	return 0
}

// event shows an event.
func (v *view) event(e glovebox.Event) error {
	if v.json != nil {
		if e.Seq == 0 { // the whole of it follows
			return nil
		}
		return v.json.Encode(e)
	}
	if v.gate.shut && e.Seq > v.after {
		v.gate.shut = false // only this goroutine writes: there is no ticker yet that draws
	}
	return v.printer.Event(e)
}

// warn says something to the person beside what the job does.
func (v *view) warn(a *app, text string) {
	if v.live {
		v.printer.Warn(text)
		return
	}
	fmt.Fprintln(a.stderr, text)
}

// close takes the status line away. It may be called twice.
func (v *view) close() error {
	v.stop()
	if v.printer != nil {
		return v.printer.Close()
	}
	return nil
}
