//go:build linux

package service

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// ringSize is how much of a service's output is kept, in bytes.
const ringSize = 64 << 10

// ring keeps the end of what is written to it.
type ring struct {
	mu  sync.Mutex
	buf []byte
}

func (r *ring) write(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, p...)
	if len(r.buf) > 2*ringSize { // moved seldom, not at every write
		r.buf = append(r.buf[:0], r.buf[len(r.buf)-ringSize:]...)
	}
}

// note adds a line of the supervisor's own.
func (r *ring) note(format string, args ...any) {
	r.write([]byte("[glovebox: " + strings.TrimSpace(fmt.Sprintf(format, args...)) + "]\n"))
}

// tail returns a copy of the last n bytes.
func (r *ring) tail(n int) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(max(n, 0), ringSize, len(r.buf))
	return bytes.Clone(r.buf[len(r.buf)-n:])
}
