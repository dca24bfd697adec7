package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

const (
	// silence is how long a stream (heartbeats included) or a download may
	// say nothing before it is taken for dead. The server's heartbeat is 15 s.
	silence = 50 * time.Second
	// maxLine bounds one event of a stream, in bytes.
	maxLine = 32 << 20
)

// errEnd is the end of a job's stream.
var errEnd = errors.New("end")

// Events returns the events of a job after a number, then new ones as they
// come, until the last one of a job that has ended. Events without a number
// (Seq 0) are pieces of answers and outputs as they arrive; some may be
// missing. All others come exactly once and in order, over as many
// connections as it takes. An error is the last that it yields.
func (c *Client) Events(ctx context.Context, id string, after int64) iter.Seq2[glovebox.Event, error] {
	return func(yield func(glovebox.Event, error) bool) {
		heard := time.Now()
		for n := 1; ; n++ {
			before := after
			err := c.stream(ctx, id, &after, &heard, func(e glovebox.Event) bool { return yield(e, nil) })
			switch {
			case errors.Is(err, errEnd) || errors.Is(err, errStopped):
				return
			case !passing(err) || time.Since(heard) > c.patience:
				yield(glovebox.Event{}, plain(err))
				return
			}
			if after > before {
				n = 1
			}
			if err := pause(ctx, n, err); err != nil {
				yield(glovebox.Event{}, err)
				return
			}
		}
	}
}

// errStopped says that the caller wants no more.
var errStopped = errors.New("stopped")

// stream reads one connection's worth of events, moves after along, and sets
// heard to when something arrived.
func (c *Client) stream(ctx context.Context, id string, after *int64, heard *time.Time, f func(glovebox.Event) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() {
		cancel(&glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "the event stream of " + c.base + " went silent"})
	})
	defer quiet.Stop()
	resp, err := c.send(ctx, call{method: http.MethodGet, path: jobPath(id, "/events"), header: map[string]string{
		"Accept": "text/event-stream", "Last-Event-ID": strconv.FormatInt(*after, 10)}})
	if err != nil {
		return orCause(ctx, err)
	}
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return &glovebox.Error{Code: glovebox.CodeInternal, Msg: c.base + " did not answer with an event stream", Hint: "is it a Glovebox server of this version?"}
	}
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(make([]byte, 0, 8<<10), maxLine)
	for {
		name, data, err := nextFrame(sc, func() {
			*heard = time.Now()
			quiet.Reset(silence)
		})
		if err != nil {
			return orCause(ctx, c.unreachable(ctx, err))
		}
		if name == "end" {
			return errEnd
		}
		var e glovebox.Event
		if err := json.Unmarshal(data, &e); err != nil {
			return &glovebox.Error{Code: glovebox.CodeInternal, Msg: c.base + " sent an event that is not one", Err: err}
		}
		if e.Seq != 0 {
			if e.Seq <= *after {
				continue
			}
			if e.Seq != *after+1 {
				return glovebox.Errorf(glovebox.CodeInternal, "%s sent event %d after event %d", c.base, e.Seq, *after)
			}
			*after = e.Seq
		}
		if !f(e) {
			return errStopped
		}
	}
}

// orCause returns why ctx was ended by ourselves, if it was.
func orCause(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*glovebox.Error](context.Cause(ctx)); ok {
		return e
	}
	return err
}

// nextFrame returns the next event of a stream that has data. alive is called
// for every line, comments included.
func nextFrame(sc *bufio.Scanner, alive func()) (name string, data []byte, err error) {
	for sc.Scan() {
		alive()
		line := sc.Bytes()
		if len(line) == 0 {
			if data != nil {
				return name, data, nil
			}
			name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
	}
	if err := sc.Err(); err != nil {
		return "", nil, err
	}
	return "", nil, io.ErrUnexpectedEOF // without "end" it is not the end
}
