package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// Format returns s as a file. Parse of it gives s again, line numbers apart,
// if s is within the bounds, its texts are UTF-8 and its titles one line.
func Format(s *Script) []byte {
	var b bytes.Buffer
	if c := s.Model; c != nil {
		b.WriteString("model")
		option(&b, "window", c.Window)
		option(&b, "max_output", c.MaxOutput)
		if !c.Images {
			b.WriteString(" images=false")
		}
		option(&b, "input_price", c.InputPrice)
		option(&b, "output_price", c.OutputPrice)
		option(&b, "cache_read_price", c.CacheReadPrice)
		option(&b, "cache_write_price", c.CacheWritePrice)
		b.WriteString("\n\n")
	}
	for i := range s.Turns {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeTurn(&b, &s.Turns[i])
	}
	return b.Bytes()
}

func option(b *bytes.Buffer, name string, n int64) {
	if n != 0 {
		fmt.Fprintf(b, " %s=%d", name, n)
	}
}

func writeTurn(b *bytes.Buffer, t *Turn) {
	line(b, "turn", t.Title)
	for _, e := range t.Expect {
		line(b, "expect", e.String())
	}
	for _, f := range t.Fail {
		writeFailure(b, f)
	}
	for _, bl := range t.Blocks {
		switch bl.Type {
		case glovebox.BlockText:
			writeSaid(b, "text", bl.Text)
		case glovebox.BlockReasoning:
			writeSaid(b, "reasoning", bl.Text)
		case glovebox.BlockToolUse:
			writeCall(b, bl)
		}
	}
	if t.Stop != "" {
		line(b, "stop", string(t.Stop))
	}
	if u := t.Usage; u != (glovebox.Usage{}) {
		b.WriteString("usage")
		option(b, "input", u.Input)
		option(b, "cache_read", u.CacheRead)
		option(b, "cache_write", u.CacheWrite)
		option(b, "output", u.Output)
		option(b, "reasoning", u.Reasoning)
		option(b, "cost_micros", u.CostMicros)
		b.WriteByte('\n')
	}
	if t.Delay != 0 {
		line(b, "delay", t.Delay.String())
	}
}

func line(b *bytes.Buffer, order, rest string) {
	b.WriteString(order)
	if rest != "" {
		b.WriteString(" " + rest)
	}
	b.WriteByte('\n')
}

func writeFailure(b *bytes.Buffer, f Failure) {
	b.WriteString("fail " + string(f.Kind))
	option(b, "status", int64(f.Status))
	if f.RetryAfter != 0 {
		b.WriteString(" retry_after=" + f.RetryAfter.String())
	}
	if f.Times > 1 {
		option(b, "times", int64(f.Times))
	}
	option(b, "pieces", int64(f.Pieces))
	if f.Message != "" {
		b.WriteString(" message=" + string(jsonString(f.Message)))
	}
	b.WriteByte('\n')
}

func writeSaid(b *bytes.Buffer, order, text string) {
	if inline(text) {
		line(b, order, text)
		return
	}
	writeBlock(b, order+" ", text)
}

func writeCall(b *bytes.Buffer, bl glovebox.Block) {
	name := bl.Name
	if !plainName(name) {
		name = string(jsonString(name))
	}
	b.WriteString("call " + name)
	if bl.CallID != "" {
		b.WriteString(" id=" + string(jsonString(bl.CallID)))
	}
	b.WriteByte('\n')
	list, err := params(bl.Input)
	if err == nil {
		for _, p := range list {
			writeParam(b, p)
		}
		return
	}
	if raw := string(bl.Input); inline(raw) && raw != "" {
		b.WriteString("  := " + raw + "\n")
	} else {
		writeBlock(b, "  ", raw)
	}
}

func writeParam(b *bytes.Buffer, p param) {
	name := p.name
	if !plainName(name) {
		name = string(jsonString(name))
	}
	var s string
	if json.Unmarshal(p.value, &s) != nil || !bytes.Equal(jsonString(s), p.value) {
		b.WriteString("  " + name + " := " + string(p.value) + "\n")
		return
	}
	// After = a value is taken as it is, << included.
	if inline(s) || (strings.HasPrefix(s, "<<") && inline(s[2:])) {
		b.WriteString(strings.TrimRight("  "+name+" = "+s, " ") + "\n")
		return
	}
	writeBlock(b, "  "+name+" ", s)
}

// writeBlock writes a value as a block, with a tag that is on no line of it.
func writeBlock(b *bytes.Buffer, before, text string) {
	taken := map[string]bool{}
	for l := range strings.SplitSeq(text, "\n") {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, "END") {
			taken[l] = true
		}
	}
	tag := "END"
	for i := 2; taken[tag]; i++ {
		tag = "END" + strconv.Itoa(i)
	}
	chop := ""
	if !strings.HasSuffix(text, "\n") {
		chop = "-"
		text += "\n"
	}
	b.WriteString(before + "<<" + chop + tag + "\n" + text + tag + "\n")
}
