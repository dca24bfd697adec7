package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func TestBuildForReal(t *testing.T) {
	dir := os.Getenv("GLOVEBOX_TEST_BUILD_IMAGE")
	if dir == "" {
		t.Skip("GLOVEBOX_TEST_BUILD_IMAGE is not set: no image is built")
	}
	img, err := Store{Dir: dir}.Build(t.Context(), BuildOptions{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Store{Dir: dir}.Build(t.Context(), BuildOptions{})
	if err != nil || again != img {
		t.Fatalf("second build: %+v, %v; want the first one's %+v", again, err, img)
	}
}

func TestCurrentNamesTheCommand(t *testing.T) {
	t.Parallel()
	_, err := Store{Dir: t.TempDir()}.Current()
	if glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "glovebox image build") {
		t.Fatalf("got %v; want CodeUnavailable that names the command", err)
	}
}

func TestLockWaitsAndGivesUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	waited := 0
	waits := func() { waited++ }
	unlock, err := lock(t.Context(), path, waits)
	if err != nil || waited != 0 {
		t.Fatalf("first lock: %v, said %d times that it waits; want 0", err, waited)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ctx, path, waits); !errors.Is(err, context.Canceled) || waited != 1 {
		t.Fatalf("second lock: %v, said %d times that it waits; want context.Canceled, 1", err, waited)
	}
	unlock()
	unlock, err = lock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestTempEnvKeepsOutOfMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	set := func(v string) func(string) string { return func(string) string { return v } }
	if got := tempEnv(set(""), dir); len(got) != 1 || got[0] != "TMPDIR="+dir {
		t.Errorf("without TMPDIR: %q; want %q", got, "TMPDIR="+dir)
	}
	if got := tempEnv(set("/elsewhere"), dir); got != nil {
		t.Errorf("with TMPDIR: %q; want it as it is", got)
	}
	if got := tempEnv(set(""), filepath.Join(dir, "missing")); got != nil {
		t.Errorf("where the directory is missing: %q; want none", got)
	}
}

func TestPackagesAreNames(t *testing.T) {
	t.Parallel()
	names := packages()
	if len(names) < 10 {
		t.Fatalf("only %d packages: %v", len(names), names)
	}
	for _, n := range names {
		if strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789+.-") != "" {
			t.Errorf("%q is not the name of a Debian package", n)
		}
	}
}

func TestHostMirror(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, release, file, sources, want string
	}{
		{"one-line style", "ID=debian\n", "sources.list", "# deb http://old.example/debian x\ndeb [arch=amd64] https://mirror.example/pub/debian/ bookworm main\n", "https://mirror.example/pub/debian"},
		{"deb822", "NAME=x\nID=debian\n", "sources.list.d/debian.sources", "Types: deb\nURIs: http://mirror.example/debian\nSuites: trixie\n", "http://mirror.example/debian"},
		{"another vendor's archive", "ID=debian\n", "sources.list", "deb https://apt.example/debian-security x main\n", ""},
		{"Ubuntu", "ID=ubuntu\n", "sources.list", "deb http://mirror.example/debian x main\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			etc := t.TempDir()
			write := func(path, s string) {
				path = filepath.Join(etc, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("os-release", tt.release)
			write(filepath.Join("apt", tt.file), tt.sources)
			if got := hostMirror(etc); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
