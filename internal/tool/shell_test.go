//go:build linux

package tool

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

func TestShell(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.good([]string{"hello\n[exit 0 after "}, "shell", "command", "echo hello")
	b.env.Output = func(s string) { // two pipes have no order of their own
		if strings.Contains(s, "out") {
			b.write("seen", "")
		}
	}
	b.good([]string{"out\nerr\n[exit 0"}, "shell", "command", "echo out; until [ -e seen ]; do sleep 0.01; done; echo err >&2")
	b.env.Output = nil
	b.bad([]string{"[exit 3 after "}, "shell", "command", "exit 3")
	b.good([]string{"(no output)\n[exit 0"}, "shell", "command", "true")
	b.bad([]string{"command not found", "[exit 127"}, "shell", "command", "no-such-command")
	b.good([]string{"red\n"}, "shell", "command", `printf '\033[31mred\033[0m\n'`)
	b.good([]string{"100%\ndone\n[exit 0"}, "shell", "command", `printf '10%%\r50%%\r100%%\ndone\n'`)
	b.good([]string{"a\nb\n[exit 0"}, "shell", "command", "cat <<X\na\nb\nX")
	b.good([]string{"(binary output, not shown: binary data of unknown type, 256 bytes, sha256 ", `kept under handle "jobs/x/out-1"`}, "shell", "command", "head -c 256 /dev/zero")
	b.bad([]string{"[ended by SIGKILL after ", "it was out of memory", "of the sandbox's 1024 MiB"}, "shell", "command", "kill -9 $$")
	b.bad([]string{"NUL byte"}, "shell", "command", "a\x00b")

	// Every command is a shell of its own.
	b.good([]string{"[cd does not last"}, "shell", "command", "cd /tmp")
	b.good([]string{"x=.\n"}, "shell", "command", "echo x=$x.")
	b.write("sub/f.txt", "inside\n")
	b.good([]string{"inside\n"}, "shell", "command", "cat f.txt", "cwd", "sub")
	b.good([]string{"inside\n"}, "shell", "command", "cat f.txt", "cwd", "/workspace/sub")
	b.bad([]string{`"cwd": There is no /workspace/sbu. Did you mean /workspace/sub?`}, "shell", "command", "ls", "cwd", "sbu")
	b.bad([]string{`"cwd": /workspace/sub/f.txt is a file, not a directory`}, "shell", "command", "ls", "cwd", "sub/f.txt")
}

func TestShellLargeOutput(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.call("shell", "command", "seq 100000")
	text := textOf(r)
	if len(text) > OutputBound || !strings.HasPrefix(text, "1\n2\n") || !strings.Contains(text, "100000\n[exit 0") || r.Blob == "" {
		t.Errorf("%d bytes, blob %q:\n%s", len(text), r.Blob, clip.Short(text, 300))
	}
	if got := len(splitLines(string(b.kept[r.Blob]))); got != 100000 {
		t.Errorf("%d lines were kept", got)
	}
	if !strings.Contains(text, "read_output with handle \""+r.Blob) {
		t.Error("the handle is not named")
	}
	b.good([]string{"50000\t50000"}, "read_output", "handle", r.Blob, "start_line", 50000, "end_line", 50000)
	if live := b.live.String(); !strings.HasPrefix(live, "1\n2\n3\n") {
		t.Errorf("shown live: %q", clip.Short(live, 100))
	}
}

// TestShellOutputNotKept: where not all of an output was kept, the result says
// how much was not, beside the handle under which there is the rest.
func TestShellOutputNotKept(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	const written = captureBound * 2
	r := b.call("shell", "command", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", written))
	m := regexp.MustCompile(`\[exit 0 after [^;]+; (\d+) bytes in the middle of the output were not kept`).FindStringSubmatch(textOf(r))
	if m == nil {
		t.Fatalf("the end of the result: %q", clip.Tail(textOf(r), 200))
	}
	kept := strings.Count(string(b.kept[r.Blob]), "x")
	if lost, err := strconv.Atoi(m[1]); err != nil || kept == 0 || kept+lost != written {
		t.Errorf("%d bytes were written, %d are kept, %s are said not to be", written, kept, m[1])
	}
}

var shellID = regexp.MustCompile(`\b(?:sh|tty)-[0-9a-z]{5}\b`)

func idIn(t *testing.T, text string) string {
	t.Helper()
	id := shellID.FindString(text)
	if id == "" {
		t.Fatalf("no id in\n%s", text)
	}
	return id
}

// await waits until a command has written what a pattern matches.
func (b *box) await(id, until string) {
	b.t.Helper()
	b.good([]string{"until was found"}, "shell_output", "id", id, "wait_s", 240, "until", until)
}

func sinceIn(t *testing.T, text string) string {
	t.Helper()
	m := regexp.MustCompile(`go on with since=(\d+)`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no offset in\n%s", text)
	}
	return m[1]
}

func TestShellTimeout(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	text := b.good([]string{"[still running after ", "in the background as sh-"}, "shell", "command", "echo started; sleep 600", "timeout_s", 1)
	id := idIn(t, text)
	b.await(id, "started")
	b.good([]string{"other\n"}, "shell", "command", "echo other") // it blocks nothing
	b.good([]string{"started\n[" + id + " is running; shown from byte 0, go on with since=8]"}, "shell_output", "id", id)

	// Another worker, after this one was lost, finds it.
	b.connect()
	b.good([]string{"started"}, "shell_output", "id", id)
	b.bad([]string{"There is no command \"sh-zzzzz\"", "Running:\n- " + id + ": echo started; sleep 600"}, "shell_output", "id", "sh-zzzzz")
	b.bad([]string{"is not the id of a command"}, "shell_output", "id", "install-abcde")
	b.good([]string{"[" + id + " ended on SIGINT]"}, "shell_stop", "id", id)
	b.good([]string{"had ended already: ended by SIGINT"}, "shell_stop", "id", id)
	b.bad([]string{"has ended (ended by SIGINT", "takes no input"}, "shell_input", "id", id, "text", "x")
}

func TestShellStopStubborn(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env.patience = patience{}
	id := idIn(t, b.good(nil, "shell", "command", `trap '' INT TERM; echo ready; while :; do sleep 0.1; done`, "background", true))
	b.await(id, "ready")
	b.good([]string{"ended on SIGKILL]"}, "shell_stop", "id", id)
}

func TestShellInput(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	text := b.good([]string{"name?\n", "it seems to wait for input, in the background as sh-"}, "shell", "command", `printf 'name? '; read n; echo "hello $n"; printf 'age? '; read a; echo "$a years"`)
	id := idIn(t, text)
	text = b.good([]string{"hello Ada\nage?", id + " seems to wait for input"}, "shell_input", "id", id, "text", "Ada", "enter", true, "wait_s", 120)
	b.good([]string{"36 years", id + " has ended: exit 0"}, "shell_input", "id", id, "text", "36", "enter", true, "wait_s", 120)
	b.good([]string{"36 years\n["}, "shell_output", "id", id, "since", jsonInt(sinceIn(t, text)))

	id = idIn(t, b.good([]string{"seems to wait for input"}, "shell", "command", "cat"))
	b.bad([]string{"There is nothing to send"}, "shell_input", "id", id)
	b.bad([]string{"has no terminal, so up means nothing"}, "shell_input", "id", id, "key", "up")
	b.good([]string{"last\n[" + id + " has ended: exit 0"}, "shell_input", "id", id, "text", "last", "enter", true, "key", "ctrl-d", "wait_s", 120)

	id = idIn(t, b.good([]string{"ready"}, "shell", "command", "echo ready; cat"))
	b.good([]string{id + " has ended: ended by SIGINT"}, "shell_input", "id", id, "key", "ctrl-c", "wait_s", 120)
}

func jsonInt(s string) int {
	n := 0
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}

func TestShellTerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	text := b.good([]string{"terminal\n", "it seems to wait for input, in the background as tty-"}, "shell", "command", `[ -t 0 ] && echo terminal; cat`, "tty", true)
	id := idIn(t, text)
	b.good([]string{"hi\nhi\n"}, "shell_input", "id", id, "text", "hi", "enter", true, "wait_s", 120)
	b.good([]string{id + " has ended: "}, "shell_input", "id", id, "key", "ctrl-c", "wait_s", 120)
}

func TestShellBackground(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	text := b.good(nil, "shell", "command", "echo starting; until [ -e go ]; do sleep 0.1; done; echo 'listening on 80'; sleep 600", "background", true)
	id := idIn(t, text)
	b.write("go", "")
	b.good([]string{"listening on 80", id + " is running, and until was found"}, "shell_output", "id", id, "wait_s", 600, "until", "^listening|error")
	b.bad([]string{`"until": error parsing regexp`}, "shell_output", "id", id, "until", "(")
	b.bad([]string{`"since": 999 is past the end; ` + id + ` has written 25 bytes so far`}, "shell_output", "id", id, "since", 999)
	b.good([]string{"ended on SIG"}, "shell_stop", "id", id)
	b.env.patience.background = time.Minute
	b.bad([]string{"no such thing", "[exit 2 after"}, "shell", "command", "echo no such thing; exit 2", "background", true)
}

// TestShellOrphan: a process that outlives its shell and holds its output
// open does not keep the call waiting, which has less time than that process.
func TestShellOrphan(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.good([]string{"done\n"}, "shell", "command", "sleep 1000 & echo done")
}

func TestShellYields(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	seen := make(chan struct{}, 1)
	b.env.Output = func(string) {
		select {
		case seen <- struct{}{}:
		default:
		}
	}
	go func() {
		<-seen
		cancel(ErrYield)
	}()
	r, err := b.try(ctx, "shell", "command", "echo begun; sleep 600")
	if err != nil || !strings.Contains(textOf(r), "begun\n[interrupted by a message of the user; it still runs, in the background as sh-") {
		t.Fatalf("got %q, %v", textOf(r), err)
	}
	id := idIn(t, textOf(r))
	b.good([]string{"ended on SIGINT"}, "shell_stop", "id", id)

	// With any other cause the outcome is unknown.
	ctx2, cancel2 := context.WithCancelCause(t.Context())
	cause := errors.New("the job was cancelled")
	go func() {
		<-seen
		cancel2(cause)
	}()
	if _, err := b.try(ctx2, "shell", "command", "echo begun; sleep 600"); !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause", err)
	}
}

func TestShellGuestGone(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	seen := make(chan struct{}, 1)
	b.env.Output = func(string) {
		select {
		case seen <- struct{}{}:
		default:
		}
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-seen
		b.server.Close()
	}()
	defer func() { <-closed }()
	if r, err := b.try(t.Context(), "shell", "command", "echo begun; sleep 600"); err == nil {
		t.Errorf("got a result although the guest is gone: %s", textOf(r))
	}
}

func TestShellIDs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	// The same call twice (some models repeat ids) is two processes.
	b.env.CallID = "call_1"
	var ids []string
	for range 2 {
		r, err := Shell().Run(t.Context(), b.env, []byte(`{"command":"sleep 600","background":true}`))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, idIn(t, textOf(r)))
	}
	if ids[0] == ids[1] || ids[0] != processID("sh", "call_1", 0) {
		t.Errorf("got %q", ids)
	}
	for _, id := range ids {
		b.good(nil, "shell_stop", "id", id)
	}
}

func TestRunTests(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.bad([]string{"No test runner was found in /workspace (looked for"}, "run_tests")
	b.write("app/Makefile", "all:\n\ntest:\n\t@echo tested; exit 0\n")
	b.bad([]string{"There are projects in /workspace/app: set cwd."}, "run_tests")
	b.good([]string{"make test: exit 0", "tested", "[whole output: read_output with handle"}, "run_tests", "cwd", "app")
	b.write("app/Makefile", "test:\n\t@echo broken; exit 1\n")
	b.bad([]string{"make test: exit 2", "broken"}, "run_tests", "cwd", "app")
}

func TestRunTestsGo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go")
	}
	b := newBox(t)
	if cache, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
		bindErr := b.env.Guest.Bind(t.Context(), guest.Settings{Env: map[string]string{"GOCACHE": strings.TrimSpace(string(cache))}})
		if bindErr != nil {
			t.Fatal(bindErr)
		}
	}
	b.write("go.mod", "module ex.org/m\n\ngo 1.20\n")
	b.write("m_test.go", "package m\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Error(\"wrong\") }\n\nfunc TestGood(t *testing.T) {}\n")
	b.bad([]string{"go test: exit 1", "1 passed, 1 failed", "FAIL ex.org/m TestBad  (m_test.go:5)"}, "run_tests")
	if live := b.live.String(); strings.Contains(live, `"Action"`) || !strings.Contains(live, "--- FAIL: TestBad") {
		t.Errorf("shown live:\n%s", live)
	}
	b.good([]string{"1 passed, 0 failed"}, "run_tests", "args", []string{"-run", "Good"})
	b.write("m_test.go", "package m\n\nfunc broken( {\n")
	b.bad([]string{"go test: exit 1", "m_test.go:3"}, "run_tests")
}

func TestRunTestsNode(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("no node")
	}
	b := newBox(t)
	b.write("package.json", `{"type":"module","scripts":{"test":"node --test"}}`)
	b.write("a.test.js", "import test from 'node:test'\nimport assert from 'node:assert'\ntest('adds', () => { assert.equal(1 - 2, 3) })\ntest('ok', () => {})\n")
	b.bad([]string{"node --test: exit 1", "1 passed, 1 failed", "FAIL adds  (", "a.test.js:3)"}, "run_tests")
}

func TestRunTestsPython(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	b := newBox(t)
	b.write("test_a.py", "import unittest\nclass T(unittest.TestCase):\n    def test_bad(self):\n        self.assertEqual(1, 2)\n    def test_good(self):\n        pass\n")
	b.bad([]string{"python: exit 1", "1 passed, 1 failed", "test_bad", "test_a.py:4", "AssertionError: 1 != 2"}, "run_tests")
}

func TestInstallPackage(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.bad([]string{`"packages[0]": "-g" is not a package of npm; give names such as react`}, "install_package", "manager", "npm", "packages", []string{"-g"})
	b.bad([]string{`"packages": name at least one`}, "install_package", "manager", "apt")
	b.bad([]string{"there is no package.json in /workspace"}, "install_package", "manager", "npm")
	b.bad([]string{"there is no /workspace/requirements.txt"}, "install_package", "manager", "pip")
	b.bad([]string{`"dev": it is for npm only`}, "install_package", "manager", "pip", "packages", []string{"x"}, "dev", true)
	b.bad([]string{`"manager": got the string "cargo", want one of "apt", "npm", "pip"`}, "install_package", "manager", "cargo")
	b.bad([]string{`"cwd": There is no /workspace/nope.`}, "install_package", "manager", "npm", "packages", []string{"react"}, "cwd", "nope")
}

// TestInstallPackageLocal installs with npm and pip without any registry:
// what is asked for is empty, or there already.
func TestInstallPackageLocal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if _, err := exec.LookPath("npm"); err == nil {
		b.write("package.json", `{"name":"x","version":"1.0.0"}`)
		b.good([]string{"up to date", "[installed in "}, "install_package", "manager", "npm")
	}
	if exec.Command("python3", "-c", "import ensurepip").Run() == nil {
		b.good([]string{"Requirement already satisfied: pip", "[installed in "}, "install_package", "manager", "pip", "packages", []string{"pip"})
		if !b.exists(".venv/bin/python") {
			t.Error("there is no virtual environment")
		}
	}
}
