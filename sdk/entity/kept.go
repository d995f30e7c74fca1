package entity

import (
	"errors"
	"fmt"
	"reflect" // pure: of types

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// KeepOnMoves keeps the state of a volatile type's entities when their shard is handed off: when its
// region leaves or is drained, or shards are balanced. The next region continues with the state of the
// entity after its last command and its stop hook, and with its pending timers. The state is kept
// as a snapshot would be: the exported fields as JSON, or what the method Snapshot returns. If the
// next region cannot read the state, the entity begins empty. It cannot read a state of another
// version or of other fields, unless a step of SnapshotV reads it. An entity also begins empty after
// a crash, and after it was passivated.
func (t *Type[E]) KeepOnMoves() *Type[E] { t.def.keep = true; return t }

// checkKeep returns an error if the type cannot keep its state.
func (d *definition) checkKeep() error {
	f := &d.state
	switch {
	case !d.keep:
		return nil
	case !d.volatile:
		return errors.New("KeepOnMoves is for volatile types; this one has its state in the journal")
	case f.layout != nil && (f.typ.Kind() != reflect.Struct || exported(f.typ) == 0):
		return fmt.Errorf("KeepOnMoves, but %s has no exported field to keep: export some, or give it Snapshot and Restore", f.typ)
	}
	return nil
}

// exported counts the exported fields of a struct.
func exported(t reflect.Type) int {
	n := 0
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("json") != "-" && (f.IsExported() || f.Anonymous) {
			n++
		}
	}
	return n
}

// Keep returns the state for the next owner of the entity's shard. The error comes from
// [Instance.Snapshot].
func (i *Instance) Keep() (*turn.Kept, error) {
	form, payload, err := i.Snapshot()
	if err != nil {
		return nil, err
	}
	return &turn.Kept{ID: i.id, Form: form, Payload: payload}, nil
}

// ErrOtherForm reports that this version of the type cannot read the form of a kept state.
var ErrOtherForm = errors.New("the kept state is of a form that this version of the type cannot read; see SnapshotV")

// Resume returns the entity with a kept state. If the state cannot be read, the entity is empty, and unread
// is the reason.
func Resume(t Definition, id sharding.EntityID, k *turn.Kept) (inst *Instance, unread, err error) {
	inst, err = NewInstance(t, id)
	if err != nil {
		return nil, nil, err
	}
	if unread = ErrOtherForm; ReadsSnapshot(t, k.Form) {
		unread = inst.Restore(k.Form, k.Payload)
	}
	if unread != nil { // it may be half restored
		inst, err = NewInstance(t, id)
	}
	return inst, unread, err
}
