package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/image/erofs"
)

// testRegistry starts a registry in this process and returns its address.
func testRegistry(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// testStore returns a store with a small image under the digest.
func testStore(t *testing.T, digest string) Store {
	t.Helper()
	s := Store{Dir: t.TempDir()}
	f := func(content string) *erofs.Node {
		return &erofs.Node{Mode: erofs.TypeFile | 0o644, UID: 1000, Size: int64(len(content)), Data: strings.NewReader(content)}
	}
	d := func(children map[string]*erofs.Node) *erofs.Node {
		return &erofs.Node{Mode: erofs.TypeDir | 0o755, Children: children}
	}
	perl := f("perl")
	root := d(map[string]*erofs.Node{
		"bin": {Mode: erofs.TypeSymlink | 0o777, Target: "usr/bin"},
		"usr": d(map[string]*erofs.Node{
			"bin": d(map[string]*erofs.Node{"perl": perl, "perl5": perl}), "lib": d(map[string]*erofs.Node{"libc": f(strings.Repeat("c", 10_000))}),
			"share": d(map[string]*erofs.Node{"empty": d(nil)}),
		}),
		"tmp": {Mode: erofs.TypeDir | 0o1777, Children: map[string]*erofs.Node{}},
	})
	out, err := os.Create(s.Path(digest))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := erofs.Write(out, root); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPushAndPull(t *testing.T) {
	t.Parallel()
	digest := Digest()
	from, ref := testStore(t, digest), testRegistry(t)+"/glovebox/machine:v1"
	pushed, err := from.Push(t.Context(), digest, ref)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := from.Push(t.Context(), digest, ref); err != nil || again != pushed {
		t.Errorf("pushed again: %s, %v; want %s", again, err, pushed)
	}
	to := Store{Dir: filepath.Join(t.TempDir(), "images")}
	img, err := to.Pull(t.Context(), pushed, PullOptions{})
	if err != nil || img.Digest != digest || !img.Current {
		t.Fatalf("pulled %+v, %v", img, err)
	}
	want, _ := os.ReadFile(from.Path(digest))
	got, _ := os.ReadFile(img.Path)
	if !bytes.Equal(got, want) {
		t.Errorf("what was pulled has %d bytes, unlike the %d that were pushed", len(got), len(want))
	}
	for _, dir := range []string{from.Dir, to.Dir} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				t.Errorf("%s was left behind", e.Name())
			}
		}
	}
}

func TestExportIsReadByDocker(t *testing.T) {
	t.Parallel()
	s := testStore(t, "0123456789abcdef")
	var b bytes.Buffer
	if err := s.Export(t.Context(), "0123456789abcdef", "glovebox-machine:latest", &b); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("glovebox-machine:latest")
	if err != nil {
		t.Fatal(err)
	}
	img, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, &tag)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != len(parts)+1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
}

func TestPullRefusals(t *testing.T) {
	t.Parallel()
	host := testRegistry(t)
	s := Store{Dir: t.TempDir()}
	if _, err := s.Pull(t.Context(), "not a name", PullOptions{}); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("a name that is none: %v", err)
	}
	if _, err := s.Pull(t.Context(), host+"/none:v1", PullOptions{}); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("an image that is not there: %v", err)
	}
	r, _ := name.ParseReference(host + "/other:v1")
	cfg, _ := empty.Image.ConfigFile()
	cfg.OS, cfg.Architecture = "linux", "s390x"
	img, err := mutate.ConfigFile(empty.Image, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(r, img); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pull(t.Context(), r.Name(), PullOptions{}); glovebox.CodeOf(err) != glovebox.CodeInvalid || !strings.Contains(err.Error(), "s390x") {
		t.Errorf("an image for another machine: %v", err)
	}
}

// layer returns a layer with the entries.
func layer(t *testing.T, entries ...tar.Header) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := h.PAXRecords["content"]
		h.PAXRecords, h.Size = nil, int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return static.NewLayer(b.Bytes(), types.OCIUncompressedLayer)
}

func fileEntry(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, PAXRecords: map[string]string{"content": content}}
}
func dirEntry(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}
func linkEntry(kind byte, name, target string) tar.Header {
	return tar.Header{Typeflag: kind, Name: name, Linkname: target, Mode: 0o777}
}

// flat returns the tree of layers as paths with their content, or "-> target".
func flat(t *testing.T, layers ...v1.Layer) (map[string]string, error) {
	t.Helper()
	spool, err := os.Create(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { spool.Close() })
	root, err := flatten(layers, spool)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	var walk func(n *erofs.Node, path string)
	walk = func(n *erofs.Node, path string) {
		for name, c := range n.Children {
			p := path + name
			switch c.Mode & erofs.TypeMask {
			case erofs.TypeDir:
				out[p+"/"] = ""
				walk(c, p+"/")
			case erofs.TypeSymlink:
				out[p] = "-> " + c.Target
			default:
				b, err := io.ReadAll(io.NewSectionReader(c.Data, 0, c.Size))
				if err != nil {
					t.Fatal(err)
				}
				out[p] = string(b)
			}
		}
	}
	walk(root, "")
	return out, nil
}

func TestLayersLieOverEachOther(t *testing.T) {
	t.Parallel()
	base := layer(t, dirEntry("d/"), fileEntry("d/old", "1"), fileEntry("d/gone", "2"), dirEntry("d/sub"), fileEntry("d/sub/x", "3"),
		fileEntry("e", "4"), linkEntry(tar.TypeSymlink, "bin", "usr/bin"), dirEntry("usr/bin"))
	for _, tt := range []struct {
		name string
		top  []tar.Header
		want map[string]string // beside what is below; "" with a name that has no slash means: not there
	}{
		{"whiteout", []tar.Header{fileEntry("d/.wh.gone", ""), fileEntry(".wh.e", "")}, map[string]string{"d/old": "1", "d/gone": "", "e": "", "d/sub/x": "3"}},
		{"whiteout of a directory", []tar.Header{fileEntry(".wh.d", "")}, map[string]string{"d/old": "", "d/sub/x": "", "e": "4"}},
		{"opaque, first", []tar.Header{fileEntry("d/.wh..wh..opq", ""), fileEntry("d/new", "9")}, map[string]string{"d/old": "", "d/sub/x": "", "d/new": "9"}},
		{"opaque, last", []tar.Header{fileEntry("d/new", "9"), fileEntry("d/sub/y", "8"), fileEntry("d/.wh..wh..opq", "")}, map[string]string{"d/old": "", "d/sub/x": "", "d/sub/y": "8", "d/new": "9"}},
		{"file for a directory", []tar.Header{fileEntry("d", "now a file")}, map[string]string{"d": "now a file", "d/old": ""}},
		{"directory for a file", []tar.Header{dirEntry("e"), fileEntry("e/f", "5")}, map[string]string{"e": "", "e/f": "5"}},
		{"directory again", []tar.Header{dirEntry("d")}, map[string]string{"d/old": "1"}},
		{"hard link to a lower layer", []tar.Header{linkEntry(tar.TypeLink, "d/l", "e")}, map[string]string{"d/l": "4", "e": "4"}},
		{"through a link", []tar.Header{fileEntry("bin/sh", "6")}, map[string]string{"usr/bin/sh": "6", "bin": "-> usr/bin"}},
		{"link out of the root stays inside", []tar.Header{linkEntry(tar.TypeSymlink, "out", "../../../d"), fileEntry("out/x", "7")}, map[string]string{"d/x": "7"}},
		{"devices and pipes are dropped", []tar.Header{{Typeflag: tar.TypeChar, Name: "null"}, {Typeflag: tar.TypeBlock, Name: "sda"}, {Typeflag: tar.TypeFifo, Name: "p"}}, map[string]string{"null": "", "sda": "", "p": "", "e": "4"}},
		{"no directories named", []tar.Header{fileEntry("a/b/c", "8")}, map[string]string{"a/b/c": "8"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := flat(t, base, layer(t, tt.top...))
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range tt.want {
				if got[name] != want {
					t.Errorf("%s is %q, want %q", name, got[name], want)
				}
			}
		})
	}
}

func TestHostileLayers(t *testing.T) {
	t.Parallel()
	loop := []tar.Header{linkEntry(tar.TypeSymlink, "a", "b"), linkEntry(tar.TypeSymlink, "b", "a"), fileEntry("a/x", "")}
	for name, entries := range map[string][]tar.Header{
		"climbing": {fileEntry("../etc/passwd", "x")}, "climbing inside": {fileEntry("a/../../b", "x")},
		"hard link out": {linkEntry(tar.TypeLink, "l", "../../etc/shadow")}, "hard link to nothing": {linkEntry(tar.TypeLink, "l", "/etc/shadow")},
		"hard link to a directory": {dirEntry("d"), linkEntry(tar.TypeLink, "l", "d")},
		"links in a circle":        loop, "root as a file": {fileEntry(".", "x")}, "no target": {linkEntry(tar.TypeSymlink, "l", "")},
		"long name": {fileEntry(strings.Repeat("n", 300), "x")}, "long path": {fileEntry(strings.Repeat("n/", 3000)+"x", "x")},
		"deep": {fileEntry(strings.Repeat("n/", 1500)+"x", "x")}, "no owner": {{Typeflag: tar.TypeDir, Name: "d", Uid: 1 << 33}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := flat(t, layer(t, entries...)); err == nil {
				t.Errorf("it was taken: %.300q", got)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		f := newFlattener(nil)
		f.maxSize = 100
		if _, err := f.spooled(strings.NewReader(""), 101); err == nil {
			t.Error("it was taken")
		}
	})
	t.Run("not a tar file", func(t *testing.T) {
		t.Parallel()
		if _, err := flat(t, static.NewLayer(bytes.Repeat([]byte("junk"), 1000), types.OCIUncompressedLayer)); err == nil {
			t.Error("it was taken")
		}
	})
	t.Run("too many", func(t *testing.T) {
		t.Parallel()
		if _, err := flat(t, make([]v1.Layer, maxLayers+1)...); err == nil {
			t.Error("they were taken")
		}
	})
}

func TestExportStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := testStore(t, "0123456789abcdef").Export(ctx, "0123456789abcdef", "x:v1", io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
