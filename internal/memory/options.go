package memory

import (
	_ "embed"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/llm"
)

//go:embed system.md
var rules string

// Rules returns the standing rules that every agent of Glovebox works under.
func Rules() string { return rules }

// Options are what a request depends on beside the log. They have to be the
// same for all builders of a job.
type Options struct {
	Rules    string         // empty for Rules()
	Standing []string       // standing instructions of whoever runs the server, in order of force
	Tools    []llm.ToolSpec // in the order in which the model sees them
}

// system returns the system prompt.
func (o Options) system() string {
	text := o.Rules
	if text == "" {
		text = rules
	}
	var b strings.Builder
	b.WriteString(text)
	if len(o.Standing) > 0 {
		b.WriteString("\n# Standing instructions\n\nFrom whoever runs this service. They hold for every task.\n")
		for _, s := range o.Standing {
			b.WriteString("\n" + s + "\n")
		}
	}
	return b.String()
}
