package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// maxBlocks is how many blocks of content a result may have in the log.
const maxBlocks = 32

// result brings what a tool returned within the bounds of the log: its text
// is cut to tool.OutputBound, images are kept as blobs.
func (r *run) result(ctx context.Context, env *tool.Env, res tool.Result, c pendingCall, took time.Duration) glovebox.ToolFinished {
	if left := len(res.Content) - maxBlocks; left > 0 {
		res.Content = append(append([]glovebox.Block(nil), res.Content[:maxBlocks]...), glovebox.Text(fmt.Sprintf("[%d more pieces of output were left out]", left)))
	}
	res = tool.Fit(ctx, env, res)
	f := glovebox.ToolFinished{CallID: c.CallID, Name: c.Name, IsError: res.IsError, Blob: res.Blob, DurationMS: took.Milliseconds()}
	for _, b := range res.Content {
		switch {
		case b.Type == glovebox.BlockImage && len(b.Data) > 0:
			handle, err := r.Host.Save(ctx, b.Data)
			if err != nil { // what the tool did is done
				f.Content = append(f.Content, glovebox.Text("[an image, which could not be kept: "+clip.Short(err.Error(), 200)+"]"))
				continue
			}
			b.Size, b.Data, b.Blob = int64(len(b.Data)), nil, handle
		case b.Type != glovebox.BlockText && b.Type != glovebox.BlockImage:
			continue // nothing else can be inside a result
		}
		f.Content = append(f.Content, b)
	}
	if len(f.Content) == 0 {
		f.Content = []glovebox.Block{glovebox.Text("(no output)")}
	}
	return f
}

// cutAt splits s at byte n or a little before, so that no character is cut.
func cutAt(s string, n int) (string, string) {
	head := clip.Head(s, n)
	return head, s[len(head):]
}
