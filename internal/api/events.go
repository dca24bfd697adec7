package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

const (
	defaultEvents = 100     // events in a page
	maxEvents     = 500     // events in a page, at most
	maxEventBytes = 4 << 20 // bytes of events in a page, at most, but for a single one that has more
	maxStreams    = 10_000  // event streams at once
)

// events answers with a page of events, or, to who accepts
// text/event-stream, with all of them as they come.
//
// A reader of a stream waits on the stack of the functions from here to
// follow, a thousand readers on a thousand of them. So each does little and
// leaves the rest to functions that have returned by then.
func (a *API) events(w *response, r *http.Request, c caller) error {
	s, err := a.subscribe(w, r, c)
	if err != nil || s == nil {
		return err
	}
	defer s.close()
	return a.follow(r.Context(), s)
}

// subscribe answers with a page and returns nil, or begins a stream.
func (a *API) subscribe(w *response, r *http.Request, c caller) (*sender, error) {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return nil, err
	}
	after, err := intParam(r, "after", 0, 0, 1<<62)
	if err != nil {
		return nil, err
	}
	limit, err := intParam(r, "limit", defaultEvents, 1, maxEvents)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(r.Header.Get("Accept"), eventsType) {
		return nil, a.eventPage(w, r, j, after, int(limit))
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		if after, err = parseInt("Last-Event-ID", id, 0, 1<<62); err != nil {
			return nil, err
		}
	}
	h := w.Header()
	h.Set("Content-Type", eventsType)
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil, nil
	}
	if n := a.metrics.streams.Add(1); n > maxStreams {
		a.metrics.streams.Add(-1)
		return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "too many event streams are open", Hint: "try again later, or read pages: the same address without Accept: text/event-stream"}
	}
	s := &sender{w: w, api: a, feed: a.feeds.open(j), pos: after, beat: time.NewTimer(a.o.Heartbeat)}
	s.liveNext = s.feed.view(-1).liveNext
	return s, nil
}

func (a *API) eventPage(w *response, r *http.Request, j *glovebox.Job, after int64, limit int) error {
	events, err := a.o.Store.Events(r.Context(), j.ID, after, limit+1)
	if err != nil {
		return err
	}
	page := glovebox.EventList{Events: []glovebox.Event{}, Next: after}
	size := 0
	for _, e := range events {
		size += len(e.Data)
		if len(page.Events) == limit || (size > maxEventBytes && len(page.Events) > 0) {
			page.More = true
			break
		}
		page.Events, page.Next = append(page.Events, e), e.Seq
	}
	page.End = j.Status.Terminal() && page.Next >= j.Seq
	return writeJSON(w, http.StatusOK, page)
}

// follow sends the events after the reader's place, then new ones as they
// come, then, after the last event of a terminal job, one named "end". Pieces
// of answers and of outputs go in between, without a number.
func (a *API) follow(ctx context.Context, s *sender) error {
	s.write([]byte("retry: 1000\n\n"))
	for {
		ended, err := s.advance(ctx)
		if err != nil || ended {
			return err
		}
		select {
		case <-s.changed:
		case <-s.beat.C:
			s.write([]byte(": still here\n\n"))
		case <-a.drain:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// advance sends what there is and says whether it was the end.
func (s *sender) advance(ctx context.Context) (ended bool, err error) {
	v := s.feed.view(s.liveNext)
	s.changed = v.changed
	if err := s.send(ctx, v); err != nil {
		return false, err
	}
	if v.terminal && s.pos >= v.last {
		s.write([]byte("event: end\ndata: {}\n\n"))
		ended = true
	}
	s.beat.Reset(s.api.o.Heartbeat)
	return ended, s.flush()
}

// send sends what v has and the reader does not. A live piece goes out after
// the events that it came after. One that is in the middle of a block is left
// out: that reader is behind, and the log has what came of it.
func (s *sender) send(ctx context.Context, v view) error {
	for s.pos < v.last {
		v.live = s.live(v.live)
		b, err := s.api.feeds.block(ctx, s.feed.jobID, s.pos)
		if err != nil {
			return err
		}
		s.write(b.data)
		s.pos = b.last
		for len(v.live) > 0 && v.live[0].after < s.pos {
			v.live = v.live[1:]
		}
		if s.err != nil {
			return s.err
		}
	}
	s.live(v.live)
	s.liveNext = v.liveNext
	return s.err
}

// sender is the place of one reader.
type sender struct {
	w        *response
	api      *API
	feed     *feed
	beat     *time.Timer     // runs out when a heartbeat is due
	changed  <-chan struct{} // of the newest view
	pos      int64           // number of the last event sent
	liveNext int64           // number of the next live piece
	err      error
}

func (s *sender) close() {
	s.beat.Stop()
	s.feed.close()
	s.api.metrics.streams.Add(-1)
}

func (s *sender) write(b []byte) {
	if s.err == nil {
		_, s.err = s.w.Write(b)
	}
}

func (s *sender) flush() error {
	if s.err == nil {
		s.err = s.w.rc.Flush()
	}
	return s.err
}

// live sends the pieces up to the reader's place and returns the others.
func (s *sender) live(frames []liveFrame) []liveFrame {
	for len(frames) > 0 && frames[0].after <= s.pos {
		s.write(frames[0].data)
		frames = frames[1:]
	}
	return frames
}

// intParam returns a parameter of the query that is a whole number.
func intParam(r *http.Request, name string, def, least, most int64) (int64, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return def, nil
	}
	return parseInt("query."+name, s, least, most)
}

func parseInt(field, s string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n > most {
		return 0, glovebox.Invalid(field, "give a whole number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10),
			"%q is not acceptable", clip(s, 40)).WithValue(s)
	}
	return n, nil
}
