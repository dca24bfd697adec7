//go:build linux

package tool

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write("src/main.go", sampleFile)
	b.write("crlf.txt", "a\r\nb\r\n")
	b.write("no-newline.txt", "a\nb")
	b.write("empty.txt", "")
	b.write("data.bin", "\x7fELF\x00\x01\x02")
	b.write("wide.txt", strings.Repeat("x", 5000)+"\n")
	var long strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&long, "this is line %d\n", i+1)
	}
	b.write("long.txt", long.String())

	b.good([]string{" 1\tpackage main\n", "10\t}"}, "read_file", "path", "src/main.go")
	b.good([]string{" 1\tpackage main\n"}, "read_file", "path", "/workspace/src/main.go")
	b.good([]string{"6\t\tfor i", "7\t\t\tfmt.Println", "[of 10 lines]"}, "read_file", "path", "src/main.go", "start_line", 6, "end_line", 7)
	b.good([]string{"1\ta\n2\tb\n[lines end with CRLF]"}, "read_file", "path", "crlf.txt")
	b.good([]string{"[no newline at the end]"}, "read_file", "path", "no-newline.txt")
	b.good([]string{"/workspace/empty.txt is empty."}, "read_file", "path", "empty.txt")
	b.good([]string{"is not text: ELF executable or library, 7 bytes, sha256 "}, "read_file", "path", "data.bin")
	b.good([]string{"[5000 bytes in this line]"}, "read_file", "path", "wide.txt")
	text := b.good([]string{"   1\tthis is line 1\n", " of 3000 are shown; go on with start_line "}, "read_file", "path", "long.txt")
	var next int
	if _, err := fmt.Sscanf(text[strings.LastIndex(text, "start_line "):], "start_line %d", &next); err != nil {
		t.Fatal(err)
	}
	b.good([]string{fmt.Sprintf("%4d\tthis is line %d\n", next, next)}, "read_file", "path", "long.txt", "start_line", next)

	b.bad([]string{"There is no /workspace/src/mian.go. Did you mean /workspace/src/main.go?"}, "read_file", "path", "src/mian.go")
	b.bad([]string{"There is no /workspace/lib/main.go. There is no directory /workspace/lib either. Did you mean /workspace/src/main.go?"}, "read_file", "path", "lib/main.go")
	b.bad([]string{"/workspace/src is a directory. list_files"}, "read_file", "path", "src")
	b.bad([]string{`"start_line": /workspace/crlf.txt has 2 lines`}, "read_file", "path", "crlf.txt", "start_line", 9)
	b.bad([]string{`"end_line": 2 is before start_line 5`}, "read_file", "path", "crlf.txt", "start_line", 5, "end_line", 2)
	b.bad([]string{"NUL byte"}, "read_file", "path", "a\x00b")
}

func TestReadImage(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	var buf bytes.Buffer
	if err := png.Encode(&buf, image.NewGray(image.Rect(0, 0, 30, 20))); err != nil {
		t.Fatal(err)
	}
	b.write("logo.png", buf.String())
	r := b.call("read_file", "path", "logo.png")
	if len(r.Content) != 2 || r.Content[1].Type != glovebox.BlockImage || r.Content[1].MediaType != "image/png" || !bytes.Equal(r.Content[1].Data, buf.Bytes()) {
		t.Errorf("got %+v", r.Content)
	}
	if want := "/workspace/logo.png: image/png, 30 x 20 pixels"; !strings.Contains(textOf(r), want) {
		t.Errorf("got %q", textOf(r))
	}
	b.write("broken.png", "\x89PNG\r\n\x1a\n\x00\x00")
	b.good([]string{"an image that can't be shown: it is damaged"}, "read_file", "path", "broken.png")
	b.write("bmi.txt", "BMI is mass by height squared.\n")
	b.good([]string{"BMI is mass"}, "read_file", "path", "bmi.txt")
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.good([]string{"Created /workspace/a/b/c.txt (2 lines, 4 bytes)."}, "write_file", "path", "a/b/c.txt", "content", "1\n2\n")
	b.good([]string{"Replaced /workspace/a/b/c.txt (0 lines, 0 bytes)."}, "write_file", "path", "/workspace/a/b/c.txt", "content", "")
	b.good([]string{"Created"}, "write_file", "path", "run.sh", "content", "#!/bin/sh\necho hi\n", "executable", true)
	if s, err := os.Stat(filepath.Join(b.dir, "run.sh")); err != nil || s.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", s.Mode(), err)
	}
	b.bad([]string{`"path": /workspace/a/b is a directory; name a file`}, "write_file", "path", "a/b", "content", "x")
	b.bad([]string{"name a file"}, "write_file", "path", ".", "content", "x")
	b.bad([]string{`"content": missing`}, "write_file", "path", "x")
	r, err := b.try(t.Context(), "write_file", "path", "run.sh/x", "content", "x")
	if err != nil || !r.IsError {
		t.Errorf("a file as a directory: %v %v", textOf(r), err)
	}
}

func TestEditFile(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write("main.go", sampleFile)
	b.good([]string{"Edited /workspace/main.go at line 9.", "\tfmt.Println(\"bye\")"}, "edit_file", "path", "main.go", "old", `"done"`, "new", `"bye"`)
	if got, want := b.read("main.go"), strings.Replace(sampleFile, "done", "bye", 1); got != want {
		t.Errorf("got %q", got)
	}
	before := b.read("main.go")
	b.bad([]string{"was not changed: old is there 2 times, at lines 7, 9"}, "edit_file", "path", "main.go", "old", "fmt.Println", "new", "log.Println")
	b.bad([]string{"was not changed: old differs from line 9 only in white space"}, "edit_file", "path", "main.go", "old", "fmt.Println( \"bye\" )", "new", "x")
	if got := b.read("main.go"); got != before {
		t.Errorf("a failed edit changed it to %q", got)
	}
	b.good([]string{"Edited /workspace/main.go in 2 places. The first:"}, "edit_file", "path", "main.go", "old", "fmt.Println", "new", "log.Println", "all", true)
	b.bad([]string{"There is no /workspace/man.go. Did you mean /workspace/main.go?"}, "edit_file", "path", "man.go", "old", "a", "new", "b")
	b.bad([]string{`"old": it is empty`}, "edit_file", "path", "main.go", "old", "", "new", "b")
	b.write("x.bin", "a\x00b")
	b.bad([]string{"is not text"}, "edit_file", "path", "x.bin", "old", "a", "new", "b")
	// The mode stays.
	if err := os.Chmod(filepath.Join(b.dir, "main.go"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.good(nil, "edit_file", "path", "main.go", "old", "package main", "new", "package app")
	if s, err := os.Stat(filepath.Join(b.dir, "main.go")); err != nil || s.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", s.Mode(), err)
	}
}

func TestApplyPatch(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write("a.txt", "one\ntwo\nthree\n")
	b.write("old.txt", "x\n")
	b.write("from.txt", "a\nb\n")
	patch := "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n three\n*** Add File: dir/new.txt\n+hello\n*** Delete File: old.txt\n" +
		"*** Update File: from.txt\n*** Move to: to.txt\n@@\n a\n-b\n+c\n*** End Patch"
	b.good([]string{"M a.txt (+1 -1)", "A dir/new.txt (1 lines)", "D old.txt", "R from.txt -> to.txt (+1 -1)"}, "apply_patch", "patch", patch)
	if got := b.read("a.txt") + b.read("dir/new.txt") + b.read("to.txt"); got != "one\n2\nthree\nhello\na\nc\n" {
		t.Errorf("got %q", got)
	}
	if b.exists("old.txt") || b.exists("from.txt") {
		t.Error("what was to go is still there")
	}

	// All or nothing: the second file does not fit.
	patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n 2\n--- a/to.txt\n+++ b/to.txt\n@@ -1,2 +1,2 @@\n a\n-zzz\n+y\n"
	b.bad([]string{"The patch does not apply; nothing was changed.\nto.txt: hunk 1 (@@ -1,2 +1,2 @@): its old lines are not in the file. Most alike: lines 1-2"}, "apply_patch", "patch", patch)
	if got := b.read("a.txt"); got != "one\n2\nthree\n" {
		t.Errorf("a.txt was changed to %q", got)
	}
	b.bad([]string{"a.txt: it is to be added, but it exists"}, "apply_patch", "patch", "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch")
	b.bad([]string{"b.txt: There is no /workspace/b.txt. Did you mean /workspace/a.txt"}, "apply_patch", "patch", "*** Begin Patch\n*** Delete File: b.txt\n*** End Patch")
	b.bad([]string{"The patch is malformed; nothing was changed: "}, "apply_patch", "patch", "change a to b")
	b.good([]string{"was at line 1, not 40"}, "apply_patch", "patch", "--- a/a.txt\n+++ b/a.txt\n@@ -40,2 +40,2 @@\n-one\n+1\n 2\n")

	// A write that fails undoes those before it.
	b.write("file", "x\n")
	patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-1\n+uno\n*** Add File: file/inside.txt\n+x\n*** End Patch"
	before := b.read("a.txt")
	r, err := b.try(t.Context(), "apply_patch", "patch", patch)
	if err != nil || !r.IsError || b.read("a.txt") != before {
		t.Errorf("%v %v; a.txt is %q", textOf(r), err, b.read("a.txt"))
	}
}

func TestMoveAndDelete(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write("a.txt", "a")
	b.write("b.txt", "b")
	b.write("dir/x.txt", "x")
	b.good([]string{"Moved /workspace/a.txt to /workspace/new/a.txt."}, "move_file", "from", "a.txt", "to", "new/a.txt")
	b.bad([]string{`"to": there is something at /workspace/b.txt already`}, "move_file", "from", "new/a.txt", "to", "b.txt")
	b.bad([]string{"There is no /workspace/c.txt. Did you mean /workspace/b.txt?"}, "move_file", "from", "c.txt", "to", "d.txt")
	b.bad([]string{`"to": it is the same path`}, "move_file", "from", "b.txt", "to", "./b.txt")
	b.bad([]string{"the workspace itself"}, "move_file", "from", ".", "to", "x")
	b.bad([]string{"/workspace/dir is a directory with 1 entries. Set all"}, "delete_file", "path", "dir")
	b.good([]string{"Deleted the directory /workspace/dir."}, "delete_file", "path", "dir", "all", true)
	b.good([]string{"Deleted the file /workspace/b.txt."}, "delete_file", "path", "b.txt")
	b.bad([]string{"There is no /workspace/b.txt."}, "delete_file", "path", "b.txt")
	for _, p := range []string{".", "/", "/workspace", "/workspace/", "x/.."} {
		b.bad([]string{"itself can't be deleted"}, "delete_file", "path", p, "all", true)
	}
	if b.exists("dir") || b.exists("b.txt") || !b.exists("new/a.txt") {
		t.Error("the wrong files are there")
	}
}

func TestListFiles(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.good([]string{"There are no files in /workspace, apart from what .gitignore names (set all to see it); the directory is empty."}, "list_files")
	b.write("pkg/node_modules/x/index.js", "hidden")
	text := b.good([]string{"  pkg/\n    node_modules/"}, "list_files")
	if strings.Contains(text, "index.js") {
		t.Errorf("what is rebuilt is listed:\n%s", text)
	}
	b.good([]string{"No line in /workspace matches"}, "search_files", "pattern", "hidden")
	b.good([]string{"The directory has pkg/."}, "list_files", "pattern", "**/*.js")
	b.write(".gitignore", "node_modules/\n")
	b.write("src/app/main.ts", "x")
	b.write("src/app/main.test.ts", "x")
	b.write("node_modules/react/index.js", "x")
	b.write("README.md", strings.Repeat("x", 1500))
	text = b.good([]string{"/workspace/\n", "  README.md  1.5 kB\n", "  src/\n    app/\n      main.test.ts  1 B\n"}, "list_files")
	if strings.Contains(text, "react") {
		t.Errorf("ignored files are listed:\n%s", text)
	}
	b.good([]string{"react"}, "list_files", "all", true)
	b.good([]string{"In /workspace:\nsrc/app/main.test.ts  1 B"}, "list_files", "pattern", "**/*.test.ts")
	b.good([]string{"app/ (2 files)"}, "list_files", "path", "src", "depth", 1)
	b.good([]string{`No file in /workspace matches "**/*.go"`}, "list_files", "pattern", "**/*.go")
	b.bad([]string{"There is no /workspace/srv. Did you mean /workspace/src?"}, "list_files", "path", "srv")
	b.bad([]string{"is a file of 1500 bytes, not a directory"}, "list_files", "path", "README.md")
	for i := range 1000 {
		b.write(fmt.Sprintf("many/%03d/file.txt", i%50)+fmt.Sprint(i), "x")
	}
	b.good([]string{"    049/ (20 files)\n"}, "list_files")
}

func TestSearchFiles(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write("a.go", sampleFile)
	b.write("b/b.txt", "hello (world)\nHELLO\n")
	b.good([]string{"a.go\n    7:\t\t\tfmt.Println(\"hello\", i)\n\nb/b.txt\n    1:\thello (world)"}, "search_files", "pattern", "hello")
	b.good([]string{"    2:\tHELLO"}, "search_files", "pattern", "hello", "ignore_case", true, "glob", "*.txt")
	b.good([]string{"    1:\thello (world)"}, "search_files", "pattern", "(world)", "fixed", true)
	b.good([]string{"    6-\t\tfor i", "    7:\t", "    8-\t\t}"}, "search_files", "pattern", `"hello"`, "context", 1)
	b.good([]string{`No line in /workspace matches "nowhere"`}, "search_files", "pattern", "nowhere")
	b.good([]string{"there are more matches"}, "search_files", "pattern", ".", "limit", 2)
	b.bad([]string{""}, "search_files", "pattern", "(unclosed")
	b.bad([]string{"There is no /workspace/c."}, "search_files", "pattern", "x", "path", "c")
	b.bad([]string{"several lines"}, "search_files", "pattern", "a\nb")
}

func TestPlanAskFinish(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.call("plan", "steps", []map[string]string{{"text": "a", "status": "done"}, {"text": "b", "status": "active"}})
	if len(r.Plan) != 2 || r.Plan[1].Status != glovebox.PlanActive || !strings.Contains(textOf(r), "2 steps, 1 done") {
		t.Errorf("got %+v", r)
	}
	b.bad([]string{`"steps[0].status": got the string "doing", want one of "pending", "active", "done"`}, "plan", "steps", []map[string]string{{"text": "a", "status": "doing"}})
	b.bad([]string{`"steps": got 0 items`}, "plan", "steps", []string{})
	r = b.call("ask_user", "question", "Red or blue?")
	if r.Ask == nil || r.Ask.Timeout.Seconds() != 600 || r.Ask.Question != "Red or blue?" {
		t.Errorf("got %+v", r.Ask)
	}
	b.bad([]string{`"timeout_s": got 86401, want an integer from 10 to 86400`}, "ask_user", "question", "x", "timeout_s", 86401)
	r = b.call("finish", "summary", "s", "how_to_run", "h", "proofs", []string{"npm test"})
	if r.Finish == nil || r.Finish.Proofs[0].Command != "npm test" {
		t.Errorf("got %+v", r.Finish)
	}
	b.bad([]string{`"proofs[0]": "true" proves nothing`}, "finish", "summary", "s", "how_to_run", "h", "proofs", []string{" true "})
	b.bad([]string{`"proofs": got 11 items, want a list of 1 to 10 items`}, "finish", "summary", "s", "how_to_run", "h", "proofs", make([]string, 11))
	b.bad([]string{`"proofs[0]": got the number 5, want a string of at most 4096 bytes, not empty, or an object with the fields page (required), start, expect`}, "finish", "summary", "s", "how_to_run", "h", "proofs", []any{5})
	b.bad([]string{`"proofs[0].page": missing`}, "finish", "summary", "s", "how_to_run", "h", "proofs", []any{map[string]string{"start": "x"}})
	b.bad([]string{`"proofs[1]": `, "not a file of the workspace"}, "finish", "summary", "s", "how_to_run", "h", "proofs", []any{"npm test", map[string]string{"page": "file:///etc/passwd"}})
	b.bad([]string{`"start" can't serve`}, "finish", "summary", "s", "how_to_run", "h", "proofs", []any{map[string]string{"page": "https://example.com", "start": "x"}})
	if r := b.call("finish", "summary", "s", "how_to_run", "h", "proofs", []any{map[string]string{"page": "http://localhost:1/", "expect": "Todo"}}); r.Finish == nil || r.Finish.Proofs[0].Expect != "Todo" {
		t.Errorf("got %+v", r.Finish)
	}
	b.bad([]string{`"proofs[0]": it has 5000 bytes`}, "finish", "summary", "s", "how_to_run", "h", "proofs", []string{strings.Repeat("x", 5000)})
}

func TestReadOutput(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "line %d\n", i+1)
	}
	handle, err := b.env.Save(t.Context(), []byte(long.String()))
	if err != nil {
		t.Fatal(err)
	}
	b.good([]string{"4000\tline 4000\n4001\tline 4001"}, "read_output", "handle", handle, "start_line", 4000, "end_line", 4001)
	b.good([]string{"of 5000 are shown; go on with start_line"}, "read_output", "handle", handle)
	b.good([]string{"777\tline 777\n", "1777\tline 1777\n", "[5 lines match]"}, "read_output", "handle", handle, "grep", "777$")
	b.good([]string{"2998\tline 2998\n2999\tline 2999\n3000\tline 3000\n"}, "read_output", "handle", handle, "grep", "line 2999", "context", 1)
	b.good([]string{"None of the lines 1 to 5000 matches"}, "read_output", "handle", handle, "grep", "nowhere")
	b.bad([]string{`"handle": there is no output "nope"`}, "read_output", "handle", "nope")
	b.bad([]string{`"grep": error parsing regexp`}, "read_output", "handle", handle, "grep", "(")
	b.bad([]string{"the output has 5000 lines"}, "read_output", "handle", handle, "start_line", 6000)

	var shot bytes.Buffer
	if err := png.Encode(&shot, image.NewGray(image.Rect(0, 0, 30, 20))); err != nil {
		t.Fatal(err)
	}
	if handle, err = b.env.Save(t.Context(), shot.Bytes()); err != nil {
		t.Fatal(err)
	}
	r := b.call("read_output", "handle", handle)
	if len(r.Content) != 2 || r.Content[1].Type != glovebox.BlockImage || r.Content[1].Blob != handle || r.Content[1].Size != int64(shot.Len()) {
		t.Errorf("an image is shown as %+v", r.Content)
	}
}
