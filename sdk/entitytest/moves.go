package entitytest

import (
	"context"
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Move moves all entities to another region, as when theirs is stopped: their stop hooks run, and volatile
// types with KeepOnMoves keep their states and pending timers. The given types replace the types with the
// same names, as when the other region runs another version of the program.
func (k *Kit) Move(types ...entity.Definition) {
	k.t.Helper()
	k.checkReplay()
	k.kept = map[sharding.ShardID][]turn.Kept{}
	for _, name := range slices.Sorted(maps.Keys(k.descs)) {
		for i := range k.descs[name].Desc.Shards {
			if id := (sharding.ShardID{Type: name, Index: i}); k.m.Epoch(id) != 0 {
				k.step(turn.Drain{Shard: id})
			}
		}
	}
	k.restart(types)
	for _, id := range slices.SortedFunc(maps.Keys(k.kept), sharding.ShardID.Compare) {
		k.openWithKept(id)
	}
	k.run()
}

// keep takes the states of a shard that was handed off.
func (k *Kit) keep(d turn.Drained) {
	if len(d.Kept) > 0 {
		k.kept[d.Shard] = d.Kept
	}
}

// stopped runs the stop hook of an entity, and writes its state down if it is to be kept.
func (k *Kit) stopped(o turn.Stop) turn.Stopped {
	in := turn.Stopped{Incarnation: o.Incarnation}
	if err := k.insts[o.Entity].Stop(context.Background(), k.now, o.Reason); err != nil {
		k.t.Errorf("entitytest: %v", err)
	}
	if o.Keep {
		kept, err := k.insts[o.Entity].Keep()
		if err != nil {
			k.t.Errorf("entitytest: %s would lose its state when it moves: %v", o.Entity, err)
		}
		in.Kept = kept
	}
	return in
}

// resume makes an entity from its kept state.
func (k *Kit) resume(o turn.Load) (*instance.Instance, error) {
	inst, unread, err := instance.Resume(k.types[o.Entity.Type], o.Entity.ID, o.Kept)
	if unread != nil {
		k.t.Logf("entitytest: %s begins empty after a move: %v", o.Entity, unread)
	}
	return inst, err
}
