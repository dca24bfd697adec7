package sandboxtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ProbeSocketEnv names the environment variable with the path of the socket
// on which a probe guest takes connections; "" means /run/probe.sock.
const ProbeSocketEnv = "GLOVEBOX_PROBE_SOCKET"

// Guest runs the process as a probe guest, and does not return, if it was
// executed as "... guest serve" or "... guest connect". TestMain of a package
// that calls [Exercise] calls it, so that the test binary itself is what its
// driver puts into sandboxes.
//
// A probe guest is the least that keeps the contract of a guest daemon: as
// the first process it takes its standard input as the first stream, and each
// connector hands it another. On a stream it answers questions about what can
// be done and seen inside, which is what the suite is about.
func Guest() {
	if len(os.Args) < 3 || os.Args[1] != "guest" {
		return
	}
	var err error
	switch os.Args[2] {
	case "serve":
		err = serve(0)
	case "connect":
		err = handOver(0)
	case "sleep": // a child of the op "processes"
		time.Sleep(time.Hour)
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func probeSocket() string {
	if p := os.Getenv(ProbeSocketEnv); p != "" {
		return p
	}
	return "/run/probe.sock"
}

// opTick lets a file grow from now on.
func opTick(q question) (reply, error) {
	f, err := os.OpenFile(q.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return reply{}, err
	}
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			if _, err := f.WriteString("x\n"); err != nil {
				return
			}
		}
	}()
	return reply{}, nil
}

// serve answers on the stream fd, if it is one, and on what connectors bring.
func serve(fd int) error {
	_ = os.MkdirAll("/run", 0o755) // to listen there will say so
	path := probeSocket()
	os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	if os.Getpid() == 1 {
		go reapAll()
	}
	if c, err := net.FileConn(os.NewFile(uintptr(fd), "stream")); err == nil {
		go answer(c)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			if s, err := receive(c.(*net.UnixConn)); err == nil {
				go answer(s)
			}
		}()
	}
}

// ServeProbe answers on every connection that l accepts, for drivers that
// reach their guests through a listener.
func ServeProbe(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go answer(c)
	}
}

// receive takes the stream that a connector sends.
func receive(c *net.UnixConn) (net.Conn, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return nil, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return nil, errors.Join(err, errors.New("no descriptor came"))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "stream")
	defer f.Close()
	return net.FileConn(f)
}

// handOver sends the stream fd to the guest, waiting for it to listen. Where
// standard input and output are pipes, it sends one end of a pair of sockets
// instead, and copies.
func handOver(fd int) error {
	if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil {
		return send(fd)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := send(pair[0]); err != nil {
		return err
	}
	unix.Close(pair[0])
	f := os.NewFile(uintptr(pair[1]), "ours")
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin) // its end is the end
		_ = c.(*net.UnixConn).CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, c)
	return err
}

// send passes the stream fd on.
func send(fd int) error {
	var c net.Conn
	var err error
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if c, err = net.Dial("unix", probeSocket()); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		return err
	}
	defer c.Close()
	_, _, err = c.(*net.UnixConn).WriteMsgUnix([]byte{1}, unix.UnixRights(fd), nil)
	return err
}

var children sync.Mutex // held while the reaper must not take a child that someone waits for

// reapAll collects orphans, as the first process must.
func reapAll() {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGCHLD)
	for range ch {
		children.Lock()
		for {
			var ws syscall.WaitStatus
			if pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
		children.Unlock()
	}
}

// question is what the suite asks; which fields matter depends on Op.
type question struct {
	Op    string
	Args  []string
	Path  string
	Bytes int64
	N     int
	For   time.Duration
}

// reply is what a probe answers.
type reply struct {
	Error string
	Text  string
	Lines []string
	N     int64
	Best  time.Duration
}

func answer(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	out := json.NewEncoder(c)
	for {
		line, err := in.ReadBytes('\n')
		var q question
		if err != nil || json.Unmarshal(line, &q) != nil {
			return
		}
		if q.Op == "raw" { // from here on the stream is echoed
			if out.Encode(reply{}) == nil {
				_, _ = io.Copy(c, in)
			}
			return
		}
		f, ok := ops[q.Op]
		if !ok {
			f = func(question) (reply, error) { return reply{}, errors.New("no such op") }
		}
		r, err := f(q)
		if err != nil {
			r.Error = err.Error()
		}
		if out.Encode(r) != nil {
			return
		}
	}
}

// ops are the questions that a probe answers.
var ops = map[string]func(question) (reply, error){
	"echo": func(q question) (reply, error) { return reply{Text: q.Path}, nil },
	"exec": opExec,
	"tick": opTick,
	"env":  func(question) (reply, error) { return reply{Lines: os.Environ()}, nil },
	"read": func(q question) (reply, error) {
		b, err := os.ReadFile(q.Path)
		return reply{Text: string(b)}, err
	},
	"list": func(q question) (reply, error) {
		entries, err := os.ReadDir(q.Path)
		var r reply
		for _, e := range entries {
			r.Lines = append(r.Lines, e.Name())
		}
		return r, err
	},
	"stat":       func(q question) (reply, error) { _, err := os.Lstat(q.Path); return reply{}, err },
	"allocate":   opAllocate,
	"fill":       opFill,
	"processes":  opProcesses,
	"spin":       opSpin,
	"interfaces": opInterfaces,
	"loopback":   opLoopback,
	"dial": func(q question) (reply, error) {
		c, err := net.DialTimeout(q.Args[0], q.Args[1], 2*time.Second)
		if err == nil {
			c.Close()
		}
		return reply{}, err
	},
	"exit": func(q question) (reply, error) { os.Exit(q.N); return reply{}, nil },
}

func opExec(q question) (reply, error) {
	children.Lock()
	defer children.Unlock()
	var out bytes.Buffer
	cmd := exec.Command(q.Args[0], q.Args[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return reply{Text: out.String(), N: int64(cmd.ProcessState.ExitCode())}, err
}

// opAllocate takes memory and writes to every page of it.
func opAllocate(q question) (reply, error) {
	const chunk = 16 << 20
	var r reply
	for r.N < q.Bytes {
		b, err := unix.Mmap(-1, 0, chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return r, err
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		r.N += chunk
	}
	return r, nil
}

// opFill writes a file until it has so many bytes.
func opFill(q question) (reply, error) {
	f, err := os.Create(q.Path)
	if err != nil {
		return reply{}, err
	}
	defer f.Close()
	b := bytes.Repeat([]byte("glovebox"), 1<<17)
	var r reply
	for r.N < q.Bytes {
		n, err := f.Write(b)
		r.N += int64(n)
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// opProcesses starts processes that do nothing and says how many it could.
func opProcesses(q question) (r reply, err error) {
	children.Lock()
	defer children.Unlock()
	var started []*exec.Cmd
	for range q.N {
		cmd := exec.Command("/proc/self/exe", "guest", "sleep")
		if err = cmd.Start(); err != nil {
			break
		}
		started = append(started, cmd)
	}
	for _, cmd := range started {
		cmd.Process.Kill()
	}
	for _, cmd := range started {
		_ = cmd.Wait()
	}
	r.N = int64(len(started))
	return r, err
}

// opSpin keeps N threads busy for a time, and says how many units of work
// they did, and what the fastest unit took: the time of one with a processor
// of its own.
func opSpin(q question) (reply, error) {
	type result struct {
		n    int64
		best time.Duration
	}
	results := make(chan result)
	end := time.Now().Add(q.For)
	for range q.N {
		go func() {
			r := result{best: time.Hour}
			x := uint64(1)
			for start := time.Now(); start.Before(end); r.n++ {
				for range 100_000 {
					x = x*6364136223846793005 + 1442695040888963407
				}
				now := time.Now()
				r.best = min(r.best, now.Sub(start))
				start = now
			}
			runtime.KeepAlive(x) // so that the work is not left out
			results <- r
		}()
	}
	r := reply{Best: time.Hour}
	for range q.N {
		one := <-results
		r.N += one.n
		r.Best = min(r.Best, one.best)
	}
	return r, nil
}

func opInterfaces(question) (reply, error) {
	ifs, err := net.Interfaces()
	var r reply
	for _, i := range ifs {
		r.Lines = append(r.Lines, fmt.Sprintf("%s %s", i.Name, i.Flags))
	}
	return r, err
}

// opLoopback sends a byte to itself over TCP.
func opLoopback(question) (reply, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return reply{}, err
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte("x"))
			c.Close()
		}
	}()
	c, err := net.DialTimeout("tcp", l.Addr().String(), 5*time.Second)
	if err != nil {
		return reply{}, err
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	return reply{Text: string(b)}, err
}
