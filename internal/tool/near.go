package tool

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// nearMiss says why old is not in content and what in it comes closest.
func nearMiss(content, old string) string {
	if strings.TrimSpace(old) == "" {
		return "old is nothing but white space, and it is not there in this form. Include the text around it."
	}
	lines := splitLines(content)
	if len(lines) == 0 {
		return "the file is empty. Use write_file."
	}
	want := splitLines(old)
	if bare, ok := withoutNumbers(want); ok && strings.Contains(content, strings.TrimSuffix(bare, "\n")) {
		return "old has line numbers in front of its lines, which the file has not. Leave them out, with the tab after them."
	}
	if unescaped := unescape(old); unescaped != old && strings.Contains(content, unescaped) {
		return `old has escape sequences (such as \n or \") where the file has the characters themselves. Give the text as it is.`
	}
	if at := sameBut(lines, want, squeeze); len(at) > 0 {
		return spacingMiss(lines, want, at)
	}
	if at := sameBut(lines, want, func(s string) string { return squeeze(plainer.Replace(s)) }); len(at) > 0 {
		return fmt.Sprintf("old is not there exactly; in quotes, dashes or special spaces it differs from %s. The file has (-), you gave (+):\n%s",
			lineRange(at[0], len(trimBlank(want))), smallDiff(window(lines, at[0], len(trimBlank(want))), trimBlank(want), at[0], 20))
	}
	if at := sameBut(lines, want, func(s string) string { return strings.ToLower(squeeze(s)) }); len(at) > 0 {
		return fmt.Sprintf("old is not there exactly; in upper and lower case it differs from %s. The file has (-), you gave (+):\n%s",
			lineRange(at[0], len(trimBlank(want))), smallDiff(window(lines, at[0], len(trimBlank(want))), trimBlank(want), at[0], 20))
	}
	if at, score := mostAlike(lines, trimBlank(want)); score >= 0.5 {
		n := len(trimBlank(want))
		return fmt.Sprintf("old is not there. Most alike: %s. The file has (-), you gave (+):\n%s",
			lineRange(at, min(n, len(lines)-at+1)), smallDiff(window(lines, at, n), trimBlank(want), at, 30))
	}
	return fmt.Sprintf("old is not there, and nothing like it (the file has %d lines). Read the file again; search_files finds where the text went.", len(lines))
}

// spacingMiss is the message where only white space differs.
func spacingMiss(lines, want []string, at []int) string {
	want = trimBlank(want)
	where := lineRange(at[0], len(want))
	if len(at) > 1 {
		where += fmt.Sprintf(" (and %d other places)", len(at)-1)
	}
	have := window(lines, at[0], len(want))
	if slices.Equal(have, want) { // only blank lines around it, or the end of the file
		return fmt.Sprintf("old differs from %s only in the blank lines around them. Leave those out.", where)
	}
	return fmt.Sprintf("old differs from %s only in white space. The file has (-), you gave (+), → is a tab:\n%s", where, smallDiff(have, want, at[0], 20))
}

// lineRange names n lines from first on.
func lineRange(first, n int) string {
	if n <= 1 {
		return fmt.Sprintf("line %d", first)
	}
	return fmt.Sprintf("lines %d-%d", first, first+n-1)
}

func window(lines []string, first, n int) []string {
	return lines[first-1 : min(len(lines), first-1+n)]
}

// trimBlank leaves out blank lines at both ends.
func trimBlank(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// sameBut returns the numbers of the lines at which want is there, if both
// are seen through norm; the first ten. Where want is a piece of a line, that
// line counts.
func sameBut(lines, want []string, norm func(string) string) []int {
	want = trimBlank(want)
	have := make([]string, len(lines))
	for i, l := range lines {
		have[i] = norm(l)
	}
	keys := make([]string, len(want))
	for i, l := range want {
		keys[i] = norm(l)
	}
	var at []int
	for i := 0; i+len(keys) <= len(have) && len(at) < 10; i++ {
		if matchesAt(have[i:i+len(keys)], keys) {
			at = append(at, i+1)
		}
	}
	return at
}

// matchesAt reports whether keys is what have says, where the first line may
// begin and the last may end in the middle of a line.
func matchesAt(have, keys []string) bool {
	last := len(keys) - 1
	if last == 0 {
		return keys[0] != "" && strings.Contains(have[0], keys[0])
	}
	return strings.HasSuffix(have[0], keys[0]) && strings.HasPrefix(have[last], keys[last]) && slices.Equal(have[1:last], keys[1:last])
}

const (
	alikeLines = 200    // how many lines of old are compared
	alikeReach = 50_000 // how many lines are compared character by character, to find a first place
	alikeTop   = 10     // how many places are compared character by character
)

// mostAlike returns the line at which the window that looks most like want
// begins, and how alike it is, from 0 to 1.
func mostAlike(lines, want []string) (at int, score float64) {
	want = want[:min(len(want), alikeLines)]
	if len(want) == 0 {
		return 0, 0
	}
	pairs := make([]map[string]int, len(want))
	for i, w := range want {
		pairs[i] = bigrams(w)
	}
	starts := sharedLines(lines, want)
	if len(starts) == 0 {
		starts = likeLongest(lines, want, pairs)
	}
	for _, start := range starts {
		total := 0.0
		for i := 0; i < len(want) && start+i < len(lines); i++ {
			total += alike(pairs[i], bigrams(lines[start+i]))
		}
		if s := total / float64(len(want)); s > score {
			at, score = start+1, s
		}
	}
	return at, score
}

// sharedLines returns the places at which most of want's lines are, white
// space aside, long lines counting more.
func sharedLines(lines, want []string) []int {
	where := map[string][]int{}
	for j, w := range want {
		if key := squeeze(w); key != "" {
			where[key] = append(where[key], j)
		}
	}
	votes := make([]int32, len(lines))
	for i, l := range lines {
		key := squeeze(l)
		for _, j := range where[key] {
			if i >= j {
				votes[i-j] += int32(min(len(key), 40))
			}
		}
	}
	return best(votes)
}

// likeLongest returns the places at which the longest line of want may be.
func likeLongest(lines, want []string, pairs []map[string]int) []int {
	lead := longest(want)
	votes := make([]int32, len(lines))
	for i := lead; i < min(len(lines), alikeReach); i++ {
		if s := alike(pairs[lead], bigrams(lines[i])); s >= 0.5 {
			votes[i-lead] = int32(s * 1000)
		}
	}
	return best(votes)
}

// best returns the places with the most votes, the first alikeTop.
func best(votes []int32) []int {
	var places []int
	for i, v := range votes {
		if v > 0 {
			places = append(places, i)
		}
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(votes[b], votes[a]) })
	return places[:min(len(places), alikeTop)]
}

func longest(lines []string) int {
	best := 0
	for i, l := range lines {
		if len(squeeze(l)) > len(squeeze(lines[best])) {
			best = i
		}
	}
	return best
}

// bigrams counts the pairs of neighbouring bytes in the first 500 bytes of a
// line without white space.
func bigrams(s string) map[string]int {
	s = squeeze(clip.Short(s, 500))
	m := make(map[string]int, len(s))
	for i := 0; i+2 <= len(s); i++ {
		m[s[i:i+2]]++
	}
	if len(s) == 1 {
		m[s]++
	}
	return m
}

// alike is Dice's coefficient of two bags of pairs; two empty ones are alike.
func alike(a, b map[string]int) float64 {
	var common, total int
	for k, n := range a {
		common += min(n, b[k])
		total += n
	}
	for _, n := range b {
		total += n
	}
	if total == 0 {
		return 1
	}
	return 2 * float64(common) / float64(total)
}

var numberedLine = regexp.MustCompile(`^ *\d+[:-]?\t`)

// withoutNumbers removes the line numbers of read_file, if all lines have one.
func withoutNumbers(lines []string) (string, bool) {
	var b strings.Builder
	for _, l := range lines {
		m := numberedLine.FindString(l)
		if m == "" {
			return "", false
		}
		b.WriteString(l[len(m):])
	}
	return b.String(), true
}

var unescape = func(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\"`, `"`, `\'`, "'").Replace(s)
}
