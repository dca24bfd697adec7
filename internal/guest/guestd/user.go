//go:build linux

package guestd

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// dropGroups gives up root's supplementary groups once, for all threads: file
// work for the tools must not have them, and root needs none.
var dropGroups = sync.OnceValue(func() error { return syscall.Setgroups(nil) })

// isRoot is asked once: every system call counts in gVisor.
var isRoot = os.Geteuid() == 0

// asUser runs f with the tools' user as the effective user of the thread, so
// that the kernel checks each of f's file operations as if a tool did it.
// Only the effective ids change (setfsuid would do, but gVisor lacks it): the
// real and saved ones stay root's, so that no process of that user may signal
// or trace the thread. f must not start goroutines that do file work.
func (s *Server) asUser(f func() error) error {
	if s.o.UID == 0 || !isRoot {
		return f()
	}
	if err := dropGroups(); err != nil {
		return fmt.Errorf("give up groups: %w", err)
	}
	const keep = ^uintptr(0)
	id := uintptr(s.o.UID)
	runtime.LockOSThread()
	// The raw calls change this thread alone. Should coming back fail, the
	// thread stays locked and ends with its goroutine.
	if err := setThread(unix.SYS_SETRESGID, keep, id); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	if err := setThread(unix.SYS_SETRESUID, keep, id); err != nil {
		_ = setThread(unix.SYS_SETRESGID, keep, 0)
		runtime.UnlockOSThread()
		return err
	}
	defer func() {
		if setThread(unix.SYS_SETRESUID, keep, 0) == nil && setThread(unix.SYS_SETRESGID, keep, 0) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

func setThread(call, keep, effective uintptr) error {
	if _, _, errno := unix.RawSyscall(call, keep, effective, keep); errno != 0 {
		return fmt.Errorf("act as user %d: %w", effective, errno)
	}
	return nil
}

// credential is whom a process is started as.
func (s *Server) credential(root bool) *syscall.Credential {
	if s.o.UID == 0 || !isRoot {
		return nil
	}
	if root {
		return &syscall.Credential{}
	}
	return &syscall.Credential{Uid: uint32(s.o.UID), Gid: uint32(s.o.UID)}
}
