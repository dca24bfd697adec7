// Package telemetry sets up how a process tells what it does: log, traces,
// metrics.
//
// Nothing here may carry a secret. As a second line of defence, the log
// replaces the values of attributes whose names say that they are one.
package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/glovebox-dev/glovebox"
)

// LogOptions says how to log.
type LogOptions struct {
	Format string // "text" (or empty) or "json"
	Level  string // "debug", "info" (or empty), "warn" or "error"
}

// NewLog returns a log that writes to w. Entries that are written within a
// traced operation name its trace.
func NewLog(w io.Writer, o LogOptions) (*slog.Logger, error) {
	var level slog.Level
	if o.Level != "" {
		if err := level.UnmarshalText([]byte(o.Level)); err != nil {
			return nil, glovebox.Invalid("log.level", "give debug, info, warn or error", "%q is not a level", o.Level).WithValue(o.Level)
		}
	}
	ho := &slog.HandlerOptions{Level: level, ReplaceAttr: redact}
	switch o.Format {
	case "", "text":
		return slog.New(traced{slog.NewTextHandler(w, ho)}), nil
	case "json":
		return slog.New(traced{slog.NewJSONHandler(w, ho)}), nil
	}
	return nil, glovebox.Invalid("log.format", "give text or json", "%q is not a format", o.Format).WithValue(o.Format)
}

// secretWords are the parts of an attribute's name that say its value is one.
var secretWords = []string{"token", "secret", "password", "passwd", "authorization", "api_key", "apikey", "cookie", "credential"}

// countWords mark names that only count such things: max_tokens is no secret.
var countWords = []string{"tokens"}

func redact(_ []string, a slog.Attr) slog.Attr {
	name := strings.ToLower(a.Key)
	for _, w := range countWords {
		name = strings.ReplaceAll(name, w, "")
	}
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return slog.String(a.Key, "[redacted]")
		}
	}
	return a
}

// traced adds the ids of the current trace to each entry.
type traced struct{ slog.Handler }

// Handle is for slog.Handler.
func (t traced) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return t.Handler.Handle(ctx, r)
}

// WithAttrs is for slog.Handler.
func (t traced) WithAttrs(as []slog.Attr) slog.Handler { return traced{t.Handler.WithAttrs(as)} }

// WithGroup is for slog.Handler.
func (t traced) WithGroup(name string) slog.Handler { return traced{t.Handler.WithGroup(name)} }

// StartTracing sends traces to the OpenTelemetry collector that the standard
// variables name (OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, with OTEL_EXPORTER_OTLP_HEADERS and so
// on), over HTTP. Without one nothing is traced, and it costs next to nothing.
// stop sends what is left and must be called once.
func StartTracing(ctx context.Context, service, version string, log *slog.Logger) (stop func(context.Context) error, err error) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, &glovebox.Error{Code: glovebox.CodeInvalid, Op: "start tracing", Field: "OTEL_EXPORTER_OTLP_ENDPOINT", Msg: "the exporter can't be set up", Err: err,
			Hint: "give a URL such as http://localhost:4318, or unset it"}
	}
	res, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(service), semconv.ServiceVersion(version)))
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, glovebox.Errorf(glovebox.CodeInternal, "describe this process for tracing: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("tracing", "err", err) }))
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(2*time.Second)), sdktrace.WithResource(res))
	otel.SetTracerProvider(tp)
	return tp.Shutdown, nil
}

// NewRegistry returns a registry with metrics of the Go runtime, of the
// process, and of the build.
func NewRegistry(version string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "glovebox_build_info", Help: "1, with the version as label.",
		ConstLabels: prometheus.Labels{"version": version, "go": goVersion()}})
	info.Set(1)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), info)
	return reg
}

func goVersion() string {
	if bi, ok := debug.ReadBuildInfo(); ok {
		return bi.GoVersion
	}
	return "unknown"
}
