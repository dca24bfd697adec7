//go:build linux

package guestd_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// sandbox is a guest in a directory.
type sandbox struct {
	s    *guestd.Server
	root string
}

func newSandbox(t testing.TB, o guestd.Options) *sandbox {
	t.Helper()
	if o.Root == "" {
		o.Root = t.TempDir()
	}
	s, err := guestd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &sandbox{s: s, root: o.Root}
}

// dial connects a client.
func (b *sandbox) dial(t testing.TB, o guest.Options) *guest.Client {
	t.Helper()
	host, inside := pair(t)
	go b.s.ServeConn(inside)
	c, err := guest.NewClient(t.Context(), host, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// pair returns the two ends of a connection.
func pair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func start(t testing.TB) (*guest.Client, *sandbox) {
	t.Helper()
	b := newSandbox(t, guestd.Options{})
	return b.dial(t, guest.Options{}), b
}

func sh(id, script string) guest.Command {
	return guest.Command{ID: id, Args: []string{"sh", "-c", script}}
}

func wantCode(t *testing.T, err error, code glovebox.Code) {
	t.Helper()
	if glovebox.CodeOf(err) != code {
		t.Errorf("error %v has the code %q, want %q", err, glovebox.CodeOf(err), code)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	st, out, err := c.Run(t.Context(), sh("r1", "pwd; echo err >&2; exit 3"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if st.ExitCode != 3 || st.Running || st.ID != "r1" {
		t.Errorf("state %+v", st)
	}
	if got := string(out); !strings.Contains(got, b.root+"/workspace\n") || !strings.Contains(got, "err\n") {
		t.Errorf("output %q", got)
	}
	_, _, err = c.Run(t.Context(), sh("r1", "true"), 0)
	wantCode(t, err, glovebox.CodeConflict)
	_, _, err = c.Run(t.Context(), guest.Command{ID: "r2", Args: []string{"no-such-program"}}, 0)
	wantCode(t, err, glovebox.CodeNotFound)
	st, out, err = c.Run(t.Context(), sh("r3", "head -c 100000 /dev/zero | tr '\\0' x"), 10_000)
	if err != nil || st.ExitCode != 0 {
		t.Fatal(st, err)
	}
	if len(out) > 11_000 || !bytes.Contains(out, []byte("[... 90000 bytes left out ...]")) {
		t.Errorf("output of %d bytes: %.100q", len(out), out[4990:])
	}
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, _, err = c.Run(ctx, sh("r4", "sleep 100"), 0); err == nil {
		t.Error("a cancelled run succeeded")
	}
}

func TestStartWriteWait(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	ctx := t.Context()
	p, err := c.Start(ctx, guest.Command{ID: "cat", Args: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(ctx, []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseStdin(ctx); err != nil {
		t.Fatal(err)
	}
	var got []byte
	if err := p.Output(ctx, 0, func(o guest.Output) error { got = append(got, o.Data...); return nil }); err != nil {
		t.Fatal(err)
	}
	st, err := p.Wait(ctx, false)
	if err != nil || string(got) != "hello\n" || st.ExitCode != 0 || st.Running {
		t.Errorf("got %q, %+v, %v", got, st, err)
	}
	wantCode(t, p.Write(ctx, []byte("x")), glovebox.CodeConflict)
	if _, err := c.Attach(ctx, "nobody"); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	ctx := t.Context()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	for name, data := range map[string][]byte{"a/b/c.txt": []byte("hi"), "/workspace/big": big, "empty": nil} {
		if err := c.WriteFile(ctx, name, data, 0); err != nil {
			t.Fatal(name, err)
		}
		got, size, err := c.ReadFile(ctx, name, 0, 16<<20)
		if err != nil || !bytes.Equal(got, data) || size != int64(len(data)) {
			t.Fatal(name, len(got), size, err)
		}
	}
	if _, err := os.Stat(b.root + "/workspace/a/b/c.txt"); err != nil {
		t.Error(err)
	}
	if err := c.Move(ctx, "a/b/c.txt", "x/d.txt"); err != nil {
		t.Error(err)
	}
	wantCode(t, c.Move(ctx, "empty", "x/d.txt"), glovebox.CodeConflict)
	wantCode(t, c.Remove(ctx, "a/b/c.txt"), glovebox.CodeNotFound)
	_, _, err := c.ReadDir(ctx, "")
	wantCode(t, err, glovebox.CodeInvalid)
	entries, more, err := c.ReadDir(ctx, ".")
	if err != nil || more || len(entries) != 4 {
		t.Error(entries, more, err)
	}
	_, _, err = c.ReadFile(ctx, "x", 0, 10)
	wantCode(t, err, glovebox.CodeInvalid)
	if e, err := c.Stat(ctx, "x/d.txt"); err != nil || e.Path != "/workspace/x/d.txt" || e.Size != 2 {
		t.Error(e, err)
	}
}

func TestCheckpointRestore(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	ctx := t.Context()
	write := func(p, s string) {
		t.Helper()
		if err := c.WriteFile(ctx, p, []byte(s), 0); err != nil {
			t.Fatal(err)
		}
	}
	write("a.txt", "one\ntwo\n")
	write("src/.git/config", "nested")
	write("node_modules/x/index.js", "left out")
	var p1, p2 bytes.Buffer
	i1, err := c.Checkpoint(ctx, "", "first", &p1)
	if err != nil || !i1.Whole || p1.Len() == 0 {
		t.Fatal(i1, err)
	}
	write("a.txt", "one\nthree\nfour\n")
	i2, err := c.Checkpoint(ctx, i1.Commit, "second", &p2)
	if err != nil || i2.Whole || len(i2.Changes) != 1 || i2.Changes[0] != (guest.Change{Path: "a.txt", Added: 2, Deleted: 1}) {
		t.Fatal(i2, err)
	}
	var none bytes.Buffer
	if i3, err := c.Checkpoint(ctx, i2.Commit, "third", &none); err != nil || i3.Commit != i2.Commit || none.Len() != 0 {
		t.Fatal(i3, err)
	}
	other, ob := start(t)
	packs := []func() (io.ReadCloser, error){
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p1.Bytes())), nil },
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p2.Bytes())), nil },
	}
	if err := other.Restore(ctx, i2.Commit, packs); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a.txt": "one\nthree\nfour\n", "src/.git/config": "nested"} {
		got, err := os.ReadFile(ob.root + "/workspace/" + name)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(ob.root + "/workspace/node_modules"); err == nil {
		t.Error("node_modules was restored")
	}
	if i4, err := other.Checkpoint(ctx, i2.Commit, "same", &none); err != nil || i4.Commit != i2.Commit {
		t.Error(i4, err)
	}
	_ = b
}

func TestExport(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	ctx := t.Context()
	for _, p := range []string{"a/x", "a-b", "a.txt", "node_modules/y", "z"} {
		if err := c.WriteFile(ctx, p, []byte(p), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", b.root+"/workspace/link"); err != nil {
		t.Fatal(err)
	}
	var got, skipped []string
	err := c.Export(ctx, "/workspace", func(p string, _ os.FileMode, _ int64) bool { return p != "node_modules" }, func(f guest.ExportFile) error {
		body, err := io.ReadAll(f.Body)
		if string(body) != f.Path {
			t.Errorf("%s holds %q", f.Path, body)
		}
		got = append(got, f.Path)
		return err
	}, func(p, why string) { skipped = append(skipped, p+": "+why) })
	if err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "a-b a.txt a/x z" {
		t.Errorf("exported %q", s)
	}
	if s := strings.Join(skipped, " "); s != "link: symbolic link" {
		t.Errorf("skipped %q", s)
	}
}

func TestEgress(t *testing.T) {
	t.Parallel()
	b := newSandbox(t, guestd.Options{ProxyAddr: "127.0.0.1:0"})
	b.dial(t, guest.Options{Egress: func(c net.Conn) {
		defer c.Close()
		io.Copy(c, c)
	}})
	conn, err := net.Dial("tcp", b.s.ProxyAddr())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "ping")
	conn.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != "ping" {
		t.Error(string(got), err)
	}
}

func itoa(n uint16) string { return strconv.Itoa(int(n)) }
