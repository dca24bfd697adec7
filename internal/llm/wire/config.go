// Package wire is what the providers have in common: how a call is watched
// while it runs, and how what goes wrong with it is told apart.
//
// The providers speak through their official client libraries, with retries
// off. Each call gets an HTTP client of its own whose transport sees every
// byte that arrives: it notices a server that has gone silent, bounds what is
// read, keeps the body of a refusal, and never follows a redirect, since a
// redirect would carry the key elsewhere.
package wire

import (
	"net/http"
	"time"

	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Bounds of an answer. The longest answers of today have about 128,000
// tokens, half a megabyte; on the wire each token may be an event of a few
// hundred bytes, and the whole is repeated at the end.
const (
	MaxAnswer = 16 << 20  // bytes of text and input in the blocks of an answer
	MaxWire   = 256 << 20 // bytes read in one call
	maxRefuse = 64 << 10  // bytes read of the body of a refusal
)

// Default times without a byte after which a call has stalled. Before the
// first one a server may be reading a long prompt.
const (
	DefaultStall      = 2 * time.Minute
	DefaultFirstStall = 5 * time.Minute
)

// Config is what a model of any provider is made from.
type Config struct {
	Info    llm.Info // Name is what the provider is asked for
	APIKey  string   // may be empty where the server wants none
	BaseURL string   // empty for the provider's own

	// HTTP is used for the calls; nil means http.DefaultClient, which honours
	// the proxy and certificate settings of the environment. Its Timeout and
	// CheckRedirect are not used.
	HTTP *http.Client

	// Stall and FirstStall are how long a server may be silent, after its
	// first byte and before it. Zero means the default.
	Stall, FirstStall time.Duration
}
