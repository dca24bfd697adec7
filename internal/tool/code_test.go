//go:build linux

package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/tool/notebook"
)

// kernelPython finds a Python that has ipykernel.
var kernelPython = sync.OnceValue(func() string {
	for _, p := range []string{os.Getenv("GLOVEBOX_TEST_PYTHON"), "/opt/python/bin/python", "python3", "/usr/bin/python3"} {
		if p != "" && exec.Command(p, "-c", "import ipykernel").Run() == nil {
			return p
		}
	}
	return ""
})

// kernelBox is a box with the image's Python and Bash kernels.
func kernelBox(t *testing.T) *box {
	t.Helper()
	if kernelPython() == "" {
		t.Skip("needs a Python with ipykernel (Debian: python3-ipykernel), or one named by GLOVEBOX_TEST_PYTHON")
	}
	specs := t.TempDir()
	jupyter, err := filepath.Abs("../../image/jupyter")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"python3", "bash"} {
		b, err := os.ReadFile(filepath.Join(jupyter, "kernels", name, "kernel.json"))
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.ReplaceAll(b, []byte("/opt/python/bin/python"), []byte(kernelPython()))
		b = bytes.ReplaceAll(b, []byte("/etc/glovebox/jupyter"), []byte(jupyter))
		b = bytes.Replace(b, []byte("{"), []byte(`{"env": {"PYTHONDONTWRITEBYTECODE": "1"},`), 1)
		if err := os.MkdirAll(filepath.Join(specs, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(specs, name, "kernel.json"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return newBoxWith(t, guestd.Options{KernelSpecs: []string{specs}})
}

// readNotebook reads a recorded notebook.
func (b *box) readNotebook(name string) (cells []map[string]any) {
	b.t.Helper()
	var n struct {
		Cells  []map[string]any `json:"cells"`
		Format int              `json:"nbformat"`
	}
	if err := json.Unmarshal([]byte(b.read(name)), &n); err != nil || n.Format != 4 {
		b.t.Fatal(n.Format, err)
	}
	b.validate(name)
	return n.Cells
}

// validate has nbformat check a notebook, if it is there.
func (b *box) validate(name string) {
	b.t.Helper()
	if exec.Command(kernelPython(), "-c", "import nbformat").Run() != nil {
		return
	}
	const script = "import sys, nbformat; nbformat.validate(nbformat.read(sys.argv[1], as_version=4))"
	if out, err := exec.Command(kernelPython(), "-W", "error", "-c", script, filepath.Join(b.dir, name)).CombinedOutput(); err != nil {
		b.t.Errorf("%s is not valid: %s", name, out)
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	b := kernelBox(t)
	b.good([]string{"No kernel was used yet"}, "code", "action", "list")
	b.good([]string{"hello\n", "42\n[cell 1 ok after", "kernel python is new"}, "code", "code", "print('hello')\nx = 42\nx")
	if got := b.good([]string{"43\n[cell 2 ok"}, "code", "code", "x + 1"); strings.Contains(got, "is new") {
		t.Errorf("the second cell: %s", got)
	}
	if !strings.Contains(b.live.String(), "hello\n") || !strings.Contains(b.live.String(), "43\n") {
		t.Errorf("live: %q", b.live.String())
	}
	text := b.bad([]string{"ZeroDivisionError: division by zero", "in f()", "[cell 3 failed"}, "code", "code", "def f():\n    return 1 / 0\ndef g(n):\n    return g(n - 1) if n else f()\ng(60)")
	if n := strings.Count(text, "\n"); n > maxTraceLines+6 || strings.Contains(text, "\x1b") {
		t.Errorf("a traceback of %d lines:\n%s", n, text)
	}
	b.good([]string{"a\n3\n[cell 1 ok"}, "code", "language", "bash", "code", "cd /; y=3; echo a; echo $y")
	b.bad([]string{"Status: 1"}, "code", "language", "bash", "code", "false")
	b.good([]string{"- python: python, idle, 3 cells", "- bash: bash, idle, 2 cells"}, "code", "action", "list")
	b.good([]string{"was restarted"}, "code", "action", "restart")
	b.bad([]string{"NameError"}, "code", "code", "x")
	b.bad([]string{"died after", "[cell"}[:1], "code", "code", "import os\nos._exit(1)")
	b.good([]string{"kernel python is new"}, "code", "code", "1")
	b.bad([]string{"was interrupted after", "keeps its state"}, "code", "code", "import time\ntime.sleep(60)", "timeout_seconds", 1)

	cells := b.readNotebook("notebooks/session.ipynb")
	if len(cells) != 9 {
		t.Fatalf("%d cells are recorded", len(cells))
	}
	if cells[3]["source"] != "%%bash\ncd /; y=3; echo a; echo $y" || cells[0]["execution_count"] != 1.0 {
		t.Errorf("recorded: %v", cells)
	}
	if out := cells[0]["outputs"].([]any); len(out) != 2 || out[0].(map[string]any)["text"] != "hello\n" {
		t.Errorf("recorded outputs: %v", out)
	}
}

func TestCodeBadInput(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.bad([]string{`"code": it is empty`}, "code")
	b.bad([]string{`"kernel": "a/b" is not a name`}, "code", "code", "1", "kernel", "a/b")
	b.bad([]string{"leave it out with the action restart"}, "code", "code", "1", "action", "restart")
	b.bad([]string{`there is no kernel "python"`}, "code", "action", "interrupt")
	b.bad([]string{`there is no kernel "python"`}, "code", "action", "wait")
}

func TestCodeNoKernel(t *testing.T) {
	t.Parallel()
	b := newBoxWith(t, guestd.Options{KernelSpecs: []string{"/nowhere"}})
	b.bad([]string{"no python kernel is installed"}, "code", "code", "1")
}

func TestCodeImagesAndTables(t *testing.T) {
	t.Parallel()
	b := kernelBox(t)
	r := b.call("code", "code", `
import zlib, struct
from IPython.display import display, HTML
def png(w, h):
    def chunk(t, d): return struct.pack('>I', len(d)) + t + d + struct.pack('>I', zlib.crc32(t + d))
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', w, h, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(b'\0' + b'\xff\0\0' * w, 1) if h == 1 else zlib.compress((b'\0' + b'\xff\0\0' * w) * h, 1)) + chunk(b'IEND', b'')
import base64
def show(w, h): display({'image/png': base64.b64encode(png(w, h)).decode(), 'text/plain': '<Figure>'}, raw=True)
show(20, 10)
show(4000, 1000)
display({'image/png': base64.b64encode(b'\x89PNG\r\n\x1a\n broken').decode()}, raw=True)
display(HTML('<style>x{}</style><table><tr><th></th><th>a</th></tr><tr><td>0</td><td>1<br>2</td></tr></table><p>1 rows</p><script>alert(1)</script>'))
print('end')`)
	text := textOf(r)
	for _, w := range []string{"[image 1: 20 x 10 pixels]\n[image 2: 1568 x 392 pixels]\n[an image that can't be shown: it is damaged", " | a\n0 | 1 2\n1 rows\n", "end\n[cell 1 ok"} {
		if !strings.Contains(text, w) {
			t.Errorf("without %q:\n%s", w, text)
		}
	}
	var images []glovebox.Block
	for _, c := range r.Content {
		if c.Type == glovebox.BlockImage {
			images = append(images, c)
		}
	}
	if len(images) != 2 {
		t.Fatalf("%d images", len(images))
	}
	m, err := png.Decode(bytes.NewReader(images[1].Data))
	if err != nil || m.Bounds() != image.Rect(0, 0, 1568, 392) {
		t.Fatal(err, m.Bounds())
	}
	if red, _, _, _ := m.At(700, 200).RGBA(); red != 0xffff {
		t.Error("the scaled image has other colours")
	}
	b.readNotebook("notebooks/session.ipynb")
}

func TestCodeFlood(t *testing.T) {
	t.Parallel()
	b := kernelBox(t)
	r := b.call("code", "code", "for i in range(100000): print('line', i)")
	text := textOf(r)
	if len(text) > OutputBound || !strings.Contains(text, "line 0\n") || !strings.Contains(text, "line 99999\n[cell 1 ok") || r.Blob == "" {
		t.Errorf("%d bytes, blob %q:\n%.300s\n...\n%s", len(text), r.Blob, text, text[len(text)-300:])
	}
	if !bytes.Contains(b.kept[r.Blob], []byte("line 50000\n")) && len(b.kept[r.Blob]) < 1<<20 {
		t.Errorf("what was kept has %d bytes", len(b.kept[r.Blob]))
	}
	if n := len(b.read("notebooks/session.ipynb")); n > 200<<10 {
		t.Errorf("the notebook has %d bytes", n)
	}
	b.readNotebook("notebooks/session.ipynb")
}

// TestCodeYields has the user say something while a cell runs.
func TestCodeYields(t *testing.T) {
	t.Parallel()
	b := kernelBox(t)
	b.good(nil, "code", "code", "import time")
	ctx, cancel := context.WithCancelCause(t.Context())
	old := b.env.Output
	var once sync.Once
	b.env.Output = func(s string) {
		old(s)
		if strings.Contains(s, "begun") {
			once.Do(func() { cancel(ErrYield) })
		}
	}
	r, err := b.try(ctx, "code", "code", "print('begun', flush=True)\ntime.sleep(1.5)\nprint('later')\n'value'")
	if err != nil || r.IsError || !strings.Contains(textOf(r), "begun\n[interrupted by a message of the user; the cell still runs in kernel python") {
		t.Fatal(err, textOf(r))
	}
	b.good([]string{"busy"}, "code", "action", "list")
	b.good([]string{"begun\nlater\n'value'\n[cell 2 ok"}, "code", "action", "wait")
	cells := b.readNotebook("notebooks/session.ipynb")
	if len(cells) != 2 || len(cells[1]["outputs"].([]any)) != 2 || cells[1]["execution_count"] != 2.0 || !strings.HasPrefix(cells[1]["source"].(string), "print('begun'") {
		t.Errorf("recorded: %v", cells)
	}

	ctx, stop := context.WithCancel(t.Context())
	b.env.Output = func(string) { stop() }
	if r, err := b.try(ctx, "code", "code", "print('begun', flush=True)\ntime.sleep(60)"); err == nil {
		t.Errorf("a cancelled call returned %v", r)
	}
	b.env.Output = nil
	b.good([]string{"was interrupted after"}, "code", "action", "interrupt")
	b.bad([]string{"runs no cell"}, "code", "action", "interrupt")
}

// TestNotebookKept sees that what is in a notebook survives a new worker, and
// that a damaged one is left alone.
func TestNotebookKept(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	record := func(code string) string {
		return recordCell(t.Context(), b.env, guest.Cell{Kernel: "python", Code: code}, newCellOutput(b.env), guest.CellResult{Status: "ok", Count: 1}, false)
	}
	b.write("notebooks/session.ipynb", `{"cells":[{"cell_type":"markdown","id":"a","metadata":{"mine":1},"source":["# Hi"]}],"metadata":{"x":{"y":1}},"nbformat":4,"nbformat_minor":5}`)
	if note := record("1"); note != "" {
		t.Error(note)
	}
	b.connect()
	record("2")
	n, err := notebook.Parse([]byte(b.read("notebooks/session.ipynb")))
	if err != nil || len(n.Cells) != 3 || string(n.Metadata["x"]) == "" || !bytes.Contains(n.Cells[0], []byte(`"mine"`)) {
		t.Errorf("%+v, %v", n, err)
	}
	b.write("notebooks/session.ipynb", `{"cells": [`)
	if note := record("3"); !strings.Contains(note, "notebooks/session-2.ipynb was begun") {
		t.Errorf("note %q", note)
	}
	if note := record("4"); note != "" {
		t.Error(note)
	}
	if b.read("notebooks/session.ipynb") != `{"cells": [` {
		t.Error("the damaged one was changed")
	}
	if n, err = notebook.Parse([]byte(b.read("notebooks/session-2.ipynb"))); err != nil || len(n.Cells) != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	b.write("notebooks/session-3.ipynb", strings.Repeat(" ", maxNotebook+1))
	if note := record("5"); !strings.Contains(note, "is full, so notebooks/session-4.ipynb") {
		t.Errorf("note %q", note)
	}

	// Cells at once: none is lost.
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { record("6") })
	}
	wg.Wait()
	if n, err = notebook.Parse([]byte(b.read("notebooks/session-4.ipynb"))); err != nil || len(n.Cells) != 21 {
		t.Errorf("%d cells, %v", len(n.Cells), err)
	}
	ids := map[string]bool{}
	for _, raw := range n.Cells {
		var c struct{ ID string }
		if json.Unmarshal(raw, &c) != nil || ids[c.ID] {
			t.Errorf("id %q", c.ID)
		}
		ids[c.ID] = true
	}
}
