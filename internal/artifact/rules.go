package artifact

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/guest"
)

// rebuilt names directories that tools make again by themselves.
var rebuilt = map[string]string{
	"node_modules":     "packages, installed again from the lock file",
	"bower_components": "packages, installed again",
	".venv":            "a virtual environment, made again",
	"__pycache__":      "a cache",
	".cache":           "a cache",
	".parcel-cache":    "a cache",
	".turbo":           "a cache",
	".pytest_cache":    "a cache",
	".mypy_cache":      "a cache",
	".ruff_cache":      "a cache",
	".tox":             "environments, made again",
	".nox":             "environments, made again",
	".gradle":          "a cache",
	".next":            "build output, made again",
	".nuxt":            "build output, made again",
	".svelte-kit":      "build output, made again",
	".git":             "version control",
	".hg":              "version control",
	".svn":             "version control",
}

// rebuiltBeside names directories that are made again if a file beside them
// says what kind of project it is. The file's name sorts before theirs.
var rebuiltBeside = map[string][]string{
	"target": {"Cargo.toml", "pom.xml"},
}

// rebuiltHolding names directories that are made again if they hold a file.
var rebuiltHolding = map[string]string{
	"venv": "pyvenv.cfg",
	"env":  "pyvenv.cfg",
}

// ownDir is where the agent keeps its notes, at the top of a workspace. They
// are about the work, and no part of its result.
const ownDir = ".glovebox"

// kept names directories that are kept although .gitignore names them: the
// finished build is part of what was asked for.
var kept = map[string]bool{"dist": true}

// filter decides, name by name, what of a workspace is in the artifact. It is
// called by one goroutine, in the order that guest.ExportFilter describes.
type filter struct {
	ctx    context.Context
	src    Source
	dir    string
	o      Options
	skip   func(path, reason string)
	ignore ignores
	marks  map[string]bool // files that rebuiltBeside looks for
	files  int64
	bytes  int64
}

// keep is a guest.ExportFilter.
func (f *filter) keep(name string, mode fs.FileMode, size int64) bool {
	if path.Base(name) == ignoreName && mode.IsRegular() {
		f.readIgnore(parent(name))
	}
	reason := f.reason(name, mode, size)
	if reason != "" {
		f.skip(name, reason)
		return false
	}
	return true
}

func (f *filter) reason(name string, mode fs.FileMode, size int64) string {
	base := path.Base(name)
	switch {
	case name == ManifestName:
		return "the name is the manifest's"
	case name == ownDir:
		return "the agent's own notes"
	case !portable(name):
		return "the name means another file, or none, on other systems"
	case mode.IsDir():
		if r := f.rebuilt(name, base); r != "" {
			return r
		}
		if !kept[base] && f.ignore.ignored(name, true) {
			return "named in .gitignore"
		}
		return ""
	case !mode.IsRegular(): // Export says what it is
		return ""
	case strings.HasSuffix(base, ".pyc") || base == ".DS_Store":
		return "a cache"
	case f.ignore.ignored(name, false):
		return "named in .gitignore"
	case f.files >= f.o.MaxFiles:
		return "the artifact has as many files as are possible"
	case size > f.o.MaxBytes-f.bytes:
		return "the artifact would be larger than is possible"
	}
	if base == "Cargo.toml" || base == "pom.xml" {
		f.marks[name] = true
	}
	f.files++
	f.bytes += size
	return ""
}

func (f *filter) rebuilt(name, base string) string {
	if r, ok := rebuilt[base]; ok {
		return r
	}
	for _, beside := range rebuiltBeside[base] {
		if f.marks[path.Join(parent(name), beside)] {
			return "build output, made again"
		}
	}
	if inside, ok := rebuiltHolding[base]; ok {
		if _, _, err := f.src.ReadFile(f.ctx, path.Join(f.dir, name, inside), 0, 1); err == nil {
			return "a virtual environment, made again"
		}
	}
	return ""
}

// readIgnore reads the .gitignore file of a directory.
func (f *filter) readIgnore(name string) {
	if f.ignore.full() {
		return
	}
	data, _, err := f.src.ReadFile(f.ctx, path.Join(f.dir, name, ignoreName), 0, maxIgnore)
	if err == nil && len(data) > 0 {
		f.ignore.add(name, data)
	}
}

// portable reports whether a name means the same file, inside the directory
// where it is unpacked, on every system: Windows takes '\' and ':' otherwise,
// leaves off spaces and dots at the end, which makes ".. " the parent and "a."
// another file, and has devices in every directory.
func portable(name string) bool {
	if !fs.ValidPath(name) || name == "." || len(name) > 1024 {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == 0x7f || c == '\\' || c == ':' {
			return false
		}
	}
	for segment := range strings.SplitSeq(name, "/") {
		if last := segment[len(segment)-1]; last == ' ' || last == '.' || isDevice(segment) {
			return false
		}
	}
	return true
}

// devices are the names that Windows takes for devices, with any extension,
// as far as they don't end with a digit.
var devices = []string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}

// isDevice reports whether Windows takes a name for a device: "nul" and
// "Com1.txt", but not "console" or ".con".
func isDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	if slices.Contains(devices, base) {
		return true
	}
	port, ok := strings.CutPrefix(base, "COM")
	if !ok {
		port, ok = strings.CutPrefix(base, "LPT")
	}
	return ok && (len(port) == 1 && port[0] >= '0' && port[0] <= '9' || port == "¹" || port == "²" || port == "³")
}

var _ Source = (*guest.Client)(nil)
