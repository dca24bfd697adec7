//go:build linux

package tool

import (
	"fmt"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox/internal/browser/browsertest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
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
	code := m.Run()
	browsertest.Stop()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
