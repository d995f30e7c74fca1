package instance

import (
	"errors"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

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
var ErrOtherForm = errors.New("the kept state has a form that this version of the type cannot read; see SnapshotV")

// Resume returns the entity with a kept state. If the state cannot be read, the entity is empty, and unread
// is the reason.
func Resume(t Definition, id sharding.EntityID, k *turn.Kept) (inst *Instance, unread, err error) {
	inst, err = New(t, id)
	if err != nil {
		return nil, nil, err
	}
	if unread = ErrOtherForm; ReadsSnapshot(t, k.Form) {
		unread = inst.Restore(k.Form, k.Payload)
	}
	if unread != nil { // it may be half restored
		inst, err = New(t, id)
	}
	return inst, unread, err
}
