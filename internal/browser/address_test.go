package browser

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"http://localhost:4173":                         "http://localhost:4173/",
		" " + "HTTP://localhost:1/a?b#c" + " ":          "http://localhost:1/a?b#c",
		"http://0.0.0.0:8000/x":                         "http://localhost:8000/x",
		"http://[::]:8000/":                             "http://localhost:8000/",
		"https://example.com/":                          "https://example.com/",
		"file:///workspace/dist/index.html":             "file:///workspace/dist/index.html",
		"file://localhost/workspace/a/../b%20.htm":      "file:///workspace/b%20.htm",
		"file:///workspace/../etc/passwd":               "",
		"file:///workspace/%2e%2e/etc/passwd":           "",
		"file:///workspaces/x":                          "",
		"file:///workspace":                             "",
		"file://host/workspace/x":                       "",
		"file:///etc/passwd":                            "",
		"chrome://crash":                                "",
		"javascript:alert(1)":                           "",
		"data:text/html,x":                              "",
		"view-source:http://localhost/":                 "",
		"about:blank":                                   "",
		"localhost:3000":                                "",
		"/index.html":                                   "",
		"":                                              "",
		"http://":                                       "",
		"http://user:pass@localhost/":                   "",
		"http://localhost/\n":                           "",
		"http://%zz/":                                   "",
		"http://localhost/" + strings.Repeat("x", 5000): "",
	} {
		got, err := CheckURL("page", raw)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%.80q: got %q, %v; want %q", raw, got, err, want)
		}
		if err != nil && (glovebox.CodeOf(err) != glovebox.CodeInvalid || !strings.Contains(err.Error(), "page")) {
			t.Errorf("%.80q: %v", raw, err)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x00b\u202e\xffc\n", 5)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = min(max(n, 4), 1000)
		got := clean(s, n)
		if len(got) > n || !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\x1b\n\u202e") {
			t.Errorf("clean(%q, %d) = %q", s, n, got)
		}
	})
}
