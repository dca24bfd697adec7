//go:build !linux

package main

import "github.com/glovebox-dev/glovebox"

// On other systems than Linux the same command is a client of a server
// elsewhere.

func intercept() {}

func driverNames() []string { return nil }

func errLinux(what string) error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: what, Msg: "sandboxes need Linux",
		Hint: "run the server on a Linux machine and name it with --server URL or GLOVEBOX_URL"}
}

type (
	serveCmd  struct{}
	workerCmd struct{}
	tokenCmd  struct{}
	imageCmd  struct{}
	doctorCmd struct{}
	benchCmd  struct{}
)

// Run says that it can't.
func (serveCmd) Run() error { return errLinux("serve") }

// Run says that it can't.
func (workerCmd) Run() error { return errLinux("run a worker") }

// Run says that it can't.
func (tokenCmd) Run() error { return errLinux("manage tokens") }

// Run says that it can't.
func (imageCmd) Run() error { return errLinux("manage images") }

// Run says that it can't.
func (doctorCmd) Run() error { return errLinux("examine this machine") }

// Run says that it can't.
func (benchCmd) Run() error { return errLinux("measure") }

func (c *runCmd) startLocal(*app) (string, func(), error) {
	return "", nil, errLinux("run a job on this machine")
}
