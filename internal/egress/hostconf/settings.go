package hostconf

import (
	_ "embed"
	"fmt"
	"net/url"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/guest"
)

// nodeProxy makes versions of Node that do not know NODE_USE_ENV_PROXY (those
// before 22.21 and 24.5) use the proxy, for fetch and for http and https.
//
//go:embed node_proxy.cjs
var nodeProxy []byte

// nodeProxyPath is where it is in the sandbox.
const nodeProxyPath = "/etc/glovebox/node_proxy.cjs"

// caBundle is the system's store in the sandbox, to which the guest adds
// what is in guest.Settings.CACerts.
const caBundle = "/etc/ssl/certs/ca-certificates.crt"

// NPMCache and PipCache are the names under which a sandbox finds the package
// cache; see package pkgcache.
const (
	NPMCache = "npm.glovebox.internal"
	PipCache = "pip.glovebox.internal"
)

// Options says what a sandbox is like.
type Options struct {
	Release string // of the sandbox's Debian, e.g. "trixie"; empty leaves its apt sources alone

	// The package caches that the proxy serves.
	NPMCache, PipCache bool
}

// Settings returns what the guest has to be told so that the package managers,
// git, curl and Node in the sandbox find the proxy, the host's mirrors and its
// certificates by themselves. Only Env, CACerts and Files are set. There is
// no credential in it.
func (c *Config) Settings(o Options) guest.Settings {
	s := guest.Settings{Env: map[string]string{}, Files: map[string][]byte{}, CACerts: c.CAs}
	proxyEnv(s.Env)
	caEnv(s.Env)
	c.npmSettings(&s, o)
	c.pipSettings(&s, o)
	for k, v := range c.Go {
		s.Env[k] = v
	}
	c.aptSettings(&s, o)
	if len(c.CAs) > 0 {
		s.Files[chromiumPolicy] = chromiumCAs(c.CAs)
	}
	if rc := c.gitSettings(); rc != "" {
		s.Files["/etc/gitconfig"] = []byte(rc)
	}
	if c.CargoRC != "" {
		s.Files[guest.Home+"/.cargo/config.toml"] = []byte(c.CargoRC)
	}
	return s
}

func proxyEnv(env map[string]string) {
	const proxy = "http://" + guest.ProxyAddr
	for _, k := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		env[k] = proxy
	}
	env["NO_PROXY"] = "localhost,127.0.0.1,::1"
	env["no_proxy"] = env["NO_PROXY"]
	env["NODE_USE_ENV_PROXY"] = "1"
	env["NODE_OPTIONS"] = "--require=" + nodeProxyPath
}

// caEnv names the sandbox's store to those that bring their own.
func caEnv(env map[string]string) {
	for _, k := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO",
		"NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO"} {
		env[k] = caBundle
	}
	env["DENO_TLS_CA_STORE"] = "system"
}

func (c *Config) npmSettings(s *guest.Settings, o Options) {
	s.Files[nodeProxyPath] = nodeProxy
	env := s.Env
	// Nothing to read for an agent, and requests that it did not ask for.
	env["npm_config_fund"], env["npm_config_audit"], env["npm_config_update_notifier"] = "false", "false", "false"
	switch {
	case o.NPMCache:
		env["npm_config_registry"] = "http://" + NPMCache + "/"
		env["npm_config_replace_registry_host"] = "always"
	case !c.NPM.IsZero():
		env["npm_config_registry"] = c.NPM.URL
	}
	rc := ""
	for scope, reg := range c.NPMScope {
		if strings.ContainsAny(scope, "=\n ") {
			continue
		}
		at := reg.URL
		if o.NPMCache {
			at = "http://" + NPMCache + "/"
		}
		rc += scope + ":registry=" + at + "\n"
	}
	if rc != "" {
		s.Files["/etc/npmrc"] = []byte(rc)
		env["npm_config_globalconfig"] = "/etc/npmrc"
	}
}

func (c *Config) pipSettings(s *guest.Settings, o Options) {
	env := s.Env
	env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
	trusted := c.PipTrust
	switch {
	case o.PipCache:
		env["PIP_INDEX_URL"] = "http://" + PipCache + "/simple/"
		trusted = append(trusted[:len(trusted):len(trusted)], PipCache)
	case !c.Pip.IsZero():
		env["PIP_INDEX_URL"] = c.Pip.URL
	}
	var extra []string
	for _, reg := range c.PipExtra {
		extra = append(extra, reg.URL)
	}
	if len(extra) > 0 {
		env["PIP_EXTRA_INDEX_URL"] = strings.Join(extra, " ")
	}
	if len(trusted) > 0 {
		env["PIP_TRUSTED_HOST"] = strings.Join(trusted, " ")
	}
}

func (c *Config) aptSettings(s *guest.Settings, o Options) {
	const proxy = "http://" + guest.ProxyAddr
	s.Files["/etc/apt/apt.conf.d/90glovebox"] = []byte("" +
		"Acquire::http::Proxy \"" + proxy + "\";\n" +
		"Acquire::https::Proxy \"" + proxy + "\";\n" +
		"Acquire::https::CaInfo \"" + caBundle + "\";\n" +
		"Acquire::Retries \"3\";\n")
	main, security := c.debianMirrors()
	if o.Release == "" || main == "" {
		return
	}
	const keys = "Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
	src := fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s %s-updates\n%s", main, o.Release, o.Release, keys)
	if security != "" {
		src += fmt.Sprintf("\nTypes: deb\nURIs: %s\nSuites: %s-security\n%s", security, o.Release, keys)
	}
	s.Files["/etc/apt/sources.list.d/debian.sources"] = []byte(src)
	s.Files["/etc/apt/sources.list"] = []byte("# See sources.list.d/debian.sources, which names this host's mirror.\n")
}

// debianMirrors returns the host's mirrors of Debian if they are not Debian's
// own. A mirror carries all releases, so that of the host does not matter.
func (c *Config) debianMirrors() (main, security string) {
	for _, a := range c.Apt {
		u, err := url.Parse(a.URL)
		if err != nil || strings.HasSuffix(u.Hostname(), ".debian.org") || strings.ContainsAny(a.URL, " \n") {
			continue
		}
		switch path := strings.TrimSuffix(u.Path, "/"); {
		case strings.HasSuffix(path, "/debian-security"):
			security = a.URL
		case strings.HasSuffix(path, "/debian"):
			main = a.URL
		}
	}
	return main, security
}

func (c *Config) gitSettings() string {
	rc := ""
	for _, g := range c.Git {
		key := "insteadOf"
		if g.Push {
			key = "pushInsteadOf"
		}
		rc += fmt.Sprintf("[url %q]\n\t%s = %q\n", g.URL, key, g.InsteadOf)
	}
	return rc
}
