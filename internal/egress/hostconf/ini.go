package hostconf

import (
	"encoding/base64"
	"strings"
)

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// pair is one setting of a file in sections.
type pair struct{ section, key, value string }

// ini reads the format that npm, pip, git and cargo's files have in common:
// sections, comments, key = value. Lines that continue a value (indented,
// without a key) are further values of the same key.
func ini(s string) []pair {
	var out []pair
	section := ""
	for line := range strings.SplitSeq(s, "\n") {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '[':
			section = strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "[]"))
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if !ok || indented && strings.Contains(k, "://") { // a URL may have a "=" in it
			if indented && len(out) > 0 && out[len(out)-1].section == section {
				out = append(out, pair{section, out[len(out)-1].key, line})
			}
			continue
		}
		out = append(out, pair{section, strings.TrimSpace(k), unquote(strings.TrimSpace(v))})
	}
	return out
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') {
		if i := strings.IndexByte(s[1:], s[0]); i >= 0 {
			return s[1 : 1+i]
		}
	}
	return s
}

// expand replaces ${NAME} by the value of a variable, as npm does.
func (r *reader) expand(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		name, after, closed := strings.Cut(rest, "}")
		b.WriteString(before)
		if !ok || !closed {
			if ok {
				b.WriteString("${" + rest)
			}
			return b.String()
		}
		b.WriteString(r.env[strings.TrimSuffix(name, "?")])
		s = after
	}
}
