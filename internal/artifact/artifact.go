// Package artifact packs the workspace of a job as a zip.
//
// The zip is made here, on the host, from a stream of regular files. What the
// sandbox says is data: names are checked, links and devices left out, counts
// and sizes bounded, and no archive that was made inside is ever opened.
//
// What tools make again (node_modules, virtual environments, caches) and what
// .gitignore names is left out. glovebox-manifest.json in the zip lists every
// file with its SHA-256, and what was left out and why.
//
// Files are compressed in parallel and written in order of path, so the same
// workspace gives the same bytes but for the manifest's time.
package artifact

import (
	"archive/zip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// ManifestName is the name of the manifest in the zip.
const ManifestName = "glovebox-manifest.json"

// maxListed bounds the left-out paths that the manifest lists. A directory
// that is left out is one path.
const maxListed = 10_000

// Source is where the files come from; a [guest.Client] is one.
type Source interface {
	Export(ctx context.Context, dir string, keep guest.ExportFilter, f func(guest.ExportFile) error, skipped func(path, reason string)) error
	ReadFile(ctx context.Context, path string, offset, limit int64) (data []byte, size int64, err error)
}

// Options configures Pack.
type Options struct {
	JobID    string    // for the manifest
	Now      time.Time // for the manifest; zero leaves it out
	MaxFiles int64     // 0 means 100,000; what is beyond is left out, and listed
	MaxBytes int64     // of all files before compression; 0 means 4 GiB
	Workers  int       // that compress at once; 0 means one a processor
}

// Manifest lists what is in the zip and what is not.
type Manifest struct {
	Job       string                 `json:"job"`
	CreatedAt time.Time              `json:"created_at,omitzero"`
	Files     []File                 `json:"files"`
	Skipped   []glovebox.SkippedPath `json:"skipped"`
	Unlisted  int64                  `json:"skipped_unlisted,omitempty"` // skipped beyond the first 10,000
}

// File is a file in the zip.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Pack writes the files below dir to w as a zip, with the manifest as the
// last file, and returns the manifest. On error what was written is of no use.
func Pack(ctx context.Context, src Source, dir string, w io.Writer, o Options) (*Manifest, error) {
	if o.MaxFiles <= 0 {
		o.MaxFiles = 100_000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 4 << 30
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	m := &Manifest{Job: o.JobID, CreatedAt: o.Now, Files: []File{}, Skipped: []glovebox.SkippedPath{}}
	skip := func(path, reason string) {
		if len(m.Skipped) >= maxListed {
			m.Unlisted++
			return
		}
		m.Skipped = append(m.Skipped, glovebox.SkippedPath{Path: path, Reason: reason})
	}
	f := &filter{ctx: ctx, src: src, dir: dir, o: o, skip: skip, marks: map[string]bool{}}

	p := newPacker(w, o.Workers)
	err := src.Export(ctx, dir, f.keep, func(x guest.ExportFile) error {
		if !portable(x.Path) { // keep has seen it; the guest has to be caught lying here
			return glovebox.Errorf(glovebox.CodeUnavailable, "the guest exported %.200q", x.Path)
		}
		return p.add(ctx, x)
	}, skip)
	files, packErr := p.finish(err)
	if packErr != nil {
		return nil, fmt.Errorf("pack the workspace: %w", packErr)
	}
	m.Files = append(m.Files, files...)
	if err := p.writeManifest(m); err != nil {
		return nil, fmt.Errorf("pack the workspace: %w", err)
	}
	return m, nil
}

func (p *packer) writeManifest(m *Manifest) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	w, err := p.zip.CreateHeader(&zip.FileHeader{Name: ManifestName, Method: zip.Deflate, Modified: m.CreatedAt})
	if err != nil {
		return err
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return err
	}
	return p.zip.Close()
}
