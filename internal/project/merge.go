package project

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of what jobs write. What people write is bounded by the file alone.
const (
	maxEntry   = 500 // bytes of one entry
	maxEntries = 150 // of jobs in one file
)

// mark ends a line that a job wrote: the day, and what the line said then. A
// line that a person has changed does not agree with its mark any more, and
// is theirs.
var mark = regexp.MustCompile(` <!-- glovebox ([0-9-]{10}) ([0-9a-f]{8}) -->$`)

// ours returns what a line says without its mark, if a job wrote it and nobody
// has changed it.
func ours(line string) (text string, ok bool) {
	m := mark.FindStringSubmatchIndex(line)
	if m == nil {
		return line, false
	}
	text = line[:m[0]]
	return text, line[m[4]:m[5]] == digest(text)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// Plain returns a file without marks, as a model is shown it.
func Plain(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = mark.ReplaceAllString(l, "")
	}
	return strings.Join(lines, "\n")
}

// merge adds entries to a file, the newest last. One that a person has
// written is not added again; one that a job has written moves to the end.
// Beyond the bounds the oldest of those that jobs have written go; what
// people wrote stays. With once, an entry replaces all of jobs' that begin
// like it, up to its colon.
func merge(text, head string, entries []string, once bool, now time.Time) string {
	if strings.TrimSpace(text) == "" {
		text = head
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, e := range entries {
		if e = entry(e); e == "" {
			continue
		}
		lines = add(lines, "- "+e, once, now)
	}
	return strings.Join(shrink(lines), "\n") + "\n"
}

func add(lines []string, line string, once bool, now time.Time) []string {
	k, kind := sameness(line), line[:strings.Index(line+":", ":")]
	for _, l := range lines {
		if _, of := ours(l); !of && sameness(mark.ReplaceAllString(l, "")) == k {
			return lines // a person has it
		}
	}
	lines = slices.DeleteFunc(lines, func(l string) bool {
		text, of := ours(l)
		return of && (sameness(text) == k || once && strings.HasPrefix(text, kind+":"))
	})
	return append(lines, line+" <!-- glovebox "+now.UTC().Format(time.DateOnly)+" "+digest(line)+" -->")
}

// shrink removes the oldest lines of jobs until the bounds hold.
func shrink(lines []string) []string {
	size, count := 0, 0
	for _, l := range lines {
		size += len(l) + 1
		if _, of := ours(l); of {
			count++
		}
	}
	return slices.DeleteFunc(lines, func(l string) bool {
		if size <= glovebox.MaxProjectFile && count <= maxEntries {
			return false
		}
		if _, of := ours(l); !of {
			return false
		}
		size, count = size-len(l)-1, count-1
		return true
	})
}

// sameness is equal for lines that say the same.
func sameness(line string) string {
	line = strings.TrimLeft(line, "-*+• \t")
	return strings.TrimRight(strings.ToLower(strings.Join(strings.Fields(line), " ")), ".!;")
}

// entry makes text one line that can be nothing but an entry of a list.
func entry(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == 0x2028, r == 0x2029:
			return ' '
		case r == 0x200b, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r >= 0xe0000 && r <= 0xe0fff: // nobody would see them
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.TrimLeft(strings.Join(strings.Fields(text), " "), "-*+•# ")
	text = strings.NewReplacer("<!--", "<! --", "-->", "-- >").Replace(text)
	if len(text) > maxEntry {
		n := maxEntry
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n] + "..."
	}
	return text
}
