//go:build linux

package guestd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
)

// pythonWithKernel finds a Python that has ipykernel.
var pythonWithKernel = sync.OnceValue(func() string {
	for _, p := range []string{os.Getenv("GLOVEBOX_TEST_PYTHON"), "/opt/python/bin/python", "python3", "/usr/bin/python3"} {
		if p != "" && exec.Command(p, "-c", "import ipykernel").Run() == nil {
			return p
		}
	}
	return ""
})

// denoProgram finds Deno.
var denoProgram = sync.OnceValue(func() string {
	for _, p := range []string{os.Getenv("GLOVEBOX_TEST_DENO"), "deno"} {
		if path, err := exec.LookPath(p); p != "" && err == nil {
			return path
		}
	}
	return ""
})

// kernelSpecs is a directory with the image's kernels, for the programs that
// this host has.
func kernelSpecs(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	image, err := filepath.Abs("../../../image/jupyter")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"python3", "bash", "typescript"} {
		b, err := os.ReadFile(filepath.Join(image, "kernels", name, "kernel.json"))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for from, to := range map[string]string{
			"/opt/python/bin/python": pythonWithKernel(), "/usr/local/bin/deno": denoProgram(), "/etc/glovebox/jupyter/": image + "/",
		} {
			text = strings.ReplaceAll(text, from, to)
		}
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "kernel.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// kernels returns a client of a guest whose kernels work; the paths of
// sockets want a short root.
func kernels(t testing.TB) (*guest.Client, *sandbox) {
	t.Helper()
	return kernelsWith(t, guestd.Options{})
}

func kernelsWith(t testing.TB, o guestd.Options) (*guest.Client, *sandbox) {
	t.Helper()
	if pythonWithKernel() == "" {
		t.Skip("needs a Python with ipykernel (Debian: python3-ipykernel), or one named by GLOVEBOX_TEST_PYTHON")
	}
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	root, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	o.Root, o.KernelSpecs = root, []string{kernelSpecs(t)}
	b := newSandbox(t, o)
	c := b.dial(t, guest.Options{})
	if err := c.Bind(t.Context(), guest.Settings{Env: map[string]string{"PYTHONDONTWRITEBYTECODE": "1"}}); err != nil {
		t.Fatal(err)
	}
	return c, b
}

// seen is all that a cell put out.
type seen struct {
	res    guest.CellResult
	out    []guest.CellOutput
	stdout string
	stderr string
	result string
	err    string
}

func gather(s *seen) func(guest.CellOutput) {
	return func(o guest.CellOutput) {
		s.out = append(s.out, o)
		switch o.Kind {
		case "stdout":
			s.stdout += o.Text
		case "stderr":
			s.stderr += o.Text
		case "result":
			s.result += string(o.Data["text/plain"])
		case "error":
			s.err += o.Name + ": " + o.Value + "\n" + o.Traceback
		}
	}
}

func run(t testing.TB, c *guest.Client, cell guest.Cell) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var s seen
	var err error
	if s.res, err = c.Execute(ctx, cell, gather(&s)); err != nil {
		t.Fatalf("%.200s: %v", cell.Code, err)
	}
	return s
}

func (s seen) want(t testing.TB, status, result string) {
	t.Helper()
	if s.res.Status != status || s.result != result {
		t.Errorf("got %+v, result %q, stdout %q, stderr %q, error %q; want %s with the result %q", s.res, s.result, s.stdout, s.stderr, s.err, status, result)
	}
}

func TestPythonKernel(t *testing.T) {
	c, _ := kernels(t)
	py := func(code string) seen { return run(t, c, guest.Cell{Code: code}) }

	s := py("x = 20\nprint('hé')\nimport sys; print('oops', file=sys.stderr)\nx + 1")
	s.want(t, "ok", "21")
	if !s.res.Restarted || s.res.Count != 1 || s.stdout != "hé\n" || s.stderr != "oops\n" {
		t.Errorf("first cell: %+v", s)
	}
	s = py("x * 2")
	s.want(t, "ok", "40")
	if s.res.Restarted || s.res.Count != 2 {
		t.Errorf("second cell: %+v", s.res)
	}
	s = run(t, c, guest.Cell{Code: "x", Silent: true})
	if s.res.Status != "ok" || s.res.Count != 2 {
		t.Errorf("silent cell: %+v", s)
	}

	s = py("def f():\n    return 1/0\nf()")
	s.want(t, "error", "")
	if !strings.HasPrefix(s.err, "ZeroDivisionError: division by zero\n") || strings.Contains(s.err, "\x1b") || !strings.Contains(s.err, "in f()") {
		t.Errorf("error %q", s.err)
	}
	s = py("input('?')")
	if !strings.HasPrefix(s.err, "StdinNotImplementedError") {
		t.Errorf("input gave %+v", s)
	}

	s = py("import base64\nfrom IPython.display import display, Image\npng = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\ndisplay(Image(png))")
	if len(s.out) != 1 || s.out[0].Kind != "display" || !bytes.HasPrefix(s.out[0].Data["image/png"], []byte("\x89PNG")) {
		t.Errorf("image: %+v", s.out)
	}

	s = py("import os; os.getcwd()")
	if !strings.HasSuffix(s.result, "/workspace'") {
		t.Errorf("working directory %s", s.result)
	}
	list, err := c.Kernels(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "python" || list[0].Language != "python" || list[0].Busy || list[0].Cells != 6 {
		t.Errorf("kernels %+v, %v", list, err)
	}
}

func TestKernelInterruptTimeoutRestart(t *testing.T) {
	c, _ := kernels(t)
	run(t, c, guest.Cell{Code: "x = 1"})

	begun := make(chan struct{})
	var once sync.Once
	done := make(chan seen)
	go func() {
		var s seen
		s.res, _ = c.Execute(t.Context(), guest.Cell{Code: "import time\nprint('go', flush=True)\ntime.sleep(100)"}, func(o guest.CellOutput) {
			gather(&s)(o)
			once.Do(func() { close(begun) })
		})
		done <- s
	}()
	<-begun
	if list, err := c.Kernels(t.Context()); err != nil || !list[0].Busy {
		t.Errorf("kernels %+v, %v", list, err)
	}
	if err := c.InterruptKernel(t.Context(), "python"); err != nil {
		t.Fatal(err)
	}
	if s := <-done; s.res.Status != "interrupted" || !strings.HasPrefix(s.err, "KeyboardInterrupt") {
		t.Errorf("interrupted: %+v", s)
	}
	wantCode(t, c.InterruptKernel(t.Context(), "python"), glovebox.CodeConflict)
	wantCode(t, c.InterruptKernel(t.Context(), "other"), glovebox.CodeNotFound)

	var s seen
	for _, up := range []time.Duration{time.Millisecond, 3 * time.Millisecond, 200 * time.Millisecond} { // also before the kernel has begun
		s = run(t, c, guest.Cell{Code: "time.sleep(100)", Timeout: up})
		s.want(t, "interrupted", "")
	}
	run(t, c, guest.Cell{Code: "x"}).want(t, "ok", "1")

	if err := c.RestartKernel(t.Context(), "python"); err != nil {
		t.Fatal(err)
	}
	s = run(t, c, guest.Cell{Code: "x"})
	s.want(t, "error", "")
	if !strings.HasPrefix(s.err, "NameError") {
		t.Errorf("after a restart: %+v", s)
	}
}

func TestKernelDies(t *testing.T) {
	c, _ := kernelsWith(t, guestd.Options{KernelGrace: 500 * time.Millisecond}) // no cell here heeds an interrupt
	s := run(t, c, guest.Cell{Code: "import os\nos._exit(3)"})
	if s.res.Status != "died" {
		t.Errorf("died: %+v", s)
	}
	s = run(t, c, guest.Cell{Code: "1"})
	s.want(t, "ok", "1")
	if !s.res.Restarted {
		t.Error("the next cell does not say that its kernel is new")
	}
	// Deaf to the interrupt, whenever it comes: a kernel heeds it only in a cell.
	const deaf = "get_ipython().kernel.pre_handler_hook = lambda: None"
	run(t, c, guest.Cell{Code: deaf})
	s = run(t, c, guest.Cell{Code: "import time\ntime.sleep(100)", Timeout: 100 * time.Millisecond})
	if s.res.Status != "died" || !strings.Contains(s.stderr, "did not heed") {
		t.Errorf("deaf: %+v", s)
	}
	// Nonsense on its own sockets ends nothing but its own cell.
	run(t, c, guest.Cell{Code: deaf})
	s = run(t, c, guest.Cell{Code: "from IPython import get_ipython\nk = get_ipython().kernel\nk.session.key = b'other'\n1", Timeout: time.Second})
	if s.res.Status != "died" {
		t.Errorf("forged: %+v", s)
	}
	run(t, c, guest.Cell{Code: "2"}).want(t, "ok", "2")
}

func TestKernelFloods(t *testing.T) {
	c, _ := kernels(t)
	s := run(t, c, guest.Cell{Code: "for i in range(200): print('x' * 99_999)\nprint('the end')"})
	if s.res.Status != "ok" || len(s.stdout) > 2<<20 || !strings.Contains(s.stdout, "bytes left out ...]") || !strings.HasSuffix(s.stdout, "the end\n") {
		t.Errorf("text: %+v, %d bytes, %q", s.res, len(s.stdout), s.stdout[max(0, len(s.stdout)-100):])
	}
	s = run(t, c, guest.Cell{Code: "from IPython.display import display, Image\nfor i in range(200): display({'image/png': 'aGk='}, raw=True)"})
	n := 0
	for _, o := range s.out {
		if o.Kind == "display" {
			n++
		}
	}
	if s.res.Status != "ok" || n != 64 || !strings.Contains(s.stderr, "[136 displays left out") {
		t.Errorf("displays: %+v, %d, %q", s.res, n, s.stderr)
	}
	s = run(t, c, guest.Cell{Code: "display({'text/plain': 'x' * 60_000_000}, raw=True)\n'after'"})
	s.want(t, "ok", "'after'")
	if !strings.Contains(s.stderr, "[1 displays left out") {
		t.Errorf("large: %q", s.stderr)
	}
}

func TestKernelsAtOnce(t *testing.T) {
	c, _ := kernels(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := make(chan struct{})
	var once sync.Once
	first := make(chan error, 1)
	go func() {
		_, err := c.Execute(ctx, guest.Cell{Code: "import time\nprint('a', flush=True)\nfor i in range(1000): time.sleep(0.05)\n7"}, func(guest.CellOutput) { once.Do(func() { close(begun) }) })
		first <- err
	}()
	<-begun
	run(t, c, guest.Cell{Kernel: "second", Code: "5"}).want(t, "ok", "5")
	_, err := c.Execute(t.Context(), guest.Cell{Kernel: "second", Language: "bash", Code: "true"}, nil)
	wantCode(t, err, glovebox.CodeInvalid)
	_, err = c.Execute(t.Context(), guest.Cell{Kernel: "a/b", Code: "true"}, nil)
	wantCode(t, err, glovebox.CodeInvalid)
	_, err = c.Execute(t.Context(), guest.Cell{Language: "cobol", Code: "true"}, nil)
	wantCode(t, err, glovebox.CodeInvalid)
	_, err = c.Execute(t.Context(), guest.Cell{Code: strings.Repeat("x", 1<<20+1)}, nil)
	wantCode(t, err, glovebox.CodeTooLarge)

	// Whoever asked goes away: the cell goes on, and can be followed.
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	if err := c.InterruptKernel(t.Context(), "python"); err != nil {
		t.Fatal(err)
	}
	var s seen
	if s.res, err = c.FollowCell(t.Context(), "python", gather(&s)); err != nil || s.res.Status != "interrupted" || s.stdout != "a\n" {
		t.Errorf("followed: %+v, %v", s, err)
	}
	_, err = c.FollowCell(t.Context(), "none", nil)
	wantCode(t, err, glovebox.CodeNotFound)
}

func TestBashKernel(t *testing.T) {
	c, _ := kernels(t)
	sh := func(code string) seen { return run(t, c, guest.Cell{Language: "bash", Code: code}) }
	s := sh("cd /tmp; x=5; f() { echo \"f $1 $x\"; }; echo out; echo err >&2")
	if s.res.Status != "ok" || s.stdout != "out\n" || s.stderr != "err\n" {
		t.Errorf("first: %+v", s)
	}
	if s = sh("pwd; f 1; echo 'a\nb'; cat"); s.res.Status != "ok" || s.stdout != "/tmp\nf 1 5\na\nb\n" || s.stderr != "" {
		t.Errorf("state: %+v", s)
	}
	if s = sh("false"); s.res.Status != "error" || !strings.HasPrefix(s.err, "Status: 1") {
		t.Errorf("false: %+v", s)
	}
	if s = sh("if; then"); s.res.Status != "error" || !strings.Contains(s.stderr, "syntax error") {
		t.Errorf("syntax: %+v", s)
	}
	for name, code := range map[string]string{
		"a loop": "for i in 1 2 3; do echo 1; sleep 600; done; echo no",
		// As one that is interrupted between its fork and its exec.
		"a command that misses the signal": "(trap '' INT; echo 1; sleep 0.1; trap - INT; exec sleep 600); echo no",
	} {
		var once sync.Once
		s = seen{}
		var err error
		s.res, err = c.Execute(t.Context(), guest.Cell{Language: "bash", Code: code}, func(o guest.CellOutput) {
			gather(&s)(o)
			once.Do(func() {
				if err := c.InterruptKernel(t.Context(), "bash"); err != nil {
					t.Error(err)
				}
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if s.res.Status != "interrupted" || s.stdout != "1\n" {
			t.Errorf("%s, interrupted: %+v", name, s)
		}
	}
	if s = sh("echo $x"); s.stdout != "5\n" || s.stderr != "" {
		t.Errorf("after an interrupt: %+v", s)
	}
	if s = sh("exit 4"); s.res.Status != "error" || !strings.Contains(s.err, "bash has ended") {
		t.Errorf("exit: %+v", s)
	}
	if s = sh("echo again$x"); s.stdout != "again\n" {
		t.Errorf("after exit: %+v", s)
	}
}

func TestTypeScriptKernel(t *testing.T) {
	if denoProgram() == "" {
		t.Skip("needs deno (npm install deno), or one named by GLOVEBOX_TEST_DENO; the tests in gVisor use the image's")
	}
	c, _ := kernels(t)
	ts := func(code string) seen { return run(t, c, guest.Cell{Language: "typescript", Code: code}) }
	ts("const x: number = 20; x + 1").want(t, "ok", "21")
	s := ts("console.log('hi', x); x * 2")
	s.want(t, "ok", "40")
	if s.stdout != "hi 20\n" {
		t.Errorf("stdout %q", s.stdout)
	}
	if s = ts("throw new TypeError('no')"); s.res.Status != "error" || !strings.Contains(s.err, "no") || strings.Contains(s.err, "\x1b") {
		t.Errorf("error: %+v", s)
	}
	if s = ts("Deno.exit(3)"); s.res.Status != "died" {
		t.Errorf("exit: %+v", s)
	}
	s = run(t, c, guest.Cell{Language: "typescript", Code: "for(;;){}", Timeout: 300 * time.Millisecond})
	if s.res.Status != "died" && s.res.Status != "interrupted" {
		t.Errorf("loop: %+v", s)
	}
	ts("1").want(t, "ok", "1")
}

// connectionKeys are the keys in the connection files of a sandbox.
func connectionKeys(t *testing.T, b *sandbox) (keys []string) {
	t.Helper()
	files, err := filepath.Glob(b.root + "/run/glovebox/kernels/kernel-*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var about struct{ Key string }
		if err := json.Unmarshal(raw, &about); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, about.Key)
	}
	return keys
}

// TestKernelRenewed sees that Bind makes a kernel that was started before it
// draw other numbers than a copy of it would have drawn, and that it leaves
// one alone that a job uses.
func TestKernelRenewed(t *testing.T) {
	c, b := kernels(t)
	if err := c.WarmKernels(t.Context(), "python"); err != nil {
		t.Fatal(err)
	}
	// As the template has it: a state that every copy shares.
	run(t, c, guest.Cell{Silent: true, Code: "import random, uuid, multiprocessing, ssl, tempfile\nrandom.seed(1)\nauth = multiprocessing.current_process().authkey\nnode = uuid.getnode()\nkey = get_ipython().kernel.session.key"})
	before := connectionKeys(t, b)
	if err := c.Bind(t.Context(), guest.Settings{Seed: bytes.Repeat([]byte{7}, 32), Secret: bytes.Repeat([]byte{8}, 32)}); err != nil {
		t.Fatal(err)
	}
	wait := guest.Cell{Silent: true, Code: "0"} // until it is renewed
	run(t, c, wait)
	once := connectionKeys(t, b)
	if err := c.Bind(t.Context(), guest.Settings{Secret: bytes.Repeat([]byte{8}, 32)}); err != nil {
		t.Fatal(err)
	}
	run(t, c, wait)
	if again := connectionKeys(t, b); !slices.Equal(again, once) {
		t.Errorf("told the same again, the kernel has the keys %v, not %v", again, once)
	}
	s := run(t, c, guest.Cell{Code: "r = random.random()\nr0 = random.Random(1).random()\n[r != r0, multiprocessing.current_process().authkey != auth, uuid.getnode() != node, get_ipython().kernel.session.key != key]"})
	s.want(t, "ok", "[True, True, True, True]")
	if s.res.Restarted {
		t.Error("the kernel was replaced, not renewed")
	}
	after := connectionKeys(t, b)
	if len(before) != 1 || len(after) != 1 || before[0] == after[0] {
		t.Errorf("keys before %v, after %v", before, after)
	}
	run(t, c, guest.Cell{Code: "random.seed(1)"})
	if err := c.Bind(t.Context(), guest.Settings{Seed: bytes.Repeat([]byte{9}, 32), Secret: bytes.Repeat([]byte{8}, 32)}); err != nil {
		t.Fatal(err)
	}
	run(t, c, guest.Cell{Code: "random.random() == r0"}).want(t, "ok", "True")
}

// BenchmarkCell runs 1+1 in a warm Python kernel.
func BenchmarkCell(b *testing.B) {
	c, _ := kernels(b)
	cell := guest.Cell{Code: "1+1"}
	for range 20 {
		run(b, c, cell).want(b, "ok", "2")
	}
	var took []time.Duration
	b.ResetTimer()
	for range b.N {
		t := time.Now()
		if r, err := c.Execute(b.Context(), cell, func(guest.CellOutput) {}); err != nil || r.Status != "ok" {
			b.Fatal(r, err)
		}
		took = append(took, time.Since(t))
	}
	percentile(b, took)
}
