package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// BuildOptions configures Build.
type BuildOptions struct {
	Mirror string    // URL of a Debian archive; empty for the host's own if it runs Debian, else Debian's
	Log    io.Writer // gets the builder's output; nil drops it
	Force  bool      // build even if the image is there
	Host   Host      // how the host reaches the registries of Python's and Node's packages
}

// Build makes the image of this binary's definition unless it is there.
// Only one build of an image runs at a time on a machine; others wait for it.
// It needs the Debian package mmdebstrap and, for an ordinary user, uidmap
// and entries in /etc/subuid and /etc/subgid. It takes about five minutes
// and 8 GiB of temporary space, in TMPDIR or else in /var/tmp.
func (s Store) Build(ctx context.Context, o BuildOptions) (Image, error) {
	if img, err := s.Current(); err == nil && !o.Force {
		return img, nil
	}
	if err := Ready(); err != nil {
		return Image{}, err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return Image{}, fmt.Errorf("make the image directory: %w", err)
	}
	unlock, err := s.lock(ctx, func() {
		if o.Log != nil {
			fmt.Fprintln(o.Log, "Another process builds an image here: waiting until it has ended.")
		}
	})
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if img, err := s.Current(); err == nil && !o.Force { // built by another meanwhile
		return img, nil
	}
	tmp, err := os.MkdirTemp(s.Dir, buildPrefix)
	if err != nil {
		return Image{}, fmt.Errorf("make a build directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := bootstrap(ctx, tmp, o); err != nil {
		return Image{}, err
	}
	if err := publish(filepath.Join(tmp, "image.erofs"), s.Path(Digest())); err != nil {
		return Image{}, fmt.Errorf("keep the image: %w", err)
	}
	return s.Current()
}

// Ready reports, as an error with what to do, why an image can't be built on
// this machine.
func Ready() error {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "build the machine image", Msg: "mmdebstrap is not installed",
			Hint: "run: sudo apt-get install -y mmdebstrap uidmap"}
	}
	if os.Getuid() == 0 {
		return nil
	}
	if _, err := exec.LookPath("newuidmap"); err != nil {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "build the machine image", Msg: "newuidmap is not installed",
			Hint: "run: sudo apt-get install -y uidmap"}
	}
	return checkSubIDs("/etc")
}

// setupDir is where the definition lies in the file system while it is made.
const setupDir = "/glovebox-setup"

// bootstrap leaves image.erofs in dir.
func bootstrap(ctx context.Context, dir string, o BuildOptions) error {
	setup := filepath.Join(dir, "glovebox-setup")
	if err := writeDefinition(setup, o.Host); err != nil {
		return err
	}
	mode := "unshare"
	if os.Getuid() == 0 {
		mode = "root"
	} else if err := os.Chmod(dir, 0o777); err != nil { // for the sub-uids of the namespace; dir's parent stays as it is
		return err
	}
	args := []string{"--mode=" + mode, "--variant=minbase", "--format=null", "--include=" + strings.Join(packages(), ",")}
	for _, opt := range lines("dpkg.cfg") {
		args = append(args, "--dpkgopt="+opt)
	}
	args = append(args,
		"--customize-hook=copy-in "+quote(setup)+" /",
		`--customize-hook=chroot "$1" sh `+setupDir+"/setup.sh",
		`--customize-hook=rm -r "$1"`+setupDir,
		// In the chroot, because the host's mkfs.erofs may be too old. gVisor can't map
		// files whose end is inside the inode. Without xattrs, whose collection
		// would enter what is excluded.
		`--customize-hook=chroot "$1" mkfs.erofs --quiet -x-1 -E noinline_data -T 1577836800 -U 00000000-0000-0000-0000-000000000000`+
			` --exclude-regex='^(proc|sys|dev|tmp)/.*' --exclude-path=image.erofs /image.erofs /`,
		"--customize-hook=download /image.erofs "+quote(filepath.Join(dir, "image.erofs")),
		suite, "-",
	)
	if m := mirror(o.Mirror); m != "" {
		args = append(args, m)
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", args...)
	cmd.Dir = "/"
	cmd.Env = append(append(os.Environ(), tempEnv(os.Getenv, "/var/tmp")...), o.Host.Env...)
	var tail tailWriter
	cmd.Stdout, cmd.Stderr = nil, &tail
	if o.Log != nil {
		cmd.Stderr = io.MultiWriter(o.Log, &tail)
	}
	// mmdebstrap unmounts and removes its temporary tree when it is told to end,
	// and what it runs has to end with it. The kernel tells it if this process is
	// killed: strictly, if this thread ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "build the machine image", Msg: "mmdebstrap failed",
			Err: errors.Join(err, errors.New(tail.String())), Hint: bootstrapHint(tail.String())}
	}
	return nil
}

// tempEnv has the file system made in dir where TMPDIR does not say where: /tmp
// is in memory on many hosts, Debian 13 among them, and often too small for it.
func tempEnv(getenv func(string) string, dir string) []string {
	if fi, err := os.Stat(dir); getenv("TMPDIR") != "" || err != nil || !fi.IsDir() {
		return nil
	}
	return []string{"TMPDIR=" + dir}
}

// quote makes s one word of a hook.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// bootstrapHint says what to do about the failures that machines commonly cause.
func bootstrapHint(output string) string {
	switch {
	case strings.Contains(output, "subuid"), strings.Contains(output, "newuidmap"):
		return "an ordinary user needs sub-uids; run: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER"
	case strings.Contains(output, "unshare"):
		return "user namespaces may be off; run: glovebox doctor"
	case strings.Contains(output, "CERTIFICATE_VERIFY_FAILED"), strings.Contains(output, "UNABLE_TO_GET_ISSUER"), strings.Contains(output, "SELF_SIGNED"):
		return "add your network's certificate authority to this host's store, or name its file in SSL_CERT_FILE"
	case strings.Contains(output, "pip/_vendor"), strings.Contains(output, "No matching distribution"), strings.Contains(output, "npm error"), strings.Contains(output, "npm ERR"):
		return "check that pip and npm on this host can install packages; the build uses their settings"
	case strings.Contains(output, "No space left"):
		return "about 8 GiB are needed in TMPDIR, or /var/tmp if it is not set, and the data directory"
	case strings.Contains(output, "keyring"), strings.Contains(output, "NO_PUBKEY"):
		return "run: sudo apt-get install -y debian-archive-keyring"
	}
	return "check that the Debian archive can be reached, or name a mirror with GLOVEBOX_DEBIAN_MIRROR"
}

// publish makes the file at from durable and gives it its final name.
func publish(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// lock takes an exclusive lock on a file, waiting until ctx ends. If it has to
// wait, it calls waits once.
func lock(ctx context.Context, path string, waits func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the build lock: %w", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() {
				// A process that is just being started may have a copy of the descriptor.
				_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
				f.Close()
			}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if waits != nil {
			waits()
			waits = nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// tailWriter keeps the last 4 KiB that were written to it.
type tailWriter struct{ b []byte }

func (w *tailWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	if n := len(w.b) - 4096; n > 0 {
		w.b = append(w.b[:0], w.b[n:]...)
	}
	return len(p), nil
}

func (w *tailWriter) String() string { return string(bytes.TrimSpace(w.b)) }
