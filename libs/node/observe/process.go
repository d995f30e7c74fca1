package observe

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/node"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// Process returns how a process is set up, without what only its service knows.
func Process(n *node.Node, role string) *inspectionv1.Process {
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

// clock is how a journal shows the clock of its store.
type clock interface {
	ReadClock(ctx context.Context) error
	ClockAhead() (time.Duration, bool)
}

// DescribeClock adds the clock of the journal's store. If it is not answered in time, the newest reading counts.
func DescribeClock(ctx context.Context, p *inspectionv1.Process, j clock) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	_ = j.ReadClock(ctx) // what else is wrong with the journal is shown elsewhere
	if ahead, known := j.ClockAhead(); known {
		p.StoreNowUnixMs = p.NowUnixMs + ahead.Milliseconds()
	}
}

// DescribeJournal adds where the journal is, and what it warns of.
func DescribeJournal(p *inspectionv1.Process, rawURL string, warning error) {
	if p.Journal, _, _ = strings.Cut(rawURL, ":"); warning != nil {
		p.JournalWarning = text(warning)
	}
	if u, err := url.Parse(rawURL); err == nil && u.Scheme == "sqlite" {
		file := u.Path
		if file == "" {
			file = u.Opaque
		}
		p.DiskFree, p.DiskSize = node.Disk(filepath.Dir(file))
	}
}

// DescribeLease adds where the lease is, and why it cannot be used.
func DescribeLease(p *inspectionv1.Process, rawURL string, unusable error) {
	if p.Lease, _, _ = strings.Cut(rawURL, ":"); unusable != nil {
		p.LeaseError = text(unusable)
	}
}
