//go:build linux

package main

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/egress/hostconf"
	"github.com/glovebox-dev/glovebox/internal/image"
)

// buildHost returns how pip and npm on this host reach their registries, for
// the build of an image.
func buildHost() image.Host { return buildHostOf(hostconf.Read(hostconf.System())) }

func buildHostOf(c *hostconf.Config) image.Host {
	h := image.Host{CAs: c.CAs}
	set := func(name, value string) {
		if value != "" {
			h.Env = append(h.Env, name+"="+value)
		}
	}
	set("PIP_INDEX_URL", withCredentials(c.Pip))
	var extra []string
	for _, r := range c.PipExtra {
		extra = append(extra, withCredentials(r))
	}
	set("PIP_EXTRA_INDEX_URL", strings.Join(extra, " "))
	set("PIP_TRUSTED_HOST", strings.Join(c.PipTrust, " "))
	set("npm_config_registry", c.NPM.URL)
	rc := npmAuth(c.NPM)
	for scope, r := range c.NPMScope {
		if !strings.ContainsAny(scope, "=\n ") {
			rc += scope + ":registry=" + r.URL + "\n" + npmAuth(r)
		}
	}
	set(image.NPMRC, rc)
	return h
}

// npmAuth returns the line of an .npmrc with the credentials of a registry.
func npmAuth(r hostconf.Registry) string {
	_, at, _ := strings.Cut(r.URL, ":") // "//host/path/"
	kind, secret, _ := strings.Cut(r.Authorization(), " ")
	switch kind {
	case "Bearer":
		return at + ":_authToken=" + secret + "\n"
	case "Basic":
		return at + ":_auth=" + secret + "\n"
	}
	return ""
}

// withCredentials returns the URL of a registry as pip takes it.
func withCredentials(r hostconf.Registry) string {
	u, err := url.Parse(r.URL)
	secret, basic := strings.CutPrefix(r.Authorization(), "Basic ")
	if err != nil || !basic {
		return r.URL
	}
	pair, err := base64.StdEncoding.DecodeString(secret)
	if name, password, ok := strings.Cut(string(pair), ":"); err == nil && ok {
		u.User = url.UserPassword(name, password)
	}
	return u.String()
}
