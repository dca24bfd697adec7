package replay

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Bounds of a file. A recording of a long job has a few thousand turns and a
// few megabytes.
const (
	MaxFile    = 64 << 20 // bytes
	MaxTurns   = 100_000
	MaxBlocks  = 256 // parts of a turn
	MaxTimes   = 1_000
	MaxName    = 256  // bytes of the name of a tool, and of the id of a call
	MaxMessage = 4096 // bytes of the message of a failure
)

// Script is a conversation as a file holds it.
type Script struct {
	Name  string // where it came from, for messages
	Model *Card  // nil if there is no model line
	Turns []Turn
}

// Card is what a model line says. Zero fields are not set.
type Card struct {
	Window, MaxOutput               int64
	Images                          bool
	InputPrice, OutputPrice         int64
	CacheReadPrice, CacheWritePrice int64
}

// Turn is one answer of the model, or its failure.
type Turn struct {
	Title  string
	Expect []Expectation
	Fail   []Failure
	Blocks []glovebox.Block // text, reasoning and tool_use; a CallID may be empty
	Stop   llm.StopReason   // empty: follows from Blocks
	Usage  glovebox.Usage
	Delay  time.Duration
	Line   int // of the file, from 1; 0 if it was not read from one
}

// Expectation is a condition on what the job answered to the turn before.
type Expectation struct {
	Of   int // which result, from 1; 0 means all of them, ofMessage what the user said
	Op   Op
	Text string // of OpContains, OpLacks, OpMatches
	Line int

	re *regexp.Regexp // of OpMatches
}

// ofMessage as Expectation.Of looks at the user's words instead of a result.
const ofMessage = -1

// Op is what an [Expectation] asks.
type Op string

// The conditions.
const (
	OpOK       Op = "ok"
	OpError    Op = "error"
	OpContains Op = "contains"
	OpLacks    Op = "lacks"
	OpMatches  Op = "matches"
)

// Failure is a call of the model that goes wrong on purpose.
type Failure struct {
	Kind       llm.Kind
	Status     int
	RetryAfter time.Duration
	Message    string
	Times      int // attempts that it takes, at least 1
	Pieces     int // of the answer, seen before it fails
}

// failable are the kinds that a fail line may name.
var failable = map[llm.Kind]bool{
	llm.KindRateLimited: true, llm.KindOverloaded: true, llm.KindNetwork: true, llm.KindStalled: true,
	llm.KindTruncated: true, llm.KindMalformed: true, llm.KindContextTooLong: true, llm.KindInvalid: true,
	llm.KindAuth: true, llm.KindQuota: true, llm.KindCancelled: true, llm.KindExhausted: true, llm.KindDiverged: true,
}

// stops are the reasons that a stop line may name.
var stops = map[llm.StopReason]bool{
	llm.StopEnd: true, llm.StopToolUse: true, llm.StopMaxOutput: true, llm.StopRefusal: true,
}

// Info returns what is constant about the model that plays s.
func (s *Script) Info() llm.Info {
	i := llm.Info{Provider: "replay", Name: s.Name, Window: 200_000, MaxOutput: 32_000, Images: true, Priced: true}
	c := s.Model
	if c == nil {
		return i
	}
	if c.Window > 0 {
		i.Window = c.Window
		i.MaxOutput = min(i.MaxOutput, i.Window/2)
	}
	if c.MaxOutput > 0 {
		i.MaxOutput = c.MaxOutput
	}
	i.Images = c.Images
	i.InputPrice, i.OutputPrice = c.InputPrice, c.OutputPrice
	i.CacheReadPrice, i.CacheWritePrice = c.CacheReadPrice, c.CacheWritePrice
	return i
}

// String returns the expectation as it is written after the word expect.
func (e Expectation) String() string {
	var parts []string
	switch {
	case e.Of == ofMessage:
		parts = append(parts, "message")
	case e.Of > 0:
		parts = append(parts, strconv.Itoa(e.Of))
	}
	parts = append(parts, string(e.Op))
	if e.Op != OpOK && e.Op != OpError {
		text := e.Text
		if !inline(text) || strings.HasPrefix(text, `"`) {
			text = string(jsonString(text))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}
