package agent

import (
	"context"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// maxImage is how many bytes an image may have to be sent to a model.
// Providers refuse more.
const maxImage = 5 << 20

// Bounds of the images of one request: of all providers the lowest, with room
// for what else is in it. Memory keeps an epoch within them. But it reads the
// log alone, and logs of older versions do not say how large an image is: so
// what is sent is looked at once more.
const (
	maxImages     = 40
	maxImageBytes = 12 << 20
)

// withImages returns a request with the images that it refers to. What can't
// be shown is replaced by a line that says so.
func (r *run) withImages(ctx context.Context, req *llm.Request) (*llm.Request, error) {
	full := *req
	full.Messages = make([]glovebox.Message, len(req.Messages))
	for i, m := range req.Messages {
		blocks, err := r.loadBlocks(ctx, m.Blocks)
		if err != nil {
			return nil, err
		}
		full.Messages[i] = glovebox.Message{Role: m.Role, Blocks: blocks}
	}
	boundImages(full.Messages)
	return &full, nil
}

// boundImages leaves out the oldest images of messages, whose blocks
// loadBlocks has copied where there are any, so that the others are within
// their bounds. Which they are depends on nothing but the messages.
func boundImages(messages []glovebox.Message) {
	var all []*glovebox.Block
	for _, m := range messages {
		all = imagesOf(all, m.Blocks)
	}
	total := 0
	for _, b := range all {
		total += len(b.Data)
	}
	drop := 0
	for ; drop < len(all) && (len(all)-drop > maxImages || total > maxImageBytes); drop++ {
		total -= len(all[drop].Data)
	}
	for _, b := range all[:drop] {
		*b = glovebox.Text("[an earlier image, left out]")
	}
}

// imagesOf appends the images among blocks, the oldest first.
func imagesOf(list []*glovebox.Block, blocks []glovebox.Block) []*glovebox.Block {
	for i := range blocks {
		if b := &blocks[i]; b.Type == glovebox.BlockImage {
			list = append(list, b)
		} else {
			list = imagesOf(list, b.Content)
		}
	}
	return list
}

// loadBlocks returns blocks with their images; blocks itself if it has none.
func (r *run) loadBlocks(ctx context.Context, blocks []glovebox.Block) ([]glovebox.Block, error) {
	out := blocks
	set := func(i int, b glovebox.Block) {
		if &out[0] == &blocks[0] {
			out = append([]glovebox.Block(nil), blocks...)
		}
		out[i] = b
	}
	for i, b := range blocks {
		switch {
		case b.Type == glovebox.BlockImage:
			img, err := r.loadImage(ctx, b)
			if err != nil {
				return nil, err
			}
			set(i, img)
		case len(b.Content) > 0:
			content, err := r.loadBlocks(ctx, b.Content)
			if err != nil {
				return nil, err
			}
			if &content[0] != &b.Content[0] {
				b.Content = content
				set(i, b)
			}
		}
	}
	return out, nil
}

func (r *run) loadImage(ctx context.Context, b glovebox.Block) (glovebox.Block, error) {
	if !r.Info.Images {
		return glovebox.Text("[an image, which this model can't be shown]"), nil
	}
	if b.Blob == "" {
		return b, nil
	}
	if r.Load == nil {
		return glovebox.Text("[an image, which can't be shown again]"), nil
	}
	data, size, err := r.Load(ctx, b.Blob, 0, maxImage)
	switch {
	case glovebox.CodeOf(err) == glovebox.CodeNotFound:
		return glovebox.Text("[an image that is lost]"), nil
	case err != nil:
		return b, err
	case size > int64(len(data)):
		return glovebox.Text("[an image that is too large to be shown]"), nil
	}
	b.Data, b.Blob = data, ""
	return b, nil
}
