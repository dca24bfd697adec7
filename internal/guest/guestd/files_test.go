//go:build linux

package guestd_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
)

func write(t *testing.T, c *guest.Client, files map[string]string) {
	t.Helper()
	for name, data := range files {
		if err := c.WriteFile(t.Context(), name, []byte(data), 0); err != nil {
			t.Fatal(err)
		}
	}
}

func paths(entries []guest.Entry) string {
	var s []string
	for _, e := range entries {
		s = append(s, e.Path)
	}
	return strings.Join(s, " ")
}

func TestGlobAndSearch(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	ctx := t.Context()
	write(t, c, map[string]string{
		".gitignore": "dist/\n", "a.go": "package a\nfunc A() {}\n", "b/b.go": "package b\n// func A\n", "b/.hidden.go": "package h\n",
		"dist/d.go": "package d\n", ".git/x.go": "package x\n", "b/c.txt": "FUNC a(b)\n", "-x.go": "package dash\n",
	})
	for _, tc := range []struct {
		pattern, want string
		limit         int
		all           bool
	}{
		{"**/*.go", "-x.go a.go b/.hidden.go b/b.go", 0, false},
		{"*.go", "-x.go a.go", 0, false},
		{"**/*.go", "-x.go .git/x.go a.go b/.hidden.go b/b.go dist/d.go", 0, true},
		{"**/*.go", "-x.go a.go", 2, false},
		{"nothing", "", 0, false},
	} {
		got, err := c.Glob(ctx, "", tc.pattern, tc.limit, tc.all)
		if err != nil || paths(got) != tc.want {
			t.Errorf("%s: %q, want %q, %v", tc.pattern, paths(got), tc.want, err)
		}
	}
	_, err := c.Glob(ctx, "", "[", 0, false)
	wantCode(t, err, glovebox.CodeInvalid)
	_, err = c.Glob(ctx, "none", "*", 0, false)
	wantCode(t, err, glovebox.CodeNotFound)

	m, more, err := c.Search(ctx, guest.SearchQuery{Pattern: `func \w`, Context: 1})
	if err != nil || more || len(m) != 4 || m[0] != (guest.Match{Path: "a.go", Line: 1, Text: "package a", Context: true}) ||
		m[3] != (guest.Match{Path: "b/b.go", Line: 2, Text: "// func A"}) {
		t.Errorf("%+v, %v, %v", m, more, err)
	}
	m, more, err = c.Search(ctx, guest.SearchQuery{Pattern: "func a(", Fixed: true, IgnoreCase: true, Limit: 1})
	if err != nil || !more || len(m) != 1 {
		t.Errorf("%+v, %v, %v", m, more, err)
	}
	m, _, err = c.Search(ctx, guest.SearchQuery{Pattern: "-x", Dir: "a.go"})
	if err != nil || len(m) != 0 {
		t.Errorf("%+v, %v", m, err)
	}
	_, _, err = c.Search(ctx, guest.SearchQuery{Pattern: "("})
	wantCode(t, err, glovebox.CodeInvalid)
	_, _, err = c.Search(ctx, guest.SearchQuery{Pattern: "x", Dir: "none"})
	wantCode(t, err, glovebox.CodeNotFound)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	write(t, c, map[string]string{"sub/old": "x"})
	seen := make(chan []string, 100)
	done := make(chan error, 1)
	go func() { done <- c.Watch(ctx, "", func(p []string) { seen <- slices.Clone(p) }) }()
	if first := <-seen; len(first) != 0 {
		t.Errorf("first call with %q", first)
	}
	write(t, c, map[string]string{"sub/new": "x", "deep/er/file": "x", "node_modules/x": "x"})
	want := map[string]bool{"sub/new": true, "deep/er/file": true}
	for len(want) > 0 {
		for _, p := range <-seen {
			delete(want, p)
			if strings.Contains(p, ".glovebox-") || strings.HasPrefix(p, "node_modules/") {
				t.Errorf("%q was reported", p)
			}
		}
	}
	cancel()
	wantCode(t, <-done, glovebox.CodeUnavailable)
	wantCode(t, c.Watch(t.Context(), "none", func([]string) {}), glovebox.CodeNotFound)
}

func TestBadPaths(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	ctx := t.Context()
	outside := t.TempDir()
	if err := os.Symlink(outside, b.root+"/workspace/out"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(b.root+"/workspace/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, c, map[string]string{"file": "x"})
	for path, code := range map[string]glovebox.Code{
		"": glovebox.CodeInvalid, "a\x00b": glovebox.CodeInvalid, strings.Repeat("x/", 2500): glovebox.CodeInvalid,
		"out/x": glovebox.CodeForbidden, "out/deep/x": glovebox.CodeForbidden, "file/x": glovebox.CodeInvalid, strings.Repeat("n", 300): glovebox.CodeInvalid, "out": glovebox.CodeInvalid,
	} {
		if err := c.WriteFile(ctx, path, []byte("x"), 0); glovebox.CodeOf(err) != code {
			t.Errorf("write %.40q: %v, want %s", path, err, code)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
	for path, code := range map[string]glovebox.Code{
		"none": glovebox.CodeNotFound, "fifo": glovebox.CodeInvalid, ".": glovebox.CodeInvalid, "file/x": glovebox.CodeInvalid, "../../../../etc/hostname": glovebox.CodeNotFound,
	} {
		if _, _, err := c.ReadFile(ctx, path, 0, 10); glovebox.CodeOf(err) != code {
			t.Errorf("read %q: %v, want %s", path, err, code)
		}
	}
	_, _, err := c.ReadFile(ctx, "file", 0, 16<<20+1)
	wantCode(t, err, glovebox.CodeInvalid)
	_, _, err = c.ReadFile(ctx, "file", -1, 1)
	wantCode(t, err, glovebox.CodeInvalid)
	wantCode(t, c.WriteFile(ctx, "big", make([]byte, 64<<20+1), 0), glovebox.CodeTooLarge)
	if got, size, err := c.ReadFile(ctx, "file", 5, 10); err != nil || len(got) != 0 || size != 1 {
		t.Errorf("beyond the end: %q, %d, %v", got, size, err)
	}
}

func TestWriteKeepsModeAndLink(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	ctx := t.Context()
	write(t, c, map[string]string{"script": "a"})
	real := b.root + "/workspace/script"
	if err := os.Chmod(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("script", b.root+"/workspace/link"); err != nil {
		t.Fatal(err)
	}
	write(t, c, map[string]string{"link": "b"})
	if e, err := c.Stat(ctx, "link"); err != nil || e.Link != "script" || e.Mode&fs.ModeSymlink == 0 {
		t.Errorf("link: %+v, %v", e, err)
	}
	if e, err := c.Stat(ctx, "script"); err != nil || e.Mode != 0o755 || e.Size != 1 {
		t.Errorf("script: %+v, %v", e, err)
	}
	if err := c.WriteFile(ctx, "script", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Stat(ctx, "script"); err != nil || e.Mode != 0o600 {
		t.Errorf("script: %+v, %v", e, err)
	}
	if err := c.MakeDir(ctx, "d/e/f"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.Move(ctx, "d", "d/e/g"), glovebox.CodeInvalid)
	if err := c.Remove(ctx, "d"); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(b.root + "/workspace/.*")
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	ctx := t.Context()
	tarball := func(entries ...*tar.Header) io.Reader {
		var buf bytes.Buffer
		gz := gzip.NewWriter(&buf)
		w := tar.NewWriter(gz)
		for _, h := range entries {
			if h.Typeflag == tar.TypeReg {
				h.Size = 4
			}
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				io.WriteString(w, "data")
			}
		}
		w.Close()
		gz.Close()
		return &buf
	}
	err := c.Import(ctx, "in", tarball(
		&tar.Header{Name: "./d/", Typeflag: tar.TypeDir, Mode: 0o755}, &tar.Header{Name: "./d/f", Typeflag: tar.TypeReg, Mode: 0o755},
		&tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, &tar.Header{Name: "p", Typeflag: tar.TypeFifo},
	), "tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(b.root + "/workspace/in/d/f"); err != nil || string(got) != "data" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Lstat(b.root + "/workspace/in/l"); err == nil {
		t.Error("a symbolic link was made")
	}
	for _, name := range []string{"../x", "/etc/x", "a/../../x"} {
		wantCode(t, c.Import(ctx, "in", tarball(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}), "tar.gz"), glovebox.CodeInvalid)
	}
	wantCode(t, c.Import(ctx, "in", strings.NewReader("not an archive"), "tar.gz"), glovebox.CodeInvalid)
	wantCode(t, c.Import(ctx, "in", strings.NewReader("not an archive"), "zip"), glovebox.CodeInvalid)
	wantCode(t, c.Import(ctx, "in", strings.NewReader(""), "rar"), glovebox.CodeInvalid)

	var buf bytes.Buffer
	zw := zip.NewWriter(&buf)
	w, _ := zw.Create("z/file")
	io.WriteString(w, "zipped")
	w, _ = zw.Create("../escape")
	io.WriteString(w, "out")
	zw.Close()
	wantCode(t, c.Import(ctx, "in", &buf, "zip"), glovebox.CodeInvalid)
	if got, err := os.ReadFile(b.root + "/workspace/in/z/file"); err != nil || string(got) != "zipped" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBind(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	ctx := t.Context()
	const pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	s := guest.Settings{Hostname: "box", Env: map[string]string{"COLOR": "blue"}, CACerts: []byte(pem), Files: map[string][]byte{"/etc/npmrc": []byte("a=b\n"), "/home/agent/.config/x": nil}}
	for range 2 { // told again, nothing is doubled
		if err := c.Bind(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	// What is in place already is left alone, and what is new goes there.
	npmrc := b.root + "/etc/npmrc"
	old, err := os.Stat(npmrc)
	if err != nil {
		t.Fatal(err)
	}
	for _, same := range []bool{true, false, true} {
		if !same {
			s.Files["/etc/new"] = []byte("new")
		}
		if err := c.Bind(ctx, s); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(npmrc)
		if err != nil || os.SameFile(now, old) != same {
			t.Errorf("the same settings: %t; the same file: %t, %v", same, os.SameFile(now, old), err)
		}
		old = now
	}
	if got, err := os.ReadFile(b.root + "/etc/new"); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	_, out, err := c.Run(ctx, sh("env", `echo $COLOR $HOME; cat "$SSL_CERT_FILE" "$NODE_EXTRA_CA_CERTS"`), 0)
	if want := "blue " + b.root + "/home/agent\n" + pem + pem; err != nil || string(out) != want {
		t.Errorf("%q, want %q, %v", out, want, err)
	}
	if got, err := os.ReadFile(b.root + "/etc/npmrc"); err != nil || string(got) != "a=b\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []guest.Settings{
		{Hostname: "a b"}, {Hostname: strings.Repeat("a", 64)}, {Env: map[string]string{"A=B": ""}}, {Env: map[string]string{"A": "\x00"}},
		{Files: map[string][]byte{"relative": nil}}, {Files: map[string][]byte{"/a/../b": nil}}, {CACerts: []byte("none")},
		{CACerts: []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")},
	} {
		wantCode(t, c.Bind(ctx, bad), glovebox.CodeInvalid)
	}
}

// deafPort returns a port that nobody listens on and that nobody else gets
// until the test ends.
func deafPort(t *testing.T) uint16 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(at.(*unix.SockaddrInet4).Port)
}

func TestPorts(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		io.Copy(conn, conn)
	}()
	list, err := c.Listeners(t.Context())
	i := slices.IndexFunc(list, func(l guest.Listener) bool { return l.Port == port })
	if err != nil || i < 0 || list[i].Address != "127.0.0.1" || list[i].PID != os.Getpid() {
		t.Errorf("%+v, %v", list, err)
	}
	conn, err := c.DialPort(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	big := bytes.Repeat([]byte("x"), 4<<20)
	go func() {
		conn.Write(big)
		conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	if got, err := io.ReadAll(conn); err != nil || len(got) != len(big) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	<-done
	_, err = c.DialPort(t.Context(), deafPort(t))
	wantCode(t, err, glovebox.CodeUnavailable)
	_, err = c.DialPort(t.Context(), 0)
	wantCode(t, err, glovebox.CodeInvalid)
}

// TestEgressNewestHost checks who gets connections: the newest host that
// takes them, and one that comes while a connection waits.
func TestEgressNewestHost(t *testing.T) {
	t.Parallel()
	b := newSandbox(t, guestd.Options{ProxyAddr: "127.0.0.1:0"})
	answer := func(s string) guest.EgressHandler {
		return func(c net.Conn) {
			defer c.Close()
			io.WriteString(c, s)
		}
	}
	ask := func() string {
		conn, err := net.Dial("tcp", b.s.ProxyAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		got, _ := io.ReadAll(conn)
		return string(got)
	}
	early := make(chan string)
	go func() { early <- ask() }()
	c := b.dial(t, guest.Options{Egress: answer("first")})
	if got := <-early; got != "first" {
		t.Errorf("early: %q", got)
	}
	second := b.dial(t, guest.Options{Egress: answer("second")})
	b.dial(t, guest.Options{}) // takes none
	if got := ask(); got != "second" {
		t.Errorf("newest: %q", got)
	}
	second.Close()
	got := ask()
	for deadline := time.Now().Add(time.Minute); got == "" && time.Now().Before(deadline); {
		got = ask() // the guest has to notice first
	}
	if got != "first" {
		t.Errorf("after the newest has gone: %q", got)
	}
	if l, err := c.Listeners(t.Context()); err != nil || slices.ContainsFunc(l, func(l guest.Listener) bool {
		return b.s.ProxyAddr() == net.JoinHostPort(l.Address, itoa(l.Port))
	}) {
		t.Errorf("the proxy itself is listed: %v, %v", l, err)
	}
}
