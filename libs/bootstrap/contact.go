package bootstrap

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// ContactPoint is the address of a node that answers queries.
type ContactPoint struct {
	Host string     // a name or an IP, without brackets
	Port uint16     // 0: not known
	IP   netip.Addr // of the host; zero: not resolved
}

// ParseContactPoint reads "host:port"; an IPv6 address stands in brackets.
func ParseContactPoint(addr string) (p ContactPoint, ok bool) {
	i := strings.LastIndexByte(addr, ':')
	if i <= 0 || len(addr) > sharding.MaxAddrLen {
		return p, false
	}
	port, err := strconv.ParseUint(addr[i+1:], 10, 16)
	host := unbracketed(addr[:i])
	if err != nil || port == 0 || host == "" || strings.ContainsAny(host, " /@[]") {
		return p, false
	}
	p = ContactPoint{Host: host, Port: uint16(port)}
	p.IP, _ = netip.ParseAddr(host) // a name has none
	return p, p.IP.IsValid() || !strings.Contains(host, ":")
}

func unbracketed(host string) string {
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// String is "host:port", or the host alone.
func (p ContactPoint) String() string {
	host := p.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if p.Port == 0 {
		return host
	}
	return host + ":" + strconv.Itoa(int(p.Port))
}

// Compare orders by IP, host and port; unknown ones come first. Bytes of an IP
// compare as signed, as in Akka: any order would do, as long as all nodes use the
// same one.
func (p ContactPoint) Compare(o ContactPoint) int {
	bytes := func(a, b byte) int { return cmp.Compare(int8(a), int8(b)) }
	return cmp.Or(
		slices.CompareFunc(p.IP.AsSlice(), o.IP.AsSlice(), bytes),
		cmp.Compare(p.Host, o.Host), cmp.Compare(p.Port, o.Port))
}

// Is reports whether p is the contact point of the node that calls itself self.
func (p ContactPoint) Is(self ContactPoint) bool {
	host := unbracketed(self.Host)
	if p.Port != 0 && p.Port != self.Port {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return unbracketed(p.Host) == host || err == nil && ip == p.IP
}

// Peer is an address that discovery lists, with the role of the node there if it
// is known.
type Peer struct{ Addr, Role string }

// OnPort keeps only the given port of hosts that are listed with several:
// discovery that lists all ports of a machine would otherwise name each node more
// than once. Hosts with a single port are kept; with port 0 all peers are.
func OnPort(peers []Peer, port uint16) []Peer {
	if port == 0 {
		return peers
	}
	ports := map[string]map[string]bool{}
	for _, p := range peers {
		host := hostOf(p.Addr)
		if ports[host] == nil {
			ports[host] = map[string]bool{}
		}
		ports[host][p.Addr] = true
	}
	suffix := ":" + strconv.Itoa(int(port))
	return slices.DeleteFunc(slices.Clone(peers), func(p Peer) bool {
		return len(ports[hostOf(p.Addr)]) > 1 && !strings.HasSuffix(p.Addr, suffix)
	})
}

func hostOf(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		return addr[:i]
	}
	return addr
}

// Expand puts the name of the cluster, as host names are written, where the URL of
// a discovery or of a lease says {cluster}: in lower case, with dashes for blanks and
// underscores. So one URL, such as dns:///{cluster}.prod?port=25521, serves many
// clusters.
func Expand(url, cluster string) string {
	name := strings.NewReplacer(" ", "-", "_", "-").Replace(strings.ToLower(cluster))
	return strings.ReplaceAll(url, "{cluster}", name)
}
