package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/llmtest"
)

// clerkWindow is the window of the scripted model, in tokens.
const clerkWindow = 100_000

// TestMemory is a job of more than 1.5 million tokens with a model whose window
// has 100,000. The server is killed in the middle of it, also while history is
// folded. At the end the model asks about things from the beginning.
// GLOVEBOX_E2E_RECORDS is how many records of about 7,000 tokens it reads.
func TestMemory(t *testing.T) {
	n := 210
	if v := os.Getenv("GLOVEBOX_E2E_RECORDS"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	data := dataDir(t)
	r := newRecords(n)
	c := newClerk(t, r)
	model := llmtest.NewScripted(t, llmtest.Anthropic, clerkWindow, c.reply)
	start := func() *server {
		return serveWith(t, nil, []string{"ANTHROPIC_API_KEY=" + llmtest.Key, "ANTHROPIC_BASE_URL=" + model.URL,
			"GLOVEBOX_MODELS=[{model: 'anthropic:*', window: 100000, max_output: 8000, reasoning: true, input_price: 3, output_price: 15, cache_read_price: 0.3, cache_write_price: 3.75}]",
			"GLOVEBOX_TEMPLATES=false"}, // one machine is started
			data, "--model", "anthropic:scripted")
	}
	s := start()
	id := s.scheduleWith(clerkTask, fmt.Sprintf(`{"limits":{"steps":%d,"tokens":%d}}`, 300+n, 20_000_000+n*100_000), r.zip(t))
	s.say(id, userRule)
	close(c.begun)
	killed := c.attend(s, id, start)
	s = killed.server
	st := s.status(id)
	if st.Status != glovebox.StatusComplete {
		t.Fatalf("after %d steps: %+v, %+v", c.step, st, st.Error)
	}
	t.Logf("the job took %v, with %d kills: %q", time.Since(began).Round(time.Second), len(killed.why), killed.why)
	checkLaws(t, s, id)
	report := download(t, s, id)["report.txt"]
	for _, f := range r.facts {
		if !strings.Contains(report, f.answer) {
			t.Errorf("the report lacks %q:\n%s", f.answer, report)
		}
	}
	checkMemory(t, s.events(id), model.Tally(), n)
	t.Logf("%d answers of the model, %d calls, %d answers given again, %d unknown outcomes, %d requests for summaries", c.step, c.called, c.repeats, c.unknown, c.summaries.asked)
}

// say tells a job something.
func (s *server) say(id, text string) {
	s.t.Helper()
	if code, _, body := s.call(http.MethodPost, "/jobs/"+id+"/messages", "text/plain", text); code/100 != 2 {
		s.t.Fatalf("a message: %d %s", code, body)
	}
}

// attended is how a job went.
type attended struct {
	server *server
	why    []string // it was killed
}

// killAfter says after which events the server is killed, too.
var killAfter = map[glovebox.EventType]struct {
	count int // of them
	what  string
}{
	glovebox.EventFolded:     {3, "a fold"},
	glovebox.EventSummaries:  {9, "summaries were asked for"},
	glovebox.EventSummarized: {14, "summaries were recorded"},
}

// attend follows a job until it has ended, does what the clerk asks for, and
// kills the server at the worst moments.
func (c *clerk) attend(s *server, id string, start func() *server) attended {
	a := attended{server: s}
	counts, seen := map[glovebox.EventType]int{}, int64(0)
	unsaid := false // the fact is for the next server: this one was killed
	for {
		ended := make(chan bool, 1)
		go func(s *server) {
			done := false
			s.follow(id, func(e glovebox.Event) bool {
				done = e.Type == glovebox.EventFinished
				if e.Seq > seen {
					counts[e.Type]++
				}
				if why := killAfter[e.Type]; e.Seq > seen && why.count > 0 && counts[e.Type] == why.count {
					c.event("kill right after " + why.what)
				}
				seen = max(seen, e.Seq)
				return !done
			})
			ended <- done
		}(a.server)
		over, killed := false, false
		for !over {
			select {
			case what := <-c.events:
				switch why, kill := strings.CutPrefix(what, "kill "); {
				case kill:
					a.server.kill()
					a.why, killed = append(a.why, why), true
				case killed: // what the clerk wants of a server may come after the wish to kill it
					unsaid = true
				default:
					c.tell(a.server, id)
				}
			case done := <-ended:
				if done && !killed {
					return a
				}
				over = true
			}
		}
		if !killed {
			select {
			case <-a.server.done:
				a.server.t.Fatalf("the server ended by itself: %v", a.server.err)
			default: // the stream alone has
			}
			continue
		}
		if a.server = start(); unsaid {
			c.tell(a.server, id)
			unsaid = false
		}
	}
}

// tell says the fact to the job.
func (c *clerk) tell(s *server, id string) {
	s.say(id, userFact)
	close(c.said)
}

// checkMemory checks what the log says of a job's memory.
func checkMemory(t *testing.T, events []glovebox.Event, tally llmtest.Tally, n int) {
	t.Helper()
	var history int64
	var u glovebox.Usage
	folds, asked := 0, map[glovebox.Span]int{}
	made := map[glovebox.Span]glovebox.SummaryBy{}
	for _, e := range events {
		switch e.Type {
		case glovebox.EventModelAnswered:
			m := decode[glovebox.ModelAnswered](t, e)
			for _, b := range m.Message.Blocks {
				history += llm.TokensOf(b.Text) + llm.TokensOf(string(b.Input))
			}
			u = u.Add(m.Usage)
		case glovebox.EventToolFinished:
			for _, b := range decode[glovebox.ToolFinished](t, e).Content {
				history += llm.TokensOf(b.Text)
			}
		case glovebox.EventFolded:
			folds++
		case glovebox.EventSummaries:
			for _, s := range decode[glovebox.SummariesRequested](t, e).Spans {
				asked[s]++
			}
		case glovebox.EventSummarized:
			for _, s := range decode[glovebox.Summarized](t, e).Summaries {
				if made[s.Span] != "" {
					t.Errorf("%+v was summarized twice", s.Span)
				}
				made[s.Span] = s.By
			}
		}
	}
	digests := 0
	for s, by := range made {
		if by == glovebox.SummaryByDigest {
			digests++
		}
		if asked[s] > 2 || asked[s] == 0 && by == glovebox.SummaryByModel {
			t.Errorf("%+v was asked for %d times", s, asked[s])
		}
	}
	checkTree(t, made)
	if want := int64(n) * 7_200; history < want {
		t.Errorf("the history has %d tokens, want %d", history, want)
	}
	if folds == 0 || tally.Epochs != folds+1 || tally.Jobs != 1 || tally.Longest > clerkWindow {
		t.Errorf("%d folds; the model saw %+v", folds, tally)
	}
	// Each step adds about a tenth of the window, so much is new in each request.
	if share := u.CacheShare(); share < 0.65 {
		t.Errorf("only %.2f of the input was cached", share)
	}
	t.Logf("%d tokens of history, %d folds, %d summaries, of them %d digests; the longest request had %d tokens; %.1f%% of the input was cached (%.1f%% with summaries), $%.2f",
		history, folds, len(made), digests, tally.Longest, 100*u.CacheShare(), 100*tally.Usage.CacheShare(), float64(u.CostMicros)/1e6)
}

// checkTree checks that summaries cover the events without gap or overlap,
// level by level.
func checkTree(t *testing.T, made map[glovebox.Span]glovebox.SummaryBy) {
	t.Helper()
	ends := map[int]map[int64]glovebox.Span{} // by level and first event
	for s := range made {
		if ends[s.Level] == nil {
			ends[s.Level] = map[int64]glovebox.Span{}
		}
		if _, ok := ends[s.Level][s.From]; ok {
			t.Errorf("two summaries of level %d begin at event %d", s.Level, s.From)
		}
		ends[s.Level][s.From] = s
	}
	for level, list := range ends {
		at, count := int64(1), 0
		for {
			s, ok := list[at]
			if !ok {
				break
			}
			count++
			if _, ok := ends[level-1][at]; level > 0 && !ok {
				t.Errorf("%+v begins where no summary below it does", s)
			}
			at = s.Through + 1
		}
		if count != len(list) {
			t.Errorf("%d of the %d summaries of level %d follow each other from event 1", count, len(list), level)
		}
	}
}
