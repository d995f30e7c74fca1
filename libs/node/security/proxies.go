package security

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// proxies are the networks of proxies whose X-Forwarded-For is believed. Any other client can write there what it likes.
type Proxies []netip.Prefix

// ParseProxies reads addresses and networks.
func ParseProxies(list []string) (p Proxies, err error) {
	for _, text := range list {
		network, networkErr := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
			network, networkErr = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if networkErr != nil || network.Addr().Is4In6() {
			err = errors.Join(err, fmt.Errorf("http.trusted_proxies: %.100q is not an address or a network such as 10.1.0.0/16", text))
			continue
		}
		p = append(p, network.Masked())
	}
	return p, err
}

func (p Proxies) trusts(addr netip.Addr) bool {
	for _, network := range p {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// client returns the address of a request's client, in the form of http.Request.RemoteAddr. Each proxy appends the
// address that its request comes from, so the list is read from its end for as long as trusted proxies have written
// it. An entry that is not an address ends it: then the client is unknown, and the request counts as one of the
// last proxy.
func (p Proxies) Client(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if len(p) == 0 || err != nil || !p.trusts(from.Addr().Unmap()) {
		return r.RemoteAddr
	}
	rest, found := strings.Join(r.Header["X-Forwarded-For"], ","), r.RemoteAddr
	for rest != "" {
		last := strings.LastIndexByte(rest, ',')
		addr, ok := forwarded(strings.TrimSpace(rest[last+1:]))
		if !ok {
			break
		}
		found = netip.AddrPortFrom(addr, 0).String()
		if !p.trusts(addr) {
			break
		}
		rest = rest[:max(last, 0)]
	}
	return found
}

// forwarded reads an element of X-Forwarded-For: an address, which some proxies write with a port.
func forwarded(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}
