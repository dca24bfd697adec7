package gvisor

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bootEnv carries what the driver tells the sentry's process before gVisor's
// own code runs in it: "gate,cause,limit". gate is the descriptor of a pipe
// from which one byte is read first; cause that of a file for the reason why
// the process ended itself; limit that of a file with the bytes of memory
// above which it does, 0 for none.
const bootEnv = "GLOVEBOX_BOOT"

// exitMemory is the exit status of a sentry that went over its memory limit:
// what a shell shows for a process that the kernel's OOM killer ended.
const exitMemory = 137

// bootHeap is how large the sentry's heap may become before garbage is
// collected, for the first bootTime.
const (
	bootHeap = 64 << 20
	bootTime = 3 * time.Second
)

// causeMemory is written to the cause file, with the limit.
const causeMemory = "killed: out of memory (limit %d MiB)"

// bootCause keeps the cause file of a sentry's process from being collected,
// and so closed.
var bootCause *os.File //nolint:unused // nobody has to read it

// enterBoot prepares a process to be a sandbox's sentry.
func enterBoot() {
	var gate, cause, limit int
	if _, err := fmt.Sscanf(os.Getenv(bootEnv), "%d,%d,%d", &gate, &cause, &limit); err != nil {
		fatalBoot("its environment is malformed", err)
	}
	// gVisor executes our binary once more, to unmount /proc.
	os.Unsetenv(bootEnv)

	// The creator opens the gate once it has written down who we are and has
	// put us into our cgroups. If it dies before, there would be no record of
	// us: the pipe breaks and we end.
	g := os.NewFile(uintptr(gate), "gate")
	if n, err := g.Read(make([]byte, 1)); n != 1 {
		fatalBoot("its creator is gone", err)
	}
	g.Close()

	// A sentry that starts, and most of all one that reads the state of a
	// template, makes much and drops little: collecting only delays it.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(bootHeap)
	time.AfterFunc(bootTime, func() {
		debug.SetMemoryLimit(math.MaxInt64)
		debug.SetGCPercent(100)
		debug.FreeOSMemory()
	})

	// When the machine runs out of memory, sandboxes go first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)

	// Stays open in any case: a lock on it is how Destroy knows that we, and
	// what we started, are gone.
	c := os.NewFile(uintptr(cause), "cause")
	bootCause = c
	if limit == 0 {
		return
	}
	w, err := newMemoryWatch(os.NewFile(uintptr(limit), limitFile), c)
	if err != nil {
		fatalBoot("memory can't be watched", err)
	}
	go w.run()
}

func fatalBoot(msg string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %s: %v\n", argv0, msg, err)
	os.Exit(128)
}

// memoryWatch ends the sentry's process when the sandbox uses more memory
// than it may. It stands in for a memory cgroup where the user has none.
//
// The memory of applications is one memfd of the sentry, whose allocated
// blocks the kernel counts exactly, and the sentry's own is its Go heap. Both
// are read with calls that the sentry's seccomp filter allows. How soon it
// looks again depends on how much is left, so that even what touches memory
// as fast as it can is caught close to the limit.
type memoryWatch struct {
	limit *atomic.Uint64 // in a file that is mapped: who adopts the sandbox may change it
	cause *os.File
	dev   uint64 // the device number of all memfds
	heap  []metrics.Sample
}

const (
	watchFDs     = 300     // descriptors looked at for memfds; the sentry's are opened early
	watchRescan  = 64      // rounds between looking for new ones
	watchFastest = 4 << 30 // bytes a second that a sandbox is assumed to touch at most
	watchMin     = 5 * time.Millisecond
	watchMax     = 250 * time.Millisecond
)

func newMemoryWatch(file, cause *os.File) (*memoryWatch, error) {
	limit, err := mapLimit(file)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("glovebox-probe", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	return &memoryWatch{limit: limit, cause: cause, dev: st.Dev, heap: []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}}, nil
}

// mapLimit maps the file that writeLimit wrote: a number in memory, which the
// sentry may read under seccomp and its owner may change.
func mapLimit(f *os.File) (*atomic.Uint64, error) {
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the limit: %w", err)
	}
	return (*atomic.Uint64)(unsafe.Pointer(&m[0])), nil
}

// writeLimit writes the file that mapLimit maps, in place.
func writeLimit(path string, bytes uint64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, bytes), 0)
	return err
}

func (w *memoryWatch) run() {
	for {
		used, limit := w.used(), w.limit.Load()
		if used > limit {
			fmt.Fprintf(w.cause, causeMemory, limit>>20)
			os.Exit(exitMemory)
		}
		time.Sleep(watchPause(limit - used)) //nolint:forbidigo // how much is used has to be looked up
	}
}

// watchPause returns how long free bytes last at least.
func watchPause(free uint64) time.Duration {
	d := time.Duration(float64(free) / watchFastest * float64(time.Second))
	return min(max(d, watchMin), watchMax)
}

// used returns the bytes that the sandbox and its sentry use. It looks at all
// descriptors each time, since the sentry opens memfds while it starts; that
// takes less than 0.1 ms.
func (w *memoryWatch) used() uint64 {
	var sum uint64
	for fd := 3; fd < watchFDs; fd++ {
		sum += w.blocks(fd)
	}
	metrics.Read(w.heap)
	return sum + w.heap[0].Value.Uint64() - w.heap[1].Value.Uint64()
}

// blocks returns the bytes that a memfd holds, 0 for what is none.
func (w *memoryWatch) blocks(fd int) uint64 {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != w.dev || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return uint64(st.Blocks) * 512
}
