package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A rollout replaces the regions of other application versions by regions of the target version. The
// target version is a fact. It is not derived from the regions that are there. So a process of the old
// version that restarts in the middle of a rollout changes nothing, and a new coordinator continues the
// rollout. Versions have no order, so going back is a rollout like any other.
//
// While a rollout is on, nothing moves for balance: almost every shard is about to move
// anyway. A shard that needs a place goes to a region of the target version, so that it
// moves once. A region of the target version takes at most [Config.RolloutShare] times its fair share. So
// the first new region does not get all shards, and the last old region does not keep the rest alone.

// rollout is the progress of a rollout. The target version is in intent.
type rollout struct {
	// stepAt is the time when a region last came or went. goneAt is the time when the last region with the target
	// version went; zero: some region has it.
	stepAt, goneAt time.Time
}

// registeredVersion is called when a region has registered. If the region's version was never seen before,
// the version becomes the target. A version that was seen before becomes the target only if other regions
// are registered, and none of them has this version or the target version. A region without a version
// changes nothing.
func (m *Machine) registeredVersion(r *region) {
	v, target := r.version, m.intent.Target()
	if v == target.Version {
		m.rollout.goneAt = time.Time{}
	}
	if v == "" || v == target.Version {
		return
	}
	others, ofTarget := 0, 0
	for i := range m.live.regions {
		if o := &m.live.regions[i]; o.registered && o.node != r.node {
			if o.version == v {
				return
			}
			others++
			ofTarget += toInt(o.version == target.Version)
		}
	}
	seen := slices.Contains(target.Seen, v) //mutant:false target-seen
	if !seen || others > 0 && ofTarget == 0 && m.allSpoken(r.node) {
		m.setTarget(v, r.label()+" has registered")
	}
}

// setTarget makes a version the target of rollouts. The log reports the reason.
func (m *Machine) setTarget(v, why string) {
	if v == "" || v == m.intent.Target().Version || !m.term.active {
		return
	}
	m.changeTarget(m.nextTargetFact(v), why)
}

// nextTargetFact returns the fact that makes a version the target.
func (pl *placement) nextTargetFact(v string) TargetFact {
	f, before := TargetFact{Version: v}, pl.intent.Target()
	for _, s := range append(slices.Clone(before.Seen), before.Version) {
		if s != "" && s != v {
			f.Seen = append(f.Seen, s)
		}
	}
	f.Seen = f.Seen[max(0, len(f.Seen)-pl.cfg.MaxVersions):]
	return f
}

// changeTarget makes a version the target. The log reports the reason.
func (m *Machine) changeTarget(f TargetFact, why string) {
	m.why.explain(&m.placement, Explanation{Kind: Requested, Request: "target version " + f.Version, Reason: why})
	m.commit(f, TargetSet{Version: f.Version, Before: m.intent.Target().Version, Why: why})
	m.rollout.stepAt, m.rollout.goneAt = m.now, time.Time{}
	m.checkTarget()
}

// checkTarget gives up a target version that no region runs any more. If all regions have one other
// version for long enough, this version becomes the target, although no operator has said so. Before that,
// the target stays, so that the last region of the target version may crash and come back. How long the
// target version has been away is not stored: a new coordinator counts anew.
func (m *Machine) checkTarget() {
	if !m.term.recovered || !m.targetAway() {
		m.rollout.goneAt = time.Time{}
		return
	}
	if m.rollout.goneAt.IsZero() {
		m.rollout.goneAt = m.now
	}
	if next, in := m.nextTarget(); next != "" && in == 0 && !m.ledger.pending(m.ledger.targetFact) {
		m.setTarget(next, fmt.Sprintf("for %v no region has run %s, and all run %s", m.cfg.RolloutFreeze, m.intent.Target().Version, next))
	}
}

// nextTarget returns the version that becomes the target unless a region of the present target version
// comes, and the time until then. If the regions do not all have the same version, it returns "".
func (pl *placement) nextTarget() (next string, in time.Duration) {
	if pl.rollout.goneAt.IsZero() {
		return "", 0
	}
	for i := range pl.live.regions {
		r := &pl.live.regions[i]
		switch {
		case !r.registered:
			//mutant:false target-lapse-shared next != "" && r.version != next
		case r.version == "", next != "" && r.version != next:
			return "", 0
		default:
			next = r.version
		}
	}
	// Invariant: if no operator decides and no region registers anew, a target version is given up only under two
	// conditions: for a while no region has had the target version, and all regions have one other version.
	// Mutants: target-lapse-at-once, target-lapse-shared
	if next == "" { //mutant:true target-lapse-at-once
		return next, 0
	}
	return next, max(0, pl.rollout.goneAt.Add(pl.cfg.RolloutFreeze).Sub(pl.now))
}

// rollingOut reports whether regions of the target version and of another one are here.
func (pl *placement) rollingOut() bool {
	version := pl.intent.Target().Version
	if version == "" {
		return false
	}
	var target, other bool
	for i := range pl.live.regions {
		if r := &pl.live.regions[i]; r.present() {
			target = target || r.version == version
			other = other || r.version != version
		}
	}
	return target && other
}

// frozenByRollout reports whether a rollout freezes moves: it is on, and a region has come or gone within
// [Config.RolloutFreeze]. A rollout that stands still is treated like any cluster of several
// versions, such as one with a canary. For an operator's freeze, see frozenByOperator.
func (pl *placement) frozenByRollout() bool { return pl.rolloutFreezeLeft() > 0 }

// rolloutFreezeLeft returns the remaining time of a rollout's freeze if no region comes or goes.
func (pl *placement) rolloutFreezeLeft() time.Duration {
	if !pl.rollingOut() {
		return 0
	}
	return max(0, pl.rollout.stepAt.Add(pl.cfg.RolloutFreeze).Sub(pl.now))
}

// preferTarget narrows the view of the strategy in a rollout to the regions of the target version that have
// room, if there are any. Pins, cordons and the capacity of regions count more than the version; zones
// count less.
func (pl *placement) preferTarget(t *typeTable, v allocation.View, s sharding.ShardID) allocation.View {
	// Invariant: in a rollout, a shard goes to a region of the target version as long as such a region has room. In a
	// rollout, nothing moves for balance.
	// Mutants: move-once, rollout-freeze
	if !pl.frozenByRollout() { //mutant:true move-once
		return v
	}
	return pl.rolloutTarget().Preferred(v, s, pl.rolloutRoom(t))
}

// rolloutTarget returns the regions that a rollout prefers now; the zero value: no rollout is on.
func (pl *placement) rolloutTarget() allocation.Target {
	if !pl.frozenByRollout() {
		return allocation.Target{}
	}
	return allocation.Target{Version: pl.intent.Target().Version, Share: pl.cfg.RolloutShare}
}

// rolloutWants reports whether a rollout agrees with the choice of a successor: the rollout prefers this
// region, or prefers none. If no rollout is on, it returns true.
func (pl *placement) rolloutWants(t *typeTable, r *row, to *region, except sharding.NodeID, forms sharding.FormSet) bool {
	if !pl.frozenByRollout() || to.version == pl.intent.Target().Version {
		return true
	}
	v := pl.preferTarget(t, pl.view(t, except, forms, (*region).candidate), r.Shard)
	return slices.ContainsFunc(v.Regions, func(o allocation.Region) bool { return o.Node == to.node })
}

// rolloutRoom returns how many shards of a type a region may have before a rollout prefers other regions:
// its fair share among the candidates, times [Config.RolloutShare].
func (pl *placement) rolloutRoom(t *typeTable) int {
	hosts := 0
	for i := range pl.live.regions {
		r := &pl.live.regions[i]
		hosts += toInt(r.hosts(t.desc.Type) && r.candidate())
	}
	owned := 0 // shards of the type that have an owner; others may never have been used
	for i := range t.owned {
		owned += len(t.owned[i].shards)
	}
	return allocation.Target{Share: pl.cfg.RolloutShare}.Room(owned, hosts)
}

// countDue answers how many shards are about to come to a region because of a rollout. A platform waits
// until the answer is 0 before it stops the next old region. So the shards of two old regions are not on
// their way at the same time. Shards that come only because of an operator's request are not counted. A
// region that is not up yet gets no shards, so it must ask again.
func (m *Machine) countDue(node sharding.NodeID, call control.Call) {
	r := m.live.region(node)
	if r == nil || !r.registered || r.joining || !m.term.recovered { //mutant:false ready-up r.joining
		m.term.askAgain(&m.step, call)
		return
	}
	due := 0
	// Invariant: a region becomes ready when the region is up and all shards that a rollout brings to the region have
	// arrived. From then on the region stays ready.
	// Mutants: ready-waits, ready-up, ready-latch
	if m.term.open && m.rollingOut() { //mutant:false ready-waits
		for _, t := range m.table.types {
			due += m.dueAt(t, r)
		}
	}
	m.reply(call, control.DueAck{Term: m.term.number, Due: due})
}

// dueAt counts the shards of a type that are starting at the region, and the shards of lost and leaving
// regions that the region could take.
func (pl *placement) dueAt(t *typeTable, to *region) int {
	due := 0
	if !to.hosts(t.desc.Type) {
		return due
	}
	for i := range t.rows {
		r := &t.rows[i]
		if r.Epoch == 0 {
			continue
		}
		if r.Owner == to.node {
			due += toInt(r.Phase == sharding.Starting)
			continue
		}
		owner := pl.live.region(r.Owner)
		due += toInt(to.candidate() && to.readable(t.desc.Type, r.stored()) && (lost(t, owner) || owner.leaving()))
	}
	return due
}

// RolloutView is the state of a rollout as an operator sees it.
type RolloutView struct {
	// Target is the version that new places are on, empty if no region has ever said one. Stored is true if the fact
	// is durable.
	Target string
	Stored bool
	// Seen are the versions that were seen before, the newest last.
	Seen []string
	// On is true if regions of the target version and of another one are here. For FrozenFor, if no region comes or
	// goes, nothing moves for balance; 0: not frozen.
	On        bool
	FrozenFor time.Duration
	// Still is, while it is on, for how long no region has come or gone and no other target was set, in this term.
	Still time.Duration
	// Unread are the shards that are not with regions of the target and that none of these
	// reads, if there are such regions.
	Unread int
	// Next becomes the target in NextIn, because no region runs the target, unless one comes
	// until then; empty: the target stays.
	Next   string
	NextIn time.Duration
	// CannotRead lists what regions of one version store and regions of another do not read, sorted.
	CannotRead []CannotRead
}

// CannotRead are the forms of a type that regions of Writer store and some region of
// Reader does not read. If both are the same version, its regions run different code.
type CannotRead struct {
	Reader, Writer string
	Type           sharding.EntityType
	Forms          []sharding.Form
}

func (pl *placement) rolloutView() RolloutView {
	target := pl.intent.Target()
	next, in := pl.nextTarget()
	var still time.Duration
	if pl.rollingOut() {
		still = pl.now.Sub(pl.rollout.stepAt)
	}
	return RolloutView{
		Still: still,
		Next:  next, NextIn: in, Unread: pl.unreadBy(target.Version),
		Target: target.Version, Stored: !pl.ledger.pending(pl.ledger.targetFact), Seen: slices.Clone(target.Seen),
		On: pl.rollingOut(), FrozenFor: pl.rolloutFreezeLeft(), CannotRead: pl.cannotRead(),
	}
}

// cannotRead compares the forms of the versions that are here.
func (pl *placement) cannotRead() []CannotRead {
	var list []CannotRead
	for _, t := range pl.table.types {
		writes, reads := map[string]sharding.FormSet{}, map[string]sharding.FormSet{}
		var versions []string
		for i := range pl.live.regions {
			r := &pl.live.regions[i]
			if !r.hosts(t.desc.Type) || t.desc.Volatile {
				continue
			}
			of := r.formsOf(t.desc.Type)
			if !slices.Contains(versions, r.version) {
				versions, reads[r.version] = append(versions, r.version), of.reads
			}
			writes[r.version] = writes[r.version].Union(of.writes)
			reads[r.version] = both(reads[r.version], of.reads)
		}
		slices.Sort(versions)
		for _, reader := range versions {
			for _, writer := range versions {
				c := CannotRead{Reader: reader, Writer: writer, Type: t.desc.Type}
				for i := range writes[writer].All() {
					if !reads[reader].Has(i) {
						c.Forms = append(c.Forms, t.forms[i])
					}
				}
				if c.Forms != nil {
					list = append(list, c)
				}
			}
		}
	}
	return list
}

// both returns the forms that are in two sets.
func both(a, b sharding.FormSet) (c sharding.FormSet) {
	for i := range a.All() {
		if b.Has(i) {
			c = c.With(i)
		}
	}
	return c
}
