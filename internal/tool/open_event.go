package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/memory/logtext"
)

//go:embed open_event.md
var openEventPrompt string

type openEventInput struct {
	Event  int64 `json:"event" jsonschema:"minimum=1" jsonschema_description:"Its number."`
	Around int   `json:"around,omitempty" jsonschema:"minimum=0,maximum=20" jsonschema_description:"How many events before and after it to show, shortened."`
	Offset int   `json:"offset,omitempty" jsonschema:"minimum=0" jsonschema_description:"Byte of the event's text to go on from, as the page before names it."`
}

// OpenEvent returns the tool that shows an event of the log.
func OpenEvent() Tool { return readOnly(New("open_event", openEventPrompt, openEvent)) }

// aroundBytes is how many bytes of an event around the one that is asked for
// are shown.
const aroundBytes = 300

// eventPage is how many bytes of an event are shown at once: few enough that
// the request of a model with a window of 100,000 tokens has them all. What
// is left out of a page there would be a page away for ever.
const eventPage = 6 << 10

func openEvent(ctx context.Context, env *Env, in openEventInput) (Result, error) {
	if env.Events == nil {
		return ErrorResult("The log can't be read here. /glovebox/log has it as text."), nil
	}
	around := int64(in.Around)
	if in.Offset > 0 {
		around = 0
	}
	first := max(1, in.Event-around)
	events, err := env.Events(ctx, first-1, int(in.Event-first+1+around))
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		return ErrorResult("The log can't be read now: " + clip.Short(err.Error(), 500)), nil
	}
	var before, after strings.Builder
	var it *glovebox.Event
	for i := range events {
		switch e := &events[i]; {
		case e.Seq < in.Event:
			shorten(&before, *e)
		case e.Seq == in.Event:
			it = e
		case e.Seq <= in.Event+around:
			shorten(&after, *e)
		}
	}
	if it == nil {
		newest := ""
		if env.Job != nil && env.Job.Seq > 0 {
			newest = fmt.Sprintf(" The newest is about %d.", env.Job.Seq)
		}
		return ErrorResult(fmt.Sprintf(`"event": there is no event %d.%s`, in.Event, newest)), nil
	}
	text := eventText(*it, logtext.Options{})
	if in.Offset >= len(text) && in.Offset > 0 {
		return ErrorResult(fmt.Sprintf(`"offset": event %d has %d bytes of text`, in.Event, len(text))), nil
	}
	r := TextResult(before.String() + page(text, in.Offset, eventPage) + after.String())
	if in.Offset == 0 {
		r.Content = append(r.Content, eventImages(*it)...)
	}
	return r, nil
}

// maxEventImages is how many images of an event are shown with it. Of more,
// read_output shows each by its handle.
const maxEventImages = 4

// eventImages returns the images of a result: what has left the conversation
// can be seen again.
func eventImages(e glovebox.Event) []glovebox.Block {
	if e.Type != glovebox.EventToolFinished {
		return nil
	}
	f, err := glovebox.Decode[glovebox.ToolFinished](e)
	if err != nil { // its text says so
		return nil
	}
	var images []glovebox.Block
	for _, b := range f.Content {
		if b.Type == glovebox.BlockImage && len(images) < maxEventImages {
			images = append(images, b)
		}
	}
	return images
}

// page returns at most n bytes of text from offset on, whole lines where that
// is possible, and how to go on.
func page(text string, offset, n int) string {
	for offset > 0 && offset < len(text) && !utf8.RuneStart(text[offset]) {
		offset++
	}
	rest := text[offset:]
	if len(rest) <= n {
		return rest
	}
	shown := headOf(rest, max(n, 1024)-100)
	return withNewline(shown) + fmt.Sprintf("[bytes %d to %d of %d are shown; go on with offset %d]\n", offset, offset+len(shown), len(text), offset+len(shown))
}

// shorten writes the beginning of an event that nobody asked for by its number.
func shorten(b *strings.Builder, e glovebox.Event) {
	b.WriteString(withNewline(clip.Short(eventText(e, logtext.Options{MaxText: aroundBytes}), 2*aroundBytes)))
}

// eventText returns an event as the log below /glovebox has it, but for its
// step, which only a reader of the whole log knows.
func eventText(e glovebox.Event, o logtext.Options) string {
	return strings.Replace(string(logtext.Append(nil, e, 0, o)), " · step 0 · ", " · ", 1)
}
