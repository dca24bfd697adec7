//go:build linux

package tool

import (
	"net"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/browser/browsertest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/sandbox/fake"
)

func TestMain(m *testing.M) {
	fake.Intercept(func(root string, l net.Listener) error {
		server, err := guestd.New(guestd.Options{Root: root})
		if err != nil {
			return err
		}
		return server.Serve(l)
	})
	leaktest.Main(browsertest.Tests{M: m})
}
