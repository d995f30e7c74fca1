package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Every handoff delays the commands of a shard for a moment. The budget limits how many handoffs are
// in progress at once. Each handoff is checked against the budget before it begins. Voluntary moves
// obey every limit. Drains obey only the limits of handoffs at once: in the cluster, and per region.
// Required handoffs obey only the limit of handoffs at once in the cluster, which protects the
// coordinator.

// need is the urgency of a handoff.
type need uint8

const (
	// required: the owner leaves, or does not serve the shard.
	required need = iota
	// drained: an operator drains the owner.
	drained
	// voluntary: the shard could stay where it is.
	voluntary
)

// needOf returns how urgent a handoff with the given cause is.
func needOf(why sharding.Cause) need {
	switch why {
	case sharding.CauseBalance, sharding.CauseLoad, sharding.CausePin, sharding.CauseCapacity, sharding.CauseZone, sharding.CauseMove:
		return voluntary
	case sharding.CauseDrain:
		return drained
	}
	return required
}

// limit is one of the limits of the budget.
type limit uint8

const (
	noLimit limit = iota
	limitAtOnce
	limitFrom
	limitTo
	limitPerMinute
	limitBrake
)

// budget counts the handoffs that are in progress, and decides whether another one may begin.
type budget struct {
	handoffs int // rows in phase handing-off
	// from has the number of handoffs by owner, and to by successor.
	from, to map[sharding.NodeID]int
	// moving is the number of voluntary moves in progress. Their rows are in phase handing-off or
	// starting.
	moving int
	freed  bool        // a handoff has ended since the last review of the rows
	begun  []time.Time // when the voluntary moves of the last minute began, oldest first; only if they are limited
	brake  brake
}

// count updates the counts after the change of a row.
func (b *budget) count(before, after *row) {
	if before.Phase == sharding.HandingOff {
		b.handoffs--
		b.freed = true
		b.from = add(b.from, before.Owner, -1)
		b.to = add(b.to, before.successor, -1)
	}
	if after.Phase == sharding.HandingOff {
		b.handoffs++
		b.from = add(b.from, after.Owner, 1)
		b.to = add(b.to, after.successor, 1)
	}
	b.moving += toInt(after.moves()) - toInt(before.moves())
}

// moves reports whether a voluntary move of the shard is in progress. The row keeps the cause of the
// move until the shard is given to a region other than the chosen one.
func (r *row) moves() bool { return inTransit(r.Row) && needOf(r.cause) == voluntary }

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

// exceeds returns the limit that a handoff would exceed if it began now; noLimit: the handoff may begin.
// If the successor is not known yet, it is zero.
func (b *budget) exceeds(now time.Time, cfg *Config, n need, owner, successor sharding.NodeID) limit {
	if mutant.On("required-braked") && n == required || mutant.On("drain-braked") && n == drained {
		n = voluntary
	}
	if b.handoffs >= cfg.MaxHandoffs && !mutant.On("budget-at-once") {
		return limitAtOnce
	}
	if most := cfg.MaxHandoffsPerRegion; most > 0 && n != required && !mutant.On("budget-per-region") {
		switch {
		case b.from[owner] >= most:
			return limitFrom
		case b.to[successor] >= most:
			return limitTo
		}
	}
	if n == voluntary {
		if room, by := b.room(now, cfg); room <= 0 {
			return by
		}
	}
	return noLimit
}

// room returns how many voluntary moves may begin now, and the limit that allows the fewest. The
// limits per region are not counted.
func (b *budget) room(now time.Time, cfg *Config) (n int, by limit) {
	n, by = cfg.MaxHandoffs-b.handoffs, limitAtOnce
	if most := cfg.MaxMovesPerMinute; most > 0 && !mutant.On("budget-per-minute") {
		if left := b.brake.part(most) - len(b.lastMinute(now)); left < n {
			n, by = left, limitPerMinute
		}
	}
	if left := b.brake.room(cfg, b.handoffs); left < n && !mutant.On("brake") {
		n, by = left, limitBrake
	}
	return max(n, 0), by
}

// lastMinute returns the times at which the voluntary moves of the last minute began.
func (b *budget) lastMinute(now time.Time) []time.Time {
	old := 0
	for old < len(b.begun) && now.Sub(b.begun[old]) >= time.Minute {
		old++
	}
	return b.begun[old:]
}

// moveBegan counts a voluntary move.
func (b *budget) moveBegan(now time.Time, cfg *Config) {
	b.brake.moveBegan(now)
	if cfg.MaxMovesPerMinute > 0 {
		b.begun = append(slices.Clone(b.lastMinute(now)), now)
	}
}

func (b *budget) clone() budget {
	c := *b
	c.from, c.to, c.begun = maps.Clone(b.from), maps.Clone(b.to), slices.Clone(b.begun)
	return c
}
