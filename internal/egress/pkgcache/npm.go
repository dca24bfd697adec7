package pkgcache

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/egress/hostconf"
)

// The paths of a registry that are served, without a leading slash: the
// description of a package, or of a version of it, and its files.
var (
	npmPackage = regexp.MustCompile(`^(?:(@[A-Za-z0-9_.~-]+)(?:/|%2[fF]))?[A-Za-z0-9_.~!'()*-]+(?:/[A-Za-z0-9_.+~-]+)?$`)
	npmFile    = regexp.MustCompile(`^((?:(@[A-Za-z0-9_.~-]+)(?:/|%2[fF]))?[A-Za-z0-9_.~!'()*-]+)/-/(?:@[A-Za-z0-9_.~-]+/)?[A-Za-z0-9_.+~!'()*-]+\.t(?:ar\.)?gz$`)
)

// abbreviated is the form of a description in which npm installs.
const abbreviated = "application/vnd.npm.install-v1+json"

// routeNPM finds out what a request to the npm cache wants.
func (c *Cache) routeNPM(r *http.Request) (*want, error) {
	none := &refusal{http.StatusNotFound, "the package cache serves packages and their files only"}
	escaped := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if strings.Contains(escaped, "..") {
		return nil, none
	}
	for _, reg := range c.npmRegistries() {
		base, err := url.Parse(reg.URL)
		if err != nil {
			continue
		}
		// npm puts the path of a file's own URL, which a mirror's prefix is
		// part of, on the host of the registry that it was told.
		path := strings.TrimPrefix(escaped, strings.TrimPrefix(base.EscapedPath(), "/"))
		if w := c.npmWant(path, r.Header.Get("Accept")); w != nil {
			return w, nil
		}
	}
	return nil, none
}

// npmRegistries returns the registries to try for the prefix of a path.
func (c *Cache) npmRegistries() []hostconf.Registry {
	all := []hostconf.Registry{c.npm}
	for _, r := range c.scopes {
		all = append(all, r)
	}
	return all
}

// npmWant returns what a path below a registry stands for, or nil.
func (c *Cache) npmWant(path, accept string) *want {
	if strings.HasPrefix(path, "-") { // the registry's interface beside packages
		return nil
	}
	if m := npmFile.FindStringSubmatch(path); m != nil {
		reg := c.registryOf(m[2])
		return &want{url: reg.URL + path, auth: reg.Authorization(), immutable: true,
			digest: func() digest { return c.npmDigest(reg, m[1], path) }}
	}
	if m := npmPackage.FindStringSubmatch(path); m != nil {
		reg := c.registryOf(m[1])
		w := &want{url: reg.URL + path, auth: reg.Authorization(), accept: "application/json"}
		if strings.Contains(accept, abbreviated) {
			w.accept = abbreviated + "; q=1.0, application/json; q=0.8, */*"
		}
		return w
	}
	return nil
}

func (c *Cache) registryOf(scope string) hostconf.Registry {
	if reg, ok := c.scopes[scope]; ok {
		return reg
	}
	return c.npm
}

// npmDigest looks up the digest of a file in the description of its package,
// if that is kept.
func (c *Cache) npmDigest(reg hostconf.Registry, name, path string) digest {
	var doc struct {
		Versions map[string]struct {
			Dist struct{ Tarball, Integrity, Shasum string }
		}
	}
	for _, accept := range []string{abbreviated, ""} {
		for _, spelled := range []string{name, strings.Replace(name, "/", "%2f", 1)} {
			e := c.disk.get(c.npmWant(spelled, accept).key())
			if e == nil {
				continue
			}
			body, _, err := c.disk.open(e, false)
			if err != nil {
				continue
			}
			err = json.NewDecoder(io.LimitReader(body, maxIndex)).Decode(&doc)
			body.Close()
			if err != nil {
				continue
			}
			for _, v := range doc.Versions {
				if strings.HasSuffix(v.Dist.Tarball, "/"+path) && v.Dist.Integrity != "" {
					return parseIntegrity(v.Dist.Integrity)
				}
			}
		}
	}
	return digest{}
}
