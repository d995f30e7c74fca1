package coordinator

import (
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// What waits behind a fact waits once, and leaves in order. An answer without a waiting
// caller does not.
func TestGate(t *testing.T) {
	g := NewGate(DefaultConfig(), 0, 0)
	m := New(DefaultConfig())
	r1 := node(t, "r1")
	fact := Persist{Fact: DrainFact{Region: r1}}
	host := Send{To: r1, Msg: control.HostShard{Term: 1, Shard: shard(t, "T/0"), Epoch: epoch(t, "1.1")}}
	off := Send{To: r1, Msg: control.HandOff{Term: 1, Shard: shard(t, "T/0"), Epoch: epoch(t, "1.1")}}
	full := Reply{Call: 7, Msg: control.TableChanged{Delta: sharding.TableDelta{Rows: make([]sharding.Row, 100)}}}
	other := full
	other.Call = 8
	ack, bye := Reply{Call: 9, Msg: control.RegisterAck{Term: 1}}, Reply{Call: 10, Msg: control.ShutdownAck{Remaining: 2}}
	g.Add([]Output{off, fact, host, ack, bye, full, other})
	if got := g.Release(nil); fmt.Sprint(got) != fmt.Sprint([]Output{off}) {
		t.Errorf("before the fact is durable leaves %+v", got)
	}
	_, _, before := g.Held()
	for i := range control.Call(1000) {
		g.Forget(ack.Call)
		g.Forget(bye.Call)
		g.Forget(999_999) // a call without an answer
		ack.Call, bye.Call = 20+2*i, 21+2*i
		g.Add([]Output{host, ack, bye})
	}
	if outputs, facts, bytes := g.Held(); outputs > 2*6+1 || facts != 1 || bytes != before || before < 100*rowBytes || before > 150*rowBytes {
		t.Errorf("%d outputs wait, %d facts among them, %d bytes after %d", outputs, facts, bytes, before)
	}
	if facts := g.BeginRecord(m, nil); len(facts) != 1 || len(g.BeginRecord(m, nil)) > 0 || !g.Busy() {
		t.Errorf("the first record holds %v", facts)
	}
	g.Add([]Output{fact, off})
	if got := g.Release(nil); len(got) > 0 || g.Stored() != 1 {
		t.Errorf("before the fact is durable leaves %+v", got)
	}
	if got := g.End(); fmt.Sprint(got) != fmt.Sprint([]control.Call{full.Call, other.Call, ack.Call, bye.Call}) {
		t.Errorf("the calls %v are not answered", got)
	}
	want := []Output{host, full, other, ack, bye}
	if got := g.Release(nil); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("behind the first fact leaves %+v, want %+v", got, want)
	}
	if got := g.End(); len(got) > 0 {
		t.Errorf("the calls %v are left", got)
	}
}

// No record is larger than it may be, but for a single fact.
func TestRecordsAreBounded(t *testing.T) {
	cfg := DefaultConfig()
	cfg.RecordBytes = 300
	g, m := NewGate(cfg, 0, 0), New(cfg)
	large := TypeFact{Desc: sharding.TypeDesc{Type: "T"}}
	for range 100 {
		large.Desc.Commands = append(large.Desc.Commands, sharding.CommandDesc{Name: "Command"})
	}
	var outs []Output
	for range 10 {
		outs = append(outs, Persist{Fact: DrainFact{}}, Persist{Fact: DrainFact{}}, Persist{Fact: large})
	}
	g.Add(outs)
	all := 0
	for range 30 {
		facts := g.BeginRecord(m, nil)
		size := 0
		for _, f := range facts[:max(len(facts)-1, 0)] {
			size += factSize(f)
		}
		if size >= cfg.RecordBytes {
			t.Errorf("a record of %d facts has %d bytes without its last", len(facts), size)
		}
		all += g.Stored()
	}
	if all != len(outs) {
		t.Errorf("%d of %d facts are in records", all, len(outs))
	}
}
