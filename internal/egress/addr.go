package egress

import (
	"net"
	"net/netip"
	"slices"
)

// ranges that are not the public internet's, each with what to call it.
//
// The documentation ranges (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24,
// 2001:db8::/32, 3fff::/20) and the one for benchmarks (198.18.0.0/15) are not among
// them: some companies' networks put their proxies and mirrors there, some
// VPN clients every name, and nothing on an ordinary host answers there.
var ranges = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a shared (carrier-grade NAT) address"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a protocol-assignment address"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay address"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved or broadcast address"},
	{netip.MustParsePrefix("::/96"), "an unspecified, loopback or IPv4-compatible address"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "an IPv4-translated address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a local NAT64 address"},
	{netip.MustParsePrefix("100::/64"), "a discard-only address"},
	{netip.MustParsePrefix("2001::/32"), "a Teredo address"},
	{netip.MustParsePrefix("2002::/16"), "a 6to4 address"},
	{netip.MustParsePrefix("5f00::/16"), "a segment-routing address"},
	{netip.MustParsePrefix("fc00::/7"), "a unique-local address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fec0::/10"), "a site-local address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
}

// nat64 is the well-known prefix through which networks without IPv4 reach
// it. On such a network every name has an address in it, so what counts is
// the IPv4 address inside.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// metadata are services of clouds that hand out credentials, and that are not
// all in a range above.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), // most
	netip.MustParseAddr("169.254.170.2"),   // container credentials
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("168.63.129.16"),   // Azure, a public address
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon
	netip.MustParseAddr("fd20:ce::254"),    // Google
}

// forbidden says what is wrong with an address, or nothing. local are the
// host's own addresses.
func forbidden(a netip.Addr, local []netip.Addr) string {
	if !a.IsValid() || a.Zone() != "" {
		return "not an address"
	}
	a = a.Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		return forbidden(netip.AddrFrom4([4]byte(b[12:])), local)
	}
	if isMetadata(a) {
		return "a cloud's metadata address"
	}
	for _, r := range ranges {
		if r.prefix.Contains(a) {
			return r.what
		}
	}
	if isLocal(a, local) {
		return "this machine's own address"
	}
	return ""
}

func isMetadata(a netip.Addr) bool { return slices.Contains(metadata, a) }

func isLocal(a netip.Addr, local []netip.Addr) bool { return slices.Contains(local, a) }

// isPrivate reports whether an address is of the kinds that a company's own
// network uses.
func isPrivate(a netip.Addr) bool {
	return a.IsPrivate() || netip.MustParsePrefix("100.64.0.0/10").Contains(a)
}

// localAddrs returns the addresses of the host's network devices.
func localAddrs() []netip.Addr {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil // the ranges still hold
	}
	var out []netip.Addr
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap().WithZone(""))
			}
		}
	}
	return out
}
