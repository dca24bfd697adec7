//go:build linux

package ingvisor

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
)

// treeEnv makes the tests use the kernels' definition of this tree instead of
// the image's, for images that were built before a change.
const treeEnv = "GLOVEBOX_TEST_JUPYTER_TREE"

// openKernels is open for an image that has the kernels.
func openKernels(t testing.TB) *guest.Client {
	t.Helper()
	c := open(t)
	files := map[string][]byte{}
	if os.Getenv(treeEnv) != "" {
		root := os.DirFS(filepath.Join("..", "..", "..", "..", "image", "jupyter"))
		err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(root, name)
			if kernel, ok := strings.CutPrefix(name, "kernels/"); ok {
				files["/usr/local/share/jupyter/kernels/"+kernel] = b
			} else {
				files["/etc/glovebox/jupyter/"+name] = b
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Bind(t.Context(), guest.Settings{Files: files}); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"/usr/local/share/jupyter/kernels/python3/kernel.json", "/etc/glovebox/jupyter/python_kernel.py"} {
		if _, err := c.Stat(t.Context(), f); err != nil {
			t.Skipf("the image has no %s: build one with \"glovebox image build\", or set %s", f, treeEnv)
		}
	}
	return c
}

type cellSeen struct {
	guest.CellResult
	text, err string
	images    int
}

func cell(t testing.TB, c *guest.Client, q guest.Cell) cellSeen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var s cellSeen
	var err error
	s.CellResult, err = c.Execute(ctx, q, func(o guest.CellOutput) {
		s.text += o.Text + string(o.Data["text/plain"])
		if o.Kind == "error" {
			s.err += o.Name + ": " + o.Value
		}
		if bytes.HasPrefix(o.Data["image/png"], []byte("\x89PNG")) {
			s.images++
		}
	})
	if err != nil {
		t.Fatalf("%.100s: %v", q.Code, err)
	}
	return s
}

func TestKernels(t *testing.T) {
	c := openKernels(t)
	python := func(code string) cellSeen { return cell(t, c, guest.Cell{Code: code, Timeout: 4 * time.Minute}) }

	begin := time.Now()
	s := python("x = 41\nx + 1")
	t.Logf("first cell of Python after %v", time.Since(begin))
	if s.Status != "ok" || s.text != "42" || !s.Restarted {
		t.Fatalf("%+v", s)
	}
	begin = time.Now()
	if s = python("import numpy as np, pandas as pd, matplotlib.pyplot as plt\nplt.plot([1, 2, x])\nplt.show()\npd.DataFrame({'a': [1]})"); s.Status != "ok" || s.images != 1 || !strings.Contains(s.text, "a\n0  1") {
		t.Errorf("plot: %+v", s)
	}
	t.Logf("libraries and a plot after %v", time.Since(begin))
	if s = python("import os, getpass; (os.getuid(), os.getcwd(), getpass.getuser())"); s.text != "(1000, '/workspace', 'agent')" {
		t.Errorf("who: %+v", s)
	}
	if s = cell(t, c, guest.Cell{Code: "import time; time.sleep(600)", Timeout: 300 * time.Millisecond}); s.Status != "interrupted" {
		t.Errorf("interrupt: %+v", s)
	}
	if s = python("x"); s.text != "41" {
		t.Errorf("after an interrupt: %+v", s)
	}
	if s = python("import ctypes; ctypes.string_at(0)"); s.Status != "died" {
		t.Errorf("crash: %+v", s)
	}
	if s = python("1"); s.Status != "ok" || !s.Restarted {
		t.Errorf("after a crash: %+v", s)
	}

	begin = time.Now()
	s = cell(t, c, guest.Cell{Language: "typescript", Code: "const y: number = 6; y * 7"})
	t.Logf("first cell of TypeScript after %v", time.Since(begin))
	if s.Status != "ok" || s.text != "42" {
		t.Errorf("typescript: %+v", s)
	}
	begin = time.Now()
	s = cell(t, c, guest.Cell{Language: "bash", Code: "z=5; echo $z; id -u"})
	t.Logf("first cell of Bash after %v", time.Since(begin))
	if s.Status != "ok" || s.text != "5\n1000\n" {
		t.Errorf("bash: %+v", s)
	}
	if s = cell(t, c, guest.Cell{Language: "bash", Code: "sleep 600; echo no", Timeout: 300 * time.Millisecond}); s.Status != "interrupted" || strings.TrimSpace(s.text) != "" {
		t.Errorf("bash interrupted: %+v", s)
	}
	if s = cell(t, c, guest.Cell{Language: "bash", Code: "echo $z"}); s.text != "5\n" {
		t.Errorf("bash after it: %+v", s)
	}
	if s = python("for i in range(60000): print('line', i)"); s.Status != "ok" || len(s.text) > 2<<20 || !strings.HasSuffix(s.text, "line 59999\n") {
		t.Errorf("flood: %+v, %d bytes", s.CellResult, len(s.text))
	}
	list, err := c.Kernels(t.Context())
	if err != nil || len(list) != 3 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestKernelRenewed sees that what a restored machine's kernel draws is its own.
func TestKernelRenewed(t *testing.T) {
	c := openKernels(t)
	before := memory(t, c)
	if err := c.WarmKernels(t.Context(), "python"); err != nil {
		t.Fatal(err)
	}
	t.Logf("a warm Python kernel takes %d KiB", memory(t, c)-before)
	cell(t, c, guest.Cell{Silent: true, Code: "import random; random.seed(1); key = get_ipython().kernel.session.key"})
	if err := c.Bind(t.Context(), guest.Settings{Seed: bytes.Repeat([]byte{1}, 32)}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s := cell(t, c, guest.Cell{Code: "[random.random() != random.Random(1).random(), get_ipython().kernel.session.key != key]"})
	t.Logf("first cell after Bind: %v", time.Since(begin))
	if s.text != "[True, True]" || s.Restarted {
		t.Errorf("%+v", s)
	}
	cell(t, c, guest.Cell{Code: "import numpy, pandas, matplotlib.pyplot"})
	t.Logf("with its libraries %d KiB", memory(t, c)-before)
}

// TestJupyterLab sees that the machine's JupyterLab takes the token that this
// machine was given, and shows the kernel that cells run in.
func TestJupyterLab(t *testing.T) {
	c := openKernels(t)
	if err := c.Bind(t.Context(), guest.Settings{Secret: bytes.Repeat([]byte{1}, 32)}); err != nil {
		t.Fatal(err)
	}
	cell(t, c, guest.Cell{Code: "1"})
	begin := time.Now()
	if err := c.StartService(t.Context(), guest.ServiceJupyter); err != nil {
		t.Fatal(err)
	}
	t.Logf("JupyterLab answers after %v", time.Since(begin))
	get := func(path, token string) (int, string) {
		conn, err := c.DialService(t.Context(), guest.ServiceJupyter)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://machine"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "token "+token)
		req.Close = true
		if err := req.Write(conn); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	first := c.ServiceSecret(guest.ServiceJupyter)
	if code, _ := get("/api/status", "wrong"); code != http.StatusForbidden {
		t.Errorf("with a wrong token: %d", code)
	}
	if code, body := get("/api/kernels", first); code != http.StatusOK || !strings.Contains(body, `"name": "python3"`) {
		t.Errorf("kernels: %d, %s", code, body)
	}
	if code, _ := get("/lab", first); code != http.StatusOK {
		t.Errorf("the page: %d", code)
	}
	if err := c.Bind(t.Context(), guest.Settings{Secret: bytes.Repeat([]byte{2}, 32)}); err != nil {
		t.Fatal(err)
	}
	if code, _ := get("/api/status", first); code != http.StatusForbidden {
		t.Errorf("with the token of before: %d", code)
	}
	if code, _ := get("/api/status", c.ServiceSecret(guest.ServiceJupyter)); code != http.StatusOK {
		t.Errorf("with the new token: %d", code)
	}
}

// memory is what is not available any more, in KiB.
func memory(t testing.TB, c *guest.Client) int64 {
	t.Helper()
	s, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.MemoryBytes >> 10
}

// BenchmarkCell runs 1+1 in a warm kernel: the whole way from the host and back.
func BenchmarkCell(b *testing.B) {
	c := openKernels(b)
	for _, q := range []guest.Cell{{Language: "python", Code: "1+1"}, {Language: "typescript", Code: "1+1"}, {Language: "bash", Code: "echo $((1+1))"}} {
		b.Run(q.Language, func(b *testing.B) {
			for range 20 {
				if s := cell(b, c, q); s.Status != "ok" || strings.TrimSpace(s.text) != "2" {
					b.Fatalf("%+v", s)
				}
			}
			timed(b, func() error {
				_, err := c.Execute(b.Context(), q, func(guest.CellOutput) {})
				return err
			})
		})
	}
}
