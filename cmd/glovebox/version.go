package main

import (
	"fmt"
	"runtime"
)

// versionCmd shows the version.
type versionCmd struct{}

// Run shows the version.
func (versionCmd) Run(a *app) error {
	_, err := fmt.Fprintln(a.stdout, versionLine())
	return err
}

// versionLine is what there is to say about the version.
func versionLine() string {
	return fmt.Sprintf("glovebox %s (%s, %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
