package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

//go:embed read_file.md
var readFilePrompt string

type readFileInput struct {
	Path      string `json:"path" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"Absolute, or relative to /workspace."`
	StartLine int    `json:"start_line,omitempty" jsonschema:"minimum=1" jsonschema_description:"First line to show; 1 if left out."`
	EndLine   int    `json:"end_line,omitempty" jsonschema:"minimum=1" jsonschema_description:"Last line to show; as many as fit if left out."`
}

// textBound is how large a file may be for its text to be read or edited.
const textBound = 16 << 20

// ReadFile returns the tool that shows a file: text with line numbers, an
// image as an image, a description of anything else.
func ReadFile() Tool { return readOnly(New("read_file", readFilePrompt, readFile)) }

func readFile(ctx context.Context, env *Env, in readFileInput) (Result, error) {
	if problem := badPath("path", in.Path); problem != "" {
		return ErrorResult(problem), nil
	}
	if in.EndLine > 0 && in.EndLine < in.StartLine {
		return ErrorResult(fmt.Sprintf(`"end_line": %d is before start_line %d`, in.EndLine, in.StartLine)), nil
	}
	p := sandboxPath(in.Path)
	data, size, err := env.Guest.ReadFile(ctx, p, 0, textBound)
	if err != nil {
		return fileFailed(ctx, env, p, err)
	}
	if mediaType, _, _, _ := imageType(data, size); mediaType != "" || isBinary(data) { // "BMI" begins like an image, too
		return showBinary(p, data, size), nil
	}
	if size > int64(len(data)) {
		return ErrorResult(fmt.Sprintf("%s has %d bytes; read_file takes at most %d. Use search_files, or shell with sed -n or head.", absolute(p), size, textBound)), nil
	}
	return showText(p, data, in.StartLine, in.EndLine), nil
}

func showBinary(p string, data []byte, size int64) Result {
	mediaType, w, h, problem := imageType(data, size)
	switch {
	case mediaType == "":
		return TextResult(fmt.Sprintf("%s is not text: %s.", absolute(p), describe(data, size)))
	case problem != "":
		return TextResult(fmt.Sprintf("%s is an image that can't be shown: %s. It is %s.", absolute(p), problem, describe(data, size)))
	}
	r := TextResult(fmt.Sprintf("%s: %s, %d x %d pixels, %d bytes", absolute(p), mediaType, w, h, size))
	r.Content = append(r.Content, glovebox.Block{Type: glovebox.BlockImage, MediaType: mediaType, Data: data})
	return r
}

func showText(p string, data []byte, first, last int) Result {
	lines := splitLines(string(data))
	if len(lines) == 0 {
		return TextResult(absolute(p) + " is empty.")
	}
	first = max(first, 1)
	if first > len(lines) {
		return ErrorResult(fmt.Sprintf(`"start_line": %s has %d lines`, absolute(p), len(lines)))
	}
	if last == 0 || last > len(lines) {
		last = len(lines)
	}
	text, shown := numbered(lines, first, last, OutputBound-statusRoom)
	var notes []string
	if shown < last {
		notes = append(notes, fmt.Sprintf("lines %d to %d of %d are shown; go on with start_line %d", first, shown, len(lines), shown+1))
	} else if first > 1 || last < len(lines) {
		notes = append(notes, fmt.Sprintf("of %d lines", len(lines)))
	}
	if strings.Count(string(data), "\r\n") > len(lines)/2 {
		notes = append(notes, "lines end with CRLF")
	}
	if !strings.HasSuffix(string(data), "\n") && shown == len(lines) {
		notes = append(notes, "no newline at the end")
	}
	if len(notes) > 0 {
		text += "[" + strings.Join(notes, "; ") + "]"
	}
	return TextResult(strings.TrimSuffix(text, "\n"))
}

// lineBound is how many bytes of one line are shown.
const lineBound = 2000

// numbered returns lines first to last (from 1) with their numbers, as many
// as bound allows but at least one, and the last that is there.
func numbered(lines []string, first, last, bound int) (text string, shown int) {
	width := len(fmt.Sprint(last))
	var b strings.Builder
	for n := first; n <= last; n++ {
		line := strings.TrimRight(lines[n-1], "\r\n")
		if !validText(line) {
			line = cleanText([]byte(line))
		}
		if len(line) > lineBound {
			line = clip.Short(line, lineBound) + fmt.Sprintf(" [%d bytes in this line]", len(line))
		}
		entry := fmt.Sprintf("%*d\t%s\n", width, n, line)
		if n > first && b.Len()+len(entry) > bound {
			break
		}
		b.WriteString(entry)
		shown = n
	}
	return b.String(), shown
}
