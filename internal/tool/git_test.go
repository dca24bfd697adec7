//go:build linux

package tool

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGitDiff applies what git itself says of a change of every kind.
func TestGitDiff(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	before := map[string]string{
		"keep.txt": "same\n", "edit.txt": strings.Repeat("line\n", 20) + "middle\n" + strings.Repeat("end\n", 20), "gone.txt": "bye\n",
		"old name.txt": "a\nb\nc\nd\ne\nf\n", "crlf.txt": "a\r\nb\r\n", "eof.txt": "no newline", "ünï.txt": "x\n", "empty.txt": "",
	}
	after := map[string]string{
		"keep.txt": "same\n", "edit.txt": strings.Repeat("line\n", 20) + "MIDDLE\n" + strings.Repeat("end\n", 20) + "more\n",
		"dir/new name.txt": "a\nb\nc\nD\ne\nf\n", "crlf.txt": "a\r\nB\r\n", "eof.txt": "a newline\n", "ünï.txt": "y\n", "run.sh": "#!/bin/sh\n",
	}
	repo := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.autocrlf=false", "-c", "diff.renames=true"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	fill := func(files map[string]string) {
		for name, content := range files {
			p := filepath.Join(repo, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	git("init", "-q")
	fill(before)
	git("add", "-A")
	git("commit", "-q", "-m", "before")
	git("rm", "-q", "-r", ".")
	fill(after)
	if err := os.Chmod(filepath.Join(repo, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	patch := git("diff", "--cached")

	b := newBox(t)
	for name, content := range before {
		b.write(name, content)
	}
	b.good([]string{"R old name.txt -> dir/new name.txt (+1 -1)", "A run.sh", "D gone.txt", "D empty.txt"}, "apply_patch", "patch", patch)
	for name, content := range after {
		if got := b.read(name); got != content {
			t.Errorf("%s is %q, want %q", name, got, content)
		}
	}
	for _, name := range []string{"gone.txt", "old name.txt", "empty.txt"} {
		if b.exists(name) {
			t.Errorf("%s is still there", name)
		}
	}
	if s, err := os.Stat(filepath.Join(b.dir, "run.sh")); err != nil || s.Mode().Perm() != 0o755 {
		t.Errorf("run.sh: %v, %v", s, err)
	}
}
