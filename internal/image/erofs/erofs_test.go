package erofs

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goerofs "github.com/erofs/go-erofs"
)

func file(content string) *Node {
	return &Node{Mode: TypeFile | 0o644, UID: 1000, GID: 100, Mtime: 1234567890, Size: int64(len(content)), Data: strings.NewReader(content)}
}

func dir(children map[string]*Node) *Node { return &Node{Mode: TypeDir | 0o755, Children: children} }

func image(t *testing.T, root *Node) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, root); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWhatIsWrittenCanBeRead(t *testing.T) {
	t.Parallel()
	many := map[string]*Node{}
	for i := range 3000 { // a directory of many blocks
		many[fmt.Sprintf("a-name-that-takes-some-room-%05d", i)] = file(fmt.Sprint(i))
	}
	linked := file("twice")
	suid := file("#!/bin/sh\n")
	suid.Mode = TypeFile | 0o4755
	root := dir(map[string]*Node{
		"empty": file(""), "small": file("hello"), "block": file(strings.Repeat("x", 4096)), "large": file(strings.Repeat("0123456789", 100_000)),
		"many": dir(many), "linked": linked, "suid": suid,
		"link": {Mode: TypeSymlink | 0o777, Target: "many/" + strings.Repeat("y", 200)},
		"d":    dir(map[string]*Node{"e": dir(map[string]*Node{"f": linked, "Ünï cöde": file("u")}), "none": dir(nil)}),
	})
	b := image(t, root)
	if again := image(t, root); !bytes.Equal(b, again) {
		t.Error("the same tree gave other bytes")
	}
	fsys, err := goerofs.Open(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"empty": "", "small": "hello", "block": strings.Repeat("x", 4096), "large": strings.Repeat("0123456789", 100_000),
		"many/a-name-that-takes-some-room-02999": "2999", "linked": "twice", "d/e/f": "twice", "d/e/Ünï cöde": "u"} {
		got, err := fs.ReadFile(fsys, name)
		if err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
	if entries, err := fs.ReadDir(fsys, "many"); err != nil || len(entries) != 3000 {
		t.Errorf("many: %d entries, %v", len(entries), err)
	}
	if target, err := fs.ReadLink(fsys, "link"); err != nil || target != root.Children["link"].Target {
		t.Errorf("link: %q, %v", target, err)
	}
	st := func(name string) *goerofs.Stat {
		info, err := fs.Stat(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*goerofs.Stat)
	}
	if a, b := st("linked"), st("d/e/f"); a.Ino != b.Ino || a.Nlink != 2 || a.UID != 1000 || a.GID != 100 || a.Mtime != 1234567890 {
		t.Errorf("linked: %+v and %+v", a, b)
	}
	if m := st("suid").Mode; m&fs.ModeSetuid == 0 || m.Perm() != 0o755 {
		t.Errorf("suid: %v", m)
	}
	checkWithTools(t, b)
}

// checkWithTools asks the file system's own checker.
func checkWithTools(t *testing.T, b []byte) {
	t.Helper()
	if _, err := exec.LookPath("fsck.erofs"); err != nil {
		t.Log("fsck.erofs is not installed: apt-get install erofs-utils")
		return
	}
	path := filepath.Join(t.TempDir(), "x.erofs")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("fsck.erofs", "--extract", path).CombinedOutput(); err != nil {
		t.Errorf("fsck.erofs: %v\n%s", err, out)
	}
}

func TestWhatCantBeWritten(t *testing.T) {
	t.Parallel()
	twice := dir(nil)
	short := file("x")
	short.Size = 10
	for name, root := range map[string]*Node{
		"not a directory": file("x"), "slash": dir(map[string]*Node{"a/b": file("")}), "dots": dir(map[string]*Node{"..": dir(nil)}),
		"no name": dir(map[string]*Node{"": file("")}), "long name": dir(map[string]*Node{strings.Repeat("n", 256): file("")}),
		"device": dir(map[string]*Node{"null": {Mode: 0o020666}}), "two names": dir(map[string]*Node{"a": twice, "b": twice}),
		"no target": dir(map[string]*Node{"l": {Mode: TypeSymlink}}), "no content": dir(map[string]*Node{"f": {Mode: TypeFile, Size: 1}}),
		"short": dir(map[string]*Node{"f": short}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := Write(&bytes.Buffer{}, root); err == nil {
				t.Error("it was written")
			}
		})
	}
}
