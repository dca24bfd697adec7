//go:build linux

package snap

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// The modes of tree entries.
const (
	modeFile = 0o100644
	modeExec = 0o100755
	modeLink = 0o120000
	modeDir  = 0o40000
)

// entry is one name in a tree, decoded.
type entry struct {
	mode uint32
	name string
	id   OID
}

// encodeName makes a name of a file one that git accepts.
func encodeName(n string) string {
	if rest := strings.TrimRight(n, "%"); strings.EqualFold(rest, ".git") {
		return n + "%"
	}
	return n
}

// decodeName is the reverse.
func decodeName(n string) string {
	if rest := strings.TrimRight(n, "%"); len(rest) < len(n) && strings.EqualFold(rest, ".git") {
		return n[:len(n)-1]
	}
	return n
}

// validName refuses names that can't be those of a file in a directory.
func validName(n string) bool {
	return n != "" && n != "." && n != ".." && len(n) <= 255 && !strings.ContainsAny(n, "/\x00")
}

func sortKey(e entry) string {
	if e.mode == modeDir {
		return encodeName(e.name) + "/"
	}
	return encodeName(e.name)
}

// marshalTree encodes entries as a tree object.
func marshalTree(entries []entry) []byte {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(sortKey(a), sortKey(b)) })
	var b []byte
	for _, e := range entries {
		b = strconv.AppendUint(b, uint64(e.mode), 8)
		b = append(b, ' ')
		b = append(b, encodeName(e.name)...)
		b = append(b, 0)
		b = append(b, e.id[:]...)
	}
	return b
}

// parseTree decodes a tree object. It was perhaps made by another guest, so
// names and modes are checked.
func parseTree(b []byte) ([]entry, error) {
	var entries []entry
	for len(b) > 0 {
		sp := bytes.IndexByte(b, ' ')
		nul := bytes.IndexByte(b, 0)
		if sp < 1 || sp > 6 || nul < sp || len(b) < nul+1+len(OID{}) {
			return nil, glovebox.Errorf(glovebox.CodeInvalid, "the checkpoint contains a tree that can't be read")
		}
		mode, err := strconv.ParseUint(string(b[:sp]), 8, 32)
		e := entry{mode: uint32(mode), name: decodeName(string(b[sp+1 : nul])), id: OID(b[nul+1 : nul+1+len(OID{})])}
		if err != nil || !validName(e.name) || e.mode != modeFile && e.mode != modeExec && e.mode != modeLink && e.mode != modeDir {
			return nil, glovebox.Errorf(glovebox.CodeInvalid, "the checkpoint contains the entry %.80q of mode %o", e.name, e.mode)
		}
		entries = append(entries, e)
		b = b[nul+1+len(OID{}):]
	}
	return entries, nil
}

func (r *Repo) tree(id OID) ([]entry, error) {
	b, err := r.get(id, kindTree, maxTree)
	if err != nil {
		return nil, err
	}
	return parseTree(b)
}

// marshalCommit encodes a commit object.
func marshalCommit(tree OID, parent *OID, message string, now time.Time) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", tree)
	if parent != nil {
		fmt.Fprintf(&b, "parent %s\n", *parent)
	}
	who := fmt.Sprintf("glovebox <glovebox@localhost> %d +0000", now.Unix())
	message = strings.ReplaceAll(strings.ToValidUTF8(message, "?"), "\x00", "")
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s\n", who, who, strings.TrimRight(message, "\n"))
	return b.Bytes()
}

// commitTree returns the tree of a commit.
func (r *Repo) commitTree(id OID) (OID, error) {
	b, err := r.get(id, kindCommit, maxCommit)
	if err != nil {
		return OID{}, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	hexID, ok := strings.CutPrefix(line, "tree ")
	if !ok {
		return OID{}, glovebox.Errorf(glovebox.CodeInvalid, "the commit %s can't be read", id)
	}
	return ParseOID(hexID)
}
