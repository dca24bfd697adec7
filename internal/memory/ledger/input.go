package ledger

import (
	"bytes"
	"encoding/json"
)

// input is the JSON object that a tool was called with. It is read by looking
// at its fields in place: most of it is the text of files, which nobody needs here.
type input []byte

// each calls f with the fields of the object, undecoded, until f returns
// false or what follows is not JSON.
func (in input) each(f func(key, value []byte) bool) {
	i := in.space(0)
	if i >= len(in) || in[i] != '{' {
		return
	}
	for i = in.space(i + 1); i < len(in) && in[i] == '"'; i = in.space(i + 1) {
		end := in.skip(i)
		if end < 0 {
			return
		}
		key := in[i+1 : end-1]
		if i = in.space(end); i >= len(in) || in[i] != ':' {
			return
		}
		i = in.space(i + 1)
		end = in.skip(i)
		if end < 0 || !f(key, in[i:end]) {
			return
		}
		if i = in.space(end); i >= len(in) || in[i] != ',' {
			return
		}
	}
}

// space returns the first place from i on that is not white space.
func (in input) space(i int) int {
	for i < len(in) && (in[i] == ' ' || in[i] == '\n' || in[i] == '\t' || in[i] == '\r') {
		i++
	}
	return i
}

// skip returns where the value that begins at i ends; -1 if it does not.
func (in input) skip(i int) int {
	if i >= len(in) {
		return -1
	}
	switch in[i] {
	case '"':
		return in.skipString(i)
	case '{', '[':
		for depth := 0; i < len(in); i++ {
			switch in[i] {
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			case '"':
				end := in.skipString(i)
				if end < 0 {
					return -1
				}
				i = end - 1
			}
		}
		return -1
	}
	for j := i; j < len(in); j++ {
		switch in[j] {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return j
		}
	}
	return len(in)
}

// skipString returns where the string that begins at i ends; -1 if it does not.
func (in input) skipString(i int) int {
	for j := i + 1; ; j++ {
		n := bytes.IndexByte(in[j:], '"')
		if n < 0 {
			return -1
		}
		j += n
		k := j
		for in[k-1] == '\\' { // ends at the quote that begins the string
			k--
		}
		if (j-k)%2 == 0 {
			return j + 1
		}
	}
}

// text decodes a string of JSON, at most about limit bytes of it. It is empty
// for anything else.
func text(value []byte, limit int) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	if len(value) > limit+2 {
		cut := bytes.Clone(value[:limit])
		if i := bytes.LastIndexByte(cut[max(0, limit-12):], '\\'); i >= 0 { // an escape may be cut
			cut = cut[:max(0, limit-12)+i]
			for len(cut) > 1 && cut[len(cut)-1] == '\\' {
				cut = cut[:len(cut)-1]
			}
		}
		cut = append(cut, '"')
		value = cut
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// texts decodes an array of strings, the first most of them.
func texts(value []byte, most, limit int) []string {
	var out []string
	in := input(value)
	if len(in) == 0 || in[0] != '[' {
		return nil
	}
	for i := in.space(1); i < len(in) && in[i] == '"' && len(out) < most; i = in.space(i + 1) {
		end := in.skip(i)
		if end < 0 {
			break
		}
		out = append(out, text(in[i:end], limit))
		if i = in.space(end); i >= len(in) || in[i] != ',' {
			break
		}
	}
	return out
}

// number decodes a whole number, 0 for anything else.
func number(value []byte) int64 {
	var n int64
	if json.Unmarshal(value, &n) != nil {
		return 0
	}
	return n
}
