//go:build linux

package display

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

func TestLockedUp(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.shot(guest.ShotRequest{})
	s.do(guest.Input{Kind: guest.InputKey, Keys: "a"})
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(context.Context) error{
		"screenshot": func(ctx context.Context) error { _, err := s.Screenshot(ctx, guest.ShotRequest{}); return err },
		"input": func(ctx context.Context) error {
			return s.Input(ctx, []guest.Input{{Kind: guest.InputKey, Keys: "ctrl+a"}})
		},
		"windows": func(ctx context.Context) error { _, err := s.Windows(ctx); return err },
		"wait": func(ctx context.Context) error {
			_, err := s.WaitChange(ctx, guest.Rect{}, "x", time.Minute)
			return err
		},
	}
	errs := make(chan string, len(calls))
	for name, call := range calls {
		go func() {
			begin := time.Now()
			err := call(t.Context())
			if took := time.Since(begin); took > time.Minute || glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "locked up") {
				errs <- fmt.Sprintf("%s: %v after %v", name, err, took)
				return
			}
			errs <- ""
		}()
	}
	for range calls {
		if e := <-errs; e != "" {
			t.Error(e)
		}
	}
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.shot(guest.ShotRequest{})
	s.do(guest.Input{Kind: guest.InputKey, Keys: "b"})
}

func TestServerDies(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.shot(guest.ShotRequest{})
	s.do(guest.Input{Kind: guest.InputType, Text: "я"})
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.name = ":none" // its number may be another server's by now
	if _, err := s.Screenshot(t.Context(), guest.ShotRequest{}); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("error %v", err)
	}
	other := newScreen(t, false)
	s.name = other.name // as if it had been started again
	s.shot(guest.ShotRequest{})
	s.do(guest.Input{Kind: guest.InputType, Text: "я"})
}

// TestForeignServer talks to something that is no X server.
func TestForeignServer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string][]byte{
		"nothing":  nil,
		"noise":    bytes.Repeat([]byte{0xff}, 1<<20),
		"zeros":    make([]byte, 1<<20),
		"refusal":  {0, 3, 11, 0, 0, 0, 1, 0, 'n', 'o', '!', 0},
		"no setup": append([]byte{1, 0, 11, 0, 0, 0, 10, 0}, make([]byte, 40)...),
	} {
		sock := filepath.Join(t.TempDir(), "x")
		l := listen(t, sock)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					_, _ = c.Write(answer)
					_, _ = io.CopyN(io.Discard, c, 12)
				}()
			}
		}()
		d := New(func() string { return sock })
		if _, err := d.Screenshot(t.Context(), guest.ShotRequest{}); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		d.Close()
		l.Close()
	}
}
