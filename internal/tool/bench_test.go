//go:build linux

package tool

import (
	"strings"
	"testing"
)

// BenchmarkShell is a command that does nothing, from call to result: the
// start of bash is most of it.
func BenchmarkShell(b *testing.B) {
	x := newBox(b)
	for b.Loop() {
		x.call("shell", "command", "true")
	}
}

// BenchmarkEdit replaces one line of a file of 1,000 lines.
func BenchmarkEdit(b *testing.B) {
	x := newBox(b)
	x.write("f.txt", strings.Repeat("some line of text\n", 999)+"a\n")
	old, new := "a\n", "b\n"
	for b.Loop() {
		x.call("edit_file", "path", "f.txt", "old", "text\n"+old, "new", "text\n"+new)
		old, new = new, old
	}
}

// BenchmarkClean is 1 MiB of coloured output.
func BenchmarkClean(b *testing.B) {
	text := []byte(strings.Repeat("\x1b[32mok\x1b[0m some line of output that a build writes\n", 1<<20/60))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		cleanText(text)
	}
}

// BenchmarkSchemas is what All costs: once at the start of a program.
func BenchmarkSchemas(b *testing.B) {
	for b.Loop() {
		All()
	}
}
