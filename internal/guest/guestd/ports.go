//go:build linux

package guestd

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// port joins a stream to a TCP port on loopback, IPv4 first.
func (ses *session) port(conn *wire.Conn, arg string) {
	defer conn.Close()
	w := wire.NewFrameWriter(conn, wire.Header{})
	n, err := strconv.ParseUint(arg, 10, 16)
	if err != nil || n == 0 {
		_ = w.Fail(glovebox.Invalid("port", "use 1 to 65535", "%q is not a port", arg))
		return
	}
	ctx, cancel := context.WithTimeout(ses.s.ctx, 10*time.Second)
	defer cancel()
	var d net.Dialer
	tcp, err := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", arg))
	if err != nil {
		var err6 error
		if tcp, err6 = d.DialContext(ctx, "tcp6", net.JoinHostPort("::1", arg)); err6 != nil {
			_ = w.Fail(glovebox.Errorf(glovebox.CodeUnavailable, "nothing answers on port %d: %w", n, err))
			return
		}
	}
	stop := context.AfterFunc(ses.s.ctx, func() { tcp.Close() })
	defer stop()
	if w.End() != nil {
		tcp.Close()
		return
	}
	wire.Join(tcp, conn)
}

// maxListeners is how many are returned.
const maxListeners = 1000

// listeners returns the TCP ports that are listened on.
func (s *Server) listeners() *guestpb.ListenerList {
	own := ""
	if a, err := netip.ParseAddrPort(s.ProxyAddr()); err == nil {
		own = strconv.Itoa(int(a.Port()))
	}
	list := &guestpb.ListenerList{}
	inodes := map[string][]*guestpb.Listener{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			l, inode, ok := parseListener(line)
			if !ok || strconv.Itoa(int(l.Port)) == own || len(list.Listeners) >= maxListeners {
				continue
			}
			list.Listeners = append(list.Listeners, l)
			inodes["socket:["+inode+"]"] = append(inodes["socket:["+inode+"]"], l)
		}
	}
	if len(inodes) > 0 {
		nameListeners(inodes)
	}
	slices.SortFunc(list.Listeners, func(a, b *guestpb.Listener) int {
		if a.Port != b.Port {
			return int(a.Port) - int(b.Port)
		}
		return strings.Compare(a.Address, b.Address)
	})
	return list
}

// parseListener parses a line of /proc/net/tcp or tcp6.
func parseListener(line string) (l *guestpb.Listener, inode string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" {
		return nil, "", false
	}
	addr, port, ok := strings.Cut(f[1], ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || len(addr) != 8 && len(addr) != 32 {
		return nil, "", false
	}
	var raw []byte
	for i := 0; i < len(addr); i += 8 { // 32-bit words in the machine's order
		w, err := strconv.ParseUint(addr[i:i+8], 16, 32)
		if err != nil {
			return nil, "", false
		}
		raw = binary.NativeEndian.AppendUint32(raw, uint32(w))
	}
	ip, _ := netip.AddrFromSlice(raw)
	return &guestpb.Listener{Port: uint32(n), Address: ip.Unmap().String()}, f[9], true
}

// nameListeners finds the processes that hold the sockets, of several the
// first: the others have it from that one, perhaps only until they start
// another program.
func nameListeners(inodes map[string][]*guestpb.Listener) {
	dirs, _ := os.ReadDir("/proc")
	var pids []int
	for _, d := range dirs {
		if pid, err := strconv.Atoi(d.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		fds, _ := os.ReadDir(dir + "/fd")
		for _, fd := range fds {
			link, err := os.Readlink(dir + "/fd/" + fd.Name())
			if err != nil || inodes[link] == nil {
				continue
			}
			comm, _ := os.ReadFile(dir + "/comm")
			line, _ := os.ReadFile(dir + "/cmdline")
			for _, l := range inodes[link] {
				if l.Pid == 0 {
					l.Pid, l.Command = int64(pid), strings.TrimSpace(string(comm))
					if ofKernel(l.Port, line) {
						l.Command = guest.KernelCommand
					}
				}
			}
		}
	}
}

// ofKernel reports whether a kernel listens on a port for its own ends. Even one
// that talks over sockets of files has a random port, for the output of its
// children. What listens on a port that someone chose is the job's.
func ofKernel(port uint32, cmdline []byte) bool {
	const random = 16000 // gVisor gives such ports from here on, Linux from 32768
	return port >= random && bytes.Contains(cmdline, []byte("\x00/etc/glovebox/jupyter/"))
}
