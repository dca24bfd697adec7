//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropStartPages gives back the memory that only starting needed: the heap's,
// and the pages of the binary that initialization ran through, most of which
// are gVisor's and the providers' and are not used by an idle server. They
// are clean pages of a file: what is needed again is mapped again.
func dropStartPages() {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 6 || fields[5] != exe || fields[1] != "r-xp" && fields[1] != "r--p" {
			continue // never what was written to: that would be lost
		}
		var from, to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err == nil && to > from {
			madvise(from, to-from)
		}
	}
}

// madvise drops the pages of a range of addresses of the binary.
func madvise(from, size uintptr) {
	start := *(*unsafe.Pointer)(unsafe.Pointer(&from)) // an address of ours that is not on the heap
	unix.Madvise(unsafe.Slice((*byte)(start), size), unix.MADV_DONTNEED)
}
