package node

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/security"
)

// Status is how a process is set up and how near to its limits it is, for operators.
type Status struct {
	// TLS is true if it talks to peers by TLS, Verifies if it takes only peers with a certificate of
	// its authority, and ServiceTLS if its service listener has TLS.
	TLS, Verifies, ServiceTLS bool
	Expires                   time.Time // of the certificate in use; zero: there is none
	// AnyRole is true if peers with certificates that name no role are accepted, and Shared if the own certificate names
	// its role, and not this node.
	AnyRole, Shared bool
	ExpiredPeers    []security.Expired // peers that were refused in the last hour, because their certificates had expired
	// Local and ManagementLocal say that the listeners are on loopback.
	Local, ManagementLocal, Pprof bool
	// ManagementGuarded is true if the management listener asks for tokens or certificates.
	ManagementGuarded            bool
	ManagementTLS                bool
	Connections, MostConnections int    // of the service listener
	MemoryUsed, MemoryLimit      uint64 // bytes; limit 0: there is none
	// Host tells machines apart. Containers of one machine have the same.
	Host string
}

// Status returns how the process is set up.
func (n *Node) Status() Status {
	c := n.config
	s := Status{
		TLS: n.peers.Files != nil, Verifies: c.TLS.CA != "" && c.TLS.ClientAuth != "none", ServiceTLS: n.service.files != nil, ManagementTLS: c.Management.Cert != "", ManagementGuarded: c.Management.Tokens != "" || c.Management.CA != "",
		Local: loopback(n.service.Addr()), ManagementLocal: loopback(n.management.Addr()), Pprof: c.Management.Pprof,
		Connections: int(n.service.clients.open.Load()), MostConnections: int(n.service.clients.limit), Host: machine(),
	}
	if n.peers.Files != nil {
		s.AnyRole, s.ExpiredPeers = s.Verifies && c.Roles != config.RequireRoles, n.peers.Files.RecentlyExpired()
		if leaf, expires, err := n.peers.Files.Own(); err == nil {
			s.Expires = expires
			is, err := n.peers.Files.Identify(leaf)
			s.Shared = err == nil && is.Node == "" && is.Roles != control.Anybody
		}
	}
	s.MemoryUsed = memoryUsed()
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 { // it changes nothing
		s.MemoryLimit = uint64(limit)
	}
	return s
}

// memoryUsed returns the memory that the runtime has from the system, in bytes: what a memory limit is about.
func memoryUsed() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// machine is the same for all processes of a running kernel, where there is such a number, and otherwise the name of
// the host.
func machine() string {
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return strings.TrimSpace(string(id))
	}
	name, _ := os.Hostname() // empty: not known
	return name
}
