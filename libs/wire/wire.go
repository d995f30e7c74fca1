// Package wire maps the nouns of package sharding to the messages of
// roost.coordinator.v1, which coordinators, regions and gateways share. Behind
// it everything speaks in nouns.
//
// # What this does not do
//
// It checks nothing: what makes no sense is for the core that takes it to
// ignore or refuse.
package wire

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
)

// ToNode writes a node.
func ToNode(n sharding.NodeID) *coordinatorv1.Node {
	return &coordinatorv1.Node{Addr: n.Addr, Uid: uint64(n.UID)}
}

// FromNode reads a node; an absent one is the zero NodeID.
func FromNode(n *coordinatorv1.Node) sharding.NodeID {
	return sharding.NodeID{Addr: n.GetAddr(), UID: sharding.NodeUID(n.GetUid())}
}

// ToShardEpoch writes a shard at an epoch.
func ToShardEpoch(s sharding.ShardID, e sharding.Epoch) *coordinatorv1.ShardEpoch {
	return &coordinatorv1.ShardEpoch{Type: string(s.Type), Index: s.Index, Epoch: uint64(e)}
}

// FromShardEpoch reads a shard at an epoch. Nothing is checked: cores ignore shards
// that cannot be.
func FromShardEpoch(s *coordinatorv1.ShardEpoch) (sharding.ShardID, sharding.Epoch) {
	return sharding.ShardID{Type: sharding.EntityType(s.GetType()), Index: s.GetIndex()}, sharding.Epoch(s.GetEpoch())
}

// ToVersion writes a version of the table.
func ToVersion(v sharding.Version) *coordinatorv1.Version {
	return &coordinatorv1.Version{Term: uint32(v.Term), N: v.N}
}

// FromVersion reads a version of the table.
func FromVersion(v *coordinatorv1.Version) sharding.Version {
	return sharding.Version{Term: sharding.Term(v.GetTerm()), N: v.GetN()}
}

// ToType writes a type.
func ToType(t *sharding.TypeDesc) *coordinatorv1.Type {
	out := &coordinatorv1.Type{Name: string(t.Type), Shards: t.Shards, Volatile: t.Volatile}
	for _, c := range t.Commands {
		out.Commands = append(out.Commands, &coordinatorv1.Command{Name: c.Name, ReadOnly: c.ReadOnly, Stale: c.Stale})
	}
	return out
}

// FromType reads a type. Names and numbers are checked by who takes it.
func FromType(t *coordinatorv1.Type) sharding.TypeDesc {
	out := sharding.TypeDesc{Type: sharding.EntityType(t.GetName()), Shards: t.GetShards(), Volatile: t.GetVolatile()}
	out.Commands = slices.Grow(out.Commands, len(t.GetCommands()))
	for _, c := range t.GetCommands() {
		out.Commands = append(out.Commands, sharding.CommandDesc{Name: c.GetName(), ReadOnly: c.GetReadOnly(), Stale: c.GetStale()})
	}
	return out
}

// ToRow writes a row; a zero owner is absent.
func ToRow(r sharding.Row) *coordinatorv1.Row {
	row := &coordinatorv1.Row{Type: string(r.Shard.Type), Index: r.Shard.Index, Epoch: uint64(r.Epoch), Phase: coordinatorv1.Phase(r.Phase)}
	if !r.Owner.IsZero() {
		row.Owner = ToNode(r.Owner)
	}
	return row
}

// FromRow reads a row.
func FromRow(r *coordinatorv1.Row) sharding.Row {
	return sharding.Row{
		Shard: sharding.ShardID{Type: sharding.EntityType(r.GetType()), Index: r.GetIndex()},
		Owner: FromNode(r.GetOwner()), Epoch: sharding.Epoch(r.GetEpoch()), Phase: fromPhase(r.GetPhase()),
	}
}

// ToDelta writes a change of the table.
func ToDelta(d sharding.TableDelta) *coordinatorv1.WatchTableResponse {
	out := &coordinatorv1.WatchTableResponse{Version: ToVersion(d.Version), Full: d.Full}
	for _, r := range d.Rows {
		out.Rows = append(out.Rows, ToRow(r))
	}
	for i := range d.Types {
		out.Types = append(out.Types, ToType(&d.Types[i]))
	}
	return out
}

// FromDelta reads a change of the table.
func FromDelta(w *coordinatorv1.WatchTableResponse) sharding.TableDelta {
	d := sharding.TableDelta{Version: FromVersion(w.GetVersion()), Full: w.GetFull()}
	d.Rows = slices.Grow(d.Rows, len(w.GetRows()))
	for _, r := range w.GetRows() {
		d.Rows = append(d.Rows, FromRow(r))
	}
	d.Types = slices.Grow(d.Types, len(w.GetTypes()))
	for _, t := range w.GetTypes() {
		d.Types = append(d.Types, FromType(t))
	}
	return d
}

// ToJournalState writes what a region makes of its journal.
func ToJournalState(s sharding.JournalState) coordinatorv1.JournalState {
	return coordinatorv1.JournalState(s) + coordinatorv1.JournalState_JOURNAL_STATE_ANSWERS
}

// FromJournalState reads it. What is unknown may come from a newer region; the
// journal answers then, as far as known here.
func FromJournalState(s coordinatorv1.JournalState) sharding.JournalState {
	switch s {
	case coordinatorv1.JournalState_JOURNAL_STATE_RECOVERING:
		return sharding.JournalRecovering
	case coordinatorv1.JournalState_JOURNAL_STATE_SILENT:
		return sharding.JournalSilent
	}
	return sharding.JournalAnswers
}

// fromPhase gives 0, which every table ignores, for a phase that is none.
func fromPhase(p coordinatorv1.Phase) sharding.Phase {
	if p < 0 || p > coordinatorv1.Phase(sharding.HandingOff) {
		return 0
	}
	return sharding.Phase(p)
}
