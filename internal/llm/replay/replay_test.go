package replay

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const sample = `# A note to whoever reads this.
model window=100000 max_output=8000 images=false input_price=3000000

turn look around
reasoning The workspace should be empty.
text I will look.
call list_files
  path = .
call shell id=mine
  # the oldest that works
  command <<END
set -e
  node --version
END
  timeout_s := 20
  env := <<X
  {
    "A": "<b>"
  }
  X
usage input=1200 output=60 cache_read=5

turn
expect ok
expect 2 contains v20
expect matches ^v\d+
call shell
  := {"command": [1, 2 ,3]}
call shell
  <<END
{"command": "cut off
  END
fail rate_limited retry_after=1s status=429 message="slow down" times=2
fail truncated pieces=1
stop max_output
delay 1.5s

turn end
text <<-END
The program is written.

It needs nothing.
END
`

func sampleScript(t *testing.T) *Script {
	t.Helper()
	s, err := Parse("demo.replay", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParse(t *testing.T) {
	t.Parallel()
	s := sampleScript(t)
	if len(s.Turns) != 3 {
		t.Fatalf("%d turns", len(s.Turns))
	}
	b := s.Turns[0].Blocks
	if got, want := string(b[2].Input), `{"path":"."}`; got != want {
		t.Errorf("input %s, want %s", got, want)
	}
	if got, want := string(b[3].Input), `{"command":"set -e\n  node --version\n","timeout_s":20,"env":{"A":"<b>"}}`; got != want {
		t.Errorf("input %s, want %s", got, want)
	}
	b = s.Turns[1].Blocks
	if got, want := string(b[0].Input), `{"command": [1, 2 ,3]}`; got != want {
		t.Errorf("input %s, want %s", got, want)
	}
	if got, want := string(b[1].Input), `"{\"command\": \"cut off\n"`; got != want {
		t.Errorf("input %s, want %s", got, want)
	}
	if got, want := s.Turns[2].Blocks[0].Text, "The program is written.\n\nIt needs nothing."; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if i := s.Info(); i.Window != 100_000 || i.MaxOutput != 8000 || i.Images || !i.Priced || i.InputPrice != 3_000_000 {
		t.Errorf("info %+v", i)
	}
}

// TestParseErrors checks that each mistake is named with its line, and that
// an error does not carry the text of the file.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", ":0: there is no turn"},
		{"comments", "# a\n\n", ":2: there is no turn"},
		{"foreign", "root:x:0:0:root:/root:/bin/bash\n", `:1: "root:x:0:0:root:/roo" is not an order`},
		{"before turn", "text hi\n", ":1: \"text\" stands before"},
		{"silent", "turn\n\nturn\ntext x\n", ":1: the turn says nothing"},
		{"stray parameter", "turn\ntext a\n  b = c\n", ":3: an indented line belongs to no call"},
		{"twice", "turn\ncall a\n  b = c\n  b = d\n", ":4: the parameter is given twice"},
		{"whole and part", "turn\ncall a\n  b = c\n  := {}\n", ":4: the input is given whole"},
		{"no value", "turn\ncall a\n  b\n", ":3: a parameter has no value"},
		{"bad json", "turn\ncall a\n  b := {\n", ":3: what follows := is not JSON"},
		{"open block", "turn\ncall a\n  b <<END\nx\ny\n", ":3: the block never ends"},
		{"bad tag", "turn\ntext << END\n", ":2: << is not followed"},
		{"utf8", "turn\ntext \xff\n", ":2: the line is not UTF-8"},
		{"utf8 in block", "turn\ntext <<E\n\xff\nE\n", ":3: the line is not UTF-8"},
		{"bad usage", "turn\ntext a\nusage input=-1\n", ":3: input=-1 can't be used"},
		{"unknown usage", "turn\ntext a\nusage tokens=1\n", ":3: tokens=1 can't be used"},
		{"bad kind", "turn\nfail sometimes\n", `:2: "sometimes" is no kind`},
		{"bad stop", "turn\ntext a\nstop now\n", ":3: that is no reason"},
		{"bad delay", "turn\ntext a\ndelay -1s\n", ":3: that is no delay"},
		{"bad expression", "turn\ntext a\nexpect matches (\n", ":3: the expression"},
		{"bad condition", "turn\ntext a\nexpect miracles\n", ":3: that is no condition"},
		{"no such result", "turn\ntext a\nexpect 0 ok\n", ":3: there is no such result"},
		{"model late", "turn\ntext a\nmodel window=1\n", ":3: the model line is not the first"},
		{"no tool", "turn\ncall\n", ":2: a call names no tool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("f", []byte(c.in))
			if err == nil || !strings.Contains(err.Error(), "f"+c.want) {
				t.Fatalf("error %v, want %q", err, "f"+c.want)
			}
			if glovebox.CodeOf(err) != glovebox.CodeInvalid {
				t.Errorf("code %s", glovebox.CodeOf(err))
			}
		})
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	for _, p := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none"), "/dev/null"} {
		if _, err := Load(p); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("Load(%s) = %v", p, err)
		}
	}
	p := filepath.Join(t.TempDir(), "ok")
	if err := os.WriteFile(p, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(p); err != nil {
		t.Error(err)
	}
}

// request returns a request in which n answers were given, and results as the
// answer to the last.
func request(n int, results ...glovebox.Block) *llm.Request {
	r := &llm.Request{Messages: []glovebox.Message{{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("task")}}}}
	for range n {
		r.Messages = append(r.Messages, glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{glovebox.Text("x")}},
			glovebox.Message{Role: glovebox.RoleUser})
	}
	last := &r.Messages[len(r.Messages)-1]
	last.Blocks = append(last.Blocks, results...)
	return r
}

func toolResult(text string, isError bool) glovebox.Block {
	return glovebox.Block{Type: glovebox.BlockToolResult, Content: []glovebox.Block{glovebox.Text(text)}, IsError: isError}
}

func kindOf(err error) llm.Kind {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e.Kind
	}
	return ""
}

func TestStream(t *testing.T) {
	t.Parallel()
	m := New(sampleScript(t), Options{})
	var said, input strings.Builder
	var names []string
	resp, err := m.Stream(t.Context(), request(0), func(d glovebox.ModelDelta) {
		switch d.Type {
		case glovebox.BlockText:
			said.WriteString(d.Text)
		case glovebox.BlockToolUse:
			input.WriteString(d.Text)
			if d.Name != "" {
				names = append(names, d.Name)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	calls := resp.Message.ToolUses()
	if said.String() != "I will look." || input.String() != string(calls[0].Input)+string(calls[1].Input) {
		t.Errorf("deltas %q %q", said.String(), input.String())
	}
	if !reflect.DeepEqual(names, []string{"list_files", "shell"}) {
		t.Errorf("names %q", names)
	}
	if calls[0].CallID != "call_1_1" || calls[1].CallID != "mine" {
		t.Errorf("ids %q %q", calls[0].CallID, calls[1].CallID)
	}
	if resp.StopReason != llm.StopToolUse || resp.Usage.Calls != 1 || resp.Usage.CostMicros != 3600 {
		t.Errorf("%+v", resp)
	}
	again, err := m.Stream(t.Context(), request(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	again.First, resp.First = 0, 0
	if !reflect.DeepEqual(again, resp) {
		t.Error("the same request got another answer")
	}
}

func TestTurnIsFoundFromTheRequest(t *testing.T) {
	t.Parallel()
	m := New(sampleScript(t), Options{})
	folded := request(0) // history folded away: only Step tells
	folded.Step = 2
	for name, r := range map[string]*llm.Request{"counted": request(2), "folded": folded} {
		resp, err := m.Stream(t.Context(), r, nil)
		if err != nil || !strings.HasPrefix(resp.Message.PlainText(), "The program") {
			t.Errorf("%s: %v %v", name, resp, err)
		}
	}
	_, err := m.Stream(t.Context(), request(3), nil)
	if kindOf(err) != llm.KindExhausted || !strings.Contains(err.Error(), "demo.replay has 3 turns") {
		t.Errorf("past the end: %v", err)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	m := New(sampleScript(t), Options{})
	r := request(1, toolResult("v20", false), toolResult("v20.1", false))
	for attempt, want := range []llm.Kind{llm.KindRateLimited, llm.KindRateLimited, llm.KindRateLimited, llm.KindTruncated, ""} {
		r.Attempt = int64(attempt)
		pieces := 0
		resp, err := m.Stream(t.Context(), r, func(glovebox.ModelDelta) { pieces++ })
		if kindOf(err) != want {
			t.Errorf("attempt %d: %v, want %s", attempt, err, want)
		}
		if want == llm.KindRateLimited {
			if e, _ := errors.AsType[*llm.Error](err); e == nil || e.RetryAfter != time.Second || e.Status != 429 || e.Msg != "slow down" {
				t.Errorf("%#v", err)
			}
		}
		if want == llm.KindTruncated && pieces != 1 {
			t.Errorf("%d pieces", pieces)
		}
		if want == "" && resp.StopReason != llm.StopMaxOutput {
			t.Errorf("%+v", resp)
		}
	}
}

func TestExpectations(t *testing.T) {
	t.Parallel()
	good, bad := toolResult("12 passed", false), toolResult("no such file", true)
	for _, c := range []struct {
		expect  string
		results []glovebox.Block
		ok      bool
	}{
		{"ok", []glovebox.Block{good}, true},
		{"ok", []glovebox.Block{good, bad}, false},
		{"ok", nil, false},
		{"error", []glovebox.Block{good, bad}, true},
		{"error", []glovebox.Block{good}, false},
		{"1 ok", []glovebox.Block{good, bad}, true},
		{"2 ok", []glovebox.Block{good, bad}, false},
		{"3 ok", []glovebox.Block{good, bad}, false},
		{"contains passed", []glovebox.Block{bad, good}, true},
		{`contains "2 passed"`, []glovebox.Block{good}, true},
		{"contains failed", []glovebox.Block{good}, false},
		{"lacks such", []glovebox.Block{good, bad}, false},
		{"lacks failed", []glovebox.Block{good, bad}, true},
		{`matches ^\d+ passed$`, []glovebox.Block{good}, true},
		{"message contains task", []glovebox.Block{glovebox.Text("the task")}, true},
		{"message lacks task", []glovebox.Block{glovebox.Text("the task")}, false},
	} {
		s, err := Parse("dir/e.replay", []byte("turn\ntext a\n\nturn\nexpect "+c.expect+"\ntext b\n"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(s, Options{}).Stream(t.Context(), request(1, c.results...), nil)
		if c.ok && err != nil {
			t.Errorf("%s: %v", c.expect, err)
		}
		if !c.ok && (kindOf(err) != llm.KindDiverged || !strings.Contains(err.Error(), " at e.replay:5, but ")) {
			t.Errorf("%s: %v", c.expect, err)
		}
	}
}

func TestPaceAndCancel(t *testing.T) {
	t.Parallel()
	s := sampleScript(t)
	s.Turns[2].Delay = time.Minute
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if _, err := New(s, Options{Pace: 0.5}).Stream(t.Context(), request(2), nil); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start).Round(time.Second); d != 30*time.Second {
			t.Errorf("took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start = time.Now()
		_, err := New(s, Options{Pace: 1}).Stream(ctx, request(2), nil)
		if kindOf(err) != llm.KindCancelled || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestRecord plays a script through a recorder and gets the script again.
func TestRecord(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	rec := Record(New(sampleScript(t), Options{}), &out)
	reqs := []*llm.Request{request(0), request(1, toolResult("v20", false), toolResult("v20", false)),
		request(2, toolResult("a", false), toolResult("b", true)), request(3)}
	var want []*llm.Response
	for _, r := range reqs {
		r.Attempt = 4
		if resp, err := rec.Stream(t.Context(), r, nil); err == nil {
			want = append(want, resp)
		}
	}
	if rec.Err() != nil || len(want) != 3 {
		t.Fatal(rec.Err(), len(want))
	}
	written := out.Len()
	aside := *request(0)
	aside.Aside = true // which is no turn
	if _, err := rec.Stream(t.Context(), &aside, nil); err != nil || out.Len() != written {
		t.Errorf("a call beside the steps: %v, %q", err, out.String()[written:])
	}
	if !strings.Contains(out.String(), "# turn 4 failed: model: exhausted") || !strings.Contains(out.String(), "expect 2 error\n") {
		t.Errorf("recording:\n%s", out.String())
	}
	s, err := Parse("again", []byte(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range reqs[:3] {
		got, err := New(s, Options{}).Stream(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		for j := range got.Message.Blocks { // ids are not recorded
			got.Message.Blocks[j].CallID, want[i].Message.Blocks[j].CallID = "", ""
		}
		if !reflect.DeepEqual(got.Message, want[i].Message) || got.StopReason != want[i].StopReason || got.Usage != want[i].Usage {
			t.Errorf("turn %d: %+v, want %+v", i, got, want[i])
		}
	}
}

// text draws strings that look like what models write, with what the format
// has to get right in them.
var text = rapid.StringOfN(rapid.SampledFrom([]rune("ab \t\n\r#=<:\"\\{}END2\u00e9\u2028\U0001F600\x00")), 0, 40, -1)

var name = rapid.OneOf(rapid.StringMatching(`[a-z_]{1,8}`), rapid.StringN(0, 8, 64))

func drawTurn(t *rapid.T) Turn {
	tr := Turn{
		Title: rapid.StringMatching(`([a-z#=]+( [a-z]+)*)?`).Draw(t, "title"),
		Stop:  rapid.SampledFrom([]llm.StopReason{"", llm.StopEnd, llm.StopRefusal}).Draw(t, "stop"),
		Delay: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "delay")),
		Usage: glovebox.Usage{Input: rapid.Int64Range(0, maxCount).Draw(t, "input"), CostMicros: rapid.Int64Range(0, 9).Draw(t, "cost")},
	}
	for range rapid.IntRange(1, 4).Draw(t, "blocks") {
		switch rapid.IntRange(0, 2).Draw(t, "type") {
		case 0:
			tr.Blocks = append(tr.Blocks, glovebox.Text(text.Draw(t, "text")))
		case 1:
			tr.Blocks = append(tr.Blocks, glovebox.Block{Type: glovebox.BlockReasoning, Text: text.Draw(t, "reasoning")})
		default:
			tr.Blocks = append(tr.Blocks, glovebox.Block{Type: glovebox.BlockToolUse, Name: name.Draw(t, "tool"),
				CallID: rapid.OneOf(rapid.Just(""), name).Draw(t, "id"), Input: drawInput(t)})
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "expectations") {
		e := Expectation{Of: rapid.IntRange(-1, 3).Draw(t, "of"), Op: rapid.SampledFrom([]Op{OpContains, OpLacks}).Draw(t, "op"), Text: "x" + text.Draw(t, "expected")}
		if e.Of >= 0 && rapid.Bool().Draw(t, "plain") {
			e.Op, e.Text = OpOK, ""
		}
		tr.Expect = append(tr.Expect, e)
	}
	for range rapid.IntRange(0, 2).Draw(t, "failures") {
		tr.Fail = append(tr.Fail, Failure{Kind: llm.KindOverloaded, Status: 529, Times: rapid.IntRange(1, 3).Draw(t, "times"),
			Pieces: rapid.IntRange(0, 3).Draw(t, "pieces"), Message: text.Draw(t, "message"), RetryAfter: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "retry"))})
	}
	return tr
}

func drawInput(t *rapid.T) json.RawMessage {
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		return rawInput(text.Draw(t, "raw"))
	case 1:
		return json.RawMessage(rapid.SampledFrom([]string{`{ "a" : 1}`, "[\n1]", `{"a":1,"a":2}`, ` {}`, `{"a":"\u003c"}`, `null`, "{\"a\":\"b\"}\n", `{"a":{"b":[1,"x"]}}`}).Draw(t, "odd"))
	}
	var list []param
	seen := map[string]bool{}
	for range rapid.IntRange(0, 3).Draw(t, "params") {
		n := name.Draw(t, "name")
		if seen[n] {
			continue
		}
		seen[n] = true
		v := json.RawMessage(`[1,{"b":"c"}]`)
		if rapid.Bool().Draw(t, "string") {
			v = jsonString(text.Draw(t, "value"))
		}
		list = append(list, param{n, v})
	}
	return object(list)
}

func TestFormatRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &Script{Name: "f"}
		if rapid.Bool().Draw(t, "card") {
			s.Model = &Card{Window: rapid.Int64Range(0, 9).Draw(t, "window"), Images: rapid.Bool().Draw(t, "images")}
		}
		for range rapid.IntRange(1, 3).Draw(t, "turns") {
			s.Turns = append(s.Turns, drawTurn(t))
		}
		file := Format(s)
		got, err := Parse("f", file)
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		if strip(got); !reflect.DeepEqual(got, s) {
			t.Fatalf("got  %+v\nwant %+v\n%s", got, s, file)
		}
	})
}

// strip takes off what only a script that was read has.
func strip(s *Script) {
	for i := range s.Turns {
		s.Turns[i].Line = 0
		for j := range s.Turns[i].Expect {
			s.Turns[i].Expect[j].Line, s.Turns[i].Expect[j].re = 0, nil
		}
	}
}

// FuzzParse checks that what can be read can be written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("turn\ncall a\n  \"b c\" = d\r\n  e <<-X\r\n\r\n X\r\n"))
	f.Add([]byte("turn\nfail auth\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f", data)
		if err != nil {
			return
		}
		again, err := Parse("f", Format(s))
		if err != nil {
			t.Fatalf("%v\n%s", err, Format(s))
		}
		strip(s)
		strip(again)
		if !reflect.DeepEqual(s, again) {
			t.Fatalf("got  %+v\nwant %+v", again, s)
		}
	})
}

// TestExamples reads the recordings that come with the project.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../examples/*/*.replay")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		s, err := Load(f)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		t.Logf("%s: %d turns", f, len(s.Turns))
	}
}
