package journal

import (
	"encoding/json"
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// HeartbeatEntity holds the last [sharding.JournalHeartbeat] of the active coordinator: one
// record without events, and a snapshot that every heartbeat replaces.
var HeartbeatEntity = sharding.Entity{Type: "roost.coordinator", ID: "active"}

// heartbeat is a sharding.JournalHeartbeat as stored. Numbers of 64 bits are text, because
// other programs read JSON's numbers as floating point.
type heartbeat struct {
	Addr    string             `json:"addr"`
	UID     sharding.NodeUID   `json:"uid,string"`
	Cluster sharding.ClusterID `json:"cluster,string,omitempty"` // missing in heartbeats of earlier versions
	Term    sharding.Term      `json:"term"`
	N       uint64             `json:"n"`
}

// HeartbeatOps returns the operations that write a heartbeat, in order. The first heartbeat of
// a term makes sure that the record exists: RefusedSeq means that it does, and is as good as
// Durable. The fence is the fence of the coordinators' facts.
func HeartbeatOps(h sharding.JournalHeartbeat) []Op {
	shard, epoch := sharding.ShardID{Type: HeartbeatEntity.Type}, sharding.MakeEpoch(h.Term, 0)
	record := Op{Append: &sharding.Append{Shard: shard, Epoch: epoch, Entity: HeartbeatEntity, Records: []sharding.Record{{Seq: 1}}}}
	snapshot := Op{Snapshot: &WriteSnapshot{
		Shard: shard, Epoch: epoch, Entity: HeartbeatEntity,
		Snapshot: Snapshot{Seq: 1, Encoding: sharding.JSON, Payload: EncodeHeartbeat(h)},
	}}
	if h.N > 1 {
		return []Op{snapshot}
	}
	return []Op{record, snapshot}
}

// WriteHeartbeat submits the [HeartbeatOps], each after the one before, until one does
// not succeed. done is called once.
func WriteHeartbeat(submit func(Op, func(Result)), h sharding.JournalHeartbeat, done func(Result)) {
	ops := HeartbeatOps(h)
	if len(ops) == 1 {
		submit(ops[0], done)
		return
	}
	submit(ops[0], func(r Result) {
		if r.Verdict == sharding.Durable || r.Verdict == sharding.RefusedSeq {
			submit(ops[1], done)
			return
		}
		done(r)
	})
}

// EncodeHeartbeat returns the payload of the snapshot.
func EncodeHeartbeat(h sharding.JournalHeartbeat) []byte {
	b, err := json.Marshal(heartbeat{h.Coordinator.Addr, h.Coordinator.UID, h.Cluster, h.Term, h.N})
	if err != nil {
		panic(fmt.Sprintf("a journal heartbeat cannot be written: %v", err)) // a text and numbers
	}
	return b
}

// DecodeHeartbeat reads the payload of the snapshot. Errors wrap ErrCorrupt.
func DecodeHeartbeat(b []byte) (sharding.JournalHeartbeat, error) {
	var h heartbeat
	if err := json.Unmarshal(b, &h); err != nil {
		return sharding.JournalHeartbeat{}, fmt.Errorf("reading the journal heartbeat: %w: %w", ErrCorrupt, err)
	}
	return sharding.JournalHeartbeat{Coordinator: sharding.NodeID{Addr: h.Addr, UID: h.UID}, Cluster: h.Cluster, Term: h.Term, N: h.N}, nil
}
