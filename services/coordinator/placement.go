package coordinator

import (
	"slices"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
	"github.com/roost-cluster/roost/services/coordinator/internal/intent"
)

// placement chooses regions for shards. Its methods read the nouns and change none of them: they filter the regions by
// what these read, may take and are to get, and leave the choice among the rest to the strategy.
type placement struct {
	step
	term    term
	ledger  ledger
	live    liveness
	table   table
	intent  intent.Intent
	rollout rollout
	scratch []allocation.Region
}

// view returns what the strategy sees of a type: the candidates that read the forms, without the node
// except. The view is valid until the next call of view.
func (pl *placement) view(t *typeTable, except sharding.NodeID, forms sharding.FormSet, candidate func(*region) bool) allocation.View {
	v := pl.scratch[:0]
	for i := range pl.live.regions {
		if r := &pl.live.regions[i]; r.node != except && r.readable(t.desc.Type, forms) && candidate(r) {
			v = append(v, pl.regionView(t, r))
		}
	}
	pl.scratch = v
	return allocation.View{Type: t.desc.Type, Regions: v, Pins: pl.intent.Pinned(t.desc.Type), ShardLoads: pl.shardLoads(t)}
}

// choose returns the node that is to own the shard of a row. The node reads the forms, and is not the node
// except; zero: there is no such node now. If the row has a successor, and the shard may still go to it,
// choose returns the successor; otherwise the strategy chooses. Regions that are being drained are the last
// resort: a shard is better served there than not at all.
func (pl *placement) choose(t *typeTable, r *row, except sharding.NodeID, forms sharding.FormSet) sharding.NodeID {
	if pl.succeeds(t, r, except, forms) {
		return r.successor
	}
	if !pl.term.recovered || !pl.term.open {
		return sharding.NodeID{}
	}
	v := pl.view(t, except, forms, (*region).candidate)
	if len(v.Regions) == 0 {
		v = pl.view(t, except, forms, (*region).lastResort)
	}
	v, _ = allocation.Candidates(pl.preferTarget(t, v, r.Shard), r.Shard)
	to := pl.cfg.strategy(t.desc.Type).Allocate(v, r.Shard)
	if !slices.ContainsFunc(v.Regions, func(r allocation.Region) bool { return r.Node == to }) {
		return sharding.NodeID{}
	}
	return to
}

// succeeds reports whether the shard of a row goes to the successor that was named for it. In this case a
// new coordinator need not wait until all regions have registered, because the choice is made already. If
// a rollout has begun since the successor was named, and prefers another region, succeeds returns
// false.
func (pl *placement) succeeds(t *typeTable, r *row, except sharding.NodeID, forms sharding.FormSet) bool {
	to := pl.live.region(r.successor)
	// Invariant: a planned move goes where the plan says, even if another coordinator becomes active meanwhile. There
	// is one exception: the planned region can no longer be given shards.
	// Guarded by: `coordinator.succeeds`. The fact that begins the handoff names the successor.
	// Mutants: successor, successor-checked
	//mutant:true successor-checked to.candidate() && to.readable(t.desc.Type, forms)
	//mutant:false successor
	return to != nil && to.node != except && to.candidate() && to.readable(t.desc.Type, forms) &&
		pl.wanted(t, r, to, except, forms) && pl.rolloutWants(t, r, to, except, forms)
}

// wanted reports whether operators still want the successor. Since it was named, they may have pinned the
// shard to another region, or cordoned the successor. This counts only if another region satisfies the pin or
// is not cordoned. If there is no such region, a new choice would be no better. It might even fall on the
// former owner, and then the next plan would move the shard again.
func (pl *placement) wanted(t *typeTable, r *row, to *region, except sharding.NodeID, forms sharding.FormSet) bool {
	pin, cordoned := pl.intent.PinnedTo(r.Shard), pl.intent.Cordoned(to.name)
	if to.name == pin || pin == "" && !cordoned { //mutant:true successor-wanted
		return true
	}
	return !slices.ContainsFunc(pl.live.regions, func(o region) bool {
		better := o.name == pin && pin != "" || cordoned && !pl.intent.Cordoned(o.name)
		return better && o.node != except && o.candidate() && o.readable(t.desc.Type, forms)
	})
}

// typeView returns the view of a type for strategies. It has all regions that host the type, except
// regions that do not reach the journal, or have reached it again only recently, and regions whose name
// another one holds.
func (pl *placement) typeView(t *typeTable) allocation.View {
	v := allocation.View{Type: t.desc.Type, Pins: pl.intent.Pinned(t.desc.Type), ShardLoads: pl.shardLoads(t)}
	for i := range pl.live.regions {
		if r := &pl.live.regions[i]; r.registered && r.hosts(t.desc.Type) && !r.cutOff() && !r.recovering() && pl.live.holder(r) == nil {
			rv := pl.regionView(t, r)
			switch rv.Unreachable = !r.reachable; {
			case r.givesUpShards():
				rv.Status = allocation.Leaving
			case !r.present():
				rv.Status = allocation.Joining
			}
			v.Regions = append(v.Regions, rv)
		}
	}
	return v
}

// regionView returns the view of a region for strategies.
func (pl *placement) regionView(t *typeTable, r *region) allocation.Region {
	return allocation.Region{
		Node: r.node, Name: r.name, Zone: r.zone, Version: r.version, Capacity: int(r.capacity),
		Total: pl.table.expectedShards[r.node], Load: pl.loadOf(r), Processors: processorsOf(r.load.node),
		Cordoned: pl.intent.Cordoned(r.name), Reads: r.formsOf(t.desc.Type).reads, Shards: shardsIn(t.expected, r.node),
	}
}

// unreadable reports whether there are regions that could serve a shard with these forms,
// but none reads them.
func (pl *placement) unreadable(t *typeTable, forms sharding.FormSet) bool {
	return pl.term.recovered && pl.term.open &&
		len(pl.view(t, sharding.NodeID{}, "", (*region).lastResort).Regions) > 0 &&
		len(pl.view(t, sharding.NodeID{}, forms, (*region).lastResort).Regions) == 0
}

// reason returns the reason why a row has no owner now.
func (pl *placement) reason(t *typeTable, forms sharding.FormSet) sharding.RowReason {
	if pl.unreadable(t, forms) {
		return sharding.Unreadable
	}
	return 0
}

// owned returns the row of a shard if the node is its owner according to a durable fact. Before the fact is
// durable, the node cannot have heard of it, so its message is about something else and is ignored. The
// node repeats the message when it gets the order again.
func (pl *placement) owned(s sharding.ShardID, by sharding.NodeID) (*typeTable, *row) {
	t, r := pl.table.find(s)
	if r == nil || by.IsZero() || r.Owner != by || pl.ledger.pending(r.number) {
		return nil, nil
	}
	return t, r
}

// succeeding returns the row of a shard if the node is the shard's successor and e is the reserved epoch.
// Once the owner has released the shard, the successor may claim it, even if the coordinator does not know
// of the release yet. So the row need not be marked as released.
func (pl *placement) succeeding(s sharding.ShardID, by sharding.NodeID, e sharding.Epoch) *row {
	_, r := pl.table.find(s)
	//mutant:false next-epoch r.next != e
	if r == nil || r.next == 0 || r.successor != by || r.next != e || pl.ledger.pending(r.number) {
		return nil
	}
	return r
}

// willSayWhatItWrote reports whether the coordinator must wait for the ShardStopped of the old owner before
// it stores that the successor serves the shard. ShardStopped says in which forms the old owner has stored
// something, and may come after the ShardStarted of the successor. If it were ignored, all forms that the
// old owner writes would count as stored permanently, and regions that do not read them could never get the
// shard. If the old owner writes no further forms, or cannot answer, there is nothing to wait for.
func (pl *placement) willSayWhatItWrote(r *row) bool {
	owner := pl.live.region(r.Owner)
	//mutant:false wrote-awaited
	return !r.released && owner != nil && owner.registered && owner.reachable && r.left() != r.before
}

// choiceWaits reports whether the choice of a successor must wait until the owner has stopped the shard. This is so
// if some region does not read all forms that the owner may store. ShardStopped lists the forms that the owner has
// stored, so perhaps the region can take the shard after all.
func (pl *placement) choiceWaits(t *typeTable, r *row) bool {
	//mutant:false choice-waits
	return slices.ContainsFunc(pl.live.regions, func(o region) bool {
		return o.node != r.Owner && o.lastResort() && o.readable(t.desc.Type, r.before) && !o.readable(t.desc.Type, r.stored())
	})
}

// lost reports whether an owner counts as lost, so that its shards need not wait for it. A nil owner is not a member.
// A volatile shard waits until its owner is no longer a member.
func lost(t *typeTable, owner *region) bool {
	return owner == nil || !t.desc.Volatile && !(owner.registered && owner.reachable)
}

// causeOfLoss returns the cause for allocating the shard of a row to another region without waiting for its owner. If
// the shard has no owner, and the region was here when the shard lost its owner, or may have been, it returns the
// cause of that loss.
func (pl *placement) causeOfLoss(r *row, owner *region, t *typeTable, to sharding.NodeID) sharding.Cause {
	switch {
	case r.Owner.IsZero():
		came := r.since.After(pl.term.since) && pl.live.region(to).came.After(r.since)
		if came || r.cause == 0 || r.cause == sharding.CauseUnreadable || budget.NeedOf(r.cause) == budget.Voluntary {
			return sharding.CauseRegionCame
		}
		return r.cause
	case lost(t, owner):
		return sharding.CauseRegionLost
	}
	return sharding.CauseJournalCutOff
}

// causeOfLeaving returns the cause for handing off the shards of a region.
func (pl *placement) causeOfLeaving(owner *region) sharding.Cause {
	switch {
	case !owner.leaving():
		return sharding.CauseDrain
	case pl.frozenByRollout() && owner.version != pl.intent.Target().Version:
		return sharding.CauseRollout
	}
	return sharding.CauseLeave
}
