package replay

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// orders are the lines that a turn is made of.
var orders map[string]func(*parser, string) error

func init() { // not a literal: the functions refer to orders through the parser
	orders = map[string]func(*parser, string) error{
		"text":      said(glovebox.BlockText),
		"reasoning": said(glovebox.BlockReasoning),
		"call":      (*parser).beginCall,
		"expect":    (*parser).expect,
		"fail":      (*parser).fail,
		"usage":     (*parser).usage,
		"delay":     (*parser).delay,
		"stop":      (*parser).stop,
	}
}

// options reads KEY=VALUE pairs. A value that begins with a double quote is a
// JSON string; any other ends at a space.
func (p *parser) options(s string, set func(key, value string) bool) error {
	seen := map[string]bool{}
	for s != "" {
		key, rest, ok := strings.Cut(s, "=")
		key = strings.TrimSpace(key)
		if !ok || !word(key) {
			return p.errorf("expected NAME=VALUE", "separate them with spaces; quote a value that has spaces in it")
		}
		var value string
		if strings.HasPrefix(rest, `"`) {
			d := json.NewDecoder(strings.NewReader(rest))
			if err := d.Decode(&value); err != nil {
				return p.errorf("the value of %s is not a JSON string", "close the quotes", key)
			}
			s = rest[d.InputOffset():]
		} else {
			value, s, _ = strings.Cut(rest, " ")
		}
		s = strings.TrimSpace(s)
		if seen[key] || !set(key, value) {
			return p.errorf("%.40s=%.40s can't be used here", "see the format's description for the names and their values", key, value)
		}
		seen[key] = true
	}
	return nil
}

// maxCount bounds every number of a file, so that no product of a price and
// a number of tokens overflows.
const maxCount = 1_000_000_000

// count puts a whole number that is not negative into dst.
func count(dst *int64, value string) bool {
	n, err := strconv.ParseInt(value, 10, 64)
	*dst = n
	return err == nil && n >= 0 && n <= maxCount
}

// duration reads a time between nothing and an hour.
func duration(value string) (time.Duration, bool) {
	d, err := time.ParseDuration(value)
	return d, err == nil && d >= 0 && d <= time.Hour
}

func (p *parser) model(rest string) error {
	if p.turn != nil || p.s.Model != nil {
		return p.errorf("the model line is not the first", "write one, before the first turn")
	}
	c := &Card{Images: true}
	fields := map[string]*int64{"window": &c.Window, "max_output": &c.MaxOutput,
		"input_price": &c.InputPrice, "output_price": &c.OutputPrice,
		"cache_read_price": &c.CacheReadPrice, "cache_write_price": &c.CacheWritePrice}
	p.s.Model = c
	return p.options(rest, func(key, value string) bool {
		if key == "images" {
			c.Images = value == "true"
			return value == "true" || value == "false"
		}
		dst, ok := fields[key]
		return ok && count(dst, value)
	})
}

func (p *parser) usage(rest string) error {
	u := &p.turn.Usage
	*u = glovebox.Usage{}
	fields := map[string]*int64{"input": &u.Input, "cache_read": &u.CacheRead, "cache_write": &u.CacheWrite,
		"output": &u.Output, "reasoning": &u.Reasoning, "cost_micros": &u.CostMicros}
	return p.options(rest, func(key, value string) bool {
		dst, ok := fields[key]
		return ok && count(dst, value)
	})
}

func (p *parser) delay(rest string) error {
	d, ok := duration(rest)
	if !ok {
		return p.errorf("that is no delay", "write a time such as 250ms or 1.5s, at most an hour")
	}
	p.turn.Delay = d
	return nil
}

func (p *parser) beginCall(rest string) error {
	name, opts := cutWord(rest)
	if strings.HasPrefix(rest, `"`) { // what a model may write is any string
		d := json.NewDecoder(strings.NewReader(rest))
		if err := d.Decode(&name); err != nil {
			return p.errorf("the name of the tool is not a JSON string", "close the quotes")
		}
		opts = strings.TrimSpace(rest[d.InputOffset():])
	} else if !plainName(name) {
		return p.errorf("a call names no tool", "write call NAME, and its parameters indented below it")
	}
	if len(name) > MaxName {
		return p.errorf("the name of the tool has more than %d bytes", "shorten it", MaxName)
	}
	b := glovebox.Block{Type: glovebox.BlockToolUse, Name: name}
	err := p.options(opts, func(key, value string) bool {
		b.CallID = value
		return key == "id" && value != "" && len(value) <= MaxName
	})
	if err != nil {
		return err
	}
	if err := p.addBlock(b); err != nil {
		return err
	}
	p.call = &call{block: len(p.turn.Blocks) - 1, names: map[string]bool{}}
	return nil
}

func (p *parser) fail(rest string) error {
	kind, opts := cutWord(rest)
	f := Failure{Kind: llm.Kind(kind), Times: 1}
	if !failable[f.Kind] {
		return p.errorf("%.40q is no kind of failure", "write rate_limited, overloaded, network, stalled, truncated, malformed, context_too_long, invalid, auth, quota, cancelled, exhausted or diverged", kind)
	}
	if len(p.turn.Fail) == MaxBlocks {
		return p.errorf("more than %d failures in a turn", "use times=N", MaxBlocks)
	}
	err := p.options(opts, func(key, value string) (ok bool) {
		var n int64
		switch key {
		case "retry_after":
			f.RetryAfter, ok = duration(value)
		case "message":
			f.Message, ok = value, len(value) <= MaxMessage
		case "status":
			ok = count(&n, value) && n >= 100 && n <= 599
			f.Status = int(n)
		case "times":
			ok = count(&n, value) && n >= 1 && n <= MaxTimes
			f.Times = int(n)
		case "pieces":
			ok = count(&n, value) && n <= maxCount
			f.Pieces = int(n)
		}
		return ok
	})
	p.turn.Fail = append(p.turn.Fail, f)
	return err
}

func (p *parser) expect(rest string) error {
	e := Expectation{Line: p.line}
	first, more := cutWord(rest)
	if first == "message" {
		e.Of, rest = ofMessage, more
	} else if n, err := strconv.Atoi(first); err == nil {
		if n < 1 || n > MaxBlocks {
			return p.errorf("there is no such result", "count the results of a turn's calls from 1")
		}
		e.Of, rest = n, more
	}
	op, text := cutWord(rest)
	e.Op, e.Text = Op(op), text
	switch e.Op {
	case OpOK, OpError:
		if e.Text != "" || e.Of == ofMessage {
			return p.errorf("%s asks about results of tools and stands alone", "write expect ok, or expect 2 error", e.Op)
		}
	case OpContains, OpLacks, OpMatches:
		if err := p.expectText(&e); err != nil {
			return err
		}
	default:
		return p.errorf("that is no condition", "write ok, error, contains VALUE, lacks VALUE or matches EXPRESSION")
	}
	if len(p.turn.Expect) == MaxBlocks {
		return p.errorf("more than %d expectations in a turn", "keep those that matter", MaxBlocks)
	}
	p.turn.Expect = append(p.turn.Expect, e)
	return nil
}

// expectText reads the value of an expectation.
func (p *parser) expectText(e *Expectation) error {
	if strings.HasPrefix(e.Text, `"`) {
		raw := e.Text
		e.Text = ""
		if err := json.Unmarshal([]byte(raw), &e.Text); err != nil {
			return p.errorf("the value is not a JSON string", "close the quotes, or leave them off")
		}
	} else if text, _, err := p.value(e.Text); err != nil {
		return err
	} else {
		e.Text = text
	}
	if e.Text == "" {
		return p.errorf("the condition has no value", "write what is expected after it")
	}
	if e.Op != OpMatches {
		return nil
	}
	re, err := regexp.Compile(e.Text)
	if err != nil {
		return p.errorf("the expression can't be used", "write it as for Go's regexp")
	}
	e.re = re
	return nil
}
