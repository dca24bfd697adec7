package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ImageEnv names the environment variable with the EROFS image that tests
// make sandboxes from.
const ImageEnv = "GLOVEBOX_TEST_IMAGE"

// Image returns the EROFS image for tests of drivers that start from one:
// that in [ImageEnv], else the newest that "glovebox image build" made for
// this user. If there is none, path is empty and why says what to do.
func Image() (path, why string) {
	if path = os.Getenv(ImageEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Sprintf("the image that %s names: %v", ImageEnv, err)
		}
		return path, ""
	}
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		home, _ := os.UserHomeDir()
		data = filepath.Join(home, ".local", "share")
	}
	dir := filepath.Join(data, "glovebox", "images")
	images, _ := filepath.Glob(filepath.Join(dir, "*.erofs"))
	var newest time.Time
	for _, p := range images {
		if info, err := os.Stat(p); err == nil && info.ModTime().After(newest) {
			path, newest = p, info.ModTime()
		}
	}
	if path == "" {
		why = fmt.Sprintf("no machine image in %s: run 'glovebox image build', or name one in %s", dir, ImageEnv)
	}
	return path, why
}
