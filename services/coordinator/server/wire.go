package server

import (
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Wire types stop here: everything behind this file speaks in the nouns of
// package sharding.

func toNode(n sharding.NodeID) *coordinatorv1.Node {
	return &coordinatorv1.Node{Addr: n.Addr, Uid: uint64(n.UID)}
}

func fromNode(n *coordinatorv1.Node) sharding.NodeID {
	return sharding.NodeID{Addr: n.GetAddr(), UID: sharding.NodeUID(n.GetUid())}
}

func toShardEpoch(s sharding.ShardID, e sharding.Epoch) *coordinatorv1.ShardEpoch {
	return &coordinatorv1.ShardEpoch{Type: string(s.Type), Index: s.Index, Epoch: uint64(e)}
}

func fromShardEpoch(s *coordinatorv1.ShardEpoch) (sharding.ShardID, sharding.Epoch) {
	return sharding.ShardID{Type: sharding.EntityType(s.GetType()), Index: s.GetIndex()}, sharding.Epoch(s.GetEpoch())
}

func toVersion(v sharding.Version) *coordinatorv1.Version {
	return &coordinatorv1.Version{Term: uint32(v.Term), N: v.N}
}

func fromVersion(v *coordinatorv1.Version) sharding.Version {
	return sharding.Version{Term: sharding.Term(v.GetTerm()), N: v.GetN()}
}

func toType(t *sharding.TypeDesc) *coordinatorv1.Type {
	out := &coordinatorv1.Type{Name: string(t.Type), Shards: t.Shards, Volatile: t.Volatile}
	for _, c := range t.Commands {
		out.Commands = append(out.Commands, &coordinatorv1.Command{Name: c.Name, ReadOnly: c.ReadOnly, Stale: c.Stale})
	}
	return out
}

func fromType(t *coordinatorv1.Type) sharding.TypeDesc {
	out := sharding.TypeDesc{Type: sharding.EntityType(t.GetName()), Shards: t.GetShards(), Volatile: t.GetVolatile()}
	for _, c := range t.GetCommands() {
		out.Commands = append(out.Commands, sharding.CommandDesc{Name: c.GetName(), ReadOnly: c.GetReadOnly(), Stale: c.GetStale()})
	}
	return out
}

func toRow(r sharding.Row) *coordinatorv1.Row {
	row := &coordinatorv1.Row{Type: string(r.Shard.Type), Index: r.Shard.Index, Epoch: uint64(r.Epoch), Phase: coordinatorv1.Phase(r.Phase)}
	if !r.Owner.IsZero() {
		row.Owner = toNode(r.Owner)
	}
	return row
}

func fromRow(r *coordinatorv1.Row) sharding.Row {
	return sharding.Row{
		Shard: sharding.ShardID{Type: sharding.EntityType(r.GetType()), Index: r.GetIndex()},
		Owner: fromNode(r.GetOwner()), Epoch: sharding.Epoch(r.GetEpoch()), Phase: fromPhase(r.GetPhase()),
	}
}

// fromPhase gives 0, which every table ignores, for a phase that is none.
func fromPhase(p coordinatorv1.Phase) sharding.Phase {
	if p < 0 || p > coordinatorv1.Phase(sharding.HandingOff) {
		return 0
	}
	return sharding.Phase(p)
}

func toDelta(d sharding.TableDelta) *coordinatorv1.WatchTableResponse {
	out := &coordinatorv1.WatchTableResponse{Version: toVersion(d.Version), Full: d.Full}
	for _, r := range d.Rows {
		out.Rows = append(out.Rows, toRow(r))
	}
	for i := range d.Types {
		out.Types = append(out.Types, toType(&d.Types[i]))
	}
	return out
}

func fromDelta(w *coordinatorv1.WatchTableResponse) sharding.TableDelta {
	d := sharding.TableDelta{Version: fromVersion(w.GetVersion()), Full: w.GetFull()}
	for _, r := range w.GetRows() {
		d.Rows = append(d.Rows, fromRow(r))
	}
	for _, t := range w.GetTypes() {
		d.Types = append(d.Types, fromType(t))
	}
	return d
}

func toNotActive(n coordinator.NotActive) *coordinatorv1.WatchTableResponse {
	out := &coordinatorv1.NotActive{Term: uint32(n.Term)}
	if !n.Active.IsZero() {
		out.Active = toNode(n.Active)
	}
	return &coordinatorv1.WatchTableResponse{NotActive: out}
}
