package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// clients is how many goroutines use the store at once in benchmarks.
const clients = 64

// Benchmark measures what the API's speed rests on.
func Benchmark(b *testing.B, h Harness) {
	b.Run("CreateJob", func(b *testing.B) {
		s := openBench(b, h)
		parallel(b, func() error {
			_, _, err := s.CreateJob(b.Context(), NewCreated("t", "Build me a todo app in React"), store.IdempotencyKey{})
			return err
		})
	})
	b.Run("Append", func(b *testing.B) {
		s := openBench(b, h)
		leases := make(chan store.Lease, clients)
		for range clients {
			mustCreate(b, s)
			l, err := s.Claim(b.Context(), "w", time.Hour)
			if err != nil {
				b.Fatal(err)
			}
			leases <- *l
		}
		event := glovebox.NewEvent(time.Now(), glovebox.EventNotice, glovebox.Notice{Text: "x"})
		parallel(b, func() error {
			l := <-leases
			defer func() { leases <- l }()
			_, err := s.Append(b.Context(), l, []glovebox.Event{event})
			return err
		})
	})
	b.Run("Job", func(b *testing.B) {
		s := openBench(b, h)
		var ids []string
		for range 100 {
			ids = append(ids, mustCreate(b, s))
		}
		var n atomic.Int64
		parallel(b, func() error {
			_, err := s.Job(b.Context(), "t", ids[int(n.Add(1))%len(ids)])
			return err
		})
	})
	for _, queued := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("QueuePosition/%d", queued), func(b *testing.B) {
			s := openBench(b, h)
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for range queued / clients {
						mustCreate(b, s)
					}
				})
			}
			wg.Wait()
			last := mustCreate(b, s)
			parallel(b, func() error {
				_, err := s.QueuePosition(b.Context(), last)
				return err
			})
		})
	}
	b.Run("Events", func(b *testing.B) {
		s := openBench(b, h)
		id := mustCreate(b, s)
		l, err := s.Claim(b.Context(), "w", time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		event := glovebox.NewEvent(time.Now(), glovebox.EventNotice, glovebox.Notice{Text: "x"})
		if _, err := s.Append(b.Context(), *l, slices.Repeat([]glovebox.Event{event}, 100)); err != nil {
			b.Fatal(err)
		}
		parallel(b, func() error {
			_, err := s.Events(b.Context(), id, 101, 100)
			return err
		})
	})
}

func openBench(b *testing.B, h Harness) store.Store {
	s, err := h.Open(h.Place(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func mustCreate(b *testing.B, s store.Store) string {
	j, _, err := s.CreateJob(b.Context(), NewCreated("t", "x"), store.IdempotencyKey{})
	if err != nil {
		b.Fatal(err)
	}
	return j.ID
}

// parallel runs f b.N times from 64 goroutines and reports rate and p99.
func parallel(b *testing.B, f func() error) {
	b.Helper()
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				start := time.Now()
				if err := f(); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(start)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	b.ReportMetric(float64(took[(len(took)-1)*99/100].Microseconds())/1000, "p99-ms")
}
