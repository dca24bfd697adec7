package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Load reads a script from a regular file of at most [MaxFile] bytes.
func Load(path string) (*Script, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block
	if err != nil {
		return nil, openError(path, err)
	}
	defer f.Close()
	return Read(path, f)
}

// Read reads a script from an open file. Its name is for messages.
func Read(name string, f *os.File) (*Script, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, openError(name, err)
	}
	if !st.Mode().IsRegular() {
		return nil, glovebox.Invalid("model", "name a file of recorded turns", "replay %s: not a regular file", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, openError(name, err)
	}
	return Parse(name, data)
}

func openError(name string, err error) error {
	return &glovebox.Error{Code: glovebox.CodeInvalid, Op: "open replay", Field: "model", Msg: name, Err: err,
		Hint: "name a file of recorded turns: replay:FILE"}
}

// Parse reads a script. An error names the line that is wrong and what would
// be right; it never quotes more of the file than the first word of a line.
func Parse(name string, data []byte) (*Script, error) {
	if len(data) > MaxFile {
		return nil, &glovebox.Error{Code: glovebox.CodeTooLarge, Op: "read replay", Field: "model", Msg: fmt.Sprintf("%s is larger than %d bytes", name, MaxFile)}
	}
	p := parser{s: &Script{Name: name}, rest: data}
	for p.next() {
		if err := p.statement(); err != nil {
			return nil, err
		}
	}
	if p.utf8 != nil {
		return nil, p.utf8
	}
	if err := p.endTurn(); err != nil {
		return nil, err
	}
	if len(p.s.Turns) == 0 {
		return nil, p.errorf("there is no turn in the file", `begin one with a line "turn"`)
	}
	return p.s, nil
}

// parser reads a script line by line.
type parser struct {
	s    *Script
	rest []byte
	line int    // number of text, from 1
	text string // the line without its newline
	utf8 error  // set when a line is not UTF-8
	turn *Turn  // being read; nil before the first
	call *call  // being read; nil if none is
}

// call is a call of a tool whose parameters are being read.
type call struct {
	block  int // in turn.Blocks
	params []param
	names  map[string]bool
	whole  bool // the input was given at once
}

// next moves to the next line.
func (p *parser) next() bool {
	if len(p.rest) == 0 || p.utf8 != nil {
		return false
	}
	line, rest, _ := bytes.Cut(p.rest, []byte("\n"))
	p.rest, p.line = rest, p.line+1
	if !utf8.Valid(line) {
		p.utf8 = p.errorf("the line is not UTF-8", "save the file as UTF-8 text")
		return false
	}
	p.text = string(line)
	return true
}

func (p *parser) errorf(msg, hint string, args ...any) error {
	return &glovebox.Error{Code: glovebox.CodeInvalid, Op: "read replay", Field: "model",
		Msg: fmt.Sprintf("%s:%d: %s", p.s.Name, p.line, fmt.Sprintf(msg, args...)), Hint: hint}
}

// statement reads what stands on the present line, and its block.
func (p *parser) statement() error {
	line := strings.TrimSpace(p.text)
	if line == "" || line[0] == '#' {
		return nil
	}
	if p.text[0] == ' ' || p.text[0] == '\t' {
		return p.parameter(line)
	}
	if err := p.endCall(); err != nil {
		return err
	}
	order, rest := cutWord(line)
	if order == "model" {
		return p.model(rest)
	}
	if order == "turn" {
		return p.beginTurn(rest)
	}
	read, ok := orders[order]
	if !ok {
		return p.errorf("%.20q is not an order", "write turn, text, reasoning, call, expect, fail, usage, delay or stop; indent the parameters of a call", order)
	}
	if p.turn == nil {
		return p.errorf("%q stands before the first turn", `begin one with a line "turn"`, order)
	}
	return read(p, rest)
}

// cutWord returns the first word of s and what follows it, without spaces
// around.
func cutWord(s string) (word, rest string) {
	end := strings.IndexAny(s, " \t")
	if end < 0 {
		return s, ""
	}
	return s[:end], strings.TrimSpace(s[end:])
}

func (p *parser) beginTurn(title string) error {
	if err := p.endTurn(); err != nil {
		return err
	}
	if len(p.s.Turns) == MaxTurns {
		return p.errorf("more than %d turns", "split the file", MaxTurns)
	}
	p.turn = &Turn{Title: title, Line: p.line}
	return nil
}

// endTurn puts the turn being read, if any, to the others.
func (p *parser) endTurn() error {
	if p.turn == nil {
		return nil
	}
	if err := p.endCall(); err != nil {
		return err
	}
	if len(p.turn.Blocks) == 0 && len(p.turn.Fail) == 0 {
		p.line = p.turn.Line
		return p.errorf("the turn says nothing", "add text, a call, or a failure")
	}
	p.s.Turns = append(p.s.Turns, *p.turn)
	p.turn = nil
	return nil
}

// endCall gives the call being read, if any, its input.
func (p *parser) endCall() error {
	if c := p.call; c != nil && !c.whole {
		p.turn.Blocks[c.block].Input = object(c.params)
	}
	p.call = nil
	return nil
}

// parameter reads an indented line.
func (p *parser) parameter(line string) error {
	c := p.call
	if c == nil {
		return p.errorf("an indented line belongs to no call", "begin it at the start of the line, or put a call above it")
	}
	name, rest, err := p.paramName(line)
	if err != nil {
		return err
	}
	if c.whole || (name == nil && len(c.params) > 0) {
		return p.errorf("the input is given whole and in parameters", "give one of the two")
	}
	value, err := p.paramValue(rest, name == nil)
	if err != nil {
		return err
	}
	if name == nil {
		c.whole = true
		p.turn.Blocks[c.block].Input = value
		return nil
	}
	if c.names[*name] {
		return p.errorf("the parameter is given twice", "give it once")
	}
	c.names[*name] = true
	c.params = append(c.params, param{*name, value})
	return nil
}

// paramName takes the name off the start of a line. There is none on a line
// that gives the whole input.
func (p *parser) paramName(line string) (name *string, rest string, err error) {
	if strings.HasPrefix(line, ":=") || strings.HasPrefix(line, "<<") {
		return nil, line, nil
	}
	if line[0] == '"' {
		d := json.NewDecoder(strings.NewReader(line))
		var s string
		if err := d.Decode(&s); err != nil {
			return nil, "", p.errorf("the name of the parameter is not a JSON string", `close the quotes: "a name" = value`)
		}
		return &s, strings.TrimSpace(line[d.InputOffset():]), nil
	}
	end := strings.IndexAny(line, " \t=:<")
	if end < 0 {
		end = len(line)
	}
	s := line[:end]
	if !plainName(s) {
		return nil, "", p.errorf("that is no name of a parameter", "use letters, digits, _ - and . or a JSON string")
	}
	return &s, strings.TrimSpace(line[end:]), nil
}

// paramValue reads what follows a name, or the whole input, as JSON.
func (p *parser) paramValue(rest string, whole bool) (json.RawMessage, error) {
	if v, ok := strings.CutPrefix(rest, ":="); ok {
		v = strings.TrimSpace(v)
		text, _, err := p.value(v)
		if err != nil {
			return nil, err
		}
		if !json.Valid([]byte(text)) {
			return nil, p.errorf("what follows := is not JSON", "write a string with = instead")
		}
		if whole {
			return json.RawMessage(text), nil
		}
		var b bytes.Buffer
		if err := json.Compact(&b, []byte(text)); err != nil {
			return nil, p.errorf("what follows := is not JSON", "write a string with = instead")
		}
		return b.Bytes(), nil
	}
	if v, ok := strings.CutPrefix(rest, "="); ok && !whole {
		return jsonString(strings.TrimSpace(v)), nil
	}
	if strings.HasPrefix(rest, "<<") {
		text, _, err := p.value(rest)
		if err != nil {
			return nil, err
		}
		if whole {
			return rawInput(text), nil
		}
		return jsonString(text), nil
	}
	return nil, p.errorf("a parameter has no value", "write name = value, name := JSON or name <<TAG")
}

// value reads a value: s itself, or the block that it opens.
func (p *parser) value(s string) (text string, block bool, err error) {
	tag, ok := strings.CutPrefix(s, "<<")
	if !ok {
		return s, false, nil
	}
	tag, chop := strings.CutPrefix(tag, "-")
	if !blockTag(tag) {
		return "", false, p.errorf("<< is not followed by a tag", "write <<END, the lines, and END on a line of its own")
	}
	opened := p.line
	var b strings.Builder
	for p.next() {
		if strings.TrimSpace(p.text) != tag {
			b.WriteString(p.text)
			b.WriteByte('\n')
			continue
		}
		text = b.String()
		if chop {
			text = strings.TrimSuffix(text, "\n")
		}
		return text, true, nil
	}
	if p.utf8 != nil {
		return "", false, p.utf8
	}
	p.line = opened
	return "", false, p.errorf("the block never ends", "put %s on a line of its own", tag)
}

// addBlock appends a part to the turn.
func (p *parser) addBlock(b glovebox.Block) error {
	if len(p.turn.Blocks) == MaxBlocks {
		return p.errorf("more than %d parts in a turn", "split the turn", MaxBlocks)
	}
	p.turn.Blocks = append(p.turn.Blocks, b)
	return nil
}

// said reads a text or reasoning line.
func said(kind glovebox.BlockType) func(*parser, string) error {
	return func(p *parser, rest string) error {
		text, _, err := p.value(rest)
		if err != nil {
			return err
		}
		return p.addBlock(glovebox.Block{Type: kind, Text: text})
	}
}

// stop reads a stop line.
func (p *parser) stop(rest string) error {
	if !stops[llm.StopReason(rest)] {
		return p.errorf("that is no reason to stop", "write end, tool_use, max_output or refusal")
	}
	p.turn.Stop = llm.StopReason(rest)
	return nil
}
