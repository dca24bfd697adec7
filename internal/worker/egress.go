package worker

import (
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/egress"
)

const (
	// egressEvery is how often what a sandbox reached is recorded.
	egressEvery = 2 * time.Second

	// maxEgressEvents is how many events one run records of it one by one.
	// What is beyond is summed up by verdict and recorded at the end.
	maxEgressEvents = 2000
)

// openProxy makes the proxy of this run, under the job's policy, once.
func (b *box) openProxy() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proxy != nil {
		return nil
	}
	if b.closed {
		return errStopping
	}
	policy, err := egress.Compile(b.h.state().Egress, b.h.r.o.EgressDefaults)
	if err != nil {
		return err
	}
	log := &egressLog{h: b.h}
	b.record = egress.NewRecorder(egressEvery, log.flush)
	o := b.h.r.o.Egress
	o.Record = b.record.Record
	b.proxy = egress.NewProxy(policy, o)
	b.rest = log
	return nil
}

// egressLog appends what a sandbox reached to the log of its job, within a
// bound. Its methods are called one at a time.
type egressLog struct {
	h     *host
	count int
	sums  [3]glovebox.EgressAttempted // of what is beyond the bound: refused, allowed, cached
}

// flush is called by the recorder.
func (l *egressLog) flush(attempts []glovebox.EgressAttempted) {
	var events []glovebox.Event
	for _, a := range attempts {
		if l.count >= maxEgressEvents {
			l.add(a)
			continue
		}
		l.count++
		events = append(events, l.h.event(glovebox.EventEgress, a))
	}
	l.append(events)
}

func (l *egressLog) add(a glovebox.EgressAttempted) {
	s := &l.sums[0]
	switch {
	case a.Cached:
		s = &l.sums[2]
	case a.Allowed:
		s = &l.sums[1]
	}
	s.Count, s.BytesUp, s.BytesDown = s.Count+a.Count, s.BytesUp+a.BytesUp, s.BytesDown+a.BytesDown
	s.Host, s.Allowed, s.Cached, s.Reason = "(others)", a.Allowed, a.Cached, "more attempts than are recorded one by one"
}

// close appends the sums. It is called after the recorder's last flush.
func (l *egressLog) close() {
	var events []glovebox.Event
	for _, s := range l.sums {
		if s.Count > 0 {
			events = append(events, l.h.event(glovebox.EventEgress, s))
		}
	}
	l.append(events)
}

func (l *egressLog) append(events []glovebox.Event) {
	for len(events) > 0 {
		n := min(len(events), 200)
		if _, err := l.h.Append(l.h.r.ctx, events[:n]); err != nil {
			l.h.r.log.Warn("what the sandbox reached was not recorded", "attempts", len(events), "error", err)
			return
		}
		events = events[n:]
	}
}
