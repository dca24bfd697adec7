//go:build linux

// Package service keeps the services of a machine running: the display, the
// desktop, Jupyter, the browser.
//
// What services there are is said by a list in JSON (see [Parse]), which the
// image brings. Nothing runs until it is asked for. From then on a service
// that ends is started again, after a pause that doubles with each time and is
// short again once it was healthy for a minute. While all is well nothing here
// runs and no timer is set, so that a machine can be frozen at any moment.
package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Path is where an image lists its services.
const Path = "/etc/glovebox/services.json"

// Bounds of the list.
const (
	MaxList     = 64 << 10 // bytes of JSON
	maxServices = 32
	maxArgs     = 128
	maxString   = 4 << 10 // bytes of one argument, variable or path
)

// Definition is one service. It runs as the tools' user, in its home.
type Definition struct {
	Name    string            `json:"name"`    // 1 to 64 of [0-9A-Za-z_-]
	Command []string          `json:"command"` // looked up in PATH; must stay in the foreground
	Env     map[string]string `json:"env,omitempty"`
	After   []string          `json:"after,omitempty"` // services that must be healthy before it is started
	Ready   Ready             `json:"ready"`           // how to see that it is healthy

	// OnDemand services are started when someone first connects to them or
	// asks for them by name. One that ends well by itself stays ended until
	// it is wanted again.
	OnDemand bool `json:"on_demand,omitempty"`

	// Secret is a file that holds the service's secret, replaced whenever the
	// machine is given to a job. The service has to read it at each use.
	Secret *Secret `json:"secret,omitempty"`
}

// Ready says where a service answers once it is healthy. At most one of Unix
// and TCP is set: it is also where connections to the service go. With none
// of the three a service is healthy as soon as it runs.
type Ready struct {
	Unix string `json:"unix,omitempty"` // path of a socket
	TCP  string `json:"tcp,omitempty"`  // "127.0.0.1:9222"; only loopback
	Path string `json:"path,omitempty"` // something that must exist
}

// Secret says where a secret goes.
type Secret struct {
	Path   string       `json:"path"`
	Format SecretFormat `json:"format"`
}

// SecretFormat is how a secret is written to its file.
type SecretFormat string

// The formats.
const (
	FormatText SecretFormat = "text"      // as it is, without a newline
	FormatVNC  SecretFormat = "vncpasswd" // its first 8 bytes, as a password file of VNC
)

// Parse reads a list of services. It is an array of [Definition] in JSON.
func Parse(b []byte) ([]Definition, error) {
	if len(b) > MaxList {
		return nil, glovebox.Errorf(glovebox.CodeTooLarge, "the list of services has %d bytes, more than %d", len(b), MaxList)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var defs []Definition
	if err := dec.Decode(&defs); err != nil {
		return nil, glovebox.Errorf(glovebox.CodeInvalid, "the list of services can't be read: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, glovebox.Errorf(glovebox.CodeInvalid, "something follows the list of services")
	}
	if len(defs) > maxServices {
		return nil, glovebox.Errorf(glovebox.CodeInvalid, "%d services are more than %d", len(defs), maxServices)
	}
	known := map[string]bool{}
	for i := range defs {
		d := &defs[i]
		if err := d.check(known); err != nil {
			return nil, err
		}
		known[d.Name] = true
		if strings.HasPrefix(path.Base(d.Command[0]), "X") && d.Secret != nil && d.Secret.Format == FormatVNC && !slices.ContainsFunc(d.Command, func(a string) bool { return strings.Contains(a, blacklist) }) {
			d.Command = append(d.Command, "-"+blacklist+"=0")
		}
	}
	return defs, nil
}

// blacklist is the option by which TigerVNC locks an address out whose
// connections did not know the password. To it, all that come over its socket
// are one address: a few connections that were given up, of anyone, would keep
// everyone from the screen, for longer each time. The password is random.
const blacklist = "UseBlacklist"

// check checks one definition. After may name only what was listed before,
// so that there are no circles.
func (d *Definition) check(known map[string]bool) error {
	bad := func(field, hint, format string, args ...any) error {
		return glovebox.Invalid("services."+d.Name+"."+field, hint, format, args...)
	}
	if !wire.ValidID(d.Name) {
		return glovebox.Invalid("services.name", "use 1 to 64 of [0-9A-Za-z_-]", "%.80q can't name a service", d.Name)
	}
	if known[d.Name] {
		return bad("name", "name each once", "it is listed twice")
	}
	if len(d.Command) == 0 || len(d.Command) > maxArgs || d.Command[0] == "" {
		return bad("command", "name a program", "%d arguments make no command", len(d.Command))
	}
	texts := append([]string{d.Ready.Unix, d.Ready.TCP, d.Ready.Path}, d.Command...)
	for k, v := range d.Env {
		if k == "" || strings.ContainsAny(k, "=") {
			return bad("env", "leave it out", "%.80q can't be a variable", k)
		}
		texts = append(texts, k, v)
	}
	for _, t := range texts {
		if len(t) > maxString || strings.ContainsRune(t, 0) {
			return bad("command", "shorten it", "%.40q... is too long or contains a NUL byte", t)
		}
	}
	for _, a := range d.After {
		if !known[a] {
			return bad("after", "list services in the order in which they start", "%.80q is not listed before it", a)
		}
	}
	return d.checkPaths(bad)
}

func (d *Definition) checkPaths(bad func(field, hint, format string, args ...any) error) error {
	paths := []string{d.Ready.Unix, d.Ready.Path}
	if d.Secret != nil {
		if d.Secret.Path == "" {
			return bad("secret.path", "name a file", "it is empty")
		}
		if d.Secret.Format != FormatText && d.Secret.Format != FormatVNC {
			return bad("secret.format", `use "text" or "vncpasswd"`, "%.40q is no format of secrets", d.Secret.Format)
		}
		paths = append(paths, d.Secret.Path)
	}
	for _, p := range paths {
		if p != "" && (!path.IsAbs(p) || path.Clean(p) != p) {
			return bad("ready", "use clean absolute paths", "%.200q is not one", p)
		}
	}
	if d.Ready.Unix != "" && d.Ready.TCP != "" {
		return bad("ready", "give one of them", "it has both a socket and a port")
	}
	if t := d.Ready.TCP; t != "" && !strings.HasPrefix(t, "127.0.0.1:") && !strings.HasPrefix(t, "[::1]:") {
		return bad("ready.tcp", "use 127.0.0.1:PORT", "%.80q is not on loopback", t)
	}
	return nil
}
