package sim

import (
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// In some weather each version of the program stores its events in a form of its own.
// Version n reads the forms of all versions up to its own, and one more: the last version's
// form may be read by the one before it. So it is with snapshots and with the inputs of reminders,
// but for that. Answers have one form.

// formOf is the form in which a version of the program stores events.
func formOf(version int) sharding.Form {
	f := sharding.Form{Kind: sharding.FormOfEvent, Name: "Added", Version: uint16(version + 1), Shape: uint64(version + 1)}
	if version == versions-1 {
		f.ReadableBy = f.Version - 1
	}
	return f
}

// snapshotForm is the form in which a version of the program stores snapshots.
func snapshotForm(version int) sharding.SnapshotForm {
	return sharding.SnapshotForm{Version: uint16(version + 1), Shape: uint64(version + 1)}
}

// inputForm is the form in which a version of the program stores the input of a reminder.
func inputForm(version int) sharding.Form {
	return sharding.Form{Kind: sharding.FormOfInput, Name: cmdAdd, Version: uint16(version + 1), Shape: uint64(version + 1)}
}

// answerForm is the form of the answers that are taken.
var answerForm = sharding.Form{Kind: sharding.FormOfInput, Name: cmdTold, Version: 1, Shape: 1}

// addForms gives the types the forms of a version.
func addForms(list []turn.Type, version int) {
	for i := range list {
		d := &list[i].Desc
		if d.Volatile {
			continue
		}
		d.Writes = []sharding.Form{formOf(version)}
		for v := range version + 1 {
			d.Reads = append(d.Reads, formOf(v))
		}
		if list[i].KeepEvents > 0 {
			d.Writes = append(d.Writes, snapshotForm(version).Form())
		}
		for v := range version + 1 {
			d.Reads = append(d.Reads, snapshotForm(v).Form())
		}
		d.Writes = append(d.Writes, inputForm(version), answerForm)
		for v := range version + 1 {
			d.Reads = append(d.Reads, inputForm(v))
		}
		d.Reads = append(d.Reads, answerForm)
	}
}

// versionOf draws the version of the program that a process runs after its next start.
func (w *World) versionOf(p *process) int {
	version := w.dice("versions").IntN(versions)
	if w.calm && w.hasNewest(p) {
		return versions - 1
	}
	return version
}

// hasNewest reports whether the process is the region that runs the newest version when the
// storm is over, so that all can be read in the end.
func (w *World) hasNewest(p *process) bool { return w.weather.Forms && p.host == firstRegion+1 }

// endOldVersion crashes that region if it runs another version. The caller starts it again,
// with the newest one.
func (w *World) endOldVersion(p *process) {
	if n, region := p.body.(*regionNode); region && p.up && w.hasNewest(p) && n.version != versions-1 {
		p.crash("replaced by the newest version")
	}
}

// inForm gives what a turn stores the form of the version of the region.
func (n *regionNode) inForm(done *turn.TurnDone) {
	if !n.w.weather.Forms {
		return
	}
	f, in := formOf(n.version), inputForm(n.version)
	for i := range done.Events {
		done.Events[i].Version, done.Events[i].ReadableBy = f.Version, f.ReadableBy
	}
	for i := range done.Wakes {
		done.Wakes[i].Input.Version, done.Wakes[i].Input.Shape = in.Version, in.Shape
	}
}

// storedForm is a form in which something of an entity is stored.
type storedForm struct {
	sharding.Form
	entity sharding.Entity
}

// noteForms notes the forms of stored data. The records of a life that a delete has
// ended are not read, nor the events of the delete itself.
func (s *store) noteForms(a sharding.Append) {
	if !s.w.weather.Forms || ofCoordinators(a.Entity) {
		return
	}
	forms := s.forms[a.Shard]
	if forms == nil {
		forms = map[storedForm]sharding.Epoch{}
		s.forms[a.Shard] = forms
	}
	for _, r := range a.Records {
		for _, e := range r.Events {
			if f := (storedForm{formOf(int(e.Version) - 1), a.Entity}); forms[f] == 0 {
				forms[f] = a.Epoch
			}
		}
		if r.Delete {
			maps.DeleteFunc(forms, func(f storedForm, _ sharding.Epoch) bool { return f.entity == a.Entity }) // order-free: each by itself
		}
	}
	s.noteInputs(a, forms)
}

// noteInputs notes the forms of the inputs of the reminders that stand now.
func (s *store) noteInputs(a sharding.Append, forms map[storedForm]sharding.Epoch) {
	if len(a.Fired) == 0 && !slices.ContainsFunc(a.Records, func(r sharding.Record) bool { return len(r.Wakes) > 0 }) {
		return
	}
	stand := map[storedForm]bool{}
	for _, r := range s.ledger.Wakes(s.w.storeClock(), journal.WakesRequest{Shards: []journal.ShardPosition{{Shard: a.Shard}}, Limit: 1 << 20}).Entries {
		if r.Entity == a.Entity && r.Err == nil {
			stand[storedForm{inputForm(int(r.Input.Version) - 1), a.Entity}] = true
		}
	}
	gone := func(f storedForm, _ sharding.Epoch) bool {
		return f.entity == a.Entity && f.Kind == sharding.FormOfInput && !stand[f]
	}
	maps.DeleteFunc(forms, gone) // order-free: each by itself
	for f := range stand {       // order-free: each by itself
		if forms[f] == 0 {
			forms[f] = a.Epoch
		}
	}
}

// noteTrim notes the rest to be read of an entity when a snapshot with a cut is stored: the
// snapshot, and the events after it.
func (s *store) noteTrim(o *journal.WriteSnapshot) {
	if !s.w.weather.Forms || o.Cut == 0 || ofCoordinators(o.Entity) {
		return
	}
	got, err := s.ledger.Load(journal.LoadRequest{Entity: o.Entity})
	if err != nil || got.Cut == 0 {
		return // it was of a life that has ended
	}
	s.w.mark("trim: only a snapshot has the state")
	forms := s.forms[o.Shard]
	left := map[storedForm]bool{{o.Snapshot.Form.Form(), o.Entity}: true}
	for _, r := range got.Records {
		for _, e := range r.Events {
			left[storedForm{formOf(int(e.Version) - 1), o.Entity}] = true
		}
	}
	gone := func(f storedForm, _ sharding.Epoch) bool {
		return f.entity == o.Entity && f.Kind != sharding.FormOfInput && !left[f]
	}
	maps.DeleteFunc(forms, gone) // order-free: each by itself
	for f := range left {        // order-free: each by itself
		if forms[f] == 0 {
			forms[f] = o.Epoch
		}
	}
}

// formOfSnapshot is the form of the snapshots that the region stores.
func (n *regionNode) formOfSnapshot() (form sharding.SnapshotForm) {
	if n.w.weather.Forms {
		form = snapshotForm(n.version)
	}
	return form
}

// ignoresSnapshot reports whether the region does not read a snapshot.
func (n *regionNode) ignoresSnapshot(of sharding.Entity, s *journal.Snapshot) bool {
	return n.w.weather.Forms && s.Seq > 0 && !sharding.Reads(n.reads(of.Type), s.Form.Form())
}

// checkReads checks that an entity is loaded only by a region that reads every form in
// which owners before it have stored something in the shard.
func (n *regionNode) checkReads(o turn.Load) {
	for f, since := range n.w.journal.forms[o.Shard] { // order-free: any of them
		if since >= o.Epoch {
			continue // by a later owner: what this one does has no effect any more
		}
		switch {
		case f.Kind == sharding.FormOfEvent && f.Version > uint16(n.version+1):
			n.w.mark("an event of a later version is read")
		case f.Kind == sharding.FormOfInput && f.Version < uint16(n.version+1):
			n.w.mark("a shard has a reminder of an earlier version")
		}
		if !sharding.Reads(n.reads(o.Shard.Type), f.Form) {
			n.w.violate("who has a shard reads it", "%s, version %d, loads %v at epoch %v, and %v was stored at %v", n.p.name, n.version, o.Entity, o.Epoch, f.Form, since)
		}
	}
}

// reads are the forms of a type that the region reads.
func (n *regionNode) reads(t sharding.EntityType) []sharding.Form {
	i := slices.IndexFunc(n.cfg.Turn.Types, func(x turn.Type) bool { return x.Desc.Type == t })
	return n.cfg.Turn.Types[i].Desc.Reads
}
