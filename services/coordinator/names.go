package coordinator

import (
	"github.com/roost-cluster/roost/libs/sharding"
)

// Pins and cordons are about names of regions. So of all regions with one name, only one is given shards:
// the one that holds the name. It holds the name until it leaves, or is not reachable.

// namesake returns a region that keeps another one from being registered, because it has the same
// name. It holds the name, or it is about to register and the facts name it as the owner of shards: then
// it held the name in an earlier term. A region that leaves, is not reachable, or was replaced at its
// address does not keep another one: the other one may be the same region, started again.
func (pl *placement) namesake(r *region) *region {
	if r.registered || r.name == "" { //mutant:true name-unique
		return nil
	}
	for i := range pl.live.regions {
		o := &pl.live.regions[i]
		if !o.sharesName(r) || !o.reachable || o.leaving() {
			continue
		}
		if o.registered || !pl.term.recovered && pl.table.shardsOf(o.node) > pl.table.shardsOf(r.node) {
			return o
		}
	}
	return nil
}

// sharesName reports whether two different regions have the same name.
func (r *region) sharesName(o *region) bool {
	return r.name == o.name && r.name != "" && r.node.Addr != o.node.Addr
}

// mayHoldName reports whether the region may be the one of its name that is given shards.
func (r *region) mayHoldName() bool { return r.registered && r.reachable && !r.leaving() }

// holdNames decides which regions hold their names, after a change of the regions. Two regions of one name
// may be registered: the second one has registered while the first was not reachable, and the first
// has come back. Then the second one keeps the name.
func (l *liveness) holdNames(s *step) {
	for i := range l.regions {
		r := &l.regions[i]
		r.holdsName = r.holdsName && r.mayHoldName()
	}
	for i := range l.regions {
		r := &l.regions[i]
		if r.holdsName || !r.mayHoldName() {
			continue
		}
		other := l.holder(r)
		if r.holdsName = other == nil; !r.holdsName {
			l.nameTaken(s, r, other.node)
		}
	}
}

// holder returns another region that holds the name of a region; nil: there is none.
func (l *liveness) holder(r *region) *region {
	for i := range l.regions {
		if o := &l.regions[i]; o.holdsName && o.sharesName(r) { //mutant:false name-held
			return o
		}
	}
	return nil
}

// nameTaken tells the log, once, that a region is given no shards because another one has its name.
func (l *liveness) nameTaken(s *step, r *region, by sharding.NodeID) {
	if r.heldUpBy != by {
		r.heldUpBy = by
		s.emit(NameTaken{Name: r.name, Region: r.node, By: by})
	}
}
