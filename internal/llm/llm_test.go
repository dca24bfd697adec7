package llm

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// TestTokensOf compares the estimate with counts of OpenAI's tokenizers
// (the larger of o200k and cl100k), made once.
func TestTokensOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want int64
	}{
		{"", 0},
		{strings.Repeat("在沙箱中运行命令并返回结果，请检查输出。", 20), 360},
		{strings.Repeat("Запусти команду в песочнице и верни результат. ", 20), 381},
		{strings.Repeat("😀🎉✅🚀", 40), 400},
	} {
		got := TokensOf(c.text)
		if got < c.want*55/100 || got > c.want*180/100 {
			t.Errorf("TokensOf(%.20q...) = %d, counted %d", c.text, got, c.want)
		}
		if b := Bound(c.text); b < c.want || b > int64(len(c.text)) {
			t.Errorf("Bound(%.20q...) = %d, counted %d", c.text, b, c.want)
		}
	}
}

func TestEstimateTokens(t *testing.T) {
	t.Parallel()
	empty := EstimateTokens(&Request{})
	r := &Request{System: "You are careful.", Messages: []glovebox.Message{{Role: glovebox.RoleUser, Blocks: []glovebox.Block{
		{Type: glovebox.BlockImage, MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x05\x00\x00\x00\x03\x20")},
		{Type: glovebox.BlockToolResult, CallID: "a", Content: []glovebox.Block{glovebox.Text(strings.Repeat("word ", 1000))}},
	}}}}
	got := EstimateTokens(r)
	if got != EstimateTokens(r) {
		t.Error("two estimates differ")
	}
	if n := got - empty; n < 1000+1365 || n > 2*1000+1365+600 {
		t.Errorf("EstimateTokens = %d more than nothing", n)
	}
	r.Messages[0].Blocks[0].Data = nil
	if n := EstimateTokens(r) - got; n != imageTokens-1765 {
		t.Errorf("an image of unknown size is %d more", n)
	}
}

func BenchmarkTokensOf(b *testing.B) {
	s := strings.Repeat("func (m *Model) Stream(ctx context.Context, n int) error { return nil } // 12345\n", 12_500)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		TokensOf(s)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		provider, name string
		input          int64 // 0: not priced
	}{
		{"anthropic", "claude-opus-5", 5_000_000},
		{"anthropic", "claude-opus-5-5", 4_000_000},
		{"anthropic", "claude-opus-5-5-20260922", 4_000_000},
		{"anthropic", "claude-haiku-4-5-20251001", 1_000_000},
		{"anthropic", "claude-opus-5-6", 0},
		{"openai", "gpt-5", 1_250_000},
		{"openai", "gpt-5-2025-08-07", 1_250_000},
		{"openai", "gpt-5-mini", 250_000},
		{"openai", "gpt-5-pro", 0},
		{"openai", "gpt-5.4-mini-2026-03-17", 750_000},
		{"gemini", "gemini-3.1-pro-preview", 2_000_000},
		{"gemini", "gemini-2.5-flash-preview-09-2025", 300_000},
		{"gemini", "claude-opus-5", 0},
		{"chat", "gpt-5", 0},
		{"nobody", "x", 0},
	} {
		i := Lookup(c.provider, c.name)
		if i.InputPrice != c.input || i.Priced != (c.input > 0) {
			t.Errorf("%s:%s: %+v", c.provider, c.name, i)
		}
		if i.Provider != c.provider || i.Name != c.name || i.Window <= i.MaxOutput || i.MaxOutput <= 0 {
			t.Errorf("%s:%s: %+v", c.provider, c.name, i)
		}
	}
	if Lookup("openai", "gpt-4-turbo").Reasoning || !Lookup("openai", "gpt-9").Reasoning {
		t.Error("reasoning of unknown models")
	}
}

// TestComputer checks which models have a computer tool of their provider's.
func TestComputer(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"anthropic:claude-opus-5-5": AnthropicToolset, "anthropic:claude-opus-4-8": AnthropicToolset, "anthropic:claude-haiku-5-5-20261007": AnthropicToolset,
		"anthropic:claude-opus-4-7": AnthropicComputer2, "anthropic:claude-sonnet-4-6": AnthropicComputer2, "anthropic:claude-opus-4-5-20251101": AnthropicComputer2,
		"anthropic:claude-haiku-4-5-20251001": AnthropicComputer1, "anthropic:claude-9": "",
		"openai:gpt-5.4": OpenAIComputer, "openai:gpt-5.4-mini": OpenAIComputer, "openai:gpt-5.5": OpenAIComputer, "openai:gpt-5.4-nano": "", "openai:gpt-5": "", "openai:gpt-9": "",
		"gemini:gemini-3.5-flash": "", "chat:gpt-5.4": "",
	} {
		provider, model, _ := strings.Cut(name, ":")
		if got := Lookup(provider, model).Computer; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, m := range models {
		if m.Computer != "" && (!slices.Contains(ComputerTools[m.Provider], m.Computer) || !m.Images) {
			t.Errorf("%s: %s", m.Name, m.Computer)
		}
	}
	off, on := Override{Model: "anthropic:*", Computer: new("")}, Override{Model: "openai:gpt-6*", Computer: new(OpenAIComputer)}
	if Lookup("anthropic", "claude-opus-5", off, on).Computer != "" || Lookup("openai", "gpt-6-sol", off, on).Computer != OpenAIComputer {
		t.Error("overrides do nothing")
	}
	for _, o := range []Override{off, on} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, o := range []Override{{Model: "openai:x", Computer: new(AnthropicToolset)}, {Model: "chat:x", Computer: new(OpenAIComputer)}} {
		if err := o.Validate(); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	window, price := int64(131_072), 0.5
	list := []Override{{Model: "chat:*", Window: &window}, {Model: "chat:llama3.3:70b", InputPrice: &price, OutputPrice: new(2.0)}}
	i := Lookup("chat", "llama3.3:70b", list...)
	if i.Window != window || !i.Priced || i.InputPrice != 500_000 || i.OutputPrice != 2_000_000 || i.CacheReadPrice != 500_000 {
		t.Errorf("%+v", i)
	}
	if i := Lookup("chat", "other", list...); i.Window != window || i.Priced {
		t.Errorf("%+v", i)
	}
	for _, o := range []Override{{Model: "x"}, {Model: "a:b", Window: new(int64(0))}, {Model: "a:b", InputPrice: new(-1.0)}, {Model: "a:b", FoldHigh: new(int64(9000))}} {
		if err := o.Validate(); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := list[1].Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateMarks(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	for want, list := range map[string][]Override{
		"": {
			{Model: "chat:*", FoldHigh: n(100_000)}, {Model: "chat:m", Window: n(131_072), FoldLow: n(20_000)},
			{Model: "anthropic:claude-sonnet-4-5", FoldHigh: n(150_000), FoldLow: n(40_000)},
		},
		"500000 is not below the 200000 tokens of the window of anthropic:claude-sonnet-4-5": {{Model: "anthropic:claude-sonnet-4-5", FoldHigh: n(500_000)}},
		"90000 is not below the 64000 tokens of the window of chat:*":                        {{Model: "chat:*", Window: n(64_000), FoldLow: n(90_000)}},
		"60000 is not below 50000, for chat:m":                                               {{Model: "chat:*", FoldHigh: n(50_000)}, {Model: "chat:m", Window: n(131_072), FoldLow: n(60_000)}},
	} {
		err := ValidateMarks(list)
		if want == "" && err != nil || want != "" && (glovebox.CodeOf(err) != glovebox.CodeInvalid || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	i := Lookup("openai", "gpt-6.1-sol")
	u := glovebox.Usage{Input: 1000, CacheRead: 100_000, CacheWrite: 2000, Output: 500}
	if got, want := i.Cost(u), int64(2000+10_000+5000+5000); got != want {
		t.Errorf("Cost = %d, want %d", got, want)
	}
	u.CacheRead = 300_000 // a long request: twice the input, one and a half times the output
	if got, want := i.Cost(u), int64(2*(2000+30_000+5000)+7500); got != want {
		t.Errorf("Cost = %d, want %d", got, want)
	}
	if got, want := i.MaxCost(1000, 100), int64(2500+1000); got != want {
		t.Errorf("MaxCost = %d, want %d", got, want)
	}
	if got := (Info{}).Cost(u); got != 0 {
		t.Errorf("a model without a price costs %d", got)
	}
	if got := (Info{Priced: true, InputPrice: 1}).Cost(glovebox.Usage{Input: 1}); got != 1 {
		t.Errorf("Cost is not rounded up: %d", got)
	}
}
