//go:build linux

package proc

import "golang.org/x/sys/unix"

// waitCalls are the system calls that wait for several descriptors.
var waitCalls = map[int]bool{
	unix.SYS_PPOLL: true, unix.SYS_PSELECT6: true,
}

// epollCalls are those of them that wait for a set that was made before.
var epollCalls = map[int]bool{unix.SYS_EPOLL_PWAIT: true, unix.SYS_EPOLL_PWAIT2: true}
