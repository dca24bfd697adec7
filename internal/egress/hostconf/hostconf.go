// Package hostconf reads what the package managers of the host are configured
// to use, so that those in a sandbox work where the host's do: behind a
// company's mirrors, proxies and certificates.
//
// Configuration files and the environment are parsed; nothing is run. What
// can't be read or understood is left out and named in [Config.Warnings]. The
// credentials that such files hold stay in this process: what is made for the
// sandbox ([Config.Settings]) and for people ([Config.Defaults]) has none.
package hostconf

import (
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/egress"
)

// Source is where configuration is read from.
type Source struct {
	Root string   // of the file system; empty for "/"
	Home string   // of the user, below Root too
	Env  []string // as of os.Environ
}

// System is the source of this process.
func System() Source {
	home, _ := os.UserHomeDir()
	return Source{Root: "/", Home: home, Env: os.Environ()}
}

// Config is what the host's package managers use.
type Config struct {
	NPM      Registry            // the registry of packages without a scope
	NPMScope map[string]Registry // "@scope" -> its registry
	Pip      Registry            // the index
	PipExtra []Registry
	PipTrust []string // hosts whose certificate pip does not check
	Apt      []AptSource
	Go       map[string]string // GOPROXY, GOSUMDB, GONOSUMDB, GOPRIVATE, GONOPROXY: what is set, credentials removed
	Cargo    []string          // URLs of registries and sources
	CargoRC  string            // the source replacements, as TOML
	Git      []GitRewrite
	CAs      []byte // PEM

	Warnings []string // files that were there and could not be used
}

// Registry is where a package manager gets packages from. The zero Registry
// is the package manager's own default.
type Registry struct {
	URL  string // without credentials; ends with a slash
	auth string // for the field Authorization
}

// IsZero reports whether the host does not configure it.
func (r Registry) IsZero() bool { return r.URL == "" }

// Authorization returns what the host sends to the registry in the field
// Authorization, or the empty string. It must not reach a sandbox or a log.
func (r Registry) Authorization() string { return r.auth }

// String returns the URL; it has no credentials in it.
func (r Registry) String() string { return r.URL }

// GoString keeps credentials out of %#v.
func (r Registry) GoString() string { return "hostconf.Registry{" + r.URL + "}" }

// AptSource is a repository of apt.
type AptSource struct {
	URL    string // without credentials
	Suites []string
}

// GitRewrite makes git use one URL in place of another.
type GitRewrite struct {
	URL, InsteadOf string // prefixes, without credentials
	Push           bool   // only to push
}

// public are the hosts that package managers use by themselves, as suffixes.
var public = map[string][]string{
	"npm":    {".npmjs.org", ".yarnpkg.com", ".nodejs.org", ".jsr.io"},
	"pip":    {".pypi.org", ".pythonhosted.org", ".pypa.io"},
	"apt":    {".debian.org", ".ubuntu.com"},
	"go":     {".golang.org", ".go.dev"},
	"cargo":  {".crates.io", ".rust-lang.org", ".rustup.rs"},
	"git":    {".github.com", ".githubusercontent.com", ".gitlab.com", ".codeberg.org"},
	"others": {".rubygems.org", ".maven.org", ".packagist.org", ".nuget.org", ".deno.land"},
}

// Public returns the rules for the well-known public registries, sorted.
func Public() []string {
	rules := slices.Concat(slices.Collect(maps.Values(public))...)
	sort.Strings(rules)
	return rules
}

// Defaults returns the default policy: the well-known public registries, and
// the hosts that the host is configured to use.
func (c *Config) Defaults() egress.Defaults {
	return egress.Defaults{Allow: Public(), Mirrors: c.mirrors()}
}

// mirrors returns "host:port" of every configured URL, sorted.
func (c *Config) mirrors() []string {
	urls := append([]string{c.NPM.URL, c.Pip.URL}, c.Cargo...)
	for _, r := range c.NPMScope {
		urls = append(urls, r.URL)
	}
	for _, r := range c.PipExtra {
		urls = append(urls, r.URL)
	}
	for _, a := range c.Apt {
		urls = append(urls, a.URL)
	}
	for _, g := range c.Git {
		urls = append(urls, g.URL)
	}
	urls = append(urls, goURLs(c.Go)...)
	seen := map[string]bool{}
	for _, s := range urls {
		if rule, err := egress.ParseRule(hostPort(s)); err == nil {
			seen[rule] = true
		}
	}
	rules := slices.Sorted(maps.Keys(seen))
	return rules[:min(len(rules), egress.MaxRules)]
}

// hostPort returns the host and port that a URL leads to.
func hostPort(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "ssh": "22", "git": "9418"}[u.Scheme]
	}
	if port == "" {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Read reads the configuration. It always returns one.
func Read(s Source) *Config {
	r := &reader{Source: s, env: map[string]string{}, c: &Config{NPMScope: map[string]Registry{}, Go: map[string]string{}}}
	if r.Root == "" {
		r.Root = "/"
	}
	for _, kv := range s.Env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			r.env[k] = v
		}
	}
	r.npm()
	r.pip()
	r.apt()
	r.golang()
	r.cargo()
	r.git()
	r.cas()
	return r.c
}

// reader reads configuration from a source into a Config.
type reader struct {
	Source
	env map[string]string
	c   *Config
}

// maxFile bounds one configuration file, maxValue one value in it.
const (
	maxFile  = 1 << 20
	maxValue = 4 << 10
)

// file returns the content of a file, which may not be there.
func (r *reader) file(path string) string {
	if path == "" {
		return ""
	}
	f, err := os.Open(filepath.Join(r.Root, path))
	if err != nil {
		if !os.IsNotExist(err) {
			r.warn(path, "can't be read")
		}
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		r.warn(path, "can't be read")
		return ""
	case len(b) > maxFile:
		r.warn(path, "is too large")
		return ""
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

func (r *reader) warn(path, what string) { r.c.Warnings = append(r.c.Warnings, path+" "+what) }

// home returns a path in the user's home, or the empty string.
func (r *reader) home(elem ...string) string {
	if r.Home == "" {
		return ""
	}
	return filepath.Join(append([]string{r.Home}, elem...)...)
}

// configHome returns a path in the user's XDG_CONFIG_HOME.
func (r *reader) configHome(elem ...string) string {
	if d := r.env["XDG_CONFIG_HOME"]; filepath.IsAbs(d) {
		return filepath.Join(append([]string{d}, elem...)...)
	}
	return r.home(append([]string{".config"}, elem...)...)
}

// clean returns a URL without credentials, query and fragment, and the
// credentials as a field Authorization. ok is false for what is not a URL
// over a network with a host that can be allowed.
func clean(s string) (u *url.URL, auth string, ok bool) {
	s = strings.TrimSpace(s)
	if len(s) > maxValue {
		return nil, "", false
	}
	u, err := url.Parse(s)
	if err != nil || hostPort(s) == "" {
		return nil, "", false
	}
	if _, err := egress.ParseRule(hostPort(s)); err != nil {
		return nil, "", false
	}
	if u.User != nil {
		pw, _ := u.User.Password()
		auth = basic(u.User.Username(), pw)
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment = nil, "", "", ""
	return u, auth, true
}

// registry reads the URL of a registry, which must be http or https.
func registry(s string) (Registry, bool) {
	u, auth, ok := clean(s)
	if !ok || u.Scheme != "http" && u.Scheme != "https" {
		return Registry{}, false
	}
	return Registry{URL: strings.TrimRight(u.String(), "/") + "/", auth: auth}, true
}
