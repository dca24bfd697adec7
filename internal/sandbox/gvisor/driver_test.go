package gvisor

import (
	"fmt"
	"os"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/sandboxtest"
)

var suite = sandboxtest.Suite{
	Open: func(dir string) (sandbox.Driver, error) {
		return New(Options{StateDir: dir, DefaultImage: testImage()})
	},
	Skip: func() string {
		if _, err := os.Stat(testImage()); err != nil {
			return fmt.Sprintf("no image at %s: make one with 'glovebox image build', or name one in %s", testImage(), imageEnv)
		}
		return ""
	},
	BadImage: "/nonexistent/image.erofs",
}

func TestMain(m *testing.M) {
	Intercept()
	suite.Main(m)
}

func TestConformance(t *testing.T) { suite.Exercise(t) }

const imageEnv = "GLOVEBOX_TEST_IMAGE"

// testImage is the image that sandboxes of tests are made from.
func testImage() string { return os.Getenv(imageEnv) }
