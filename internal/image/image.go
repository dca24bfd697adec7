// Package image builds the file system of the machine from its definition
// and keeps the results, each under the digest of what it was made from.
package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	definition "github.com/glovebox-dev/glovebox/image"
)

// suite is the release of Debian that the machine is made of.
const suite = "trixie"

// packing is part of every digest: it changes when the way of packing does.
const packing = "erofs-2"

// Store keeps images in a directory, one file each, named by digest.
type Store struct {
	Dir string
}

// Image is a file system that was built.
type Image struct {
	Digest  string // of the definition that it was made from, 16 hex digits
	Path    string // of the EROFS file
	Size    int64  // bytes
	BuiltAt time.Time
	Current bool // it was made from this binary's definition
}

// Digest returns the digest of this binary's definition for this machine's
// architecture.
func Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %s\n", packing, suite, runtime.GOARCH)
	for _, name := range files() {
		b := mustRead(name)
		fmt.Fprintf(h, "%s %d\n", name, len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Path returns where the image with a digest is, or would be.
func (s Store) Path(digest string) string { return filepath.Join(s.Dir, digest+".erofs") }

// Current returns the image of this binary's definition. CodeUnavailable,
// with the command that builds it, if it has not been built.
func (s Store) Current() (Image, error) {
	img, err := s.stat(Digest())
	if err != nil {
		return Image{}, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "find the machine image",
			Msg: "it has not been built", Hint: "run: glovebox image build", Err: err}
	}
	return img, nil
}

// List returns all images, the newest first.
func (s Store) List() ([]Image, error) {
	paths, err := filepath.Glob(filepath.Join(s.Dir, "*.erofs"))
	if err != nil {
		return nil, err
	}
	var images []Image
	for _, p := range paths {
		if img, err := s.stat(strings.TrimSuffix(filepath.Base(p), ".erofs")); err == nil {
			images = append(images, img)
		}
	}
	sort.Slice(images, func(i, j int) bool { return images[i].BuiltAt.After(images[j].BuiltAt) })
	return images, nil
}

// Prune removes every image but that of this binary's definition, and what
// builds that were killed have left. It returns the images that are gone.
// Sandboxes and templates that use one of them hold it open until they end.
func (s Store) Prune(ctx context.Context) ([]Image, error) {
	images, err := s.List()
	if err != nil || len(images) == 0 {
		return nil, err
	}
	unlock, err := s.lock(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if images, err = s.List(); err != nil { // another may have pruned, or built, meanwhile
		return nil, err
	}
	var gone []Image
	for _, img := range images {
		if img.Current {
			continue
		}
		if err := os.Remove(img.Path); err != nil {
			return gone, err
		}
		gone = append(gone, img)
	}
	return gone, nil
}

// lock keeps other builders out, and removes what those that died have left.
// If it has to wait for them, it calls waits once, unless that is nil.
func (s Store) lock(ctx context.Context, waits func()) (unlock func(), err error) {
	unlock, err = lock(ctx, filepath.Join(s.Dir, "build.lock"), waits)
	if err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(s.Dir, buildPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		unlock()
		return nil, fmt.Errorf("remove what a build has left: %w", err)
	}
	return unlock, nil
}

// buildPrefix is how the directories of builds begin.
const buildPrefix = ".build-"

func (s Store) stat(digest string) (Image, error) {
	fi, err := os.Stat(s.Path(digest))
	if err != nil {
		return Image{}, err
	}
	return Image{Digest: digest, Path: s.Path(digest), Size: fi.Size(), BuiltAt: fi.ModTime(), Current: digest == Digest()}, nil
}

// files returns the paths of the definition's files, sorted.
func files() []string {
	var names []string
	err := fs.WalkDir(definition.Definition, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		panic("image: " + err.Error()) // it is embedded
	}
	return names
}

// packages returns the names in packages.txt.
func packages() []string {
	var names []string
	for _, line := range lines("packages.txt") {
		names = append(names, strings.Fields(line)...)
	}
	return names
}

// lines returns the lines of a file, without comments and blank ones.
func lines(name string) []string {
	var out []string
	for line := range strings.Lines(string(mustRead(name))) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

func mustRead(name string) []byte {
	b, err := fs.ReadFile(definition.Definition, name)
	if err != nil {
		panic("image: " + err.Error()) // it is embedded
	}
	return b
}
