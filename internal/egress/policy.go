package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// MaxRules is the most rules that a job may bring.
const MaxRules = 200

// maxRule bounds one rule: a name and a port.
const maxRule = maxHost + len(".:65535")

// rule allows one host, or a suffix, at one port or at the two of the web.
type rule struct {
	text   string
	suffix bool // host.name and everything below it
	host   host
	port   uint16 // 0: 80 and 443
	mirror bool   // of the host's own package managers: may be private
}

func (r rule) matches(h host, port uint16) bool {
	if port != r.port && (r.port != 0 || port != 443 && port != 80) {
		return false
	}
	if r.suffix {
		return h.name == r.host.name || strings.HasSuffix(h.name, "."+r.host.name)
	}
	return h == r.host
}

// ParseRule checks one rule and returns it in its usual spelling:
// "host", "host:port", ".suffix" (the name itself and all below it),
// ".suffix:port", an IPv4 address, an IPv6 address with or without brackets.
// Without a port a rule means 443 and 80.
func ParseRule(s string) (string, error) {
	r, err := parseRule(s)
	return r.text, err
}

func parseRule(s string) (rule, error) {
	switch {
	case len(s) > maxRule:
		return rule{}, fmt.Errorf("the rule is %d bytes long; at most %d are", len(s), maxRule)
	case strings.Contains(s, "://"):
		return rule{}, fmt.Errorf("%q is a URL; give the host alone", clip.Short(s, maxShown))
	case strings.Contains(s, "*"):
		return rule{}, fmt.Errorf("%q has a wildcard; .example.com stands for example.com and all below it", clip.Short(s, maxShown))
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
		s = "[" + s + "]"
	}
	name, port, err := splitPort(s)
	if err != nil {
		return rule{}, err
	}
	rest, suffix := strings.CutPrefix(name, ".")
	h, err := parseHost(rest)
	if err != nil {
		return rule{}, err
	}
	if suffix && h.addr.IsValid() {
		return rule{}, fmt.Errorf("%q: an address has nothing below it", clip.Short(s, maxShown))
	}
	r := rule{suffix: suffix, host: h, port: port}
	r.text = h.String()
	if h.addr.Is6() {
		r.text = "[" + r.text + "]"
	}
	if suffix {
		r.text = "." + r.text
	}
	if port != 0 {
		r.text += fmt.Sprintf(":%d", port)
	}
	return r, nil
}

// Policy is a compiled, immutable set of rules.
type Policy struct {
	rules  []rule
	opened []rule // addresses that the operator named
}

// Compile makes the policy of one job. A bad rule of the job is CodeInvalid
// with Field "egress.allow[i]", a bad one of the operator CodeInvalid too. A
// job can't open an address that is not public; only the operator can.
func Compile(e glovebox.Egress, d Defaults) (*Policy, error) {
	if err := checkShape(e); err != nil {
		return nil, err
	}
	p := &Policy{}
	defaults, err := p.compileDefaults(d)
	if err != nil {
		return nil, err
	}
	if e.Mode == glovebox.EgressDefault || e.Mode == glovebox.EgressExtend {
		p.rules = defaults
	}
	for i, s := range e.Allow {
		field := fmt.Sprintf("egress.allow[%d]", i)
		r, err := parseRule(s)
		if err != nil {
			return nil, glovebox.Invalid(field, "write a rule as example.com, example.com:8443 or .example.com", "%s", err)
		}
		named := func(o rule) bool { return o.host == r.host }
		if a := r.host.addr; a.IsValid() && !slices.ContainsFunc(p.opened, named) {
			if why := forbidden(a, nil); why != "" {
				return nil, glovebox.Invalid(field, "only the server's own configuration can open it", "%s is %s", a, why)
			}
		}
		p.rules = append(p.rules, r)
	}
	return p, nil
}

func checkShape(e glovebox.Egress) error {
	switch e.Mode {
	case glovebox.EgressDefault, glovebox.EgressNone:
		if len(e.Allow) > 0 {
			return glovebox.Invalid("egress.allow", `set egress.mode to "only" or "extend" to use rules`, "mode %q takes no rules", e.Mode)
		}
	case glovebox.EgressOnly, glovebox.EgressExtend:
	default:
		return glovebox.Invalid("egress.mode", `use "none", "only", "extend", or leave it out for the default`, "%q is not a mode", clip.Short(string(e.Mode), maxShown))
	}
	if len(e.Allow) > MaxRules {
		return glovebox.Invalid("egress.allow", fmt.Sprintf("give at most %d rules", MaxRules), "there are %d rules", len(e.Allow))
	}
	return nil
}

func (p *Policy) compileDefaults(d Defaults) ([]rule, error) {
	out := make([]rule, 0, len(d.Allow)+len(d.Mirrors))
	add := func(field string, list []string, mirror bool) error {
		for i, s := range list {
			r, err := parseRule(s)
			if err != nil {
				return glovebox.Invalid(fmt.Sprintf("%s[%d]", field, i), "correct the rule in the server's configuration", "%s", err)
			}
			r.mirror = mirror
			if r.host.addr.IsValid() {
				p.opened = append(p.opened, r)
			}
			out = append(out, r)
		}
		return nil
	}
	if err := add("egress.default", d.Allow, false); err != nil {
		return nil, err
	}
	return out, add("egress.mirrors", d.Mirrors, true)
}

// Verdict is what a policy says about a host and a port.
type Verdict struct {
	Allowed bool
	Rule    string // that allowed it; empty if none did
	Reason  string // for a person
	mirror  bool
}

// Check says whether a host (a name, or an address as in a URL) may be
// reached at a port, by its name alone. The addresses that it resolves to are
// checked when it is dialled.
func (p *Policy) Check(name string, port uint16) Verdict {
	h, err := parseHost(name)
	if err != nil {
		return Verdict{Reason: err.Error()}
	}
	return p.check(h, port)
}

func (p *Policy) check(h host, port uint16) Verdict {
	v := Verdict{}
	for _, r := range p.rules {
		if !r.matches(h, port) {
			continue
		}
		if !v.Allowed {
			v = Verdict{Allowed: true, Rule: r.text, Reason: "rule " + r.text}
		}
		v.mirror = v.mirror || r.mirror
	}
	if v.Allowed {
		return v
	}
	if len(p.rules) == 0 {
		return Verdict{Reason: "this job has no network access"}
	}
	at := h.String()
	if port != 80 && port != 443 {
		at = fmt.Sprintf("%s:%d", at, port)
	}
	return Verdict{Reason: "no rule allows " + at}
}

// Rules returns the rules in effect, in their usual spelling.
func (p *Policy) Rules() []string {
	out := make([]string, len(p.rules))
	for i, r := range p.rules {
		out[i] = r.text
	}
	return out
}

// checkAddr returns why addr must not be dialled at port for a host that v allowed,
// or the empty string.
func (p *Policy) checkAddr(v Verdict, addr netip.Addr, port uint16, local []netip.Addr) string {
	addr = addr.Unmap()
	for _, r := range p.opened {
		if r.matches(host{addr: addr}, port) {
			return ""
		}
	}
	if v.mirror && isPrivate(addr) && !isLocal(addr, local) && !isMetadata(addr) {
		return ""
	}
	return forbidden(addr, local)
}
