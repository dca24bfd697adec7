//go:build !linux

// Package guestd is the daemon inside a sandbox. Sandboxes run Linux; on other
// systems only its Main is there, to say so.
package guestd

import (
	"fmt"
	"os"
	"runtime"
)

// Main reports that this system can't be a sandbox.
func Main([]string) int {
	fmt.Fprintf(os.Stderr, "glovebox guest: the guest daemon runs on Linux, not on %s\n", runtime.GOOS)
	return 1
}
