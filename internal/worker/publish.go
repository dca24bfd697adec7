package worker

import (
	"context"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"io/fs"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// Bounds of bringing a job's state into its sandbox.
const (
	publishTimeout = 5 * time.Minute // for one round; a call has the client's own bound
	publishPage    = 200             // events that are read at once
	publishPiece   = 256 << 10       // bytes of a file that are sent in one part
	maxPublishRest = 32              // steps that are left out after failures

	notesDir     = ".glovebox/notes" // in the workspace
	maxNotes     = 200
	maxNoteBytes = 64 << 10 // of one
)

// publisher brings the state of a job into its sandbox as files, after each
// step, in a goroutine of its own that begins with the first one. It never
// keeps the loop waiting, and a failure is no matter of the job's: what is
// missing comes with a later step. Only what changed is sent; a machine that
// this run has not seen before gets all of it.
type publisher struct {
	h    *host
	want chan struct{} // receives when there may be something new

	begin, close sync.Once
	ctx          context.Context
	stop         context.CancelFunc
	ended        chan struct{} // closed when the goroutine has ended, or will not begin

	// Of the goroutine.
	files   *stateFiles
	machine sandbox.ID        // that has what is in sent; empty for none
	tried   sandbox.ID        // of the newest round
	sent    map[string]uint64 // documents and notes, by name: a hash of what was sent
	log     map[int]chunk     // files of the log: how much was sent
	notes   map[string]note   // how those in the workspace were when they were sent
	seed    maphash.Seed
	fails   int // in a row, with the same machine
	rest    int // rounds to leave out with that machine

	rounds func(error) // for tests: told of each round; may be nil
}

type note struct {
	size int64
	time time.Time
}

func newPublisher(h *host) *publisher {
	ctx, stop := context.WithCancel(h.r.ctx)
	return &publisher{h: h, want: make(chan struct{}, 1), ctx: ctx, stop: stop, ended: make(chan struct{}), seed: maphash.MakeSeed(), rounds: h.r.o.published}
}

// poke says that there may be something new. It does not block.
func (p *publisher) poke() {
	p.begin.Do(func() { go p.run() })
	select {
	case p.want <- struct{}{}:
	default: // a round that comes anyway takes it along
	}
}

// finish ends it. It does not wait for what is not there yet.
func (p *publisher) finish() {
	p.begin.Do(func() { close(p.ended) })
	p.close.Do(p.stop)
	<-p.ended
}

func (p *publisher) run() {
	defer close(p.ended)
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.want:
		}
		if _, id := p.h.box.current(); p.rest > 0 && (id == "" || id == p.tried) {
			p.rest--
			continue
		}
		err := p.guarded()
		if err == nil {
			p.fails = 0
		} else {
			p.machine = "" // nobody knows what it has: it gets all again
			p.fails = min(p.fails+1, 10)
			p.rest = min(1<<p.fails-2, maxPublishRest)
			if p.ctx.Err() == nil && p.h.box.client() != nil { // else the machine is lost, which others tell
				p.h.r.log.Warn("the files below "+guest.StateDir+" are not up to date", "error", err)
			}
		}
		if p.rounds != nil {
			p.rounds(err)
		}
	}
}

// guarded is round; a fault in it is no reason to take the server down.
func (p *publisher) guarded() (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.h.r.log.Error("panic while the state was published", "panic", v, "stack", string(debug.Stack()))
			err = glovebox.Errorf(glovebox.CodeInternal, "panic: %v", v)
			p.files = nil
		}
	}()
	ctx, cancel := context.WithTimeout(p.ctx, publishTimeout)
	defer cancel()
	return p.round(ctx)
}

// round brings the machine up to date. Without one that can be reached, or
// with one that is paused, it does nothing.
func (p *publisher) round(ctx context.Context) error {
	g, id := p.h.box.current()
	if g == nil {
		return nil
	}
	if id != p.tried { // a machine that died is no reason to leave out its successor
		p.tried, p.fails, p.rest = id, 0, 0
	}
	if err := p.read(ctx); err != nil {
		return err
	}
	out := &parcel{ctx: ctx, g: g}
	if id != p.machine {
		p.machine, p.sent, p.log, p.notes = id, map[string]uint64{}, map[int]chunk{}, map[string]note{}
		out.reset = true
	}
	documents := p.files.documents()
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		if err := p.document(out, name, documents[name]); err != nil {
			return err
		}
	}
	if err := p.sendNotes(ctx, g, out); err != nil {
		return err
	}
	if err := p.sendLog(ctx, out); err != nil {
		return err
	}
	return out.flush()
}

// read reads what is new in the log.
func (p *publisher) read(ctx context.Context) error {
	if p.files == nil {
		p.files = newStateFiles(p.h.state().Limits)
	}
	return p.each(ctx, p.files.seq, func(e glovebox.Event) (bool, error) {
		if err := p.files.apply(e); err != nil {
			p.files = nil // half of it may have been read
			return false, err
		}
		return true, nil
	})
}

// each calls f with the events after a number, until there are no more or f
// returns false.
func (p *publisher) each(ctx context.Context, after int64, f func(glovebox.Event) (bool, error)) error {
	for {
		events, err := p.h.r.o.Store.Events(ctx, p.h.r.lease.JobID, after, publishPage)
		if err != nil {
			return err
		}
		for _, e := range events {
			if more, err := f(e); err != nil || !more {
				return err
			}
			after = e.Seq
		}
		if len(events) == 0 {
			return nil
		}
	}
}

// document sends a file if it is not what was sent.
func (p *publisher) document(out *parcel, name, text string) error {
	sum := maphash.String(p.seed, text)
	if was, ok := p.sent[name]; ok && was == sum {
		return nil
	}
	if len(text) > guest.MaxPublishedFile {
		text = text[:guest.MaxPublishedFile]
	}
	if err := out.data(name, false, 0, []byte(text), true); err != nil {
		return err
	}
	p.sent[name] = sum
	return nil
}

// noteName is a name under which a note can be published.
var noteName = regexp.MustCompile(`^[0-9A-Za-z_-][0-9A-Za-z._-]{0,99}$`)

// publishedNote returns where a note of the workspace is published; empty if
// it is none. A name in another script gets one that says it roughly.
func publishedNote(name string) string {
	if noteName.MatchString(name) {
		return "notes/" + name
	}
	if name == "" || name[0] == '.' || !strings.HasSuffix(name, ".md") {
		return ""
	}
	rough := strings.Map(func(r rune) rune {
		if r < 0x80 && noteName.MatchString(string(r)) {
			return r
		}
		return '_'
	}, strings.TrimSuffix(name, ".md"))
	return fmt.Sprintf("notes/%.60s-%08x.md", rough, crc32.ChecksumIEEE([]byte(name)))
}

// sendNotes copies the agent's notes out of the workspace. They come from the
// sandbox and go back there: bounded, and looked at by nobody.
func (p *publisher) sendNotes(ctx context.Context, g *guest.Client, out *parcel) error {
	entries, _, err := g.ReadDir(ctx, notesDir)
	switch glovebox.CodeOf(err) {
	case "":
	case glovebox.CodeUnavailable:
		return err
	default: // there are none, or something else is in their place
		entries = nil
	}
	there := map[string]bool{}
	for _, e := range entries {
		to := publishedNote(e.Path)
		if e.Mode&fs.ModeType != 0 || to == "" || len(there) >= maxNotes {
			continue
		}
		there[e.Path] = true
		now := note{e.Size, e.ModTime}
		if was, ok := p.notes[e.Path]; ok && was == now {
			continue
		}
		data, size, err := g.ReadFile(ctx, notesDir+"/"+e.Path, 0, maxNoteBytes)
		if glovebox.CodeOf(err) == glovebox.CodeUnavailable {
			return err
		}
		if err != nil { // it is gone, or unreadable
			continue
		}
		if size > int64(len(data)) {
			data = append(data, "\n[The rest is in "+guest.Workspace+"/"+notesDir+"/"+e.Path+".]\n"...)
		}
		if err := p.document(out, to, string(data)); err != nil {
			return err
		}
		p.notes[e.Path] = now
	}
	for name := range p.notes {
		if !there[name] {
			if err := out.add(guest.PublishPart{Path: publishedNote(name), Remove: true}); err != nil {
				return err
			}
			delete(p.notes, name)
			delete(p.sent, publishedNote(name))
		}
	}
	return nil
}

// sendLog sends what is new in the log, and removes the files of it for which
// there is no room any more.
func (p *publisher) sendLog(ctx context.Context, out *parcel) error {
	first := p.files.firstKept()
	var dropped []int
	for i := range p.log {
		if i < first {
			dropped = append(dropped, i)
		}
	}
	slices.Sort(dropped)
	for _, i := range dropped {
		if err := out.add(guest.PublishPart{Path: chunkName(i), Remove: true}); err != nil {
			return err
		}
		delete(p.log, i)
	}
	for i := first; i < len(p.files.chunks); i++ {
		if p.log[i].through == p.files.chunks[i].through {
			continue
		}
		if err := p.sendChunk(ctx, out, i); err != nil {
			return err
		}
	}
	return nil
}

// sendChunk sends what is new in one file of the log.
func (p *publisher) sendChunk(ctx context.Context, out *parcel, i int) error {
	to := p.files.chunks[i]
	at, begun := p.log[i]
	if !begun {
		at = chunk{through: int64(i) * chunkEvents}
		if i > 0 {
			at.step = p.files.chunks[i-1].step
		}
	}
	var text []byte
	send := func(last bool) error {
		err := out.data(chunkName(i), begun, at.size-int64(len(text)), text, last)
		text = nil // out keeps it
		return err
	}
	err := p.each(ctx, at.through, func(e glovebox.Event) (bool, error) {
		if e.Seq > to.through {
			return false, nil
		}
		at, text = p.files.text(at, text, e)
		if len(text) < publishPiece {
			return true, nil
		}
		return true, send(false)
	})
	if err == nil && (len(text) > 0 || !begun) {
		err = send(true)
	}
	if err != nil {
		return err
	}
	if at.through != to.through || at.size != to.size {
		return glovebox.Errorf(glovebox.CodeInternal, "the text of events up to %d has %d bytes, not %d", at.through, at.size, to.size)
	}
	p.log[i] = at
	return nil
}

// parcel gathers parts until they fill a call.
type parcel struct {
	ctx   context.Context
	g     *guest.Client
	reset bool
	parts []guest.PublishPart
	size  int
}

// data adds bytes of a file in pieces, from an offset on. last is as in
// [guest.PublishPart].
func (o *parcel) data(name string, grow bool, offset int64, data []byte, last bool) error {
	for {
		piece := data[:min(len(data), publishPiece)]
		data = data[len(piece):]
		err := o.add(guest.PublishPart{Path: name, Grow: grow, Offset: offset, Data: piece, Last: last && len(data) == 0})
		if err != nil || len(data) == 0 {
			return err
		}
		offset += int64(len(piece))
	}
}

// add adds a part of at most MaxPublish bytes.
func (o *parcel) add(p guest.PublishPart) error {
	if o.size+len(p.Data) > guest.MaxPublish || len(o.parts) >= guest.MaxPublishParts {
		if err := o.flush(); err != nil {
			return err
		}
	}
	o.parts, o.size = append(o.parts, p), o.size+len(p.Data)
	return nil
}

// flush makes the call, if there is anything to say.
func (o *parcel) flush() error {
	if len(o.parts) == 0 && !o.reset {
		return nil
	}
	err := o.g.Publish(o.ctx, o.reset, o.parts)
	o.reset, o.parts, o.size = false, nil, 0
	return err
}
