package fake

import (
	"net"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/sandboxtest"
)

var suite = sandboxtest.Suite{
	Open:  func(dir string) (sandbox.Driver, error) { return New(dir) },
	Lacks: []sandboxtest.Lack{sandboxtest.Isolation},
}

func TestMain(m *testing.M) {
	Intercept(func(_ string, l net.Listener) error { return sandboxtest.ServeProbe(l) })
	suite.Main(m)
}

func TestConformance(t *testing.T) { suite.Exercise(t) }
