package api

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/glovebox-dev/glovebox"
)

// A feed follows one job for all who wait for it. It watches the store once,
// however many readers there are; events are read and encoded once, as blocks
// that readers share. A reader holds nothing but its place in the log, so a
// slow one costs no more than a fast one and delays nobody.
type feed struct {
	owner *feeds
	jobID string
	stop  context.CancelFunc
	refs  int // guarded by owner.mu

	mu       sync.Mutex
	last     int64 // number of the newest event
	terminal bool  // whether the job is, as of last
	control  glovebox.Control
	changed  chan struct{} // closed and replaced when something below or above changed
	live     []liveFrame   // the newest pieces, at most liveRing
	liveNext int64         // number of the piece after the newest
}

// liveFrame is an encoded event that is not in the log.
type liveFrame struct {
	data  []byte
	after int64 // the newest event when it was published
}

const (
	liveRing     = 256      // pieces that a reader may lag behind before it loses some
	maxLiveFrame = 64 << 10 // bytes; larger pieces are not passed on
	blockEvents  = 32       // events in a block, at most
	blockBytes   = 16 << 10 // bytes in a block, at most, but for a single event that has more
	cacheBytes   = 4 << 20  // bytes of blocks that are kept
	feedRetry    = time.Second
)

// feeds holds the feeds that have readers, and the blocks that they share.
type feeds struct {
	api    *API
	flight singleflight.Group

	mu     sync.Mutex
	byJob  map[string]*feed
	blocks map[blockKey]*block
	order  []blockKey // of blocks, oldest first
	bytes  int
	onRefs func(jobID string, refs int) // for tests: called when a feed gains or loses a reader
}

type blockKey struct {
	jobID string
	after int64
}

// block is a run of events as they go over the wire.
type block struct {
	data []byte
	last int64 // number of its last event
}

func (fs *feeds) init(a *API) {
	fs.api, fs.byJob, fs.blocks = a, map[string]*feed{}, map[blockKey]*block{}
}

// open returns the feed of a job. Each open needs a close.
func (fs *feeds) open(j *glovebox.Job) *feed {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.byJob[j.ID]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = &feed{owner: fs, jobID: j.ID, stop: stop, last: j.Seq, terminal: j.Status.Terminal(), control: j.Control, changed: make(chan struct{})}
		fs.byJob[j.ID] = f
		watch := fs.api.o.Store.Watch(ctx, j.ID)
		live, unsubscribe := fs.api.o.Live.Subscribe(j.ID)
		go func() {
			defer unsubscribe()
			f.run(ctx, watch, live)
		}()
	}
	f.refs++
	fs.tellRefs(f)
	return f
}

func (f *feed) close() {
	f.owner.mu.Lock()
	defer f.owner.mu.Unlock()
	if f.refs--; f.refs == 0 {
		f.stop()
		delete(f.owner.byJob, f.jobID)
	}
	f.owner.tellRefs(f)
}

func (fs *feeds) tellRefs(f *feed) {
	if fs.onRefs != nil {
		fs.onRefs(f.jobID, f.refs)
	}
}

// run brings the feed up to date until its context ends.
func (f *feed) run(ctx context.Context, watch <-chan struct{}, live <-chan glovebox.Event) {
	retry := time.NewTimer(0) // the job may have moved on between its reading and Watch
	defer retry.Stop()
	refresh := func() {
		if err := f.refresh(ctx); err != nil && ctx.Err() == nil {
			f.owner.api.o.Log.WarnContext(ctx, "read events", "job", f.jobID, "err", err)
			retry.Reset(feedRetry)
		}
	}
	for {
		select {
		case _, ok := <-watch:
			if !ok {
				return
			}
			refresh()
		case <-retry.C:
			refresh()
		case e := <-live:
			// What was appended before this piece was published goes first.
			select {
			case _, ok := <-watch:
				if !ok {
					return
				}
				refresh()
			default:
			}
			f.addLive(e)
		}
	}
}

// refresh reads what was appended since the last time.
func (f *feed) refresh(ctx context.Context) error {
	for {
		f.mu.Lock()
		after := f.last
		f.mu.Unlock()
		events, err := f.owner.api.o.Store.Events(ctx, f.jobID, after, blockEvents)
		if err != nil || len(events) == 0 {
			return err
		}
		f.mu.Lock()
		for _, e := range events {
			f.last = e.Seq
			switch e.Type {
			case glovebox.EventFinished:
				f.terminal = true
			case glovebox.EventResumed:
				f.terminal = false
			case glovebox.EventControl:
				if d, err := glovebox.Decode[glovebox.ControlChanged](e); err == nil {
					f.control = d.Control
				}
			}
		}
		f.broadcast()
		f.mu.Unlock()
		if len(events) < blockEvents {
			return nil
		}
	}
}

func (f *feed) addLive(e glovebox.Event) {
	data, err := frame(e)
	if err != nil || len(data) > maxLiveFrame {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.live) == liveRing {
		f.live = append(f.live[:0:0], f.live[liveRing/2:]...)
	}
	f.live = append(f.live, liveFrame{data, f.last})
	f.liveNext++
	f.broadcast()
}

func (f *feed) broadcast() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// view is a feed at one moment.
type view struct {
	last     int64
	terminal bool
	control  glovebox.Control // who holds mouse and keyboard
	changed  <-chan struct{}
	live     []liveFrame // from the asked one on
	liveNext int64
}

// view returns what there is now, with the live pieces from number liveFrom
// on, or none if it is negative.
func (f *feed) view(liveFrom int64) view {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := view{last: f.last, terminal: f.terminal, control: f.control, changed: f.changed, liveNext: f.liveNext}
	if liveFrom >= 0 {
		if n := min(f.liveNext-liveFrom, int64(len(f.live))); n > 0 {
			v.live = f.live[int64(len(f.live))-n:]
		}
	}
	return v
}

// block returns the events after number after, at least one: the caller
// knows that there are some. It ends at a multiple of blockEvents, so that
// readers who began at different places come to share blocks.
func (fs *feeds) block(ctx context.Context, jobID string, after int64) (*block, error) {
	key := blockKey{jobID, after}
	fs.mu.Lock()
	b := fs.blocks[key]
	fs.mu.Unlock()
	if b != nil {
		return b, nil
	}
	ch := fs.flight.DoChan(jobID+"/"+strconv.FormatInt(after, 10), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second) // it is for all who wait
		defer cancel()
		return fs.load(ctx, key)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case res := <-ch:
		if res.Err != nil {
			return nil, res.Err
		}
		return res.Val.(*block), nil
	}
}

func (fs *feeds) load(ctx context.Context, key blockKey) (*block, error) {
	events, err := fs.api.o.Store.Events(ctx, key.jobID, key.after, int(blockEvents-key.after%blockEvents))
	if err != nil {
		return nil, err
	}
	if len(events) == 0 { // the job was deleted
		return nil, noJob(key.jobID)
	}
	b := &block{}
	for _, e := range events {
		data, err := frame(e)
		if err != nil {
			return nil, err
		}
		if len(b.data) > 0 && len(b.data)+len(data) > blockBytes {
			break
		}
		b.data, b.last = append(b.data, data...), e.Seq
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.blocks[key] == nil && len(b.data) < cacheBytes/4 {
		fs.blocks[key] = b
		fs.order = append(fs.order, key)
		fs.bytes += cap(b.data)
	}
	for fs.bytes > cacheBytes {
		fs.bytes -= cap(fs.blocks[fs.order[0]].data)
		delete(fs.blocks, fs.order[0])
		fs.order = fs.order[1:]
	}
	return b, nil
}

// frame returns e as one event of a text/event-stream. JSON holds no line
// breaks, so one data line does.
func frame(e glovebox.Event) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, glovebox.Errorf(glovebox.CodeInternal, "encode event %d: %w", e.Seq, err)
	}
	b := make([]byte, 0, len(data)+len(e.Type)+48)
	if e.Seq > 0 {
		b = append(b, "id: "...)
		b = strconv.AppendInt(b, e.Seq, 10)
		b = append(b, '\n')
	}
	b = append(b, "event: "...)
	b = append(b, e.Type...)
	b = append(b, "\ndata: "...)
	b = append(b, data...)
	return append(b, "\n\n"...), nil
}
