//go:build linux

package browser

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox/internal/browser/browsertest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	browsertest.Stop()
	if code == 0 {
		err := goleak.Find()
		for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); {
			err = goleak.Find() // a busy machine takes its time to end what ends
		}
		if err != nil {
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
