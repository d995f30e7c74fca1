package coordinator

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// A lost owner may have stored something in any of its forms, so all of them count, even if it has stored nothing. Only
// the journal shows what was really stored. So if no region reads a shard, an operator can have the coordinator look
// at it:
//
//  1. The shard is claimed at the epoch of its row, which belongs to no region. From then on
//     no earlier owner can store anything in the shard, not even with an append that is
//     still on its way.
//  2. The coordinator reads from the journal which of the forms are really stored in the shard.
//  3. Only these forms count from then on, and the shard goes to a region that reads them, if there
//     is one.
//
// If a step fails, or the row changes in between, all forms count as before, and the operator has to repeat the request.
// A new coordinator does not know of a look that was in progress.

// look is the state of the look at a row. A change of the row resets it.
type look uint8

const (
	notLooked look = iota
	fencing        // waits for ShardFenced
	fenced         // waits to be read, together with the other fenced shards of its type
	reading        // waits for FormsRead
	looked         // all forms that count are stored, or the stored data cannot be read
)

// lookAtShards begins to look at all rows that no region reads.
func (tr *transit) lookAtShards() {
	for _, t := range tr.table.types {
		for i := range t.rows {
			r := &t.rows[i]
			if r.Reason != sharding.Unreadable || r.look != notLooked || tr.ledger.pending(r.number) {
				continue
			}
			// Invariant: every form that a lost owner could have stored counts until the coordinator has read what is
			// in the journal. The coordinator reads the journal only after fencing the owner.
			// Mutants: look-fence, look-inputs
			//mutant:do look-fence r.look = fenced; continue
			r.look = fencing
			t.fencing++
			tr.emit(FenceShard{Claim: sharding.Claim{Shard: r.Shard, Epoch: r.Epoch}})
		}
		tr.readForms(t)
	}
}

func (tr *transit) shardFenced(in ShardFenced) {
	t, r := tr.table.find(in.Shard)
	if r == nil || r.look != fencing || r.Epoch != in.Epoch {
		return
	}
	t.fencing--
	r.look = notLooked
	switch {
	case in.Verdict == sharding.Durable:
		r.look = fenced
	case in.Verdict == sharding.RefusedEpoch:
		// The journal was restored, which has raised the fence above the row. The next look claims the
		// shard at the row's new epoch.
		tr.assign(t, r, sharding.NodeID{}, 0, r.stored(), r.previous, sharding.CauseClaimRefused)
	}
	tr.readForms(t)
}

// readForms asks for the forms of all fenced rows of a type at once, because every read goes through all
// entities of the type.
func (tr *transit) readForms(t *typeTable) {
	if t.fencing > 0 {
		return
	}
	ask := ReadForms{Desc: t.desc, Forms: t.forms}
	for i := range t.rows {
		if r := &t.rows[i]; r.look == fenced {
			r.look = reading
			ask.At = append(ask.At, FormsAt{Index: r.Shard.Index, Epoch: r.Epoch, Forms: r.stored()})
		}
	}
	if len(ask.At) > 0 {
		tr.emit(ask)
	}
}

// formsRead makes only the forms count that are stored in each shard.
func (tr *transit) formsRead(in FormsRead) {
	for _, at := range in.At {
		t, r := tr.table.find(sharding.ShardID{Type: in.Type, Index: at.Index})
		if r == nil || r.look != reading || r.Epoch != at.Epoch {
			continue
		}
		r.look = notLooked
		if in.Failed {
			continue
		}
		if forms := both(r.stored(), at.Forms); forms != r.stored() {
			tr.assign(t, r, tr.choose(t, r, sharding.NodeID{}, forms), 0, forms, r.previous, sharding.CauseFormsRead)
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

// FormsFound gathers what [ReadForms] asks for. The driver reads the reminders and the pending sends
// of the shards that [FormsFound.InputShards] returns. Then it lists all entities of the type, and passes
// the records of those that [FormsFound.Wants] selects to [FormsFound.Stored].
type FormsFound struct {
	ask    ReadForms
	answer FormsRead
	// forms are the forms that something stored may have.
	forms map[storedForm]sharding.FormSet
}

// storedForm is the part of a form that is stored. The shape of an event is not stored, so several forms may match a
// stored event. For the answer to a send, only the command is stored that gets the answer.
type storedForm struct {
	kind    sharding.FormKind
	name    string
	version uint16
	shape   uint64
}

// Begin returns an empty FormsFound for a request.
func (o ReadForms) Begin() *FormsFound {
	f := &FormsFound{ask: o, answer: FormsRead{Type: o.Desc.Type}, forms: map[storedForm]sharding.FormSet{}}
	add := func(s storedForm, i int) { f.forms[s] = f.forms[s].With(i) }
	for i, form := range o.Forms {
		switch s := (storedForm{kind: form.Kind, name: form.Name, version: form.Version}); form.Kind {
		case sharding.FormOfEvent:
			add(s, i)
		case sharding.FormOfInput:
			add(storedForm{kind: form.Kind, name: form.Name}, i)
			s.shape = form.Shape
			add(s, i)
		}
	}
	for _, at := range o.At {
		var found sharding.FormSet
		for i := range at.Forms.All() {
			if k := o.Forms[i].Kind; k != sharding.FormOfEvent && k != sharding.FormOfInput {
				found = found.With(i) // it is not looked for
			}
		}
		f.answer.At = append(f.answer.At, FormsAt{Index: at.Index, Epoch: at.Epoch, Forms: found})
	}
	return f
}

// shard returns the place of the entity's shard, or -1.
func (f *FormsFound) shard(e sharding.Entity) int {
	i, found := slices.BinarySearchFunc(f.ask.At, f.ask.Desc.ShardOf(e.ID).Index, func(at FormsAt, index uint32) int {
		return cmp.Compare(at.Index, index)
	})
	if !found || e.Type != f.ask.Desc.Type {
		return -1
	}
	return i
}

// InputShards returns the shards whose reminders and pending sends are needed.
func (f *FormsFound) InputShards() (shards []sharding.ShardID) {
	for _, at := range f.ask.At {
		for i := range at.Forms.All() {
			if f.ask.Forms[i].Kind == sharding.FormOfInput {
				shards = append(shards, sharding.ShardID{Type: f.ask.Desc.Type, Index: at.Index})
				break
			}
		}
	}
	return shards
}

// Reminder notes the stored input of a reminder of an entity.
func (f *FormsFound) Reminder(e sharding.Entity, in *sharding.Input) {
	f.found(e, storedForm{sharding.FormOfInput, in.Command, in.Version, in.Shape})
}

// ReplyTo notes that a stored send of an entity names a command for the answer.
func (f *FormsFound) ReplyTo(e sharding.Entity, command string) {
	f.found(e, storedForm{kind: sharding.FormOfInput, name: command})
}

// found notes that something is stored in the shard of an entity.
func (f *FormsFound) found(e sharding.Entity, s storedForm) {
	//mutant:do look-inputs if s.kind == sharding.FormOfInput { return }
	if i := f.shard(e); i >= 0 {
		f.answer.At[i].Forms = f.answer.At[i].Forms.Union(f.forms[s])
	}
}

// Wants reports whether the records of the entity are needed.
func (f *FormsFound) Wants(e sharding.Entity) bool {
	i := f.shard(e)
	return i >= 0 && !f.answer.At[i].Forms.Contains(f.ask.At[i].Forms)
}

// Done reports whether all requested forms were found, in every shard.
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
	for _, r := range records {
		for _, event := range r.Events {
			f.found(e, storedForm{kind: sharding.FormOfEvent, name: event.Name, version: max(event.Version, 1)})
		}
	}
}

// Unknown notes that an entity cannot be read: anything may be stored in its shard.
func (f *FormsFound) Unknown(e sharding.Entity) { f.unknown(f.shard(e)) }

// UnknownShard notes that the timers or the sends of a shard cannot be read.
func (f *FormsFound) UnknownShard(id sharding.ShardID) {
	f.unknown(slices.IndexFunc(f.ask.At, func(at FormsAt) bool { return at.Index == id.Index && id.Type == f.ask.Desc.Type }))
}

func (f *FormsFound) unknown(i int) {
	if i >= 0 {
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
