package tool

import (
	"fmt"
	"io/fs"
	"strings"
)

// Bounds of a patch.
const (
	patchFiles = 200
	patchHunks = 2000
)

// filePatch is what a patch says of one file.
type filePatch struct {
	op      byte   // 'A' add, 'D' delete, 'M' change
	path    string // of the file before; of the new file for 'A'
	to      string // its new path; empty if it stays
	copied  bool   // the file at path stays as it was
	mode    fs.FileMode
	content string // of an added file
	hunks   []hunk
}

// hunk is one change within a file.
type hunk struct {
	name    string   // as a message names it: its header
	line    int      // where it should be, from 1; 0 if the patch does not say
	anchors []string // lines that come before it, in order
	atEnd   bool     // it ends at the end of the file
	edits   []edit   // texts with their newlines, if they have one
}

func (h hunk) old() []string { return h.side('-') }

func (h hunk) side(op byte) []string {
	var lines []string
	for _, e := range h.edits {
		if e.op == ' ' || e.op == op {
			lines = append(lines, e.text)
		}
	}
	return lines
}

// parsePatch parses either format. Its error is for the model.
func parsePatch(text string) ([]filePatch, error) {
	text = withNewline(unfence(text))
	if n := strings.Count(text, "\n"); n > 1 && strings.Count(text, "\r\n") >= n-1 {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	var files []filePatch
	var err error
	if strings.Contains(text, beginPatch) {
		files, err = parseEnvelope(text)
	} else {
		files, err = parseUnified(text)
	}
	if err != nil {
		return nil, err
	}
	hunks := 0
	for _, f := range files {
		hunks += len(f.hunks)
	}
	switch {
	case len(files) == 0:
		return nil, fmt.Errorf("there is no change in it. Give a unified diff (--- a/file, +++ b/file, @@ ... @@) or the form %s ... %s", beginPatch, endPatch)
	case len(files) > patchFiles:
		return nil, fmt.Errorf("it changes %d files, at most %d are possible", len(files), patchFiles)
	case hunks > patchHunks:
		return nil, fmt.Errorf("it has %d hunks, at most %d are possible", hunks, patchHunks)
	}
	return files, nil
}

// unfence removes a Markdown fence around the whole patch.
func unfence(text string) string {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, "```") || !strings.HasSuffix(trimmed, "\n```") {
		return text
	}
	_, body, ok := strings.Cut(trimmed, "\n")
	if !ok {
		return text
	}
	return strings.TrimSuffix(body, "```")
}
