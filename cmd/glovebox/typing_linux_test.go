package main

import (
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// TestTerminalIsRestored: while it is not echoed, keys come at once and
// interrupts still work; afterwards the terminal is as it was.
func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	ptm, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	defer ptm.Close()
	defer tty.Close()
	modes := func() unix.Termios {
		m, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return *m
	}
	before := modes()
	restore, err := unechoed(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if m := modes(); m.Lflag&(unix.ECHO|unix.ICANON) != 0 || m.Lflag&unix.ISIG == 0 || m.Oflag != before.Oflag {
		t.Errorf("modes %+v", m)
	}
	if _, err := ptm.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := tty.Read(b); err != nil || string(b[:n]) != "x" {
		t.Errorf("read %q, %v", b[:n], err)
	}
	restore()
	if modes() != before {
		t.Errorf("left %+v, was %+v", modes(), before)
	}
	if ownTerminal(int(tty.Fd())) {
		t.Error("a terminal that controls another session is taken for ours")
	}
	if _, err := unechoed(-1); err == nil {
		t.Error("no error for what is no terminal")
	}
}
