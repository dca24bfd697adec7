package gvisor

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// plan is how the limits of one sandbox are enforced.
type plan struct {
	enforced map[string]string
	groups   []group // cgroups to make and to put the sentry into
	cpus     []int   // processors that the sentry may run on; nil for all
	numCPU   int     // processors that the sandbox sees
	memory   uint64  // bytes that the sandbox is told it has; 0 for the machine's
	watch    uint64  // bytes above which the sentry ends itself; 0 for never
}

// limiter plans limits with what the machine offers.
type limiter struct {
	cgroups func() cgroups
	allowed []int // the processors that we may run on
}

func newLimiter(c func() cgroups) limiter {
	var set unix.CPUSet
	var allowed []int
	if unix.SchedGetaffinity(0, &set) == nil {
		for cpu := range len(set) * 64 {
			if set.IsSet(cpu) {
				allowed = append(allowed, cpu)
			}
		}
	}
	for cpu := len(allowed); cpu < 1; cpu++ {
		allowed = append(allowed, cpu)
	}
	return limiter{cgroups: c, allowed: allowed}
}

// plan says how to enforce limits; zero ones are not.
func (l limiter) plan(id sandbox.ID, lim glovebox.Limits) *plan {
	p := &plan{enforced: make(map[string]string), numCPU: len(l.allowed), memory: uint64(lim.MemoryBytes)}
	cg := l.cgroups()
	if lim.MemoryBytes > 0 {
		// The sentry watches in any case: it ends the whole sandbox at once
		// and says why, where the kernel of a v1 cgroup picks a process.
		p.watch = uint64(lim.MemoryBytes)
		p.enforced["memory_bytes"] = "gVisor's sentry, which watches its memory"
		if cg.limit(p, id, "memory", memoryFiles(cg.version, lim.MemoryBytes)) {
			p.enforced["memory_bytes"] = cg.name("memory")
		}
	}
	if lim.CPUMillis > 0 {
		l.planCPU(p, id, lim.CPUMillis)
	}
	if lim.Processes > 0 {
		p.enforced["processes"] = "gVisor's sentry, a pids cgroup inside"
	}
	if lim.DiskBytes > 0 {
		p.enforced["disk_bytes"] = "gVisor's sentry, the size of the overlay"
	}
	return p
}

func (l limiter) planCPU(p *plan, id sandbox.ID, millis int64) {
	n := int((millis + 999) / 1000)
	// Programs that see one processor leave out locking that a sandbox, whose
	// threads run on several, needs.
	p.numCPU = max(2, min(n, len(l.allowed)))
	if l.cgroups().limit(p, id, "cpu", cpuFiles(l.cgroups().version, millis)) {
		p.enforced["cpu_millis"] = l.cgroups().name("cpu")
		return
	}
	if n >= len(l.allowed) {
		if millis >= int64(len(l.allowed))*1000 {
			p.enforced["cpu_millis"] = fmt.Sprintf("the machine, which has %d processors", len(l.allowed))
		}
		return
	}
	// Which ones does not matter, but not the same for all sandboxes.
	cpus := slices.Clone(l.allowed)
	rand.Shuffle(len(cpus), func(i, j int) { cpus[i], cpus[j] = cpus[j], cpus[i] })
	p.cpus = cpus[:n]
	if millis == int64(n)*1000 { // a part of a processor is rounded up, and not claimed
		p.enforced["cpu_millis"] = fmt.Sprintf("processor affinity, %d of %d processors", n, len(l.allowed))
	}
}

// onCPUs runs f on a thread of its own that is bound to cpus, which what f
// starts inherits. The thread ends with it.
func onCPUs(cpus []int, f func() error) error {
	if cpus == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		var set unix.CPUSet
		for _, c := range cpus {
			set.Set(c)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			done <- fmt.Errorf("bind to processors %v: %w", cpus, err)
			return
		}
		done <- f()
	}()
	return <-done
}
