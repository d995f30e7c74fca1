package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/diagnosis"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/observe"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// serveDiagnosis answers the questions of other processes, and explains entities for operators.
func (s *Server) serveDiagnosis(n *node.Node) {
	n.HandlePeers(inspectionv1.ObserverPathPrefix, control.Coordinator|control.Gateway, inspectionv1.NewObserverServer(observe.NewObserver(s.cfg.ClusterName, s.self, s.observe, s.describe)))
	n.HandleManagementRead(adminv1.DiagnosisPathPrefix, http.Handler(adminv1.NewDiagnosisServer(observe.Explainer{
		Cluster: s.cfg.ClusterName, Name: s.name, Self: s.self, Role: diagnosis.Coordinator, Peers: s.peers, Observe: s.observe, Coordinators: s.otherCoordinators,
	}.Ready())))
}

// describe returns how this coordinator is set up. It may be called before the stores are open.
func (s *Server) describe() *inspectionv1.Process {
	p := observe.Process(s.node, "coordinator")
	var warning, unusable error
	ctx, cancel := context.WithTimeout(s.ctx, observe.Patience)
	defer cancel()
	if err := s.look(ctx, func() error { // the loop runs when the stores are open
		warning, unusable = errors.Join(s.journal.Warning(), s.journal.Failure()), s.keeper.Usable()
		return nil
	}); err != nil {
		warning, unusable = nil, nil
	}
	p.ShowPayloads, p.TryCommands = s.cfg.ShowPayloads, s.cfg.TryCommands
	observe.DescribeJournal(p, s.cfg.Journal.URL, warning)
	observe.DescribeLease(p, s.cfg.Lease, unusable)
	return p
}

// otherCoordinators returns the addresses of the members that may be the active coordinator. A standby that
// does not know the active coordinator asks all of them.
func (s *Server) otherCoordinators() (addrs []string) {
	for _, m := range s.agent.Members().OldestFirst("coordinator") {
		if m.Node != s.self {
			addrs = append(addrs, m.Node.Addr)
		}
	}
	return addrs
}

// observe returns what this coordinator knows of an entity's shard, and of the shard's fence in the journal.
func (s *Server) observe(ctx context.Context, req *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
	entity := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	out := &inspectionv1.Observation{Name: s.name}
	var report coordinator.ShardReport
	var open *commit.Journal
	c := &inspectionv1.CoordinatorObservation{}
	err := s.look(ctx, func() error {
		term := s.core.ActiveTerm()
		if c.Active, c.Term, c.ActiveAddr = term != 0, uint32(term), s.known.Node.Addr; c.Active {
			c.ActiveAddr = s.self.Addr
			report, open = s.core.Report(entity), s.journal
		} else if _, over := s.leaseOver(s.known.Node); over || s.known.Node == s.self { // it has stepped down
			c.ActiveAddr = ""
		}
		if err := s.keeper.Usable(); err != nil && !c.Active {
			c.Lease = err.Error()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if out.Coordinator = c; !c.Active {
		return out, nil
	}
	s.describeReport(&report, c)
	if report.Known {
		out.Journal = observe.JournalReport(open.Report(ctx, report.Shard)).Observation()
	}
	return out, nil
}

// describeReport writes a report of the core into an answer, with the state of the regions in the membership.
func (s *Server) describeReport(r *coordinator.ShardReport, c *inspectionv1.CoordinatorObservation) {
	now := time.Now()
	for _, g := range r.Gateways {
		c.Gateways = append(c.Gateways, &inspectionv1.ObservedGateway{Addr: g.Node.Addr, Uid: uint64(g.Node.UID), Management: g.Management, Peers: g.Peers, HeardMs: observe.Heard(now, g.HeardAt)})
	}
	for _, t := range r.Types {
		c.Types = append(c.Types, string(t))
	}
	c.Handoffs, c.MaxHandoffs = uint32(r.Handoffs), uint32(r.MaxHandoffs)
	c.MinRegions, c.Recovering = uint32(r.MinRegions), r.Recovering
	if len(r.HeldBack) > 0 {
		c.HeldBack = r.HeldBack[0]
	}
	if c.TypeKnown = r.Known; !r.Known {
		return
	}
	c.Row, c.SinceMs = observe.Row(r.Row), observe.Since(now, r.Since)
	c.Owner, c.Next, c.Released, c.Cause = r.Region, r.Next.Name, r.Released, r.Cause.String()
	c.NextAddr, c.NextUid, c.KeptBy = r.Successor.Addr, uint64(r.Successor.UID), r.KeptBy.Addr
	c.Hosts, c.Usable = uint32(r.Hosts), uint32(r.Usable)
	if u := r.Missing; u != nil {
		c.Forms, c.By = formTexts(u.Forms), u.By
	}
	c.Member, c.NextMember = s.observeMember(r.Row.Owner, &r.Owner, now), s.observeMember(r.Successor, &r.Next, now)
}

// observeMember returns the state of a region in the membership; nil: the region is not a member.
func (s *Server) observeMember(n sharding.NodeID, r *coordinator.ShardReportRegion, now time.Time) *inspectionv1.ObservedMember {
	m, ok := s.agent.Members().Member(n)
	if !ok {
		return nil
	}
	return &inspectionv1.ObservedMember{
		Name: m.Name, Status: m.Status.String(), Reachable: m.Reachable && m.ReachableByMe, UnreachableMs: observe.Since(now, m.UnreachableSince),
		Registered: r.Registered, Journal: r.Journal.String(), Draining: r.Draining, Cordoned: r.Cordoned,
	}
}
