//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/glovebox-dev/glovebox/internal/config"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/sandbox/fake"
)

func TestMain(m *testing.M) {
	fake.Intercept(func(root string, l net.Listener) error {
		s, err := guestd.New(guestd.Options{Root: root, ProxyAddr: "127.0.0.1:0"})
		if err != nil {
			return err
		}
		return s.Serve(l)
	})
	drivers["fake"] = func(c config.Config) (driver, error) {
		d, err := fake.New(c.Path("sandboxes"))
		return driver{Driver: d}, err
	}
	testscript.Main(m, map[string]func(){
		"glovebox": func() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the command line as a user does: see testdata.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			for _, v := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GLOVEBOX_MODEL", "GLOVEBOX_URL", "HTTPS_PROXY", "HTTP_PROXY"} {
				e.Setenv(v, "")
			}
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("GLOVEBOX_DATA", e.WorkDir+"/data")
			e.Setenv("GLOVEBOX_DRIVER", "fake")
			e.Setenv("GLOVEBOX_LOG_LEVEL", "error")
			e.Values[servers{}] = &[]*exec.Cmd{}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "server": startServer, "crash": killServer, "schedule": schedule, "follow": follow, "interrupt": interrupt, "envfile": envFile,
		},
	})
}

// exits runs a command that has to end with a given code: exits CODE COMMAND...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if (got == want) == neg {
		ts.Fatalf("exit code %d; want %d", got, want)
	}
}

// servers is where a script's servers are noted.
type servers struct{}

// startServer starts "glovebox serve" and sets GLOVEBOX_URL.
func startServer(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command("glovebox", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	path, err := exec.LookPath("glovebox")
	ts.Check(err)
	cmd.Path = path
	cmd.Dir = ts.MkAbs(".")
	for _, k := range []string{"PATH", "HOME", "GLOVEBOX_DATA", "GLOVEBOX_DRIVER", "GLOVEBOX_LOG_LEVEL"} {
		cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ended := false
	ts.Defer(func() {
		if !ended {
			cmd.Process.Signal(syscall.SIGTERM)
			cmd.Wait()
		}
	})
	sc := bufio.NewScanner(out)
	if !sc.Scan() {
		ended = true
		ts.Fatalf("the server does not start: %v", cmd.Wait())
	}
	_, url, ok := strings.Cut(sc.Text(), "listens on ")
	if !ok {
		ts.Fatalf("the server says %q", sc.Text())
	}
	ts.Setenv("GLOVEBOX_URL", url)
	list := ts.Value(servers{}).(*[]*exec.Cmd)
	*list = append(*list, cmd)
}

// killServer ends the newest server as a power cut would.
func killServer(ts *testscript.TestScript, _ bool, _ []string) {
	list := *ts.Value(servers{}).(*[]*exec.Cmd)
	cmd := list[len(list)-1]
	ts.Check(cmd.Process.Kill())
	cmd.Process.Wait()
}

// schedule posts a task as curl does and sets ID.
func schedule(ts *testscript.TestScript, _ bool, args []string) {
	resp, err := http.Post(ts.Getenv("GLOVEBOX_URL")+"/schedule", "text/plain", strings.NewReader(args[0]))
	ts.Check(err)
	defer resp.Body.Close()
	var v struct {
		ID string `json:"job_id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || v.ID == "" {
		ts.Fatalf("POST /schedule: %s %v", resp.Status, err)
	}
	ts.Setenv("ID", v.ID)
}

// follow waits until the job ID has an event of a type: follow TYPE TEXT
func follow(ts *testscript.TestScript, _ bool, args []string) {
	req, err := http.NewRequest("GET", fmt.Sprintf("%s/jobs/%s/events", ts.Getenv("GLOVEBOX_URL"), ts.Getenv("ID")), nil)
	ts.Check(err)
	req.Header.Set("Accept", "text/event-stream")
	client := http.Client{Timeout: 10 * time.Minute}
	resp, err := client.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if strings.Contains(sc.Text(), `"`+args[0]+`"`) && strings.Contains(sc.Text(), args[1]) {
			return
		}
	}
	ts.Fatalf("no event %s came: %v", args[0], sc.Err())
}

// interrupt runs a command, sends it SIGINT once its output has a text, and
// checks its exit code: interrupt TEXT CODE COMMAND... Its standard error is
// left in the file interrupted.
func interrupt(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath(args[2])
	ts.Check(err)
	cmd := &exec.Cmd{Path: path, Args: args[2:], Dir: ts.MkAbs(".")}
	stderr, err := os.Create(ts.MkAbs("interrupted"))
	ts.Check(err)
	defer stderr.Close()
	cmd.Stderr = stderr
	for _, k := range []string{"PATH", "HOME", "GLOVEBOX_DATA", "GLOVEBOX_DRIVER", "GLOVEBOX_LOG_LEVEL"} {
		cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
	}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	sent := false
	for sc.Scan() {
		if !sent && strings.Contains(sc.Text(), args[0]) {
			sent = true
			ts.Check(cmd.Process.Signal(os.Interrupt))
		}
	}
	err = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); !sent || strconv.Itoa(got) != args[1] {
		ts.Fatalf("interrupted %v, exit code %d (%v); want %s", sent, got, err, args[1])
	}
}

// envFile sets a variable to what a file holds: envfile NAME FILE
func envFile(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}
