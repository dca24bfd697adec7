package pool_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// percentiles reports what one round takes, instead of a mean.
func percentiles(b *testing.B, round func() time.Duration) {
	var all []time.Duration
	for b.Loop() {
		all = append(all, round())
	}
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(all[len(all)/2]), "p50-ms")
	b.ReportMetric(ms(all[len(all)*95/100]), "p95-ms")
	b.ReportMetric(ms(all[0]), "min-ms")
	b.ReportMetric(0, "ns/op")
}

// ready makes a machine whose desktop runs and whose Python kernel takes cells.
func ready(t tb, d sandbox.Driver) machine {
	t.Helper()
	m := start(t, d)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.StartServices(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if err := m.WarmKernels(t.Context(), "python"); err != nil {
		t.Error(err)
	}
	wg.Wait()
	return m
}

// readyCell is ready, and has run a cell.
func readyCell(t tb, d sandbox.Driver) machine {
	t.Helper()
	m := ready(t, d)
	cell(t, m, "")
	return m
}

// cell runs a cell in a kernel.
func cell(t tb, m machine, kernel string) {
	t.Helper()
	r, err := m.Execute(t.Context(), guest.Cell{Kernel: kernel, Language: "python", Code: "print(6*7)"}, func(guest.CellOutput) {})
	if err != nil || r.Status != "ok" {
		t.Errorf("a cell: %+v, %v", r, err)
	}
}

// From the wish for a machine until its guest is bound ("bound"), until its
// desktop and a kernel are ready ("desktop"), and until a cell has run ("cell").
func BenchmarkReady(b *testing.B) {
	base, dir, image := newBase(b)
	run := func(name string, d sandbox.Driver, make func(tb, sandbox.Driver) machine, before func()) {
		b.Run(name, func(b *testing.B) {
			percentiles(b, func() time.Duration {
				if before != nil {
					before()
				}
				begun := time.Now()
				m := make(b, d)
				took := time.Since(begun)
				m.end(b, d)
				return took
			})
		})
	}
	run("cold/bound", base, start, nil)
	run("cold/desktop", base, ready, nil)
	tmpl := newTemplate(b, base, dir, image)
	run("template/bound", tmpl, start, nil)
	run("template/desktop", tmpl, ready, nil)
	run("template/cell", tmpl, readyCell, nil)
	p := newPool(b, tmpl, dir, image, 1)
	filled := func() {
		for p.Size() < 1 {
			awaitChange(b)
		}
	}
	run("pool/bound", p, start, filled)
	run("pool/desktop", p, ready, filled)
	run("pool/cell", p, readyCell, filled)
}

// Ten machines at once, from the template, until the last one's desktop and
// kernel are ready.
func BenchmarkBurst(b *testing.B) {
	base, dir, image := newBase(b)
	tmpl := newTemplate(b, base, dir, image)
	percentiles(b, func() time.Duration {
		begun := time.Now()
		machines := make([]machine, 10)
		var wg sync.WaitGroup
		for i := range machines {
			wg.Go(func() { machines[i] = ready(b, tmpl) })
		}
		wg.Wait()
		took := time.Since(begun)
		for _, m := range machines {
			m.end(b, tmpl)
		}
		return took
	})
}

// What twenty idle machines from the template, each with desktop and two
// kernels, take of the host's memory, each.
func BenchmarkIdleMemory(b *testing.B) {
	base, dir, image := newBase(b)
	tmpl := newTemplate(b, base, dir, image)
	const machines = 20
	first := ready(b, tmpl) // what is read from disk once is not theirs
	first.end(b, tmpl)
	for b.Loop() {
		before := memAvailable(b)
		var all []machine
		for range machines {
			m := readyCell(b, tmpl)
			cell(b, m, "second")
			all = append(all, m)
		}
		settle(b)
		b.ReportMetric(float64(before-memAvailable(b))/machines/(1<<20), "MiB/machine")
		for _, m := range all {
			m.end(b, tmpl)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// settle waits until sentries have given back what they needed to start.
func settle(t tb) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(6 * time.Second):
	}
}

func memAvailable(t tb) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] == "MemAvailable:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("the kernel does not tell how much memory is available")
	return 0
}

// Pausing a machine, and dialling it so that it goes on.
func BenchmarkPause(b *testing.B) {
	base, _, _ := newBase(b)
	m := start(b, base)
	defer func() { m.end(b, base) }()
	ctx := context.Background()
	var thaw []time.Duration
	percentiles(b, func() time.Duration {
		begun := time.Now()
		if err := base.Pause(ctx, m.id); err != nil {
			b.Fatal(err)
		}
		took := time.Since(begun)
		begun = time.Now()
		conn, err := base.Dial(ctx, m.id)
		if err != nil {
			b.Fatal(err)
		}
		thaw = append(thaw, time.Since(begun))
		conn.Close()
		return took
	})
	slices.Sort(thaw)
	b.ReportMetric(float64(thaw[len(thaw)/2].Microseconds())/1000, "thaw-p50-ms")
}
