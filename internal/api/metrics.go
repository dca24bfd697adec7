package api

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// metrics are what the API counts.
type metrics struct {
	streams  atomic.Int64
	duration *prometheus.HistogramVec
	jobs     *prometheus.CounterVec
	handler  http.Handler

	mu   sync.RWMutex
	seen map[metricKey]prometheus.Observer // WithLabelValues, remembered
}

type metricKey struct {
	route, method string
	status        int
}

func newMetrics(reg *prometheus.Registry, st Store, log *slog.Logger) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glovebox_http_request_duration_seconds", Help: "Time to answer requests, long polls and streams included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"route", "method", "status"}),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_submissions_total", Help: "Submissions that were accepted: created, or a replay of an earlier one.",
		}, []string{"result"}),
		handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{Timeout: 10 * time.Second, MaxRequestsInFlight: 4}),
		seen:    map[metricKey]prometheus.Observer{},
	}
	streams := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "glovebox_event_streams", Help: "Event streams that are open.",
	}, func() float64 { return float64(m.streams.Load()) })
	reg.MustRegister(m.duration, m.jobs, streams)
	if c, ok := st.(store.Counter); ok {
		reg.MustRegister(&jobCollector{counter: c, log: log, desc: prometheus.NewDesc("glovebox_jobs", "Jobs by status.", []string{"status"}, nil)})
	}
	return m
}

func (m *metrics) request(route, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete:
	default:
		method = "other" // clients choose it: it must not become a label
	}
	key := metricKey{route, method, status}
	m.mu.RLock()
	o := m.seen[key]
	m.mu.RUnlock()
	if o == nil {
		o = m.duration.WithLabelValues(route, method, strconv.Itoa(status))
		m.mu.Lock()
		m.seen[key] = o
		m.mu.Unlock()
	}
	o.Observe(took.Seconds())
}

func (m *metrics) submitted(created bool) {
	if created {
		m.jobs.WithLabelValues("created").Inc()
	} else {
		m.jobs.WithLabelValues("replayed").Inc()
	}
}

func (a *API) serveMetrics(w *response, r *http.Request, _ caller) error {
	a.metrics.handler.ServeHTTP(w, r)
	return nil
}

// jobCollector counts jobs when it is asked.
type jobCollector struct {
	counter store.Counter
	log     *slog.Logger
	desc    *prometheus.Desc
}

// Describe is for prometheus.Collector.
func (c *jobCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect is for prometheus.Collector.
func (c *jobCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	counts, err := c.counter.CountJobs(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "count jobs", "err", err)
		ch <- prometheus.NewInvalidMetric(c.desc, err)
		return
	}
	for _, s := range []glovebox.Status{glovebox.StatusPending, glovebox.StatusRunning, glovebox.StatusComplete, glovebox.StatusError, glovebox.StatusCancelled} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(counts[s]), string(s))
	}
}
