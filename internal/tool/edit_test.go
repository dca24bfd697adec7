package tool

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

const sampleFile = `package main

import "fmt"

func main() {
	for i := 0; i < 3; i++ {
		fmt.Println("hello", i)
	}
	fmt.Println("done")
}
`

func TestReplaceMessages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, content, old string
		want               []string
	}{
		{"twice", "a\nb\na\n", "a", []string{"old is there 2 times, at lines 1, 3"}},
		{"many", strings.Repeat("x\n", 30), "x", []string{"30 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..."}},
		{"indentation", sampleFile, "for i := 0; i < 3; i++ {\n    fmt.Println(\"hello\", i)\n}", []string{
			"old differs from lines 6-8 only in white space", "    7 - →→fmt.Println(\"hello\", i)", "      +     fmt.Println(\"hello\", i)",
		}},
		{"spaces in a line", sampleFile, "fmt.Println(\"hello\",i)", []string{"old differs from line 7 only in white space"}},
		{"trailing space", "a  \nb\n", "a\nb\n", []string{"old differs from lines 1-2 only in white space", "    1 - a··", "      + a"}},
		{"blank lines around", sampleFile, "\n\n\tfmt.Println(\"done\")\n\n\n", []string{"only in the blank lines around them"}},
		{"line numbers", sampleFile, " 9\t\tfmt.Println(\"done\")\n10\t}\n", []string{"old has line numbers in front of its lines"}},
		{"escapes", sampleFile, `import \"fmt\"\n`, []string{"old has escape sequences"}},
		{"quotes", "say(\"hello\")\n", "say(“hello”)", []string{"in quotes, dashes or special spaces it differs from line 1", "    1 - say(\"hello\")"}},
		{"case", "const MaxSize = 3\n", "const maxSize = 3", []string{"in upper and lower case it differs from line 1"}},
		{"alike", sampleFile, "\tfor i := 0; i < 5; i++ {\n\t\tfmt.Println(\"hallo\", i)\n\t}\n", []string{
			"Most alike: lines 6-8", "    6 - →for i := 0; i < 3; i++ {", "      + →for i := 0; i < 5; i++ {",
		}},
		{"one line alike", sampleFile, "fmt.Println(\"donee!\")", []string{"Most alike: line 9"}},
		{"nothing", sampleFile, "SELECT * FROM users WHERE id = 7", []string{"nothing like it (the file has 10 lines)"}},
		{"empty file", "", "x", []string{"the file is empty"}},
		{"white space", "a\n", "   ", []string{"nothing but white space"}},
		{"old is new", "a\n", "NEW", []string{"old and new are the same"}},
	}
	for _, tt := range tests {
		_, _, problem := replace(tt.content, tt.old, "NEW", false)
		for _, w := range tt.want {
			if !strings.Contains(problem, w) {
				t.Errorf("%s: got\n%s\nwant\n%s", tt.name, problem, w)
			}
		}
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, content, old, new string
		all                     bool
		want                    string
	}{
		{"once", "a b c", "b", "x", false, "a x c"},
		{"all", "a b a b", "a", "xx", true, "xx b xx b"},
		{"delete", "a b c", " b", "", false, "a c"},
		{"overlapping", "aaaa", "aa", "b", true, "bb"},
		{"CRLF", "one\r\ntwo\r\nthree\r\n", "one\ntwo\n", "1\n2\n", false, "1\r\n2\r\nthree\r\n"},
		{"CRLF given", "one\r\ntwo\r\n", "one\r\n", "1\r\n", false, "1\r\ntwo\r\n"},
		{"new has old", "a", "a", "aa", true, "aa"},
	}
	for _, tt := range tests {
		got, _, problem := replace(tt.content, tt.old, tt.new, tt.all)
		if got != tt.want || problem != "" {
			t.Errorf("%s: got %q %q, want %q", tt.name, got, problem, tt.want)
		}
	}
}

// lineText draws the content of a file: lines of few words, so that some are
// the same, with or without a newline at the end.
func lineText(t *rapid.T, label string) string {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"", "}", "a", "\tb", "  c", "if x {", "return", "é"}), 0, 40).Draw(t, label)
	text := strings.Join(lines, "\n")
	if rapid.Bool().Draw(t, label+" ends with newline") && text != "" {
		text += "\n"
	}
	return text
}

// TestReplaceProperties: whatever piece of a text is replaced, if it is
// unique, exactly it changes; if it is not, the text stays.
func TestReplaceProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		content := lineText(t, "content")
		if content == "" {
			return
		}
		from := rapid.IntRange(0, len(content)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, len(content)).Draw(t, "to")
		old, new := content[from:to], lineText(t, "new")
		got, at, problem := replace(content, old, new, false)
		if old == new {
			return
		}
		if strings.Count(content, old) > 1 || strings.Index(content, old) != from {
			if problem == "" && strings.Count(content, old) > 1 {
				t.Fatalf("replaced one of several")
			}
			return
		}
		if want := content[:from] + new + content[to:]; got != want || at[0] != from {
			t.Fatalf("got %q at %v, want %q (%s)", got, at, want, problem)
		}
	})
}

// TestNearMissProperties: a message is found for any text, and bounded.
func TestNearMissProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		content, old := lineText(t, "content"), lineText(t, "old")
		if got := nearMiss(content, old); got == "" || len(got) > 20<<10 {
			t.Fatalf("a message of %d bytes", len(got))
		}
	})
}

func TestNearMissEffort(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, "value_%d = %d\n", i, i*7)
	}
	old := strings.ReplaceAll(strings.Join(splitLines(b.String())[150000:150200], ""), "5 =", "5 ==")
	if got := nearMiss(b.String(), old); !strings.Contains(got, "Most alike: lines 150001-150200") {
		t.Errorf("got\n%s", clip.Short(got, 500))
	}
}
