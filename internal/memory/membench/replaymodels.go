package membench

import (
	"cmp"
	"slices"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
)

// become has a model go on with a replay, as the loop has: the log so far is
// read anew as for it, its window and prices hold, and of another model's
// cache it finds nothing.
func (p *replayer) become(name string) error {
	if name == p.name {
		return nil
	}
	mem, info, err := p.o.Model(name)
	if err != nil {
		return err
	}
	b := memory.New(mem)
	for _, e := range p.log {
		if err := b.Apply(e); err != nil {
			return err
		}
	}
	first := p.name == ""
	p.name, p.b, p.info, p.ratio = name, b, info, p.o.SummaryRatio
	if info.Provider == "replay" {
		p.ratio = 0 // no model writes any
	}
	r := memory.New(mem).Request(1)
	p.head = p.sizer.head(r.System, r.Tools)
	p.cache.become(name, info)
	for _, x := range p.peers {
		x.cache.become(name, info)
		x.length += p.head.tokens - x.flat[0].tokens
		x.flat[0] = p.head
	}
	p.out.Priced = info.Priced && (first || p.out.Priced)
	if !slices.Contains(p.out.Models, name) {
		p.out.Models = append(p.out.Models, name)
	}
	return nil
}

// firstModel returns the model that a log begins with, and an error where it
// names none.
func firstModel(events []glovebox.Event, created glovebox.Created) (string, error) {
	name := created.Model
	for _, e := range events {
		if name != "" {
			break
		}
		if e.Type != glovebox.EventModelRequested {
			continue
		}
		r, err := glovebox.Decode[glovebox.ModelRequested](e)
		if err != nil {
			return "", err
		}
		name = r.Model
	}
	if name == "" {
		return "", glovebox.Invalid("model", "name one: --model PROVIDER:NAME", "the log names no model")
	}
	return name, nil
}

// models gives an event of the log to the model that it is about. It returns
// the event as the replay has it, and whether it is part of that at all: where
// one model is asked for by name, no other ever goes on.
func (p *replayer) models(ev glovebox.Event) (glovebox.Event, bool, error) {
	switch ev.Type {
	case glovebox.EventCreated:
		c, err := glovebox.Decode[glovebox.Created](ev)
		c.Model = p.name
		return with(ev, c), true, err
	case glovebox.EventModelChanged:
		c, err := glovebox.Decode[glovebox.ModelChanged](ev)
		if err != nil || p.o.Name != "" {
			return ev, false, err
		}
		return ev, true, p.become(cmp.Or(c.Model, p.name))
	case glovebox.EventModelRequested:
		r, err := glovebox.Decode[glovebox.ModelRequested](ev)
		if err != nil {
			return ev, false, err
		}
		if p.o.Name == "" {
			return ev, true, p.become(cmp.Or(r.Model, p.name))
		}
		r.Model = p.name
		return with(ev, r), true, nil
	}
	return ev, true, nil
}

// with returns an event with other data.
func with(ev glovebox.Event, data any) glovebox.Event {
	changed := glovebox.NewEvent(ev.Time, ev.Type, data)
	changed.Seq = ev.Seq
	return changed
}

// become has the cache be that of a model, which has kept what it kept when it
// was asked before, and has what is asked cost what that model takes.
func (c *cache) become(name string, info llm.Info) {
	if c.models == nil {
		c.models = map[string]map[uint64]struct{}{}
	}
	kept, ok := c.models[name]
	if !ok {
		kept = map[uint64]struct{}{}
		c.models[name] = kept
	}
	info.LongFrom = 0 // prices are those of requests of common length
	c.kept, c.last, c.prices = kept, 0, info
}

// pay counts what a call used.
func (c *cache) pay(u glovebox.Usage) {
	c.total.usage = c.total.usage.Add(u)
	c.total.micros += c.prices.Cost(u)
}
