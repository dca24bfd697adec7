package memory

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

var smallFixed = sync.OnceValue(func() int64 {
	b := newWorld(Marks{}).b
	return b.Fixed()
})

// smallMarks draws marks under which short histories fold often.
func smallMarks(t *rapid.T) Marks {
	low := smallFixed() + int64(rapid.IntRange(3_500, 7_000).Draw(t, "low"))
	high := low + int64(rapid.IntRange(2_500, 8_000).Draw(t, "between"))
	return Marks{Window: high * 5 / 4, Low: low, High: high, Prepare: high - (high-low)/5, MaxBytes: 10 << 20, MaxImages: 32, TTL: cacheTTL, Free: rapid.Bool().Draw(t, "free")}
}

// checkTree returns an error if the summaries of b are not a cover of what is
// folded, each merge of its eight nodes.
func checkTree(b *Builder) error {
	next := int64(1)
	for _, s := range b.Frontier() {
		if s.From != next || s.Through < s.From || s.Text == "" {
			return fmt.Errorf("summary of %d to %d after event %d", s.From, s.Through, next-1)
		}
		next = s.Through + 1
	}
	if next-1 != b.tree.shown {
		return fmt.Errorf("summaries up to event %d, folded up to %d", next-1, b.tree.shown)
	}
	for level, nodes := range b.tree.levels {
		next := int64(1)
		for i, s := range nodes {
			if s.From != next || s.Level != level {
				return fmt.Errorf("level %d, node %d: %v, expected to begin with %d", level, i, s.Span, next)
			}
			if level > 0 {
				below := b.tree.levels[level-1][fanout*i : fanout*i+fanout]
				if below[0].From != s.From || below[fanout-1].Through != s.Through {
					return fmt.Errorf("level %d, node %d: %v is not what its nodes are", level, i, s.Span)
				}
			}
			next = s.Through + 1
		}
	}
	return nil
}

// checkHead returns an error if rules, task or standing instructions are not
// in the request word for word.
func checkHead(r *llm.Request, instructions string) error {
	if !strings.HasPrefix(r.System, small.Rules) || r.Messages[0].Blocks[1].Text != task {
		return fmt.Errorf("rules or task are not there word for word")
	}
	for _, s := range options.Standing {
		if !strings.Contains(r.System, s) {
			return fmt.Errorf("the standing instruction %q is missing", s)
		}
	}
	if instructions == "" {
		return nil
	}
	for _, m := range r.Messages {
		for _, x := range m.Blocks {
			if strings.Contains(strings.ReplaceAll(x.Text, "\n| ", "\n"), instructions) {
				return nil
			}
		}
	}
	return fmt.Errorf("the instructions %q are not there word for word", instructions)
}

// checkEpoch returns an error about reasoning or signatures of another model or epoch.
func checkEpoch(b *Builder, r *llm.Request) error {
	for i, t := range b.settle().turns {
		for _, x := range t.msg.Blocks {
			if x.Type == glovebox.BlockReasoning && t.seq < b.fold.seq {
				return fmt.Errorf("message %d: reasoning of an earlier epoch", i)
			}
		}
	}
	if n := b.settle().size().images; n > hardImages {
		return fmt.Errorf("%d images", n)
	}
	return nil
}

// histories is how many histories each half of [TestHistories] draws: some two
// minutes on two processors.
const histories = 50_000

// TestMain has the properties checked over more histories than is usual,
// unless -short, -race or -rapid.checks says otherwise: the race detector looks
// at what runs at once, which is the same in every history.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := testing.Short() || raceDetector
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		flag.Set("rapid.checks", strconv.Itoa(histories))
	}
	os.Exit(m.Run())
}

func TestHistories(t *testing.T) {
	t.Parallel()
	for _, half := range []string{"one half", "other half"} {
		t.Run(half, func(t *testing.T) {
			t.Parallel()
			checkHistories(t)
		})
	}
}

func checkHistories(t *testing.T) {
	t.Helper()
	folds, failed, runs := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		w := newWorld(smallMarks(t))
		v := &watcher{T: t, world: w, deep: rapid.IntRange(0, 19).Draw(t, "deep") == 0, prefix: int64(rapid.IntRange(1, 150).Draw(t, "prefix"))}
		w.check = v.see
		if err := w.live(t, rapid.IntRange(1, 10).Draw(t, "steps")); err != nil {
			if glovebox.CodeOf(err) != CodeContext {
				t.Fatal(err)
			}
			failed++
		}
		folds += w.folds
	})
	t.Logf("%d histories, %d folds, %d could not be folded", runs, folds, failed)
}

// watcher checks the requests of a history as it grows.
type watcher struct {
	*rapid.T
	*world
	deep         bool  // after every event
	prefix       int64 // the event at which the log is read anew
	instructions string
	answered     []glovebox.Message // of the newest answered request of the epoch
}

func (v *watcher) see(e glovebox.Event) {
	switch e.Type {
	case glovebox.EventInstructions:
		r, _ := glovebox.Decode[glovebox.InstructionsRead](e)
		v.instructions = strings.TrimSpace(r.Text)
	case glovebox.EventFolded:
		v.answered = nil
	case glovebox.EventModelRequested, glovebox.EventModelAnswered:
	default:
		if !v.deep && e.Seq != v.prefix {
			return
		}
	}
	r := v.b.Request(v.b.maxOutput)
	for _, err := range []error{checkLegal(r), checkHead(r, v.instructions), checkEpoch(v.b, r)} {
		if err != nil {
			v.Fatalf("event %d (%s): %v", e.Seq, e.Type, err)
		}
	}
	switch e.Type {
	case glovebox.EventFolded:
		v.folded(e)
	case glovebox.EventModelAnswered: // an answered request is a prefix of the next
		if n := len(v.answered); n > 0 && (len(r.Messages) < n || !samePrefix(v.answered, r.Messages)) {
			v.Fatalf("event %d: the request changed in its middle", e.Seq)
		}
		v.answered = r.Messages[:len(r.Messages)-1]
	case glovebox.EventModelRequested:
		if err := checkRepeats(r); err != nil {
			v.Fatalf("event %d: %v", e.Seq, err)
		}
		if n := v.b.Tokens(); n > v.marks.High+12_000 {
			v.Fatalf("event %d: %d tokens of %+v", e.Seq, n, v.marks)
		}
	}
	if v.deep {
		if got, want := v.b.settle().estimate(), llm.EstimateTokens(r); got != want {
			v.Fatalf("event %d: the estimate is %d, counted anew %d", e.Seq, got, want)
		}
		if v.b.Digest(r) != Digest(r) {
			v.Fatalf("event %d: the digest from kept sums differs", e.Seq)
		}
	}
	if v.deep && e.Seq%7 == 0 || e.Seq == v.prefix {
		v.again(e, r)
	}
}

// folded checks the tree, and that the fold said what the request has.
func (v *watcher) folded(e glovebox.Event) {
	f, _ := glovebox.Decode[glovebox.Folded](e)
	if err := checkTree(v.b); err != nil {
		v.Fatalf("event %d: %v", e.Seq, err)
	}
	got := v.b.Use(v.marks)
	if v.b.ceiling == 0 && f.Reason != glovebox.FoldRefused && (apart(got.Tokens(), f.Use.Tokens()) > 2 || apart(got.Head, f.Use.Head) > 2) {
		v.Fatalf("event %d: the request has %+v, the fold said %+v", e.Seq, got, f.Use)
	}
}

// again reads the log anew, as after a crash at this event.
func (v *watcher) again(e glovebox.Event, r *llm.Request) {
	scratch := New(small)
	for _, e := range v.events {
		if err := scratch.Apply(e); err != nil {
			v.Fatal(err)
		}
	}
	scratch.catchUp(true)
	if now := scratch.Request(scratch.maxOutput); Digest(now) != Digest(r) || scratch.Tokens() != v.b.Tokens() {
		v.Fatalf("event %d: rebuilt from the log the request differs: %d and %d tokens", e.Seq, scratch.Tokens(), v.b.Tokens())
	}
	if a, b := scratch.Due(v.marks, v.now), v.b.Due(v.marks, v.now); a != b {
		v.Fatalf("event %d: rebuilt from the log %v is due, else %v", e.Seq, a, b)
	}
}

func apart(a, b int64) int64 { return max(a-b, b-a) }

func samePrefix(old, now []glovebox.Message) bool {
	for len(old) > 0 && len(old[0].Blocks) == len(now[0].Blocks) && &old[0].Blocks[0] == &now[0].Blocks[0] {
		old, now = old[1:], now[1:]
	}
	a, _ := json.Marshal(old)
	b, _ := json.Marshal(now[:len(old)])
	return string(a) == string(b)
}
