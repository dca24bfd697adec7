// Package sandboxtest proves that a driver keeps the contract of
// [sandbox.Driver], the fake included: an upper layer that works on one that
// passes works on all.
//
// The test binary plays all parts: it is what the driver puts inside as the
// guest, and the second process that finds the sandboxes of the first. So a
// driver's TestMain is
//
//	func TestMain(m *testing.M) { suite.Main(m) }
//
// and its test is
//
//	func TestConformance(t *testing.T) { suite.Exercise(t) }
package sandboxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// Lack is something that a driver declares it does not do.
type Lack string

// What a driver may lack. What it claims in [sandbox.Info.Enforced] is
// tested in any case.
const (
	Isolation Lack = "isolation" // the host's files, environment and network are visible inside
)

// Suite is a driver under test.
type Suite struct {
	// Open returns a driver whose state is in dir. It is called any number of
	// times with the same dir, in this process and in others.
	Open func(dir string) (sandbox.Driver, error)

	// Skip returns why the driver can't be tested here, or "".
	Skip func() string

	// Lacks names what the driver does not do.
	Lacks []Lack

	// BadImage is the image of a Spec that must be refused as missing; empty
	// if the driver has no images.
	BadImage string
}

// childEnv holds a task, as JSON, in the environment of a second process.
const childEnv = "GLOVEBOX_SANDBOXTEST"

// task is what a second process is to do.
type task struct {
	Do       string // "find", "create", "snapshot", "adopt" or "pause"
	Dir      string
	ID       sandbox.ID
	To       sandbox.ID // whom it is adopted as
	Template string     // to start from, or to make
}

// Main runs the tests, or plays the guest or the second process. It does not
// return.
func (s Suite) Main(m *testing.M) {
	Guest()
	if v := os.Getenv(childEnv); v != "" {
		if err := s.child(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	_, cleanup, err := PlainBinary()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	Run(m, cleanup)
}

// Run runs the tests, checks that they leave no goroutines, calls cleanup and
// ends the process.
func Run(m *testing.M, cleanup func()) {
	code := m.Run()
	if code == 0 {
		if err := leaktest.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	cleanup()
	os.Exit(code)
}

// child does a task and says on standard output that it is done.
func (s Suite) child(v string) error {
	var k task
	if err := json.Unmarshal([]byte(v), &k); err != nil {
		return err
	}
	d, err := s.Open(k.Dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	switch k.Do {
	case "find":
		infos, err := d.List(ctx)
		if err != nil {
			return err
		}
		if len(infos) != 1 || infos[0].ID != k.ID || infos[0].State != sandbox.Running {
			return fmt.Errorf("a second process lists %+v, not the running %s", infos, k.ID)
		}
		conn, err := d.Dial(ctx, k.ID)
		if err != nil {
			return fmt.Errorf("a second process dials: %w", err)
		}
		defer conn.Close()
		r, err := ask(conn, question{Op: "echo", Path: "from the second process"})
		if err != nil || r.Text != "from the second process" {
			return fmt.Errorf("a second process got %+v, %w", r, err)
		}
	case "create":
		fmt.Println("creating")
		if err := d.Create(ctx, sandbox.Spec{ID: k.ID, Template: k.Template, Labels: map[string]string{"by": "child"}}); err != nil {
			return err
		}
	case "snapshot", "adopt", "pause":
		fmt.Println("creating")
		if err := s.more(ctx, d, k); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no such task %q", k.Do)
	}
	fmt.Println("done")
	if k.Do != "find" {
		select {} // until it is killed
	}
	return nil
}

func (s Suite) lacks(l Lack) bool {
	for _, x := range s.Lacks {
		if x == l {
			return true
		}
	}
	return false
}
