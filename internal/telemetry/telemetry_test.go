package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"

	"github.com/glovebox-dev/glovebox"
)

func TestLog(t *testing.T) {
	var buf bytes.Buffer
	log, err := NewLog(&buf, LogOptions{Format: "json", Level: "warn"})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("not shown")
	log.With("api_key", "SECRET").Warn("shown", "max_tokens", 5, "token", "SECRET", slog.Group("g", "Authorization", "Bearer SECRET"))
	var e map[string]any
	if err := json.Unmarshal(buf.Bytes(), &e); err != nil {
		t.Fatalf("%s: %v", buf.String(), err)
	}
	if e["msg"] != "shown" || e["max_tokens"] != 5.0 || strings.Contains(buf.String(), "SECRET") {
		t.Errorf("got %s", buf.String())
	}
	for _, o := range []LogOptions{{Level: "loud"}, {Format: "xml"}} {
		if _, err := NewLog(&buf, o); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestTracing sends a span to a collector and finds its id in the log.
func TestTracing(t *testing.T) {
	got := make(chan []byte, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/v1/traces" {
			got <- b
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	var buf bytes.Buffer
	log, err := NewLog(&buf, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := StartTracing(t.Context(), "glovebox", "1.2.3", log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := otel.Tracer("test").Start(context.Background(), "the operation")
	log.InfoContext(ctx, "inside")
	span.End()
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b := <-got; !bytes.Contains(b, []byte("the operation")) || !bytes.Contains(b, []byte("1.2.3")) {
		t.Errorf("got %q", b)
	}
	if !strings.Contains(buf.String(), "trace_id="+span.SpanContext().TraceID().String()) {
		t.Errorf("log: %s", buf.String())
	}
}

func TestNoTracing(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	stop, err := StartTracing(t.Context(), "glovebox", "1", slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRegistry(t *testing.T) {
	reg := NewRegistry("1.2.3")
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/", nil))
	for _, want := range []string{`glovebox_build_info{go="go`, `version="1.2.3"`, "process_resident_memory_bytes", "go_goroutines"} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}
