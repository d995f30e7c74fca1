package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// planTimeout is the time limit of a plan if the request does not name one. The plan of a large cluster takes some
// seconds. No other request gets a plan meanwhile, so no request may have more than maxPlanTimeout.
const (
	planTimeout    = 30 * time.Second
	maxPlanTimeout = 10 * time.Minute
)

// Plan returns the moves that a plan would make. Only its input is copied in the loop. One plan is made at a time:
// all of them together take as much of a processor as one.
func (a *API) Plan(ctx context.Context, req *adminv1.PlanRequest) (*adminv1.PlanResponse, error) {
	q := coordinator.PlanQuery{Type: sharding.EntityType(req.Type), Without: req.Without}
	if req.Strategy != "" {
		var err error
		if q.Strategy, err = a.cfg.Strategy(req.Strategy); err != nil {
			return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
		}
	}
	if req.TimeoutMs < 0 || req.TimeoutMs > maxPlanTimeout.Milliseconds() {
		return nil, twirp.NewErrorf(twirp.InvalidArgument, "timeout_ms is %d, must be at most %d, or 0 for %d", req.TimeoutMs, maxPlanTimeout.Milliseconds(), planTimeout.Milliseconds())
	}
	timeout := cmp.Or(time.Duration(req.TimeoutMs)*time.Millisecond, planTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the plan was not ready after %v; give it more time by --timeout, or plan for one type by --type", timeout))
	defer cancel()
	if !a.proposing.TryLock() {
		return nil, twirp.NewError(twirp.Aborted, "a plan for another caller is in progress; try again in a moment")
	}
	p, err := a.propose(ctx, q)
	if err != nil {
		a.proposing.Unlock()
		return nil, err
	}
	return compute(ctx, p, a.proposing.Unlock)
}

// propose asks the core what a plan is made from.
func (a *API) propose(ctx context.Context, q coordinator.PlanQuery) (p coordinator.Proposal, err error) {
	err = a.cfg.LookActive(ctx, func(core Core) (err error) {
		if p, err = core.Propose(q); err != nil {
			return Refusal(err)
		}
		return nil
	})
	return p, err
}

// compute makes a plan, and gives up when the context ends. Its error is not a deadline error, because clients take
// that for a lost coordinator. A strategy may end only later, or never. So done is called when the plan has ended.
func compute(ctx context.Context, p coordinator.Proposal, done func()) (*adminv1.PlanResponse, error) {
	p.Input.Abandoned = func() bool { return ctx.Err() != nil }
	made := make(chan *adminv1.PlanResponse, 1)
	go func() {
		defer done()
		moves, unplaced := allocation.Propose(p.Input)
		if ctx.Err() == nil {
			made <- toPlan(p, moves, unplaced)
		}
	}()
	select {
	case out := <-made:
		return out, nil
	case <-ctx.Done():
		return nil, twirp.NewError(twirp.Aborted, context.Cause(ctx).Error())
	}
}

// toPlan names the regions, and counts their shards before and after the moves.
func toPlan(p coordinator.Proposal, moves []allocation.Move, unplaced []sharding.ShardID) *adminv1.PlanResponse {
	out := &adminv1.PlanResponse{HeldBack: p.HeldBack}
	regions, owners := map[sharding.NodeID]*adminv1.PlannedRegion{}, map[sharding.ShardID]string{}
	total, capacity := map[*adminv1.PlannedRegion]int{}, map[*adminv1.PlannedRegion]int{} // of all types
	for _, t := range p.Input.Types {
		for i := range t.View.Regions {
			r := &t.View.Regions[i]
			planned := regions[r.Node]
			if planned == nil {
				planned = &adminv1.PlannedRegion{Region: cmp.Or(r.Name, r.Node.Addr), Leaves: r.Status.Going(), Cordoned: r.Cordoned}
				total[planned], capacity[planned] = r.Total, r.Capacity
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
	for _, r := range out.Regions {
		r.Full = capacity[r] > 0 && total[r]+int(r.After)-int(r.Before) >= capacity[r]
	}
	for _, s := range unplaced {
		out.Unplaced = append(out.Unplaced, &adminv1.UnplacedShard{Type: string(s.Type), Index: s.Index, Region: owners[s]})
	}
	return out
}
