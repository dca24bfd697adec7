package recall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	l := &log{}
	l.add(glovebox.EventCreated, glovebox.Created{ID: "j", Task: "Build a birdhouse shop in React."})                  // 1
	l.call("c1", "read_file", `{"path":"/workspace/src/app/main.go","start_line":4}`)                                  // 2, step 1
	l.result("c1", "read_file", "func parseHTTPHeader(raw string) error {\n\treturn ErrBadHeader\n}")                  // 3
	l.call("c2", "shell", `{"command":"npm run build"}`)                                                               // 4, step 2
	l.result("c2", "shell", "error TS2304: Cannot find name 'useStore'. sha 9f8e7d6c5b4a39281706f5e4d3c2b1a098765432") // 5
	l.say("Please use café colours, and ship on port 8080.")                                                           // 6
	l.add(glovebox.EventNotice, glovebox.Notice{Text: "The machine was rebuilt."})                                     // 7
	l.add(glovebox.EventPlan, glovebox.PlanUpdated{Steps: []glovebox.PlanStep{{Text: "Write the checkout", Status: glovebox.PlanActive}}})
	l.call("c3", "recall", `{"words":"useStore"}`)                                                   // 9, step 3
	l.result("c3", "recall", "event 5: Cannot find name 'useStore'")                                 // 10
	l.say("東京の天気はどうですか")                                                                             // 11
	l.add(glovebox.EventModelRequested, glovebox.ModelRequested{Step: 4})                            // 12
	l.say("The deployment of frontend_cache_v2 failed; see /var/log/frontend/cache.log, code E-991") // 13
	x := l.indexed(t)
	for _, test := range []struct {
		name string
		q    Query
		want string
	}{
		{"a word", Query{Words: "birdhouses"}, "1"},
		{"a part of a name in camel case", Query{Words: "http header parse"}, "3"},
		{"a name whole", Query{Words: "parseHTTPHeader"}, "3"},
		{"a path in part", Query{Words: "app/main.go"}, "2"},
		{"a part of a name in snake case", Query{Words: "frontend cache"}, "13"},
		{"without the mark on the letter", Query{Words: "cafe"}, "6"},
		{"another script", Query{Words: "東京"}, "11"},
		{"nothing repeats what is there", Query{Words: "useStore"}, "5"},
		{"reasoning is not there", Query{Words: "xyzzy unsaid"}, ""},
		{"exact, a code", Query{Exact: []string{"E-991"}}, "13"},
		{"exact, the beginning of a hash", Query{Exact: []string{"9f8e7d6c"}}, "5"},
		{"exact, the middle of one", Query{Exact: []string{"d6c5b4a3"}}, "5"},
		{"exact, case counts", Query{Exact: []string{"Usestore"}}, ""},
		{"exact, punctuation", Query{Exact: []string{"{\n\treturn"}}, "3"},
		{"exact, two", Query{Exact: []string{"port", "8080"}}, "6"},
		{"exact, one of two", Query{Exact: []string{"port", "9090"}}, ""},
		{"exact with words", Query{Exact: []string{"name"}, Words: "store"}, "5"},
		{"regexp", Query{Regexp: `TS\d{4}`}, "5"},
		{"regexp without a word", Query{Regexp: `\bE-9+1$`}, "13"},
		{"regexp with a class first", Query{Regexp: `(?i)[uv]sestore`}, "5"},
		{"regexp and exact", Query{Regexp: `port \d+`, Exact: []string{"café"}}, "6"},
		{"file", Query{File: "main.go"}, "3"},
		{"file, whole path", Query{File: "/workspace/src/app/main.go"}, "3"},
		{"file, not the end of a name", Query{File: "ain.go"}, ""},
		{"file and words", Query{File: "app/main.go", Words: "error header"}, "3"},
		{"tool", Query{Tool: "shell"}, "5"},
		{"tool and words", Query{Tool: "shell", Words: "header"}, ""},
		{"events", Query{Words: "useStore error", From: 1, Through: 4}, "3"},
		{"steps", Query{Words: "error", FromStep: 2}, "5"},
		{"steps to", Query{Words: "error", ThroughStep: 1}, "3"},
		{"after", Query{Words: "error", After: began.Add(4 * time.Minute)}, "5"},
		{"before", Query{Words: "error", Before: began.Add(3 * time.Minute)}, "3"},
		{"a range without events", Query{Words: "error", From: 100}, ""},
		{"only words that say nothing", Query{Words: "how are you"}, ""},
		{"syntax of FTS5", Query{Words: `"parse" AND NEAR(http, 3) OR col:* - ^header (`}, "3"},
		{"NUL and broken UTF-8", Query{Words: "birdhouse\x00\xff\xfe"}, "1"},
		{"a megabyte", Query{Words: "birdhouse " + strings.Repeat("a\"b* ", 200_000)}, "1"},
		{"quotes in exact", Query{Exact: []string{`name 'useStore'`}}, "5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := eventsOf(search(t, x, test.q)); got != test.want {
				t.Errorf("got %q, want %q: %+v", got, test.want, search(t, x, test.q))
			}
		})
	}
	for name, q := range map[string]Query{
		"words":  {},
		"exact":  {Exact: []string{" "}},
		"regexp": {Regexp: "(a"},
		"limit":  {Words: "a", Limit: MaxLimit + 1},
		"tokens": {Words: "a", Tokens: -1},
		"events": {Words: "a", From: 5, Through: 4},
		"steps":  {Words: "a", FromStep: -1},
		"before": {Words: "a", After: began, Before: began.Add(-1)},
	} {
		_, err := x.Search(t.Context(), q)
		if e, ok := errors.AsType[*glovebox.Error](err); !ok || e.Code != glovebox.CodeInvalid || e.Field != name || e.Hint == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, q := range map[string]Query{"exact": {Exact: []string{strings.Repeat("x", MaxExactBytes+1)}}, "regexp": {Regexp: strings.Repeat("x", MaxRegexp+1)}} {
		if _, err := x.Search(t.Context(), q); glovebox.CodeOf(err) != glovebox.CodeTooLarge {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Search(ctx, Query{Words: "error"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestHit(t *testing.T) {
	t.Parallel()
	l := &log{}
	l.say("before it")
	l.call("c", "shell", `{"command":"make kestrel"}`)
	l.result("c", "shell", strings.Repeat("a line of nothing\n", 40)+"kestrel: not found here\n"+strings.Repeat("more of nothing\n", 300))
	l.say("after it " + strings.Repeat("and on and on ", 100))
	r := search(t, l.indexed(t), Query{Words: "kestrel found"})
	h := r.Hits[0]
	if h.Event != 3 || h.Step != 1 || h.Tool != "shell" || h.Type != glovebox.EventToolFinished || !h.Time.Equal(began.Add(2*time.Minute)) {
		t.Errorf("got %+v", h)
	}
	if !strings.Contains(h.Text, "kestrel: not found here") || len(h.Text) > MaxQuote {
		t.Errorf("quote of %d bytes: %q", len(h.Text), h.Text)
	}
	if len(h.Before) != 1 || h.Before[0].Event != 2 || len(h.After) != 1 || h.After[0].Event != 4 || len(h.After[0].Text) > neighbourSize {
		t.Errorf("neighbours %+v %+v", h.Before, h.After)
	}
}

// TestVersions: the newest version of a fact is first, older ones are marked.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, query string
		said        []string
		want        string // events, with what supersedes them
	}{
		{"the same sentence", "port of service heron", []string{"The port of service heron is 8080.", "x", "The port of service heron is 9090."}, "3 1<3"},
		{"three", "port of service heron", []string{"The port of service heron is 1.", "x", "The port of service heron is 2.", "x", "The port of service heron is 3."}, "5 3<5 1<5"},
		{"other words", "deadline of heron", []string{"The deadline of heron is Monday the 4th.", "x", "Forget the old deadline of heron: from today it is Friday."}, "3 1<3"},
		{"key and value", "heron_port", []string{"HERON_PORT=8080", "x", "HERON_PORT=9090"}, "3 1<3"},
		{"it came back", "port of service heron", []string{"The port of service heron is 8080.", "x", "The port of service heron is 9090.", "x", "The port of service heron is 8080."}, "5 3<5"},
		{"other things", "port of service heron", []string{"The port of service heron is 8080.", "x", "The port of service plover is 9090."}, "1 3"},
		{"asked for both", "port of the services heron and plover", []string{"The port of service heron is 8080.", "x", "The port of service plover is 9090."}, "1 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := &log{}
			for i, s := range test.said {
				if s == "x" {
					s = fmt.Sprintf("Something else altogether, thing %d, which nobody asked for.", i)
				}
				l.say(s)
			}
			var got []string
			for _, h := range search(t, l.indexed(t), Query{Words: test.query}).Hits {
				s := fmt.Sprint(h.Event)
				if h.SupersededBy > 0 {
					s += fmt.Sprint("<", h.SupersededBy)
				}
				got = append(got, s)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %s, want %s", strings.Join(got, " "), test.want)
			}
		})
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	l := &log{}
	for i := range 300 {
		l.say(fmt.Sprintf("osprey sighting number %d: %s", i, strings.Repeat("feathers ", i%30)))
	}
	x := l.indexed(t)
	for _, q := range []Query{{Words: "osprey", Limit: 3}, {Words: "osprey", Tokens: 500}, {Words: "osprey feathers", Tokens: 2000, Limit: 50}} {
		r := search(t, x, q)
		tokens := int64(0)
		seen := map[int64]bool{}
		for _, h := range r.Hits {
			tokens += h.tokens()
			if seen[h.Event] {
				t.Errorf("%+v: event %d twice", q, h.Event)
			}
			seen[h.Event] = true
		}
		if !r.More || len(r.Hits) == 0 || q.Limit > 0 && len(r.Hits) > q.Limit || q.Tokens > 0 && tokens > q.Tokens {
			t.Errorf("%+v: %d hits, %d tokens, more %v", q, len(r.Hits), tokens, r.More)
		}
	}
}

// TestBoundary: a word, a string and a match at the bound of what is indexed
// of one event, and at the ends of passages.
func TestBoundary(t *testing.T) {
	t.Parallel()
	l := &log{}
	fill := strings.Repeat("seven b", MaxWhole/7-2)
	l.say(fill + " lastword")
	l.say(strings.Repeat("x", 5*passageMax) + "y")                                   // no blank to cut at
	l.say("first line curlew\n" + strings.Repeat("é", passageMax) + "\nlast dunlin") // no whole character is cut
	x := l.indexed(t)
	for q, want := range map[string]string{"lastword": "1", "curlew": "3", "dunlin": "3"} {
		if got := eventsOf(search(t, x, Query{Words: q})); got != want {
			t.Errorf("%s: got %s", q, got)
		}
	}
	for _, text := range []string{fill, strings.Repeat("é", 10_000), strings.Repeat("a\n", 9999), "", "\n\n"} {
		if got := strings.Join(passages(text), ""); got != text && strings.TrimSpace(text) != "" {
			t.Errorf("passages of %d bytes: %d", len(text), len(got))
		}
		if n := len(passages(text)); n >= 1<<passageBits {
			t.Errorf("%d passages", n)
		}
	}
}

// FuzzSearch: no query fails but as an error about itself.
func FuzzSearch(f *testing.F) {
	l := &log{}
	l.say("The port of service heron is 8080, see src/app.go and ERR_X1.")
	l.call("c1", "shell", `{"command":"ls"}`)
	l.result("c1", "shell", "a\nb\n東京 café")
	x := l.indexed(f)
	f.Add("port", "8080", `\d+`, "app.go", "shell", int64(0), int64(0), 3)
	f.Add("\" OR *", "\x00", "(", "", "", int64(1), int64(2), 0)
	f.Add("may 8 2026 monday", "", "a*", "/", "@", int64(0), int64(9), 500)
	f.Fuzz(func(t *testing.T, words, exact, re, file, tool string, from, through int64, limit int) {
		q := Query{Words: words, Regexp: re, File: file, Tool: tool, From: from, Through: through, Limit: limit}
		if exact != "" {
			q.Exact = []string{exact}
		}
		r, err := x.Search(context.Background(), q)
		if c := glovebox.CodeOf(err); c != "" && c != glovebox.CodeInvalid && c != glovebox.CodeTooLarge {
			t.Fatalf("%+v: %v", q, err)
		}
		for _, h := range r.Hits {
			if h.Event < 1 || h.Event > 3 || len(h.Text) > MaxQuote {
				t.Fatalf("%+v", h)
			}
		}
	})
}

// FuzzAnalyze: terms are inside the text, and none can be taken for more than
// one by the index.
func FuzzAnalyze(f *testing.F) {
	f.Add("parseHTTP_x src/a.go:1 東京タワー é\xff\x00 --a..b//")
	a := newAnalyzer()
	f.Fuzz(func(t *testing.T, text string) {
		a.each(text, func(k token) {
			if k.start < 0 || k.start >= k.end || k.end > len(text) || k.term == "" || len(k.term) > maxTerm+1 || strings.ContainsAny(k.term, " \t\n\x00\"'") {
				t.Fatalf("%+v in %q", k, text)
			}
		})
	})
}

func TestStem(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"connections": "connect", "connected": "connect", "relational": "relat", "hopping": "hop", "ponies": "poni",
		"agreed": "agre", "happy": "happi", "sky": "sky", "generalizations": "gener", "adoption": "adopt", "controlling": "control", "rate": "rate",
		"is": "is", "x86": "x86", "naïve": "naïve", "s": "s", "caresses": "caress", "falling": "fall", "filing": "file"} {
		if got := stem(word); got != want {
			t.Errorf("%s: got %s, want %s", word, got, want)
		}
	}
}

// TestManyWords: of very many words the rare ones find it.
func TestManyWords(t *testing.T) {
	t.Parallel()
	l := &log{}
	var words []string
	for i := range 90 {
		words = append(words, fmt.Sprintf("common%d", i))
	}
	for range 30 {
		l.say(strings.Join(words, " "))
	}
	l.say("the bittern booms")
	r := search(t, l.indexed(t), Query{Words: strings.Join(words, " ") + " bittern"})
	if r.Hits[0].Event != 31 || r.Note == "" {
		t.Errorf("got %+v", r)
	}
}

// letters is an Embedder for tests: texts of the same letters are near.
type letters struct{ fail error }

func (e *letters) Embed(_ context.Context, texts []string) ([][]float32, error) {
	var out [][]float32
	for _, t := range texts {
		v := make([]float32, 26)
		for _, r := range strings.ToLower(t) {
			if r >= 'a' && r <= 'z' {
				v[r-'a']++
			}
		}
		out = append(out, v)
	}
	return out, e.fail
}

// TestVectors: what is near in meaning joins what the words found; without an
// answer the words stand alone.
func TestVectors(t *testing.T) {
	t.Parallel()
	l := &log{}
	l.say("the heron stands in the reeds")
	l.say("tinsel silent listen")
	for i := range 100 {
		l.say(fmt.Sprintf("some other thing, the %dth of its kind", i))
	}
	e := &letters{}
	x := newIndex(t, Options{Embed: e})
	must(t, x.Add(t.Context(), l.events))
	made := 0
	for {
		n, err := x.Embed(t.Context(), 40)
		must(t, err)
		if made += n; n == 0 {
			break
		}
	}
	if made != 102 {
		t.Errorf("%d vectors", made)
	}
	if got := search(t, x, Query{Words: "inlets"}); len(got.Hits) == 0 || got.Hits[0].Event != 2 {
		t.Errorf("got %+v", got)
	}
	if got := search(t, x, Query{Words: "heron reeds"}); got.Hits[0].Event != 1 {
		t.Errorf("got %+v", got)
	}
	if got := search(t, x, Query{Words: "inlets", Tool: "shell"}); len(got.Hits) > 0 {
		t.Errorf("got %+v", got)
	}
	e.fail = errors.New("no such model")
	got := search(t, x, Query{Words: "heron"})
	if eventsOf(got) != "1" || !strings.Contains(got.Note, "no such model") {
		t.Errorf("got %+v", got)
	}
}
