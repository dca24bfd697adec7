//go:build linux

package browser

import (
	"testing"

	"github.com/glovebox-dev/glovebox/internal/browser/browsertest"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(browsertest.Tests{M: m}) }

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
