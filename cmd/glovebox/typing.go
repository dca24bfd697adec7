package main

import (
	"bufio"
	"io"
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// editor is the line that a person types while the status is live. The
// terminal does not echo it then: it would be written into the status, which
// shows it instead.
type editor struct {
	line   []rune
	escape escape
}

// escape is how far into the sequence of a key such as an arrow we are.
type escape int

const (
	outside escape = iota
	started        // after ESC
	inside         // after ESC [ or ESC O
)

// The keys that edit.
const (
	keyBackspace = '\b'
	keyKill      = 'U' - '@' // the whole line
	keyWord      = 'W' - '@' // the last word
	keyEscape    = 0x1b
	keyDelete    = 0x7f // what most terminals send for Backspace
)

// key takes a key. If it ended the line, the line is returned and done is true.
func (e *editor) key(r rune) (line string, done bool) {
	switch {
	case e.escape != outside:
		if e.escape == started && (r == '[' || r == 'O') {
			e.escape = inside
		} else if e.escape == started || r >= '@' && r <= '~' {
			e.escape = outside
		}
	case r == keyEscape:
		e.escape = started
	case r == '\r' || r == '\n':
		line, e.line = string(e.line), nil
		return line, true
	case r == keyBackspace || r == keyDelete:
		e.line = e.line[:max(0, len(e.line)-1)]
	case r == keyKill:
		e.line = nil
	case r == keyWord:
		e.dropWord()
	case unicode.IsPrint(r) && r != utf8.RuneError && len(e.line) < glovebox.MaxSignalText/utf8.UTFMax:
		e.line = append(e.line, r)
	}
	return "", false
}

func (e *editor) dropWord() {
	n := len(e.line)
	for n > 0 && e.line[n-1] == ' ' {
		n--
	}
	for n > 0 && e.line[n-1] != ' ' {
		n--
	}
	e.line = e.line[:n]
}

// typed calls say with each line that is typed, and show with what there is of
// the next one, until r ends.
func typed(r io.Reader, show, say func(string)) {
	var e editor
	br := bufio.NewReader(r)
	for {
		c, _, err := br.ReadRune()
		if err != nil {
			return
		}
		line, done := e.key(c)
		if br.Buffered() == 0 || done {
			show(string(e.line))
		}
		if done {
			say(line)
		}
	}
}
