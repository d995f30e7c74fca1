package router

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestStatus: a router shows operators its state of a shard, and changes nothing by it.
func TestStatus(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Fed = true
	m, now := New(cfg), time.UnixMilli(1_000_000)
	entity, owner := sharding.Entity{Type: "T", ID: "x"}, sharding.NodeID{Addr: "r:1", UID: 1}
	if st := m.Status(entity); st.Known || st.Coordinator != "" {
		t.Errorf("without a table: %+v", st)
	}
	shard := sharding.ShardID{Type: "T"}
	table := func(phase sharding.Phase, n uint64) TableChange {
		return TableChange{Active: "c:1", Delta: sharding.TableDelta{Full: true, Version: sharding.Version{Term: 1, N: n},
			Types: []sharding.TypeDesc{{Type: "T", Shards: 1, Commands: []sharding.CommandDesc{{Name: "Do"}}}},
			Rows:  []sharding.Row{{Shard: shard, Owner: owner, Epoch: 1 << 32, Phase: phase}}}}
	}
	m.Step(now, table(sharding.Starting, 1), nil)
	for i := range 3 {
		m.Step(now.Add(time.Duration(i)*time.Second), Submit{Request: RequestID(i + 1), Env: &sharding.Envelope{Entity: entity, ID: sharding.CommandID(rune('a' + i)), Command: "Do"}}, nil)
	}
	before := string(m.AppendState(now, nil))
	st := m.Status(entity)
	if !st.Known || st.Row.Phase != sharding.Starting || st.Row.Owner != owner || st.Coordinator != "c:1" || st.Linked || st.Waiting != 3 || st.Sent != 0 ||
		!st.Oldest.Equal(now) || st.Room != cfg.MaxWaiting-3 {
		t.Errorf("commands wait: %+v", st)
	}
	if string(m.AppendState(now, nil)) != before {
		t.Error("the question has changed something")
	}
	m.Step(now.Add(3*time.Second), table(sharding.Serving, 2), nil)
	m.Step(now.Add(3*time.Second), LinkUp{Region: owner, Link: 7}, nil)
	if st := m.Status(entity); !st.Linked || st.Waiting != 0 || st.Sent != 3 {
		t.Errorf("commands are sent: %+v", st)
	}
	if st := m.Status(sharding.Entity{Type: "U", ID: "x"}); st.Known {
		t.Errorf("a type that is not there: %+v", st)
	}
}
