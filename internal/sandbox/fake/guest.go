package fake

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// argv0 is what the guest's process of a fake sandbox is called.
const argv0 = "glovebox-fake-guest"

// Intercept runs serve, and does not return, if the process is the guest of
// a fake sandbox; otherwise it returns at once. TestMain calls it first.
//
// serve is the guest daemon: root is the directory that it takes for the root
// of its file system, and l where it is dialled. For the real daemon:
//
//	fake.Intercept(func(root string, l net.Listener) error {
//		s, err := guestd.New(guestd.Options{Root: root, ProxyAddr: "127.0.0.1:0"})
//		if err != nil {
//			return err
//		}
//		return s.Serve(l)
//	})
func Intercept(serve func(root string, l net.Listener) error) {
	if len(os.Args) != 2 || os.Args[0] != argv0 {
		return
	}
	if err := guest(os.Args[1], serve); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// guest is the guest's process. It inherits, from 3 on: the gate, which gives
// one byte once we are written down; where to say that we listen; and a file
// whose lock we hold as long as we live.
func guest(dir string, serve func(root string, l net.Listener) error) error {
	for fd := 3; fd <= 5; fd++ {
		unix.CloseOnExec(fd) // not for what the daemon starts
	}
	gate, ready := os.NewFile(3, "gate"), os.NewFile(4, "ready")
	held := os.NewFile(5, "held")
	defer held.Close()
	if n, err := gate.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the creator is gone: %w", err)
	}
	gate.Close()
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), socketFile))
	if err != nil {
		return err
	}
	f.Close()
	if _, err := ready.Write([]byte{1}); err != nil {
		return err
	}
	ready.Close()
	return serve(dir+"/"+rootDir, l)
}
