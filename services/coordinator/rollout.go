package coordinator

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A rollout replaces the regions of one application version by those of another, the
// target. What is wanted is a fact, not something that is read off the regions that are
// there: a process of the old version that restarts in the middle changes nothing, and a
// new coordinator goes on. Versions have no order, so going back is a rollout like any
// other.
//
// While a rollout is on, nothing moves for balance: almost every shard is about to move
// anyway. A shard that needs a place goes to a region of the target version, so that it
// moves once. The first of them do not take more than [Config.RolloutShare] times their
// fair share: neither the first new region nor the last old one carries everything.

// registeredVersion makes the version of a region that has just registered the target, if
// it is a new one. A version that was seen before becomes the target only if it comes
// back to a cluster that has no region of the target: then nothing else says what is
// wanted. A region that says no version changes nothing.
func (m *Machine) registeredVersion(r *region) {
	v := r.version
	if v == m.target.Version {
		m.targetGone = time.Time{}
	}
	if v == "" || v == m.target.Version {
		return
	}
	others, ofTarget := 0, 0
	for i := range m.regions {
		if o := &m.regions[i]; o.registered && o.node != r.node {
			if o.version == v {
				return
			}
			others++
			ofTarget += one(o.version == m.target.Version)
		}
	}
	seen := slices.Contains(m.target.Seen, v) && !mutant.On("target-seen")
	if !seen || others > 0 && ofTarget == 0 && m.allSpoken(r.node) {
		m.setTarget(v, r.label()+" has registered")
	}
}

// setTarget makes a version the target of rollouts. The log says why.
func (m *Machine) setTarget(v, why string) {
	if v == "" || v == m.target.Version || !m.active {
		return
	}
	f := TargetFact{Version: v}
	for _, s := range append(slices.Clone(m.target.Seen), m.target.Version) {
		if s != "" && s != v {
			f.Seen = append(f.Seen, s)
		}
	}
	f.Seen = f.Seen[max(0, len(f.Seen)-m.cfg.MaxVersions):]
	m.decide(Decision{Kind: Requested, Request: "target version " + v, Reason: why})
	m.commit(f, TargetSet{Version: v, Before: m.target.Version, Why: why})
	m.rolloutStep, m.targetGone = m.now, time.Time{}
	m.checkTarget()
}

// checkTarget gives up a target that nobody runs any more: regions that all went back to
// one version show what is wanted, although no operator has said so. Until then it stays,
// so that the last region of the target may crash and come back, again and again. How long
// it is away is not stored: a new coordinator counts anew.
func (m *Machine) checkTarget() {
	if !m.recovered || !m.targetAway() {
		m.targetGone = time.Time{}
		return
	}
	if m.targetGone.IsZero() {
		m.targetGone = m.now
	}
	if next, in := m.nextTarget(); next != "" && in == 0 && !m.pending(m.targetFact) {
		m.setTarget(next, fmt.Sprintf("for %v no region has run %s, and all run %s", m.cfg.RolloutFreeze, m.target.Version, next))
	}
}

// nextTarget returns the version that becomes the target if no region of the target comes,
// and in which time; "" if the regions do not have one version in common.
func (m *Machine) nextTarget() (next string, in time.Duration) {
	if m.targetGone.IsZero() {
		return "", 0
	}
	for i := range m.regions {
		r := &m.regions[i]
		switch {
		case !r.registered:
		case r.version == "", next != "" && r.version != next && !mutant.On("target-lapse-shared"):
			return "", 0
		default:
			next = r.version
		}
	}
	if next == "" || mutant.On("target-lapse-at-once") {
		return next, 0
	}
	return next, max(0, m.targetGone.Add(m.cfg.RolloutFreeze).Sub(m.now))
}

// rollingOut reports whether regions of the target version and of another one are here.
func (m *Machine) rollingOut() bool {
	if m.target.Version == "" {
		return false
	}
	var target, other bool
	for i := range m.regions {
		if r := &m.regions[i]; r.present() {
			target = target || r.version == m.target.Version
			other = other || r.version != m.target.Version
		}
	}
	return target && other
}

// frozen reports whether a rollout freezes moves: it is on, and a region has come or gone within
// [Config.RolloutFreeze]. A rollout that stands still is treated like any cluster of several
// versions, such as one with a canary. A freeze that an operator has asked for is reported by halted.
func (m *Machine) frozen() bool { return m.frozenFor() > 0 }

// frozenFor is how long the freeze lasts if no region comes or goes.
func (m *Machine) frozenFor() time.Duration {
	if !m.rollingOut() {
		return 0
	}
	return max(0, m.rolloutStep.Add(m.cfg.RolloutFreeze).Sub(m.now))
}

// preferTarget narrows what the strategy sees in a rollout: to the regions of the target
// version that have room, if there are any. What operators want, and the capacity of regions,
// counts more than the version; zones count less.
func (m *Machine) preferTarget(t *typeTable, v allocation.View, s sharding.ShardID) allocation.View {
	if !m.frozen() || mutant.On("move-once") {
		return v
	}
	everywhere := v
	everywhere.Regions = slices.Clone(v.Regions)
	for i := range everywhere.Regions {
		everywhere.Regions[i].Zone = ""
	}
	wanted, _ := allocation.Candidates(everywhere, s, sharding.NodeID{})
	v.Regions = slices.DeleteFunc(v.Regions, func(r allocation.Region) bool {
		return !slices.ContainsFunc(wanted.Regions, func(w allocation.Region) bool { return w.Node == r.Node })
	})
	most := m.rolloutRoom(t)
	preferred := func(r allocation.Region) bool {
		return len(r.Shards) < most && m.region(r.Node).version == m.target.Version
	}
	if !slices.ContainsFunc(v.Regions, preferred) {
		return v
	}
	v.Regions = slices.DeleteFunc(v.Regions, func(r allocation.Region) bool { return !preferred(r) })
	return v
}

// rolloutWants reports whether a successor is one that a rollout prefers, if a rollout is on.
func (m *Machine) rolloutWants(t *typeTable, r *row, to *region, except sharding.NodeID, forms sharding.FormSet) bool {
	if !m.frozen() || to.version == m.target.Version {
		return true
	}
	v := m.preferTarget(t, m.view(t, except, forms, (*region).candidate), r.Shard)
	return slices.ContainsFunc(v.Regions, func(o allocation.Region) bool { return o.Node == to.node })
}

// rolloutRoom is how many shards of a type a region may have before others are preferred:
// its fair share among the regions that can be given some, times [Config.RolloutShare].
func (m *Machine) rolloutRoom(t *typeTable) int {
	hosts := 0
	for i := range m.regions {
		r := &m.regions[i]
		hosts += one(r.hosts(t.desc.Type) && r.candidate())
	}
	owned := 0 // of the type's shards, of which many may never have been used
	for i := range t.owned {
		owned += len(t.owned[i].shards)
	}
	fair := (max(1, owned) + hosts - 1) / max(1, hosts)
	return int(math.Ceil(m.cfg.RolloutShare * float64(fair)))
}

// countDue answers how many shards are about to come to a region because of a rollout. A
// platform that waits until there are none before it stops the next old region does not
// have two regions' shards on the way at a time. What only an operator has asked for is
// not counted, nor what no other region could do for this one. A region that is not up yet
// is given nothing, so it must ask again.
func (m *Machine) countDue(node sharding.NodeID, call control.Call) {
	r := m.region(node)
	if r == nil || !r.registered || r.joining && !mutant.On("ready-up") || !m.recovered {
		m.askAgain(call)
		return
	}
	due := 0
	if m.open && m.rollingOut() && !mutant.On("ready-waits") {
		for _, t := range m.types {
			due += m.dueAt(t, r)
		}
	}
	m.reply(call, control.DueAck{Term: m.term, Due: due})
}

// dueAt counts the shards of a type that start at a region, or are about to be taken from
// others and can go to it.
func (m *Machine) dueAt(t *typeTable, to *region) int {
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
			due += one(r.Phase == sharding.Starting)
			continue
		}
		owner := m.region(r.Owner)
		due += one(to.candidate() && to.readable(t, r.stored()) && (lost(t, owner) || owner.going || owner.leaving))
	}
	return due
}

// RolloutView is the state of a rollout as an operator sees it.
type RolloutView struct {
	// Target is the version that new places are on, empty if no region has ever said one.
	// Stored says that the fact is durable.
	Target string
	Stored bool
	// Seen are the versions that were seen before, the newest last.
	Seen []string
	// On says that regions of the target version and of another one are here. For
	// FrozenFor, if no region comes or goes, nothing moves for balance; 0: not frozen.
	On        bool
	FrozenFor time.Duration
	// Unread are the shards that are not with regions of the target and that none of these
	// reads, if there are such regions.
	Unread int
	// Next becomes the target in NextIn, because no region runs the target, unless one comes
	// until then; empty: the target stays.
	Next   string
	NextIn time.Duration
	// CannotRead lists what regions of one version store that those of another do not
	// read, sorted.
	CannotRead []CannotRead
}

// CannotRead are the forms of a type that regions of Writer store and some region of
// Reader does not read. If both are the same version, its regions run different code.
type CannotRead struct {
	Reader, Writer string
	Type           sharding.EntityType
	Forms          []sharding.Form
}

func (m *Machine) rolloutView() RolloutView {
	next, in := m.nextTarget()
	return RolloutView{
		Next: next, NextIn: in, Unread: m.unreadBy(m.target.Version),
		Target: m.target.Version, Stored: !m.pending(m.targetFact), Seen: slices.Clone(m.target.Seen),
		On: m.rollingOut(), FrozenFor: m.frozenFor(), CannotRead: m.cannotRead(),
	}
}

// cannotRead compares the forms of the versions that are here.
func (m *Machine) cannotRead() []CannotRead {
	var list []CannotRead
	for _, t := range m.types {
		writes, reads := map[string]sharding.FormSet{}, map[string]sharding.FormSet{}
		var versions []string
		for i := range m.regions {
			r := &m.regions[i]
			if !r.hosts(t.desc.Type) || t.desc.Volatile {
				continue
			}
			of := r.formsOf(t)
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

// applyTarget changes the target, live and in replay.
func (m *Machine) applyTarget(f TargetFact) {
	if f.Version == "" || len(f.Version) > sharding.MaxTypeLen || mutant.On("target-as-a-fact") && !m.recovered {
		return
	}
	m.target = f
}
