package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// plainEnv names the environment variable with a test binary that was built
// without the race detector.
const plainEnv = "GLOVEBOX_TEST_BINARY"

// PlainBinary returns what drivers run as sentry and as guest: "" for the
// test binary itself, unless that has the race detector, which neither can
// live with; then it is the same test built without, once for all processes
// of a run. The directory that it is in is removed by cleanup. It must be
// called in TestMain, whose working directory is the package's.
func PlainBinary() (path string, cleanup func(), err error) {
	path = os.Getenv(plainEnv)
	if !raceEnabled || path != "" {
		return path, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "glovebox-test-")
	if err != nil {
		return "", nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // root's sandboxes execute it as nobody
		return "", nil, err
	}
	path = filepath.Join(dir, "plain.test")
	cmd := exec.Command("go", "test", "-c", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", nil, fmt.Errorf("build the test without the race detector: %w: %s", err, out)
	}
	os.Setenv(plainEnv, path)
	return path, func() { os.RemoveAll(dir) }, nil
}
