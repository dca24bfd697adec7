// Command glovebox runs background coding agents in sealed machines: as a
// server, for one task in the terminal, and as a client of a server
// elsewhere.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/glovebox-dev/glovebox"
)

// version is set when the binary is linked.
var version = "unknown"

func main() {
	intercept() // first: this process may be a part of a sandbox
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// app is what a command has of the world outside.
type app struct {
	stdin  *os.File
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
}

// cli is the command line. Each command is in a file of its own.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Serve the HTTP API and run jobs."`
	Worker  workerCmd  `cmd:"" help:"Run jobs of a data directory, without the API."`
	Run     runCmd     `cmd:"" help:"Run one task here, live, and leave the project in a directory."`
	Jobs    jobsCmd    `cmd:"" help:"See and steer the jobs of a server."`
	Memory  memoryCmd  `cmd:"" help:"See what the model of a job has before it."`
	Bench   benchCmd   `cmd:"" help:"Measure parts of Glovebox on this machine."`
	Project projectCmd `cmd:"" help:"See and edit what the jobs of a project noted for the next ones."`
	Token   tokenCmd   `cmd:"" help:"Make and remove access tokens."`
	Image   imageCmd   `cmd:"" help:"Build, list and publish images of the machine in which jobs run."`
	Doctor  doctorCmd  `cmd:"" help:"Say what this machine can do, what is missing, and how to get it."`
	Config  configCmd  `cmd:"" help:"Show every setting with its value and meaning."`
	Version versionCmd `cmd:"" help:"Show the version."`

	ShowVersion kong.VersionFlag `name:"version" help:"Show the version."`
}

// run parses a command line, runs its command and returns the exit code.
func run(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, getenv: os.Getenv}
	var c cli
	exit := -1
	parser, err := kong.New(&c, kong.Name("glovebox"), kong.Writers(stdout, stderr), kong.UsageOnError(), kong.Vars{"version": versionLine()},
		kong.Description("A sealed machine for coding agents: a task goes in, a finished project comes out."),
		kong.Exit(func(code int) { exit = code }), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		fmt.Fprintln(stderr, "glovebox:", err) // a mistake in the structs above
		return 1
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(args)
	if exit >= 0 { // --help, --version
		return exit
	}
	if err != nil {
		fmt.Fprintf(stderr, "glovebox: %v\nSee %s --help\n", err, commandOf(err))
		return exitUsage
	}
	return a.report(ctx.Run(a))
}

// commandOf returns the command, as far as there is one, that a line which
// can't be parsed names.
func commandOf(err error) string {
	name := "glovebox"
	if e, ok := errors.AsType[*kong.ParseError](err); ok && e.Context != nil {
		if n := e.Context.Selected(); n != nil {
			name = n.FullPath()
		}
	}
	return name
}

// The exit codes, beside 0. Scripts rely on them.
const (
	exitFailed      = 1 // the job failed, or something else did
	exitUsage       = 2 // the input is wrong
	exitDenied      = 3 // no token, or not one that allows it
	exitNotFound    = 4
	exitConflict    = 5
	exitUnavailable = 6 // it may work later
	exitInterrupted = 130
)

var exitCodes = map[glovebox.Code]int{
	glovebox.CodeInvalid: exitUsage, glovebox.CodeTooLarge: exitUsage,
	glovebox.CodeUnauthorized: exitDenied, glovebox.CodeForbidden: exitDenied,
	glovebox.CodeNotFound: exitNotFound, glovebox.CodeConflict: exitConflict, glovebox.CodeUnavailable: exitUnavailable,
}

// exitError ends the program with a code and no further word.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// report tells how a command ended and returns the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[exitError](err); ok {
		return int(e)
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	fmt.Fprintln(a.stderr, "glovebox:", plain(err.Error()))
	if code, ok := exitCodes[glovebox.CodeOf(err)]; ok {
		return code
	}
	return exitFailed
}

// interruptible returns a context that ends with the first signal to end; the
// second one ends the process.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
			return
		}
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}
