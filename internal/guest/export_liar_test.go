package guest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// exporter is a guest that answers an export with what a script says.
type exporter map[string][][]byte // by request: "ls DIR" or "get DIR"

func (x exporter) stream(st *yamux.Stream, br *wire.FrameReader) {
	var root guestpb.ExportRoot
	if br.ReadMessage(&root) != nil {
		return
	}
	for {
		var q guestpb.ExportRequest
		if br.ReadMessage(&q) != nil {
			return
		}
		key := "ls " + q.Dir
		if len(q.Files) > 0 {
			key = "get " + q.Dir
		}
		sendFrames(st, x[key]...)
	}
}

func listing(more bool, entries ...*guestpb.Entry) []byte {
	return message(&guestpb.EntryList{Entries: entries, More: more})
}

func file(name string, size int64) *guestpb.Entry {
	return &guestpb.Entry{Path: name, Size: size, Mode: 0o644}
}

func dir(name string) *guestpb.Entry {
	return &guestpb.Entry{Path: name, Mode: uint32(fs.ModeDir | 0o755)}
}

// TestLyingExport checks that no answer to an export brings a path of the
// guest's own, a wrong size or a wrong order.
func TestLyingExport(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		x       exporter
		want    string // what is exported
		skipped string
		fails   bool
	}{
		"good":      {exporter{"ls ": {listing(true, file("a", 1)), listing(false, dir("b"))}, "get ": {message(file("a", 1)), data("x")}, "ls b": {listing(false, file("c", 0))}, "get b": {message(file("c", 0))}}, "a=x b/c=", "", false},
		"traversal": {exporter{"ls ": {listing(false, file("../x", 1), file("/etc", 1), file("a/b", 1), file("z\n", 1))}}, "", "../x /etc a/b z\n", false},
		"dots":      {exporter{"ls ": {listing(false, file("..", 1), file("z\\..\\x", 1))}}, "", ".. z\\..\\x", false},
		"self":      {exporter{"ls ": {listing(false, dir("..")), listing(false)}}, "", "..", false},
		"not utf-8": {exporter{"ls ": {wire.AppendFrame(nil, wire.FrameMessage, []byte("\x0a\x04\x0a\x02\xff\xfe"))}}, "", "", true},
		"too long":  {exporter{"ls ": {listing(false, file(strings.Repeat("x", 256), 1))}}, "", strings.Repeat("x", 256), false},
		"twice":     {exporter{"ls ": {listing(false, file("a", 1), file("a", 1))}}, "", "", true},
		"backwards": {exporter{"ls ": {listing(false, file("b", 1), file("a", 1))}}, "", "", true},
		"two kinds": {exporter{"ls ": {listing(false, file("a", 1), file("a-b", 1), dir("a"))}, "ls a": {listing(false)}, "get ": {message(file("a", 0)), message(file("a-b", 0))}}, "", "", true},
		"negative":  {exporter{"ls ": {listing(false, file("a", -1))}}, "", "", true},
		"endless":   {exporter{"ls ": {listing(true)}}, "", "", true},
		"other":     {exporter{"ls ": {listing(false, file("a", 1))}, "get ": {message(file("b", 1)), data("x")}}, "", "", true},
		"larger":    {exporter{"ls ": {listing(false, file("a", 1))}, "get ": {message(file("a", 2)), data("xx")}}, "", "", true},
		"more":      {exporter{"ls ": {listing(false, file("a", 1))}, "get ": {message(file("a", 1)), data("xx")}}, "", "", true},
		"shrank":    {exporter{"ls ": {listing(false, file("a", 2))}, "get ": {message(file("a", 2)), data("x"), end}}, "", "", true},
		"gone":      {exporter{"ls ": {listing(false, file("a", 2))}, "get ": {message(&guestpb.Entry{Path: "a", Size: -1, Link: "gone"})}}, "", "a", false},
		"link":      {exporter{"ls ": {listing(false, &guestpb.Entry{Path: "a", Mode: uint32(fs.ModeSymlink | 0o777)}, &guestpb.Entry{Path: "d", Mode: uint32(fs.ModeDevice)})}}, "", "a d", false},
		"deep":      {exporter{}, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "deep" {
				d := ""
				for range 300 {
					tc.x["ls "+d] = [][]byte{listing(false, dir("d"))}
					d = strings.TrimPrefix(d+"/d", "/")
				}
				tc.skipped, tc.fails = strings.Repeat("d/", 256)+"d", false
			}
			got, skipped, err := exportFrom(t, tc.x)
			if tc.fails != (err != nil) || !tc.fails && (strings.Join(got, " ") != tc.want || strings.Join(skipped, " ") != tc.skipped) {
				t.Errorf("exported %q, skipped %q, %v", got, skipped, err)
			}
			for _, p := range got {
				if name, _, _ := strings.Cut(p, "="); !fs.ValidPath(name) {
					t.Errorf("the path %q came out", name)
				}
			}
		})
	}
}

func exportFrom(t *testing.T, x exporter) (got, skipped []string, err error) {
	t.Helper()
	a, b := net.Pipe()
	s, err := wire.NewGuest(b)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		st, err := s.AcceptStream() // the greeting
		if err != nil {
			return
		}
		answerHello(st, wire.Version)
		if st, err = s.AcceptStream(); err != nil {
			return
		}
		br := bufio.NewReader(st)
		if _, err := wire.ReadHeader(br); err == nil {
			x.stream(st, wire.NewFrameReader(br))
		}
		st.Close()
	}()
	c, err := NewClient(t.Context(), a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.Close(); s.Close(); <-done }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = c.Export(ctx, "", nil, func(f ExportFile) error {
		b, err := io.ReadAll(f.Body)
		if int64(len(b)) > f.Size {
			t.Errorf("%d bytes of %d", len(b), f.Size)
		}
		if err == nil {
			got = append(got, f.Path+"="+string(b))
		}
		return err
	}, func(p, _ string) { skipped = append(skipped, p) })
	return got, skipped, err
}

// FuzzExport feeds an export arbitrary bytes.
func FuzzExport(f *testing.F) {
	f.Add(append(listing(false, file("a", 1), dir("b")), append(message(file("a", 1)), data("x")...)...))
	f.Add(listing(false, file("../x", 1)))
	f.Add(listing(true, file("a", 1)))
	f.Add([]byte{'M', 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &framed{ctx: context.Background(), op: "export", r: wire.NewFrameReader(bytes.NewReader(b)), w: wire.NewFrameWriter(io.Discard, wire.Header{})}
		last := ""
		x := &export{s: s, keep: func(string, fs.FileMode, int64) bool { return true }, skipped: func(string, string) {}, f: func(e ExportFile) error {
			if !fs.ValidPath(e.Path) || e.Path <= last && e.Path != "" {
				t.Errorf("the path %q after %q", e.Path, last)
			}
			last = e.Path
			n, _ := io.Copy(io.Discard, e.Body)
			if n > e.Size {
				t.Errorf("%d bytes of %d", n, e.Size)
			}
			return nil
		}}
		_ = x.dir("", 0)
	})
}

func FuzzCleanRelative(f *testing.F) {
	for _, s := range []string{"a/b", "../a", "a//b", "/a", "a/", "", ".", "a/./b", "a\x00", "a\\b", "\xff", ".git/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if cleanRelative(s) && (!fs.ValidPath(s) || s == "." || strings.ContainsAny(s, "\\\x00\n")) {
			t.Errorf("%q counts as clean", s)
		}
	})
}
