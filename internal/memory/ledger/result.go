package ledger

import (
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// ending is how a command stands, as its result says.
type ending struct {
	known   bool // the result says it
	running bool
	exit    int    // of what ended
	signal  string // that ended it
	id      string // of the process, where the result names it
}

// passed reports whether it ended well.
func (e ending) passed() bool { return e.known && !e.running && e.exit == 0 && e.signal == "" }

// String says it in a word or two.
func (e ending) String() string {
	switch {
	case !e.known:
		return "end not known"
	case e.running && e.id != "":
		return "runs in the background as " + e.id
	case e.running:
		return "runs in the background"
	case e.signal != "":
		return "ended by " + e.signal
	}
	return "exit " + strconv.Itoa(e.exit)
}

// status reads the line in brackets that ends what shell, shell_output and
// the like return: "[exit 1 after 2.0 s]", "[still running after 120.0 s, in
// the background as sh-abcde: ...]".
func status(result string) ending {
	line := lastLine(result)
	if len(line) < 2 || line[0] != '[' || line[len(line)-1] != ']' {
		return ending{}
	}
	return phrase(line[1 : len(line)-1])
}

// phrase reads what a status line says.
func phrase(s string) ending {
	e := ending{id: processIn(s)}
	if i := strings.Index(s, "exit "); i >= 0 && (i == 0 || s[i-1] == ' ' || s[i-1] == '(') {
		if n, err := strconv.Atoi(leading(s[i+len("exit "):])); err == nil {
			e.known, e.exit = true, n
			return e
		}
	}
	if i := strings.Index(s, "ended by "); i >= 0 {
		e.known, e.signal = true, clip.Short(word(s[i+len("ended by "):]), 16)
		return e
	}
	if i := strings.Index(s, "ended on "); i >= 0 { // shell_stop
		e.known, e.signal = true, clip.Short(word(s[i+len("ended on "):]), 16)
		return e
	}
	for _, mark := range []string{"still running", "is running", "still runs", "for input"} {
		if strings.Contains(s, mark) {
			e.known, e.running = true, true
			return e
		}
	}
	return e
}

// leading returns the digits that s begins with, and a sign before them.
func leading(s string) string {
	i := 0
	for i < len(s) && i < 11 && (s[i] >= '0' && s[i] <= '9' || i == 0 && s[i] == '-') {
		i++
	}
	return s[:i]
}

// word returns the letters and digits that s begins with.
func word(s string) string {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z') {
		i++
	}
	return s[:i]
}

// processIn returns the first id of a process in s: "sh-abcde", "tty-abcde".
func processIn(s string) string {
	for _, prefix := range []string{"sh-", "tty-"} {
		for from := 0; ; {
			i := strings.Index(s[from:], prefix)
			if i < 0 {
				break
			}
			i += from
			id := word(s[i+len(prefix):])
			if len(id) == 5 && (i == 0 || s[i-1] == ' ') {
				return prefix + id
			}
			from = i + len(prefix)
		}
	}
	return ""
}

// ports calls f with the ports of this machine that the ends of an output name.
func ports(s string, f func(port int)) {
	head, tail := ends(s)
	for _, part := range []string{head, tail} {
		for _, mark := range []string{"localhost:", "127.0.0.1:", "0.0.0.0:", "[::1]:", "[::]:", "port ", "Port "} {
			rest := part
			for n := 0; n < 8; n++ {
				i := strings.Index(rest, mark)
				if i < 0 {
					break
				}
				rest = rest[i+len(mark):]
				if p, err := strconv.Atoi(leading(rest)); err == nil && p > 0 && p < 1<<16 {
					f(p)
				}
			}
		}
	}
}

// urls calls f with the URLs in a text, as they are kept: without user,
// password and fragment.
func urls(s string, f func(u string)) {
	for n := 0; n < 32; n++ {
		i := strings.Index(s, "://")
		if i < 0 {
			return
		}
		begin := strings.LastIndexFunc(s[:i], func(r rune) bool { return r|0x20 < 'a' || r|0x20 > 'z' }) + 1
		end := i + 3
		for end < len(s) && s[end] > ' ' && !strings.ContainsRune("\"'`<>()[]{}|\\,;#", rune(s[end])) {
			end++
		}
		scheme, rest := strings.ToLower(s[begin:i]), s[i+3:end]
		s = s[end:]
		switch scheme {
		case "http", "https", "ws", "wss", "git", "ssh", "ftp":
		default:
			continue
		}
		host, _, _ := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			rest = rest[at+1:]
		}
		rest, _, _ = strings.Cut(strings.TrimRight(rest, ".:!?"), "?") // a query may hold a key
		if rest != "" && !strings.ContainsAny(rest[:1], "$%/.:") {
			f(clip.Short(scheme+"://"+rest, maxURL))
		}
	}
}

// local reports whether a URL is of the machine itself.
func local(u string) bool {
	_, rest, _ := strings.Cut(u, "://")
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, ":")
	return host == "localhost" || host == "127.0.0.1" || host == "0.0.0.0"
}
