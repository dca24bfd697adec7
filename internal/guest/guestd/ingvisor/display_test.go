//go:build linux

package ingvisor

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// openDesktop is open for an image that has a desktop, whose services run.
func openDesktop(t testing.TB) *guest.Client {
	t.Helper()
	c := open(t)
	services, err := c.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(services) == 0 {
		t.Skip(`the image has no services: build one with "glovebox image build"`)
	}
	if err := c.Bind(t.Context(), guest.Settings{Secret: bytes.Repeat([]byte{1}, 32)}); err != nil && glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := c.StartServices(t.Context()); err != nil {
		for _, s := range services {
			log, _ := c.ServiceLog(t.Context(), s.Name, 2000)
			t.Logf("%s:\n%s", s.Name, log)
		}
		t.Fatal(err)
	}
	t.Logf("services healthy after %v", time.Since(begin).Round(time.Millisecond))
	return c
}

// awaitWindow waits for a window whose title contains a text.
func awaitWindow(t testing.TB, c *guest.Client, title string) guest.Window {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		list, err := c.Windows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range list {
			if strings.Contains(w.Title, title) {
				return w
			}
		}
		if _, err := c.WaitChange(t.Context(), guest.Rect{}, "", 200*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("no window %q", title)
	return guest.Window{}
}

func TestDesktop(t *testing.T) {
	c := openDesktop(t)
	ctx := t.Context()
	for _, name := range []string{guest.ServiceDisplay, guest.ServiceJupyter} {
		conn, err := c.DialService(ctx, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == guest.ServiceDisplay {
			hello := make([]byte, 12)
			if _, err := io.ReadFull(conn, hello); err != nil || string(hello) != "RFB 003.008\n" {
				t.Errorf("display says %q, %v", hello, err)
			}
		}
		conn.Close()
	}
	if out := run(t, c, sh("stat -c '%a %u' /run/glovebox/secrets/* /run/glovebox/*.sock; echo $DISPLAY")); strings.Contains(out, "644") || !strings.Contains(out, "600 1000") || !strings.HasSuffix(out, ":1\n") {
		t.Errorf("files and display:\n%s", out)
	}
	if err := c.WriteFile(ctx, "typed", nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(ctx, guest.Command{ID: "editor", Args: []string{"mousepad", "/workspace/typed"}, NoStdin: true}); err != nil {
		t.Fatal(err)
	}
	w := awaitWindow(t, c, "typed")
	if err := c.FocusWindow(ctx, w.ID); err != nil {
		t.Fatal(err)
	}
	const text = "Grüße, 你好世界, €½→ 😀 \"quoted\"\n"
	if err := c.Input(ctx, []guest.Input{{Kind: guest.InputType, Text: text}, {Kind: guest.InputKey, Keys: "ctrl+s"}}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; {
		b, _, err := c.ReadFile(ctx, "typed", 0, 1000)
		if err == nil && string(b) == text {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("typed %q, %v", b, err)
		}
		_, _ = c.WaitChange(ctx, guest.Rect{}, "", 100*time.Millisecond)
	}
	root := sh("pkill -KILL Xvnc")
	root.Root = true
	run(t, c, root)
	deadline, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		list, err := c.Services(deadline)
		if err == nil && list[0].Restarts > 0 { // before, the old one may answer yet
			if _, err = c.Screenshot(deadline, guest.ShotRequest{}); err == nil {
				break
			}
		}
		if deadline.Err() != nil {
			t.Fatal("the display did not come back")
		}
		_ = c.StartServices(deadline)
	}
	if s, err := c.Services(ctx); err != nil || s[0].Restarts != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	run(t, c, sh("pkill -STOP Xvnc"))
	stopping, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var err error
	for err == nil { // it may answer for a moment yet
		_, err = c.Screenshot(stopping, guest.ShotRequest{})
	}
	if glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "locked up") {
		t.Errorf("locked up: %v", err)
	}
	if err := c.RestartService(ctx, guest.ServiceDisplay); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Screenshot(ctx, guest.ShotRequest{}); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkScreenshot takes pictures of the desktop with a terminal full of
// text on it, through the guest and with what the image has for it.
func BenchmarkScreenshot(b *testing.B) {
	c := openDesktop(b)
	if _, err := c.Start(b.Context(), guest.Command{ID: "term", Args: []string{"lxterminal", "--no-remote", "-t", "text", "--geometry=100x40", "-e", "bash -c 'ls -lR /usr/lib/python3 | head -200; sleep 1000'"}, NoStdin: true}); err != nil {
		b.Fatal(err)
	}
	awaitWindow(b, c, "text")
	for changed := true; changed; {
		var err error
		if changed, err = c.WaitChange(b.Context(), guest.Rect{}, "", 500*time.Millisecond); err != nil {
			b.Fatal(err)
		}
	}
	first, err := c.Screenshot(b.Context(), guest.ShotRequest{})
	if err != nil {
		b.Fatal(err)
	}
	if img, err := png.Decode(bytes.NewReader(first.Data)); err != nil || img.Bounds().Dx() != 1280 {
		b.Fatal(err)
	}
	b.Logf("a PNG of %d bytes", len(first.Data))
	for name, q := range map[string]guest.ShotRequest{
		"png": {}, "jpeg": {JPEG: 80}, "unchanged": {Unless: first.Digest}, "one pixel": {Area: guest.Rect{W: 1, H: 1}}, "half": {MaxW: 640},
	} {
		b.Run(name, func(b *testing.B) {
			timed(b, func() error { _, err := c.Screenshot(b.Context(), q); return err })
		})
	}
	for name, args := range map[string][]string{
		"scrot": {"scrot", "-o", "/tmp/scrot.png"}, "import": {"import", "-window", "root", "/tmp/import.png"},
	} {
		b.Run(name, func(b *testing.B) {
			timed(b, func() error {
				st, out, err := c.Run(b.Context(), guest.Command{ID: glovebox.NewID(), Args: args}, 0)
				if glovebox.CodeOf(err) == glovebox.CodeNotFound {
					b.Skip(args[0] + " is not in the image")
				}
				if err == nil && st.ExitCode != 0 {
					err = errors.New(string(out))
				}
				return err
			})
		})
	}
}
