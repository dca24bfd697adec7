package agent

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
)

var tracer = otel.Tracer("github.com/glovebox-dev/glovebox/internal/agent")

// span begins a span of the job and returns how to end it. Attributes never
// hold what a model, a tool or a user said.
func (r *run) span(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, func(error, ...attribute.KeyValue)) {
	ctx, s := tracer.Start(ctx, name)
	s.SetAttributes(attribute.String("job.id", r.id))
	s.SetAttributes(attrs...)
	return ctx, func(err error, attrs ...attribute.KeyValue) {
		s.SetAttributes(attrs...)
		if err != nil {
			s.SetStatus(codes.Error, err.Error())
		}
		s.End()
	}
}
