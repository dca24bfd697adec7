package artifact

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// tree is a Source of files in memory. A value of "" is an empty file; names
// in links are symbolic links.
type tree struct {
	files map[string]string
	links []string
	fail  string // the body of this file breaks
}

var mtime = time.Date(2026, 3, 4, 5, 6, 8, 0, time.UTC)

func (s *tree) ReadFile(_ context.Context, name string, offset, limit int64) ([]byte, int64, error) {
	data, ok := s.files[strings.TrimPrefix(name, "/w/")]
	if !ok {
		return nil, 0, glovebox.Errorf(glovebox.CodeNotFound, "no file %s", name)
	}
	return []byte(data)[min(offset, int64(len(data))):min(offset+limit, int64(len(data)))], int64(len(data)), nil
}

// Export shows, lists and sends in the order in which guest.Client does.
func (s *tree) Export(_ context.Context, dir string, keep guest.ExportFilter, f func(guest.ExportFile) error, skipped func(path, reason string)) error {
	return s.export("", keep, f, skipped)
}

func (s *tree) export(dir string, keep guest.ExportFilter, f func(guest.ExportFile) error, skipped func(path, reason string)) error {
	entries := map[string]fs.FileMode{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(s.files)), s.links) {
		rel, below := strings.CutPrefix(name, dir)
		if !below {
			continue
		}
		first, _, deeper := strings.Cut(rel, "/")
		switch {
		case deeper:
			entries[first+"/"] = fs.ModeDir | 0o755
		case slices.Contains(s.links, name):
			entries[first] = fs.ModeSymlink
		default:
			entries[first] = 0o644
		}
		if strings.HasSuffix(first, ".sh") {
			entries[first] = 0o775
		}
	}
	shown := map[string]bool{}
	show := func(e string) bool {
		name := dir + strings.TrimSuffix(e, "/")
		return keep(name, entries[e], int64(len(s.files[name])))
	}
	if _, has := entries[ignoreName]; has {
		shown[ignoreName] = show(ignoreName)
	}
	for _, e := range slices.Sorted(maps.Keys(entries)) {
		name := dir + strings.TrimSuffix(e, "/")
		mode := entries[e]
		if kept, seen := shown[e]; seen && !kept || !seen && !show(e) {
			continue
		}
		var err error
		switch {
		case mode.IsDir():
			err = s.export(name+"/", keep, f, skipped)
		case !mode.IsRegular():
			skipped(name, "symbolic link")
		case name == s.fail:
			err = f(guest.ExportFile{Entry: guest.Entry{Path: name, Size: 10}, Body: iotest.ErrReader(errBroken)})
		default:
			data := s.files[name]
			err = f(guest.ExportFile{Entry: guest.Entry{Path: name, Mode: mode, Size: int64(len(data)), ModTime: mtime}, Body: strings.NewReader(data)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errBroken = errors.New("broken")

func pack(t *testing.T, s Source, o Options) (*Manifest, *zip.Reader) {
	t.Helper()
	var buf bytes.Buffer
	m, err := Pack(t.Context(), s, "/w", &buf, o)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return m, z
}

func unzip(t *testing.T, z *zip.Reader) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		out[f.Name] = string(b)
	}
	return out
}

func TestPack(t *testing.T) {
	t.Parallel()
	big := make([]byte, whole+1<<20)
	rand.NewChaCha8([32]byte{1}).Read(big)
	s := &tree{files: map[string]string{
		"README.md": "# hello\n", "empty": "", "src/ä ö.txt": strings.Repeat("text ", 10_000), "run.sh": "#!/bin/sh\n",
		"big.bin": string(big), "zeros.bin": strings.Repeat("\x00", whole+1), "random": string(big[:5000]),
		"manifest/" + ManifestName: "{}", ManifestName: "the sandbox's own",
	}, links: []string{"link"}}
	m, z := pack(t, s, Options{JobID: "j", Now: mtime})
	got := unzip(t, z)
	var inZip Manifest
	if err := json.Unmarshal([]byte(got[ManifestName]), &inZip); err != nil || inZip.Job != "j" || len(inZip.Files) != len(m.Files) {
		t.Errorf("manifest: %v, %v", inZip, err)
	}
	delete(got, ManifestName)
	wantFiles := maps.Clone(s.files)
	delete(wantFiles, ManifestName)
	if !maps.Equal(got, wantFiles) {
		t.Errorf("the zip has %v", slices.Sorted(maps.Keys(got)))
	}
	for _, f := range m.Files {
		sum := sha256.Sum256([]byte(s.files[f.Path]))
		if f.SHA256 != hex.EncodeToString(sum[:]) || f.Size != int64(len(s.files[f.Path])) {
			t.Errorf("manifest of %s: %v", f.Path, f)
		}
	}
	want := []glovebox.SkippedPath{{Path: ManifestName, Reason: "the name is the manifest's"}, {Path: "link", Reason: "symbolic link"}}
	if !slices.Equal(m.Skipped, want) {
		t.Errorf("skipped: %v", m.Skipped)
	}
	names := []string{}
	for _, f := range z.File[:len(z.File)-1] {
		names = append(names, f.Name)
		if !f.Modified.Equal(mtime) || f.NonUTF8 {
			t.Errorf("%s: modified %v, not UTF-8 %v", f.Name, f.Modified, f.NonUTF8)
		}
		if want := map[bool]fs.FileMode{true: 0o755, false: 0o644}[f.Name == "run.sh"]; f.Mode() != want {
			t.Errorf("%s has mode %v", f.Name, f.Mode())
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("order: %v", names)
	}
	var again bytes.Buffer
	if _, err := Pack(t.Context(), s, "/w", &again, Options{JobID: "j", Now: mtime, Workers: 7}); err != nil {
		t.Fatal(err)
	}
	z2, err := zip.NewReader(bytes.NewReader(again.Bytes()), int64(again.Len()))
	if err != nil || len(z2.File) != len(z.File) {
		t.Fatal(err)
	}
	for i := range z.File {
		if a, b := z.File[i], z2.File[i]; a.CRC32 != b.CRC32 || a.CompressedSize64 != b.CompressedSize64 {
			t.Errorf("%s differs between two runs", a.Name)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	keepIt := []string{"src/main.js", "package.json", "dist/app.js", "target/notes.txt", "rust/Cargo.toml", "rust/src/main.rs", "env/config.yaml",
		"logs/keep.log", ".gitignore", "sub/.gitignore", "sub/x.tmp", "sub/... and more", "b/c/secret", ".env.example", "console.log.txt", ".con", "sub/.glovebox/x", "com10", "lpt", "nul_/aux-1.c", "common/comX"}
	leave := map[string]string{
		"node_modules/a/b.js": "node_modules", "sub/node_modules/x": "sub/node_modules", ".git/config": ".git", "venv/pyvenv.cfg": "venv", ".glovebox/notes/a.md": ".glovebox",
		"venv/bin/python": "venv", ".venv/x": ".venv", "rust/target/debug/x": "rust/target", "p/__pycache__/m.pyc": "p/__pycache__",
		"m.pyc": "m.pyc", "app.log": "app.log", "sub/deep/y.log": "sub/deep/y.log", "out/x": "out", "secret": "secret", ".env": ".env",
		`a\..\..\x`: `a\..\..\x`, "C:x": "C:x", ".. /.. /x": ".. ", "...": "...", "new\nline": "new\nline", "sub/only/z": "sub/only",
		"nul": "nul", "src/Con": "src/Con", "AUX.c": "AUX.c", "com1 .txt": "com1 .txt", "LPT¹": "LPT¹", "prn/x": "prn", "a.": "a.", "b ": "b ", "c./d": "c.", "conout$": "conout$",
	}
	s := &tree{files: map[string]string{}}
	for _, k := range keepIt {
		s.files[k] = "x"
	}
	for k := range leave {
		s.files[k] = "x"
	}
	s.files[".gitignore"] = "# comment\n*.log\n!keep.log\n/out/\ndist\n/secret\n.env\n*.tmp\n"
	s.files["sub/.gitignore"] = "!x.tmp\nonly/\n"
	m, z := pack(t, s, Options{})
	got := unzip(t, z)
	delete(got, ManifestName)
	slices.Sort(keepIt)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, keepIt) {
		t.Errorf("the zip has %q,\nwant %q", names, keepIt)
	}
	reasons := map[string]string{}
	for _, x := range m.Skipped {
		reasons[x.Path] = x.Reason
	}
	for _, p := range leave {
		if reasons[p] == "" {
			t.Errorf("the manifest does not say why %q is left out", p)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	s := &tree{files: map[string]string{}}
	for i := range 20 {
		s.files[fmt.Sprintf("f%02d", i)] = strings.Repeat("x", 100)
	}
	m, z := pack(t, s, Options{MaxFiles: 5})
	if len(m.Files) != 5 || len(m.Skipped) != 15 || len(z.File) != 6 {
		t.Errorf("%d files, %d skipped", len(m.Files), len(m.Skipped))
	}
	m, _ = pack(t, s, Options{MaxBytes: 950})
	if len(m.Files) != 9 || len(m.Skipped) != 11 {
		t.Errorf("%d files, %d skipped", len(m.Files), len(m.Skipped))
	}
	many := &tree{files: map[string]string{}}
	for i := range maxListed + 7 {
		many.files[fmt.Sprintf("x%05d.pyc", i)] = ""
	}
	m, _ = pack(t, many, Options{})
	if len(m.Skipped) != maxListed || m.Unlisted != 7 {
		t.Errorf("%d listed, %d not", len(m.Skipped), m.Unlisted)
	}
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errBroken
	}
	return len(b), nil
}

// Whatever fails, at whatever moment: the cause is returned and no goroutine
// is left (see TestMain).
func TestFailures(t *testing.T) {
	t.Parallel()
	s := &tree{files: map[string]string{}}
	noise := make([]byte, 2000)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for i := range 100 {
		s.files[fmt.Sprintf("f%03d", i)] = string(noise)
	}
	s.files["large"] = strings.Repeat("x", whole+1)
	for _, left := range []int{0, 1, 50, 5_000, 100_000, 200_000} {
		if _, err := Pack(t.Context(), s, "/w", &failingWriter{left}, Options{}); !errors.Is(err, errBroken) {
			t.Errorf("after %d bytes: %v", left, err)
		}
	}
	for _, name := range []string{"f000", "f050", "large"} {
		s.fail = name
		if _, err := Pack(t.Context(), s, "/w", io.Discard, Options{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Pack(ctx, s, "/w", io.Discard, Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// benchTree is 10,000 files of 120 MB together, that compress as source code does.
func benchTree() *tree {
	rng := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 3000)
	for i := range words {
		b := make([]byte, 2+rng.IntN(10))
		for j := range b {
			b[j] = byte('a' + rng.IntN(26))
		}
		words[i] = string(b)
	}
	s := &tree{files: map[string]string{}}
	for i := range 10_000 {
		var b strings.Builder
		for b.Len() < 12_000 {
			b.WriteString(words[int(rng.ExpFloat64()*300)%len(words)])
			b.WriteString([]string{" ", " ", "(", ") {\n\t", ";\n", ", ", " = "}[rng.IntN(7)])
		}
		s.files[fmt.Sprintf("src/d%03d/f%05d.js", i/100, i)] = b.String()
	}
	return s
}

// flat exports without the cost of building a listing.
type flat struct {
	*tree
	names []string
}

func (s flat) Export(_ context.Context, _ string, keep guest.ExportFilter, f func(guest.ExportFile) error, _ func(path, reason string)) error {
	for _, name := range s.names {
		data := s.files[name]
		if keep(name, 0o644, int64(len(data))) {
			if err := f(guest.ExportFile{Entry: guest.Entry{Path: name, Mode: 0o644, Size: int64(len(data)), ModTime: mtime}, Body: strings.NewReader(data)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func BenchmarkPack(b *testing.B) {
	t := benchTree()
	s := flat{t, slices.Sorted(maps.Keys(t.files))}
	var total int64
	for _, f := range t.files {
		total += int64(len(f))
	}
	run := func(b *testing.B, f func(w io.Writer) error) {
		b.Helper()
		b.SetBytes(total)
		for b.Loop() {
			c := &counter{}
			if err := f(c); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(c.n)/float64(total)*100, "%size")
		}
	}
	for _, workers := range []int{1, 0} {
		b.Run(fmt.Sprintf("Glovebox/workers=%d", workers), func(b *testing.B) {
			run(b, func(w io.Writer) error {
				_, err := Pack(b.Context(), s, "/w", w, Options{Workers: workers})
				return err
			})
		})
	}
	b.Run("ArchiveZip", func(b *testing.B) {
		run(b, func(w io.Writer) error {
			z := zip.NewWriter(w)
			for _, name := range s.names {
				f, err := z.Create(path.Clean(name))
				if err != nil {
					return err
				}
				if _, err := io.Copy(f, strings.NewReader(s.files[name])); err != nil {
					return err
				}
			}
			return z.Close()
		})
	})
}

type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}
