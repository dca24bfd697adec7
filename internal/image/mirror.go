package image

import (
	"bufio"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// mirror returns the Debian archive to build from: the one asked for, else
// that of GLOVEBOX_DEBIAN_MIRROR, else the one that this host's own apt uses
// if the host runs Debian, else none, which means Debian's own.
func mirror(asked string) string {
	if asked != "" {
		return asked
	}
	if m := os.Getenv("GLOVEBOX_DEBIAN_MIRROR"); m != "" {
		return m
	}
	return hostMirror("/etc")
}

// hostMirror finds the archive in the apt configuration below etc.
func hostMirror(etc string) string {
	release, err := os.ReadFile(filepath.Join(etc, "os-release"))
	if err != nil || !strings.Contains("\n"+string(release), "\nID=debian\n") {
		return ""
	}
	paths := []string{filepath.Join(etc, "apt/sources.list")}
	for _, ext := range []string{"*.list", "*.sources"} {
		more, _ := filepath.Glob(filepath.Join(etc, "apt/sources.list.d", ext)) // the pattern is valid
		paths = append(paths, more...)
	}
	for _, p := range paths {
		if m := firstMirror(p); m != "" {
			return m
		}
	}
	return ""
}

// firstMirror returns the first URL in an apt source file that ends in
// /debian, as archives of Debian itself do and those of others do not.
func firstMirror(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		line := strings.TrimSpace(sc.Text())
		if strings.HasPrefix(line, "#") {
			continue
		}
		for word := range strings.FieldsSeq(line) {
			u, err := url.Parse(strings.TrimSuffix(word, "/"))
			if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && strings.HasSuffix(u.Path, "/debian") {
				return u.String()
			}
		}
	}
	return ""
}
