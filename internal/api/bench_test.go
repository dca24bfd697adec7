package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

const benchClients = 64

// hammer sends the same request n times over 64 connections and reports
// requests a second and the 50th and 99th percentile of their times. The
// clients do as little as they can, since they share the machine with what
// they measure.
func hammer(b *testing.B, addr, request string, status int) {
	b.Helper()
	raw := []byte(request)
	times := make([][]time.Duration, benchClients)
	var wg sync.WaitGroup
	next := make(chan int, b.N)
	for i := range b.N {
		next <- i
	}
	close(next)
	want := []byte("HTTP/1.1 " + strconv.Itoa(status))
	b.ResetTimer()
	start := time.Now()
	for i := range benchClients {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			br := bufio.NewReader(c)
			for range next {
				begin := time.Now()
				if _, err := c.Write(raw); err != nil {
					b.Error(err)
					return
				}
				if err := readResponse(br, want); err != nil {
					b.Error(err)
					return
				}
				times[i] = append(times[i], time.Since(begin))
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	b.StopTimer()
	all := slices.Concat(times...)
	slices.Sort(all)
	if len(all) == 0 {
		return
	}
	b.ReportMetric(float64(len(all))/took.Seconds(), "req/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// readResponse reads one response with a Content-Length.
func readResponse(br *bufio.Reader, want []byte) error {
	line, err := br.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, want) {
		return fmt.Errorf("got %s, want %s", line, want)
	}
	length := 0
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
	}
	_, err = br.Discard(length)
	return err
}

const scheduleRequest = "POST /schedule HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 28\r\n\r\nBuild me a todo app in React"

// BenchmarkSchedule: durable submissions, as the README's call makes them.
func BenchmarkSchedule(b *testing.B) {
	e := newEnv(b, quiet)
	hammer(b, e.srv.Addr(), scheduleRequest, 202)
}

// BenchmarkScheduleFsync is its peer: the least that a server does which
// syncs a file for each request.
func BenchmarkScheduleFsync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var mu sync.Mutex
	addr := serveBench(b, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		f.Write(body)
		err := f.Sync()
		mu.Unlock()
		if err != nil {
			b.Error(err)
		}
		w.WriteHeader(202)
	})
	hammer(b, addr, scheduleRequest, 202)
}

func quiet(o *Options) { o.Log = nil }

func serveBench(b *testing.B, h http.HandlerFunc) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(ln)
	b.Cleanup(func() { srv.Close() })
	return ln.Addr().String()
}

// BenchmarkStatus: the state of a job at work, with a plan and proofs.
func BenchmarkStatus(b *testing.B) {
	e := newEnv(b, quiet)
	id := e.submit("Build me a todo app in React")
	l := e.claim()
	e.append(l, ev(glovebox.EventSandboxReady, glovebox.SandboxReady{ID: id, Driver: "gvisor", Enforced: map[string]string{"memory_bytes": "cgroup v2", "cpu_millis": "cgroup v2", "processes": "cgroup v2"}}),
		ev(glovebox.EventPlan, glovebox.PlanUpdated{Steps: slices.Repeat([]glovebox.PlanStep{{Text: "Write the component that lists todos", Status: glovebox.PlanDone}}, 8)}))
	hammer(b, e.srv.Addr(), "GET /status/"+id+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 200)
}

// BenchmarkHello is its peer: net/http answering with two bytes.
func BenchmarkHello(b *testing.B) {
	addr := serveBench(b, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	hammer(b, addr, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 200)
}

const (
	readersEnv     = "GLOVEBOX_TEST_READERS" // number of readers, address and path of a stream, when this binary is started as readers
	benchReaders   = 1000
	benchLogEvents = 1000
)

// BenchmarkReaders: a thousand readers, in another process, of one job, from
// its first event on. It reports by how much the server's memory grew at most
// and how many events went out a second.
func BenchmarkReaders(b *testing.B) {
	e := newEnv(b, quiet)
	e.readMany(b, 1) // what one reader needs is not counted: code, and the store's memory
	runtime.GC()
	before := rss(b)
	peak := before
	b.ResetTimer()
	start := time.Now()
	for range b.N {
		peak = max(peak, e.readMany(b, benchReaders))
	}
	took := time.Since(start)
	b.ReportMetric(float64(peak-before)/(1<<20), "MiB-more")
	b.ReportMetric(float64(b.N*benchReaders*benchLogEvents)/took.Seconds(), "events/s")
}

// readMany has one job read by n readers and returns the most memory that
// this process had meanwhile.
func (e *env) readMany(b *testing.B, n int) (peak int64) {
	id := e.submit("t")
	l := e.claim()
	var events []glovebox.Event
	for range benchLogEvents / 2 {
		events = append(events, notice(strings.Repeat("x", 1000)))
	}
	e.append(l, events...)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), readersEnv+"="+strconv.Itoa(n)+" "+e.srv.Addr()+" /jobs/"+id+"/events")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	br := bufio.NewReader(out)
	if line, err := br.ReadString('\n'); line != "connected\n" {
		b.Fatal(line, err)
	}
	for i := range benchLogEvents / 2 {
		e.append(l, notice(strings.Repeat("x", 1000)))
		if i%10 == 0 {
			peak = max(peak, rss(b))
		}
	}
	e.append(l, finished(glovebox.StatusCancelled))
	line, err := br.ReadString('\n')
	if want := fmt.Sprintf("read %d\n", n*(benchLogEvents+3)); line != want {
		b.Fatalf("readers said %q (%v), want %q", line, err, want)
	}
	peak = max(peak, rss(b))
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return peak
}

// rss returns the resident memory of this process in bytes.
func rss(b *testing.B) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("needs /proc: ", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kb << 10
}

// runReaders is the other process: it reads a stream many times at once
// to its end, checks that events come one after another, and says how many
// there were. It reports whether it was asked to.
func runReaders() bool {
	arg := strings.Fields(os.Getenv(readersEnv))
	if len(arg) != 3 {
		return false
	}
	n, err := strconv.Atoi(arg[0])
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var wg, connected sync.WaitGroup
	counts := make([]int, n)
	connected.Add(n)
	for i := range n {
		wg.Go(func() { counts[i] = readStream(ctx, arg[1], arg[2], connected.Done) })
	}
	connected.Wait()
	fmt.Println("connected")
	wg.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	fmt.Println("read", sum)
	return true
}

func readStream(ctx context.Context, addr, path string, connected func()) (n int) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", path)
	br := bufio.NewReaderSize(c, 2048)
	for {
		line, err := br.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			fmt.Fprintln(os.Stderr, "after", n, "events:", err)
			return n
		case bytes.HasPrefix(line, []byte("retry:")):
			connected()
		case bytes.HasPrefix(line, []byte("id: ")):
			if id, err := strconv.Atoi(string(bytes.TrimSpace(line[4:]))); err != nil || id != n+1 {
				fmt.Fprintln(os.Stderr, "event", id, "after", n, err)
				return n
			}
			n++
		case bytes.HasPrefix(line, []byte("event: end")):
			return n
		}
	}
}

// BenchmarkStatusPending: the state of a job at the end of a long queue.
func BenchmarkStatusPending(b *testing.B) {
	e := newEnv(b, quiet)
	ctx := context.Background()
	var wg sync.WaitGroup
	for range benchClients {
		wg.Go(func() {
			for range 10_000 / benchClients {
				c := glovebox.Created{ID: glovebox.NewID(), Tenant: glovebox.DefaultTenant, Task: "t", Limits: glovebox.DefaultLimits()}
				if _, _, err := e.store.CreateJob(ctx, c, store.IdempotencyKey{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	id := e.submit("the last")
	hammer(b, e.srv.Addr(), "GET /status/"+id+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 200)
}
