package tool

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// unified writes the difference of two texts as diff -u does.
func unified(name, a, b string, around int) string {
	edits := diffLines(splitLines(a), splitLines(b))
	var out strings.Builder
	fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n", name, name)
	oldLine, newLine := 1, 1
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' {
			i, oldLine, newLine = i+1, oldLine+1, newLine+1
			continue
		}
		from := max(0, i-around)
		to, quiet := i, 0
		for j := i; j < len(edits) && quiet <= 2*around; j++ {
			if quiet++; edits[j].op != ' ' {
				to, quiet = j+1, 0
			}
		}
		end := min(len(edits), to+around)
		var old, new int
		var body strings.Builder
		for _, e := range edits[from:end] {
			if e.op != '+' {
				old++
			}
			if e.op != '-' {
				new++
			}
			body.WriteString(string(e.op) + withNewline(e.text))
			if !strings.HasSuffix(e.text, "\n") {
				body.WriteString("\\ No newline at end of file\n")
			}
		}
		oldAt, newAt := oldLine-(i-from), newLine-(i-from)
		if old == 0 {
			oldAt--
		}
		if new == 0 {
			newAt--
		}
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n%s", oldAt, old, newAt, new, body.String())
		for _, e := range edits[i:end] {
			if e.op != '+' {
				oldLine++
			}
			if e.op != '-' {
				newLine++
			}
		}
		i = end
	}
	return out.String()
}

func applyText(t interface{ Fatalf(string, ...any) }, content, patch string) (string, []string, error) {
	files, err := parsePatch(patch)
	if err != nil {
		t.Fatalf("%v in\n%s", err, patch)
	}
	if len(files) != 1 {
		t.Fatalf("%d files in\n%s", len(files), patch)
	}
	return applyHunks(content, files[0].hunks)
}

// TestUnifiedProperties: the difference of a and b applied to a is b.
func TestUnifiedProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := lineText(t, "a"), lineText(t, "b")
		if a == b || a == "" || b == "" {
			return
		}
		patch := unified("f", a, b, rapid.IntRange(1, 4).Draw(t, "context"))
		got, notes, err := applyText(t, a, patch)
		if err != nil || got != b || len(notes) > 0 {
			t.Fatalf("got %q, want %q, notes %q, error %v; patch\n%s", got, b, notes, err, patch)
		}
	})
}

// TestEnvelopeProperties: the same for the format without line numbers, where
// the lines are unique.
func TestEnvelopeProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,6} [a-z]{1,4}`), 3, 30, rapid.ID).Draw(t, "lines")
		a := strings.Join(words, "\n") + "\n"
		changed := append([]string(nil), words...)
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			i := rapid.IntRange(0, len(changed)-1).Draw(t, "at")
			changed[i] = rapid.StringMatching(`[A-Z]{2,8}`).Draw(t, "new")
		}
		b := strings.Join(changed, "\n") + "\n"
		if a == b {
			return
		}
		_, hunks, _ := strings.Cut(unified("f", a, b, 2), "+++ b/f\n")
		patch := "*** Begin Patch\n*** Update File: f\n" + hunks + "*** End Patch"
		got, _, err := applyText(t, a, patch)
		if err != nil || got != b {
			t.Fatalf("got %q, want %q, error %v; patch\n%s", got, b, err, patch)
		}
	})
}

// TestMiscounted: wrong counts and wrong line numbers do not matter where the
// lines are unique.
func TestMiscounted(t *testing.T) {
	t.Parallel()
	const want = "a\nb\nX\nd\ne\n"
	for name, patch := range map[string]string{
		"counts":            "--- a/f\n+++ b/f\n@@ -2,9 +2,1 @@\n b\n-c\n+X\n d\n",
		"lines":             "--- a/f\n+++ b/f\n@@ -90,3 +90,3 @@\n b\n-c\n+X\n d\n",
		"bare header":       "--- a/f\n+++ b/f\n@@\n b\n-c\n+X\n d\n",
		"bare with text":    "--- f\n+++ f\n@@ ... @@\n b\n-c\n+X\n d\n",
		"git":               "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n b\n-c\n+X\n d\n",
		"fence":             "```diff\n--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n b\n-c\n+X\n d\n```",
		"CRLF":              "--- a/f\r\n+++ b/f\r\n@@ -2,3 +2,3 @@\r\n b\r\n-c\r\n+X\r\n d\r\n",
		"no newline at end": "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n b\n-c\n+X\n d",
		"preamble":          "Here is the patch:\n\n--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n b\n-c\n+X\n d\n\n\n",
		"envelope":          "*** Begin Patch\n*** Update File: f\n@@\n b\n-c\n+X\n d\n*** End Patch\n",
		"envelope, anchor":  "*** Begin Patch\n*** Update File: f\n@@ b\n-c\n+X\n*** End Patch\n",
		"envelope, no @@":   "*** Begin Patch\n*** Update File: f\n b\n-c\n+X\n*** End Patch\n",
		"two hunks":         "--- a/f\n+++ b/f\n@@ -3,1 +3,1 @@\n-c\n+Y\n@@ -4,1 +4,0 @@\n-d\n",
	} {
		got, _, err := applyText(t, "a\nb\nc\nd\ne\n", patch)
		expect := want
		if name == "two hunks" {
			expect = "a\nb\nY\ne\n"
		}
		if err != nil || got != expect {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestTolerance(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, content, patch, want, note string }{
		{"trailing space", "a  \nb\nc\n", "@@\n a\n-b\n+x\n c\n", "a  \nx\nc\n", "white space at the ends"},
		{"indentation", "\ta\n\tb\n", "@@\n a\n-b\n+\tx\n", "\ta\n\tx\n", "indentation was ignored"},
		{"quotes", "say “a”\nb\n", "@@\n say \"a\"\n-b\n+x\n", "say “a”\nx\n", "typographic"},
		{"CRLF kept", "a\r\nb\r\nc\r\n", "@@\n a\n-b\n+x\n c\n", "a\r\nx\r\nc\r\n", "white space at the ends"},
		{"no newline at the end", "a\nb", "@@\n a\n b\n+c\n", "a\nb\nc\n", "white space at the ends"},
		{"append", "a\nb\n", "@@\n+c\n", "a\nb\nc\n", ""},
		{"end of file", "a\nx\na\n", "@@\n-a\n+b\n*** End of File\n", "a\nx\nb\n", ""},
		{"anchor tells apart", "f:\n x\ng:\n x\n", "@@ g:\n- x\n+ y\n", "f:\n x\ng:\n y\n", ""},
		{"order", "a\nx\nb\nx\n", "@@\n b\n-x\n+2\n@@\n a\n-x\n+1\n", "a\n1\nb\n2\n", ""},
	}
	for _, tt := range tests {
		got, notes, err := applyText(t, tt.content, "*** Begin Patch\n*** Update File: f\n"+tt.patch+"*** End Patch\n")
		if err != nil || got != tt.want || !strings.Contains(strings.Join(notes, "\n"), tt.note) {
			t.Errorf("%s: got %q %q %v, want %q", tt.name, got, notes, err, tt.want)
		}
	}
}

func TestPatchRefused(t *testing.T) {
	t.Parallel()
	const content = "func a() {\n\treturn 1\n}\n\nfunc b() {\n\treturn 1\n}\n"
	tests := []struct{ name, patch, want string }{
		{"ambiguous", "@@\n-\treturn 1\n+\treturn 2\n", "hunk 1: its old lines are in the file 2 times, at lines 2, 6"},
		{"anchor", "@@ func c()\n-\treturn 1\n+\treturn 2\n", `its line "@@ func c()" is not in the file`},
		{"nearly", "@@\n func a() {\n-\treturn 7\n+\treturn 2\n", "Most alike: lines 1-2; the file has (-), the patch expects (+):\n    1   func a() {\n    2 - →return 1\n      + →return 7"},
		{"applied", "@@\n func a() {\n-\treturn 0\n+\treturn 1\n", "it seems to be applied already"},
		{"nothing alike", "@@\n-SELECT name FROM users\n+SELECT id FROM users\n", "nor anything like them"},
		{"overlap", "@@\n func a() {\n-\treturn 1\n+\treturn 2\n@@\n func a() {\n+\tx\n", "hunk 2"},
	}
	for _, tt := range tests {
		_, _, err := applyText(t, content, "*** Begin Patch\n*** Update File: f\n"+tt.patch+"*** End Patch\n")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v\nwant %s", tt.name, err, tt.want)
		}
	}
}

func TestPatchMalformed(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, patch, want string }{
		{"empty", "please change a to b", "there is no change in it"},
		{"cut off", "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n", `it does not end with "*** End Patch"`},
		{"no plus", "*** Begin Patch\n*** Add File: f\nhello\n*** End Patch", `every line of a new file begins with "+"`},
		{"no sign", "*** Begin Patch\n*** Update File: f\n@@\nhello\n*** End Patch", `line 4 of the patch, "hello": a line of a change begins with`},
		{"no change", "*** Begin Patch\n*** Update File: f\n@@\n a\n*** End Patch", "the hunk before it changes nothing"},
		{"no path", "*** Begin Patch\n*** Delete File: \n*** End Patch", "expected"},
		{"garbage", "*** Begin Patch\nhello\n*** End Patch", `expected "*** Add File:"`},
		{"unified, no sign", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\nhello\n", `line 5 of the patch, "hello"`},
		{"unified, no header", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "without file header"},
		{"binary", "diff --git a/f b/f\nindex 1..2\nBinary files a/f and b/f differ\n", "binary change"},
	}
	for _, tt := range tests {
		_, err := parsePatch(tt.patch)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestPatchFiles(t *testing.T) {
	t.Parallel()
	for name, patch := range map[string]string{
		"git": "diff --git a/new.txt b/new.txt\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n" +
			"diff --git a/old.txt b/old.txt\ndeleted file mode 100644\nindex 1..0\n--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n" +
			"diff --git a/from.txt b/to.txt\nsimilarity index 90%\nrename from from.txt\nrename to to.txt\n--- a/from.txt\n+++ b/to.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
		"envelope": "*** Begin Patch\n*** Add File: new.txt\n+a\n+b\n*** Delete File: old.txt\n*** Update File: from.txt\n*** Move to: to.txt\n@@\n a\n-b\n+c\n*** End Patch\n",
	} {
		files, err := parsePatch(patch)
		if err != nil || len(files) != 3 {
			t.Errorf("%s: %d files, %v", name, len(files), err)
			continue
		}
		a, d, m := files[0], files[1], files[2]
		if a.op != 'A' || a.path != "new.txt" || a.content != "a\nb\n" {
			t.Errorf("%s: added %+v", name, a)
		}
		if d.op != 'D' || d.path != "old.txt" {
			t.Errorf("%s: deleted %+v", name, d)
		}
		if m.op != 'M' || m.path != "from.txt" || m.to != "to.txt" || len(m.hunks) != 1 {
			t.Errorf("%s: moved %+v", name, m)
		}
	}
}

func FuzzPatch(f *testing.F) {
	f.Add("a\nb\nc\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n")
	f.Add("a\nb", "*** Begin Patch\n*** Update File: f\n@@ a\n-b\n+x\n*** End of File\n*** End Patch\n")
	f.Add("", "*** Begin Patch\n*** Add File: f\n+x\n*** End Patch\n")
	f.Add("x", "diff --git a/f b/g\nrename from f\nrename to g\n")
	f.Add("x\n", "@@\n\n\\\n--- \n+++ \n@@")
	f.Fuzz(func(t *testing.T, content, patch string) {
		files, err := parsePatch(patch)
		if err != nil {
			return
		}
		for _, p := range files {
			if p.path == "" {
				t.Error("a file without a path")
			}
			got, _, err := applyHunks(content, p.hunks)
			if err == nil && len(got) > len(content)+len(patch)*2+2 {
				t.Errorf("%d bytes of %d and a patch of %d", len(got), len(content), len(patch))
			}
		}
	})
}
