package agent

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// maxBlocks is how many blocks of content a result may have in the log.
const maxBlocks = 32

// result brings what a tool returned within the bounds of the log: text above
// tool.OutputBound is kept whole as a blob and cut in the middle, images are
// kept as blobs.
func (r *run) result(ctx context.Context, c pendingCall, res tool.Result, took time.Duration) (glovebox.ToolFinished, error) {
	f := glovebox.ToolFinished{CallID: c.CallID, Name: c.Name, IsError: res.IsError, Blob: res.Blob, DurationMS: took.Milliseconds()}
	blocks := res.Content
	if len(blocks) > maxBlocks {
		left := len(blocks) - maxBlocks
		blocks = append(append([]glovebox.Block(nil), blocks[:maxBlocks]...), glovebox.Text(fmt.Sprintf("[%d more pieces of output were left out]", left)))
	}
	var texts []string
	total := 0
	for _, b := range blocks {
		if b.Type == glovebox.BlockText {
			texts = append(texts, b.Text)
			total += len(b.Text)
		}
	}
	if total > tool.OutputBound && f.Blob == "" {
		handle, err := r.Host.Save(ctx, []byte(strings.Join(texts, "\n")))
		if err != nil {
			return f, err
		}
		f.Blob = handle
	}
	for _, b := range blocks {
		switch {
		case b.Type == glovebox.BlockText && total > tool.OutputBound:
			b.Text = cutMiddle(b.Text, tool.OutputBound/len(texts), f.Blob)
		case b.Type == glovebox.BlockImage && len(b.Data) > 0:
			handle, err := r.Host.Save(ctx, b.Data)
			if err != nil {
				return f, err
			}
			b.Data, b.Blob = nil, handle
		case b.Type != glovebox.BlockText && b.Type != glovebox.BlockImage:
			continue // nothing else can be inside a result
		}
		f.Content = append(f.Content, b)
	}
	if len(f.Content) == 0 {
		f.Content = []glovebox.Block{glovebox.Text("(no output)")}
	}
	return f, nil
}

// markRoom is what the line that stands for the middle may take.
const markRoom = 200

// cutMiddle returns s cut to about bound bytes, its middle replaced by a line
// that says how much is missing and where it is.
func cutMiddle(s string, bound int, handle string) string {
	if len(s) <= bound {
		return s
	}
	half := max(0, bound-markRoom) / 2
	first, _ := cutAt(s, half)
	_, last := cutAt(s, len(s)-half)
	return fmt.Sprintf("%s\n[%d bytes left out; the whole output is kept as %s]\n%s", first, len(s)-len(first)-len(last), handle, last)
}

// cutAt splits s at byte n or a little before, so that no character is cut.
func cutAt(s string, n int) (string, string) {
	if n >= len(s) {
		return s, ""
	}
	for k := n; k > 0 && k > n-utf8.UTFMax; k-- {
		if utf8.RuneStart(s[k]) {
			return s[:k], s[k:]
		}
	}
	return s[:n], s[n:]
}
