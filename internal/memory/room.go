package memory

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// room says how many tokens each part of a request may take, so that with all
// of them at their bounds it is still about the high-water mark.
type room struct {
	result, results  int64 // one result, and all of one message
	note, notes      int64 // one thing said, and all of one message
	instructions     int64
	folded           int64
	ledger, recalled int64
	plan, orders     int64
	images           int // that a fold leaves in the tail
}

const (
	defaultHigh = 100_000 // the high-water mark, before the log says what it is
	leastRoom   = 4_000   // beside what is fixed
	wholeText   = 12_000  // of a result or a message that is shown whole where the window has room for it: more than most have
	wholeHead   = 8_000   // of instructions, the same: each request has them, which costs
	leastCut    = 100     // tokens of what is shown by its ends
	keptImages  = 4       // the newest, which a fold leaves
	imageTokens = 5_012   // of an image, as they are estimated
)

// roomFor divides what the high-water mark leaves beside fixed tokens.
func roomFor(use glovebox.WindowUse, fixed int64) room {
	high := use.High
	if high <= 0 {
		high = defaultHigh
	}
	n := max(high-fixed, high/4, leastRoom)
	// The mark may be far below the window, to save money. That is no reason to
	// show the half of a file, a message or an instruction: a fold that comes
	// sooner makes the room. An estimate is mostly half as much again as what
	// the provider counts, or more.
	wide := max(n, use.Window*7/10*3/2-fixed)
	r := room{
		result: max(n/6, min(wide/6, wholeText)), results: max(n*2/5, min(wide*2/5, 3*wholeText)),
		note: max(n/6, min(wide/6, wholeText)), notes: max(n/6, min(wide/5, 2*wholeText)), instructions: max(n/5, min(wide/8, wholeHead)),
		folded: n / 8, ledger: n / 24, recalled: n / 24, plan: n / 48, orders: n / 48,
	}
	r.images = int(min(keptImages, max(1, n*2/5/imageTokens)))
	return r
}

// bounded returns the content of a call's result as the conversation shows it:
// without lines that are above already, long text by its ends, and no more
// images than an epoch has room for.
func (c *conversation) bounded(content []glovebox.Block, of *call) []glovebox.Block {
	waiting := int64(0)
	for _, x := range c.open.calls {
		if x.result == nil {
			waiting++
		}
	}
	left := max(min(c.room.result, (c.room.results-c.open.results)/max(waiting, 1)), leastCut)
	var out []glovebox.Block
	set := func(i int, x glovebox.Block) {
		if out == nil {
			out = append(out, content...)
		}
		out[i] = x
	}
	for i, x := range content {
		switch x.Type {
		case glovebox.BlockImage:
			if (c.open.results > 0 && c.open.results+imageTokens > c.room.results) || !c.images.take(x, c.early) {
				set(i, imageLine(of.origin.event))
				break
			}
			c.open.results += imageTokens
		case glovebox.BlockText:
			short := x.Text
			if !asksForWhole[of.tool] {
				short = c.repeats.leaveOut(short, of.number, of.origin.event, left)
			}
			if short = cut(short, left, of.origin.handle("result")); short != x.Text {
				x.Text = short
				set(i, x)
			}
			c.repeats.show(short, of.number, of.tool)
			n := llm.Bound(x.Text)
			left = max(left-n, leastCut)
			c.open.results += n
		}
	}
	if out == nil {
		return content
	}
	return out
}

// asksForWhole are the tools that show again what was left out.
var asksForWhole = map[string]bool{"open_event": true, "read_output": true}

// imageBudget bounds the images of an epoch. Beyond it an image comes as a
// line from the start, so that what was sent before stays as it is.
type imageBudget struct {
	count int
	bytes int64
}

// The most that an epoch holds: more than the marks at which a fold is due.
const (
	hardImages     = 40
	hardImageBytes = 12 << 20
	unknownImage   = 512 << 10 // bytes of an image in a blob, where its size was not recorded
)

func (b *imageBudget) take(x glovebox.Block, early bool) bool {
	if early { // a fold leaves but few of them
		return true
	}
	n := imageSize(x)
	if b.count+1 > hardImages || b.bytes+n > hardImageBytes {
		return false
	}
	b.count++
	b.bytes += n
	return true
}

func imageSize(x glovebox.Block) int64 {
	switch {
	case len(x.Data) > 0:
		return int64(len(x.Data))
	case x.Size > 0:
		return x.Size
	}
	return unknownImage
}

func imageLine(event int64) glovebox.Block {
	return glovebox.Text(fmt.Sprintf("[an image, left out to make room; it is in event %d]", event))
}

// thinImages leaves the newest images of all messages, the others by a line.
func (c *conversation) thinImages() {
	left, bytes := c.room.images, int64(hardImageBytes/3)
	c.images = imageBudget{}
	keep := func(x glovebox.Block) bool {
		n := imageSize(x)
		if left == 0 || n > bytes {
			left = 0
			return false
		}
		left--
		bytes -= n
		c.images.count++
		c.images.bytes += n
		return true
	}
	for i := len(c.open.calls) - 1; i >= 0; i-- {
		x := &c.open.calls[i]
		if x.result == nil {
			continue
		}
		if content, changed := thin(x.result.Content, x.origin.event, keep); changed {
			r := *x.result
			r.Content = content
			x.result, c.open.made = &r, nil
		}
	}
	for i := len(c.turns) - 1; i >= 0; i-- {
		t := &c.turns[i]
		var blocks []glovebox.Block
		for k := len(t.from) - 1; k >= 0; k-- {
			content, changed := thin(t.msg.Blocks[k].Content, t.from[k].event, keep)
			if !changed {
				continue
			}
			if blocks == nil {
				blocks = append(blocks, t.msg.Blocks...)
			}
			blocks[k].Content = content
		}
		if blocks != nil {
			c.replace(i, blocks)
		}
	}
}

// thin returns blocks with a line for each image that keep refuses, asked
// about the newest first.
func thin(blocks []glovebox.Block, event int64, keep func(glovebox.Block) bool) (out []glovebox.Block, changed bool) {
	out = blocks
	for i := len(blocks) - 1; i >= 0; i-- {
		if blocks[i].Type != glovebox.BlockImage || keep(blocks[i]) {
			continue
		}
		if !changed {
			out, changed = append([]glovebox.Block(nil), blocks...), true
		}
		out[i] = imageLine(event)
	}
	return out, changed
}

// handle says where the whole of something is.
func (o origin) handle(what string) string {
	if o.blob != "" {
		return fmt.Sprintf("of this %s left out here; read_output with handle %q has the whole", what, o.blob)
	}
	return eventHandle(what, o.event)
}

func eventHandle(what string, event int64) string {
	return fmt.Sprintf("of this %s left out here; open_event with event %d has the whole", what, event)
}

// cut returns text by its first and last lines, in at most limit tokens and a
// few words that say where the whole is; text itself if it has no more.
func cut(text string, limit int64, where string) string {
	// A token has at least a byte, and hardly ever more than sixteen.
	if n := int64(len(text)); n <= limit || n <= 16*limit && llm.Bound(text) <= limit {
		return text
	}
	limit = max(limit, leastCut)
	for half := int(min(limit*2, int64(len(text))/2)); ; half = half * 3 / 4 {
		first, last := edges(text, half)
		if half > 32 && llm.Bound(first)+llm.Bound(last) > limit {
			continue
		}
		return fmt.Sprintf("%s\n[... %d bytes %s ...]\n%s", first, len(text)-len(first)-len(last), where, last)
	}
}

// edges returns about n bytes from the beginning and from the end of text,
// whole lines where there are some. They don't overlap.
func edges(text string, n int) (first, last string) {
	first, last = text[:n], text[len(text)-n:]
	if i := strings.LastIndexByte(first, '\n'); i >= n/2 {
		first = first[:i]
	}
	if i := strings.IndexByte(last, '\n'); i >= 0 && i < n/2 {
		last = last[i+1:]
	}
	for len(first) > 0 && !utf8.RuneStart(text[len(first)]) { // the cut is within a character
		first = first[:len(first)-1]
	}
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	return first, last
}
