package worker

import (
	"archive/zip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob/disk"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/sandbox/fake"
	"github.com/glovebox-dev/glovebox/internal/store"
	"github.com/glovebox-dev/glovebox/internal/store/sqlite"
	"github.com/glovebox-dev/glovebox/internal/store/storetest"
)

func TestMain(m *testing.M) {
	fake.Intercept(func(root string, l net.Listener) error {
		s, err := guestd.New(guestd.Options{Root: root, ProxyAddr: "127.0.0.1:0"})
		if err != nil {
			return err
		}
		return s.Serve(l)
	})
	leaktest.Main(m)
}

// world is a store, blobs and a driver, and what workers on them need.
type world struct {
	*testing.T
	store  *sqlite.Store
	blobs  *disk.Store
	driver *fake.Driver
	clock  *clock // of the store: leases run out when a test says so
	model  llm.Model
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{T: t, clock: &clock{}}
	var err error
	if w.store, err = sqlite.Open(filepath.Join(dir, "glovebox.db"), sqlite.Options{Now: w.clock.Now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	if w.blobs, err = disk.Open(filepath.Join(dir, "blobs")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.blobs.Close() })
	if w.driver, err = fake.New(filepath.Join(dir, "sandboxes")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		infos, _ := w.driver.List(context.Background())
		for _, i := range infos {
			w.driver.Destroy(context.Background(), i.ID)
		}
	})
	return w
}

// clock is the real one, and can be moved forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) Now() time.Time      { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) Add(d time.Duration) { c.ahead.Add(int64(d)) }

// options are those of a worker in this world.
func (w *world) options() Options {
	o := Options{
		Name: "w1", Concurrency: 2, Renew: 50 * time.Millisecond, Poll: 50 * time.Millisecond, Drain: -1,
		Store: w.store, Blobs: w.blobs, Driver: w.driver, DriverName: "fake", patience: 5 * time.Minute,
		Models: func(context.Context, string) (llm.Model, llm.Info, error) {
			return w.model, llm.Info{Provider: "test", Window: 200_000, MaxOutput: 8000}, nil
		},
	}
	if os.Getenv("WORKER_TEST_LOG") != "" {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return o
}

// start starts a worker that is stopped with the test.
func (w *world) start(o Options) *Worker {
	w.Helper()
	worker := New(o)
	if err := worker.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { worker.Stop(context.Background()) })
	return worker
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Minute)
	w.Cleanup(cancel)
	return ctx
}

// submit creates a job.
func (w *world) submit(change ...func(*glovebox.Created)) string {
	w.Helper()
	c := glovebox.Created{ID: glovebox.NewID(), Tenant: "t", Task: "Make a file.", Model: "test:x", Limits: glovebox.DefaultLimits(),
		Egress: glovebox.Egress{Mode: glovebox.EgressNone}}
	for _, f := range change {
		f(&c)
	}
	j, _, err := w.store.CreateJob(w.ctx(), c, store.IdempotencyKey{})
	if err != nil {
		w.Fatal(err)
	}
	return j.ID
}

// await waits until a job is as it is wanted.
func (w *world) await(id, what string, is func(*glovebox.Job) bool) *glovebox.Job {
	w.Helper()
	ctx := w.ctx()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := w.store.Watch(ctx, id)
	for {
		j, err := w.store.Job(ctx, "", id)
		if err != nil {
			w.Fatalf("while waiting for %s: %v", what, err)
		}
		if is(j) {
			return j
		}
		if j.Status.Terminal() {
			w.Fatalf("the job ended while the test waited for %s: %s", what, mustJSON(j))
		}
		if _, ok := <-watch; !ok {
			w.Fatalf("waited too long for %s: %s\n%v", what, mustJSON(j), w.types(id))
		}
	}
}

func (w *world) awaitEnd(id string) *glovebox.Job {
	w.Helper()
	return w.await(id, "the end", func(j *glovebox.Job) bool { return j.Status.Terminal() })
}

// awaitEvent waits until the log has an event of a type.
func (w *world) awaitEvent(id string, typ glovebox.EventType) {
	w.Helper()
	w.await(id, string(typ), func(*glovebox.Job) bool { return slices.Contains(w.types(id), typ) })
}

func (w *world) events(id string) []glovebox.Event {
	w.Helper()
	events, err := storetest.CheckLog(w.ctx(), w.store, id) // L3
	if err != nil {
		w.Fatal(err)
	}
	return events
}

func (w *world) types(id string) []glovebox.EventType {
	w.Helper()
	var out []glovebox.EventType
	for _, e := range w.events(id) {
		out = append(out, e.Type)
	}
	return out
}

// data returns the data of all events of a type.
func data[T any](w *world, id string, typ glovebox.EventType) []T {
	w.Helper()
	var out []T
	for _, e := range w.events(id) {
		if e.Type == typ {
			v, err := glovebox.Decode[T](e)
			if err != nil {
				w.Fatal(err)
			}
			out = append(out, v)
		}
	}
	return out
}

// sandboxes returns how many sandboxes there are.
func (w *world) sandboxes() int {
	w.Helper()
	infos, err := w.driver.List(w.ctx())
	if err != nil {
		w.Fatal(err)
	}
	return len(infos)
}

// awaitNoSandbox waits until the sandboxes are destroyed, which is after the
// end of a job was recorded: until the worker has stopped.
func (w *world) awaitNoSandbox(worker *Worker) {
	w.Helper()
	if err := worker.Stop(w.ctx()); err != nil {
		w.Fatal(err)
	}
	if n := w.sandboxes(); n != 0 {
		w.Errorf("L7: %d sandboxes are left", n)
	}
}

// artifact returns the files of a job's artifact.
func (w *world) artifact(j *glovebox.Job) map[string]string {
	w.Helper()
	r, err := w.blobs.Open(w.ctx(), j.Artifact.Blob)
	if err != nil {
		w.Fatal(err)
	}
	defer r.Close()
	z, err := zip.NewReader(r.(io.ReaderAt), r.Size())
	if err != nil {
		w.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range z.File {
		rc, err := f.Open()
		if err != nil {
			w.Fatal(err)
		}
		b, err := io.ReadAll(rc)
		if err != nil {
			w.Fatal(err)
		}
		files[f.Name] = string(b)
	}
	return files
}

// script is a model that answers step n with its turn n. A turn of no blocks
// waits until the call is cancelled.
type script [][]glovebox.Block

func (s script) Stream(ctx context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
	if r.Step >= int64(len(s)) {
		return nil, &llm.Error{Kind: llm.KindExhausted, Msg: fmt.Sprintf("there is no turn %d", r.Step)}
	}
	blocks := s[r.Step]
	if len(blocks) == 0 {
		<-ctx.Done()
		return nil, &llm.Error{Kind: llm.KindCancelled, Err: ctx.Err()}
	}
	stop := llm.StopEnd
	if blocks[len(blocks)-1].Type == glovebox.BlockToolUse {
		stop = llm.StopToolUse
	}
	return &llm.Response{Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: blocks}, StopReason: stop,
		Usage: glovebox.Usage{Input: 100, Output: 10, Calls: 1}}, nil
}

var calls struct {
	sync.Mutex
	n int
}

func call(name string, input any) glovebox.Block {
	calls.Lock()
	defer calls.Unlock()
	calls.n++
	return glovebox.Block{Type: glovebox.BlockToolUse, CallID: fmt.Sprintf("call-%d", calls.n), Name: name, Input: json.RawMessage(mustJSON(input))}
}

func shell(command string) []glovebox.Block {
	return []glovebox.Block{call("shell", map[string]any{"command": command})}
}

func finish(proofs ...string) []glovebox.Block {
	return []glovebox.Block{call("finish", map[string]any{"summary": "It is done.", "how_to_run": "cat hello.txt", "proofs": proofs})}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
