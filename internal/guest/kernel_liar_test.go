package guest

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

func cellOutputFrame(parts ...*guestpb.CellPart) []byte {
	return message(&guestpb.CellEvent{Event: &guestpb.CellEvent_Output{Output: &guestpb.CellOutput{Kind: "display", Parts: parts}}})
}

// TestLyingCells has a guest answer a cell with what no honest one sends. The
// call fails, and what it kept stays within bounds.
func TestLyingCells(t *testing.T) {
	t.Parallel()
	text := message(&guestpb.CellEvent{Event: &guestpb.CellEvent_Output{Output: &guestpb.CellOutput{Kind: "stdout", Text: strings.Repeat("x", 1<<19)}}})
	small := message(&guestpb.CellEvent{Event: &guestpb.CellEvent_Output{Output: &guestpb.CellOutput{Kind: "stdout", Text: "x"}}})
	many := make([]*guestpb.CellPart, maxCellParts+1)
	for i := range many {
		many[i] = &guestpb.CellPart{MediaType: "text/plain"}
	}
	for name, send := range map[string]func(st *yamux.Stream){
		"nothing":      func(*yamux.Stream) {},
		"data at once": func(st *yamux.Stream) { sendFrames(st, data("x")) },
		"not protobuf": func(st *yamux.Stream) { sendFrames(st, wire.AppendFrame(nil, wire.FrameMessage, []byte("\xff\xff"))) },
		"a huge part":  func(st *yamux.Stream) { sendFrames(st, cellOutputFrame(&guestpb.CellPart{Size: maxCellPart + 1})) },
		"less than 0":  func(st *yamux.Stream) { sendFrames(st, cellOutputFrame(&guestpb.CellPart{Size: -1})) },
		"too many":     func(st *yamux.Stream) { sendFrames(st, cellOutputFrame(many...)) },
		"a long type": func(st *yamux.Stream) {
			sendFrames(st, cellOutputFrame(&guestpb.CellPart{MediaType: strings.Repeat("x", 101)}))
		},
		"more data":     func(st *yamux.Stream) { sendFrames(st, cellOutputFrame(&guestpb.CellPart{Size: 2}), data("xxx")) },
		"less data":     func(st *yamux.Stream) { sendFrames(st, cellOutputFrame(&guestpb.CellPart{Size: 2}), data("x"), end) },
		"empty data":    func(st *yamux.Stream) { sendFrames(st, cellOutputFrame(&guestpb.CellPart{Size: 2}), data("")) },
		"text for ever": func(st *yamux.Stream) { flood(st, text) },
		"ever so small": func(st *yamux.Stream) { flood(st, small) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := liar{stream: func(st *yamux.Stream, _ string) { send(st) }}.dial(t, Options{})
			got := 0
			_, err := c.Execute(t.Context(), Cell{Code: "1"}, func(o CellOutput) { got += len(o.Text) })
			if glovebox.CodeOf(err) != glovebox.CodeUnavailable || got > maxCellBytes {
				t.Errorf("%v, %d bytes taken", err, got)
			}
		})
	}
}

// flood sends a frame until nobody takes it any more.
func flood(st *yamux.Stream, frame []byte) {
	_ = st.SetWriteDeadline(time.Now().Add(10 * time.Second))
	for {
		if _, err := st.Write(frame); err != nil {
			return
		}
	}
}

func TestStrangeResult(t *testing.T) {
	t.Parallel()
	c := liar{stream: func(st *yamux.Stream, _ string) {
		sendFrames(st, message(&guestpb.CellEvent{Event: &guestpb.CellEvent_Result{Result: &guestpb.CellResult{Status: "\x1b[31mok"}}}))
	}}.dial(t, Options{})
	if r, err := c.Execute(t.Context(), Cell{}, nil); err != nil || r.Status != "died" {
		t.Errorf("%+v, %v", r, err)
	}
}
