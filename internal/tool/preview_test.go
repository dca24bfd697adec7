//go:build linux

package tool

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/browser/browsertest"
)

// freePort returns a port that nothing listens on, of those that preview looks for.
func freePort(t *testing.T) int {
	t.Helper()
	for port := 21000 + time.Now().Nanosecond()%9000; ; port++ {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
}

// server is a command that serves the workspace.
func serverCommand(port int) string {
	return fmt.Sprintf("python3 -m http.server --bind 127.0.0.1 %d", port)
}

// stopAll ends what a test has left running.
func (b *box) stopAll() {
	list, err := b.env.Guest.Processes(context.Background())
	if err != nil {
		return
	}
	for _, s := range list {
		if p, err := b.env.Guest.Attach(context.Background(), s.ID); err == nil && s.Running {
			_ = p.Signal(context.Background(), "SIGKILL")
		}
	}
}

func imageOf(r Result) []byte {
	for _, c := range r.Content {
		if c.Type == glovebox.BlockImage && c.MediaType == "image/png" {
			return c.Data
		}
	}
	return nil
}

func TestPreview(t *testing.T) {
	b := newBox(t)
	b.env.Browser = browsertest.Dialer(t)
	t.Cleanup(b.stopAll)
	b.write("index.html", `<title>My page</title><h1>Hello</h1><button>Press</button>`)
	b.write("throws.html", `<title>Throws</title><script>oops()</script>`)
	port := freePort(t)

	r := b.call("preview", "command", serverCommand(port), "port", port)
	text := textOf(r)
	for _, want := range []string{`Title: "My page", HTTP 200`, "in the background: shell_output", `[heading] "Hello"`, `[button] "Press" at `} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwithout %q", text, want)
		}
	}
	if r.IsError || imageOf(r) == nil {
		t.Errorf("error %v, %d blocks", r.IsError, len(r.Content))
	}
	b.good([]string{"answered already", "Running:\n- sh-"}, "preview", "command", "exit 1", "port", port)
	b.bad([]string{"HTTP 404", "nowhere.html"}, "preview", "port", port, "path", "/nowhere.html")
	b.bad([]string{"1 exception was left uncaught", "oops is not defined"}, "preview", "port", port, "path", "throws.html")
	b.bad([]string{"The command ended before a port answered", "no server here", "exit 3"}, "preview", "command", "echo no server here; exit 3")
	other := freePort(t)
	b.bad([]string{fmt.Sprintf("Port %d did not answer within 5.0 s", other), fmt.Sprintf("%d (python3)", port), "still runs, in the background as sh-", "dum"},
		"preview", "command", "echo dum; sleep 100", "port", other, "wait_seconds", 5)
	b.bad([]string{"did not answer", "Give command"}, "preview", "port", other, "wait_seconds", 1)
	b.bad([]string{`Give "command"`}, "preview")
	b.bad([]string{"wait_seconds"}, "preview", "port", port, "wait_seconds", 601)
	b.bad([]string{"nowhere.html"}, "preview", "path", "nowhere.html")
	third := freePort(t)
	b.good([]string{fmt.Sprintf("served on port %d", third)}, "preview", "command", serverCommand(third))
}

func TestPreviewWithoutBrowser(t *testing.T) {
	b := newBox(t)
	t.Cleanup(b.stopAll)
	b.write("index.html", "x")
	b.env.Browser = func(context.Context) (net.Conn, error) {
		return nil, glovebox.Errorf(glovebox.CodeNotFound, "no service")
	}
	b.bad([]string{"This machine has no browser"}, "preview", "path", "index.html")
	b.env.Browser = func(context.Context) (net.Conn, error) {
		return nil, glovebox.Errorf(glovebox.CodeUnavailable, "it does not start")
	}
	b.bad([]string{"could not be used", "it does not start"}, "preview", "path", "index.html")
}

// TestPreviewYields has the user say something while a port is waited for.
func TestPreviewYields(t *testing.T) {
	b := newBox(t)
	t.Cleanup(b.stopAll)
	ctx, say := context.WithCancelCause(t.Context())
	b.env.Output = func(s string) {
		if strings.Contains(s, "begun") {
			say(ErrYield)
		}
	}
	r, err := b.try(ctx, "preview", "command", "echo begun; sleep 100", "port", freePort(t))
	if err != nil || r.IsError || !strings.Contains(textOf(r), "still runs, in the background as sh-") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestProvePage(t *testing.T) {
	b := newBox(t)
	b.env.Browser = browsertest.Dialer(t)
	t.Cleanup(b.stopAll)
	b.write("index.html", `<title>Proof</title><p>It <b>works</b></p>`)
	b.write("throws.html", `<title>Throws</title><script>console.error("first"); oops()</script>`)
	port := freePort(t)
	url := fmt.Sprintf("http://localhost:%d", port)
	for _, test := range []struct {
		name  string
		proof Proof
		want  string // in the output; empty if it holds
	}{
		{"holds", Proof{Page: url, Start: serverCommand(port), Expect: "It works"}, ""},
		{"again", Proof{Page: url + "/index.html", Start: serverCommand(port)}, ""},
		{"other text", Proof{Page: url, Start: serverCommand(port), Expect: "It fails"}, `"It fails" can't be seen on it.` + "\nWhat can be seen is:\nIt works"},
		{"exception", Proof{Page: url + "/throws.html", Start: serverCommand(port)}, "1 exception was left uncaught.\nConsole:\nconsole.error: first\nuncaught ReferenceError"},
		{"not found", Proof{Page: url + "/x", Start: serverCommand(port)}, "HTTP 404"},
		{"nothing there", Proof{Page: url}, "nothing listens there"},
		{"ends", Proof{Page: url, Start: "echo oh no; exit 1"}, "ended before port"},
		{"foreign", Proof{Page: "http://example.com/", Start: "true"}, "can't serve"},
		{"scheme", Proof{Page: "file:///etc/passwd"}, "not a file of the workspace"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := ProvePage(t.Context(), b.env, test.proof)
			if err != nil {
				t.Fatal(err)
			}
			if (p.ExitCode == 0) != (test.want == "") || !strings.Contains(p.Output, test.want) || p.Page != test.proof.Page {
				t.Errorf("got %+v, want %q", p, test.want)
			}
			if test.want == "" && (p.Title != "Proof" || !strings.HasPrefix(string(b.kept[p.Screenshot]), "\x89PNG")) {
				t.Errorf("got %+v", p)
			}
			if answers(t.Context(), b.env.Guest, uint16(port)) {
				t.Error("what served the page still runs")
			}
		})
	}
	b.call("shell", "command", serverCommand(port), "background", true)
	b.good([]string{"HTTP 200"}, "preview", "port", port)
	if p, err := ProvePage(t.Context(), b.env, Proof{Page: url, Start: serverCommand(port)}); err != nil || p.ExitCode == 0 || !strings.Contains(p.Output, "in use already") {
		t.Errorf("with the port taken: %+v, %v", p, err)
	}
}
