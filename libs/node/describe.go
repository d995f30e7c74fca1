package node

import (
	"time"

	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// Describe returns how this process is set up, without what only its service knows.
func (n *Node) Describe(role string) *inspectionv1.Process {
	s, v := n.Status(), n.Version()
	out := &inspectionv1.Process{
		Role: role, Name: n.Name(), Addr: n.Advertise(), Version: v.Roost, Host: s.Host, NowUnixMs: time.Now().UnixMilli(),
		Tls: s.TLS, Verifies: s.Verifies, PublicTls: s.ServiceTLS, Local: s.Local, ManagementLocal: s.ManagementLocal, Pprof: s.Pprof, ManagementGuarded: s.ManagementGuarded, ManagementTls: s.ManagementTLS, AnyRole: s.AnyRole, Shared: s.Shared,
		Certificate: !s.Expires.IsZero(), MemoryUsed: s.MemoryUsed, MemoryLimit: s.MemoryLimit,
		Connections: uint32(s.Connections), ConnectionsLimit: uint32(s.MostConnections),
	}
	for _, x := range s.ExpiredPeers {
		out.Expired = append(out.Expired, &inspectionv1.ExpiredPeer{Name: x.Name, EndUnixMs: x.End.UnixMilli()})
	}
	if out.Certificate {
		out.CertificateS = int64(time.Until(s.Expires).Seconds())
	}
	return out
}
