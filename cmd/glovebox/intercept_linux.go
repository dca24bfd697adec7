package main

import (
	"os"

	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/sandbox/gvisor"
)

// intercept hands the process over if it was not started as a command of a
// person: it may be gVisor's, or the guest daemon inside a sandbox.
func intercept() {
	gvisor.Intercept()
	if len(os.Args) > 1 && os.Args[1] == "guest" {
		os.Exit(guestd.Main(os.Args[2:]))
	}
}
