package llmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// Exercise proves a provider against all that a server of its kind does.
func Exercise(t *testing.T, api API, open func(wire.Config) llm.Model) {
	x := exercise{api, open}
	t.Run("conversation", x.conversation)
	t.Run("foreign history", x.foreign)
	t.Run("same request same bytes", x.sameBytes)
	t.Run("computer", x.computer)
	t.Run("computer refused", x.computerRefused)
	t.Run("stop reasons", x.stops)
	t.Run("faults", x.faults)
	t.Run("stall", x.stall)
	t.Run("cancel", x.cancel)
	t.Run("no server", x.noServer)
	t.Run("keys stay out of errors", x.keys)
}

type exercise struct {
	api  API
	open func(wire.Config) llm.Model
}

// png is an image of one pixel, enough for what does not look at it.
var png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01")

// info describes the model that the server plays.
func (x exercise) info() llm.Info {
	name := "test-model"
	if x.api == Gemini {
		name = "gemini-3-test"
	}
	return llm.Info{Provider: string(x.api), Name: name, Window: 100_000, MaxOutput: 8_000, Images: true, Reasoning: true,
		Priced: true, InputPrice: 1_000_000, OutputPrice: 2_000_000, CacheReadPrice: 100_000, CacheWritePrice: 1_250_000}
}

func (x exercise) config(s *Server) wire.Config {
	return wire.Config{Info: x.info(), APIKey: Key, BaseURL: s.URL, HTTP: s.Client()}
}

// start starts a server and opens the model behind it.
func (x exercise) start(t *testing.T, answers ...Answer) (*Server, llm.Model) {
	t.Helper()
	s := NewServer(t, x.api, answers...)
	return s, x.open(x.config(s))
}

// Request is the beginning of a conversation, with two tools.
func Request() *llm.Request {
	return &llm.Request{
		System: "You are careful: a < b && b > a.",
		Tools: []llm.ToolSpec{
			{Name: "shell", Description: "Runs a command.", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"},"b":{"type":"integer"},"a":{"type":"integer"}},"required":["command"]}`)},
			{Name: "read_file", Description: "Reads.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)},
		},
		Messages:   []glovebox.Message{{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("Build it. 建てて <now>")}}},
		MaxOutput:  4_000,
		CacheKey:   "job-1",
		CacheMarks: []llm.CacheMark{{}},
	}
}

func use(name, input string) glovebox.Block {
	return glovebox.Block{Type: glovebox.BlockToolUse, Name: name, Input: json.RawMessage(input)}
}

func think(text string) glovebox.Block {
	return glovebox.Block{Type: glovebox.BlockReasoning, Text: text}
}

// reply adds an answer and the results of its calls to r.
func reply(r *llm.Request, m glovebox.Message, results ...glovebox.Block) {
	user := glovebox.Message{Role: glovebox.RoleUser}
	for i, u := range m.ToolUses() {
		b := glovebox.Block{Type: glovebox.BlockToolResult, CallID: u.CallID, Content: []glovebox.Block{glovebox.Text("done")}}
		if i < len(results) {
			b.Content, b.IsError = results[i].Content, results[i].IsError
		}
		user.Blocks = append(user.Blocks, b)
	}
	if len(user.Blocks) == 0 {
		user.Blocks = []glovebox.Block{glovebox.Text("go on")}
	}
	r.Messages = append(r.Messages, m, user)
	r.CacheMarks = []llm.CacheMark{{}, {Message: len(r.Messages) - 1}}
}

// visibleBlocks returns what of blocks is the same for all providers.
func visibleBlocks(blocks []glovebox.Block) []glovebox.Block {
	var list []glovebox.Block
	for _, b := range blocks {
		if b.Text == "" && b.Type != glovebox.BlockToolUse {
			continue
		}
		list = append(list, glovebox.Block{Type: b.Type, Text: b.Text, Name: b.Name, Input: b.Input})
	}
	return list
}

// conversation has three answers, with all that an answer can have in it. The
// server checks that all of it comes back in the right form.
func (x exercise) conversation(t *testing.T) {
	t.Parallel()
	usage := glovebox.Usage{Input: 1000, CacheRead: 500, CacheWrite: 200, Output: 300, Reasoning: 100}
	if x.api == Chat || x.api == Gemini {
		usage.CacheWrite = 0
	}
	answers := []Answer{
		{Blocks: []glovebox.Block{think("First I look — 先に."), glovebox.Text("I look around."), use("shell", `{"command":"ls <&> 'ä'","b":1,"a":2}`), use("read_file", `{"path":"a.txt"}`)}, Usage: usage},
		{Blocks: []glovebox.Block{think("Now the other."), use("shell", `{}`)}, Usage: usage},
		{Blocks: []glovebox.Block{glovebox.Text("Done.")}, Usage: usage},
	}
	s, m := x.start(t, answers...)
	r := Request()
	for i, a := range answers {
		said := map[glovebox.BlockType]string{}
		names := ""
		resp, err := m.Stream(t.Context(), r, func(d glovebox.ModelDelta) {
			said[d.Type] += d.Text
			names += d.Name + " "
		})
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if got, want := visibleBlocks(resp.Message.Blocks), visibleBlocks(a.Blocks); !equalBlocks(got, want) {
			t.Errorf("answer %d: got %s, want %s", i, encode(got), encode(want))
		}
		for _, b := range a.Blocks {
			if b.Type != glovebox.BlockToolUse && !strings.Contains(said[b.Type], b.Text) {
				t.Errorf("answer %d: of %q the pieces are %q", i, b.Text, said[b.Type])
			}
			if b.Type == glovebox.BlockToolUse && !strings.Contains(names, b.Name) {
				t.Errorf("answer %d: the name %q is in no piece", i, b.Name)
			}
		}
		want := usage
		want.Calls, want.CostMicros = 1, x.info().Cost(usage)
		if resp.Usage != want || resp.StopReason != a.stop() || resp.First <= 0 || resp.Message.Role != glovebox.RoleAssistant {
			t.Errorf("answer %d: %+v, want usage %+v and stop %s", i, resp, want, a.stop())
		}
		reply(r, resp.Message, glovebox.Block{Content: []glovebox.Block{glovebox.Text("a.txt"), {Type: glovebox.BlockImage, MediaType: "image/png", Data: png}}},
			glovebox.Block{IsError: true, Content: []glovebox.Block{glovebox.Text("no such file")}})
	}
	last := string(s.Requests()[2])
	if x.api != Chat && !strings.Contains(last, sign(x.api, reasoned(x.api, answers[0]))) {
		t.Error("the reasoning did not go back")
	}
	if !strings.Contains(last, "no such file") || strings.Count(last, "image/png") == 0 {
		t.Errorf("a result is missing: %s", last)
	}
}

// reasoned returns what the signature in a stands for.
func reasoned(api API, a Answer) string {
	if api == Gemini {
		return ""
	}
	return a.Blocks[0].Text
}

// equalBlocks compares blocks; inputs as JSON, since one library orders keys.
func equalBlocks(a, b []glovebox.Block) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		var x, y any
		if json.Unmarshal(a[i].Input, &x) != nil != (json.Unmarshal(b[i].Input, &y) != nil) || !reflect.DeepEqual(x, y) {
			return false
		}
		if a[i].Type != b[i].Type || a[i].Text != b[i].Text || a[i].Name != b[i].Name {
			return false
		}
	}
	return true
}

// foreign sends a history that another provider, a confused model and an
// interrupted job have left behind.
func (x exercise) foreign(t *testing.T) {
	t.Parallel()
	s, _ := x.start(t, Answer{Blocks: []glovebox.Block{glovebox.Text("Ok")}})
	cfg := x.config(s)
	cfg.Info.Images = false
	r := Request()
	reply(r, glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{
		{Type: glovebox.BlockReasoning, Text: "secret", Provider: "elsewhere", Opaque: json.RawMessage(`{"x":"elsewhere"}`)},
		{Type: glovebox.BlockText, Text: "  \n"},
		{Type: glovebox.BlockToolUse, CallID: "functions.shell:0|fc_1", Name: "no such tool!", Input: json.RawMessage(`"{\"command\": \"cut o"`), Provider: "elsewhere", Opaque: json.RawMessage(`{"id":"elsewhere"}`)},
		{Type: glovebox.BlockToolUse, CallID: "b", Name: "", Input: nil},
		{Type: glovebox.BlockToolUse, CallID: "c", Name: "shell", Input: json.RawMessage(`[1]`)},
	}}, glovebox.Block{Content: []glovebox.Block{{Type: glovebox.BlockImage, MediaType: "image/png", Data: png}}},
		glovebox.Block{IsError: true})
	reply(r, glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{think("only this")}})
	reply(r, glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{glovebox.Text("")}})
	r.Messages = append(r.Messages, glovebox.Message{Role: glovebox.RoleUser})
	r.CacheMarks = []llm.CacheMark{{Blocks: 7}, {Message: 1, Blocks: 2}, {Message: 2, Blocks: -1}, {Message: 99}, {Message: -1}}
	r.CacheKey = strings.Repeat("long", 100)
	if _, err := x.open(cfg).Stream(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	if sent := string(s.Requests()[0]); strings.Contains(sent, "elsewhere") {
		t.Errorf("what another provider attached was sent: %s", sent)
	}
}

func (x exercise) sameBytes(t *testing.T) {
	t.Parallel()
	ok := Answer{Blocks: []glovebox.Block{use("shell", `{"z":1,"a":{"y":2,"b":[3]},"m":4}`)}}
	s, m := x.start(t, ok, ok, ok, ok, ok)
	r := Request()
	resp, err := m.Stream(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply(r, resp.Message)
	for range 4 {
		if _, err := m.Stream(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
	}
	sent := s.Requests()[1:]
	for _, body := range sent[1:] {
		if !bytes.Equal(body, sent[0]) {
			t.Fatalf("the same request was sent as\n%s\nand\n%s", sent[0], body)
		}
	}
}

func (x exercise) stops(t *testing.T) {
	t.Parallel()
	text := []glovebox.Block{glovebox.Text("a")}
	answers := []Answer{
		{Blocks: text, Stop: llm.StopEnd}, {Blocks: text, Stop: llm.StopMaxOutput}, {Blocks: text, Stop: llm.StopRefusal},
		{Stop: llm.StopRefusal}, {Stop: llm.StopMaxOutput},
	}
	_, m := x.start(t, answers...)
	for i, a := range answers {
		resp, err := m.Stream(t.Context(), Request(), nil)
		if err != nil || resp.StopReason != a.Stop || len(resp.Message.Blocks) == 0 {
			t.Errorf("%d: %+v %v, want %s", i, resp, err, a.Stop)
		}
	}
}

func (x exercise) stall(t *testing.T) {
	t.Parallel()
	for _, after := range []int{0, x.begun()} {
		s, _ := x.start(t, Answer{Blocks: []glovebox.Block{glovebox.Text("a long story")}, Fault: Fault{Kind: Stall, After: after}})
		cfg := x.config(s)
		cfg.Stall, cfg.FirstStall = 50*time.Millisecond, 50*time.Millisecond
		_, err := x.open(cfg).Stream(t.Context(), Request(), nil)
		if KindOf(err) != llm.KindStalled {
			t.Errorf("after %d events: %v", after, err)
		}
	}
}

func (x exercise) cancel(t *testing.T) {
	t.Parallel()
	s, m := x.start(t, Answer{Blocks: []glovebox.Block{glovebox.Text("a long story")}, Fault: Fault{Kind: Stall, After: x.begun()}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.Stalled()
		cancel()
	}()
	_, err := m.Stream(ctx, Request(), nil)
	if KindOf(err) != llm.KindCancelled || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := m.Stream(ctx, Request(), nil); KindOf(err) != llm.KindCancelled {
		t.Error(err)
	}
}

func (x exercise) noServer(t *testing.T) {
	t.Parallel()
	s := NewServer(t, x.api)
	cfg := x.config(s)
	s.http.Close()
	if _, err := x.open(cfg).Stream(t.Context(), Request(), nil); KindOf(err) != llm.KindNetwork {
		t.Error(err)
	}
}

func (x exercise) keys(t *testing.T) {
	t.Parallel()
	msg := "Incorrect API key provided: " + Key + ", also sk-proj-abc**********xyz"
	_, m := x.start(t, Answer{Fault: Fault{Kind: Refuse, Status: 401, Code: "invalid_api_key", Message: msg}},
		Answer{Blocks: []glovebox.Block{glovebox.Text("a")}, Fault: Fault{Kind: ErrorEvent, After: x.begun(), Code: "server_error", Message: msg}})
	for _, want := range []llm.Kind{llm.KindAuth, ""} {
		_, err := m.Stream(t.Context(), Request(), nil)
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), "sk-") {
				t.Errorf("a key is in %q", e)
			}
		}
		if want != "" && KindOf(err) != want {
			t.Error(err)
		}
	}
}

// KindOf returns the kind of a model's error, "" if it is none.
func KindOf(err error) llm.Kind {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e.Kind
	}
	return ""
}
