//go:build linux

package guestd_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
)

// percentile reports the median and the 99th percentile of single runs.
func percentile(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

// BenchmarkRunTrue runs true through the guest. Beside it, the same spawn
// without a guest: the difference is what the guest costs.
func BenchmarkRunTrue(b *testing.B) {
	c, _ := start(b)
	b.Run("guest", func(b *testing.B) {
		var took []time.Duration
		for i := range b.N {
			t := time.Now()
			st, _, err := c.Run(b.Context(), guest.Command{ID: fmt.Sprintf("b%d-%d", b.N, i), Args: []string{"true"}}, 0)
			if err != nil || st.ExitCode != 0 {
				b.Fatal(st, err)
			}
			took = append(took, time.Since(t))
		}
		percentile(b, took)
	})
	b.Run("direct", func(b *testing.B) {
		var took []time.Duration
		for range b.N {
			t := time.Now()
			if out, err := exec.Command("true").CombinedOutput(); err != nil {
				b.Fatal(out, err)
			}
			took = append(took, time.Since(t))
		}
		percentile(b, took)
	})
}

// BenchmarkEcho sends a line to a shell that stays and waits for its answer.
func BenchmarkEcho(b *testing.B) {
	c, _ := start(b)
	ctx := b.Context()
	p, err := c.Start(ctx, guest.Command{ID: "shell", Args: []string{"sh"}})
	if err != nil {
		b.Fatal(err)
	}
	lines := make(chan int, 1)
	done := make(chan error, 1)
	go func() {
		done <- p.Output(ctx, 0, func(o guest.Output) error {
			lines <- bytes.Count(o.Data, []byte("\n"))
			return nil
		})
	}()
	var took []time.Duration
	for range b.N {
		t := time.Now()
		if err := p.Write(ctx, []byte("echo hello\n")); err != nil {
			b.Fatal(err)
		}
		<-lines
		took = append(took, time.Since(t))
	}
	percentile(b, took)
	if err := p.CloseStdin(ctx); err != nil {
		b.Fatal(err)
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFiles writes 10,000 files of 4 KiB and reads them back, from 8
// goroutines; one operation is all of it.
func BenchmarkFiles(b *testing.B) {
	const files, workers = 10_000, 8
	c, _ := start(b)
	data := bytes.Repeat([]byte("glovebox"), 512)
	each := func(f func(name string) error) {
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := w; i < files; i += workers {
					if err := f(fmt.Sprintf("d%d/f%d", i%100, i)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	b.ResetTimer()
	for range b.N {
		each(func(name string) error { return c.WriteFile(b.Context(), name, data, 0) })
		each(func(name string) error {
			got, _, err := c.ReadFile(b.Context(), name, 0, 1<<20)
			if err == nil && !bytes.Equal(got, data) {
				err = fmt.Errorf("%s: %d bytes", name, len(got))
			}
			return err
		})
	}
	b.ReportMetric(float64(b.N*files)/b.Elapsed().Seconds(), "files/s")
}
