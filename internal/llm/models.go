package llm

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// PricesAsOf is the day on which the table of models was last compared with
// what the providers publish. Prices change: an [Override] in the
// configuration corrects one without a new version of the program.
const PricesAsOf = "2026-11-20"

// models are the models that are known by name, without the version that may
// follow it. Where a price is about to rise (an introduction), or sources
// disagree, it is the higher one, so that a limit of money holds.
var models = []Info{
	// Anthropic. Cache writes are those that live for five minutes. From
	// version 4.6 on the models decide themselves how long to think.
	works(AnthropicToolset, claude("claude-fable-5-1", 1_000_000, 128_000, 10, 0.25, 12.5, 50)),
	works(AnthropicToolset, claude("claude-mythos-5-1", 1_000_000, 128_000, 10, 0.25, 12.5, 50)),
	works(AnthropicToolset, claude("claude-fable-5", 1_000_000, 128_000, 10, 1, 12.5, 50)),
	works(AnthropicToolset, claude("claude-mythos-5", 1_000_000, 128_000, 10, 1, 12.5, 50)),
	works(AnthropicToolset, claude("claude-opus-5-5", 1_000_000, 128_000, 4, 0.2, 5, 20)),
	works(AnthropicToolset, claude("claude-opus-5", 1_000_000, 128_000, 5, 0.5, 6.25, 25)),
	works(AnthropicToolset, claude("claude-sonnet-5-5", 1_000_000, 128_000, 2, 0.2, 2.5, 10)),
	works(AnthropicToolset, claude("claude-sonnet-5", 1_000_000, 128_000, 2, 0.2, 2.5, 10)),
	works(AnthropicToolset, long(claude("claude-haiku-5-5", 1_000_000, 128_000, 0.1, 0.01, 0.125, 0.5), 100_000, 500, 500)),
	works(AnthropicToolset, claude("claude-opus-4-8", 1_000_000, 128_000, 5, 0.5, 6.25, 25)),
	works(AnthropicComputer2, claude("claude-opus-4-7", 1_000_000, 128_000, 5, 0.5, 6.25, 25)),
	works(AnthropicComputer2, claude("claude-opus-4-6", 1_000_000, 128_000, 5, 0.5, 6.25, 25)),
	works(AnthropicComputer2, claude("claude-sonnet-4-6", 1_000_000, 64_000, 3, 0.3, 3.75, 15)),
	works(AnthropicComputer2, plain(claude("claude-opus-4-5", 200_000, 64_000, 5, 0.5, 6.25, 25))),
	works(AnthropicComputer1, plain(claude("claude-sonnet-4-5", 200_000, 64_000, 3, 0.3, 3.75, 15))),
	works(AnthropicComputer1, plain(claude("claude-haiku-4-5", 200_000, 64_000, 1, 0.1, 1.25, 5))),

	// OpenAI. Up to 5.5 writing to the cache costs nothing beyond the input.
	long(gpt("gpt-6-astra", 1_050_000, 128_000, 10, 1, 12.5, 50), 272_000, 200, 150),
	long(gpt("gpt-6.1-sol", 1_050_000, 128_000, 2, 0.1, 2.5, 10), 272_000, 200, 150),
	long(gpt("gpt-6.1-terra", 1_050_000, 128_000, 1, 0.05, 1.25, 5), 272_000, 200, 150),
	long(gpt("gpt-6-sol", 1_050_000, 128_000, 2, 0.2, 2.5, 10), 272_000, 200, 150),
	long(gpt("gpt-6-luna", 1_050_000, 128_000, 0.1, 0.01, 0.125, 0.5), 272_000, 200, 150),
	long(gpt("gpt-5.6-sol", 1_050_000, 128_000, 5, 0.5, 6.25, 30), 272_000, 200, 150),
	long(gpt("gpt-5.6-terra", 1_050_000, 128_000, 2, 0.2, 2.5, 12), 272_000, 200, 150),
	long(gpt("gpt-5.6-luna", 1_050_000, 128_000, 0.2, 0.02, 0.25, 1.2), 272_000, 200, 150),
	works(OpenAIComputer, long(gpt("gpt-5.5", 1_050_000, 128_000, 5, 0.5, 5, 30), 272_000, 200, 150)),
	works(OpenAIComputer, long(gpt("gpt-5.4", 1_050_000, 128_000, 2.5, 0.25, 2.5, 15), 272_000, 200, 150)),
	works(OpenAIComputer, gpt("gpt-5.4-mini", 400_000, 128_000, 0.75, 0.075, 0.75, 4.5)),
	gpt("gpt-5.4-nano", 400_000, 128_000, 0.2, 0.02, 0.2, 1.25),
	gpt("gpt-5.3-codex", 400_000, 128_000, 1.75, 0.175, 1.75, 14),
	gpt("gpt-5.2", 400_000, 128_000, 1.75, 0.175, 1.75, 14),
	gpt("gpt-5.1", 400_000, 128_000, 1.25, 0.125, 1.25, 10),
	gpt("gpt-5.1-codex", 400_000, 128_000, 1.25, 0.125, 1.25, 10),
	gpt("gpt-5", 400_000, 128_000, 1.25, 0.125, 1.25, 10),
	gpt("gpt-5-mini", 400_000, 128_000, 0.25, 0.025, 0.25, 2),
	gpt("gpt-5-nano", 400_000, 128_000, 0.05, 0.005, 0.05, 0.4),
	gpt("o3", 200_000, 100_000, 2, 0.5, 2, 8),
	gpt("o4-mini", 200_000, 100_000, 1.1, 0.275, 1.1, 4.4),
	plain(gpt("gpt-4.1", 1_047_576, 32_768, 2, 0.5, 2, 8)),
	plain(gpt("gpt-4.1-mini", 1_047_576, 32_768, 0.4, 0.1, 0.4, 1.6)),
	plain(gpt("gpt-4.1-nano", 1_047_576, 32_768, 0.1, 0.025, 0.1, 0.4)),
	plain(gpt("gpt-4o", 128_000, 16_384, 2.5, 1.25, 2.5, 10)),
	plain(gpt("gpt-4o-mini", 128_000, 16_384, 0.15, 0.075, 0.15, 0.6)),

	// Google. The cache fills by itself and costs nothing to write. The prices
	// of gemini-4-argon and 3.7 and 3.8 flash are those after the introduction.
	gemini("gemini-4-argon", 4, 0.2, 20),
	gemini("gemini-3.8-flash", 1.5, 0.15, 7.5),
	gemini("gemini-3.7-flash", 1.5, 0.15, 7.5),
	gemini("gemini-3.6-flash", 1.5, 0.15, 7.5),
	gemini("gemini-3.5-flash", 1.5, 0.15, 9),
	gemini("gemini-3.5-flash-lite", 0.3, 0.03, 2.5),
	long(gemini("gemini-3.1-pro", 2, 0.2, 12), 200_000, 200, 150),
	gemini("gemini-3.1-flash-lite", 0.25, 0.025, 1.5),
	long(gemini("gemini-3-pro", 2, 0.2, 12), 200_000, 200, 150),
	gemini("gemini-3-flash", 0.5, 0.05, 3),
	long(gemini("gemini-2.5-pro", 1.25, 0.125, 10), 200_000, 200, 150),
	gemini("gemini-2.5-flash", 0.3, 0.03, 2.5),
	gemini("gemini-2.5-flash-lite", 0.1, 0.01, 0.4),
}

// The providers' own computer tools, by the type with which they are declared.
// In the table are those that the provider names as a model's; some models
// refuse the others.
const (
	AnthropicToolset   = "computer_toolset_20260801"
	AnthropicComputer2 = "computer_20251124" // beta
	AnthropicComputer1 = "computer_20250124" // beta
	OpenAIComputer     = "computer"
)

// ComputerTools are the computer tools of each provider.
var ComputerTools = map[string][]string{
	"anthropic": {AnthropicToolset, AnthropicComputer2, AnthropicComputer1},
	"openai":    {OpenAIComputer},
}

// unknown is what is assumed of a model that is not in the table: little.
var unknown = map[string]Info{
	"anthropic": {Window: 200_000, MaxOutput: 32_000, Images: true},
	"openai":    {Window: 128_000, MaxOutput: 16_384, Images: true, Reasoning: true},
	"gemini":    {Window: 1_048_576, MaxOutput: 32_768, Images: true},
	"chat":      {Window: 32_768, MaxOutput: 8_192},
}

// version is what may follow the name of a model in the table: a date, a
// revision, "latest", "preview".
var version = regexp.MustCompile(`^[-@](\d{8}|\d{4}-\d{2}-\d{2}|\d{3}|latest|exp|preview(-customtools|(-\d{2,4}){1,3})?)$`)

// Override replaces what is assumed of models. Fields that are nil leave it
// as it is. Prices are in US dollars for a million tokens, as the providers
// publish them.
type Override struct {
	Model     string `json:"model"` // "provider:model"; a * at the end stands for any rest
	Window    *int64 `json:"window,omitempty"`
	MaxOutput *int64 `json:"max_output,omitempty"`
	Images    *bool  `json:"images,omitempty"`
	Reasoning *bool  `json:"reasoning,omitempty"`

	// Computer is one of [ComputerTools] of the provider, or empty for none.
	Computer *string `json:"computer,omitempty"`

	// Naming any price makes the model a priced one; those that are not named
	// and not known are those of the input.
	InputPrice      *float64 `json:"input_price,omitempty"`
	OutputPrice     *float64 `json:"output_price,omitempty"`
	CacheReadPrice  *float64 `json:"cache_read_price,omitempty"`
	CacheWritePrice *float64 `json:"cache_write_price,omitempty"`

	// The marks, in tokens of a request, at which history is folded and to
	// which, for those that are computed from window and prices.
	FoldHigh *int64 `json:"fold_high,omitempty"`
	FoldLow  *int64 `json:"fold_low,omitempty"`
}

// leastFoldHigh is the least that a request can be folded at: what is in every
// request takes most of it.
const leastFoldHigh = 16_000

// Validate returns an error about the first field that can't be meant.
func (o Override) Validate() error {
	provider, name, ok := strings.Cut(o.Model, ":")
	if !ok || provider == "" || name == "" {
		return glovebox.Invalid("models.model", `write "provider:model"`, "%q is no name of a model", o.Model)
	}
	for field, v := range map[string]*int64{"window": o.Window, "max_output": o.MaxOutput, "fold_high": o.FoldHigh, "fold_low": o.FoldLow} {
		if v != nil && (*v < 1 || *v > 1<<40) {
			return glovebox.Invalid("models."+field, "give a number of tokens", "%d is out of range", *v)
		}
	}
	if h := o.FoldHigh; h != nil && *h < leastFoldHigh {
		return glovebox.Invalid("models.fold_high", fmt.Sprintf("give at least %d: rules and tools alone take about 10000", leastFoldHigh), "%d is too little", *h)
	}
	if o.FoldHigh != nil && o.FoldLow != nil && *o.FoldLow >= *o.FoldHigh {
		return glovebox.Invalid("models.fold_low", "give less than fold_high", "%d is not below %d", *o.FoldLow, *o.FoldHigh)
	}
	if c := o.Computer; c != nil && *c != "" && !slices.Contains(ComputerTools[provider], *c) {
		known := strings.Join(ComputerTools[provider], ", ")
		if known == "" {
			known = "no tool of this provider"
		}
		return glovebox.Invalid("models.computer", `known: `+known+`; "" for none`, "%.60q is no computer tool of %s", *c, provider)
	}
	for field, v := range map[string]*float64{"input_price": o.InputPrice, "output_price": o.OutputPrice,
		"cache_read_price": o.CacheReadPrice, "cache_write_price": o.CacheWritePrice} {
		if v != nil && !(*v >= 0 && *v <= 1e6) {
			return glovebox.Invalid("models."+field, "give US dollars for a million tokens", "%v is out of range", *v)
		}
	}
	return nil
}

// ValidateMarks returns an error about the first model for which overrides,
// each of which is valid, together give marks that can't be kept.
func ValidateMarks(overrides []Override) error {
	for _, o := range overrides {
		provider, name, _ := strings.Cut(strings.TrimSuffix(o.Model, "*"), ":")
		i := Lookup(provider, name, overrides...)
		// The name of many models need not be that of any: what is known of
		// such a one is not its window.
		windowed := !strings.HasSuffix(o.Model, "*") || o.Window != nil
		for _, mark := range []struct {
			field  string
			tokens int64
		}{{"fold_high", i.FoldHigh}, {"fold_low", i.FoldLow}} {
			if windowed && mark.tokens >= i.Window {
				return glovebox.Invalid("models."+mark.field, "give less than the window, or set models.window", "%d is not below the %d tokens of the window of %s", mark.tokens, i.Window, o.Model)
			}
		}
		if i.FoldHigh > 0 && i.FoldLow >= i.FoldHigh {
			return glovebox.Invalid("models.fold_low", "give less than fold_high", "%d is not below %d, for %s", i.FoldLow, i.FoldHigh, o.Model)
		}
	}
	return nil
}

// Lookup returns what is known about a model, or a conservative assumption
// without prices. The last override that fits wins, field by field.
func Lookup(provider, name string, overrides ...Override) Info {
	info := unknown[provider]
	if info.Window == 0 {
		info = unknown["chat"]
	}
	best := -1
	for _, m := range models {
		rest, ok := strings.CutPrefix(name, m.Name)
		if m.Provider == provider && ok && len(m.Name) > best && (rest == "" || version.MatchString(rest)) {
			best, info = len(m.Name), m
		}
	}
	if best < 0 && provider == "openai" && (strings.HasPrefix(name, "gpt-4") || strings.HasPrefix(name, "gpt-3") || strings.HasPrefix(name, "chatgpt-")) {
		info.Reasoning = false
	}
	info.Provider, info.Name = provider, name
	for _, o := range overrides {
		prefix, any := strings.CutSuffix(o.Model, "*")
		full := provider + ":" + name
		if full == o.Model || any && strings.HasPrefix(full, prefix) {
			info = o.apply(info)
		}
	}
	return info
}

func (o Override) apply(i Info) Info {
	set(&i.Window, o.Window)
	set(&i.MaxOutput, o.MaxOutput)
	set(&i.Images, o.Images)
	set(&i.Reasoning, o.Reasoning)
	set(&i.Computer, o.Computer)
	set(&i.FoldHigh, o.FoldHigh)
	set(&i.FoldLow, o.FoldLow)
	price := func(dst *int64, v *float64) {
		if v != nil {
			*dst = micros(*v)
		} else if !i.Priced {
			*dst = i.InputPrice
		}
	}
	if o.InputPrice == nil && o.OutputPrice == nil && o.CacheReadPrice == nil && o.CacheWritePrice == nil {
		return i
	}
	price(&i.InputPrice, o.InputPrice)
	price(&i.OutputPrice, o.OutputPrice)
	price(&i.CacheReadPrice, o.CacheReadPrice)
	price(&i.CacheWritePrice, o.CacheWritePrice)
	i.Priced = true
	i.LongFrom = 0
	return i
}

func set[T any](dst, v *T) {
	if v != nil {
		*dst = *v
	}
}

// micros turns dollars into millionths of one.
func micros(dollars float64) int64 { return int64(math.Round(dollars * 1e6)) }

func priced(provider, name string, window, maxOutput int64, input, cacheRead, cacheWrite, output float64) Info {
	return Info{Provider: provider, Name: name, Window: window, MaxOutput: maxOutput, Images: true, Reasoning: true, Priced: true,
		InputPrice: micros(input), CacheReadPrice: micros(cacheRead), CacheWritePrice: micros(cacheWrite), OutputPrice: micros(output)}
}

func claude(name string, window, maxOutput int64, input, cacheRead, cacheWrite, output float64) Info {
	return priced("anthropic", name, window, maxOutput, input, cacheRead, cacheWrite, output)
}

func gpt(name string, window, maxOutput int64, input, cacheRead, cacheWrite, output float64) Info {
	return priced("openai", name, window, maxOutput, input, cacheRead, cacheWrite, output)
}

func gemini(name string, input, cacheRead, output float64) Info {
	return priced("gemini", name, 1_048_576, 65_536, input, cacheRead, input, output)
}

// works returns i as a model that was trained with a computer tool.
func works(computer string, i Info) Info {
	i.Computer = computer
	return i
}

// plain returns i as a model that does not show reasoning when asked to.
func plain(i Info) Info {
	i.Reasoning = false
	return i
}

// long returns i with other prices for requests of more than from tokens.
func long(i Info, from, input, output int64) Info {
	i.LongFrom, i.LongInput, i.LongOutput = from, input, output
	return i
}
