package replay

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// TestUsageIsEstimated: a turn that says no usage counts what is new as input,
// the rest as read from the cache, and its own texts as output.
func TestUsageIsEstimated(t *testing.T) {
	t.Parallel()
	said := strings.Repeat("a word ", 100)
	s, err := Parse("u.replay", []byte("turn\ntext "+said+"\ncall a\n\nturn\ncall b\n\nturn\ntext end\nusage output=7\n"))
	if err != nil {
		t.Fatal(err)
	}
	m := New(s, Options{})
	r := &llm.Request{System: said, MaxOutput: 32_000, Messages: []glovebox.Message{{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text(said)}}}}
	ask := func() glovebox.Usage {
		t.Helper()
		resp, err := m.Stream(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		u := resp.Usage
		if read, most := u.Input+u.CacheRead, llm.EstimateTokens(r); read > most || u.Output > r.MaxOutput || u.CostMicros != 0 || u.Calls != 1 {
			t.Errorf("%+v, where at most %d could be read", u, most)
		}
		r.Messages = append(r.Messages, resp.Message, glovebox.Message{Role: glovebox.RoleUser, Blocks: []glovebox.Block{toolResult(said, false)}})
		return u
	}
	words := llm.TokensOf(said)
	first := ask()
	if first.Input != 2*words || first.CacheRead != 0 || first.Output < words-1 || first.Output > words+5 {
		t.Errorf("first %+v, a text of %d", first, words)
	}
	second := ask()
	if second.Input != words || second.CacheRead != first.Input+first.Output {
		t.Errorf("second %+v after %+v", second, first)
	}
	if third := ask(); third.Output != 7 || third.Input != 0 {
		t.Errorf("what the script says does not count: %+v", third)
	}
}

// TestEstimateIsWithinMaxOutput: limits of tokens hold for estimates too.
func TestEstimateIsWithinMaxOutput(t *testing.T) {
	t.Parallel()
	s, err := Parse("u.replay", []byte("model input_price=1000000 output_price=2000000\nturn\ntext "+strings.Repeat("word ", 1000)))
	if err != nil {
		t.Fatal(err)
	}
	r := &llm.Request{System: "x", MaxOutput: 50}
	resp, err := New(s, Options{}).Stream(t.Context(), r, nil)
	if err != nil || resp.Usage.Output != 50 {
		t.Fatalf("%+v, %v", resp, err)
	}
	if want := s.Info().Cost(resp.Usage); resp.Usage.CostMicros != want || want == 0 {
		t.Errorf("it costs %d, want %d", resp.Usage.CostMicros, want)
	}
}
