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
	Cluster sharding.ClusterID `json:"cluster,string,omitempty"` // missing in those of earlier versions
	Term    sharding.Term      `json:"term"`
	N       uint64             `json:"n"`
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
