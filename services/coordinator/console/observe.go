package console

import (
	"context"
	"time"

	"github.com/roost-cluster/roost/libs/diagnosis"
	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Observe returns what this coordinator knows of an entity's shard, and of the shard's fence in the journal.
func (a *API) Observe(ctx context.Context, req *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
	entity := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	out := &inspectionv1.Observation{Name: a.cfg.Name}
	var report coordinator.ShardReport
	var open Journal
	c := &inspectionv1.CoordinatorObservation{}
	err := a.cfg.Look(ctx, func(core Core) error {
		term := core.ActiveTerm()
		if c.Active, c.Term = term != 0, uint32(term); c.Active {
			c.ActiveAddr = a.cfg.Self.Addr
			report, open = core.Report(entity), a.cfg.Journal()
			return nil
		}
		c.ActiveAddr = a.cfg.ActiveAddr()
		if err := a.cfg.LeaseUsable(); err != nil {
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
	a.describeReport(&report, c)
	if report.Known {
		out.Journal = diagnosis.JournalReport(open.Report(ctx, report.Shard)).Observation()
	}
	return out, nil
}

// describeReport writes a report of the core into an answer, with the state of the regions in the membership.
func (a *API) describeReport(r *coordinator.ShardReport, c *inspectionv1.CoordinatorObservation) {
	now := time.Now()
	for _, g := range r.Gateways {
		c.Gateways = append(c.Gateways, &inspectionv1.ObservedGateway{Addr: g.Node.Addr, Uid: uint64(g.Node.UID), Management: g.Management, Peers: g.Peers, HeardMs: diagnosis.Heard(now, g.HeardAt)})
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
	c.Row, c.SinceMs = diagnosis.Row(r.Row), diagnosis.Since(now, r.Since)
	c.Owner, c.Next, c.Released, c.Cause = r.Region, r.Next.Name, r.Released, r.Cause.String()
	c.NextAddr, c.NextUid, c.KeptBy = r.Successor.Addr, uint64(r.Successor.UID), r.KeptBy.Addr
	c.Hosts, c.Usable = uint32(r.Hosts), uint32(r.Usable)
	if u := r.Missing; u != nil {
		c.Forms, c.By = formTexts(u.Forms), u.By
	}
	c.Member, c.NextMember = a.observeMember(r.Row.Owner, &r.Owner, now), a.observeMember(r.Successor, &r.Next, now)
}

// observeMember returns the state of a region in the membership; nil: the region is not a member.
func (a *API) observeMember(n sharding.NodeID, r *coordinator.ShardReportRegion, now time.Time) *inspectionv1.ObservedMember {
	m, ok := a.cfg.Members.Members().Member(n)
	if !ok {
		return nil
	}
	return &inspectionv1.ObservedMember{
		Name: m.Name, Status: m.Status.String(), Reachable: m.Reachable && m.ReachableByMe, UnreachableMs: diagnosis.Since(now, m.UnreachableSince),
		Registered: r.Registered, Journal: r.Journal.String(), Draining: r.Draining, Cordoned: r.Cordoned,
	}
}
