package coordinator

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// All that a lost owner may have stored counts, even if it has stored nothing. Only the
// journal knows. So an operator can have the shards that no region reads looked at:
//
//  1. The shard is claimed at the epoch of its row, which belongs to no region. From then on
//     no earlier owner can store anything in the shard, not even with an append that is
//     still on its way.
//  2. The journal is read: which of the forms are there?
//  3. Only these count from now on, and the shard goes to a region that reads them, if there
//     is one.
//
// If a step fails, or the row changes in between, all forms count as before, and the operator
// has to ask again. A new coordinator knows nothing of a look that was under way.

// look is how far the look at a row is. A change of the row begins it anew.
type look uint8

const (
	notLooked look = iota
	fencing        // waits for ShardFenced
	fenced         // is read with the others of its type
	reading        // waits for FormsRead
	looked         // what counts is stored, or cannot be read
)

// lookAtShards begins to look at all rows that no region reads.
func (m *Machine) lookAtShards() {
	for _, t := range m.types {
		for i := range t.rows {
			r := &t.rows[i]
			if r.Reason != sharding.Unreadable || r.look != notLooked || m.pending(r.number) {
				continue
			}
			if mutant.On("look-fence") {
				r.look = fenced
				continue
			}
			r.look = fencing
			t.fencing++
			m.emit(FenceShard{Claim: sharding.Claim{Shard: r.Shard, Epoch: r.Epoch}})
		}
		m.readForms(t)
	}
}

func (m *Machine) shardFenced(in ShardFenced) {
	t, r := m.find(in.Shard)
	if r == nil || r.look != fencing || r.Epoch != in.Epoch {
		return
	}
	t.fencing--
	r.look = notLooked
	if in.Verdict == sharding.Durable {
		r.look = fenced
	}
	m.readForms(t)
}

// readForms asks for the forms of all rows of a type that are fenced, in one go: whoever
// reads them has to go through all entities of the type.
func (m *Machine) readForms(t *typeTable) {
	if t.fencing > 0 {
		return
	}
	ask := ReadForms{Type: t.desc.Type, Shards: t.desc.Shards, Forms: t.forms}
	for i := range t.rows {
		if r := &t.rows[i]; r.look == fenced {
			r.look = reading
			ask.At = append(ask.At, FormsAt{Index: r.Shard.Index, Epoch: r.Epoch, Forms: r.stored()})
		}
	}
	if len(ask.At) > 0 {
		m.emit(ask)
	}
}

// formsRead narrows what counts of each shard to what is stored.
func (m *Machine) formsRead(in FormsRead) {
	for _, at := range in.At {
		t, r := m.find(sharding.ShardID{Type: in.Type, Index: at.Index})
		if r == nil || r.look != reading || r.Epoch != at.Epoch {
			continue
		}
		r.look = notLooked
		if in.Failed {
			continue
		}
		if forms := both(r.stored(), at.Forms); forms != r.stored() {
			m.assign(t, r, m.choose(t, r.Shard, sharding.NodeID{}, forms), 0, forms, r.previous)
		}
		if r.Owner.IsZero() {
			r.look = looked
		}
	}
}

// FormsAt are forms of one shard, as indexes into a list of forms of its type.
type FormsAt struct {
	Index uint32
	Epoch sharding.Epoch // of the row
	Forms sharding.FormSet
}

// FormsFound gathers what [ReadForms] asks for. The driver lists all entities of the type,
// and gives it the records of those that it wants.
type FormsFound struct {
	ask    ReadForms
	answer FormsRead
	// events are the forms of events.
	events map[eventForm]sharding.FormSet
}

// eventForm is what is stored of the form of an event. The shape is not, so that several
// forms may be that of an event.
type eventForm struct {
	name    string
	version uint16
}

// Begin returns an empty FormsFound for a request.
func (o ReadForms) Begin() *FormsFound {
	f := &FormsFound{ask: o, answer: FormsRead{Type: o.Type}, events: map[eventForm]sharding.FormSet{}}
	for i, form := range o.Forms {
		if form.Kind == sharding.FormOfEvent {
			key := eventForm{form.Name, form.Version}
			f.events[key] = f.events[key].With(i)
		}
	}
	for _, at := range o.At {
		var found sharding.FormSet
		for i := range at.Forms.All() {
			if o.Forms[i].Kind != sharding.FormOfEvent {
				found = found.With(i) // only events are looked for
			}
		}
		f.answer.At = append(f.answer.At, FormsAt{Index: at.Index, Epoch: at.Epoch, Forms: found})
	}
	return f
}

// shard returns the place of the entity's shard, or -1.
func (f *FormsFound) shard(e sharding.Entity) int {
	i, found := slices.BinarySearchFunc(f.ask.At, sharding.ShardOf(e.ID, f.ask.Shards), func(at FormsAt, index uint32) int {
		return cmp.Compare(at.Index, index)
	})
	if !found || e.Type != f.ask.Type {
		return -1
	}
	return i
}

// Wants reports whether the records of the entity are needed.
func (f *FormsFound) Wants(e sharding.Entity) bool {
	i := f.shard(e)
	return i >= 0 && !f.answer.At[i].Forms.Contains(f.ask.At[i].Forms)
}

// Done reports whether all forms that are asked for were found, in every shard.
func (f *FormsFound) Done() bool {
	for i, at := range f.ask.At {
		if !f.answer.At[i].Forms.Contains(at.Forms) {
			return false
		}
	}
	return true
}

// Stored notes all records of an entity.
func (f *FormsFound) Stored(e sharding.Entity, records []sharding.Record) {
	i := f.shard(e)
	if i < 0 {
		return
	}
	found := &f.answer.At[i].Forms
	for _, r := range records {
		for _, event := range r.Events {
			*found = found.Union(f.events[eventForm{event.Name, max(event.Version, 1)}])
		}
	}
}

// Unknown notes that an entity cannot be read: anything may be stored in its shard.
func (f *FormsFound) Unknown(e sharding.Entity) {
	if i := f.shard(e); i >= 0 {
		f.answer.At[i].Forms = f.answer.At[i].Forms.Union(f.ask.At[i].Forms)
	}
}

// Answer returns what was found when all entities were listed, or Done.
func (f *FormsFound) Answer() FormsRead { return f.answer }

// Failed returns the answer if the journal cannot be read.
func (f *FormsFound) Failed() FormsRead {
	f.answer.Failed = true
	return f.answer
}
