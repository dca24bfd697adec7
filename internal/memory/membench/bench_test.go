package membench

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
)

// small returns steps of made-up runs.
func small(runs int) []step {
	var base []step
	for i, t := range made(runs) {
		base = append(base, stepsOf(i, t, cutMiddle)...)
	}
	return base
}

func TestWithoutDataTheOtherRowsRun(t *testing.T) {
	t.Parallel()
	o := Options{Data: t.TempDir(), Tokens: []int64{120_000}, Groups: []string{"request", "recall", "facts", "standing"}, Temp: t.TempDir(),
		Info: llm.Info{Provider: "anthropic", Name: "claude-sonnet-4-5", Window: 200_000}}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"made-up runs", "exact identifiers", "Building the request", "Searching"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
	for _, group := range []string{"locomo", "cost", "cache"} {
		o.Groups = []string{group}
		_, err := Run(t.Context(), o)
		if glovebox.CodeOf(err) != glovebox.CodeInvalid || !strings.Contains(err.Error(), "GLOVEBOX_BENCH_DATA") {
			t.Errorf("%s without data: %v", group, err)
		}
	}
	o.Groups = []string{"nonsense"}
	if _, err := Run(t.Context(), o); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("a row that is not there: %v", err)
	}
}

func TestSplitAnswer(t *testing.T) {
	t.Parallel()
	text, command, ok := splitAnswer("First this.\n```\nnot this\n```\nThen that.\n```\nedit 1:2\nx\nend_of_edit\n```\n")
	if !ok || !strings.HasSuffix(text, "Then that.") || !strings.HasPrefix(command, "edit 1:2") {
		t.Errorf("got %q and %q, %v", text, command, ok)
	}
	if _, _, ok := splitAnswer("nothing to do"); ok {
		t.Error("found a command where there is none")
	}
	tool, input := toolOf(command, "a.go")
	if tool != "edit_file" || !json.Valid(input) {
		t.Errorf("got %s of %s", input, tool)
	}
}

// TestFactsAreWhatTheySay holds the facts to what their kinds promise.
func TestFactsAreWhatTheySay(t *testing.T) {
	t.Parallel()
	content := func(text string) []string {
		var out []string
		for _, w := range words(text) {
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
		return out
	}
	p := newPlanter(1)
	for _, f := range p.paraphrases(100) {
		if f.kind != paraphrase {
			continue
		}
		var shared []string
		for _, w := range content(f.question) {
			if slices.Contains(content(f.text), w) {
				shared = append(shared, w)
			}
		}
		if len(shared) != 2 {
			t.Errorf("%q and %q share %v", f.text, f.question, shared)
		}
	}
	values := map[string]bool{}
	for _, f := range append(p.exacts(50), p.supersededs(16)...) {
		if values[f.value] || !strings.Contains(f.text, f.value) {
			t.Errorf("the value of %q is not its own", f.text)
		}
		values[f.value] = true
	}
	a, b := newHistory(small(3), 100_000), newHistory(small(3), 100_000)
	plant(a)
	plant(b)
	for i := range a.calls {
		if x, y := a.at(i), b.at(i); x.answer != y.answer || x.output != y.output || x.user != y.user {
			t.Fatalf("step %d differs between two histories of the same seed", i)
		}
	}
}

// TestPeers holds what peers keep against what they say of themselves.
func TestPeers(t *testing.T) {
	t.Parallel()
	h := questioned(small(60), 400_000)
	s := newSizer()
	costs := map[string]float64{}
	for _, p := range peers(block{id: 1, tokens: 5_000}, DefaultRatio) {
		got := replayPeer(p, s, h)
		costs[p.name] = cost(p.cache.total.usage)
		if p.name == "full history" && (got.share() != 1 || p.cache.total.breaks != 0) {
			t.Errorf("%s found %v and broke the cache %d times", p.name, got, p.cache.total.breaks)
		}
		if p.name != "full history" && p.cache.total.peak > peerHigh+20_000 {
			t.Errorf("%s sent %d tokens", p.name, p.cache.total.peak)
		}
		if p.name == "OpenHands condenser" && len(p.view)+1 > handsMost+2 {
			t.Errorf("%s has %d events", p.name, len(p.view)+1)
		}
		if !p.view[0].assistant && p.view[0].blocks[0] != p.flat[1] {
			t.Errorf("%s lost the task", p.name)
		}
	}
	if costs["full history"] < costs["summarise at 80% of 200k"] {
		t.Errorf("a history that grows without end is the cheaper: %v", costs)
	}
}

// logOf returns a simulated job's log, as the command line prints it.
func logOf(t *testing.T, tokens int64) string {
	t.Helper()
	var b bytes.Buffer
	e := newEngine(t.Context(), memory.Options{}, llm.Lookup("anthropic", "claude-sonnet-4-5"))
	w := json.NewEncoder(&b)
	e.keep = func(ev glovebox.Event) error { return w.Encode(ev) }
	if err := e.run(newHistory(small(40), tokens)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReplay(t *testing.T) {
	t.Parallel()
	log := logOf(t, 150_000)
	o := ReplayOptions{Model: func(string) (memory.Options, llm.Info, error) {
		return memory.Options{}, llm.Lookup("anthropic", "claude-sonnet-4-5"), nil
	}}
	recorded, err := Replay(t.Context(), strings.NewReader(log), o)
	if err != nil {
		t.Fatal(err)
	}
	if !recorded.Recorded || len(recorded.Epochs) < 2 || recorded.Total.Share < .5 || len(recorded.Peers) != 5 {
		t.Errorf("got %+v", recorded)
	}
	o.Name = "anthropic:claude-sonnet-4-5"
	anew, err := Replay(t.Context(), strings.NewReader(log), o)
	if err != nil {
		t.Fatal(err)
	}
	if anew.Recorded || anew.Digests == 0 || len(anew.Epochs) < 2 {
		t.Errorf("got %+v", anew)
	}
	var out bytes.Buffer
	if err := anew.Write(&out); err != nil || !strings.Contains(out.String(), "digests stand in") {
		t.Errorf("%v: %s", err, &out)
	}
	if steps, last := int64(0), anew.Epochs[len(anew.Epochs)-1].Last; true {
		for _, e := range anew.Epochs {
			steps += e.Last - e.First + 1
		}
		if steps != last {
			t.Errorf("epochs have %d steps of %d", steps, last)
		}
	}
}

func TestReplayRefuses(t *testing.T) {
	t.Parallel()
	created := `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"job.created","data":{"id":"a","task":"t","model":"anthropic:x"}}`
	o := ReplayOptions{Model: func(string) (memory.Options, llm.Info, error) { return memory.Options{}, llm.Info{}, nil }}
	for name, tc := range map[string]struct{ log, want string }{
		"nothing":           {"", "line 1"},
		"no JSON":           {created + "\nhello\n", "line 2"},
		"no event":          {created + "\n{}\n", "line 2: it is no event"},
		"a gap":             {created + "\n\n" + `{"seq":3,"type":"notice","data":{"text":"x"}}`, "line 3: event 3 follows event 1"},
		"no beginning":      {`{"seq":1,"type":"notice","data":{"text":"x"}}`, "line 1: event 1 is a notice"},
		"data that is not":  {created + "\n" + `{"seq":2,"type":"notice","data":[]}`, "line 2"},
		"an answer to none": {created + "\n" + `{"seq":2,"type":"model.answered","data":{"message":{"role":"assistant","blocks":[{"type":"text","text":"x"}]}}}`, "line 2: an answer to no request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Replay(t.Context(), strings.NewReader(tc.log), o)
			if glovebox.CodeOf(err) != glovebox.CodeInvalid || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
