package memory

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// Most of a long log is results and answers. They are read here several times
// as fast as encoding/json does, which reads whatever is not in the form in
// which we write it, and says what is wrong with what is in none.

// decodeFinished returns the data of an event.
func decodeFinished(e glovebox.Event) (glovebox.ToolFinished, error) {
	s := scanner{b: e.Data}
	if f := s.finished(); s.done() {
		return f, nil
	}
	return glovebox.Decode[glovebox.ToolFinished](e)
}

// decodeAnswered returns the data of an event.
func decodeAnswered(e glovebox.Event) (glovebox.ModelAnswered, error) {
	s := scanner{b: e.Data}
	if a := s.answered(); s.done() {
		return a, nil
	}
	return glovebox.Decode[glovebox.ModelAnswered](e)
}

// scanner reads JSON. What it does not know makes it odd, for good.
type scanner struct {
	b     []byte
	i     int
	depth int
	odd   bool
}

func (s *scanner) done() bool { return !s.odd && s.i == len(s.b) }

// next skips c; the scanner is odd if something else comes.
func (s *scanner) next(c byte) {
	if s.i >= len(s.b) || s.b[s.i] != c {
		s.odd = true
		return
	}
	s.i++
}

func (s *scanner) at(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

// object calls field with each key; it has to read the value. A key that is
// there twice is odd.
func (s *scanner) object(field func(key []byte)) {
	var seen [16][]byte
	s.next('{')
	for n := 0; !s.odd && !s.at('}'); n++ {
		if n > 0 {
			s.next(',')
		}
		key := s.key()
		if n == len(seen) || slices.ContainsFunc(seen[:n], func(k []byte) bool { return bytes.Equal(k, key) }) {
			s.odd = true
			return
		}
		seen[n] = key
		if s.next(':'); !s.odd {
			field(key)
		}
	}
	s.next('}')
}

// key reads a key of a few letters.
func (s *scanner) key() []byte {
	s.next('"')
	start := s.i
	for s.i < len(s.b) && (s.b[s.i] >= 'a' && s.b[s.i] <= 'z' || s.b[s.i] == '_') {
		s.i++
	}
	key := s.b[start:s.i]
	s.next('"')
	return key
}

// array calls item for each value; it has to read it.
func (s *scanner) array(item func()) {
	s.next('[')
	for n := 0; !s.odd && !s.at(']'); n++ {
		if n > 0 {
			s.next(',')
		}
		if !s.odd {
			item()
		}
	}
	s.next(']')
}

func (s *scanner) finished() (f glovebox.ToolFinished) {
	s.object(func(key []byte) {
		switch string(key) {
		case "call_id":
			f.CallID = s.text()
		case "name":
			f.Name = s.text()
		case "content":
			f.Content = s.blocks()
		case "is_error":
			f.IsError = s.truth()
		case "unknown":
			f.Unknown = s.truth()
		case "blob":
			f.Blob = s.text()
		case "duration_ms":
			f.DurationMS = s.number()
		default:
			s.odd = true
		}
	})
	return f
}

func (s *scanner) answered() (a glovebox.ModelAnswered) {
	s.object(func(key []byte) {
		switch string(key) {
		case "message":
			s.object(func(key []byte) {
				switch string(key) {
				case "role":
					a.Message.Role = glovebox.Role(s.text())
				case "blocks":
					a.Message.Blocks = s.blocks()
				default:
					s.odd = true
				}
			})
		case "stop_reason":
			a.StopReason = s.text()
		case "usage":
			raw := s.raw()
			s.odd = s.odd || json.Unmarshal(raw, &a.Usage) != nil
		case "duration_ms":
			a.DurationMS = s.number()
		case "first_ms":
			a.FirstMS = s.number()
		default:
			s.odd = true
		}
	})
	return a
}

func (s *scanner) blocks() []glovebox.Block {
	if s.depth++; s.depth > 8 {
		s.odd = true
		return nil
	}
	list := []glovebox.Block{}
	s.array(func() { list = append(list, s.block()) })
	s.depth--
	return list
}

func (s *scanner) block() (x glovebox.Block) {
	s.object(func(key []byte) {
		switch string(key) {
		case "type":
			x.Type = glovebox.BlockType(s.text())
		case "text":
			x.Text = s.text()
		case "media_type":
			x.MediaType = s.text()
		case "blob":
			x.Blob = s.text()
		case "size":
			x.Size = s.number()
		case "call_id":
			x.CallID = s.text()
		case "name":
			x.Name = s.text()
		case "input":
			x.Input = bytes.Clone(s.raw())
		case "content":
			x.Content = s.blocks()
		case "is_error":
			x.IsError = s.truth()
		case "provider":
			x.Provider = s.text()
		case "opaque":
			x.Opaque = bytes.Clone(s.raw())
		default: // bytes of an image among them
			s.odd = true
		}
	})
	return x
}

func (s *scanner) truth() bool {
	for _, word := range []string{"true", "false"} {
		if bytes.HasPrefix(s.b[s.i:], []byte(word)) {
			s.i += len(word)
			return word == "true"
		}
	}
	s.odd = true
	return false
}

// number reads a whole number.
func (s *scanner) number() (n int64) {
	minus := s.at('-')
	if minus {
		s.i++
	}
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' && n < math.MaxInt64/10-1 {
		n = n*10 + int64(s.b[s.i]-'0')
		s.i++
	}
	if s.i == start || s.b[start] == '0' && s.i > start+1 || s.i < len(s.b) && s.b[s.i] != ',' && s.b[s.i] != '}' {
		s.odd = true
	}
	if minus {
		return -n
	}
	return n
}

// raw reads an object or a string as it is.
func (s *scanner) raw() []byte {
	if !s.at('{') && !s.at('"') {
		s.odd = true
		return nil
	}
	start, depth := s.i, 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '{', '[':
			depth++
			s.i++
		case '}', ']':
			depth--
			s.i++
		case '"':
			s.i++
			for s.i < len(s.b) && s.b[s.i] != '"' {
				if s.b[s.i] == '\\' {
					s.i++
				}
				s.i++
			}
			s.i++
		default:
			s.i++
		}
		if depth <= 0 {
			break
		}
	}
	if s.i > len(s.b) || depth != 0 || !json.Valid(s.b[start:s.i]) {
		s.odd = true
		return nil
	}
	return s.b[start:s.i]
}

// text reads a string.
func (s *scanner) text() string {
	if s.next('"'); s.odd {
		return ""
	}
	rest := s.b[s.i:]
	n := bytes.IndexByte(rest, '"')
	if n < 0 {
		s.odd = true
		return ""
	}
	if bytes.IndexByte(rest[:n], '\\') < 0 {
		s.i += n + 1
		return s.checked(rest[:n], rest[:n])
	}
	out := make([]byte, 0, n+n/8)
	for i := 0; i < len(rest); {
		j := i
		for j < len(rest) && rest[j] != '"' && rest[j] != '\\' {
			j++
		}
		out = append(out, rest[i:j]...)
		if j >= len(rest) {
			break
		}
		if rest[j] == '"' {
			s.i += j + 1
			return s.checked(out, rest[:j])
		}
		c, size := escape(rest[j:])
		if size == 0 {
			break
		}
		out = utf8.AppendRune(out, c)
		i = j + size
	}
	s.odd = true
	return ""
}

// checked returns text, if what it was written as can be in a string of JSON.
func (s *scanner) checked(text, source []byte) string {
	if !utf8.Valid(source) || control(source) {
		s.odd = true
		return ""
	}
	return string(text)
}

func control(text []byte) bool {
	for _, c := range text {
		if c < ' ' {
			return true
		}
	}
	return false
}

// escape returns the character that an escape stands for, and its length; 0
// for what is none, and for halves of a pair.
func escape(b []byte) (rune, int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'u':
		if len(b) < 6 {
			return 0, 0
		}
		var r rune
		for _, c := range b[2:6] {
			switch {
			case c >= '0' && c <= '9':
				r = r<<4 | rune(c-'0')
			case c|0x20 >= 'a' && c|0x20 <= 'f':
				r = r<<4 | rune(c|0x20-'a'+10)
			default:
				return 0, 0
			}
		}
		if r >= 0xd800 && r < 0xe000 {
			return 0, 0
		}
		return r, 6
	}
	return 0, 0
}
