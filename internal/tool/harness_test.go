//go:build linux

package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
)

// box is a sandbox that is a directory, with a guest in this process, and
// what the tools are given to work with.
type box struct {
	t      testing.TB
	dir    string // its workspace, outside
	server *guestd.Server
	env    *Env

	mu    sync.Mutex
	calls int
	live  strings.Builder
	kept  map[string][]byte
}

// allTools is All, made once.
var allTools = All()

func newBox(t testing.TB) *box {
	t.Helper()
	return newBoxWith(t, guestd.Options{})
}

// newBoxWith is newBox with options of the guest; its root is made here.
func newBoxWith(t testing.TB, o guestd.Options) *box {
	t.Helper()
	root := t.TempDir()
	o.Root = root
	server, err := guestd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	b := &box{t: t, dir: filepath.Join(root, guest.Workspace), server: server, kept: map[string][]byte{}}
	b.env = &Env{
		Job: &glovebox.Job{Limits: glovebox.Limits{MemoryBytes: 1 << 30}},
		Output: func(s string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.live.WriteString(s)
		},
		Save: func(_ context.Context, data []byte) (string, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			handle := fmt.Sprintf("jobs/x/out-%d", len(b.kept)+1)
			b.kept[handle] = append([]byte(nil), data...)
			return handle, nil
		},
		Load: b.load,

		patience: patience{stop: time.Minute},
	}
	b.connect()
	return b
}

// connect gives the tools a new connection to the guest, as a worker has that
// took the job over.
func (b *box) connect() {
	b.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "guest")
		if conns[i], err = net.FileConn(f); err != nil {
			b.t.Fatal(err)
		}
		f.Close()
	}
	go b.server.ServeConn(conns[0])
	client, err := guest.NewClient(b.t.Context(), conns[1], guest.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { client.Close() })
	b.env.Guest = client
}

func (b *box) load(_ context.Context, handle string, offset, limit int64) ([]byte, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.kept[handle]
	if !ok {
		return nil, 0, glovebox.Errorf(glovebox.CodeNotFound, "no blob %q", handle)
	}
	size := int64(len(data))
	offset = min(offset, size)
	return data[offset:min(size, offset+limit)], size, nil
}

// call calls a tool by name. input is its fields, as pairs.
func (b *box) call(name string, input ...any) Result {
	b.t.Helper()
	r, err := b.try(b.t.Context(), name, input...)
	if err != nil {
		b.t.Fatalf("%s %v: %v", name, input, err)
	}
	return r
}

func (b *box) try(ctx context.Context, name string, input ...any) (Result, error) {
	b.t.Helper()
	fields := map[string]any{}
	for i := 0; i+1 < len(input); i += 2 {
		fields[input[i].(string)] = input[i+1]
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, x := range allTools {
		if x.Name != name {
			continue
		}
		b.mu.Lock()
		b.calls++
		env := *b.env
		env.CallID = fmt.Sprintf("call_%s_%d", b.t.Name(), b.calls)
		b.mu.Unlock()
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		return x.Run(ctx, &env, raw)
	}
	b.t.Fatalf("there is no tool %q", name)
	return Result{}, nil
}

// good and bad call a tool and check that its text has each of want.
func (b *box) good(want []string, name string, input ...any) string {
	b.t.Helper()
	return b.expect(false, want, name, input...)
}

func (b *box) bad(want []string, name string, input ...any) string {
	b.t.Helper()
	return b.expect(true, want, name, input...)
}

func (b *box) expect(isError bool, want []string, name string, input ...any) string {
	b.t.Helper()
	r := b.call(name, input...)
	text := textOf(r)
	for _, w := range want {
		if !strings.Contains(text, w) {
			b.t.Errorf("%s %v: got\n%s\nwithout %q", name, input, text, w)
		}
	}
	if r.IsError != isError {
		b.t.Errorf("%s %v: IsError is %v:\n%s", name, input, r.IsError, text)
	}
	if len(text) > OutputBound {
		b.t.Errorf("%s %v: %d bytes of text", name, input, len(text))
	}
	return text
}

func textOf(r Result) string {
	var parts []string
	for _, c := range r.Content {
		if c.Type == glovebox.BlockText {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// write and read go around the tools.
func (b *box) write(name, content string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func (b *box) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(b.dir, name))
	return err == nil
}
