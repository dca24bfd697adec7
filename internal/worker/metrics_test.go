package worker

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-dev/glovebox"
)

// TestMemoryMetrics: folds by reason, summaries by who wrote them, and what
// they cost, which is part of what all calls cost.
func TestMemoryMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := newMetrics(reg, nil)
	now := time.Now()
	m.observe([]glovebox.Event{
		glovebox.NewEvent(now, glovebox.EventFolded, glovebox.Folded{Reason: glovebox.FoldFull}),
		glovebox.NewEvent(now, glovebox.EventFolded, glovebox.Folded{Reason: glovebox.FoldCold}),
		glovebox.NewEvent(now, glovebox.EventFolded, glovebox.Folded{Reason: glovebox.FoldFull}),
		glovebox.NewEvent(now, glovebox.EventSummarized, glovebox.Summarized{Asked: true, Problem: "longer than its source", Usage: glovebox.Usage{CacheRead: 900, Output: 50, CostMicros: 2_000_000},
			Summaries: []glovebox.Summary{{By: glovebox.SummaryByModel}, {By: glovebox.SummaryByModel}}}),
		glovebox.NewEvent(now, glovebox.EventSummarized, glovebox.Summarized{Summaries: []glovebox.Summary{{By: glovebox.SummaryByDigest}}}),
	})
	got := map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, x := range f.GetMetric() {
			name := f.GetName()
			for _, l := range x.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = x.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"glovebox_memory_folds_total full":                2,
		"glovebox_memory_folds_total cold":                1,
		"glovebox_memory_summaries_total model":           2,
		"glovebox_memory_summaries_total digest":          1,
		"glovebox_memory_summaries_total refused":         1,
		"glovebox_memory_summary_tokens_total cache_read": 900,
		"glovebox_model_tokens_total cache_read":          900,
		"glovebox_model_cost_dollars_total":               2,
	} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}
