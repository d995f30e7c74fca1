// Package budget limits the handoffs that are in progress, and pauses voluntary moves while commands are slow.
//
// Every handoff delays the commands of a shard for a moment. The budget limits how many handoffs are
// in progress at once. Each handoff is checked against the budget before it begins. Voluntary moves
// obey every limit. Drains obey only the limits of handoffs at once: in the cluster, and per region.
// Required handoffs obey only the limit of handoffs at once in the cluster, which protects the
// coordinator.
//
// It also keeps the reports of gateways about the commands of their clients: the brake learns from them how slow
// commands are.
package budget

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/state"
)

// Need is the urgency of a handoff.
type Need uint8

const (
	// Required: the owner leaves, or does not serve the shard.
	Required Need = iota
	// Drained: an operator drains the owner.
	Drained
	// Voluntary: the shard could stay where it is.
	Voluntary
)

// NeedOf returns how urgent a handoff with the given cause is.
func NeedOf(why sharding.Cause) Need {
	switch why {
	case sharding.CauseBalance, sharding.CauseLoad, sharding.CausePin, sharding.CauseCapacity, sharding.CauseZone, sharding.CauseMove:
		return Voluntary
	case sharding.CauseDrain:
		return Drained
	}
	return Required
}

// Limit is one of the limits of the budget.
type Limit uint8

const (
	NoLimit Limit = iota
	AtOnce
	FromRegion
	ToRegion
	PerMinute
	ByBrake
)

// Budget counts the handoffs that are in progress, and decides whether another one may begin.
type Budget struct {
	handoffs int // rows in phase handing-off
	// from has the number of handoffs by owner, and to by successor.
	from, to map[sharding.NodeID]int
	// moving is the number of voluntary moves in progress. Their rows are in phase handing-off or
	// starting.
	moving   int
	freed    bool        // a handoff has ended since the last review of the rows
	begun    []time.Time // when the voluntary moves of the last minute began, oldest first; only if they are limited
	brake    brake
	gateways gateways
}

// Transit is the part of a row that the budget counts.
type Transit struct {
	sharding.Row
	Successor sharding.NodeID
	Cause     sharding.Cause
}

// Moves reports whether a voluntary move of the shard is in progress. The row keeps the cause of the
// move until the shard is given to a region other than the chosen one.
func (t Transit) Moves() bool {
	return (t.Phase == sharding.HandingOff || t.Phase == sharding.Starting && !t.Owner.IsZero()) && NeedOf(t.Cause) == Voluntary
}

// Count updates the counts after the change of a row.
func (b *Budget) Count(before, after Transit) {
	if before.Phase == sharding.HandingOff {
		b.handoffs--
		b.freed = true
		b.from = add(b.from, before.Owner, -1)
		b.to = add(b.to, before.Successor, -1)
	}
	if after.Phase == sharding.HandingOff {
		b.handoffs++
		b.from = add(b.from, after.Owner, 1)
		b.to = add(b.to, after.Successor, 1)
	}
	b.moving += toInt(after.Moves()) - toInt(before.Moves())
}

// Handoffs returns the number of handoffs in progress.
func (b *Budget) Handoffs() int { return b.handoffs }

// From returns the number of handoffs in progress from an owner.
func (b *Budget) From(owner sharding.NodeID) int { return b.from[owner] }

// To returns the number of handoffs in progress to a successor.
func (b *Budget) To(successor sharding.NodeID) int { return b.to[successor] }

// Begun returns the number of voluntary moves that began in the last minute, if they are limited.
func (b *Budget) Begun(now time.Time) int { return len(b.lastMinute(now)) }

// Freed reports whether a handoff has ended since the last call of Reviewed.
func (b *Budget) Freed() bool { return b.freed }

// Reviewed records that a review of the rows begins.
func (b *Budget) Reviewed() { b.freed = false }

// Idle reports whether nothing is counted, listed or held back.
func (b *Budget) Idle() bool { return b.handoffs == 0 && b.brake.idle() && len(b.gateways.list) == 0 }

// Brake describes the brake.
func (b *Budget) Brake(cfg *Config) BrakeView { return b.brake.view(cfg) }

// PlanEnded records that a plan has ended. Perhaps none of the plan's moves could begin.
func (b *Budget) PlanEnded() { b.brake.planEnded() }

// Gateways describes all gateways by their cards of the last whole window.
func (b *Budget) Gateways() []GatewayView { return b.gateways.views() }

// add adds change to the count of a node. It removes a count of 0.
func add(counts map[sharding.NodeID]int, n sharding.NodeID, change int) map[sharding.NodeID]int {
	if n.IsZero() {
		return counts
	}
	if counts == nil {
		counts = map[sharding.NodeID]int{}
	}
	if counts[n] += change; counts[n] == 0 {
		delete(counts, n)
	}
	return counts
}

// Exceeds returns the limit that a handoff would exceed if it began now; NoLimit: the handoff may begin.
// If the successor is not known yet, it is zero.
func (b *Budget) Exceeds(now time.Time, cfg *Config, n Need, owner, successor sharding.NodeID) Limit {
	// Invariant: handoffs keep to the budget. Moves that must happen are exempt from the brake, from the limit per
	// region and from the limit per minute. Drains are exempt from the brake and from the limit per minute.
	// Guarded by: `transit.exceeds` checks each handoff before it begins.
	// Mutants: budget-at-once, budget-per-region, budget-per-minute, required-braked, drain-braked
	//mutant:do required-braked if n == Required { n = Voluntary }
	//mutant:do drain-braked if n == Drained { n = Voluntary }
	//mutant:false budget-at-once
	if b.handoffs >= cfg.MaxHandoffs {
		return AtOnce
	}
	if most := cfg.MaxHandoffsPerRegion; most > 0 && n != Required { //mutant:false budget-per-region
		switch {
		case b.from[owner] >= most:
			return FromRegion
		case b.to[successor] >= most:
			return ToRegion
		}
	}
	if n == Voluntary {
		if room, by := b.Room(now, cfg); room <= 0 {
			return by
		}
	}
	return NoLimit
}

// Room returns how many voluntary moves may begin now, and the limit that allows the fewest. The
// limits per region are not counted.
func (b *Budget) Room(now time.Time, cfg *Config) (n int, by Limit) {
	n, by = cfg.MaxHandoffs-b.handoffs, AtOnce
	if most := cfg.MaxMovesPerMinute; most > 0 { //mutant:false budget-per-minute
		if left := b.brake.part(most) - len(b.lastMinute(now)); left < n {
			n, by = left, PerMinute
		}
	}
	// Invariant: if commands were slow in two measuring windows in a row, voluntary moves stop. Voluntary moves start
	// again by themselves. While they are stopped, the brake lets single moves through as a test (*trial moves*). So an
	// imbalance that itself makes commands slow is corrected.
	// Guarded by: `brake` of `services/coordinator`.
	// Mutants: brake, brake-two-windows, brake-samples, brake-excess, brake-trials, trial-alone, trial-judged,
	// brake-half-rate, baseline-still
	if left := b.brake.room(cfg, b.handoffs); left < n { //mutant:false brake
		n, by = left, ByBrake
	}
	return max(n, 0), by
}

// lastMinute returns the times at which the voluntary moves of the last minute began.
func (b *Budget) lastMinute(now time.Time) []time.Time {
	old := 0
	for old < len(b.begun) && now.Sub(b.begun[old]) >= time.Minute {
		old++
	}
	return b.begun[old:]
}

// MoveBegan counts a voluntary move.
func (b *Budget) MoveBegan(now time.Time, cfg *Config) {
	b.brake.moveBegan(now)
	if cfg.MaxMovesPerMinute > 0 {
		b.begun = append(slices.Clone(b.lastMinute(now)), now)
	}
}

// Clone returns an independent copy.
func (b *Budget) Clone() Budget {
	c := *b
	c.from, c.to, c.begun = maps.Clone(b.from), maps.Clone(b.to), slices.Clone(b.begun)
	c.gateways.list = slices.Clone(b.gateways.list)
	return c
}

// Check counts all rows, compares the counts, and verifies the limits.
func (b *Budget) Check(cfg *Config, rows iter.Seq[Transit]) error {
	var want Budget
	for r := range rows {
		want.Count(Transit{}, r)
	}
	if b.handoffs != want.handoffs || b.moving != want.moving || !maps.Equal(b.from, want.from) || !maps.Equal(b.to, want.to) {
		return fmt.Errorf("%d rows hand off, from %v to %v, and %d move voluntarily; counted are %d, %v, %v and %d",
			want.handoffs, want.from, want.to, want.moving, b.handoffs, b.from, b.to, b.moving)
	}
	if b.brake.idle() != b.brake.since.IsZero() {
		return fmt.Errorf("the brake is %v at 1/%d, and holds moves back since %v", b.brake.state, 1<<b.brake.halvings, b.brake.since)
	}
	if len(b.gateways.list) > cfg.MaxGateways {
		return fmt.Errorf("%d gateways are listed, at most %d may be", len(b.gateways.list), cfg.MaxGateways)
	}
	return nil
}

// AppendState appends what decides, but for what follows from the rows.
func (b *Budget) AppendState(s *state.State) {
	s.Bool(b.freed)
	for _, t := range b.lastMinute(s.Now) {
		s.Time(t)
	}
	k := &b.brake
	s.Uint(uint64(k.state))
	for _, v := range []uint64{uint64(k.baseline), uint64(k.slow), uint64(k.halvings)} {
		s.Uint(v)
	}
	s.Bool(k.moved)
	s.Bool(k.since.IsZero())
	if k.state != BrakeReleased {
		s.Time(k.stateAt)
		s.Time(k.trialAt)
		s.Bool(k.noMoves)
	}
	g := &b.gateways // without what only operators see
	s.Time(g.since)
	s.Text(string(g.all.Sketch()))
	for i := range g.list {
		s.Node(g.list[i].node)
		s.Time(g.list[i].heardAt)
	}
}

// toInt returns 1 for true, and 0 for false.
func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
