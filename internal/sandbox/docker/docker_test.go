//go:build linux

package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/moby/moby/client"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/sandboxtest"
)

// testImage holds directories and nothing else: the probe guest needs no more.
const testImage = "glovebox-sandboxtest:latest"

var suite = sandboxtest.Suite{
	Open:     open,
	Skip:     skip,
	BadImage: "glovebox-no-such-image:latest",
}

func open(dir string) (sandbox.Driver, error) {
	plain, _, _ := sandboxtest.PlainBinary()
	return New(Options{Owner: dir, Image: testImage, Guest: plain, Runtime: os.Getenv("GLOVEBOX_TEST_DOCKER_RUNTIME")})
}

// skip says why there is no engine to test with.
var skip = sync.OnceValue(func() string {
	d, err := New(Options{Owner: "/"})
	if err != nil {
		return err.Error()
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // where there is none, that is known at once
	defer cancel()
	if err := d.Check(ctx); err != nil {
		return "no Docker engine: " + err.Error()
	}
	if _, err := d.images.base(ctx, testImage); err == nil {
		return ""
	}
	if err := loadTestImage(ctx, d.engine); err != nil {
		return "the engine takes no image: " + err.Error()
	}
	return ""
})

func loadTestImage(ctx context.Context, engine *client.Client) error {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, dir := range []string{"tmp/", "run/", "var/", "proc/", "sys/", "dev/", "etc/"} {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o777}); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	r, err := engine.ImageImport(ctx, client.ImageImportSource{Source: &b, SourceName: "-"}, testImage, client.ImageImportOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

func TestMain(m *testing.M) { suite.Main(m) }

func TestConformance(t *testing.T) { suite.Exercise(t) }

// testSandbox makes a sandbox of a driver of the test's own.
func testSandbox(t *testing.T, s sandbox.Spec) (*Driver, sandbox.ID) {
	t.Helper()
	if why := skip(); why != "" {
		t.Skip(why)
	}
	d, err := open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.ID = sandbox.ID(glovebox.NewID())
	if err := d.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Destroy(context.Background(), s.ID); err != nil {
			t.Error(err)
		}
		d.(*Driver).Close()
	})
	return d.(*Driver), s.ID
}

// A container is made as the package says that it is.
func TestConfined(t *testing.T) {
	t.Parallel()
	d, id := testSandbox(t, sandbox.Spec{Limits: glovebox.Limits{MemoryBytes: 256 << 20, Processes: 50, CPUMillis: 500}})
	r, err := d.engine.ContainerInspect(t.Context(), d.name(id), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := r.Container.HostConfig
	if h.NetworkMode != "none" || h.Privileged || len(h.Binds) != 0 || len(h.Mounts) != 0 || len(r.Container.Mounts) != 0 || len(h.Devices) != 0 {
		t.Errorf("it has a network, mounts, devices or privileges: %+v", h)
	}
	if strings.Join(h.CapDrop, " ") != "ALL" || strings.Join(h.SecurityOpt, " ") != "no-new-privileges" {
		t.Errorf("capabilities dropped: %v; security: %v", h.CapDrop, h.SecurityOpt)
	}
	if h.Memory != 256<<20 || h.MemorySwap != 256<<20 || *h.PidsLimit != 50 || h.NanoCPUs != 500_000_000 {
		t.Errorf("limits: %d %d %d %d", h.Memory, h.MemorySwap, *h.PidsLimit, h.NanoCPUs)
	}
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(r.Container.State.Pid), "status"))
	if err != nil {
		t.Skip("the engine is on another machine")
	}
	if s := string(b); !strings.Contains(s, "NoNewPrivs:\t1") || !strings.Contains(s, "CapBnd:\t00000000000000eb") || !strings.Contains(s, "Seccomp:\t2") {
		t.Errorf("the guest's status:\n%s", s)
	}
}

// A paused sandbox says so, and goes on when it is dialled.
func TestPause(t *testing.T) {
	t.Parallel()
	d, id := testSandbox(t, sandbox.Spec{})
	for range 2 {
		if err := d.Pause(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if infos, err := d.List(t.Context()); err != nil || len(infos) != 1 || infos[0].State != sandbox.Paused {
		t.Fatalf("%+v, %v", infos, err)
	}
	conn, err := d.Dial(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	// The engine may hear of the pause only now, and of the end of it later.
	late := time.After(time.Minute)
	for {
		infos, err := d.List(t.Context())
		if err != nil || len(infos) != 1 {
			t.Fatalf("%+v, %v", infos, err)
		}
		if infos[0].State == sandbox.Running {
			return
		}
		select {
		case <-time.After(removing):
		case <-late:
			t.Fatalf("%+v", infos)
		}
	}
}

// An engine that is not there is unavailable, and the error says what to look at.
func TestNoEngine(t *testing.T) {
	t.Parallel()
	d, err := New(Options{Host: "unix://" + filepath.Join(t.TempDir(), "no.sock"), Owner: "/", Image: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	err = d.Create(t.Context(), sandbox.Spec{ID: sandbox.ID(glovebox.NewID())})
	if e, ok := errors.AsType[*glovebox.Error](err); !ok || e.Code != glovebox.CodeUnavailable || e.Hint == "" {
		t.Errorf("%v", err)
	}
	if _, err := New(Options{Host: "nonsense", Owner: "/"}); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("%v", err)
	}
}

// An image that is missing is brought to the engine once, whoever wants it, and
// each who waits for it is told so.
func TestPrepare(t *testing.T) {
	t.Parallel()
	if why := skip(); why != "" {
		t.Skip(why)
	}
	name := "glovebox-sandboxtest-prepare:" + glovebox.NewID()
	plain, _, _ := sandboxtest.PlainBinary()
	told, loads := make(chan string, 3), 0
	d, err := New(Options{Owner: t.TempDir(), Image: name, Guest: plain, Load: func(ctx context.Context, engine *client.Client) error {
		loads++
		<-told
		<-told // the other waits, too
		_, err := engine.ImageTag(ctx, client.ImageTagOptions{Source: testImage, Target: name})
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	remove := func() { _, _ = d.engine.ImageRemove(context.Background(), name, client.ImageRemoveOptions{}) }
	remove()
	t.Cleanup(remove)
	say := func(what string) {
		if !strings.Contains(what, "copied into the Docker engine") {
			t.Errorf("it is said: %q", what)
		}
		told <- what
	}
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- d.Prepare(t.Context(), "", say) }()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := d.Prepare(t.Context(), "", say); err != nil || loads != 1 || len(told) != 0 {
		t.Errorf("loaded %d times, told %d more; %v", loads, len(told), err)
	}
	if err := d.Prepare(t.Context(), "glovebox-no-such-image:latest", say); err != nil || loads != 1 {
		t.Errorf("an image of someone else's is not ours to load: %v, %d", err, loads)
	}
}

// Who waits for an image can give up.
func TestPrepareGivenUp(t *testing.T) {
	t.Parallel()
	if why := skip(); why != "" {
		t.Skip(why)
	}
	loading, gone := make(chan struct{}), make(chan struct{})
	d, err := New(Options{Owner: t.TempDir(), Image: "glovebox-no-such-image:prepare", Load: func(context.Context, *client.Client) error {
		close(loading)
		<-gone
		return errors.New("no room")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	first := make(chan error, 1)
	go func() { first <- d.Prepare(t.Context(), "", nil) }()
	<-loading
	ctx, cancel := context.WithCancel(t.Context())
	if err := d.Prepare(ctx, "", func(string) { cancel() }); glovebox.CodeOf(err) != glovebox.CodeUnavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(gone)
	if err := <-first; err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("got %v", err)
	}
}

// A runtime that the engine does not know is refused by name, before any job.
func TestUnknownRuntime(t *testing.T) {
	t.Parallel()
	if why := skip(); why != "" {
		t.Skip(why)
	}
	d, err := New(Options{Owner: t.TempDir(), Image: testImage, Runtime: "no-such-runtime"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	err = d.Check(t.Context())
	if e, ok := errors.AsType[*glovebox.Error](err); !ok || e.Code != glovebox.CodeInvalid || e.Field != "docker.runtime" || !strings.Contains(e.Msg, "no-such-runtime") {
		t.Errorf("%v", err)
	}
}

func frame(kind byte, s string) []byte {
	b := make([]byte, 8, 8+len(s))
	b[0] = kind
	binary.BigEndian.PutUint32(b[4:], uint32(len(s)))
	return append(b, s...)
}

func TestDemux(t *testing.T) {
	t.Parallel()
	whole := bytes.Join([][]byte{frame(1, "hel"), frame(1, ""), frame(2, "oops"), frame(1, "lo")}, nil)
	for _, r := range []io.Reader{bytes.NewReader(whole), iotest.OneByteReader(bytes.NewReader(whole))} {
		got, err := io.ReadAll(&demux{r: r})
		if string(got) != "hello" || err == nil || !strings.Contains(err.Error(), "oops") {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got, err := io.ReadAll(&demux{r: bytes.NewReader(frame(1, "hello")[:10])}); string(got) != "he" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := io.ReadAll(&demux{r: bytes.NewReader(frame(9, "x"))}); err == nil {
		t.Error("a frame of an unknown type is no error")
	}
	d := &demux{r: bytes.NewReader(frame(2, strings.Repeat("x", 1<<16)))}
	if _, err := io.ReadAll(d); err == nil || len(d.complaint) != maxComplaint {
		t.Errorf("%d bytes were kept, %v", len(d.complaint), err)
	}
}
