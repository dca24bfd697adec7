package glovebox_test

import (
	"go/build"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/glovebox-dev/glovebox"

// layers is the import law: a package imports only from its own layer's
// folder and from layers above it in this list. docs/ARCHITECTURE.md draws it.
var layers = []string{
	".",
	"image",
	"internal/clip",
	"internal/leaktest",
	"internal/live",
	"internal/telemetry",
	"internal/config",
	"internal/rfb",
	"internal/guest",
	"internal/llm",
	"internal/blob",
	"internal/image",
	"internal/sandbox",
	"internal/egress",
	"internal/browser",
	"internal/memory",
	"internal/tool",
	"internal/agent",
	"internal/artifact",
	"internal/history",
	"internal/store",
	"internal/project",
	"internal/worker",
	"web",
	"internal/api",
	"client",
	"internal/tui",
	"cmd",
	"e2e",
}

// siblings are folders whose packages do not know each other: the backends of
// one contract.
var siblings = []string{"internal/llm", "internal/blob", "internal/sandbox", "internal/store"}

// apart are imports that the order of the layers would allow and the
// architecture does not.
var apart = map[string][]string{
	"internal/api":   {"internal/worker", "internal/sandbox", "internal/agent"},
	"internal/agent": {"internal/sandbox", "internal/egress", "net/http", "database/sql"},
	"client":         {"internal"},
	".":              {module},
}

func TestImportsFollowTheLayers(t *testing.T) {
	t.Parallel()
	packages := sourcePackages(t)
	if len(packages) < 10 {
		t.Fatalf("found only %v", packages)
	}
	for pkg, imports := range packages {
		from := layerOf(pkg)
		if from < 0 {
			t.Errorf("%s is in no layer: give it a place in this test and in docs/ARCHITECTURE.md", pkg)
			continue
		}
		for _, imp := range imports {
			for _, banned := range apart[layers[from]] {
				if rel := strings.TrimPrefix(imp, module+"/"); rel == banned || strings.HasPrefix(rel, banned+"/") {
					t.Errorf("%s imports %s, which it must not know", pkg, imp)
				}
			}
			rel, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			if to := layerOf(rel); to > from {
				t.Errorf("%s imports %s from a layer below it", pkg, rel)
			}
			if areSiblings(pkg, rel) {
				t.Errorf("%s imports %s: backends do not know each other", pkg, rel)
			}
		}
	}
}

// layerOf returns the index of the deepest layer that holds pkg, -1 if none.
func layerOf(pkg string) int {
	for p := pkg; ; p = path.Dir(p) {
		if i := slices.Index(layers, p); i >= 0 && (p != "." || pkg == ".") {
			return i
		}
		if p == "." {
			return -1
		}
	}
}

// areSiblings reports whether both are concrete backends below the same contract.
func areSiblings(a, b string) bool {
	for _, s := range siblings {
		if path.Dir(a) == s && path.Dir(b) == s && a != b && concrete[a] && concrete[b] {
			return true
		}
	}
	return false
}

// concrete are the backends.
var concrete = map[string]bool{
	"internal/llm/anthropic": true, "internal/llm/openai": true, "internal/llm/chat": true, "internal/llm/gemini": true, "internal/llm/replay": true,
	"internal/blob/disk": true, "internal/blob/s3": true,
	"internal/sandbox/gvisor": true, "internal/sandbox/docker": true, "internal/sandbox/firecracker": true,
	"internal/sandbox/kube": true, "internal/sandbox/nomad": true, "internal/sandbox/fake": true,
	"internal/store/sqlite": true, "internal/store/postgres": true,
}

// sourcePackages returns every package of the module, relative to its root,
// with the imports of its non-test files.
func sourcePackages(t *testing.T) map[string][]string {
	t.Helper()
	packages := map[string][]string{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		if name := d.Name(); p != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "out" || name == "bin") {
			return filepath.SkipDir
		}
		pkg, err := build.ImportDir(p, 0)
		if err == nil {
			packages[filepath.ToSlash(p)] = pkg.Imports
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}
