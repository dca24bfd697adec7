package egress

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func TestParseRule(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"example.com":          "example.com",
		"Example.COM.":         "example.com",
		"example.com:8443":     "example.com:8443",
		".Example.com":         ".example.com",
		".example.com:22":      ".example.com:22",
		"bücher.example":       "xn--bcher-kva.example",
		"203.0.113.7":          "203.0.113.7",
		"203.0.113.7:8080":     "203.0.113.7:8080",
		"2001:db8::1":          "[2001:db8::1]",
		"[2001:0DB8:0::1]:443": "[2001:db8::1]:443",
		"localhost:4873":       "localhost:4873",
		"a-b.example":          "a-b.example",
	}
	for in, want := range good {
		if got, err := ParseRule(in); err != nil || got != want {
			t.Errorf("ParseRule(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	bad := []string{
		"", ".", "..", "a..b", ".:443", "*", "*.example.com", "ex*mple.com", "https://example.com", "example.com/path",
		"user@example.com", "example.com:", "example.com:0", "example.com:65536", "example.com:+80", "example.com:080",
		"example.com:http", "exa mple.com", "example.com\n", "example.com\r\n", "exam\x00ple.com", "-a.example", "a-.example",
		"0177.0.0.1", "0x7f.0.0.1", "2130706433", "127.1", "127.0.1", "0x7f000001", "1.2.3.4.5", "1.2.3", "1.2.3.4.", "256.1.1.1",
		"１２７.0.0.1", "127。0。0。1", "[::ffff:127.0.0.1]", "::ffff:10.0.0.1", "[fe80::1%eth0]", "fe80::1%eth0", "[::1", "::1]",
		"[127.0.0.1]", ".127.0.0.1", ".[::1]", "foo.0x7f", "foo.1", "under_score.example", "xn--a.example", "a\u200bb.example\u202e",
		strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 130) + "example", "example.com:443:443", "exa%6dple.com", "\xff.example",
	}
	for _, in := range bad {
		if got, err := ParseRule(in); err == nil {
			t.Errorf("ParseRule(%q) = %q; want an error", in, got)
		}
	}
}

func mustCompile(t testing.TB, e glovebox.Egress, d Defaults) *Policy {
	t.Helper()
	p, err := Compile(e, d)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, glovebox.Egress{Mode: glovebox.EgressExtend, Allow: []string{"example.com:8443", "203.0.113.9", "one.example"}},
		Defaults{Allow: []string{".npmjs.org"}})
	for _, c := range []struct {
		host string
		port uint16
		want bool
	}{
		{"npmjs.org", 443, true}, {"a.npmjs.org", 443, true}, {"A.B.NPMJS.ORG.", 80, true},
		{"evilnpmjs.org", 443, false}, {"npmjs.org.evil.example", 443, false}, {"a.npmjs.org", 8443, false}, {"org", 443, false},
		{"npmjs.org..", 443, false}, {".npmjs.org", 443, false}, {"a.npmjs.org\x00.evil.example", 443, false},
		{"user@a.npmjs.org", 443, false}, {"a.npmjs.org:443", 443, false}, {"a.npmjs.org#", 443, false},
		{"example.com", 8443, true}, {"example.com", 443, false}, {"x.example.com", 8443, false},
		{"one.example", 443, true}, {"two.one.example", 443, false}, {"0ne.example", 443, false}, {"οne.example", 443, false},
		{"203.0.113.9", 443, true}, {"203.0.113.10", 443, false}, {"3405803785", 443, false}, {"0313.0.113.9", 443, false},
		{"203.0.113.9.", 443, false}, {"[::ffff:203.0.113.9]", 443, false},
	} {
		if v := p.Check(c.host, c.port); v.Allowed != c.want || v.Reason == "" {
			t.Errorf("Check(%q, %d) = %+v; want %v", c.host, c.port, v, c.want)
		}
	}
}

func TestCompileModes(t *testing.T) {
	t.Parallel()
	d := Defaults{Allow: []string{".default.example"}, Mirrors: []string{"mirror.example:8081"}}
	for _, c := range []struct {
		egress glovebox.Egress
		want   string
	}{
		{glovebox.Egress{}, ".default.example mirror.example:8081"},
		{glovebox.Egress{Mode: glovebox.EgressNone}, ""},
		{glovebox.Egress{Mode: glovebox.EgressOnly}, ""},
		{glovebox.Egress{Mode: glovebox.EgressOnly, Allow: []string{"a.example"}}, "a.example"},
		{glovebox.Egress{Mode: glovebox.EgressExtend, Allow: []string{"a.example"}}, ".default.example mirror.example:8081 a.example"},
	} {
		if got := strings.Join(mustCompile(t, c.egress, d).Rules(), " "); got != c.want {
			t.Errorf("%+v: rules %q; want %q", c.egress, got, c.want)
		}
	}
	many := make([]string, MaxRules+1)
	for i := range many {
		many[i] = "a.example"
	}
	for field, e := range map[string]glovebox.Egress{
		"egress.mode":     {Mode: "some"},
		"egress.allow":    {Mode: glovebox.EgressOnly, Allow: many},
		"egress.allow[1]": {Mode: glovebox.EgressOnly, Allow: []string{"a.example", "*.b.example"}},
		"egress.allow[0]": {Mode: glovebox.EgressExtend, Allow: []string{"10.0.0.1"}},
	} {
		_, err := Compile(e, d)
		if g, ok := err.(*glovebox.Error); !ok || g.Code != glovebox.CodeInvalid || g.Field != field || g.Hint == "" { //nolint:errorlint // with nothing around it
			t.Errorf("%+v: error %v; want one about %s", e, err, field)
		}
	}
	for _, mode := range []glovebox.EgressMode{glovebox.EgressDefault, glovebox.EgressNone} {
		if _, err := Compile(glovebox.Egress{Mode: mode, Allow: []string{"a.example"}}, d); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("mode %q with rules: error %v", mode, err)
		}
	}
	if _, err := Compile(glovebox.Egress{}, Defaults{Allow: []string{"*"}}); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("bad default: error %v", err)
	}
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	local := []netip.Addr{netip.MustParseAddr("203.0.113.50")}
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.192", "192.168.1.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16", "100.100.100.200",
		"203.0.113.50", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:7f00:1", "64:ff9b::7f00:1",
		"64:ff9b::a9fe:a9fe", "64:ff9b::cb00:7132", "64:ff9b:1::1", "100::1", "2001::1", "2002:7f00:1::", "fc00::1", "fd00:ec2::254",
		"fe80::1", "febf::1", "fec0::1", "ff02::1", "fe80::1%eth0",
	} {
		if forbidden(netip.MustParseAddr(s), local) == "" {
			t.Errorf("%s is not forbidden", s)
		}
	}
	for _, s := range []string{
		"1.1.1.1", "192.0.2.1", "198.51.100.1", "203.0.113.80", "2001:db8::1", "2606:4700::1111", "64:ff9b::101:101", "100.63.255.255",
		"100.128.0.1", "172.15.0.1", "172.32.0.1", "11.0.0.1", "::ffff:1.1.1.1",
	} {
		if why := forbidden(netip.MustParseAddr(s), local); why != "" {
			t.Errorf("%s is forbidden: %s", s, why)
		}
	}
}

func TestWhoMayOpenAddresses(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, glovebox.Egress{Mode: glovebox.EgressExtend, Allow: []string{"job.example", "job.example:8081", "10.0.0.5:5432"}},
		Defaults{Allow: []string{"10.0.0.5:8081", "127.0.0.1:9"}, Mirrors: []string{"mirror.example:8081"}})
	local := []netip.Addr{netip.MustParseAddr("10.0.0.9")}
	for _, c := range []struct {
		host string
		port uint16
		addr string
		want bool
	}{
		{"job.example", 443, "192.168.0.1", false},
		{"job.example", 443, "10.0.0.5", false}, // the operator opened another port of it
		{"job.example:8081", 8081, "10.0.0.5", true},
		{"10.0.0.5", 8081, "10.0.0.5", true},
		{"127.0.0.1", 9, "127.0.0.1", true},
		{"mirror.example", 8081, "192.168.0.1", true},
		{"mirror.example", 8081, "100.64.0.1", true},
		{"mirror.example", 8081, "fd00::1", true},
		{"mirror.example", 8081, "127.0.0.2", false},
		{"mirror.example", 8081, "169.254.169.254", false},
		{"mirror.example", 8081, "fd00:ec2::254", false},
		{"mirror.example", 8081, "100.100.100.200", false},
		{"mirror.example", 8081, "10.0.0.9", false},
	} {
		v := p.Check(strings.TrimSuffix(c.host, ":8081"), c.port)
		if !v.Allowed {
			t.Fatalf("%s is not allowed by name", c.host)
		}
		if why := p.checkAddr(v, netip.MustParseAddr(c.addr), c.port, local); (why == "") != c.want {
			t.Errorf("%s at %s: %q; want allowed %v", c.host, c.addr, why, c.want)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"example.com", ".example.com:22", "[2001:db8::1]:443", "0x7f.1", "bücher.example", "１２７.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := ParseRule(s)
		if err != nil {
			return
		}
		again, err := ParseRule(text)
		if err != nil || again != text {
			t.Fatalf("ParseRule(%q) = %q, but that gives %q, %v", s, text, again, err)
		}
		if strings.ContainsAny(text, "\r\n\x00 @/*%") || strings.ToLower(text) != text {
			t.Fatalf("ParseRule(%q) = %q", s, text)
		}
	})
}
