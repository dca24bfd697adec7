// Package image builds the file system of the machine from its definition
// and keeps the results, each under the digest of what it was made from.
package image

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
const packing = "erofs-1"

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
	names, err := fs.Glob(definition.Definition, "*")
	if err != nil {
		panic("image: " + err.Error()) // the pattern is constant
	}
	for _, name := range names {
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

func (s Store) stat(digest string) (Image, error) {
	fi, err := os.Stat(s.Path(digest))
	if err != nil {
		return Image{}, err
	}
	return Image{Digest: digest, Path: s.Path(digest), Size: fi.Size(), BuiltAt: fi.ModTime(), Current: digest == Digest()}, nil
}

// packages returns the names in packages.txt.
func packages() []string {
	var names []string
	sc := bufio.NewScanner(bytes.NewReader(mustRead("packages.txt")))
	for sc.Scan() {
		line, _, _ := strings.Cut(sc.Text(), "#")
		names = append(names, strings.Fields(line)...)
	}
	return names
}

func mustRead(name string) []byte {
	b, err := fs.ReadFile(definition.Definition, name)
	if err != nil {
		panic("image: " + err.Error()) // it is embedded
	}
	return b
}
