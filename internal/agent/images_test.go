package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

func TestImages(t *testing.T) {
	t.Parallel()
	load := func(_ context.Context, h string, _, limit int64) ([]byte, int64, error) {
		switch h {
		case "lost":
			return nil, 0, glovebox.Errorf(glovebox.CodeNotFound, "no blob")
		case "broken":
			return nil, 0, errors.New("the disk is gone")
		case "huge":
			return make([]byte, limit), limit + 1, nil
		}
		return []byte(h), int64(len(h)), nil
	}
	image := func(blob string) glovebox.Block {
		return glovebox.Block{Type: glovebox.BlockImage, MediaType: "image/png", Blob: blob}
	}
	for _, test := range []struct {
		name string
		run  run
		in   glovebox.Block
		text string // what stands in its place; empty: it is shown
	}{
		{"shown", run{Options: Options{Info: llm.Info{Images: true}, Load: load}}, image("good"), ""},
		{"has its bytes", run{Options: Options{Info: llm.Info{Images: true}}}, glovebox.Block{Type: glovebox.BlockImage, Data: []byte("good")}, ""},
		{"a model without eyes", run{Options: Options{Load: load}}, image("good"), "can't be shown"},
		{"nothing to load with", run{Options: Options{Info: llm.Info{Images: true}}}, image("good"), "shown again"},
		{"lost", run{Options: Options{Info: llm.Info{Images: true}, Load: load}}, image("lost"), "is lost"},
		{"too large", run{Options: Options{Info: llm.Info{Images: true}, Load: load}}, image("huge"), "too large"},
	} {
		result := glovebox.Block{Type: glovebox.BlockToolResult, CallID: "a", Content: []glovebox.Block{glovebox.Text("see"), test.in}}
		req := &llm.Request{Messages: []glovebox.Message{{Role: glovebox.RoleUser, Blocks: []glovebox.Block{result}}}}
		full, err := test.run.withImages(t.Context(), req)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		got := full.Messages[0].Blocks[0].Content[1]
		if test.text == "" && string(got.Data) != "good" || test.text != "" && !strings.Contains(got.Text, test.text) {
			t.Errorf("%s: %+v", test.name, got)
		}
		if old := req.Messages[0].Blocks[0].Content[1]; old.Blob != test.in.Blob || string(old.Data) != string(test.in.Data) {
			t.Errorf("%s: the request was changed", test.name)
		}
	}
	r := run{Options: Options{Info: llm.Info{Images: true}, Load: load}}
	if _, err := r.withImages(t.Context(), &llm.Request{Messages: []glovebox.Message{{Blocks: []glovebox.Block{image("broken")}}}}); err == nil {
		t.Error("no error although the disk is gone")
	}
}

// TestImagesAreBounded leaves the oldest images out.
func TestImagesAreBounded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ n, size, kept int }{
		{0, 0, 0}, {1, 100, 1}, {maxImages, 100, maxImages}, {maxImages + 1, 100, maxImages}, {4, 4 << 20, 3}, {30, 1 << 20, 12}, {1, maxImageBytes + 1, 0},
	} {
		var messages []glovebox.Message
		for i := range test.n {
			img := glovebox.Block{Type: glovebox.BlockImage, Data: make([]byte, test.size)}
			messages = append(messages, glovebox.Message{Blocks: []glovebox.Block{{Type: glovebox.BlockToolResult, Content: []glovebox.Block{glovebox.Text(fmt.Sprint(i)), img}}}})
		}
		boundImages(messages)
		kept := 0
		for i, m := range messages {
			if got := m.Blocks[0].Content; got[1].Type == glovebox.BlockImage {
				kept++
			} else if kept > 0 || got[1].Text == "" || got[0].Text != fmt.Sprint(i) {
				t.Errorf("%+v: image %d became %+v", test, i, got[1])
			}
		}
		if kept != test.kept {
			t.Errorf("%d images of %d bytes: %d are left, want %d", test.n, test.size, kept, test.kept)
		}
	}
}
