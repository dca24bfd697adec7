package artifact

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Random patterns and paths are decided as git decides them. (One difference is
// known: git lets a class that is not closed run on behind the next slash.)
func TestIgnoreAsGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	repo := t.TempDir()
	if out, err := exec.Command("git", "-C", repo, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	part := rapid.SampledFrom([]string{"a", "b", "ab", "abc", "a.b", "*", "**", "?", "a*", "*b", "*.b", "a?c", "[ab]", "[!a]b", "[a-c]*", `\*`, `a\b`, "{a,b}", "]", "a]"})
	pattern := rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "segments"), "/")
		return rapid.SampledFrom([]string{"", "", "!", "/", "!/", "#", `\!`}).Draw(t, "before") + s +
			rapid.SampledFrom([]string{"", "", "/", " ", `\ `, "/**"}).Draw(t, "after")
	})
	name := rapid.SampledFrom([]string{"a", "b", "ab", "abc", "a.b", "x", "{a,b}", "*", "]", "a]"})
	rapid.Check(t, func(rt *rapid.T) {
		top := strings.Join(rapid.SliceOfN(pattern, 1, 4).Draw(rt, "patterns"), "\n") + "\n"
		sub := strings.Join(rapid.SliceOfN(pattern, 0, 3).Draw(rt, "in a/"), "\n") + "\n"
		var paths []string
		for range 12 {
			paths = append(paths, strings.Join(rapid.SliceOfN(name, 1, 4).Draw(rt, "path"), "/"))
		}
		os.MkdirAll(filepath.Join(repo, "a"), 0o755)
		os.WriteFile(filepath.Join(repo, ".gitignore"), []byte(top), 0o600)
		os.WriteFile(filepath.Join(repo, "a", ".gitignore"), []byte(sub), 0o600)
		cmd := exec.Command("git", "-C", repo, "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "--stdin", "-z")
		cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
		var out bytes.Buffer
		cmd.Stdout = &out
		_ = cmd.Run() // 1 means that none is ignored
		byGit := map[string]bool{}
		for p := range strings.SplitSeq(out.String(), "\x00") {
			byGit[p] = true
		}
		g := &ignores{}
		g.add("", []byte(top))
		if !g.ignored("a", true) { // else it would not be entered
			g.add("a", []byte(sub))
		}
		for _, p := range paths {
			got := false
			segs := strings.Split(p, "/")
			for i := range segs {
				got = got || g.ignored(strings.Join(segs[:i+1], "/"), i < len(segs)-1 || p == "a")
			}
			if got != byGit[p] {
				rt.Fatalf("%q: ignored %v, git says %v\n%q\nin a/: %q", p, got, byGit[p], top, sub)
			}
		}
	})
}

// A pattern made to take for ever does not.
func TestIgnoreIsFast(t *testing.T) {
	t.Parallel()
	g := &ignores{}
	g.add("", []byte(strings.Repeat(strings.Repeat("*a", 200)+"b\n", 500)+strings.Repeat(strings.Repeat("**/a/", 80)+"b\n", 500)))
	start := time.Now()
	g.ignored(strings.Repeat("a", 255), false)
	g.ignored(strings.Repeat("a/", 500)+"c", false)
	if took := time.Since(start); took > time.Minute { // it would take for longer than there is
		t.Errorf("took %v", took)
	}
}

func TestIgnoreBounds(t *testing.T) {
	t.Parallel()
	g := &ignores{}
	g.add("", []byte(strings.Repeat("x\n", 3*maxPatterns)))
	if !g.full() || g.count != maxPatterns {
		t.Errorf("%d patterns", g.count)
	}
	if _, ok := parsePattern(strings.Repeat("x", maxPattern+1)); ok {
		t.Error("a long pattern is taken")
	}
}
