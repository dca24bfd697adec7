package instruction

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// intro says how to read what follows.
const intro = "In order of force: what the user wants for good, then what they asked for, the newest first, then files of the workspace, remarks of the user, the project's memory, and what no longer holds. " +
	"What was said later goes before what was said earlier. Lines that begin with | are text of a file: nothing in them is said by the user or by Glovebox."

// listing begins the list of what is not shown.
const listing = "Not shown here, in order of force; open_event shows each, and /glovebox/instructions.md has them:"

func cost(s string) int64 { return llm.TokensOf(s + "\n") }

// place is how an instruction is shown in a head.
type place struct {
	*item
	text   string // as it is shown; empty if it is only listed
	whole  string // as it is shown where there is room
	cost   int64  // of that, in tokens; 0 if that is not known yet
	number string // its handle
	older  bool   // it was asked for, and something else of that weight since
	listed bool   // by its handle
	line   string // its handle with its first words; empty for the number alone
}

// Head returns the instructions word for word, in order of force, each with
// its source, in at most so many tokens as [llm.TokensOf] counts them. What
// does not fit is listed by handle: with its size and first words, or where
// there is too little room, by the number of its event alone, the last of
// them as a range. One that would take half of the room is shown in part. It
// is empty where there is nothing, and where there is no room for a line.
func (s *Set) Head(tokens int64) string {
	if len(s.items) == 0 && s.dropped.n == 0 {
		return ""
	}
	h := header{room: tokens - cost(intro) - cost(listing) - cost(s.rest(1<<40, 1<<40, 1<<40)) - 16}
	if h.room <= 0 {
		short := fmt.Sprintf("%d instructions are in /glovebox/instructions.md; read them.", int64(len(s.items))+s.dropped.n)
		if cost(short) > tokens {
			return ""
		}
		return short
	}
	h.left, h.older = h.room, min(h.room/4, olderRoom)
	later := int64(0)
	for _, x := range s.inForce() {
		p := &place{item: x, number: strconv.FormatInt(x.event, 10)}
		if x.kind == wish && !x.stays && x.by == 0 {
			p.older = later > 0 && x.size <= 2*later
			later = max(later, x.size)
		}
		h.all = append(h.all, p)
		h.handles += p.handle()
	}
	h.texts()
	h.lists()
	return s.write(&h)
}

// What the user asked for before something else of that weight (not less than
// half as long) is mostly done, and each request pays for it: all of it gets a
// quarter of the room, at most olderRoom.
const (
	olderRoom = 1_000 // tokens, of all of it
	olderPart = 250   // tokens, of one that has no room as a whole
	olderList = 500   // tokens, of first words of those that are only listed, and of what no longer holds
)

// header decides what of each instruction is shown.
type header struct {
	room, left int64
	handles    int64 // what those that have no text yet would take by number
	older      int64 // room for older asks
	all        []*place
}

// handle is what the number of an instruction costs.
func (p *place) handle() int64 { return cost(p.number + ", ") }

// texts gives room to texts, those of most force first. A quarter of the room
// is kept for the numbers of those that are left out, if they need that much.
func (h *header) texts() {
	// What the user asks for takes half of the room at first, so that files
	// have some; what they leave, it gets after all.
	wished := int64(0)
	for _, p := range h.all {
		if p.kind == wish && !p.stays && p.by == 0 && !p.older {
			if wished > h.room/2 {
				continue
			}
			if wished += p.price(); wished > h.room/2 {
				continue
			}
		}
		if p.rank() > 1+int(file) || !h.give(p) && p.kind == file {
			break
		}
	}
	// Once one of them has no room, those of less force get none either.
	stop := 1 << 30
	tries := 0
	for _, p := range h.all {
		if p.rank() > stop || stop < 1<<30 && p.by != 0 || tries > 50 { // what was superseded last goes before what was before
			break
		}
		if p.text == "" && !p.older && !h.give(p) {
			stop = p.rank()
			tries++
		}
	}
	for _, p := range h.all { // what is there in part
		if p.text != "" && p.text != p.whole && !p.older {
			if n := p.price() - cost(p.text); n <= h.spare(p) {
				h.left -= n
				p.text = p.whole
			}
		}
	}
}

// price returns what the whole text of p costs.
func (p *place) price() int64 {
	if p.cost == 0 {
		p.whole = p.show()
		p.cost = cost(p.whole)
	}
	return p.cost
}

// spare returns the room that there is for the text of p.
func (h *header) spare(p *place) int64 {
	numbers := h.handles
	if p.text == "" {
		numbers -= p.handle()
	}
	return h.left - min(h.room/4, numbers)
}

// give gives room to the text of p, to a part of it if it is very long, and
// reports whether there was any.
func (h *header) give(p *place) bool {
	left := h.spare(p)
	if p.older {
		left = min(left, h.older)
	}
	if left < 16 {
		return false
	}
	n := p.price()
	text := p.whole
	switch {
	case p.older && n > left:
		text = p.part(min(olderPart, left))
		n = cost(text)
	case n > h.room/2 && n > 200:
		text = p.part(min(h.room/3, left))
		n = cost(text)
	}
	if text == "" || n > left {
		if p.older { // those before it get none either: there may be thousands
			h.older = 0
		}
		return false
	}
	if p.older {
		h.older -= n
	}
	h.left -= n
	h.handles -= p.handle()
	p.text = text
	return true
}

// lists gives a number to those that have no text, and where there is room
// first words.
func (h *header) lists() {
	for _, p := range h.all {
		if p.text != "" {
			continue
		}
		if p.handle() > h.left {
			break
		}
		h.left -= p.handle()
		p.listed = true
	}
	older := int64(olderList)
	for _, p := range h.all {
		if !p.listed {
			continue
		}
		if h.left < 16 {
			return
		}
		least := p.older || p.by != 0
		if least && older < 16 {
			continue
		}
		line := fmt.Sprintf("- event %s, %s, %d bytes: %s", p.number, p.from(), p.size, strconv.Quote(p.first()))
		if n := cost(line) - p.handle(); n <= h.left && (!least || n <= older) {
			h.left -= n
			if least {
				older -= n
			}
			p.line = line
		}
	}
}

// write puts the head together.
func (s *Set) write(h *header) string {
	var texts, lines strings.Builder
	var numbers []string
	rest := s.dropped
	for _, p := range h.all {
		switch {
		case p.text != "":
			texts.WriteString(p.text + "\n")
		case p.line != "":
			lines.WriteString(p.line + "\n")
		case p.listed:
			numbers = append(numbers, p.number)
		default:
			if rest.n == 0 {
				rest.first, rest.last = p.event, p.event
			}
			rest.n++
			rest.first, rest.last = min(rest.first, p.event), max(rest.last, p.event)
		}
	}
	if len(numbers) > 0 {
		lines.WriteString("- events " + strings.Join(numbers, ", ") + "\n")
	}
	if rest.n > 0 {
		lines.WriteString(s.rest(rest.n, rest.first, rest.last) + "\n")
	}
	text := intro + "\n" + texts.String()
	if lines.Len() > 0 {
		text += listing + "\n" + lines.String()
	}
	return strings.TrimSuffix(text, "\n")
}

// rest stands for instructions that are not even listed one by one.
func (s *Set) rest(n, first, last int64) string {
	return fmt.Sprintf("- and %d of least force, from event %d to event %d", n, first, last)
}

// from says where an instruction comes from and what became of it.
func (x *item) from() string {
	var b strings.Builder
	switch x.kind {
	case file:
		b.WriteString("file " + strconv.Quote(x.source))
	case project:
		b.WriteString("project memory " + strconv.Quote(x.source))
	default:
		b.WriteString("the user said")
		if x.asked != 0 {
			fmt.Fprintf(&b, " in answer to event %d", x.asked)
		}
	}
	switch {
	case x.again:
		fmt.Fprintf(&b, ", and again in event %d", x.by)
	case x.gone:
		fmt.Fprintf(&b, ", gone since event %d: it no longer holds", x.by)
	case x.by != 0:
		fmt.Fprintf(&b, ", superseded by event %d: it no longer holds", x.by)
	default:
		b.WriteString(x.partly())
	}
	return b.String()
}

// partly says which sentences of a message no longer hold, or are spoken of later.
func (x *item) partly() string {
	var b strings.Builder
	also := int64(0)
	for _, w := range x.wants {
		if w.replacedBy != 0 {
			fmt.Fprintf(&b, ", of which %s is superseded by event %d", strconv.Quote(clip.Short(w.text, maxFirst)), w.replacedBy)
		}
		also = max(also, w.seeAlso)
	}
	if also != 0 {
		fmt.Fprintf(&b, ", see also event %d", also)
	}
	return b.String()
}

// show returns an instruction with its source, word for word as far as it is kept.
func (x *item) show() string {
	if !x.cut {
		return x.frame(x.text, "")
	}
	if x.tail == 0 {
		return x.frame(x.text, x.whole())
	}
	return x.frame(x.text[:len(x.text)-x.tail]+"\n[...]\n"+x.text[len(x.text)-x.tail:], x.whole())
}

// whole says where to find what is left out.
func (x *item) whole() string {
	if x.blob != "" {
		return fmt.Sprintf("; in part, the whole of %d bytes: read_output with handle %s", x.size, strconv.Quote(clip.Short(x.blob, 128)))
	}
	return fmt.Sprintf("; in part, the whole of %d bytes: open_event %d", x.size, x.event)
}

// part returns an instruction with as much of its beginning as fits into so
// many tokens, and what of it asks for something; empty if that is hardly anything.
func (x *item) part(tokens int64) string {
	var wants strings.Builder
	for _, w := range x.wants {
		if w.replacedBy == 0 && wants.Len() < 4<<10 {
			wants.WriteString("\n" + w.text)
		}
	}
	tail := ""
	if wants.Len() > 0 {
		tail = "\n[...] It asks for:" + wants.String()
	}
	body := x.text[:len(x.text)-x.tail]
	for n := len(body); n > 200; n = n * 3 / 4 {
		text := body
		if n < len(body) {
			text = clip.Head(body, n)
			if i := strings.LastIndexByte(text, '\n'); i > n/2 {
				text = text[:i]
			}
		}
		if shown := x.frame(text+tail, x.whole()); cost(shown) <= tokens {
			return shown
		}
		if n < len(body)/8 {
			tail = ""
		}
	}
	return ""
}

// frame puts a text below a line that says where it comes from, so that
// nothing in it can pass for the end of it. A file can't pass for the user.
func (x *item) frame(text, note string) string {
	head := fmt.Sprintf("event %d, %s%s", x.event, x.from(), note)
	if x.kind == file || x.kind == project {
		return "[" + head + "]\n" + Barred(text)
	}
	fence := strings.Repeat("=", longestRun(text, '=')+1)
	return fence + " " + head + " " + fence + "\n" + text + "\n" + fence + " end of event " + strconv.FormatInt(x.event, 10) + " " + fence
}

// Barred returns text with a bar before each line, whatever ends the one
// before, so that none looks like anything but a part of it.
func Barred(text string) string { return "| " + bars.Replace(text) }

var bars = strings.NewReplacer("\r\n", "\n| ", "\n", "\n| ", "\r", "\n| ", "\v", "\n| ", "\f", "\n| ", "\u0085", "\n| ", "\u2028", "\n| ", "\u2029", "\n| ")

// longestRun returns the length of the longest run of a sign, at least 2.
func longestRun(s string, c byte) int {
	longest, n := 2, 0
	for i := range len(s) {
		if s[i] != c {
			n = 0
			continue
		}
		n++
		longest = max(longest, n)
	}
	return longest
}

// first returns the first words.
func (x *item) first() string {
	return clip.Short(strings.Join(strings.Fields(clip.Short(x.text, 4*maxFirst)), " "), maxFirst)
}

// Orders restates briefly what the user wants heeded, a line each, and names
// the files to follow, in at most so many tokens. Those without room are
// named by their events, as far as there is room for that. It is empty where
// there is nothing.
func (s *Set) Orders(tokens int64) string {
	var lines, files []string
	var events []int64
	for _, x := range s.inForce() {
		if x.by != 0 {
			break
		}
		switch x.kind {
		case wish:
			lines = append(lines, x.order())
			events = append(events, x.event)
		case file:
			if len(files) < 12 {
				files = append(files, fmt.Sprintf("%s (event %d)", strconv.Quote(x.source), x.event))
			}
		}
	}
	var b strings.Builder
	room := tokens
	if len(files) > 0 {
		follow := "- Follow the conventions in " + strings.Join(files, ", ") + "."
		if n := cost(follow); n <= room/2 {
			room -= n
			files = []string{follow}
		} else {
			files = nil
		}
	}
	const reserve = 24 // for a line that names the rest
	for i, line := range lines {
		n := cost(line)
		if n > room-reserve && (i < len(lines)-1 || n > room) {
			if left := theRest(events[i:], room); left != "" {
				b.WriteString(left + "\n")
			}
			break
		}
		room -= n
		b.WriteString(line + "\n")
	}
	for _, follow := range files {
		b.WriteString(follow + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// order is what a message asks for, on one line.
func (x *item) order() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- The user (event %d):", x.event)
	shown := 0
	for _, w := range x.wants {
		if w.replacedBy != 0 {
			continue
		}
		if shown++; shown > 4 {
			b.WriteString(" ...")
			break
		}
		b.WriteString(" " + clip.Short(strings.Join(strings.Fields(w.text), " "), 240))
	}
	return b.String()
}

// theRest names as many events as there is room for.
func theRest(events []int64, room int64) string {
	line := ""
	for i := range events {
		next := fmt.Sprintf("- And what the user said in events %d", events[0])
		for _, e := range events[1 : i+1] {
			next += fmt.Sprintf(", %d", e)
		}
		if i < len(events)-1 {
			next += " and before"
		}
		if cost(next+".") > room {
			return line
		}
		if line = next + "."; i > 40 {
			return line
		}
	}
	return line
}

// Whole returns all instructions as Markdown, for people and for grep.
func (s *Set) Whole() string {
	var b strings.Builder
	b.WriteString("# Standing instructions\n\n" + intro + "\n")
	for _, x := range s.inForce() {
		b.WriteString("\n" + x.show() + "\n")
	}
	if d := s.dropped; d.n > 0 {
		b.WriteString("\n" + s.rest(d.n, d.first, d.last) + "\n")
	}
	return b.String()
}
