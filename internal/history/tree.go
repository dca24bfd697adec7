package history

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// The modes of tree entries.
const (
	modeFile = 0o100644
	modeExec = 0o100755
	modeLink = 0o120000
	modeDir  = 0o40000
)

// entry is one name in a tree. The zero entry is nothing.
type entry struct {
	mode uint32
	name string
	id   oid
}

// decodeName undoes how checkpoints write names that git refuses: ".git" is
// ".git%" there, and ".git%" is ".git%%".
func decodeName(n string) string {
	if rest := strings.TrimRight(n, "%"); len(rest) < len(n) && strings.EqualFold(rest, ".git") {
		return n[:len(n)-1]
	}
	return n
}

func validName(n string) bool {
	return n != "" && n != "." && n != ".." && len(n) <= 255 && !strings.ContainsAny(n, "/\x00")
}

// parseTree decodes a tree, sorted by name. Names and modes are checked, and
// each name is there once.
func parseTree(b []byte) ([]entry, error) {
	var entries []entry
	for len(b) > 0 {
		sp := bytes.IndexByte(b[:min(len(b), 8)], ' ')
		nul := bytes.IndexByte(b[:min(len(b), 8+256+1)], 0)
		if sp < 1 || sp > 6 || nul < sp || len(b) < nul+1+len(oid{}) {
			return nil, damaged("a directory can't be read")
		}
		mode, err := strconv.ParseUint(string(b[:sp]), 8, 32)
		e := entry{mode: uint32(mode), name: decodeName(string(b[sp+1 : nul])), id: oid(b[nul+1 : nul+1+len(oid{})])}
		if err != nil || !validName(e.name) || e.mode != modeFile && e.mode != modeExec && e.mode != modeLink && e.mode != modeDir {
			return nil, damaged("it has the entry %.80q of mode %o", e.name, e.mode)
		}
		entries = append(entries, e)
		b = b[nul+1+len(oid{}):]
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].name == entries[i-1].name {
			return nil, damaged("it has two entries %.80q", entries[i].name)
		}
	}
	return entries, nil
}

// tree returns the entries of a directory, by name. They must not be changed.
func (q *query) tree(id oid) ([]entry, error) {
	if entries, ok := q.trees[id]; ok {
		return entries, q.ctx.Err()
	}
	b, err := q.get(id, kindTree, maxTree)
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(b)
	if err == nil && q.names+len(entries) <= maxNames {
		q.trees[id] = entries
		q.names += len(entries)
	}
	return entries, err
}

// root returns the tree of a commit.
func (q *query) root(id oid) (oid, error) {
	b, err := q.get(id, kindCommit, maxCommit)
	if err != nil {
		return oid{}, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	hexID, ok := strings.CutPrefix(line, "tree ")
	if !ok {
		return oid{}, damaged("the commit %s has no tree", id)
	}
	return parseOID(hexID)
}
