package recall

import (
	"context"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Query says what to look for. At least one of Words, Exact, Regexp, File and
// Tool has to be set; what is set beside each other has to hold together,
// except that not all of Words have to be there.
type Query struct {
	Words  string   // words that describe it, a question or a phrase; the more of them a passage covers the better. At most MaxWords bytes are used
	Exact  []string // strings that have to be in the event, letter by letter; at most MaxExact of MaxExactBytes
	Regexp string   // RE2 that a passage has to match; at most MaxRegexp bytes
	File   string   // path, or the end of one, that the event has to be about
	Tool   string   // name of the tool that the event has to be a call or a result of

	From, Through         int64 // events, both included; 0 is open
	FromStep, ThroughStep int64 // steps, both included; 0 is open
	After, Before         time.Time

	Limit  int   // hits; 0 is DefaultLimit, or as many as fit Tokens; at most MaxLimit. Up to 20, hits have their neighbours with them
	Tokens int64 // budget of all quotes together, at four bytes each; 0 is none
}

// Bounds of a [Query].
const (
	DefaultLimit  = 10
	MaxLimit      = 500
	MaxWords      = 4 << 10
	MaxExact      = 8
	MaxExactBytes = 1 << 10
	MaxRegexp     = 1 << 10
)

// Result is what a search found, best first, the newest version of a fact
// before older ones.
type Result struct {
	Hits []Hit
	More bool   // there is more than the limit or the budget let through
	Note string // what could not be done as asked and what was done instead; empty mostly
}

// Hit is a passage of an event, with its neighbours.
type Hit struct {
	Event int64
	Step  int64 // of the job when it was recorded
	Type  glovebox.EventType
	Tool  string // of a call or a result
	File  string // that a call or a result is about
	Time  time.Time
	Text  string // the passage around the match, at most MaxQuote bytes. Data, whatever it says
	Score float64

	SupersededBy int64 // number of a later event that says otherwise about the same; 0 if none was found

	Before, After []glovebox.Quote // what came directly before and after, cut short
}

// MaxQuote is the most bytes of a hit's own text.
const MaxQuote = 600

// Embedder turns texts into vectors of one length, in order. Similar meaning
// has to lie close by cosine.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Loader returns up to limit bytes of what is kept under a handle, from offset
// on, and its whole size.
type Loader func(ctx context.Context, handle string, offset, limit int64) (data []byte, size int64, err error)

// Source returns events of one job after a number, in order, at most limit;
// none at the end of the log.
type Source func(ctx context.Context, after int64, limit int) ([]glovebox.Event, error)

// Options are what an index may use. The zero value is complete.
type Options struct {
	Load  Loader   // whole outputs that the log holds only cut; nil: what the log holds is indexed
	Embed Embedder // joined with the words where given; nil: words alone

	// ScanTime bounds how long a search looks through what no list of words can
	// narrow, as for a regular expression. 0 means 700 ms.
	ScanTime time.Duration
}
