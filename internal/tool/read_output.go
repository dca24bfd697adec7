package tool

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

//go:embed read_output.md
var readOutputPrompt string

type readOutputInput struct {
	Handle    string `json:"handle" jsonschema:"minLength=1,maxLength=1024" jsonschema_description:"The handle that the cut output names."`
	StartLine int    `json:"start_line,omitempty" jsonschema:"minimum=1" jsonschema_description:"First line to show."`
	EndLine   int    `json:"end_line,omitempty" jsonschema:"minimum=1" jsonschema_description:"Last line to show."`
	Grep      string `json:"grep,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"Only lines that match this regular expression."`
	Context   int    `json:"context,omitempty" jsonschema:"minimum=0,maximum=20" jsonschema_description:"Lines to show around each match of grep."`
}

// loadBound is how many bytes of a kept output are looked at.
const loadBound = 16 << 20

// ReadOutput returns the tool that shows more of an output that was cut.
func ReadOutput() Tool { return readOnly(New("read_output", readOutputPrompt, readOutput)) }

func readOutput(ctx context.Context, env *Env, in readOutputInput) (Result, error) {
	if in.EndLine > 0 && in.EndLine < in.StartLine {
		return ErrorResult(fmt.Sprintf(`"end_line": %d is before start_line %d`, in.EndLine, in.StartLine)), nil
	}
	var grep *regexp.Regexp
	if in.Grep != "" {
		var err error
		if grep, err = regexp.Compile(in.Grep); err != nil {
			return ErrorResult(`"grep": ` + err.Error()), nil //nolint:nilerr // for the model
		}
	}
	data, r, err := load(ctx, env, in.Handle)
	if data == nil {
		return r, err
	}
	if mediaType, w, h, problem := imageType(data, int64(len(data))); mediaType != "" && problem == "" {
		r := TextResult(fmt.Sprintf("%s, %d x %d pixels, %d bytes", mediaType, w, h, len(data)))
		r.Content = append(r.Content, glovebox.Block{Type: glovebox.BlockImage, MediaType: mediaType, Blob: in.Handle, Size: int64(len(data))})
		return r, nil
	}
	if isBinary(data) {
		return TextResult("The output is not text: " + describe(data, int64(len(data))) + "."), nil
	}
	lines := splitLines(string(data))
	first, last := max(in.StartLine, 1), len(lines)
	if first > len(lines) {
		return ErrorResult(fmt.Sprintf(`"start_line": the output has %d lines`, len(lines))), nil
	}
	if in.EndLine > 0 {
		last = min(in.EndLine, len(lines))
	}
	if grep != nil {
		return TextResult(grepLines(lines, first, last, grep, in.Context)), nil
	}
	text, shown := numbered(lines, first, last, OutputBound-statusRoom)
	if shown < last {
		text += fmt.Sprintf("[lines %d to %d of %d are shown; go on with start_line %d]", first, shown, len(lines), shown+1)
	}
	return TextResult(strings.TrimSuffix(text, "\n")), nil
}

// load returns a kept output whole; the result is set if it can't.
func load(ctx context.Context, env *Env, handle string) ([]byte, Result, error) {
	if env.Load == nil {
		return nil, ErrorResult("Outputs are not kept here."), nil
	}
	var data []byte
	for {
		piece, size, err := env.Load(ctx, handle, int64(len(data)), min(1<<20, loadBound-int64(len(data))))
		switch glovebox.CodeOf(err) {
		case "":
		case glovebox.CodeNotFound, glovebox.CodeInvalid:
			return nil, ErrorResult(fmt.Sprintf(`"handle": there is no output %q. Copy the handle from the note in the cut output.`, clip.Short(handle, 100))), nil
		default:
			r, err := failed(ctx, err)
			return nil, r, err
		}
		data = append(data, piece...)
		if len(piece) == 0 || int64(len(data)) >= min(size, loadBound) {
			break
		}
	}
	if len(data) == 0 {
		return nil, TextResult("The output is empty."), nil
	}
	return data, Result{}, nil
}

// grepLines shows the lines from first to last that match, with their
// numbers and those around them.
func grepLines(lines []string, first, last int, grep *regexp.Regexp, around int) string {
	var b strings.Builder
	n, shown := 0, 0
	for i := first; i <= last; i++ {
		if !grep.MatchString(strings.TrimRight(lines[i-1], "\r\n")) {
			continue
		}
		n++
		if b.Len() > OutputBound-statusRoom {
			continue // only counted
		}
		from, to := max(first, i-around, shown+1), min(last, i+around)
		if from > to {
			continue
		}
		if around > 0 && shown > 0 && from > shown+1 {
			b.WriteString("--\n")
		}
		text, end := numbered(lines, from, to, OutputBound-b.Len())
		b.WriteString(text)
		shown = end
	}
	if n == 0 {
		return fmt.Sprintf("None of the lines %d to %d matches %q.", first, last, grep.String())
	}
	fmt.Fprintf(&b, "[%d lines match", n)
	if b.Len() > OutputBound-statusRoom {
		fmt.Fprintf(&b, "; shown up to line %d, go on with start_line %d", shown, shown+1)
	}
	return b.String() + "]"
}
