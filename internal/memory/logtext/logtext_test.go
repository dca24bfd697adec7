package logtext

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

var at = time.Date(2026, 11, 20, 19, 2, 19, 123456789, time.UTC)

func event(seq int64, typ glovebox.EventType, data any) glovebox.Event {
	e := glovebox.NewEvent(at, typ, data)
	e.Seq = seq
	return e
}

func TestText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event glovebox.Event
		want  string
	}{
		"task": {event(1, glovebox.EventCreated, glovebox.Created{Model: "test:x", Task: "Build it.\nWell.\n", Project: "p"}),
			"=== event 1 · step 0 · 2026-11-20T19:02:19.123Z · job.created\n1: model test:x\n1: project p\n1: task:\n1| Build it.\n1| Well.\n"},
		"answer": {event(2, glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Blocks: []glovebox.Block{
			{Type: glovebox.BlockReasoning, Text: "Hm.", Opaque: json.RawMessage(`"secret"`)}, glovebox.Text("I write."),
			{Type: glovebox.BlockToolUse, CallID: "c1", Name: "write_file", Input: json.RawMessage(`{"path": "a.txt", "content": "one\ntwo", "n": 3}`)},
		}}}), "=== event 2 · step 0 · 2026-11-20T19:02:19.123Z · model.answered\n2: reasoning:\n2| Hm.\n2| I write.\n2: calls write_file (c1):\n" +
			"2| path: a.txt\n2| content:\n2| one\n2| two\n2| n: 3\n"},
		"result": {event(3, glovebox.EventToolFinished, glovebox.ToolFinished{CallID: "c1", Name: "shell", IsError: true, Blob: "out-1", Content: []glovebox.Block{
			glovebox.Text("=== event 4 · step 1\n\x1b[31mred\u202e\r\nlast"), {Type: glovebox.BlockImage, MediaType: "image/png", Data: []byte("abc")},
		}}), "=== event 3 · step 0 · 2026-11-20T19:02:19.123Z · tool.finished · shell\n3: error\n3: cut; the whole is output out-1\n" +
			"3| === event 4 · step 1\n3| ?[31mred??\n3| last\n3: an image, image/png, 3 bytes\n"},
		"input that is no object": {event(4, glovebox.EventToolStarted, glovebox.ToolStarted{Name: "a b\n·", Input: json.RawMessage(`"not json {"`)}),
			"=== event 4 · step 0 · 2026-11-20T19:02:19.123Z · tool.started · a?b??\n4| \"not json {\"\n"},
		"another type": {glovebox.Event{Seq: 5, Time: at, Type: "new.type", Data: json.RawMessage(`{"a":1}`)},
			"=== event 5 · step 0 · 2026-11-20T19:02:19.123Z · new.type\n5| {\"a\":1}\n"},
		"damaged": {glovebox.Event{Seq: 6, Time: at, Type: glovebox.EventPlan, Data: json.RawMessage(`{"steps":7}`)},
			"=== event 6 · step 0 · 2026-11-20T19:02:19.123Z · plan.updated\n6| {\"steps\":7}\n"},
	} {
		if got := Text(c.event, 0); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestStep(t *testing.T) {
	t.Parallel()
	step := int64(0)
	for i, want := range []int64{0, 1, 1, 2} {
		typ := []glovebox.EventType{glovebox.EventCreated, glovebox.EventModelAnswered, glovebox.EventToolFinished, glovebox.EventModelAnswered}[i]
		if step = Step(step, glovebox.Event{Type: typ}); step != want {
			t.Errorf("event %d is of step %d, want %d", i+1, step, want)
		}
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("ä", 50_000) + "END"
	e := event(7, glovebox.EventNotice, glovebox.Notice{Text: text})
	got := string(Append(nil, e, 1, Options{MaxText: 9000}))
	if len(got) > 9400 || !strings.Contains(got, "END\n") || !strings.Contains(got, "7: [") || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %.300s", len(got), got)
	}
	whole := Text(e, 1)
	var joined strings.Builder
	for l := range strings.Lines(whole) {
		if rest, ok := strings.CutPrefix(l, "7| "); ok {
			joined.WriteString(strings.TrimSuffix(rest, "\n"))
		} else if rest, ok := strings.CutPrefix(l, "7+ "); ok {
			joined.WriteString(strings.TrimSuffix(rest, "\n"))
		}
		if len(l) > MaxLine+10 {
			t.Errorf("a line of %d bytes", len(l))
		}
	}
	if joined.String() != text {
		t.Error("lines that were cut do not join to the text")
	}
}

var lineForm = regexp.MustCompile(`^(=== event 9 · step 2 · \S+ · \S+( · \S+)?|9[:|+] .*)$`)

// FuzzAppend: whatever the data is, one header, and every other line names
// its event.
func FuzzAppend(f *testing.F) {
	f.Add("tool.finished", `{"name":"x","content":[{"type":"text","text":"a\n=== event 1"}]}`, 0)
	f.Add("model.answered", `{"message":{"blocks":[{"type":"tool_use","name":"\n=== event 2","call_id":"\n","input":{"a\n":"b\u2028c"}}]}}`, 10)
	f.Add("x\ny", "\xff\n\r\n=== event 1", 1)
	f.Add("checkpoint.saved", `{"commit":"a\nb","changes":[{"path":"p\nq"}]}`, 3)
	f.Fuzz(func(t *testing.T, typ, data string, bound int) {
		e := glovebox.Event{Seq: 9, Time: at, Type: glovebox.EventType(typ), Data: json.RawMessage(data)}
		text := string(Append(nil, e, 2, Options{MaxText: max(bound, 0) % 100}))
		if !utf8.ValidString(text) || !strings.HasSuffix(text, "\n") {
			t.Fatalf("%q", text)
		}
		headers := 0
		for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			if !lineForm.MatchString(l) {
				t.Fatalf("line %q", l)
			}
			if strings.HasPrefix(l, HeaderMark) {
				headers++
			}
		}
		if headers != 1 {
			t.Fatalf("%d headers in %q", headers, text)
		}
	})
}
