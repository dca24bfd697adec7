package llmtest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/computer"
)

// ComputerRequest is [Request] with a third tool, gui, that works a screen.
func ComputerRequest() *llm.Request {
	r := Request()
	r.Tools = append(r.Tools, llm.ToolSpec{
		Name: "gui", Description: "Works the screen.", Schema: json.RawMessage(`{"type":"object","properties":{"action":{"type":"string"}}}`),
		Computer: &llm.Computer{Width: 1280, Height: 800, Description: "Does the rest.", Schema: json.RawMessage(`{"type":"object","properties":{"action":{"enum":["read"]}}}`)},
	})
	return r
}

// native is a call of the provider's own computer tool.
func native(name, input string) glovebox.Block {
	b := use(name, input)
	b.Provider = Native
	return b
}

// turn is an answer with the calls of gui that it has to become.
type turn struct {
	blocks []glovebox.Block
	want   []string // inputs; with ! the action that gui is to refuse
}

// turns are answers as a model gives them that has the computer tool kind.
func turns(kind string) []turn {
	switch kind {
	case llm.AnthropicToolset:
		return []turn{
			{[]glovebox.Block{think("I click."), native("left_click", `{"coordinate":[10,20],"text":"ctrl"}`), native("type", `{"text":"a<b"}`), use("shell", `{"command":"ls"}`), native("screenshot", `{}`)},
				[]string{`{"action":"left_click","coordinate":[10,20],"text":"ctrl"}`, `{"action":"type","text":"a<b"}`, `{"action":"screenshot"}`}},
			{[]glovebox.Block{native("key", `{"text":"Down","repeat":3}`), native("dance", `{"how":"well"}`), native("zoom", `{"region":[1,2]}`), native("scroll", `{"scroll_amo`), native("wait", `[1]`)},
				[]string{`{"action":"key","text":"Down Down Down"}`, "!dance", "!zoom", "!scroll", "!wait"}},
		}
	case llm.AnthropicComputer1, llm.AnthropicComputer2:
		return []turn{
			{[]glovebox.Block{think("I click."), native("computer", `{"action":"left_click","coordinate":[10,20]}`), native("computer", `{"action":"type","text":"a<b"}`), use("shell", `{}`)},
				[]string{`{"action":"left_click","coordinate":[10,20]}`, `{"action":"type","text":"a<b"}`}},
			{[]glovebox.Block{native("computer", `{"action":"scroll","scroll_direction":"down","scroll_amount":3}`), native("computer", `{"action":"dance"}`), native("computer", `{"action":"zo`)},
				[]string{`{"action":"scroll","scroll_direction":"down","scroll_amount":3}`, "!dance", "!"}},
		}
	case llm.OpenAIComputer:
		return []turn{
			{[]glovebox.Block{think("I click."), native("computer", `{"actions":[{"type":"click","button":"left","x":10,"y":20},{"type":"type","text":"a<b"}]}`), use("shell", `{}`)},
				[]string{`{"action":"left_click","coordinate":[10,20]}`, `{"action":"type","text":"a<b"}`, `{"action":"screenshot"}`}},
			{[]glovebox.Block{think("I look."), native("computer", `{"action":{"type":"screenshot"}}`)}, []string{`{"action":"screenshot"}`}},
			{[]glovebox.Block{native("computer", `{"actions":[{"type":"move","x":1,"y":2},{"type":"dance","x":3},{"type":"wait"}]}`)},
				[]string{`{"action":"mouse_move","coordinate":[1,2]}`, "!dance"}},
			{[]glovebox.Block{native("computer", `{"actions":[{"type":"click","x":1,"y":2}],"pending_safety_checks":[{"id":"sc_1","code":"malicious_instructions","message":"Look out."}]}`)},
				[]string{"!stopped_by_safety_check"}},
		}
	}
	return nil
}

// kept returns m as the log keeps it.
func kept(t *testing.T, m glovebox.Message) (out glovebox.Message) {
	t.Helper()
	raw, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// computer has conversations with models that have a computer tool of the
// provider's. The server checks what is declared, and that calls and results
// come back in their form. What was said goes on with every other model.
func (x exercise) computer(t *testing.T) {
	t.Parallel()
	for _, kind := range llm.ComputerTools[string(x.api)] {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			list := turns(kind)
			answers := make([]Answer, 0, len(list)+2)
			for _, turn := range list {
				answers = append(answers, Answer{Blocks: turn.blocks})
			}
			done := Answer{Blocks: []glovebox.Block{glovebox.Text("Done.")}}
			s := NewServer(t, x.api, append(answers, done, done)...)
			r := ComputerRequest()
			for i, turn := range list {
				x.turn(t, s, kind, r, turn, i)
			}
			for range 2 {
				if _, err := x.with(s, kind).Stream(t.Context(), r, nil); err != nil {
					t.Fatal(err)
				}
			}
			sent := s.Requests()
			for i := range sent[1:] {
				if err := Growth(x.api, sent[i], sent[i+1]); err != nil {
					t.Errorf("request %d: %v", i+1, err)
				}
			}
			last := sent[len(sent)-1]
			if !bytes.Equal(last, sent[len(sent)-2]) {
				t.Errorf("the same request was sent as\n%s\nand\n%s", sent[len(sent)-2], last)
			}
			if !strings.Contains(string(last), kind) || !strings.Contains(string(last), "Does the rest.") || strings.Contains(string(last), "Works the screen.") {
				t.Errorf("declared otherwise: %s", last)
			}
			x.goesOn(t, kind, r)
		})
	}
	x.notOffered(t)
}

// with opens a model that has the computer tool kind.
func (x exercise) with(s *Server, kind string) llm.Model {
	cfg := x.config(s)
	cfg.Info.Computer = kind
	return x.open(cfg)
}

// turn has one answer and adds it and its results to r.
func (x exercise) turn(t *testing.T, s *Server, kind string, r *llm.Request, turn turn, n int) {
	t.Helper()
	names := ""
	resp, err := x.with(s, kind).Stream(t.Context(), r, func(d glovebox.ModelDelta) { names += d.Name + " " })
	if err != nil {
		t.Fatalf("answer %d: %v", n, err)
	}
	var got []string
	for _, u := range resp.Message.ToolUses() {
		if u.Name == "gui" {
			got = append(got, string(u.Input))
		}
	}
	if len(got) != len(turn.want) || strings.Count(names, "gui") == 0 || resp.StopReason != llm.StopToolUse {
		t.Fatalf("answer %d: %d calls of gui (pieces name %q): %s", n, len(got), names, got)
	}
	for i, want := range turn.want {
		action, refused := strings.CutPrefix(want, "!")
		var in struct {
			Action string          `json:"action"`
			Input  json.RawMessage `json:"input"`
		}
		if err := json.Unmarshal([]byte(got[i]), &in); err != nil || refused && (in.Action != action || in.Input == nil) || !refused && got[i] != want {
			t.Errorf("answer %d: call %d is %s, want %s (%v)", n, i, got[i], want, err)
		}
	}
	shot := glovebox.Block{Type: glovebox.BlockImage, MediaType: "image/png", Data: png}
	reply(r, kept(t, resp.Message), glovebox.Block{Content: []glovebox.Block{glovebox.Text("The screen changed."), shot}},
		glovebox.Block{IsError: true, Content: []glovebox.Block{glovebox.Text("no such place"), shot}},
		glovebox.Block{IsError: true, Content: []glovebox.Block{glovebox.Text("Not executed.")}}, glovebox.Block{Content: []glovebox.Block{shot}})
}

// goesOn sends a conversation that a model with the computer tool kind began
// to models that have another, or none.
func (x exercise) goesOn(t *testing.T, kind string, r *llm.Request) {
	t.Helper()
	foreign := *r
	reply(&foreign, glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{
		{Type: glovebox.BlockToolUse, CallID: "f1", Name: "gui", Input: json.RawMessage(`{"action":"left_click","coordinate":[1,2]}`), Provider: "elsewhere", Opaque: json.RawMessage(`{"name":"computer","input":{"from":"elsewhere"}}`)},
		{Type: glovebox.BlockToolUse, CallID: "f2", Name: "gui", Input: json.RawMessage(`{"action":"read"}`)},
	}})
	for _, other := range append([]string{"", kind}, llm.ComputerTools[string(x.api)]...) {
		s := NewServer(t, x.api, Answer{Blocks: []glovebox.Block{glovebox.Text("Ok")}})
		if _, err := x.with(s, other).Stream(t.Context(), &foreign, nil); err != nil {
			t.Errorf("from %s to %q: %v", kind, other, err)
			continue
		}
		if sent := string(s.Requests()[0]); strings.Contains(sent, "elsewhere") || other == "" && (strings.Contains(sent, kind+`"`) || !strings.Contains(sent, "Works the screen.")) {
			t.Errorf("from %s to %q: %s", kind, other, sent)
		}
	}
}

// notOffered checks that nothing is declared where it can't be used.
func (x exercise) notOffered(t *testing.T) {
	t.Helper()
	known := llm.ComputerTools[string(x.api)]
	all := slices.Concat(known, []string{"", "computer_19700101"})
	for _, kind := range all {
		for what, change := range map[string]func(*llm.Info, *llm.Request){
			"an unknown tool":          func(i *llm.Info, _ *llm.Request) { i.Computer = "computer_19700101" },
			"no images":                func(i *llm.Info, _ *llm.Request) { i.Images = false },
			"no screen":                func(_ *llm.Info, r *llm.Request) { r.Tools = r.Tools[:2] },
			"another tool of its name": func(_ *llm.Info, r *llm.Request) { r.Tools[0].Name = computer.Toolset },
		} {
			s := NewServer(t, x.api, Answer{Blocks: []glovebox.Block{glovebox.Text("Ok")}})
			cfg, r := x.config(s), ComputerRequest()
			cfg.Info.Computer = kind
			change(&cfg.Info, r)
			if _, err := x.open(cfg).Stream(t.Context(), r, nil); err != nil {
				t.Errorf("%s, %s: %v", kind, what, err)
				continue
			}
			if sent := string(s.Requests()[0]); strings.Contains(sent, "computer_") || strings.Contains(sent, `"type":"computer"`) || strings.Contains(sent, "Does the rest.") {
				t.Errorf("%s, %s: %s", kind, what, sent)
			}
		}
	}
}

// computerRefused has a provider refuse its own tool, as some platforms do
// that serve its models: the call is made again without it, and later ones
// are made so at once.
func (x exercise) computerRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range llm.ComputerTools[string(x.api)] {
		ok := Answer{Blocks: []glovebox.Block{glovebox.Text("Ok")}}
		no := Answer{Fault: Fault{Kind: Refuse, Status: 400, Code: "invalid_request_error", Message: "Tool '" + kind + "' is not supported with this model."}}
		s := NewServer(t, x.api, no, ok, ok)
		m := x.with(s, kind)
		for range 2 {
			if _, err := m.Stream(t.Context(), ComputerRequest(), nil); err != nil {
				t.Fatal(err)
			}
		}
		for i, body := range s.Requests() {
			if declared := strings.Contains(string(body), `"type":"`+kind+`"`); declared != (i == 0) {
				t.Errorf("%s: request %d: %s", kind, i, body)
			}
		}
		other := Answer{Fault: Fault{Kind: Refuse, Status: 400, Code: "invalid_request_error", Message: "The request is wrong."}}
		if _, err := x.with(NewServer(t, x.api, other), kind).Stream(t.Context(), ComputerRequest(), nil); KindOf(err) != llm.KindInvalid {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
