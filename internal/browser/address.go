package browser

import (
	"net/url"
	"path"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// maxURL is how many bytes a URL may have.
const maxURL = 4 << 10

// CheckURL returns a URL that may be opened, in its normal form: http and
// https (what lies outside the sandbox, the egress policy decides), and files
// of the workspace. The error is CodeInvalid and names field.
func CheckURL(field, raw string) (string, error) {
	const hint = "give a whole URL, e.g. http://localhost:4173/ or file:///workspace/index.html"
	if len(raw) > maxURL {
		return "", glovebox.Invalid(field, hint, "it has %d bytes, at most %d are taken", len(raw), maxURL)
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", glovebox.Invalid(field, hint, "%.80q has control characters", raw)
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return "", glovebox.Invalid(field, hint, "%.80q is not a URL", raw)
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		if u.Hostname() == "" {
			return "", glovebox.Invalid(field, hint, "%.80q names no host", raw)
		}
		if u.User != nil {
			return "", glovebox.Invalid(field, "leave out what is before the @", "a URL with a name or password in it is not opened, since it would be shown")
		}
		if h := u.Hostname(); h == "0.0.0.0" || h == "::" { // what servers print; nobody can connect to it by rights
			u.Host = "localhost" + strings.TrimPrefix(u.Host[strings.LastIndexByte(u.Host, ']')+1:], "0.0.0.0")
		}
		if u.Path == "" {
			u.Path = "/"
		}
		return u.String(), nil
	case "file":
		p := path.Clean(u.Path)
		if u.Host != "" && u.Host != "localhost" || !strings.HasPrefix(p, guest.Workspace+"/") {
			return "", glovebox.Invalid(field, "serve it, or put it below "+guest.Workspace, "%.80q is not a file of the workspace", raw)
		}
		u.Host, u.Path, u.RawPath = "", p, ""
		return u.String(), nil
	case "":
		return "", glovebox.Invalid(field, hint, "%.80q has no scheme", raw)
	}
	return "", glovebox.Invalid(field, hint, "%.80q is neither http, https nor file", raw)
}
