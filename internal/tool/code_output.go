package tool

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Bounds of what the model is shown of one cell, beside OutputBound.
const (
	maxCellImages = 4
	maxTraceLines = 24 // of a traceback: its last frames
)

// cellOutput gathers what a cell puts out and shows it live.
type cellOutput struct {
	live   *live
	pieces []piece
}

// piece is what was put out at once, or text of one stream.
type piece struct {
	guest.CellOutput        // without its Text
	text             []byte // added to, since a cell may print a million times
}

func newCellOutput(env *Env) *cellOutput { return &cellOutput{live: newLive(env.Output)} }

// take takes a piece.
func (o *cellOutput) take(p guest.CellOutput) {
	if p.Kind == "clear" { // a progress display that is drawn anew
		o.pieces = nil
		return
	}
	last := len(o.pieces) - 1
	if last < 0 || p.Text == "" || o.pieces[last].Kind != p.Kind {
		o.pieces = append(o.pieces, piece{CellOutput: p})
		last++
		o.pieces[last].Text = ""
	}
	o.pieces[last].text = append(o.pieces[last].text, p.Text...)
	switch p.Kind {
	case "stdout", "stderr":
		o.live.write([]byte(p.Text))
	case "error":
		o.live.write([]byte(errorText(p) + "\n"))
	default:
		if text, _ := displayText(p.Data); text != "" {
			o.live.write([]byte(text + "\n"))
		}
	}
}

// result is what the model and the user see.
func (o *cellOutput) result(ctx context.Context, env *Env, status string, isError bool) Result {
	var text strings.Builder
	var stream []byte // of stdout and stderr, which a terminal would mix too
	flush := func() {
		text.WriteString(cleanText(stream))
		stream = stream[:0]
	}
	var images []glovebox.Block
	for _, p := range o.pieces {
		switch p.Kind {
		case "stdout", "stderr":
			stream = append(stream, p.text...)
			continue
		case "error":
			flush()
			addLines(&text, errorText(p.CellOutput))
			continue
		}
		flush()
		t, picture := displayText(p.Data)
		if picture != nil {
			t = o.picture(picture, &images)
		}
		addLines(&text, t)
	}
	flush()
	shown, handle := bounded(ctx, env, strings.TrimRight(text.String(), " \t\n"), OutputBound-statusRoom)
	if shown == "" {
		shown = "(no output)"
	}
	r := TextResult(shown + "\n[" + status + "]")
	r.Content = append(r.Content, images...)
	r.Blob = handle
	r.IsError = isError
	return r
}

// addLines appends text that begins and ends with whole lines.
func addLines(b *strings.Builder, text string) {
	if text == "" {
		return
	}
	if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(withNewline(text))
}

// picture adds an image to those that are shown, and returns the line that
// stands for it in the text.
func (o *cellOutput) picture(data []byte, images *[]glovebox.Block) string {
	if len(*images) >= maxCellImages {
		return fmt.Sprintf("[an image more; %d are shown of one cell]", maxCellImages)
	}
	b, mediaType, w, h, problem := fitImage(data)
	if problem != "" {
		return "[an image that can't be shown: " + problem + "]"
	}
	*images = append(*images, glovebox.Block{Type: glovebox.BlockImage, MediaType: mediaType, Data: b})
	return fmt.Sprintf("[image %d: %d x %d pixels]", len(*images), w, h)
}

// imageTypes are the representations that are shown as images, the best first.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// displayText returns the text of a display, or its image.
func displayText(data map[string][]byte) (text string, image []byte) {
	for _, t := range imageTypes {
		if b := data[t]; len(b) > 0 {
			return "[image]", b
		}
	}
	if b := data["text/html"]; bytes.Contains(b, []byte("<table")) {
		if table := tableText(b); table != "" {
			return table, nil
		}
	}
	for _, t := range []string{"text/plain", "text/markdown", "text/latex", "application/json"} {
		if b := data[t]; len(b) > 0 {
			return cleanText(b), nil
		}
	}
	if b := data["text/html"]; len(b) > 0 {
		return plainHTML(b), nil
	}
	types := make([]string, 0, len(data))
	for t := range data {
		types = append(types, clip.Short(t, 60))
	}
	if len(types) == 0 {
		return "", nil
	}
	slices.Sort(types)
	return cleanText([]byte("[a display of the type " + strings.Join(types, ", ") + ", which has no text]")), nil
}

// errorText is a short traceback: how it began, the last frames, the error.
func errorText(p guest.CellOutput) string {
	end := p.Name
	if p.Value != "" {
		end += ": " + p.Value
	}
	trace := strings.TrimSpace(cleanText([]byte(p.Traceback)))
	if trace == "" {
		return cleanText([]byte(end))
	}
	var lines []string
	for l := range strings.Lines(trace) {
		l = strings.TrimRight(l, " \n")
		if strings.Trim(l, "-") == "" { // IPython draws a line, and leaves some empty
			continue
		}
		lines = append(lines, l)
	}
	if over := len(lines) - maxTraceLines; over > 0 {
		lines = append([]string{lines[0], fmt.Sprintf("[... %d lines left out ...]", over)}, lines[1+over:]...)
	}
	text := strings.Join(lines, "\n")
	if p.Name != "" && !strings.Contains(text, p.Name) {
		text += "\n" + cleanText([]byte(end))
	}
	return text
}
