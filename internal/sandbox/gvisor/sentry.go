package gvisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/control/server"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"

	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// nobody is the user that the sentry runs as in its user namespace.
const nobody = 65534

// sentry is a sandbox's process while it is being started.
type sentry struct {
	cmd   *exec.Cmd
	gate  *os.File // one byte lets it begin
	ready *os.File // gives one byte when it is ready for control
	first net.Conn // our end of its first process's standard input
	spare net.Conn // our end of its standard output
}

// close releases what the creator holds of it.
func (s *sentry) close() {
	s.gate.Close()
	s.ready.Close()
}

// hangUp closes the streams to the guest.
func (s *sentry) hangUp() {
	s.first.Close()
	s.spare.Close()
}

// donation collects the files that a process inherits and the numbers they
// will have there.
type donation struct {
	files []*os.File
	err   error
}

// add gives a file, which the donation then owns, and returns its number.
func (d *donation) add(f *os.File, err error) string {
	if err != nil && d.err == nil {
		d.err = err
	}
	if f == nil {
		f, _ = os.Open(os.DevNull) // keeps the numbers right until the error is seen
	}
	d.files = append(d.files, f)
	return strconv.Itoa(2 + len(d.files))
}

func (d *donation) close() {
	for _, f := range d.files {
		f.Close()
	}
}

// startSentry starts the process of a sandbox, which waits at its gate.
func (d *Driver) startSentry(s sandbox.Spec, p *plan, guest string, attr *syscall.SysProcAttr) (_ *sentry, err error) {
	var don donation
	defer don.close()
	dir := d.dir(s.ID)

	gateR, gateW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	readyR, readyW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, gateR.Close(), gateW.Close())
	}
	first, stdin, err := socketPair()
	if err != nil {
		return nil, errors.Join(err, gateR.Close(), gateW.Close(), readyR.Close(), readyW.Close())
	}
	spare, stdout, err := socketPair()
	if err != nil {
		return nil, errors.Join(err, gateR.Close(), gateW.Close(), readyR.Close(), readyW.Close(), first.Close(), stdin.Close())
	}
	st := &sentry{gate: gateW, ready: readyR, first: first, spare: spare}
	defer func() {
		if err != nil {
			st.close()
			st.hangUp()
		}
	}()

	gate := don.add(gateR, nil)
	cause := don.add(local.HeldFile(filepath.Join(dir, causeFile)))
	limit := "0"
	if p.watch > 0 {
		err := writeLimit(filepath.Join(dir, limitFile), p.watch)
		f, err2 := os.Open(filepath.Join(dir, limitFile))
		limit = don.add(f, errors.Join(err, err2))
	}
	flags := []string{argv0, "--root=" + d.o.StateDir, "--network=none", "--platform=systrap", "--directfs=false",
		"--overlay2=none", "--ignore-cgroups", "--host-uds=none", "--character-device-policy=emulated-only"}
	if d.o.DebugLogDir != "" {
		log := filepath.Join(d.o.DebugLogDir, string(s.ID)+".log")
		flags = append(flags, "--debug", "--debug-log-fd="+don.add(os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)))
	}
	flags = append(flags, "boot", "--bundle=/", "--apply-caps", "--setup-root",
		"--spec-fd="+don.add(specFile(string(s.ID), s.Limits.Processes)),
		"--start-sync-fd="+don.add(readyW, nil),
		"--controller-fd="+don.add(controlSocket(dir)),
		"--io-fds="+don.add(os.Open(s.Image))+","+don.add(os.Open(guest)),
		"--gofer-filestore-fds="+don.add(filestore(dir)),
		"--gofer-mount-confs="+mountConfs(s.Limits.DiskBytes),
		"--stdio-fds="+don.add(stdin, nil)+","+don.add(stdout, nil)+","+don.add(os.OpenFile(os.DevNull, os.O_WRONLY, 0)),
		"--cpu-num="+strconv.Itoa(p.numCPU),
	)
	if p.memory != 0 {
		flags = append(flags, "--total-memory="+strconv.FormatUint(p.memory, 10))
	}
	flags = append(flags, "--total-host-memory="+strconv.FormatUint(hostMemory(), 10), string(s.ID))
	if don.err != nil {
		return nil, don.err
	}

	log, err := os.OpenFile(filepath.Join(dir, bootLogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	st.cmd = &exec.Cmd{Path: d.o.Runsc, Args: flags, ExtraFiles: don.files, Stderr: log, SysProcAttr: attr,
		Env: []string{fmt.Sprintf("%s=%s,%s,%s", bootEnv, gate, cause, limit)}}
	return st, onCPUs(p.cpus, st.cmd.Start)
}

// procAttr puts the sentry into namespaces of its own, as a user that is
// nobody inside: for root also outside, for others themselves. The three
// capabilities are for making its empty root and for giving them up.
func procAttr() *syscall.SysProcAttr {
	uid, gid, root := os.Geteuid(), os.Getegid(), os.Geteuid() == 0
	if root {
		uid, gid = nobody, nobody
	}
	return &syscall.SysProcAttr{
		Setsid: true, // a signal to our terminal's process group is not for it
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID |
			unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: nobody, HostID: uid, Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: nobody, HostID: gid, Size: 1}},
		GidMappingsEnableSetgroups: root, // others may not, and keep their groups
		Credential:                 &syscall.Credential{Uid: nobody, Gid: nobody},
		AmbientCaps:                []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP},
	}
}

// mountConfs describes the two file systems that come as descriptors: the
// image under an overlay in a file, and the guest's, which is read-only.
func mountConfs(disk int64) string {
	root := "erofs:anon"
	if disk > 0 {
		root += ":size=" + strconv.FormatInt(disk, 10)
	}
	return root + ",erofs:none"
}

// filestore makes the file that holds what the sandbox writes. It has no
// name, so the kernel frees it with the sandbox.
func filestore(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "disk-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	pgalloc.IMAWorkAroundForMemFile(f.Fd())
	return f, nil
}

// controlSocket makes the socket on which gVisor takes commands.
func controlSocket(dir string) (*os.File, error) {
	fd, err := server.CreateSocket(filepath.Join(dir, socketFile))
	if err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), socketFile), nil
}

// socketPair returns two joined sockets: ours as a connection, theirs as a
// file to give away.
func socketPair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "stream")
	ours, err = net.FileConn(f)
	f.Close()
	if err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(fds[1]), "stream"), nil
}

func hostMemory() uint64 {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return 0
	}
	return si.Totalram * uint64(si.Unit)
}

// awaitReady waits until the sentry takes commands. If it ends instead, the
// error has what it said last.
func (s *sentry) awaitReady(ctx context.Context, dir string) error {
	defer after(ctx, func() { s.ready.Close() })()
	if n, _ := s.ready.Read(make([]byte, 1)); n == 1 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	said := local.ReadNote(filepath.Join(dir, bootLogFile))
	if i := strings.LastIndexByte(said, '\n'); i >= 0 && len(said)-i > 20 {
		said = said[i+1:]
	}
	return fmt.Errorf("gVisor did not start: %s", said)
}
