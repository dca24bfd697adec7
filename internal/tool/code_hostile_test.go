package tool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/tool/notebook"
)

// TestHostileOutputIsRecorded: whatever a kernel puts out, what is recorded of
// it is a notebook, and a small one.
func TestHostileOutputIsRecorded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x\n", 5<<20)
	o := newCellOutput(&Env{})
	for _, p := range []guest.CellOutput{
		{Kind: "error", Name: long, Value: long, Traceback: long},
		{Kind: "display", Data: map[string][]byte{"application/json": []byte(`{"a": NaN}`), "application/x+json": []byte("]"), "text/html": []byte("<script>alert(1)</script>\xff")}},
		{Kind: "result", Data: map[string][]byte{"text/plain": []byte(long), "image/png": []byte(long)}},
		{Kind: "stdout", Text: long}, {Kind: "stderr", Text: "\x1b[2J\x00\xff"}, {Kind: "unknown", Text: long},
	} {
		o.take(p)
	}
	for range 5_000 {
		o.take(guest.CellOutput{Kind: "stdout", Text: "a"})
		o.take(guest.CellOutput{Kind: "stderr", Text: "b"})
	}
	n := notebook.New()
	c := notebook.NewCell("1", 1)
	c.Outputs = recordedOutputs(o, 1)
	if err := n.Add(c); err != nil {
		t.Fatal(err)
	}
	b, err := n.Bytes()
	if err != nil || !json.Valid(b) || len(b) > maxRecorded {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if _, err := notebook.Parse(b); err != nil {
		t.Error(err)
	}
}
