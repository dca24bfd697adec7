package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// sseEvent is one event of a stream as a client sees it.
type sseEvent struct {
	id, event, data string
	comment         string
}

// reader reads a stream event by event.
type reader struct {
	t    testing.TB
	resp *http.Response
	br   *bufio.Reader
}

func (e *env) stream(id string, headers ...string) *reader {
	e.t.Helper()
	return e.streamAt("/jobs/"+id+"/events", headers...)
}

func (e *env) streamAt(path string, headers ...string) *reader {
	e.t.Helper()
	req := e.request("GET", path, nil, append([]string{"Accept", "text/event-stream"}, headers...)...)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		e.t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		e.t.Fatalf("status %d: %s", resp.StatusCode, b)
	}
	r := &reader{e.t, resp, bufio.NewReader(resp.Body)}
	e.t.Cleanup(r.close)
	if first := r.next(); first.comment != "" || first.data != "" {
		e.t.Errorf("the stream begins with %+v", first)
	}
	return r
}

func (r *reader) close() { r.resp.Body.Close() }

// next returns the next event; io.EOF is an event named "EOF".
func (r *reader) next() sseEvent {
	r.t.Helper()
	var e sseEvent
	for {
		line, err := r.br.ReadString('\n')
		if err == io.EOF {
			return sseEvent{event: "EOF"}
		}
		if err != nil {
			return sseEvent{event: "broken: " + err.Error()}
		}
		line = strings.TrimSuffix(line, "\n")
		k, v, _ := strings.Cut(line, ": ")
		switch k {
		case "":
			if line == "" {
				return e
			}
			e.comment = v
		case "id":
			e.id = v
		case "event":
			e.event = v
		case "data":
			e.data += v
		case "retry":
		default:
			r.t.Errorf("line %q", line)
		}
	}
}

func TestEventPages(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.submit("t")
	l := e.claim()
	for i := range 10 {
		e.append(l, notice(strconv.Itoa(i)))
	}
	p := decode[glovebox.EventList](t, e.do("GET", "/jobs/"+id+"/events?limit=5", "").body)
	if len(p.Events) != 5 || p.Next != 5 || !p.More || p.End || p.Events[0].Type != glovebox.EventCreated {
		t.Errorf("got %+v", p)
	}
	p = decode[glovebox.EventList](t, e.do("GET", "/jobs/"+id+"/events?after=5", "").body)
	if len(p.Events) != 7 || p.Next != 12 || p.More || p.End {
		t.Errorf("got %+v", p)
	}
	e.append(l, finished(glovebox.StatusError))
	p = decode[glovebox.EventList](t, e.do("GET", "/jobs/"+id+"/events?after=12", "").body)
	if len(p.Events) != 1 || !p.End {
		t.Errorf("got %+v", p)
	}
	if got := string(e.do("GET", "/jobs/"+id+"/events?after=13", "").body); got != `{"events":[],"next":13,"more":false,"end":true}`+"\n" {
		t.Errorf("got %s", got)
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.Heartbeat = 20 * time.Millisecond })
	id := e.submit("t")
	r := e.stream(id)
	if got := r.next(); got.id != "1" || got.event != "job.created" || decode[glovebox.Event](t, []byte(got.data)).Seq != 1 {
		t.Errorf("got %+v", got)
	}
	if got := r.next(); got.comment == "" {
		t.Errorf("no heartbeat: %+v", got)
	}
	real := func() sseEvent {
		for {
			if got := r.next(); got.comment == "" {
				return got
			}
		}
	}
	l := e.claim()
	if got := real(); got.id != "2" || got.event != "job.claimed" {
		t.Errorf("got %+v", got)
	}
	e.live.Publish(id, ev(glovebox.EventModelDelta, glovebox.ModelDelta{Type: glovebox.BlockText, Text: "hel\nlo"}))
	if got := real(); got.id != "" || got.event != "model.delta" || !strings.Contains(got.data, `hel\nlo`) {
		t.Errorf("got %+v", got)
	}
	e.append(l, notice("line\nbreak"))
	if got := real(); got.id != "3" || !strings.Contains(got.data, `line\nbreak`) {
		t.Errorf("got %+v", got)
	}
	e.append(l, finished(glovebox.StatusCancelled))
	if got := real(); got.id != "4" || got.event != "job.finished" {
		t.Errorf("got %+v", got)
	}
	if got := real(); got.event != "end" || got.id != "" {
		t.Errorf("got %+v", got)
	}
	if got := r.next(); got.event != "EOF" {
		t.Errorf("got %+v", got)
	}
	for _, headers := range [][]string{{"Last-Event-ID", "3"}, {"Last-Event-ID", "4"}} {
		r := e.stream(id, headers...)
		if headers[1] == "3" {
			if got := r.next(); got.id != "4" {
				t.Errorf("got %+v", got)
			}
		}
		if got := r.next(); got.event != "end" {
			t.Errorf("resumed after %s: got %+v", headers[1], got)
		}
	}
	if got := e.streamAt("/jobs/"+id+"/events?after=2", "Last-Event-ID", "3").next(); got.id != "4" {
		t.Errorf("Last-Event-ID must win over after: %+v", got)
	}
	if got := e.streamAt("/jobs/" + id + "/events?after=2").next(); got.id != "3" {
		t.Errorf("got %+v", got)
	}
}

// TestStreamOrder: a live piece never arrives before an event that was
// appended before it was published. (It may come a little late, or never.)
func TestStreamOrder(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.submit("t")
	r := e.stream(id)
	l := e.claim()
	const steps = 50
	go func() {
		for i := range steps {
			e.live.Publish(id, ev(glovebox.EventToolOutput, glovebox.ToolOutput{CallID: strconv.Itoa(i)}))
			e.append(l, notice(strconv.Itoa(i)))
		}
		e.append(l, finished(glovebox.StatusCancelled))
	}()
	last, pieces := int64(0), 0
	for {
		got := r.next()
		if got.event == "end" {
			break
		}
		if got.id == "" {
			pieces++
			out, err := glovebox.Decode[glovebox.ToolOutput](decode[glovebox.Event](t, []byte(got.data)))
			if i, _ := strconv.ParseInt(out.CallID, 10, 64); err != nil || i+2 > last {
				t.Errorf("piece %s arrived after event %d already", out.CallID, last)
			}
			continue
		}
		if got.id != strconv.FormatInt(last+1, 10) {
			t.Fatalf("event %s after %d", got.id, last)
		}
		last++
	}
	if last != steps+3 {
		t.Errorf("the last event was %d", last)
	}
	t.Logf("%d of %d pieces arrived", pieces, steps)
}

// TestStreamGoesOn: a job that was resumed after a soft limit is not at its end.
func TestStreamGoesOn(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.submit("t")
	e.append(e.claim(), finished(glovebox.StatusError))
	if r := e.do("PATCH", "/jobs/"+id+"/limits", `{"steps":999}`, "Content-Type", "application/json"); r.StatusCode != 202 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	r := e.stream(id, "Last-Event-ID", "2")
	for _, want := range []string{"job.finished", "limits.raised", "job.resumed"} {
		if got := r.next(); got.event != want {
			t.Errorf("got %s, want %s", got.event, want)
		}
	}
	e.do("POST", "/jobs/"+id+"/cancel", "")
	if got := r.next(); got.event != "job.finished" {
		t.Errorf("got %+v", got)
	}
	if got := r.next(); got.event != "end" {
		t.Errorf("got %+v", got)
	}
}

// TestStop: stopping the server ends streams cleanly, without "end", and what
// they missed is there for who comes back.
func TestStop(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.submit("t")
	srv, err := StartServer(ServerOptions{Listen: "127.0.0.1:0", Handler: e.api})
	if err != nil {
		t.Fatal(err)
	}
	first := e.srv
	e.srv = srv
	r := e.stream(id)
	e.srv = first
	if got := r.next(); got.id != "1" {
		t.Errorf("got %+v", got)
	}
	if err := srv.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	<-srv.Done()
	if got := r.next(); got.event != "EOF" {
		t.Errorf("got %+v", got)
	}
	if err := srv.Err(); err != nil {
		t.Error(err)
	}
}

// TestManyReaders: a thousand readers of one job, some of whom come late and
// some of whom break off and resume, all get every event, in order, once; one
// who reads nothing delays nobody.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	const events = 500
	readers := 1000
	if testing.Short() || raceEnabled {
		readers = 100 // enough to race
	}
	e := newEnv(t)
	id := e.submit("t")
	l := e.claim()
	stuck := e.stream(id) // never read again until the end
	transport := &http.Transport{MaxIdleConnsPerHost: readers}
	defer transport.CloseIdleConnections()
	read := func(n int) error {
		after, breaks := int64(0), n%3
		for {
			ctx, cancel := context.WithCancel(t.Context())
			req := e.request("GET", "/jobs/"+id+"/events", nil, "Accept", "text/event-stream", "Last-Event-ID", strconv.FormatInt(after, 10)).WithContext(ctx)
			resp, err := transport.RoundTrip(req)
			if err != nil {
				cancel()
				return err
			}
			r := &reader{t, resp, bufio.NewReaderSize(resp.Body, 1024)}
			for {
				got := r.next()
				if got.event == "end" {
					r.close()
					cancel()
					if after != events+3 {
						return fmt.Errorf("reader %d ended after event %d", n, after)
					}
					return nil
				}
				if got.event == "EOF" || strings.HasPrefix(got.event, "broken") {
					cancel()
					return fmt.Errorf("reader %d: the stream is %s after event %d", n, got.event, after)
				}
				if got.comment != "" || got.id == "" {
					continue
				}
				if got.id != strconv.FormatInt(after+1, 10) {
					cancel()
					return fmt.Errorf("reader %d: event %s after %d (%s)", n, got.id, after, got.event)
				}
				after++
				if breaks > 0 && after%173 == 0 {
					breaks--
					break
				}
			}
			cancel()
			r.close()
		}
	}
	var wg sync.WaitGroup
	errs := make(chan error, readers)
	for n := range readers {
		wg.Go(func() { errs <- read(n) })
	}
	for i := range events {
		e.append(l, notice(strings.Repeat("x", 1000)+strconv.Itoa(i)))
	}
	e.append(l, finished(glovebox.StatusCancelled))
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
			break
		}
	}
	for want := 1; ; want++ {
		got := stuck.next()
		if got.event == "end" {
			if want != events+4 {
				t.Errorf("the stuck reader got %d events", want-1)
			}
			break
		}
		if got.id != strconv.Itoa(want) {
			t.Fatalf("the stuck reader: %+v, want %d", got, want)
		}
	}
}
