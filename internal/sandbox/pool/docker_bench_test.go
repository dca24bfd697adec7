package pool_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// dockerImage is the image of image/Dockerfile, unless the variable names
// another.
func dockerImage(b *testing.B) string {
	b.Helper()
	image := os.Getenv("GLOVEBOX_TEST_DOCKER_MACHINE")
	if image == "" {
		image = "glovebox-machine"
	}
	if out, err := docker(b.Context(), "image", "inspect", "--format", "{{.Id}}", image); err != nil {
		b.Skipf("no peer: no Docker engine with the image %s (docker build -f image/Dockerfile -t glovebox-machine .): %v: %s", image, err, out)
	}
	return image
}

func docker(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// container is a machine in Docker whose Jupyter answers.
type container struct{ name, address string }

// runContainer is docker run until Jupyter answers.
func runContainer(b *testing.B, image string) container {
	b.Helper()
	c := container{name: "glovebox-bench-" + glovebox.NewID()}
	if out, err := docker(b.Context(), "run", "-d", "--rm", "--name", c.name, "-p", "127.0.0.1::8888", image); err != nil {
		b.Errorf("docker run: %v: %s", err, out)
		return c
	}
	out, err := docker(b.Context(), "port", c.name, "8888/tcp")
	if err != nil {
		b.Errorf("docker port: %v: %s", err, out)
		return c
	}
	c.address, _, _ = strings.Cut(out, "\n")
	for end := time.Now().Add(2 * time.Minute); ; awaitChange(b) {
		res, err := http.Get("http://" + c.address + "/api")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return c
			}
		}
		if time.Now().After(end) {
			b.Errorf("Jupyter in Docker does not answer: %v", err)
			return c
		}
	}
}

func (c container) end(b *testing.B) {
	if out, err := docker(context.Background(), "rm", "-f", c.name); err != nil {
		b.Errorf("docker rm: %v: %s", err, out)
	}
}

var tokenOf = regexp.MustCompile(`token=([\w-]+)`)

// kernel starts a Python kernel.
func (c container) kernel(b *testing.B) {
	b.Helper()
	out, err := docker(b.Context(), "logs", c.name)
	token := tokenOf.FindStringSubmatch(out)
	if err != nil || token == nil {
		b.Fatalf("docker logs: %v: %s", err, out)
	}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+c.address+"/api/kernels", bytes.NewReader([]byte(`{"name":"python3"}`)))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "token "+token[1])
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		b.Fatal(fmt.Errorf("start a kernel: %s", res.Status))
	}
}

// The peers of machines from the template: the same image in Docker, one and
// ten at once, until Jupyter answers, and what twenty with desktop, Jupyter
// and two kernels take of the host's memory, each.
func BenchmarkDocker(b *testing.B) {
	image := dockerImage(b)
	b.Cleanup(http.DefaultClient.CloseIdleConnections)
	many := func(n int) (all []container) {
		all = make([]container, n)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() { all[i] = runContainer(b, image) })
		}
		wg.Wait()
		return all
	}
	started := func(n int) func(b *testing.B) {
		return func(b *testing.B) {
			percentiles(b, func() time.Duration {
				begun := time.Now()
				all := many(n)
				took := time.Since(begun)
				for _, c := range all {
					c.end(b)
				}
				return took
			})
		}
	}
	b.Run("ready", started(1))
	b.Run("burst", started(10))
	b.Run("memory", func(b *testing.B) {
		const machines = 20
		for b.Loop() {
			before := memAvailable(b)
			var all []container
			for range machines {
				c := runContainer(b, image)
				c.kernel(b)
				c.kernel(b)
				all = append(all, c)
			}
			settle(b)
			b.ReportMetric(float64(before-memAvailable(b))/machines/(1<<20), "MiB/machine")
			for _, c := range all {
				c.end(b)
			}
		}
		b.ReportMetric(0, "ns/op")
	})
}
