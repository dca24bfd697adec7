//go:build linux

package snap

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

func asIs(f func() error) error { return f() }

// world is a directory and its repository.
type world struct {
	t    testing.TB
	r    *Repo
	dir  string
	last Info
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, r: NewRepo(t.TempDir()), dir: t.TempDir()}
	t.Cleanup(func() { w.r.Close() })
	return w
}

func (w *world) write(files map[string]string) {
	w.t.Helper()
	for name, body := range files {
		p := filepath.Join(w.dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(body), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}

// take checkpoints and returns the pack.
func (w *world) take(base string) []byte {
	w.t.Helper()
	var pack bytes.Buffer
	if err := w.r.Checkpoint(w.dir, base, "a message", asIs, func(i Info) error { w.last = i; return nil }, &pack); err != nil {
		w.t.Fatal(err)
	}
	return pack.Bytes()
}

// tree describes a directory: names, kinds, contents.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			fmt.Fprintf(&b, "%s/\n", rel)
		case d.Type() == fs.ModeSymlink:
			to, _ := os.Readlink(p)
			fmt.Fprintf(&b, "%s -> %s\n", rel, to)
		default:
			body, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %v %q\n", rel, info.Mode()&0o111 != 0, body)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRoundTrip keeps what is easily lost: links, modes, empty directories,
// nested repositories, names that git refuses or sorts oddly.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(map[string]string{
		"a": "1", "a-b": "2", "a.d/x": "3", "a0": "4", ".git/HEAD": "ref", ".git/hooks/pre-commit": "#!/bin/sh\ntouch /tmp/pwned\n", "sub/.git": "gitdir: x", "sub/.GIT/y": "5",
		".git%": "6", ".git%%/z": "7", ".gitattributes": "* text=auto eol=crlf filter=evil\n", ".gitignore": "*\n", "crlf": "a\r\nb\r\n", "bin": "\x00\xff\x00",
		"\xff\xfe": "not UTF-8", "new\nline": "8", "empty": "", "big": strings.Repeat("0123456789abcdef", 1<<17),
		"node_modules/m/index.js": "no", "x/.venv/y": "no", "env/pyvenv.cfg": "no", "out/CACHEDIR.TAG": "no",
	})
	for _, err := range []error{
		os.MkdirAll(filepath.Join(w.dir, "void/void"), 0o755), os.Symlink("../../etc/passwd", filepath.Join(w.dir, "link")), os.Symlink("gone", filepath.Join(w.dir, "a.d/broken")),
		os.Chmod(filepath.Join(w.dir, "a0"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	pack := w.take("")
	commit := w.last.Commit.String()
	other := newWorld(t)
	other.write(map[string]string{"a": "something else", "void": "a file", "a.d": "a file", "junk/x": "x", "node_modules/kept": "kept", "link/x": "a directory"})
	if err := other.r.Add(bytes.NewReader(pack)); err != nil {
		t.Fatal(err)
	}
	if err := other.r.Restore(other.dir, commit, asIs); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"node_modules", "x/.venv", "env", "out"} {
		if err := os.RemoveAll(filepath.Join(w.dir, left)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(other.dir, "node_modules/kept")); err != nil {
		t.Error("what is never in a checkpoint was removed")
	}
	os.RemoveAll(filepath.Join(other.dir, "node_modules"))
	if got, want := tree(t, other.dir), tree(t, w.dir); got != want {
		t.Errorf("restored\n%s\nwant\n%s", got, want)
	}
	if other.take(commit); other.last.Commit.String() != commit {
		t.Error("what was restored differs from the commit")
	}
}

// TestRestoreLeavesAlone: what is as it should be keeps its time; what is not
// is written, whatever its time and size say.
func TestRestoreLeavesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(map[string]string{"same": "1", "d/same": "2", "other": "3", "exec": "4", "link": "5", "gone": "6"})
	w.take("")
	old := time.Unix(1_600_000_000, 0)
	for _, name := range []string{"same", "d/same", "other", "exec"} {
		if err := os.Chtimes(filepath.Join(w.dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	want := tree(t, w.dir)
	w.write(map[string]string{"other": "x"})
	for _, err := range []error{
		os.Chtimes(filepath.Join(w.dir, "other"), old, old), os.Chmod(filepath.Join(w.dir, "exec"), 0o755), os.Remove(filepath.Join(w.dir, "gone")),
		os.Remove(filepath.Join(w.dir, "link")), os.Symlink("same", filepath.Join(w.dir, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.r.Restore(w.dir, w.last.Commit.String(), asIs); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, w.dir); got != want {
		t.Errorf("restored\n%s\nwant\n%s", got, want)
	}
	for name, kept := range map[string]bool{"same": true, "d/same": true, "other": false, "exec": false, "link": false} {
		info, err := os.Lstat(filepath.Join(w.dir, name))
		if err != nil || info.ModTime().Equal(old) != kept {
			t.Errorf("%s: %v, %v", name, info.ModTime(), err)
		}
	}
}

// TestGitReadsPacks has git itself check what is written.
func TestGitReadsPacks(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	w := newWorld(t)
	repo := t.TempDir()
	git := func(in []byte, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = repo, bytes.NewReader(in)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git(nil, "init", "-q", ".")
	base := ""
	for i := range 4 {
		w.write(map[string]string{
			"file": strings.Repeat(fmt.Sprintf("line %d\n", i), i+1), fmt.Sprintf("d%d/x/.git/y", i): "z", "dir-a/b": fmt.Sprint(i), "dir/b": "const", "dir.c": "const", "bin": fmt.Sprintf("\x00%d", i),
		})
		if i == 2 {
			os.MkdirAll(filepath.Join(w.dir, "void"), 0o755)
			os.RemoveAll(filepath.Join(w.dir, "d0"))
		}
		pack := w.take(base)
		git(pack, "index-pack", "--stdin", "--strict")
		commit := w.last.Commit.String()
		if base != "" {
			var got []string
			for _, c := range w.last.Changes {
				got = append(got, strings.ReplaceAll(fmt.Sprintf("%d\t%d\t%s", c.Added, c.Deleted, c.Path), "-1", "-"))
			}
			// git names the encoded paths, of which Changes leaves out what is in .git.
			var want []string
			for line := range strings.Lines(git(nil, "diff-tree", "-r", "--numstat", "--no-renames", base, commit)) {
				if !strings.Contains(line, ".git%") {
					want = append(want, strings.TrimSpace(line))
				}
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("changes %q, git says %q", got, want)
			}
		}
		base = commit
	}
	if out := git(nil, "fsck", "--strict", "--no-dangling"); strings.Contains(out, "error") || strings.Contains(out, "missing") {
		t.Errorf("fsck: %s", out)
	}
	if n := strings.Count(git(nil, "log", "--oneline", base), "\n"); n != 4 {
		t.Errorf("%d commits", n)
	}
	if got := git(nil, "show", base+":file"); got != strings.Repeat("line 3\n", 4) {
		t.Errorf("file is %q", got)
	}
}

func TestBases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(map[string]string{"a": "1"})
	w.take("")
	first := w.last
	if !first.Whole || len(first.Changes) != 0 {
		t.Errorf("%+v", first)
	}
	if pack := w.take(first.Commit.String()); len(pack) != 0 || w.last.Commit != first.Commit || w.last.Whole {
		t.Errorf("%d bytes for nothing, %+v", len(pack), w.last)
	}
	w.write(map[string]string{"b": "2"})
	if w.take(strings.Repeat("0", 40)); !w.last.Whole {
		t.Error("built on an unknown base")
	}
	if w.take("HEAD; rm -rf /"); !w.last.Whole {
		t.Error("built on an odd base")
	}
	// A base that is not the newest: what came since is all sent.
	w.write(map[string]string{"c": "3"})
	pack := w.take(first.Commit.String())
	other := newWorld(t)
	if err := other.r.Add(bytes.NewReader(pack)); err != nil {
		t.Fatal(err)
	}
	if err := other.r.Restore(other.dir, w.last.Commit.String(), asIs); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("restored without its base: %v", err)
	}
}

// TestSameTimes changes a file without changing size or time of change, as
// far as that can be faked: a file that is touched again within the second
// must be read again.
func TestSameTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := ""
	for i := range 20 {
		w.write(map[string]string{"f": fmt.Sprintf("%02d", i)})
		w.take(base)
		if base == w.last.Commit.String() {
			t.Fatalf("change %d was missed", i)
		}
		base = w.last.Commit.String()
	}
}

func TestBadPacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(map[string]string{"a": strings.Repeat("hello ", 1000), "d/b": "x"})
	pack := w.take("")
	for name, bad := range map[string][]byte{
		"empty": nil, "not one": []byte("hello, world, this is no pack"), "cut": pack[:len(pack)-1], "cut early": pack[:40], "more": append(bytes.Clone(pack), 0),
		"many": append([]byte(packHeader), 255, 255, 255, 255),
	} {
		if err := newWorld(t).r.Add(bytes.NewReader(bad)); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range pack {
		flipped := bytes.Clone(pack)
		flipped[i] ^= 1
		if err := newWorld(t).r.Add(bytes.NewReader(flipped)); err == nil {
			t.Errorf("byte %d of %d can be flipped", i, len(pack))
		}
	}
}

// TestHostileTree makes trees that another guest could send.
func TestHostileTree(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"..", ".", "", "a/b", "/etc", "../x", ".git%", strings.Repeat("x", 300)} {
		w := newWorld(t)
		if err := w.r.open(); err != nil {
			t.Fatal(err)
		}
		blob, err := w.r.put(kindBlob, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		raw := append([]byte("100644 "+name+"\x00"), blob[:]...)
		id, err := w.r.put(kindTree, raw)
		if err != nil {
			t.Fatal(err)
		}
		commit, err := w.r.put(kindCommit, marshalCommit(id, nil, "m", time.Unix(0, 0)))
		if err != nil {
			t.Fatal(err)
		}
		err = w.r.Restore(w.dir, commit.String(), asIs)
		if name == ".git%" { // which stands for .git
			if err != nil || tree(t, w.dir) != ".git false \"x\"\n" {
				t.Errorf("%v, %q", err, tree(t, w.dir))
			}
			continue
		}
		if err == nil || tree(t, w.dir) != "" {
			t.Errorf("the name %q was restored: %v", name, err)
		}
	}
}

func FuzzAdd(f *testing.F) {
	w := newWorld(f)
	w.write(map[string]string{"a": "hello", "d/b": "x", ".git/c": "y"})
	f.Add(w.take(""))
	f.Add([]byte(packHeader + "\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewRepo(t.TempDir())
		defer r.Close()
		_ = r.Add(bytes.NewReader(b))
	})
}

func FuzzParseTree(f *testing.F) {
	f.Add(marshalTree([]entry{{modeFile, "a", OID{1}}, {modeDir, ".git", OID{2}}}))
	f.Add([]byte("100644 ../x\x0001234567890123456789"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseTree(b)
		if err != nil {
			return
		}
		for _, e := range entries {
			if !filepath.IsLocal(e.name) || strings.Contains(e.name, "/") {
				t.Errorf("the name %q", e.name)
			}
		}
	})
}

func FuzzEncodeName(f *testing.F) {
	for _, s := range []string{".git", ".git%", ".GIT%%", "a%", "%", ".gitignore"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, n string) {
		e := encodeName(n)
		if decodeName(e) != n || strings.EqualFold(e, ".git") {
			t.Errorf("%q becomes %q, and %q again", n, e, decodeName(e))
		}
	})
}

// TestCountLines compares with the definition.
func TestCountLines(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		a, b := make([]int, rnd.IntN(12)), make([]int, rnd.IntN(12))
		for _, s := range [][]int{a, b} {
			for i := range s {
				s[i] = rnd.IntN(4)
			}
		}
		d, ok := editDistance(a, b)
		if want := len(a) + len(b) - 2*common(a, b); !ok || d != want {
			t.Fatalf("%v to %v: %d, %v, want %d", a, b, d, ok, want)
		}
	}
	long := func(seed, n int) []byte {
		var s strings.Builder
		for i := range n {
			fmt.Fprintln(&s, i*seed)
		}
		return []byte(s.String())
	}
	if added, deleted := countLines(long(7, 5000), long(11, 4000)); added-deleted != -1000 || added < 0 {
		t.Errorf("+%d -%d", added, deleted)
	}
	if added, deleted := countLines([]byte("a\nb"), []byte("a\nb\n")); added != 1 || deleted != 1 {
		t.Errorf("a newline at the end: +%d -%d", added, deleted)
	}
}

// common is the length of the longest common subsequence.
func common(a, b []int) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	if a[0] == b[0] {
		return 1 + common(a[1:], b[1:])
	}
	return max(common(a[1:], b), common(a, b[1:]))
}
