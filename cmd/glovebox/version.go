package main

import (
	"fmt"
	"runtime"
)

// versionCmd shows the version.
type versionCmd struct{}

// Run shows the version.
func (versionCmd) Run(a *app) error {
	_, err := fmt.Fprintf(a.stdout, "glovebox %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
