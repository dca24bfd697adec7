package gvisor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// guestCaps are the capabilities of the guest daemon, inside. It runs others
// as other users, limits, watches and kills them, and names the machine. The
// kernel that honours them is gVisor's; the host's sees none.
var guestCaps = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
	"CAP_NET_BIND_SERVICE", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_ADMIN",
	"CAP_SYS_CHROOT", "CAP_SYS_NICE", "CAP_SYS_PTRACE", "CAP_SYS_RESOURCE",
}

// guestEnv is the environment of the guest daemon: nothing of the host's.
var guestEnv = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "GOTRACEBACK=single",
}

// shmBytes is the size of /dev/shm. It counts as memory.
const shmBytes = 256 << 20

// specOf describes a sandbox to gVisor. The root file system and the guest's
// come as descriptors, in the order of the mounts; the sources named here are
// only names.
func specOf(id string, processes int64) *specs.Spec {
	env, rlimits := guestEnv, []specs.POSIXRlimit{
		{Type: "RLIMIT_NOFILE", Soft: 65_536, Hard: 1 << 20},
		{Type: "RLIMIT_FSIZE", Soft: 1<<64 - 1, Hard: 1<<64 - 1},
	}
	if processes > 0 {
		env = append(slices.Clone(env), pidsEnv+"="+strconv.FormatInt(processes, 10))
		// A second bound, for each user but root.
		rlimits = append(rlimits, specs.POSIXRlimit{Type: "RLIMIT_NPROC", Soft: uint64(processes), Hard: uint64(processes)})
	}
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: "glovebox",
		Process: &specs.Process{
			Args: []string{GuestDir + "/glovebox", "guest", "serve"},
			Env:  env,
			Cwd:  "/",
			Capabilities: &specs.LinuxCapabilities{
				Bounding: guestCaps, Effective: guestCaps, Permitted: guestCaps,
			},
			Rlimits: rlimits,
			// No program gains what its file grants: neither the image's
			// set-user-ID programs nor any that a package brings.
			NoNewPrivileges: true,
		},
		Root: &specs.Root{Path: "/"},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro", "nosuid", "noexec"}},
			{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec"}},
			{Destination: "/dev", Type: "dev", Source: "dev"},
			// What gVisor has there is for root alone: no semaphore and no
			// shared memory of POSIX, so no multiprocessing of Python's.
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "nodev", "noexec", "mode=1777", "size=" + strconv.Itoa(shmBytes)}},
			// gVisor mounts a tmpfs over an empty /tmp, which would be memory
			// and not count as disk, unless the spec has a mount there; one of
			// a type that it does not know it skips.
			{Destination: "/tmp", Type: "glovebox-none", Source: "none"},
			{Destination: GuestDir, Type: "erofs", Source: "/guest.erofs", Options: []string{"ro", "nosuid"}},
		},
		Annotations: map[string]string{
			"dev.gvisor.spec.rootfs.source":  "/image.erofs",
			"dev.gvisor.spec.rootfs.type":    "erofs",
			"dev.gvisor.spec.rootfs.overlay": "memory",
		},
		Linux: &specs.Linux{
			CgroupsPath: "/" + id,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.MountNamespace},
			},
		},
	}
}

// specFile returns the spec in a file that has no name anywhere.
func specFile(id string, processes int64) (*os.File, error) {
	b, err := json.Marshal(specOf(id, processes))
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("spec", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "spec")
	if _, err := f.ReadFrom(bytes.NewReader(b)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
