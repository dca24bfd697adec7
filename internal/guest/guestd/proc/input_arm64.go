//go:build linux

package proc

import "golang.org/x/sys/unix"

// waitCalls are the system calls that wait for several descriptors.
var waitCalls = map[int]bool{
	unix.SYS_PPOLL: true, unix.SYS_PSELECT6: true,
	unix.SYS_EPOLL_PWAIT: true, unix.SYS_EPOLL_PWAIT2: true,
}
