package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
)

// Peer is an address worth trying.
type Peer struct {
	Addr string // host:port
	// Role is the role of the node expected there ("coordinator"). Empty: unknown.
	Role string
}

// String is the text that ParsePeer reads: "host:port" or "role@host:port".
func (p Peer) String() string {
	if p.Role == "" {
		return p.Addr
	}
	return p.Role + "@" + p.Addr
}

// Compare orders by host, port as a number, role.
func (p Peer) Compare(o Peer) int {
	return cmp.Or(sharding.CompareAddr(p.Addr, o.Addr), cmp.Compare(p.Role, o.Role))
}

// Sentinels, wrapped once with the details.
var (
	// ErrConfig: a Config, a URL or an address in it is invalid.
	ErrConfig = errors.New("bad discovery config")
	// ErrLookup: the lookup failed, or its answer is invalid.
	ErrLookup = errors.New("discovery lookup")
	// ErrDenied: the backend refuses our credentials, or access with them.
	ErrDenied = errors.New("credentials refused")
)

// maxHost is the longest name of a host in the DNS, in bytes.
const maxHost = 253

// ParsePeer reads "host:port" or "role@host:port". The port is a number from 1 to 65535; an IPv6 address
// stands in brackets. The error describes the fault and wraps nothing.
func ParsePeer(s string) (Peer, error) {
	role, addr, ok := strings.Cut(s, "@")
	if !ok {
		role, addr = "", s
	} else if err := sharding.CheckType("role", role); err != nil {
		return Peer{}, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return Peer{}, fmt.Errorf("%.80q is not host:port", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return Peer{}, fmt.Errorf("%.80q: the port must be a number from 1 to 65535", addr)
	}
	if host == "" || len(host) > maxHost || strings.ContainsFunc(host, badInHost) {
		return Peer{}, fmt.Errorf("%.80q: the host is empty, too long or has characters that no host has", addr)
	}
	return Peer{Addr: addr, Role: role}, nil
}

// badInHost allows letters of any script, digits, and what names and IPv6
// addresses with zones are made of.
func badInHost(r rune) bool {
	return r <= ' ' || r >= 0x7f && r < 0xa1 || r == 0xfffd || strings.ContainsRune(`/\,;#?@"'[]<>{}|^`+"`", r)
}

// Normalize sorts peers and removes duplicates, in place.
func Normalize(peers []Peer) []Peer {
	sorted.By(peers, Peer.Compare)
	return slices.Compact(peers)
}
