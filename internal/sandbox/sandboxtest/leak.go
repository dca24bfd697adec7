package sandboxtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// findLeaks looks for what is left of sandboxes: processes, mounts, sockets,
// cgroups and files that carry their ids, and anything that is held below
// their state directory.
func findLeaks(dir string, ids []sandbox.ID) []string {
	var leaks []string
	found := func(kind, what string) {
		for _, id := range ids {
			if strings.Contains(what, string(id)) {
				leaks = append(leaks, fmt.Sprintf("%s: %.200s", kind, what))
				return
			}
		}
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		b, _ := os.ReadFile(p + "/cmdline")
		found("process "+filepath.Base(p), strings.ReplaceAll(string(b), "\x00", " "))
	}
	for _, name := range []string{"/proc/self/mountinfo", "/proc/net/unix"} {
		b, _ := os.ReadFile(name)
		for line := range strings.Lines(string(b)) {
			found(name, line)
			if name == "/proc/self/mountinfo" && strings.Contains(line, dir+"/") {
				leaks = append(leaks, "mount: "+line)
			}
		}
	}
	for _, root := range []string{"/sys/fs/cgroup", dir} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && (d.IsDir() || root == dir) {
				found("file", path)
			}
			return nil
		})
	}
	// Open files of ours below the state directory, deleted ones too.
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, dir+"/") {
			leaks = append(leaks, "open file: "+to)
		}
	}
	return leaks
}
