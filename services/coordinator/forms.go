package coordinator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Regions of several versions may store in different forms, and read different ones. A
// shard is given only to a region that reads every form in which something may be stored
// in the shard. The coordinator keeps a list of all forms of a type that were ever registered, and two sets
// for each row: the forms in which earlier owners may have stored something, and the forms in which the
// present owner may store something. The sets are part of the fact that gives the shard to the owner. So
// they are durable before the owner can store anything. A region that has stopped a shard says in which
// forms it has really stored something; usually these are fewer.

// regionForms has the forms of one type that a region writes and reads, as indexes into the list of the
// type.
type regionForms struct{ writes, reads sharding.FormSet }

// stored returns the forms in which something may be stored in the shard of a row. The forms of a successor
// are included, because it may have claimed the shard already.
func (r *row) stored() sharding.FormSet {
	//mutant:do successor-wrote return r.left()
	return r.left().Union(r.nextMay)
}

// left returns the forms in which something may be stored when a successor claims the shard.
func (r *row) left() sharding.FormSet {
	switch {
	case r.released:
		return r.leaves
	}
	//mutant:do lost-owner-wrote return r.before
	return r.before.Union(r.may)
}

// fact returns the fact that the row is now next, with the same forms. An owner that serves the shard has fetched the
// kept states, or has begun without them. No region may fetch them again, so the fact of a serving row does not name
// the region that kept them.
func (r *row) fact(next sharding.Row) RowFact {
	f := RowFact{Row: next, Before: r.before, May: r.may, Successor: r.successor, Next: r.next, NextMay: r.nextMay, Previous: r.previous, Cause: r.cause}
	if next.Phase == sharding.Serving { //mutant:false previous-served
		f.Previous = control.Previous{}
	}
	return f
}

// keeper returns the region that has the states of the shard's entities after the owner has stopped the
// shard. If the owner has kept none, and has never served the shard, keeper returns the region that had them
// before.
func (r *row) keeper(owner sharding.NodeID, in control.ShardStopped) control.Previous {
	if in.Keeps {
		return control.Previous{Owner: owner, Epoch: in.Epoch}
	}
	return r.previous
}

// fact returns the fact that the type has this descriptor.
func (t *typeTable) fact(desc sharding.TypeDesc) TypeFact {
	desc.Writes, desc.Reads, desc.Quarantined = nil, nil, nil // quarantined entities have facts of their own
	return TypeFact{Desc: desc, Forms: t.forms, By: t.by}
}

// extend appends to a list those forms that it lacks.
func extend(forms, more []sharding.Form) []sharding.Form {
	forms = slices.Clip(forms)
	for _, f := range more {
		if !slices.Contains(forms, f) {
			forms = append(forms, f)
		}
	}
	return forms
}

// learnForms notes what all regions store and read of a type, as indexes into all its forms.
func (l *liveness) learnForms(t sharding.EntityType, forms []sharding.Form) {
	for i := range l.regions {
		l.regions[i].learnForms(t, forms)
	}
}

// learnForms notes what a region stores and reads of a type.
func (r *region) learnForms(t sharding.EntityType, forms []sharding.Form) {
	at, found := searchDesc(r.types, t)
	if !found {
		return
	}
	var of regionForms
	for i, f := range forms {
		if sharding.Reads(r.types[at].Reads, f) {
			of.reads = of.reads.With(i)
		}
		if _, stores := slices.BinarySearchFunc(r.types[at].Writes, f, sharding.Form.Compare); stores {
			of.writes = of.writes.With(i)
		}
	}
	r.forms[at] = of
}

// formsOf returns what a region stores and reads of a type that it hosts.
func (r *region) formsOf(t sharding.EntityType) regionForms {
	if i, found := searchDesc(r.types, t); found {
		return r.forms[i]
	}
	return regionForms{}
}

// readable reports whether the region hosts the type and reads all of the forms.
func (r *region) readable(t sharding.EntityType, forms sharding.FormSet) bool {
	i, found := searchDesc(r.types, t)
	// Invariant: a shard is given only to a region that reads every form in which something may be stored in the shard.
	// This holds whichever coordinators and owners came in between.
	// Guarded by: `coordinator.readable`, `stored`: the fact that makes a region the owner lists the forms that this
	// owner may store. `region.stopped` reports the forms that the region has handed to the journal (`turn.noteForms`).
	// Mutants: readability, lost-owner-wrote, forms-in-facts, wrote, input-wrote
	return found && r.forms[i].reads.Contains(forms) //mutant:true readability r.forms[i].reads.Contains(forms)
}

// afterStop returns the forms in which something may be stored in the shard of a row whose owner has stopped
// the shard. The parameter wrote has indexes into the owner's own list of forms. Before the owner has
// registered in this term, this list is not known.
func (pl *placement) afterStop(t *typeTable, r *row, wrote sharding.FormSet) sharding.FormSet {
	owner := pl.live.region(r.Owner)
	if owner == nil {
		return r.stored()
	}
	at, found := searchDesc(owner.types, t.desc.Type)
	if !found || wrote.End() > len(owner.types[at].Writes) {
		return r.stored()
	}
	forms := r.before
	for i := range wrote.All() {
		n := slices.Index(t.forms, owner.types[at].Writes[i])
		if n < 0 {
			return r.stored()
		}
		forms = forms.With(n)
	}
	return forms
}

// checkForms returns what is wrong with the forms of one descriptor, and sorts them.
func (tab *table) checkForms(s *step, d *sharding.TypeDesc) string {
	if d.Volatile {
		d.Writes, d.Reads = nil, nil
		return ""
	}
	for _, list := range []*[]sharding.Form{&d.Writes, &d.Reads} {
		if len(*list) > s.cfg.MaxForms {
			return fmt.Sprintf("type %q has %d stored forms, at most %d are allowed; remove steps from versions that are not stored any more, or split the type", d.Type, len(*list), s.cfg.MaxForms)
		}
		*list = slices.Clone(*list)
		slices.SortFunc(*list, sharding.Form.Compare)
		for i, f := range *list {
			if err := checkForm(d.Type, f); err != nil {
				return err.Error()
			}
			if i > 0 && f == (*list)[i-1] {
				return fmt.Sprintf("type %q has the form %v twice; declare it once", d.Type, f)
			}
		}
	}
	for _, f := range d.Writes {
		if !sharding.Reads(d.Reads, f) {
			return fmt.Sprintf("type %q stores %v, and does not read it; a region must read what it stores", d.Type, f)
		}
	}
	return ""
}

func checkForm(t sharding.EntityType, f sharding.Form) error {
	if f.Kind == 0 || f.Version == 0 {
		return fmt.Errorf("type %q has the form %v; its kind and its version must not be 0", t, f)
	}
	if f.Kind == sharding.FormOfSnapshot && f.Name == "" {
		return nil
	}
	return sharding.CheckID("name of a stored form of type "+string(t), f.Name, sharding.MaxTypeLen)
}

// checkNewForms returns the reason why the region cannot join with its forms: there would be too many. They are never
// forgotten, because something may be stored in each of them.
func (tab *table) checkNewForms(s *step, descs []sharding.TypeDesc) string {
	for _, d := range descs {
		if i, found := tab.searchType(d.Type); found {
			if n := len(extend(tab.types[i].forms, d.Writes)); n > s.cfg.MaxForms {
				return fmt.Sprintf("with this region type %q would have been stored in %d forms since it was first declared, at most %d are allowed (coordinator.max_forms); allow more, or give the type a new name", d.Type, n, s.cfg.MaxForms)
			}
		}
	}
	return ""
}

// UnreadableShards lists shards of one type that no region can take, for the same reason.
type UnreadableShards struct {
	Type   sharding.EntityType
	Shards []uint32 // sorted
	// Forms are the forms that may be stored in the shards and that Closest does not read.
	Forms []sharding.Form
	// By are the versions that were the first to store in these forms, as far as known.
	By []string
	// Closest is the region that lacks the fewest forms, or its address, and Version its
	// version; empty: there is no region now that could be given shards of the type.
	Closest, Version string
	// Looked is true if the forms are stored, or cannot be read; otherwise some owner may have stored in them, see
	// [LookAtShards].
	Looked bool
}

// unreadableShards lists the rows that wait for a region that reads them, if they are wanted.
func (pl *placement) unreadableShards(wanted func(*row) bool) []UnreadableShards {
	var list []UnreadableShards
	for _, t := range pl.table.types {
		for i := range t.rows {
			if r := &t.rows[i]; r.Reason == sharding.Unreadable && wanted(r) {
				u := pl.missing(t, r.stored(), sharding.NodeID{}, (*region).lastResort)
				u.Looked = r.look == looked
				list = addShard(list, u, r.Shard.Index)
			}
		}
	}
	return list
}

// staying lists the shards of a region that no other region can take now.
func (pl *placement) staying(of *region) []UnreadableShards {
	var list []UnreadableShards
	for _, t := range pl.table.types {
		movable := map[sharding.FormSet]bool{}
		for _, s := range t.shardsOf(of.node) {
			forms := t.rows[s.Index].stored()
			if _, known := movable[forms]; !known {
				movable[forms] = pl.live.takenByAnother(t.desc.Type, of.node, forms)
			}
			if !movable[forms] {
				list = addShard(list, pl.missing(t, forms, of.node, (*region).candidate), s.Index)
			}
		}
	}
	for i := range list {
		slices.Sort(list[i].Shards)
	}
	return list
}

// addShard adds a shard to the entry of the list with the same reason.
func addShard(list []UnreadableShards, u UnreadableShards, index uint32) []UnreadableShards {
	same := slices.IndexFunc(list, func(o UnreadableShards) bool {
		return o.Type == u.Type && o.Closest == u.Closest && o.Looked == u.Looked && slices.Equal(o.Forms, u.Forms)
	})
	if same < 0 {
		same, list = len(list), append(list, u)
	}
	list[same].Shards = append(list[same].Shards, index)
	return list
}

// missing returns the forms of a shard that the closest candidate does not read.
func (pl *placement) missing(t *typeTable, forms sharding.FormSet, except sharding.NodeID, candidate func(*region) bool) UnreadableShards {
	u := UnreadableShards{Type: t.desc.Type}
	lacks := -1
	for i := range pl.live.regions {
		r := &pl.live.regions[i]
		if r.node == except || !candidate(r) || !r.hosts(t.desc.Type) {
			continue
		}
		missing, by := []sharding.Form{}, []string{}
		for i := range forms.All() {
			if !r.formsOf(t.desc.Type).reads.Has(i) {
				missing = append(missing, t.forms[i])
				if v := t.by[i]; v != "" && !slices.Contains(by, v) {
					by = append(by, v)
				}
			}
		}
		if lacks < 0 || len(missing) < lacks {
			lacks = len(missing)
			u.Closest, u.Version, u.Forms, u.By = cmp.Or(r.name, r.node.Addr), r.version, missing, by
		}
	}
	return u
}

// tellStaying writes to the log, once for each drain, that the drain does not end because no other region can
// take the remaining shards.
func (tr *transit) tellStaying() {
	for i := range tr.live.regions {
		r := &tr.live.regions[i]
		if !r.draining {
			r.stayTold = false
		}
		if !r.draining || r.stayTold || !tr.term.recovered {
			continue
		}
		left, stay := tr.staying(r), 0
		for _, u := range left {
			stay += len(u.Shards)
		}
		if stay == 0 || stay < tr.table.shardsOf(r.node) {
			continue
		}
		r.stayTold = true
		for _, u := range left {
			tr.emit(DrainStays{Region: cmp.Or(r.name, r.node.Addr), Shards: u})
		}
	}
}

// unreadBy counts the shards that no region of the given version owns or reads.
func (pl *placement) unreadBy(version string) int {
	n := 0
	for _, t := range pl.table.types {
		known := map[sharding.FormSet]bool{} // whether some region of the version reads them
		hosted := false
		for i := range pl.live.regions {
			r := &pl.live.regions[i]
			hosted = hosted || r.registered && r.version == version && r.hosts(t.desc.Type)
		}
		for i := range t.rows {
			r := &t.rows[i]
			if owner := pl.live.region(r.Owner); !hosted || r.Epoch == 0 || owner != nil && owner.registered && owner.version == version {
				continue
			}
			forms := r.stored()
			reads, asked := known[forms]
			if !asked {
				reads = slices.ContainsFunc(pl.live.regions, func(o region) bool {
					return o.registered && o.version == version && o.readable(t.desc.Type, forms)
				})
				known[forms] = reads
			}
			n += toInt(!reads)
		}
	}
	return n
}

// tellUnreadable writes to the log which shards no region reads any more. Shards of a short time are written
// together.
func (tr *transit) tellUnreadable() {
	if !tr.table.untold {
		return
	}
	tr.table.untold = false
	for _, u := range tr.unreadableShards(func(r *row) bool {
		untold := r.untold
		r.untold = false
		return untold
	}) {
		tr.emit(UnreadableNow(u))
	}
}
