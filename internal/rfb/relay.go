package rfb

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// writeTime is how long the display may take nothing.
const writeTime = 30 * time.Second

// Relay joins one viewer to a display.
type Relay struct {
	d *Display

	mu      sync.Mutex // guards what follows, and writing to the display
	control bool
	down    []message // presses of keys that are down
	buttons byte
	at      [4]byte // where the pointer was last
	busy    bool    // the viewer is being written to
	held    []byte  // the request for an update that waits until it is not
}

// NewRelay returns a relay that has no control.
func NewRelay(d *Display) *Relay { return &Relay{d: d} }

// SetControl says whether input passes from now on. When it ceases to, keys
// and buttons that are down are released.
func (r *Relay) SetControl(on bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.control = on
	if on {
		return nil
	}
	return r.release()
}

// Conn is the connection to a viewer.
type Conn interface {
	io.Reader
	io.Writer // must not block for ever
	// End ends it, tells the viewer why, and interrupts Read and Write. err is
	// a [PeerError] where one broke the protocol.
	End(err error)
}

// Run relays until one side ends, one breaks the protocol, or ctx ends, and
// returns why. It closes both.
func (r *Relay) Run(ctx context.Context, viewer Conn) error {
	var once sync.Once
	var cause error
	end := func(err error) {
		once.Do(func() {
			cause = err
			r.d.conn.Close()
			viewer.End(err)
		})
	}
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	defer stop()
	br := bufio.NewReaderSize(viewer, 4<<10)
	if err := r.d.greet(viewer, br); err != nil {
		end(err)
		return cause
	}
	var wg sync.WaitGroup
	wg.Go(func() { end(r.fromViewer(br)) })
	wg.Go(func() { end(r.fromDisplay(viewer)) })
	wg.Wait()
	return cause
}

// fromViewer passes on what the viewer sends.
func (r *Relay) fromViewer(br *bufio.Reader) error {
	for {
		m, err := readMessage(br)
		if err != nil {
			r.mu.Lock()
			_ = r.release() // the display may be gone: then nothing is down
			r.mu.Unlock()
			return err
		}
		if err := r.pass(m); err != nil {
			return err
		}
	}
}

// pass passes one message on, or drops it.
func (r *Relay) pass(m message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case m.isInput():
		if !r.control || m.typ == msgXVP || !r.track(m) {
			return nil
		}
	case m.typ == msgSetEncodings:
		m = filterEncodings(m)
	case m.typ == msgUpdateRequest && r.busy:
		r.held = merge(r.held, m.data)
		return nil
	}
	return r.write(m.data)
}

// write writes to the display. The caller holds mu.
func (r *Relay) write(b []byte) error {
	_ = r.d.conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := r.d.conn.Write(b)
	return err
}

// track remembers what is down, and reports whether an input may pass: more
// keys than anyone has are not pressed.
func (r *Relay) track(m message) bool {
	switch m.typ {
	case msgPointer:
		r.buttons = m.data[1]
		copy(r.at[:], m.data[2:])
	case msgKey, msgQEMU:
		id := m.data[4:]
		press := m.data[1] != 0
		if m.typ == msgQEMU {
			press = m.data[2] != 0 || m.data[3] != 0
		}
		i := slices.IndexFunc(r.down, func(d message) bool { return d.typ == m.typ && string(d.data[4:]) == string(id) })
		switch {
		case press && i < 0 && len(r.down) == maxDown:
			return false
		case press && i < 0:
			r.down = append(r.down, m)
		case !press && i >= 0:
			r.down = slices.Delete(r.down, i, i+1)
		}
	}
	return true
}

// release releases what is down. The caller holds mu.
func (r *Relay) release() error {
	var out []byte
	for _, m := range slices.Backward(r.down) {
		up := slices.Clone(m.data)
		up[1] = 0
		if m.typ == msgQEMU {
			up[2], up[3] = 0, 0
		}
		out = append(out, up...)
	}
	if r.buttons != 0 {
		out = append(out, msgPointer, 0)
		out = append(out, r.at[:]...)
	}
	r.down, r.buttons = nil, 0
	if len(out) == 0 {
		return nil
	}
	return r.write(out)
}

// merge returns a request for what both ask for.
func merge(a, b []byte) []byte {
	if a == nil {
		return slices.Clone(b)
	}
	a[1] &= b[1] // whole if one of them is
	at := func(m []byte, i int) int { return int(binary.BigEndian.Uint16(m[2+2*i:])) }
	x, y := min(at(a, 0), at(b, 0)), min(at(a, 1), at(b, 1))
	right, bottom := max(at(a, 0)+at(a, 2), at(b, 0)+at(b, 2)), max(at(a, 1)+at(a, 3), at(b, 1)+at(b, 3))
	for i, v := range []int{x, y, min(right-x, 0xffff), min(bottom-y, 0xffff)} {
		binary.BigEndian.PutUint16(a[2+2*i:], uint16(v))
	}
	return a
}

// paced is the viewer as it is written to: what it asks for meanwhile waits.
type paced struct {
	r *Relay
	w io.Writer
}

// Write writes, and then asks the display for what was asked of it meanwhile.
func (p paced) Write(b []byte) (int, error) {
	p.r.mu.Lock()
	p.r.busy = true
	p.r.mu.Unlock()
	n, err := p.w.Write(b)
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.busy = false
	if held := p.r.held; held != nil && err == nil {
		p.r.held = nil
		err = p.r.write(held)
	}
	return n, err
}

// pump reads from the display. Before it waits for more, what was passed on so
// far goes out.
type pump struct {
	conn net.Conn
	out  *bufio.Writer
}

// Read reads what there is.
func (p *pump) Read(b []byte) (int, error) {
	if p.out != nil && p.out.Buffered() > 0 {
		if err := p.out.Flush(); err != nil {
			return 0, err
		}
	}
	return p.conn.Read(b)
}
