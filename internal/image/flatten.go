package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/glovebox-dev/glovebox/internal/image/erofs"
)

// Limits of an image that is pulled. Its layers come from elsewhere.
const (
	maxLayers    = 256
	maxImageSize = 64 << 30 // bytes of files
	maxEntries   = 2 << 20  // in all layers
	maxPath      = 4096     // bytes
	maxFollow    = 40       // symbolic links on the way to one entry
)

const (
	whiteout = ".wh."           // in front of the name of what a layer removes
	opaque   = ".wh..wh..opq"   // a directory's older content is removed
	reserved = whiteout + ".wh" // other names of this kind mean nothing here
)

// flattener lays layers over each other. Nothing is unpacked into a directory:
// the tree is in memory and the files' contents are in one spool file, so that
// no name, link or device in a layer can do anything to the host.
type flattener struct {
	root    *erofs.Node
	spool   *os.File
	size    int64 // of what the spool holds
	maxSize int64
	entries int
	brought map[place]bool // by the present layer
}

// place is a name in a directory.
type place struct {
	dir  *erofs.Node
	name string
}

func newFlattener(spool *os.File) *flattener {
	return &flattener{root: newDir(), spool: spool, maxSize: maxImageSize}
}

func newDir() *erofs.Node {
	return &erofs.Node{Mode: erofs.TypeDir | 0o755, Children: map[string]*erofs.Node{}}
}

func isDir(n *erofs.Node) bool { return n != nil && n.Mode&erofs.TypeMask == erofs.TypeDir }

// flatten returns the tree of an image's layers, whose file contents are in
// spool.
func flatten(layers []v1.Layer, spool *os.File) (*erofs.Node, error) {
	if len(layers) > maxLayers {
		return nil, fmt.Errorf("it has %d layers; %d are taken", len(layers), maxLayers)
	}
	f := newFlattener(spool)
	for i, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
		err = f.apply(r)
		if closeErr := r.Close(); err == nil {
			err = closeErr // where a digest that is wrong shows
		}
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	return f.root, nil
}

// apply lays one more layer, a tar stream, over the tree.
func (f *flattener) apply(r io.Reader) error {
	f.brought = map[place]bool{}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r) // to the end, where the digest is checked
			return err
		}
		if err != nil {
			return err
		}
		if f.entries++; f.entries > maxEntries {
			return fmt.Errorf("the image has more than %d entries", maxEntries)
		}
		if err := f.entry(h, t); err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
}

// entry adds, changes or removes what one header says.
func (f *flattener) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	names, err := split(h.Name)
	if err != nil {
		return err
	}
	if len(names) == 0 { // the root itself
		if h.Typeflag == tar.TypeDir {
			return f.describe(f.root, h, erofs.TypeDir)
		}
		return errors.New("the root can't be anything but a directory")
	}
	dir, err := f.parent(names[:len(names)-1])
	if err != nil {
		return err
	}
	name := names[len(names)-1]
	if strings.HasPrefix(name, whiteout) {
		f.remove(dir, name)
		return nil
	}
	n, err := f.node(h, dir.Children[name], content)
	if err != nil || n == nil {
		return err
	}
	dir.Children[name] = n
	f.brought[place{dir, name}] = true
	return nil
}

// split returns the names of a path in a layer. It must not leave the root.
func split(p string) ([]string, error) {
	if len(p) > maxPath || strings.ContainsRune(p, 0) {
		return nil, fmt.Errorf("this is not a path of at most %d bytes", maxPath)
	}
	var names []string
	for name := range strings.SplitSeq(p, "/") {
		switch {
		case name == "" || name == ".":
		case name == "..":
			return nil, errors.New("the path leaves its directory")
		case len(name) > erofs.MaxName:
			return nil, fmt.Errorf("a name has more than %d bytes", erofs.MaxName)
		default:
			names = append(names, name)
		}
	}
	return names, nil
}

// parent returns the directory with a path, made where it is missing. Links
// are followed, inside the tree.
func (f *flattener) parent(names []string) (*erofs.Node, error) {
	stack, links := []*erofs.Node{f.root}, 0
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		dir := stack[len(stack)-1]
		if name == ".." {
			stack = stack[:max(1, len(stack)-1)]
			continue
		}
		next := dir.Children[name]
		if next != nil && next.Mode&erofs.TypeMask == erofs.TypeSymlink {
			if links++; links > maxFollow {
				return nil, errors.New("too many links are on the way")
			}
			if path.IsAbs(next.Target) {
				stack = stack[:1]
			}
			var way []string
			for s := range strings.SplitSeq(next.Target, "/") {
				if s != "" && s != "." {
					way = append(way, s)
				}
			}
			names = append(way, names...)
			continue
		}
		if !isDir(next) {
			if len(name) > erofs.MaxName || len(stack) > erofs.MaxDepth {
				return nil, errors.New("the path is too long")
			}
			next = newDir()
			dir.Children[name] = next
		}
		stack = append(stack, next)
	}
	return stack[len(stack)-1], nil
}

// remove does what a whiteout says. What the same layer brought stays.
func (f *flattener) remove(dir *erofs.Node, name string) {
	switch {
	case name == opaque:
		f.prune(dir)
	case strings.HasPrefix(name, reserved):
	default:
		name = strings.TrimPrefix(name, whiteout)
		n := dir.Children[name]
		if isDir(n) {
			f.prune(n)
			if len(n.Children) > 0 {
				return
			}
		}
		if !f.brought[place{dir, name}] {
			delete(dir.Children, name)
		}
	}
}

// prune removes what older layers have put below dir.
func (f *flattener) prune(dir *erofs.Node) {
	for name, n := range dir.Children {
		if isDir(n) {
			if f.prune(n); len(n.Children) > 0 {
				continue
			}
		}
		if !f.brought[place{dir, name}] {
			delete(dir.Children, name)
		}
	}
}

// node returns what a header describes; nil for what is not kept: devices and
// pipes. old is what has the name now.
func (f *flattener) node(h *tar.Header, old *erofs.Node, content io.Reader) (*erofs.Node, error) {
	switch h.Typeflag {
	case tar.TypeDir:
		n := old
		if !isDir(n) {
			n = newDir()
		}
		return n, f.describe(n, h, erofs.TypeDir)
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > erofs.MaxLink || strings.ContainsRune(h.Linkname, 0) {
			return nil, fmt.Errorf("the link's target has %d bytes", len(h.Linkname))
		}
		n := &erofs.Node{Target: h.Linkname}
		return n, f.describe(n, h, erofs.TypeSymlink)
	case tar.TypeLink:
		return f.linked(h.Linkname)
	case tar.TypeReg, tar.TypeGNUSparse:
		n, err := f.spooled(content, h.Size)
		if err != nil {
			return nil, err
		}
		return n, f.describe(n, h, erofs.TypeFile)
	}
	return nil, nil
}

// linked returns the file that a hard link names.
func (f *flattener) linked(target string) (*erofs.Node, error) {
	names, err := split(target)
	if err != nil {
		return nil, fmt.Errorf("its target: %w", err)
	}
	if len(names) > 0 {
		dir, err := f.parent(names[:len(names)-1])
		if err != nil {
			return nil, err
		}
		if n := dir.Children[names[len(names)-1]]; n != nil && !isDir(n) {
			return n, nil
		}
	}
	return nil, fmt.Errorf("it is a link to %.200q, which is not a file", target)
}

// spooled keeps the content of a file.
func (f *flattener) spooled(r io.Reader, size int64) (*erofs.Node, error) {
	if size < 0 || size > f.maxSize-f.size {
		return nil, fmt.Errorf("the image has more than %d bytes", f.maxSize)
	}
	at := f.size
	if _, err := io.CopyN(io.NewOffsetWriter(f.spool, at), r, size); err != nil {
		return nil, err
	}
	f.size += size
	return &erofs.Node{Size: size, Data: io.NewSectionReader(f.spool, at, size)}, nil
}

// describe sets what a header says of any node.
func (f *flattener) describe(n *erofs.Node, h *tar.Header, kind uint32) error {
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) > math.MaxUint32 || int64(h.Gid) > math.MaxUint32 {
		return fmt.Errorf("the owner %d:%d can't be", h.Uid, h.Gid)
	}
	n.Mode = kind | uint32(h.Mode)&0o7777
	n.UID, n.GID = uint32(h.Uid), uint32(h.Gid)
	n.Mtime = max(0, h.ModTime.Unix())
	return nil
}
