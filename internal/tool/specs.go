package tool

import (
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
)

// Specs returns how tools are declared to a model, in their order.
func Specs(tools []Tool, info llm.Info) []llm.ToolSpec {
	specs := make([]llm.ToolSpec, 0, len(tools))
	for i := range tools {
		t := &tools[i]
		spec := llm.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Schema}
		if info.Computer != "" {
			spec.Computer = t.Computer
		}
		specs = append(specs, spec)
	}
	return specs
}

// Memory returns what the requests of a job depend on beside its log, for a
// model. The loop and whoever shows its requests have it from here, so that
// both build the same.
func Memory(tools []Tool, standing []string, info llm.Info) memory.Options {
	return memory.Options{Standing: standing, Tools: Specs(tools, info)}
}
