package membench

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/llm"
)

// step is a call of the model in a history: what comes before it, and what it
// answers.
type step struct {
	first  bool   // of a run
	user   string // what the user says before the call; empty mostly
	note   string // what the harness says before the call; empty mostly
	answer string // text of the answer
	tool   string // name of the tool that the answer calls; empty for none
	input  json.RawMessage
	output string // of the tool, cut as the service cuts it
	whole  int64  // bytes of the output before it was cut; 0 where it was not
	tokens int64  // of all of it, about
}

// cutter cuts the output of a tool to what the log may hold of it.
type cutter func(text, handle string) string

// bound is what cutter cuts to by default, in bytes.
const bound = 16 << 10

// cutMiddle cuts text to its first and last lines.
func cutMiddle(text, handle string) string {
	if len(text) <= bound {
		return text
	}
	head, tail := bound*3/5, bound*2/5-200
	return strings.ToValidUTF8(text[:head], "") + fmt.Sprintf("\n[... %d bytes left out; read_output with handle %q has the whole ...]\n", len(text)-head-tail, handle) +
		strings.ToValidUTF8(text[len(text)-tail:], "")
}

// stepsOf returns the calls of a run. The commands of its agent become calls
// of our tools where there is one that does the same, else of the shell.
func stepsOf(run int, t trajectory, cut cutter) []step {
	var steps []step
	open := "" // the file that its agent looks at
	for i := 0; i+1 < len(t.Messages); i += 2 {
		text, command, ok := splitAnswer(t.Messages[i+1].Content)
		s := step{first: i == 0, answer: text}
		if i == 0 {
			s.user = t.Messages[i].Content
		} else if len(steps) > 0 && steps[len(steps)-1].tool == "" {
			s.note = cut(t.Messages[i].Content, fmt.Sprintf("run-%d-%d", run, i))
		}
		if f := openFile.FindStringSubmatch(t.Messages[i].Content); f != nil {
			open = f[1]
		}
		if ok {
			s.tool, s.input = toolOf(command, open)
			raw := "(no output)"
			if i+2 < len(t.Messages) {
				raw = t.Messages[i+2].Content
			}
			s.output = cut(raw, fmt.Sprintf("run-%d-%d", run, i))
			if s.output != raw {
				s.whole = int64(len(raw))
			}
		}
		s.tokens = llm.TokensOf(s.user) + llm.TokensOf(s.note) + llm.TokensOf(s.answer) + llm.TokensOf(s.tool) + llm.TokensOf(string(s.input)) + llm.TokensOf(s.output)
		steps = append(steps, s)
	}
	return steps
}

var openFile = regexp.MustCompile(`\(Open file: (\S+)\)`)

// fence ends the text of an answer and begins its command, and ends that.
const fence = "```"

// splitAnswer returns the text of an answer and the command in its last fence.
func splitAnswer(s string) (text, command string, ok bool) {
	body := strings.TrimRight(s, " \n")
	body, ok = strings.CutSuffix(body, fence)
	if !ok {
		return s, "", false
	}
	i := strings.LastIndex(body, fence)
	if i < 0 {
		return s, "", false
	}
	command = strings.TrimSpace(body[i+len(fence):])
	return strings.TrimSpace(body[:i]), command, command != ""
}

// toolOf returns a command as a call of one of our tools. open is the file
// that the agent of the recording had open.
func toolOf(command, open string) (string, json.RawMessage) {
	word, rest, _ := strings.Cut(command, " ")
	first, body, _ := strings.Cut(rest, "\n")
	fields := strings.Fields(first)
	switch {
	case word == "open" && len(fields) > 0:
		return "read_file", object("path", strings.Trim(fields[0], `"`))
	case (word == "goto" || word == "scroll_down" || word == "scroll_up") && open != "" && open != "n/a":
		return "read_file", object("path", open)
	case word == "create" && len(fields) > 0:
		return "write_file", object("path", strings.Trim(fields[0], `"`), "content", "")
	case word == "edit" && open != "" && open != "n/a":
		return "edit_file", object("path", open, "old", "lines "+first, "new", strings.TrimSuffix(body, "end_of_edit"))
	case (word == "search_dir" || word == "search_file" || word == "find_file") && len(fields) > 0:
		return "search_files", object("pattern", strings.Trim(first, `"`))
	}
	return "shell", object("command", command)
}

// object returns a JSON object of pairs of strings, in their order.
func object(pairs ...string) json.RawMessage {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(pairs[i]))
		b.WriteByte(':')
		b.Write(quote(pairs[i+1]))
	}
	return json.RawMessage("{" + b.String() + "}")
}

func quote(s string) []byte {
	q, err := json.Marshal(s)
	if err != nil {
		panic("membench: encode a string: " + err.Error()) // strings can always be encoded
	}
	return q
}

// history is runs laid end to end until they have the wanted number of
// tokens, with facts among them. It repeats the runs as often as it needs to.
type history struct {
	base  []step
	calls int             // how many steps it has
	facts map[int][]*fact // by the step in which they are planted
	asks  map[int][]*fact // by the step before which they are asked about
	about int64           // tokens without facts
}

func newHistory(base []step, tokens int64) *history {
	h := &history{base: base, facts: map[int][]*fact{}, asks: map[int][]*fact{}}
	for h.about < tokens {
		h.about += base[h.calls%len(base)].tokens
		h.calls++
	}
	return h
}

// at returns step i with what is planted in it.
func (h *history) at(i int) step {
	s := h.base[i%len(h.base)]
	for _, f := range h.facts[i] {
		s = f.plantIn(s)
	}
	for _, f := range h.asks[i] {
		s.user = joined(s.user, f.question)
	}
	return s
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "\n\n" + b
}
