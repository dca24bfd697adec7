//go:build linux

package snap

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// Bounds of comparing.
const (
	maxChanges  = 2000    // files named
	maxCompared = 1 << 20 // bytes of a file whose lines are counted
	maxEdits    = 1000    // differences found exactly; beyond that lines are matched without regard to order
)

// Change is a file that differs. Counts of lines are -1 where they make no
// sense: for binary and very large files.
type Change struct {
	Path           string
	Added, Deleted int64
}

// changes compares two trees. What lies in a nested .git is left out: it is
// the other tools' bookkeeping.
func (r *Repo) changes(old, now OID) ([]Change, error) {
	c := &comparer{r: r}
	err := c.trees("", &old, &now)
	slices.SortFunc(c.out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return c.out, err
}

type comparer struct {
	r   *Repo
	out []Change
}

func (c *comparer) list(id *OID) (map[string]entry, error) {
	m := map[string]entry{}
	if id == nil {
		return m, nil
	}
	entries, err := c.r.tree(*id)
	for _, e := range entries {
		m[e.name] = e
	}
	return m, err
}

func (c *comparer) trees(rel string, old, now *OID) error {
	before, err := c.list(old)
	if err != nil {
		return err
	}
	after, err := c.list(now)
	if err != nil {
		return err
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			after[name] = entry{}
		}
	}
	for name, b := range after {
		a := before[name]
		if a.id == b.id && a.mode == b.mode || name == ".git" {
			continue
		}
		if err := c.entries(path.Join(rel, name), a, b); err != nil {
			return err
		}
	}
	return nil
}

// entries compares what was and is at a path; mode 0 means nothing.
func (c *comparer) entries(rel string, a, b entry) error {
	var ta, tb, fa, fb *OID
	for _, x := range []struct {
		e          entry
		tree, file **OID
	}{{a, &ta, &fa}, {b, &tb, &fb}} {
		switch {
		case x.e.mode == modeDir:
			*x.tree = &x.e.id
		case x.e.mode != 0:
			*x.file = &x.e.id
		}
	}
	if ta != nil || tb != nil {
		if err := c.trees(rel, ta, tb); err != nil {
			return err
		}
	}
	if (fa != nil || fb != nil) && len(c.out) < maxChanges {
		added, deleted := c.count(fa, fb)
		c.out = append(c.out, Change{rel, added, deleted})
	}
	return nil
}

func (c *comparer) count(a, b *OID) (added, deleted int64) {
	before, ok := c.text(a)
	if !ok {
		return -1, -1
	}
	after, ok := c.text(b)
	if !ok {
		return -1, -1
	}
	return countLines(before, after)
}

// text returns the content of a blob, if it is text and not too long.
func (c *comparer) text(id *OID) ([]byte, bool) {
	if id == nil {
		return nil, true
	}
	b, err := c.r.get(*id, kindBlob, maxCompared)
	return b, err == nil && bytes.IndexByte(b[:min(len(b), 8000)], 0) < 0
}

// countLines returns how many lines were added and deleted.
func countLines(a, b []byte) (added, deleted int64) {
	ids := map[string]int{}
	la, lb := lineIDs(a, ids), lineIDs(b, ids)
	for len(la) > 0 && len(lb) > 0 && la[0] == lb[0] {
		la, lb = la[1:], lb[1:]
	}
	for len(la) > 0 && len(lb) > 0 && la[len(la)-1] == lb[len(lb)-1] {
		la, lb = la[:len(la)-1], lb[:len(lb)-1]
	}
	if d, ok := editDistance(la, lb); ok {
		// d = added + deleted, and added - deleted is the difference in length.
		diff := len(lb) - len(la)
		return int64(d+diff) / 2, int64(d-diff) / 2
	}
	return countUnordered(la, lb)
}

func lineIDs(b []byte, ids map[string]int) []int {
	var out []int
	for line := range bytes.Lines(b) {
		id, ok := ids[string(line)]
		if !ok {
			id = len(ids)
			ids[string(line)] = id
		}
		out = append(out, id)
	}
	return out
}

// editDistance is the least number of insertions and deletions that make b
// of a (Myers' greedy algorithm), if there are at most maxEdits.
func editDistance(a, b []int) (int, bool) {
	if len(a) == 0 || len(b) == 0 {
		return len(a) + len(b), true
	}
	limit := min(len(a)+len(b), maxEdits)
	reach := make([]int, 2*limit+3) // the furthest x on each diagonal x-y
	mid := limit + 1
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			var x int
			if k == -d || k != d && reach[mid+k-1] < reach[mid+k+1] {
				x = reach[mid+k+1]
			} else {
				x = reach[mid+k-1] + 1
			}
			y := x - k
			for x < len(a) && y >= 0 && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			reach[mid+k] = x
			if x >= len(a) && y >= len(b) {
				return d, true
			}
		}
	}
	return 0, false
}

func countUnordered(a, b []int) (added, deleted int64) {
	have := map[int]int{}
	for _, x := range a {
		have[x]++
	}
	for _, x := range b {
		if have[x] > 0 {
			have[x]--
		} else {
			added++
		}
	}
	for _, n := range have {
		deleted += int64(n)
	}
	return added, deleted
}
