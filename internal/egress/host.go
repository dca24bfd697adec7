package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// maxShown bounds a foreign string in a message, in bytes.
const maxShown = 100

// maxHost is the longest name that DNS can hold.
const maxHost = 253

// host is a name or an address in the one spelling in which hosts are
// compared: lower case, punycode, no trailing dot; an address unmapped.
type host struct {
	name string // empty for an address
	addr netip.Addr
}

// String returns the host as it is written in rules and records.
func (h host) String() string {
	if h.addr.IsValid() {
		return h.addr.String()
	}
	return h.name
}

// names is strict: letters, digits and hyphens, after the mapping that
// browsers use. Underscores and other curiosities are no host names.
var names = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false),
	idna.VerifyDNSLength(true), idna.StrictDomainName(true))

// parseHost reads a host as it stands in a URL: an IPv6 address is in
// brackets. It refuses every spelling of an address but the usual one, since
// what one parser takes for a name another takes for 127.0.0.1.
func parseHost(s string) (host, error) {
	switch {
	case s == "":
		return host{}, fmt.Errorf("the host is empty")
	case len(s) > 4*maxHost: // room for what IDNA shortens
		return host{}, fmt.Errorf("the host is %d bytes long, more than a name can be", len(s))
	}
	if i := strings.IndexFunc(s, isOddRune); i >= 0 {
		return host{}, fmt.Errorf("%q has the character %q, which no host has", clip.Short(s, maxShown), []rune(s[i:])[0])
	}
	if strings.HasPrefix(s, "[") {
		return parseIPv6(s)
	}
	if strings.ContainsAny(s, "[]:") {
		return host{}, fmt.Errorf("%q is not a host; an IPv6 address stands in brackets", clip.Short(s, maxShown))
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Is4() {
		return host{addr: a}, nil
	}
	return parseName(s)
}

func parseIPv6(s string) (host, error) {
	inner, ok := strings.CutSuffix(s[1:], "]")
	a, err := netip.ParseAddr(inner)
	switch {
	case !ok || err != nil || !a.Is6():
		return host{}, fmt.Errorf("%q is not an IPv6 address in brackets", clip.Short(s, maxShown))
	case a.Zone() != "":
		return host{}, fmt.Errorf("%q has a zone, which means something on one machine only", clip.Short(s, maxShown))
	case a.Is4In6():
		return host{}, fmt.Errorf("%q is an IPv4 address in disguise; write it as %s", clip.Short(s, maxShown), a.Unmap())
	}
	return host{addr: a}, nil
}

func parseName(s string) (host, error) {
	ascii, err := names.ToASCII(strings.TrimSuffix(s, "."))
	if err != nil || ascii == "" || strings.HasSuffix(ascii, ".") {
		return host{}, fmt.Errorf("%q is not a host name", clip.Short(s, maxShown))
	}
	// The mapping may have made digits out of other characters, so this comes
	// after it. A name whose last label is a number is an address to some.
	if last := ascii[strings.LastIndexByte(ascii, '.')+1:]; isNumber(last) {
		return host{}, fmt.Errorf("%q is an odd spelling of an address; write it as four decimal numbers", clip.Short(s, maxShown))
	}
	return host{name: ascii}, nil
}

// isOddRune reports what no host may contain, whatever follows.
func isOddRune(r rune) bool {
	return r <= ' ' || r == 0x7f || r == '\ufffd' || strings.ContainsRune(`@/\?#%*"<>^|{}`+"`", r)
}

// isNumber reports whether a label is one that the C library reads as part of
// an address: decimal, octal or hexadecimal.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// splitPort splits "host:port" and "[v6]:port"; port is 0 if there is none.
// A port is plain digits without a leading zero.
func splitPort(s string) (h string, port uint16, err error) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.HasSuffix(s, "]") {
		return s, 0, nil
	}
	digits := s[i+1:]
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] < '1' || digits[0] > '9' {
		return "", 0, fmt.Errorf("%q is not a port; give a number from 1 to 65535", clip.Short(digits, maxShown))
	}
	return s[:i], uint16(n), nil
}
