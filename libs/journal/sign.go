package journal

import (
	"encoding/json"
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// SignEntity holds the last [sharding.Sign] of the active coordinator: one record
// without events, and a snapshot that every sign replaces.
var SignEntity = sharding.Entity{Type: "roost.coordinator", ID: "active"}

// sign is a sharding.Sign as stored. Numbers of 64 bits are text, because other
// programs read JSON's numbers as floating point.
type sign struct {
	Addr    string             `json:"addr"`
	UID     sharding.NodeUID   `json:"uid,string"`
	Cluster sharding.ClusterID `json:"cluster,string,omitempty"` // missing in those of earlier versions
	Term    sharding.Term      `json:"term"`
	N       uint64             `json:"n"`
}

// EncodeSign is the payload of the snapshot.
func EncodeSign(s sharding.Sign) []byte {
	b, err := json.Marshal(sign{s.Coordinator.Addr, s.Coordinator.UID, s.Cluster, s.Term, s.N})
	if err != nil {
		panic(fmt.Sprintf("a sign of life cannot be written: %v", err)) // a text and numbers
	}
	return b
}

// DecodeSign reads the payload of the snapshot. Errors wrap ErrCorrupt.
func DecodeSign(b []byte) (sharding.Sign, error) {
	var s sign
	if err := json.Unmarshal(b, &s); err != nil {
		return sharding.Sign{}, fmt.Errorf("reading the sign of life: %w: %w", ErrCorrupt, err)
	}
	return sharding.Sign{Coordinator: sharding.NodeID{Addr: s.Addr, UID: s.UID}, Cluster: s.Cluster, Term: s.Term, N: s.N}, nil
}
