package server

import (
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// Wire types stop here: everything behind this file speaks in the nouns of
// package sharding.

func fromNode(n *coordinatorv1.Node) sharding.NodeID {
	return sharding.NodeID{Addr: n.GetAddr(), UID: sharding.NodeUID(n.GetUid())}
}

func toShardEpoch(s sharding.ShardID, e sharding.Epoch) *coordinatorv1.ShardEpoch {
	return &coordinatorv1.ShardEpoch{Type: string(s.Type), Index: s.Index, Epoch: uint64(e)}
}

func toVersion(v sharding.Version) *coordinatorv1.Version {
	return &coordinatorv1.Version{Term: uint32(v.Term), N: v.N}
}

func fromVersion(v *coordinatorv1.Version) sharding.Version {
	return sharding.Version{Term: sharding.Term(v.GetTerm()), N: v.GetN()}
}

func fromType(t *coordinatorv1.Type) sharding.TypeDesc {
	out := sharding.TypeDesc{Type: sharding.EntityType(t.GetName()), Shards: t.GetShards(), Volatile: t.GetVolatile()}
	for _, c := range t.GetCommands() {
		out.Commands = append(out.Commands, sharding.CommandDesc{Name: c.GetName(), ReadOnly: c.GetReadOnly(), Stale: c.GetStale()})
	}
	return out
}

func fromDelta(w *coordinatorv1.WatchTableResponse) sharding.TableDelta {
	d := sharding.TableDelta{Version: fromVersion(w.GetVersion()), Full: w.GetFull()}
	for _, r := range w.GetRows() {
		d.Rows = append(d.Rows, sharding.Row{
			Shard: sharding.ShardID{Type: sharding.EntityType(r.GetType()), Index: r.GetIndex()},
			Owner: fromNode(r.GetOwner()), Epoch: sharding.Epoch(r.GetEpoch()), Phase: sharding.Phase(r.GetPhase()),
		})
	}
	for _, t := range w.GetTypes() {
		d.Types = append(d.Types, fromType(t))
	}
	return d
}

func fromEncoding(e gatewayv1.Encoding) sharding.Encoding {
	if e == gatewayv1.Encoding_ENCODING_PROTOBUF {
		return sharding.Protobuf
	}
	return sharding.JSON
}

func toEncoding(e sharding.Encoding) gatewayv1.Encoding {
	if e == sharding.Protobuf {
		return gatewayv1.Encoding_ENCODING_PROTOBUF
	}
	return gatewayv1.Encoding_ENCODING_JSON
}

// fromAsk is a request of the Twirp API without id and deadline.
func fromAsk(r *gatewayv1.AskRequest) sharding.Envelope {
	return sharding.Envelope{
		Entity:  sharding.Entity{Type: sharding.EntityType(r.GetType()), ID: sharding.EntityID(r.GetId())},
		Command: r.GetCommand(), ID: sharding.CommandID(r.GetIdempotencyKey()), Keyed: r.GetIdempotencyKey() != "",
		Encoding: fromEncoding(r.GetEncoding()), Payload: r.GetPayload(),
	}
}
