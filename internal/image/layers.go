package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	goerofs "github.com/erofs/go-erofs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// parts are the directories that get a layer of their own, so that layers are
// sent beside each other and those that did not change are not sent again.
// What is in none of them is in the first layer.
var parts = []string{"opt", "usr/lib", "usr/local", "usr/share"}

// partOf returns the index of the layer that holds a path.
func partOf(name string) int {
	for i, p := range parts {
		if name == p || strings.HasPrefix(name, p+"/") {
			return i + 1
		}
	}
	return 0
}

// writeLayers writes the layers of an EROFS file into dir. The same file gives
// the same layers.
func writeLayers(erofsPath, dir string) ([]v1.Layer, error) {
	file, err := os.Open(erofsPath)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	fsys, err := goerofs.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", erofsPath, err)
	}
	writers := make([]*layerWriter, len(parts)+1)
	for i := range writers {
		if writers[i], err = newLayerWriter(filepath.Join(dir, fmt.Sprintf("layer%d.tar.gz", i))); err != nil {
			return nil, err
		}
		defer writers[i].file.Close()
	}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if err := writers[partOf(name)].add(fsys, name, d); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	layers := make([]v1.Layer, 0, len(writers))
	for _, w := range writers {
		l, err := w.close()
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return layers, nil
}

// layerWriter writes one layer to a file, and takes its digests on the way.
type layerWriter struct {
	file   *os.File
	packed hash.Hash
	plain  hash.Hash
	zip    *gzip.Writer
	tar    *tar.Writer
	links  map[int64]string // inode -> its first name in this layer
}

func newLayerWriter(path string) (*layerWriter, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w := &layerWriter{file: f, packed: sha256.New(), plain: sha256.New(), links: map[int64]string{}}
	w.zip, err = gzip.NewWriterLevel(io.MultiWriter(f, w.packed), gzip.BestSpeed)
	w.tar = tar.NewWriter(io.MultiWriter(w.zip, w.plain))
	return w, err
}

// add writes one entry.
func (w *layerWriter) add(fsys fs.FS, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*goerofs.Stat)
	if !ok {
		return errors.New("its inode can't be read")
	}
	h := &tar.Header{
		Name: name, Mode: int64(modeOf(st.Mode)), Uid: int(st.UID), Gid: int(st.GID),
		ModTime: time.Unix(int64(st.Mtime), 0), Format: tar.FormatPAX,
	}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = fs.ReadLink(fsys, name); err != nil {
			return err
		}
	case !info.Mode().IsRegular():
		return nil // a device; the machine makes its own
	case st.Nlink > 1 && w.links[st.Ino] != "":
		h.Typeflag, h.Linkname = tar.TypeLink, w.links[st.Ino]
	default:
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
		w.links[st.Ino] = name
	}
	if err := w.tar.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w.tar, f)
	return err
}

// modeOf returns the bits of a mode as tar has them.
func modeOf(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for _, b := range []struct {
		of  fs.FileMode
		bit uint32
	}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}} {
		if m&b.of != 0 {
			bits |= b.bit
		}
	}
	return bits
}

func (w *layerWriter) close() (v1.Layer, error) {
	if err := errors.Join(w.tar.Close(), w.zip.Close()); err != nil {
		return nil, err
	}
	info, err := w.file.Stat()
	if err != nil {
		return nil, err
	}
	return &fileLayer{path: w.file.Name(), size: info.Size(), digest: hashOf(w.packed), diffID: hashOf(w.plain)}, w.file.Close()
}

func hashOf(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// fileLayer is a layer in a file.
type fileLayer struct {
	path           string
	size           int64
	digest, diffID v1.Hash
}

var _ v1.Layer = (*fileLayer)(nil)

// Digest returns the digest of the compressed layer.
func (l *fileLayer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID returns the digest of the uncompressed layer.
func (l *fileLayer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Compressed opens the layer as it is sent.
func (l *fileLayer) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Uncompressed opens the layer as a tar stream.
func (l *fileLayer) Uncompressed() (io.ReadCloser, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return unzipped{z, f}, nil
}

// Size returns the compressed size in bytes.
func (l *fileLayer) Size() (int64, error) { return l.size, nil }

// MediaType returns that of an OCI layer.
func (l *fileLayer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// unzipped closes the file below a decompressor, too.
type unzipped struct {
	*gzip.Reader
	file *os.File
}

func (u unzipped) Close() error { return errors.Join(u.Reader.Close(), u.file.Close()) }
