package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/state/statefile"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// snapshotTimeout bounds a Snapshot whose ctx has no earlier deadline: a
// machine of 2 GiB on a slow disk.
const snapshotTimeout = 2 * time.Minute

// partial is added to the name of a template that is being written. What an
// interrupted Snapshot left under it, the next one of the same name removes.
const partial = ".partial"

// Snapshot implements [sandbox.Snapshotter]. It ends the sandbox also if it
// fails once gVisor has begun.
func (d *Driver) Snapshot(ctx context.Context, id sandbox.ID, dir string) error {
	if err := checkID(id); err != nil {
		return notFound(id, "does not exist")
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	unlock, err := local.LockDir(ctx, d.dir(id))
	if err != nil {
		return snapshotError(id, err)
	}
	if unlock == nil {
		return notFound(id, "does not exist")
	}
	defer unlock()
	r, err := readRecord(d.dir(id))
	switch {
	case err != nil:
		return snapshotError(id, err)
	case r == nil || !r.Started:
		return notFound(id, "does not exist")
	case !r.Process.Alive():
		return notFound(id, "has ended")
	case r.Pause != "":
		return glovebox.Errorf(glovebox.CodeConflict, "sandbox %s is paused", id)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return glovebox.Errorf(glovebox.CodeConflict, "the template %s exists", dir)
	}
	// The guest must not wait for what comes on a stream that will not be.
	if c := d.takeFirst(id); c != nil {
		c.Close()
	}
	if err := d.freeze(ctx, r, dir); err != nil {
		return snapshotError(id, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

func snapshotError(id sandbox.ID, err error) error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "freeze sandbox " + string(id), Err: err}
}

// freeze writes the template aside, ends the sandbox and gives the template
// its name.
func (d *Driver) freeze(ctx context.Context, r *record, dir string) (err error) {
	aside := dir + partial
	unlock, err := makeAside(aside)
	if err != nil {
		return err
	}
	defer unlock()
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(aside))
		}
	}()
	m := &manifest{Limits: r.Limits}
	if spare := d.take(d.spare, r.ID); spare != nil {
		defer spare.Close() // when it is frozen
		m.Spare = waitsOn(spare)
	}
	if m.Key, err = d.TemplateKey(); err != nil {
		return err
	}
	if m.Image, err = fileIDOf(r.Image); err != nil {
		return err
	}
	files, err := d.save(ctx, r, aside)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err := errors.Join(err, d.remove(r.ID, d.dir(r.ID))); err != nil {
		return err
	}
	for i, f := range files {
		sum, err := sumOf(f)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err := errors.Join(err, f.Sync()); err != nil {
			return err
		}
		m.Files = append(m.Files, manifestEntry{templateFiles[i], info.Size(), sum})
	}
	if err := writeManifest(aside, m); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, dir, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("name the template: %w", err)
	}
	return syncDir(filepath.Dir(dir))
}

// waitsOn reports whether the guest has said that it waits on its spare
// stream, which it does as soon as it runs.
func waitsOn(spare net.Conn) bool {
	b := make([]byte, 2)
	_ = spare.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	n, err := spare.Read(b)
	return err == nil && n == 1 && b[0] == wire.SpareMark
}

// makeAside makes an empty directory and holds it. One that nobody holds is
// what was interrupted.
func makeAside(aside string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(aside), 0o700); err != nil {
		return nil, err
	}
	for range 2 {
		err := os.Mkdir(aside, 0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		fresh := err == nil
		unlock, err := local.TryLockDir(aside)
		if err != nil {
			return nil, err
		}
		if unlock == nil {
			break
		}
		if fresh {
			return unlock, nil
		}
		err = os.RemoveAll(aside)
		unlock()
		if err != nil {
			return nil, err
		}
	}
	return nil, glovebox.Errorf(glovebox.CodeConflict, "another process writes %s", aside)
}

// save has gVisor write the state of a sandbox, which ends it.
func (d *Driver) save(ctx context.Context, r *record, aside string) (files []*os.File, err error) {
	for _, name := range templateFiles {
		f, err := os.OpenFile(filepath.Join(aside, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	ctl, err := connect(ctx, r.sentry(), d.dir(r.ID))
	if err != nil {
		return files, err
	}
	defer ctl.close()
	if err := ctl.conn.Call(boot.ContMgrCheckpoint, &control.SaveOpts{
		// Compressed pages could not be read all at once, and reading is what counts.
		Metadata:                       statefile.CompressionLevelNone.ToMetadata(),
		AppMFExcludeCommittedZeroPages: true,
		HavePagesFile:                  true,
		FilePayload:                    urpc.FilePayload{Files: files},
	}, nil); err != nil {
		return files, fmt.Errorf("save the state: %s", brief(err))
	}
	return files, nil
}

// brief says what gVisor says, which goes on with what it was about to write
// and with its stack, for many lines.
func brief(err error) string {
	const most = 200
	text := err.Error()
	if strings.Contains(text, unix.ENOSPC.Error()) {
		return unix.ENOSPC.Error()
	}
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

func writeManifest(dir string, m *manifest) error {
	b, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, manifestFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Sync(), f.Close(), syncDir(dir))
}
