package gvisor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	erofs "github.com/erofs/go-erofs"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

// packOnce returns a function that packs the guest binary into an EROFS
// image in dir, unless it is there, and returns the image's path. After it
// succeeded once it only checks that the image is still there.
func packOnce(dir, binary string) func() (string, error) {
	var mu sync.Mutex
	var path string
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if path != "" {
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
		p, err := packGuest(dir, binary)
		if err != nil {
			return "", &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "pack the guest binary", Msg: binary,
				Hint: "the data directory needs room for a second copy of the binary", Err: err}
		}
		path = p
		return path, nil
	}
}

// packGuest packs binary under the name of its SHA-256. Processes that want
// the same take turns; images of other binaries are removed, which running
// sandboxes do not mind, since they hold theirs open.
func packGuest(dir, binary string) (path string, err error) {
	src, err := os.Open(binary)
	if err != nil {
		return "", err
	}
	defer src.Close()
	h := sha256.New()
	if _, err := io.Copy(h, src); err != nil {
		return "", err
	}
	path = filepath.Join(dir, hex.EncodeToString(h.Sum(nil))+".erofs")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	removeOthers(dir, path)
	if err := checkRoom(dir, src); err != nil {
		return "", err
	}
	return path, writeGuestImage(path, src)
}

// checkRoom returns an error if dir has no room for the image of src: twice
// its size, since the packer keeps a copy of what it packs, which it lets go
// of late when it fails.
func checkRoom(dir string, src *os.File) error {
	info, err := src.Stat()
	if err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	free, need := int64(fs.Bavail)*fs.Bsize, 2*info.Size()+1<<20
	if free < need {
		return fmt.Errorf("%s has %d MiB of space left, %d MiB are needed", dir, free>>20, need>>20)
	}
	return nil
}

// removeOthers removes guest images that nobody made in the last minute: a
// process of another version may be about to open a newer one.
func removeOthers(dir, keep string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err == nil && p != keep && e.Name() != "lock" && time.Since(info.ModTime()) > time.Minute {
			os.RemoveAll(p)
		}
	}
}

// writeGuestImage writes an image that holds src as "/glovebox".
func writeGuestImage(path string, src *os.File) (err error) {
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "tmp-")
	if err != nil {
		return err
	}
	defer func() {
		tmp.Close()
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	w := erofs.Create(tmp, erofs.WithBuildTime(1, 0), erofs.WithTempDir(filepath.Dir(path)))
	f, err := w.Create("/glovebox")
	if err != nil {
		return err
	}
	n, err := io.Copy(f, src)
	if err != nil {
		return err
	}
	// gVisor maps programs into memory, which data that is stored beside its
	// inode can't be. Only files of less than a block are; no program is.
	if n < 1<<16 {
		return fmt.Errorf("%d bytes are too few for a program", n)
	}
	if err := errors.Join(f.Chmod(0o755), f.Close(), w.Chmod("/", 0o755), w.Close()); err != nil {
		return err
	}
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// lockFile takes an exclusive lock on a file, which it makes if need be.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
