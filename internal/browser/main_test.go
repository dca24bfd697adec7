//go:build linux

package browser

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox/internal/browser/browsertest"
)

func TestMain(m *testing.M) {
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

// realBrowser connects to a Chromium of this host.
func realBrowser(t *testing.T) *Browser {
	t.Helper()
	b, err := Connect(t.Context(), browsertest.Dialer(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}
