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

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/cpuid"
	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"
	"gvisor.dev/gvisor/runsc/version"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// templateFormat is raised when templates of former versions can't be used:
// when what the driver gives to gVisor, or what it expects in a template,
// changes.
const templateFormat = 2

// manifestFile describes a template. It is written last.
const manifestFile = "manifest.json"

// templateFiles are what gVisor writes and reads, in its order. The pages are
// in a file of their own, so that they are loaded at once with the rest.
var templateFiles = []string{
	checkpointfiles.StateFileName, checkpointfiles.PagesMetadataFileName, checkpointfiles.PagesFileName,
}

// manifest is what is known of a template.
type manifest struct {
	Key    string          `json:"key"` // [Driver.TemplateKey] of its maker
	Image  fileID          `json:"image"`
	Limits glovebox.Limits `json:"limits"` // of the machine that was frozen
	Spare  bool            `json:"spare"`  // the guest waits on its spare stream
	Files  []manifestEntry `json:"files"`  // as templateFiles
}

// manifestEntry describes a file of a template.
type manifestEntry struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// fileID tells whether a large file is still the same without reading it.
type fileID struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mod_time"` // ns
}

func fileIDOf(path string) (fileID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}, err
	}
	return fileID{filepath.Base(path), info.Size(), info.ModTime().UnixNano()}, nil
}

// TemplateKey implements [sandbox.Snapshotter].
func (d *Driver) TemplateKey() (string, error) {
	guest, err := d.guest()
	if err != nil {
		return "", err
	}
	cpuid.Initialize()
	h := sha256.New()
	// The packed guest is named by its contents. Runsc is the same program,
	// but where tests run another.
	fmt.Fprintf(h, "%d\n%s\n%s\n%s\n%d\n%s\n", templateFormat, version.Version(), filepath.Base(guest), filepath.Base(d.o.Runsc),
		len(d.limits.allowed), cpuid.HostFeatureSet().FlagString())
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

// unusable is the error for a template that can't be used.
func unusable(dir, format string, args ...any) error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "start from a template",
		Msg: fmt.Sprintf("template %s: %s", filepath.Base(dir), fmt.Sprintf(format, args...)), Err: sandbox.ErrTemplate}
}

// because is an error, if there is one, behind what it led to.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// verified remembers which templates were read whole and found to be what
// was written, by the state of their files at that time.
type verified struct {
	mu   sync.Mutex
	dirs map[string]string // directory -> stamp of its files
}

// template is an opened template.
type template struct {
	manifest
	files []*os.File // as templateFiles
}

func (t *template) close() {
	for _, f := range t.files {
		f.Close()
	}
}

// openTemplate opens the template in dir if a machine of image can start from
// it with limits l. Its files are read whole once for each process that uses
// them, and again if they have changed since.
func (d *Driver) openTemplate(dir, image string, l glovebox.Limits) (_ *template, err error) {
	t := new(template)
	ok, err := local.ReadJSON(filepath.Join(dir, manifestFile), &t.manifest)
	if err != nil || !ok || len(t.Files) != len(templateFiles) {
		return nil, unusable(dir, "it has no readable manifest%s", because(err))
	}
	key, err := d.TemplateKey()
	if err != nil {
		return nil, err
	}
	if key != t.Key {
		return nil, unusable(dir, "it was made by another version, or for another processor")
	}
	if id, err := fileIDOf(image); err != nil || id != t.Image {
		return nil, unusable(dir, "it was made of another image%s", because(err))
	}
	if why := frozenDiffer(t.Limits, l); why != "" {
		return nil, unusable(dir, "%s", why)
	}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	stamp := ""
	for i, e := range t.Files {
		f, err := os.OpenFile(filepath.Join(dir, templateFiles[i]), os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, unusable(dir, "%v", err)
		}
		t.files = append(t.files, f)
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil || e.Name != templateFiles[i] || st.Size != e.Size {
			return nil, unusable(dir, "%s has %d bytes, and the manifest says %d of %.80q%s", templateFiles[i], st.Size, e.Size, e.Name, because(err))
		}
		stamp += fmt.Sprintln(st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim, e.SHA256)
	}
	return t, d.verify(dir, stamp, t)
}

// frozenDiffer says which limit of a frozen machine is another than l asks
// for and can't be changed any more, or "".
func frozenDiffer(frozen, l glovebox.Limits) string {
	switch {
	case frozen.DiskBytes != l.DiskBytes:
		return fmt.Sprintf("its disk was frozen with %d MiB and the job has %d", frozen.DiskBytes>>20, l.DiskBytes>>20)
	case frozen.Processes != l.Processes:
		return fmt.Sprintf("it was frozen with at most %d processes and the job has %d", frozen.Processes, l.Processes)
	}
	return ""
}

// verify compares the files with the sums in the manifest, unless that was
// done since they last changed.
func (d *Driver) verify(dir, stamp string, t *template) error {
	d.verified.mu.Lock() // one at a time, the others then need not
	defer d.verified.mu.Unlock()
	if d.verified.dirs[dir] == stamp {
		return nil
	}
	for i, e := range t.Files {
		sum, err := sumOf(t.files[i])
		if err != nil || sum != e.SHA256 {
			return unusable(dir, "%s is damaged%s", e.Name, because(err))
		}
		if _, err := t.files[i].Seek(0, io.SeekStart); err != nil {
			return unusable(dir, "%v", err)
		}
	}
	if d.verified.dirs == nil {
		d.verified.dirs = make(map[string]string)
	}
	d.verified.dirs[dir] = stamp
	return nil
}

func sumOf(f *os.File) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// syncDir makes names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
