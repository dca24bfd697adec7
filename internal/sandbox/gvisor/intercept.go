package gvisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
)

const (
	selfExe = "/proc/self/exe"

	// argv0 is what the sentry's process is called. Anything that starts
	// with "runsc" makes our binary gVisor's command.
	argv0 = "runsc-sandbox"
)

// Intercept hands the process over to gVisor, and does not return, if it was
// executed as a part of it; otherwise it returns at once. It must come first
// in main and in TestMain, before flags are read or goroutines started.
//
// The process is gVisor's if it was executed under a name that begins with
// "runsc" (by us, by gVisor, or by someone who linked that name to our
// binary), or as /proc/self/exe with a command that gVisor gives itself.
// Neither can be confused with a command of ours: we never execute ourselves
// under these names.
//
// As the first process of a sandbox it sets the limit of processes, which
// only a process inside can set, and returns.
func Intercept() {
	if isRunsc(os.Args) {
		Main()
	}
	if os.Getpid() == 1 && os.Getenv(pidsEnv) != "" {
		limitProcesses(os.Getenv(pidsEnv))
	}
}

// isRunsc reports whether a command line is one of gVisor's.
func isRunsc(args []string) bool {
	if len(args) == 0 {
		return false
	}
	if strings.HasPrefix(filepath.Base(args[0]), "runsc") {
		return true
	}
	return args[0] == selfExe && len(args) > 1 && (args[1] == "umount" || args[1] == "boot" || args[1] == "gofer")
}

// Main is the main function of gVisor's runsc. It does not return.
func Main() {
	if os.Args[0] == probeArg0 {
		probeInside()
	}
	if os.Getenv(bootEnv) != "" {
		enterBoot()
	}
	cli.Run(nil, map[util.SubCommand]string{
		new(cmd.Create): "", new(cmd.Start): "", new(cmd.Run): "", new(cmd.Delete): "", new(cmd.Kill): "",
		new(cmd.State): "", new(cmd.Exec): "", new(cmd.Wait): "", new(cmd.Pause): "", new(cmd.Resume): "",
		new(cmd.Checkpoint): "", new(cmd.Restore): "", new(cmd.Events): "", new(cmd.List): "", new(cmd.PS): "",
		new(sentrycmd.Boot): "", new(cmd.Gofer): "", new(sentrycmd.Umount): "",
	}, nil)
	os.Exit(0)
}

// pidsEnv tells the first process of a sandbox how many processes and threads
// there may be.
const pidsEnv = "GLOVEBOX_PIDS_MAX"

// pidsMax is the file of gVisor's pids controller for the whole sandbox.
const pidsMax = "/sys/fs/cgroup/pids/pids.max"

// limitProcesses sets the limit for the whole sandbox and hides the file.
func limitProcesses(n string) {
	os.Unsetenv(pidsEnv)
	err := os.WriteFile(pidsMax, []byte(n), 0)
	if err == nil {
		err = unix.Unmount("/sys/fs/cgroup/pids", unix.MNT_DETACH)
	}
	if err != nil { // a limit that does not hold must not be claimed
		fmt.Fprintln(os.Stderr, "glovebox: limit processes:", err)
		os.Exit(1)
	}
}
