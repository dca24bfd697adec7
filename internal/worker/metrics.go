package worker

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// metrics counts what workers do.
type metrics struct {
	claimed, lost, swept, checkpoints, sandboxLost prometheus.Counter
	running                                        prometheus.Gauge
	known                                          map[string]bool // names of tools
	finished                                       *prometheus.CounterVec
	tokens, tools, egress, frames                  *prometheus.CounterVec
	cost                                           prometheus.Counter
	folds, summaries, summaryTokens                *prometheus.CounterVec
	ready                                          *prometheus.HistogramVec
	checkpoint, artifact                           prometheus.Histogram
}

// seconds are the buckets of what takes from milliseconds to minutes.
var seconds = []float64{.005, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300}

// newMetrics returns metrics that are registered with reg, if there is one.
func newMetrics(reg prometheus.Registerer, tools []tool.Tool) *metrics {
	known := map[string]bool{}
	for _, t := range tools {
		known[t.Name] = true
	}
	counter := func(name, help string) prometheus.Counter {
		return register(reg, prometheus.NewCounter(prometheus.CounterOpts{Namespace: "glovebox", Name: name, Help: help}))
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "glovebox", Name: name, Help: help}, labels))
	}
	histogram := func(name, help string) prometheus.Histogram {
		return register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "glovebox", Name: name, Help: help, Buckets: seconds}))
	}
	return &metrics{
		known:       known,
		claimed:     counter("jobs_claimed_total", "Jobs that this worker took."),
		lost:        counter("leases_lost_total", "Jobs that were taken over from this worker."),
		swept:       counter("sandboxes_swept_total", "Sandboxes that no job needed any more."),
		checkpoints: counter("checkpoint_bytes_total", "Bytes of checkpoints that were kept."),
		running: register(reg, prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "glovebox", Name: "jobs_running",
			Help: "Jobs that this worker runs now."})),
		finished:      vec("jobs_finished_total", "Jobs that ended in this worker.", "status"),
		sandboxLost:   counter("sandboxes_lost_total", "Sandboxes that died under a job."),
		tokens:        vec("model_tokens_total", "Tokens of model calls.", "kind"),
		tools:         vec("tool_calls_total", "Calls of tools by the model.", "tool", "result"),
		egress:        vec("egress_attempts_total", "Attempts of sandboxes to reach something.", "verdict"),
		frames:        vec("screen_frames_total", "Pictures of screens, after steps.", "result"),
		folds:         vec("memory_folds_total", "Times that the history of a job was folded, by why.", "reason"),
		summaries:     vec("memory_summaries_total", "Summaries of history, by who wrote them; refused are answers of a model that were not fit for any.", "by"),
		summaryTokens: vec("memory_summary_tokens_total", "Tokens of model calls that asked for summaries; part of model_tokens_total.", "kind"),
		cost:          counter("model_cost_dollars_total", "What model calls cost, where prices are known."),
		ready: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "glovebox", Name: "sandbox_ready_seconds",
			Help: "From the need of a sandbox until its guest was ready.", Buckets: seconds}, []string{"how"})),
		checkpoint: histogram("checkpoint_seconds", "Time to copy a workspace off its sandbox."),
		artifact:   histogram("artifact_seconds", "Time to pack a project."),
	}
}

// register registers c, or returns the one that another worker of this
// process registered before.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	if err := reg.Register(c); err != nil {
		if had, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			if same, ok := had.ExistingCollector.(C); ok {
				return same
			}
		}
	}
	return c
}

// observe counts what was appended.
func (m *metrics) observe(events []glovebox.Event) {
	for _, e := range events {
		switch e.Type {
		case glovebox.EventFinished:
			if f, err := glovebox.Decode[glovebox.Finished](e); err == nil {
				m.finished.WithLabelValues(string(f.Status)).Inc()
			}
		case glovebox.EventModelAnswered:
			if a, err := glovebox.Decode[glovebox.ModelAnswered](e); err == nil {
				m.usage(a.Usage)
			}
		case glovebox.EventModelFailed:
			if f, err := glovebox.Decode[glovebox.ModelFailed](e); err == nil {
				m.usage(f.Usage)
			}
		case glovebox.EventFolded, glovebox.EventSummarized:
			m.memory(e)
		case glovebox.EventToolFinished:
			if f, err := glovebox.Decode[glovebox.ToolFinished](e); err == nil {
				m.tools.WithLabelValues(m.toolLabel(f.Name), toolResult(f)).Inc()
			}
		case glovebox.EventSandboxLost:
			m.sandboxLost.Inc()
		case glovebox.EventCheckpoint:
			if c, err := glovebox.Decode[glovebox.CheckpointSaved](e); err == nil {
				m.checkpoints.Add(float64(c.Size))
			}
		case glovebox.EventEgress:
			if a, err := glovebox.Decode[glovebox.EgressAttempted](e); err == nil {
				verdict := "refused"
				if a.Allowed {
					verdict = "allowed"
				}
				m.egress.WithLabelValues(verdict).Add(float64(a.Count))
			}
		}
	}
}

// memory counts folds and summaries.
func (m *metrics) memory(e glovebox.Event) {
	if e.Type == glovebox.EventFolded {
		if f, err := glovebox.Decode[glovebox.Folded](e); err == nil {
			m.folds.WithLabelValues(string(f.Reason)).Inc()
		}
		return
	}
	s, err := glovebox.Decode[glovebox.Summarized](e)
	if err != nil {
		return
	}
	for _, x := range s.Summaries {
		m.summaries.WithLabelValues(string(x.By)).Inc()
	}
	if s.Problem != "" {
		m.summaries.WithLabelValues("refused").Inc()
	}
	m.usage(s.Usage)
	count(m.summaryTokens, s.Usage)
}

// count adds the tokens of u to a counter of them by kind.
func count(to *prometheus.CounterVec, u glovebox.Usage) {
	for kind, n := range map[string]int64{"input": u.Input, "cache_read": u.CacheRead, "cache_write": u.CacheWrite, "output": u.Output} {
		to.WithLabelValues(kind).Add(float64(max(0, n)))
	}
}

func (m *metrics) usage(u glovebox.Usage) {
	count(m.tokens, u)
	m.cost.Add(float64(max(0, u.CostMicros)) / 1e6)
}

// toolLabel bounds the number of labels: a model may call what there is not.
func (m *metrics) toolLabel(name string) string {
	if !m.known[name] {
		return "other"
	}
	return name
}

func toolResult(f glovebox.ToolFinished) string {
	switch {
	case f.Unknown:
		return "unknown"
	case f.IsError:
		return "error"
	}
	return "ok"
}
