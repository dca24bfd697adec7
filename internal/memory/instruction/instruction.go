// Package instruction keeps what a job has to heed beyond its task: what the
// user said while it ran, files such as AGENTS.md, and what the project's
// memory brought in. All of it word for word with its source, in order of
// force, and none of it lost: what does not fit where it is shown is listed
// by the number of its event.
//
// What the user wants done (always, never, use this instead of that) has more
// force than what they remark, words of the user more than files, and what
// was said later more than what was said before about the same. How that is
// told from the words (in English, German, French and Spanish) is a reading
// that may err, so it only orders and marks; it drops nothing.
//
// It is derived from events alone: the same events give the same set, and the
// same set the same text. It takes at most about 5 MiB, whatever is said. A
// Set may be used by one goroutine at a time.
package instruction

import (
	"cmp"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// Bounds of what is kept.
const (
	maxText  = 32 << 10 // bytes of one text; longer ones are kept as their ends
	maxAll   = 2 << 20  // bytes of all texts; beyond it those of least force are kept as their first words
	maxItems = 2000     // beyond it those of least force are only counted
	maxFirst = 160      // bytes of first words
)

// kind says where an instruction comes from, in order of force.
type kind int

const (
	wish    kind = iota // of the user
	file                // of the workspace
	remark              // of the user
	project             // of its memory
)

// item is one instruction: a message of the user, or a reading of a file.
type item struct {
	event  int64
	kind   kind
	source string     // path of a file; name of a file of the project's memory
	text   string     // word for word; if cut, the beginning and the end
	tail   int        // if cut: how many bytes of text are the end
	cut    bool       // the middle is left out of text
	blob   string     // handle of the whole, if that is not in the event
	size   int64      // of the whole, in bytes
	wants  []sentence // of the user
	stays  bool       // it is a wish that is to hold for good: a rule
	asked  int64      // it answers the question of this event; 0 if it answers none

	by    int64 // the event of what took its place; 0 if nothing did
	gone  bool  // the file is there no more
	again bool  // the same was said again
}

// maxRule is how long a message may be, in bytes, that is taken for a rule
// because it says "always" or "must". In a long text, such as a task, that is
// one word of many.
const maxRule = 600

// rank is the order of force: the lower, the more.
func (x *item) rank() int {
	switch {
	case x.by != 0:
		return 10 + int(x.kind)
	case x.stays:
		return 0
	}
	return 1 + int(x.kind)
}

// Set is the instructions of a job up to some event. Make it with [New].
type Set struct {
	items []*item // in order of events
	bytes int     // of their texts

	dropped struct { // those that are only counted
		n           int64
		first, last int64
	}
	question struct { // that waits for the user
		event  int64
		callID string
	}
}

// New returns a set that has read nothing yet.
func New() *Set { return &Set{} }

// Apply reads the next event. Types that instruct nobody are passed over. An
// error means that the event can't be decoded; it changes nothing. Who has
// decoded an event already calls the method of its type.
func (s *Set) Apply(e glovebox.Event) error {
	if apply, ok := appliers[e.Type]; ok {
		return apply(s, e)
	}
	return nil
}

var appliers = map[glovebox.EventType]func(*Set, glovebox.Event) error{
	glovebox.EventUserMessage:  on((*Set).User),
	glovebox.EventQuestion:     on((*Set).Asked),
	glovebox.EventToolFinished: on((*Set).Finished),
	glovebox.EventInstructions: on((*Set).File),
	glovebox.EventProject:      on((*Set).Project),
}

func on[T any](apply func(*Set, int64, T)) func(*Set, glovebox.Event) error {
	return func(s *Set, e glovebox.Event) error {
		v, err := glovebox.Decode[T](e)
		if err == nil {
			apply(s, e.Seq, v)
		}
		return err
	}
}

// User reads what the user said. The answer to a question is a remark, unless
// it says that it is to hold for good.
func (s *Set) User(seq int64, m glovebox.UserMessage) {
	x := &item{event: seq, kind: remark, blob: m.Blob, size: max(m.Size, int64(len(m.Text)))}
	wants, how := wanted(m.Text)
	x.asked, s.question.event, s.question.callID = s.question.event, 0, ""
	if len(wants) > 0 && (x.asked == 0 || how == forGood) {
		x.kind, x.wants = wish, wants
		x.stays = how != once && x.size <= maxRule
		s.compare(x)
	}
	s.repeated(x, m.Text)
	s.add(x, m.Text)
}

// Asked reads a question to the user: what they say next answers it.
func (s *Set) Asked(seq int64, q glovebox.QuestionAsked) {
	s.question.event, s.question.callID = seq, q.CallID
}

// Finished reads the result of a tool. With the result of the question that
// waits, it waits no longer; other results are passed over.
func (s *Set) Finished(_ int64, f glovebox.ToolFinished) {
	if s.question.event != 0 && f.CallID == s.question.callID {
		s.question.event, s.question.callID = 0, ""
	}
}

// File reads a file of instructions. It replaces what was read at its path before.
func (s *Set) File(seq int64, r glovebox.InstructionsRead) {
	s.replace(seq, file, r.Path, r.Text == "")
	if r.Text != "" {
		s.add(&item{event: seq, kind: file, source: clip.Short(r.Path, maxSource), blob: r.Blob, size: int64(len(r.Text))}, r.Text)
	}
}

// Project reads what the project's memory brought in.
func (s *Set) Project(seq int64, p glovebox.ProjectRecalled) {
	for _, f := range p.Files {
		s.replace(seq, project, f.Name, f.Text == "")
		if f.Text != "" {
			s.add(&item{event: seq, kind: project, source: clip.Short(f.Name, maxSource), size: int64(len(f.Text))}, f.Text)
		}
	}
}

// maxSource is how many bytes of a path are kept.
const maxSource = 300

// replace marks what was read at a path before, of which the first words
// remain here.
func (s *Set) replace(seq int64, k kind, source string, gone bool) {
	source = clip.Short(source, maxSource)
	for _, x := range s.items {
		if x.kind == k && x.source == source && x.by == 0 {
			x.by, x.gone = seq, gone
			s.cut(x)
		}
	}
}

// repeated marks what was said before in the same words.
func (s *Set) repeated(later *item, text string) {
	for _, x := range s.items {
		if (x.kind == wish || x.kind == remark) && x.size == later.size && !x.cut && x.text == text {
			x.by, x.again = later.event, true
			s.cut(x)
		}
	}
}

// How many wishes and rules a new one is compared with.
const (
	maxCompared      = 200
	maxRulesCompared = 400

	// maxLongCompared is how many sentences of a long text are compared, lest
	// the time grow with the square of what is pasted.
	maxLongCompared = 8
)

// compare finds the wishes that a new one takes the place of: rules, and the
// newest of the others. A message is superseded when all that it asks for is.
func (s *Set) compare(later *item) {
	long := later.size > maxRule
	takesBack := !long && slices.ContainsFunc(later.wants, sentence.takesBack)
	wishes, rules := 0, 0
	for i := len(s.items) - 1; i >= 0; i-- {
		x := s.items[i]
		if x.kind != wish || x.by != 0 {
			continue
		}
		if x.stays {
			rules++
		} else {
			wishes++
		}
		if x.stays && rules > maxRulesCompared || !x.stays && wishes > maxCompared {
			continue
		}
		x.meets(later, long, takesBack)
		takesBack = false // only what was said last
		if !slices.ContainsFunc(x.wants, func(w sentence) bool { return w.replacedBy == 0 }) {
			x.by = later.event
		}
	}
}

// meets marks what of a message a later one takes the place of. A long text
// does not take the place of a rule.
func (x *item) meets(later *item, long, takesBack bool) {
	compared := x.compared()
	for a := range x.wants {
		old := &x.wants[a]
		how := unrelated
		if a < compared {
			for b := range later.wants[:later.compared()] {
				how = max(how, relate(old, &later.wants[b], long))
			}
		}
		switch {
		case takesBack:
			how = replaces
		case long && x.stays:
			how = unrelated
		}
		switch {
		case how == replaces && old.replacedBy == 0:
			old.replacedBy = later.event
		case how == related:
			old.seeAlso = later.event
		}
	}
}

// compared returns how many sentences of a message are compared with others.
func (x *item) compared() int {
	if x.size > maxRule {
		return min(len(x.wants), maxLongCompared)
	}
	return len(x.wants)
}

// add keeps an instruction within the bounds.
func (s *Set) add(x *item, text string) {
	const end = maxText / 8
	x.text = text
	if len(text) > maxText {
		first, last := clip.Head(text, maxText-end), clip.Tail(text, end)
		x.text, x.tail, x.cut = first+last, len(last), true
	}
	x.cut = x.cut || x.blob != ""
	x.text = strings.Clone(x.text)
	s.items = append(s.items, x)
	s.bytes += len(x.text)
	if s.bytes > maxAll {
		s.shorten()
	}
	if len(s.items) > maxItems {
		s.drop()
	}
}

// shorten keeps the first words of texts of least force, down to three
// quarters of the bound.
func (s *Set) shorten() {
	order := s.worth()
	for i := len(order) - 1; i >= 0 && s.bytes > maxAll*3/4; i-- {
		x := order[i]
		if len(x.text) <= 2*maxFirst {
			continue
		}
		s.cut(x)
	}
}

// cut keeps only the first words of an instruction.
func (s *Set) cut(x *item) {
	s.bytes -= len(x.text)
	if len(x.text) > 2*maxFirst {
		x.text, x.tail, x.cut = strings.Clone(clip.Head(x.text, 2*maxFirst)), 0, true
	}
	s.bytes += len(x.text)
}

// drop keeps only a count of those of least force, an eighth of all.
func (s *Set) drop() {
	order := s.worth()
	weak := map[*item]bool{}
	for _, x := range order[len(order)-maxItems/8:] {
		weak[x] = true
		s.bytes -= len(x.text)
		d := &s.dropped
		if d.n == 0 {
			d.first, d.last = x.event, x.event
		}
		d.n++
		d.first, d.last = min(d.first, x.event), max(d.last, x.event)
	}
	s.items = slices.DeleteFunc(s.items, func(x *item) bool { return weak[x] })
}

// worth returns all instructions, those first that are kept longest where
// there is no room for all.
func (s *Set) worth() []*item {
	worth := func(x *item) int {
		switch {
		case x.by != 0:
			return 4
		case x.stays:
			return 0
		case x.kind == file:
			return 1
		case x.kind == wish:
			return 2
		}
		return 3
	}
	out := slices.Clone(s.items)
	slices.SortStableFunc(out, func(a, b *item) int {
		return cmp.Or(cmp.Compare(worth(a), worth(b)), cmp.Compare(b.event, a.event))
	})
	return out
}

// inForce returns all instructions, those of most force first: of the user
// the newest first, of files those nearest to the root.
func (s *Set) inForce() []*item {
	out := slices.Clone(s.items)
	slices.SortStableFunc(out, func(a, b *item) int {
		if c := cmp.Compare(a.rank(), b.rank()); c != 0 {
			return c
		}
		if a.by == 0 && (a.kind == file || a.kind == project) {
			return cmp.Or(cmp.Compare(strings.Count(a.source, "/"), strings.Count(b.source, "/")), cmp.Compare(a.source, b.source))
		}
		return cmp.Compare(b.event, a.event)
	})
	return out
}
