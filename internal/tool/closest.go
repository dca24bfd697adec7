package tool

import (
	"cmp"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// closest returns up to n of names that look like name, the closest first.
func closest(name string, names []string, n int) []string {
	type candidate struct {
		name string
		far  int
	}
	name = strings.ToLower(clip.Short(name, 200))
	var found []candidate
	for _, c := range names {
		if len(c) > 200 {
			continue
		}
		lower := strings.ToLower(c)
		near := max(1, len(name)/3)
		far := near + 1
		if d := len(lower) - len(name); d <= near && -d <= near {
			far = distance(name, lower)
		}
		if len(name) > 2 && (strings.HasPrefix(lower, name) || strings.HasPrefix(name, lower) && len(lower) > 2) {
			far = min(far, near) // one is the beginning of the other
		}
		if far <= near {
			found = append(found, candidate{c, far})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name))
	})
	out := make([]string, 0, n)
	for _, c := range found[:min(n, len(found))] {
		out = append(out, c.name)
	}
	return out
}

// distance is how many bytes must be inserted, deleted, replaced or swapped
// with the next to make b of a.
func distance(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			cost = min(cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, before[j-1]+1)
			}
			next[j+1] = cost
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
