package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Peer is an address worth trying.
type Peer struct {
	Addr string // host:port
	// Role says what is expected there, in the words of the backend's user
	// ("coordinator"). Empty: not said.
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

// Backend knows where peers may be.
type Backend interface {
	// Peers lists them, in any order, duplicates allowed. The caller owns the
	// slice. No peers is an answer; an error says that it is not known. It may
	// be called concurrently and returns soon after ctx ends.
	Peers(ctx context.Context) ([]Peer, error)
}

// Follower is a Backend that notices changes.
type Follower interface {
	Backend
	// Follow is Peers with what waits for another answer.
	Follow(ctx context.Context) ([]Peer, Changed, error)
}

// Changed waits until asking again may give another answer than the one it came
// with, at most until that answer is old enough to be confirmed, and returns
// nil then. An error says that changes would not be noticed. It is called once
// and returns soon after ctx ends.
type Changed func(ctx context.Context) error

// Recheck is after how long a backend that notices changes has its answer
// confirmed all the same.
const Recheck = 10 * time.Second

// Registrar is a Backend in which processes enter themselves.
type Registrar interface {
	// Enter lists self, or confirms that it is there, in whatever state its
	// entry is.
	Enter(ctx context.Context, self Peer) error
	// Remove takes the entry out that this Registrar has entered. That there is
	// none is no error.
	Remove(ctx context.Context, self Peer) error
	// TTL is for how long an entry stays that nobody confirms.
	TTL() time.Duration
}

// Sentinels, wrapped once with the details.
var (
	// ErrConfig: a Config, a URL or an address in it makes no sense.
	ErrConfig = errors.New("bad discovery config")
	// ErrLookup: the backend could not be asked, or its answer makes no sense.
	ErrLookup = errors.New("discovery lookup")
	// ErrDenied: the backend knows us not, or does not let us.
	ErrDenied = errors.New("credentials refused")
)

// maxHost is the longest name of a host in the DNS, in bytes.
const maxHost = 253

// ParsePeer reads "host:port" or "role@host:port". The port is a number from 1
// to 65535; an IPv6 address stands in brackets. The error says what is wrong
// and wraps nothing.
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
	slices.SortFunc(peers, Peer.Compare)
	return slices.Compact(peers)
}
