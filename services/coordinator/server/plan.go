package server

import (
	"cmp"
	"context"
	"slices"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Plan says what would move. Only what it is computed from is copied in the loop. One plan is made
// at a time: all of them together take as much of a processor as one.
func (a admin) Plan(ctx context.Context, req *adminv1.PlanRequest) (*adminv1.PlanResponse, error) {
	q := coordinator.PlanQuery{Type: sharding.EntityType(req.Type), Without: req.Without}
	if req.Strategy != "" {
		var err error
		if q.Strategy, err = a.s.cfg.strategyOf(req.Strategy); err != nil {
			return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
		}
	}
	if !a.s.proposing.TryLock() {
		return nil, twirp.NewError(twirp.Aborted, "a plan is being made for somebody else; ask again in a moment")
	}
	defer a.s.proposing.Unlock()
	var p coordinator.Proposal
	err := a.s.look(ctx, func() (err error) {
		if a.s.core.Active() == 0 {
			return a.s.errStandby()
		}
		if p, err = a.s.core.Propose(q); err != nil {
			return refusal(err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	moves, unplaced := allocation.Propose(p.Input)
	return toPlan(p, moves, unplaced), nil
}

// toPlan names the regions, and counts their shards before and after the moves.
func toPlan(p coordinator.Proposal, moves []allocation.Move, unplaced []sharding.ShardID) *adminv1.PlanResponse {
	out := &adminv1.PlanResponse{HeldBack: p.HeldBack}
	regions, owners := map[sharding.NodeID]*adminv1.PlannedRegion{}, map[sharding.ShardID]string{}
	for _, t := range p.Input.Types {
		for i := range t.View.Regions {
			r := &t.View.Regions[i]
			planned := regions[r.Node]
			if planned == nil {
				planned = &adminv1.PlannedRegion{Region: cmp.Or(r.Name, r.Node.Addr), Leaves: r.Status.Going()}
				regions[r.Node] = planned
				out.Regions = append(out.Regions, planned)
			}
			planned.Before += uint32(len(r.Shards))
			planned.After = planned.Before
			for _, s := range r.Shards {
				owners[s] = planned.Region
			}
		}
	}
	slices.SortStableFunc(out.Regions, func(a, b *adminv1.PlannedRegion) int { return cmp.Compare(a.Region, b.Region) })
	for _, m := range moves {
		from, to := regions[m.From], regions[m.To]
		from.After--
		to.After++
		out.Moves = append(out.Moves, &adminv1.PlannedMove{
			Type: string(m.Shard.Type), Index: m.Shard.Index, From: from.Region, To: to.Region, Reason: m.Reason.String(), Broken: m.Broken.String(),
		})
	}
	for _, s := range unplaced {
		out.Unplaced = append(out.Unplaced, &adminv1.UnplacedShard{Type: string(s.Type), Index: s.Index, Region: owners[s]})
	}
	return out
}
