// Package erofs writes EROFS file systems that gVisor can serve: no file has
// its end inside its inode, nothing is compressed, and names that were linked
// together stay one file.
//
// What is written depends on the tree alone: the same tree gives the same
// bytes.
package erofs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Types and bits of a mode, as in stat(2).
const (
	TypeMask    = 0o170000
	TypeDir     = 0o040000
	TypeFile    = 0o100000
	TypeSymlink = 0o120000
)

// Limits of what is written.
const (
	MaxNodes = 4 << 20 // files, directories and links
	MaxDepth = 1000    // directories in each other
	MaxName  = 255     // bytes of a name
	MaxLink  = 4095    // bytes of a symbolic link's target
)

// Node is a file, a directory or a symbolic link. The same Node under two
// names is one file with two links.
type Node struct {
	Mode     uint32 // type and permissions
	UID, GID uint32
	Mtime    int64            // seconds since 1970
	Size     int64            // of a file, bytes
	Data     io.ReaderAt      // of a file: Size bytes from offset 0 on
	Target   string           // of a symbolic link
	Children map[string]*Node // of a directory
}

const (
	blockBits  = 12
	blockSize  = 1 << blockBits
	superAt    = 1024 // where the superblock is
	superSize  = 128
	magic      = 0xE0F5E1E2
	inodeSize  = 64
	direntSize = 12
	nidUnit    = 32 // what the numbers of inodes count in
)

// inode is a node with its place in the file system.
type inode struct {
	*Node
	index  int // of the inode among all
	links  uint32
	size   uint64
	block  uint32 // where its content begins
	dirent []byte // the content of a directory
}

func (i *inode) nid() uint64 { return uint64(i.index) * inodeSize / nidUnit }

// layout gives every node its place.
type layout struct {
	inodes []*inode
	of     map[*Node]*inode
	parent map[*inode]*inode
	blocks uint64 // given out so far
}

// Write writes the file system with the given root, a directory, to w.
func Write(w io.Writer, root *Node) error {
	l := &layout{of: map[*Node]*inode{}, parent: map[*inode]*inode{}}
	if root.Mode&TypeMask != TypeDir {
		return errors.New("the root is not a directory")
	}
	if err := l.add(root, nil, "/", 0); err != nil {
		return err
	}
	// The first block holds the superblock; the inodes follow, then what they hold.
	l.blocks = 1 + blocksOf(uint64(len(l.inodes))*inodeSize)
	for _, i := range l.inodes {
		l.place(i)
	}
	if l.blocks > math.MaxUint32 {
		return fmt.Errorf("%d blocks are too many", l.blocks)
	}
	out := &padded{w: bufio.NewWriterSize(w, 1<<20)}
	out.write(l.super())
	out.pad()
	for _, i := range l.inodes {
		out.write(i.encode())
	}
	out.pad()
	for _, i := range l.inodes {
		switch i.Mode & TypeMask {
		case TypeDir:
			out.write(i.dirent)
		case TypeSymlink:
			out.write([]byte(i.Target))
		case TypeFile:
			out.copy(i.Data, i.Size)
		}
		if out.pad(); out.err != nil {
			return out.err
		}
	}
	return out.w.Flush()
}

func blocksOf(bytes uint64) uint64 { return (bytes + blockSize - 1) / blockSize }

// add lists a node and what is below it, in the order of paths.
func (l *layout) add(n *Node, parent *inode, path string, depth int) error {
	if i, ok := l.of[n]; ok {
		if n.Mode&TypeMask == TypeDir {
			return fmt.Errorf("the directory %.200q has two names", path)
		}
		i.links++
		return nil
	}
	if len(l.inodes) >= MaxNodes {
		return fmt.Errorf("there are more than %d files", MaxNodes)
	}
	if depth > MaxDepth {
		return fmt.Errorf("more than %d directories are in each other", MaxDepth)
	}
	i := &inode{Node: n, index: len(l.inodes), links: 1}
	l.inodes, l.of[n] = append(l.inodes, i), i
	switch n.Mode & TypeMask {
	case TypeFile:
		if n.Size < 0 || n.Size > 0 && n.Data == nil {
			return fmt.Errorf("the file %.200q has no content", path)
		}
	case TypeSymlink:
		if n.Target == "" || len(n.Target) > MaxLink {
			return fmt.Errorf("the link %.200q leads to %d bytes", path, len(n.Target))
		}
	case TypeDir:
		l.parent[i] = i
		if parent != nil {
			l.parent[i] = parent
		}
		i.links = 2
		for _, name := range sortedNames(n) {
			if name == "" || name == "." || name == ".." || len(name) > MaxName || strings.ContainsAny(name, "/\x00") {
				return fmt.Errorf("%.300q in %.200q can't be a name", name, path)
			}
			child := n.Children[name]
			if child.Mode&TypeMask == TypeDir {
				i.links++
			}
			if err := l.add(child, i, path+name+"/", depth+1); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%.200q is of a type that is not kept: %o", path, n.Mode)
	}
	return nil
}

func sortedNames(n *Node) []string {
	names := make([]string, 0, len(n.Children)+2)
	for name := range n.Children {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// place gives the content of a node its blocks.
func (l *layout) place(i *inode) {
	switch i.Mode & TypeMask {
	case TypeDir:
		i.dirent = l.dirents(i)
		i.size = uint64(len(i.dirent))
	case TypeSymlink:
		i.size = uint64(len(i.Target))
	case TypeFile:
		i.size = uint64(i.Size)
	}
	if i.size > 0 {
		i.block = uint32(min(l.blocks, math.MaxUint32)) // Write refuses what does not fit
		l.blocks += blocksOf(i.size)
	}
}

// dirents returns the content of a directory: blocks that begin with their
// entries, sorted by name, and end with the names.
func (l *layout) dirents(i *inode) []byte {
	names := append(sortedNames(i.Node), ".", "..")
	slices.Sort(names)
	var out []byte
	for len(names) > 0 {
		n, used := 0, 0
		for n < len(names) && used+direntSize+len(names[n]) <= blockSize {
			used += direntSize + len(names[n])
			n++
		}
		if len(out) > 0 { // the blocks before this one are full
			out = append(out, make([]byte, int(blocksOf(uint64(len(out))))*blockSize-len(out))...)
		}
		nameAt := n * direntSize
		for _, name := range names[:n] {
			to := i
			switch name {
			case ".":
			case "..":
				to = l.parent[i]
			default:
				to = l.of[i.Children[name]]
			}
			out = binary.LittleEndian.AppendUint64(out, to.nid())
			out = binary.LittleEndian.AppendUint16(out, uint16(nameAt))
			out = append(out, fileType(to.Mode), 0)
			nameAt += len(name)
		}
		for _, name := range names[:n] {
			out = append(out, name...)
		}
		names = names[n:]
	}
	return out
}

// fileType returns the type as directory entries have it.
func fileType(mode uint32) byte {
	switch mode & TypeMask {
	case TypeDir:
		return 2
	case TypeSymlink:
		return 7
	}
	return 1
}

// super returns the first bytes of the file system, up to the end of the
// superblock.
func (l *layout) super() []byte {
	b := make([]byte, superAt+superSize)
	s := b[superAt:]
	binary.LittleEndian.PutUint32(s, magic)
	s[12] = blockBits
	binary.LittleEndian.PutUint16(s[14:], uint16(l.inodes[0].nid()))
	binary.LittleEndian.PutUint64(s[16:], uint64(len(l.inodes)))
	binary.LittleEndian.PutUint32(s[36:], uint32(l.blocks))
	binary.LittleEndian.PutUint32(s[40:], 1) // where the inodes begin
	return b
}

// encode returns an inode of the extended kind, whose content lies in blocks
// of its own.
func (i *inode) encode() []byte {
	b := make([]byte, inodeSize)
	binary.LittleEndian.PutUint16(b, 1)
	binary.LittleEndian.PutUint16(b[4:], uint16(i.Mode))
	binary.LittleEndian.PutUint64(b[8:], i.size)
	binary.LittleEndian.PutUint32(b[16:], i.block)
	binary.LittleEndian.PutUint32(b[20:], uint32(i.index+1))
	binary.LittleEndian.PutUint32(b[24:], i.UID)
	binary.LittleEndian.PutUint32(b[28:], i.GID)
	binary.LittleEndian.PutUint64(b[32:], uint64(i.Mtime))
	binary.LittleEndian.PutUint32(b[44:], i.links)
	return b
}

// padded writes and fills blocks up. After an error it does nothing.
type padded struct {
	w   *bufio.Writer
	n   int64
	err error
}

func (p *padded) write(b []byte) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
		p.n += int64(len(b))
	}
}

func (p *padded) pad() {
	if rest := p.n % blockSize; rest > 0 {
		p.write(make([]byte, blockSize-rest))
	}
}

func (p *padded) copy(r io.ReaderAt, size int64) {
	if p.err != nil || size == 0 {
		return
	}
	n, err := io.Copy(p.w, io.NewSectionReader(r, 0, size))
	p.n += n
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	p.err = err
}
