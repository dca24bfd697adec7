package worker

import (
	"context"
	"encoding/json"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// tracer makes spans where tracing was started, and costs nothing elsewhere.
// What the user, the model and the sandbox said is in no span.
var tracer = otel.Tracer("github.com/glovebox-dev/glovebox/internal/worker")

// span begins a span. end records how it went.
func span(ctx context.Context, name string, attrs ...attribute.KeyValue) (_ context.Context, end func(error)) {
	ctx, s := tracer.Start(ctx, name, trace.WithAttributes(attrs...))
	return ctx, func(err error) {
		if err != nil {
			s.SetStatus(codes.Error, string(glovebox.CodeOf(err)))
		}
		s.End()
	}
}

// tracedModel makes a span of every call.
type tracedModel struct {
	llm.Model
	name string
}

// Stream implements [llm.Model].
func (m tracedModel) Stream(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	ctx, end := span(ctx, "model call", attribute.String("model", m.name), attribute.Int64("step", r.Step), attribute.Int64("attempt", r.Attempt))
	res, err := m.Model.Stream(ctx, r, delta)
	if res != nil {
		u := res.Usage
		trace.SpanFromContext(ctx).SetAttributes(attribute.Int64("tokens.in", u.Input+u.CacheRead+u.CacheWrite),
			attribute.Int64("tokens.cached", u.CacheRead), attribute.Int64("tokens.out", u.Output))
	}
	end(err)
	return res, err
}

// traced returns tools that make a span of every call.
func traced(tools []tool.Tool) []tool.Tool {
	tools = slices.Clone(tools)
	for i := range tools {
		run := tools[i].Run
		name := attribute.String("tool", tools[i].Name)
		tools[i].Run = func(ctx context.Context, env *tool.Env, input json.RawMessage) (tool.Result, error) {
			ctx, end := span(ctx, "tool call", name)
			res, err := run(ctx, env, input)
			if res.IsError {
				trace.SpanFromContext(ctx).SetAttributes(attribute.Bool("refused", true))
			}
			end(err)
			return res, err
		}
	}
	return tools
}
