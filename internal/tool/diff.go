package tool

import (
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// diffBound is how many lines each side of a difference may have, apart from
// what both begin and end with; beyond it all lines count as replaced.
const diffBound = 2000

// edit is one line of a difference: kept ' ', deleted '-' or added '+'.
type edit struct {
	op   byte
	text string
}

// diffLines returns a shortest way to make b of a.
func diffLines(a, b []string) []edit {
	var out, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		out = append(out, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, edit{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	out = append(out, diffMiddle(a, b)...)
	for i := len(tail) - 1; i >= 0; i-- {
		out = append(out, tail[i])
	}
	return out
}

func diffMiddle(a, b []string) []edit {
	var out []edit
	if len(a) > diffBound || len(b) > diffBound {
		for _, l := range a {
			out = append(out, edit{'-', l})
		}
		for _, l := range b {
			out = append(out, edit{'+', l})
		}
		return out
	}
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	width := len(b) + 1
	common := make([]int16, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*width+j] >= common[i*width+j+1]:
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}

// smallDiff shows a difference, at most maxLines lines of it, the first line
// of a having the number first. White space at the ends of lines that differ
// is made visible.
func smallDiff(a, b []string, first, maxLines int) string {
	var out strings.Builder
	n, shown := first, 0
	edits := diffLines(a, b)
	for i, e := range edits {
		if shown == maxLines {
			fmt.Fprintf(&out, "      ... %d more lines\n", len(edits)-i)
			break
		}
		shown++
		text := clip.Short(strings.TrimSuffix(e.text, "\n"), 200)
		if e.op != ' ' {
			text = visible(text)
		}
		if e.op == '+' {
			fmt.Fprintf(&out, "%5s %c %s\n", "", e.op, text)
			continue
		}
		fmt.Fprintf(&out, "%5d %c %s\n", n, e.op, text)
		n++
	}
	return out.String()
}

// visible marks the white space that is easily overlooked: tabs, and spaces
// at the end.
func visible(s string) string {
	trimmed := strings.TrimRight(s, " \t\r")
	tail := strings.NewReplacer(" ", "·", "\t", "→", "\r", "\\r").Replace(s[len(trimmed):])
	indent := len(trimmed) - len(strings.TrimLeft(trimmed, " \t"))
	return strings.ReplaceAll(trimmed[:indent], "\t", "→") + trimmed[indent:] + tail
}
