package tool

import (
	"strings"
	"unicode/utf8"
)

// cleaner turns what a program writes for a terminal into plain text, piece
// by piece: escape sequences and control characters go, a line that is
// rewritten with carriage returns or backspaces (a progress bar) is kept only
// in its last form, and bytes that are not UTF-8 become U+FFFD. The zero
// cleaner is ready. Cleaning clean text changes nothing.
type cleaner struct {
	state   escState
	partial []byte // an unfinished character
	line    []byte // the current line, not yet given out
	shown   bool   // a piece of the current line was given out
	cr      bool   // a carriage return came and nothing after it
}

// escState is where in an escape sequence the cleaner is.
type escState uint8

const (
	escNone   escState = iota
	escStart           // after ESC
	escCSI             // after ESC [, until a final byte
	escString          // OSC, DCS, APC, PM, SOS: until BEL or ESC \
	escStringEnd
	escCharset // ESC ( and the like: one more byte
)

// maxLine is how many bytes of an unfinished line the cleaner keeps back.
const maxLine = 64 << 10

// write takes the next piece and returns the text that is complete: whole
// lines.
func (c *cleaner) write(p []byte) string {
	var out strings.Builder
	if len(c.partial) > 0 {
		p = append(c.partial, p...)
		c.partial = nil
	}
	for len(p) > 0 {
		if n := c.plainRun(p); n > 0 {
			c.line = append(c.line, p[:n]...)
			p = p[n:]
			if len(c.line) > maxLine {
				out.WriteString(c.flush())
			}
			continue
		}
		r, n := rune(p[0]), 1
		if r >= utf8.RuneSelf {
			if !utf8.FullRune(p) {
				c.partial = append([]byte(nil), p...)
				break
			}
			r, n = utf8.DecodeRune(p)
		}
		p = p[n:]
		if c.escape(r) {
			continue
		}
		c.put(r, &out)
	}
	return out.String()
}

// plainRun returns how many bytes of p only have to be added to the line.
func (c *cleaner) plainRun(p []byte) int {
	if c.state != escNone || c.cr {
		return 0
	}
	p = p[:min(len(p), maxLine+1-len(c.line))]
	for i, b := range p {
		if (b < 0x20 || b >= 0x7f) && b != '\t' {
			return i
		}
	}
	return len(p)
}

// escape reports whether r belongs to an escape sequence.
func (c *cleaner) escape(r rune) bool {
	switch c.state {
	case escNone:
		switch r {
		case 0x1b:
			c.state = escStart
		case 0x9b:
			c.state = escCSI
		case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
			c.state = escString
		default:
			return false
		}
	case escStart:
		c.state = afterEscape(r)
	case escCSI:
		if r >= 0x40 && r <= 0x7e {
			c.state = escNone
		} else if r == '\n' { // not a sequence after all; don't swallow lines
			c.state = escNone
			return false
		}
	case escString:
		switch r {
		case 0x07, 0x9c:
			c.state = escNone
		case 0x1b:
			c.state = escStringEnd
		case '\n':
			c.state = escNone
			return false
		}
	case escStringEnd, escCharset:
		c.state = escNone
		if r == '\n' {
			return false
		}
	}
	return true
}

func afterEscape(r rune) escState {
	switch r {
	case '[':
		return escCSI
	case ']', 'P', '_', '^', 'X':
		return escString
	case '(', ')', '*', '+', '#', '%', ' ':
		return escCharset
	case 0x1b:
		return escStart
	}
	return escNone
}

// put adds one character outside of escape sequences.
func (c *cleaner) put(r rune, out *strings.Builder) {
	switch {
	case r == '\n':
		out.Write(c.line)
		out.WriteByte('\n')
		c.line, c.shown, c.cr = c.line[:0], false, false
		return
	case r == '\r':
		c.cr = true
		return
	case r == '\b':
		_, n := utf8.DecodeLastRune(c.line)
		c.line = c.line[:len(c.line)-n]
		return
	case r != '\t' && (r < 0x20 || r >= 0x7f && r < 0xa0):
		return
	}
	if c.cr { // the line is written anew
		c.cr = false
		if c.shown {
			out.WriteByte('\n')
			c.shown = false
		}
		c.line = c.line[:0]
	}
	c.line = utf8.AppendRune(c.line, r)
	if len(c.line) > maxLine {
		out.WriteString(c.flush())
	}
}

// flush returns what of the current line was not given out yet.
func (c *cleaner) flush() string {
	if len(c.line) == 0 {
		return ""
	}
	s := string(c.line)
	c.line, c.shown = c.line[:0], true
	return s
}

// cleanText cleans the whole of an output.
func cleanText(b []byte) string {
	var c cleaner
	s := c.write(b) + c.flush()
	if len(c.partial) > 0 {
		s += string(utf8.RuneError)
	}
	return s
}
