//go:build linux

package ingvisor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/artifact"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// report gives the median and the 99th percentile instead of a mean.
func report(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// spawnLoop starts true n times and prints the microseconds that each took.
const spawnLoop = `
import os, time, sys
for _ in range(int(sys.argv[1])):
    t = time.perf_counter()
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    print(int((time.perf_counter() - t) * 1e6))
`

// BenchmarkRunTrue runs true through the guest; inside is the same spawn timed
// in that sandbox, the rest are others' ways to do it.
func BenchmarkRunTrue(b *testing.B) {
	c := open(b)
	b.Run("guest", func(b *testing.B) {
		timed(b, func() error {
			st, _, err := c.Run(b.Context(), guest.Command{ID: glovebox.NewID(), Args: []string{"/bin/true"}}, 0)
			if err == nil && st.ExitCode != 0 {
				err = fmt.Errorf("%+v", st)
			}
			return err
		})
	})
	b.Run("inside", func(b *testing.B) {
		var took []time.Duration
		out := run(b, c, guest.Command{ID: glovebox.NewID(), Args: []string{"python3", "-c", spawnLoop, fmt.Sprint(max(b.N, 100))}})
		for line := range strings.FieldsSeq(out) {
			var us int64
			fmt.Sscan(line, &us)
			took = append(took, time.Duration(us)*time.Microsecond)
		}
		report(b, took)
	})
	b.Run("host", func(b *testing.B) {
		timed(b, func() error { return exec.Command("/bin/true").Run() })
	})
	b.Run("docker-exec", func(b *testing.B) {
		name := dockerContainer(b)
		timed(b, func() error { return exec.Command("docker", "exec", name, "/bin/true").Run() })
	})
}

func timed(b *testing.B, f func() error) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	report(b, took)
}

// dockerContainer starts a container of the image that GLOVEBOX_TEST_DOCKER
// names, where there is a Docker engine.
func dockerContainer(b *testing.B) string {
	b.Helper()
	image := os.Getenv("GLOVEBOX_TEST_DOCKER")
	if _, err := exec.LookPath("docker"); err != nil || image == "" {
		b.Skip("docker is not installed, or GLOVEBOX_TEST_DOCKER names no image of it")
	}
	name := "glovebox-bench-" + glovebox.NewID()
	if out, err := exec.Command("docker", "run", "-d", "--rm", "--name", name, image, "sleep", "3600").CombinedOutput(); err != nil {
		b.Skipf("docker run %s: %v: %s", image, err, out)
	}
	b.Cleanup(func() { _ = exec.Command("docker", "rm", "-f", name).Run() })
	return name
}

// BenchmarkEcho sends a line to a shell that stays and waits for the answer.
func BenchmarkEcho(b *testing.B) {
	c := open(b)
	p, err := c.Start(b.Context(), guest.Command{ID: "shell", Args: []string{"bash", "--norc"}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	lines := make(chan struct{}, 1)
	go func() {
		_ = p.Output(ctx, 0, func(guest.Output) error { lines <- struct{}{}; return nil })
	}()
	timed(b, func() error {
		if err := p.Write(b.Context(), []byte("echo hello\n")); err != nil {
			return err
		}
		<-lines
		return nil
	})
}

const benchFiles = 10_000

// BenchmarkFiles writes 10,000 files of 4 KiB and reads them back, from 32
// goroutines.
func BenchmarkFiles(b *testing.B) {
	data := bytes.Repeat([]byte("glovebox"), 512)
	b.Run("guest", func(b *testing.B) { filesGuest(b, data) })
	b.Run("docker-cp", func(b *testing.B) { filesDocker(b, data) })
}

func filesGuest(b *testing.B, data []byte) {
	const workers = 32
	c := open(b)
	each := func(unit string, f func(name string) error) {
		begin := time.Now()
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := w; i < benchFiles; i += workers {
					if err := f(fmt.Sprintf("d%d/f%d", i%100, i)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.ReportMetric(benchFiles/time.Since(begin).Seconds(), unit)
	}
	for b.Loop() {
		each("written/s", func(name string) error { return c.WriteFile(b.Context(), name, data, 0) })
		each("read/s", func(name string) error {
			got, _, err := c.ReadFile(b.Context(), name, 0, 1<<20)
			if err == nil && !bytes.Equal(got, data) {
				err = fmt.Errorf("%s: %d bytes", name, len(got))
			}
			return err
		})
	}
	b.ReportMetric(float64(b.N*benchFiles)/b.Elapsed().Seconds(), "files/s")
}

func filesDocker(b *testing.B, data []byte) {
	name, dir := dockerContainer(b), b.TempDir()
	for i := range benchFiles {
		p := filepath.Join(dir, fmt.Sprintf("in/d%d/f%d", i%100, i))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(p, data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; b.Loop(); i++ {
		at := fmt.Sprintf("%s:/bench%d", name, i)
		for _, args := range [][]string{{"cp", dir + "/in", at}, {"cp", at, fmt.Sprintf("%s/out%d", dir, i)}} {
			if out, err := exec.Command("docker", args...).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	}
	b.ReportMetric(float64(b.N*benchFiles)/b.Elapsed().Seconds(), "files/s")
}

// BenchmarkArtifact packs 10,000 files of 12 KB out of a real sandbox; export
// is the same without compression. Package artifact has it without a sandbox,
// beside archive/zip.
func BenchmarkArtifact(b *testing.B) {
	c := open(b)
	total := fill(b, c)
	b.Run("pack", func(b *testing.B) {
		b.SetBytes(total)
		for b.Loop() {
			m, err := artifact.Pack(b.Context(), c, guest.Workspace, io.Discard, artifact.Options{})
			if err != nil || len(m.Files) != benchFiles {
				b.Fatal(err)
			}
		}
	})
	b.Run("export", func(b *testing.B) {
		b.SetBytes(total)
		for b.Loop() {
			n := 0
			err := c.Export(b.Context(), "", nil, func(guest.ExportFile) error { n++; return nil }, nil)
			if err != nil || n != benchFiles {
				b.Fatal(n, err)
			}
		}
	})
}

// fill writes files that compress as source code does, and returns their size.
func fill(b *testing.B, c *guest.Client) (total int64) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 3000)
	for i := range words {
		words[i] = fmt.Sprintf("%x", rng.Uint64()>>(4*rng.IntN(14)))
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := range benchFiles {
		var buf bytes.Buffer
		for buf.Len() < 12_000 {
			buf.WriteString(words[int(rng.ExpFloat64()*300)%len(words)])
			buf.WriteString([]string{" ", " ", "(", ") {\n\t", ";\n", ", ", " = "}[rng.IntN(7)])
		}
		total += int64(buf.Len())
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := c.WriteFile(b.Context(), fmt.Sprintf("src/d%03d/f%05d.js", i/100, i), buf.Bytes(), 0); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	return total
}
