// Package quarantine knows the entities that make the processes of regions crash: suspects, and quarantined ones, which
// do not run.
//
// One entity may end the whole process of its region: by os.Exit, by a panic in a goroutine of its own, by
// taking all memory. Then the shard goes to the next region, the command is delivered again, and that region
// ends too. The coordinator finds such entities and quarantines them: their regions do not run them, and serve
// the other entities of their shards.
package quarantine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/fact"
)

// Limits are the settings of the coordinator that matter here.
type Limits struct {
	Crashes   int           // after so many an entity is quarantined; 0: none is automatically
	Window    time.Duration // within which these crashes count
	Max       int           // suspects and quarantined entities together
	MaxReason int           // bytes of a reason
}

// Quarantine has the suspects and the quarantined entities, and the newest reports about crashes. The zero value has
// none.
type Quarantine struct {
	suspects map[sharding.EntityType][]fact.Quarantine // sorted by id; no list is empty
	// reports are about the processes of regions with a known end, oldest first.
	reports []Report
}

// Apply applies a fact about an entity of a declared type, and reports whether it changes anything.
func (q *Quarantine) Apply(f fact.Quarantine) bool {
	list := q.suspects[f.Entity.Type]
	at, has := search(list, f.Entity.ID)
	switch {
	case f.State == fact.Released && !has:
		return false
	case f.State == fact.Released:
		list = slices.Delete(list, at, at+1)
	case has:
		list[at] = f
	default:
		list = slices.Insert(list, at, f)
	}
	if q.suspects == nil {
		q.suspects = map[sharding.EntityType][]fact.Quarantine{}
	}
	if q.suspects[f.Entity.Type] = list; len(list) == 0 {
		delete(q.suspects, f.Entity.Type)
	}
	return true
}

func search(list []fact.Quarantine, id sharding.EntityID) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(f fact.Quarantine, id sharding.EntityID) int { return cmp.Compare(f.Entity.ID, id) })
}

// Of returns the suspects and the quarantined entities of a type, sorted. The caller must not keep the list.
func (q *Quarantine) Of(t sharding.EntityType) []fact.Quarantine { return q.suspects[t] }

// After returns the entry of a type with the lowest id above the given one.
func (q *Quarantine) After(t sharding.EntityType, id sharding.EntityID) (fact.Quarantine, bool) {
	list := q.suspects[t]
	i, found := search(list, id)
	if found {
		i++
	}
	if i >= len(list) {
		return fact.Quarantine{}, false
	}
	return list[i], true
}

// Shown returns the suspects and the quarantined entities of a type as the route table shows them to regions.
func (q *Quarantine) Shown(t sharding.EntityType) (shown []sharding.Quarantined) {
	for _, f := range q.suspects[t] {
		shown = append(shown, sharding.Quarantined{ID: f.Entity.ID, Suspect: f.State == fact.Suspected, Why: f.Text()})
	}
	return shown
}

// Find returns the fact about a suspect or a quarantined entity.
func (q *Quarantine) Find(e sharding.Entity) (fact.Quarantine, bool) {
	at, found := search(q.suspects[e.Type], e.ID)
	if !found {
		return fact.Quarantine{}, false
	}
	return q.suspects[e.Type][at], true
}

// Quarantined reports whether an entity is quarantined.
func (q *Quarantine) Quarantined(e sharding.Entity) bool {
	f, found := q.Find(e)
	return found && f.State == fact.Quarantined
}

// All lists the suspects and the quarantined entities, sorted by type and id.
func (q *Quarantine) All() (list []fact.Quarantine) {
	for _, t := range slices.Sorted(maps.Keys(q.suspects)) {
		list = append(list, q.suspects[t]...)
	}
	return list
}

// Full reports whether no further entity can be suspected before another one is released. If a suspect can make room,
// it is the one without a crash for the longest time, and found is true.
func (q *Quarantine) Full(l Limits) (full bool, oldest fact.Quarantine, found bool) {
	n := 0
	for _, f := range q.All() {
		n++
		if f.State == fact.Suspected && (!found || f.At.Before(oldest.At)) {
			oldest, found = f, true
		}
	}
	return n >= l.Max, oldest, found
}

// Outdated returns facts that release the suspects all of whose crashes are older than the window.
func (q *Quarantine) Outdated(now time.Time, l Limits) (facts []fact.Quarantine) {
	for _, f := range q.All() {
		if f.State == fact.Suspected && len(l.fresh(now, f.Crashes)) == 0 {
			facts = append(facts, fact.Quarantine{Entity: f.Entity, Note: note(now, fmt.Sprintf("no region has ended for %v while it ran", l.Window))})
		}
	}
	return facts
}

// maxReports bounds the processes whose reports are remembered.
const maxReports = 1024

// Report holds what a region reported about the end of a process.
type Report struct {
	Process sharding.NodeUID
	Ran     []sharding.Entity // entities that had a turn running
	More    bool              // the report has more turns than Ran lists
}

// Keep remembers the report about a process, the first one if there are several. It reports whether this is it.
func (q *Quarantine) Keep(c control.Crash) bool {
	if q.Report(c.Of) != nil {
		return false
	}
	r := Report{Process: c.Of, More: len(c.Turns) > maxCrashTurns}
	for _, turn := range c.Turns[:min(len(c.Turns), maxCrashTurns)] {
		r.Ran = append(r.Ran, turn.Entity)
	}
	q.reports = append(q.reports[max(0, len(q.reports)-maxReports+1):], r)
	return true
}

// Report returns the report about a process; nil: there is none.
func (q *Quarantine) Report(process sharding.NodeUID) *Report {
	if i := slices.IndexFunc(q.reports, func(r Report) bool { return r.Process == process }); i >= 0 {
		return &q.reports[i]
	}
	return nil
}

// Reports returns all reports, oldest first. The caller must not change them.
func (q *Quarantine) Reports() []Report { return q.reports }

// Clone returns an independent copy.
func (q *Quarantine) Clone() Quarantine {
	c := Quarantine{suspects: maps.Clone(q.suspects), reports: slices.Clone(q.reports)}
	for t, list := range c.suspects { // order-free: each list is copied
		c.suspects[t] = slices.Clone(list) // their crashes are never written to
	}
	return c
}

// Check verifies what holds between any two steps: the order of the lists, and their limit.
func (q *Quarantine) Check(l Limits) error {
	if n := len(q.All()); n > l.Max {
		return fmt.Errorf("%d entities are suspected or quarantined, at most %d may be", n, l.Max)
	}
	for t, list := range q.suspects { // order-free: any of them is an error
		for i, f := range list {
			if i > 0 && cmp.Compare(list[i-1].Entity.ID, f.Entity.ID) >= 0 || f.Entity.Type != t || f.State == fact.Released {
				return fmt.Errorf("the fact %+v is out of place", f)
			}
		}
	}
	return nil
}
