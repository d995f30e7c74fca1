package coordinator

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

func rowFact(index uint32, owner string, e sharding.Epoch, p sharding.Phase) Fact {
	row := sharding.Row{Shard: sharding.ShardID{Type: "T", Index: index}, Epoch: e, Phase: p}
	if owner != "" {
		row.Owner = sharding.NodeID{Addr: owner + ":1", UID: 1}
	}
	return RowFact{Row: row}
}

// Snapshot returns the table as facts: types, drained regions, the target version, rows.
func (m *Machine) Snapshot() []Fact {
	var facts []Fact
	var c cursor
	for f := m.next(&c); f != nil; f = m.next(&c) {
		facts = append(facts, f)
	}
	return facts
}

// Facts that are old, repeated, or make no sense change nothing.
func TestFoldKeepsTheNewest(t *testing.T) {
	e := func(n uint32) sharding.Epoch { return sharding.MakeEpoch(1, n) }
	want := []Fact{
		TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 2}},
		rowFact(0, "r2", e(3), sharding.Serving),
		rowFact(1, "", e(4), sharding.Starting),
	}
	facts := []Fact{
		rowFact(0, "r1", e(1), sharding.Starting), // before its type
		TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 0}},
		TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: sharding.MaxShards + 1}},
		TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 2}},
		TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 3}},
		TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 2, Volatile: true}},
		rowFact(0, "r1", e(1), sharding.Starting),
		rowFact(0, "r2", e(3), sharding.Serving),
		rowFact(0, "r1", e(1), sharding.Serving),
		rowFact(0, "r1", e(3), sharding.Serving),
		rowFact(0, "r2", e(3), sharding.Starting),
		rowFact(1, "", e(4), sharding.Starting),
		rowFact(1, "", e(4), sharding.Serving),
		rowFact(1, "", e(5), sharding.HandingOff),
		rowFact(1, "r1", e(5), 0),
		rowFact(1, "r1", e(5), 4),
		rowFact(2, "r1", e(5), sharding.Serving),
	}
	m := New(DefaultConfig())
	m.Step(time.Unix(0, 0), Elected{Term: 2, Facts: facts}, nil)
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	if got := m.Snapshot(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("folded to %+v, want %+v", got, want)
	}
}

// member lets a region join and register.
func member(m *Machine, now time.Time, name string, types ...sharding.TypeDesc) []Output {
	n := sharding.NodeID{Addr: name + ":1", UID: 1}
	out := m.Step(now, Member{Node: n, Reachable: true}, nil)
	return m.Step(now, calls(n, control.Register{Types: types}), out)
}

// TestGivenOutAnew: rows of a repair have no owner. Their shards go to the successors that they name, and if these
// are gone, to others that read all forms.
func TestGivenOutAnew(t *testing.T) {
	now := time.Unix(0, 0)
	forms := []sharding.Form{{Kind: sharding.FormOfEvent, Name: "a", Version: 1}, {Kind: sharding.FormOfEvent, Name: "b", Version: 1}}
	desc := sharding.TypeDesc{Type: "T", Shards: 3, Writes: forms, Reads: forms}
	facts := []Fact{UnknownFact{Name: "repaired"}, TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 3}, Forms: forms, By: []string{"", ""}}}
	for i, to := range []string{"r2", "gone", ""} {
		f := RowFact{
			Row:    sharding.Row{Shard: sharding.ShardID{Type: "T", Index: uint32(i)}, Epoch: sharding.MakeEpoch(5, uint32(i+1)), Phase: sharding.Starting},
			Before: sharding.FormSet("").With(0).With(1), Cause: sharding.CauseRepaired,
		}
		if to != "" {
			f.Successor = sharding.NodeID{Addr: to + ":1", UID: 1}
		}
		facts = append(facts, f)
	}
	m := New(DefaultConfig())
	m.Step(now, Elected{Term: 6, Facts: facts}, nil)
	old := desc
	old.Writes, old.Reads = forms[:1], forms[:1]
	member(m, now, "old", old) // it does not read everything that may be stored
	member(m, now, "r2", desc)
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		m.Step(now, Tick{}, nil)
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint32(3) {
		_, r := m.table.find(sharding.ShardID{Type: "T", Index: i})
		if r.Owner.Addr != "r2:1" || r.Epoch.Term() != 6 || r.before != sharding.FormSet("").With(0).With(1) {
			t.Errorf("shard %d is %+v", i, r.Row)
		}
	}
	if got := m.Snapshot(); !slices.ContainsFunc(got, func(f Fact) bool { return f == UnknownFact{Name: "repaired"} }) {
		t.Errorf("the repair is forgotten: %v", got)
	}
}

// A coordinator whose term is not above all epochs allocates nothing: a newer
// one has been there, and its own end is near.
func TestTermBelowTheFacts(t *testing.T) {
	now := time.Unix(0, 0)
	for _, e := range []sharding.Epoch{sharding.MakeEpoch(2, math.MaxUint32), sharding.MakeEpoch(3, 1)} {
		m := New(DefaultConfig())
		desc := sharding.TypeDesc{Type: "T", Shards: 2}
		m.Step(now, Elected{Term: 2, Facts: []Fact{TypeFact{Desc: desc}, rowFact(0, "r1", e, sharding.Serving)}}, nil)
		out := member(m, now, "r2", desc)
		out = m.Step(now.Add(3*time.Second), Tick{}, out)
		if e.Term() == 2 { // all its epochs are used up
			out = m.Step(now, Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T", Index: 1}}}, out)
		}
		for _, o := range out {
			if !is[control.RegisterAck](o) {
				t.Errorf("below %v: %T%+v", e, o, o)
			}
		}
	}
}

// moody is a strategy that says no for a while.
type moody struct {
	allocation.LeastShards
	no *bool
}

func (s moody) Allocate(v allocation.View, shard sharding.ShardID) sharding.NodeID {
	if *s.no {
		return sharding.NodeID{Addr: "elsewhere:1", UID: 9} // no watcher has seen it
	}
	return s.LeastShards.Allocate(v, shard)
}

// A strategy that had no region for a shard is called again.
func TestStrategyIsAskedAgain(t *testing.T) {
	no := true
	cfg := DefaultConfig()
	cfg.Strategy = moody{no: &no}
	now := time.Unix(0, 0)
	desc := sharding.TypeDesc{Type: "T", Shards: 2}
	m := New(cfg)
	m.Step(now, Elected{Term: 2, Facts: []Fact{TypeFact{Desc: desc}, rowFact(0, "", sharding.MakeEpoch(1, 1), sharding.Starting)}}, nil)
	member(m, now, "r1", desc)
	out := m.Step(now, Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T", Index: 1}}}, nil)
	if len(out) > 0 {
		t.Fatalf("gives a shard to an unknown region: %+v", out)
	}
	no = false
	out = m.Step(now.Add(cfg.RebalanceInterval), Tick{}, nil)
	if !slices.ContainsFunc(out, is[control.HostShard]) {
		t.Errorf("not asked again: %+v", out)
	}
}

// greedy is a strategy that moves whatever comes to its mind.
type greedy struct{ allocation.LeastShards }

func (greedy) Rebalance(allocation.View, []sharding.ShardID) []sharding.ShardID {
	return []sharding.ShardID{{Type: "M"}, {Type: "M"}, {Type: "M", Index: 1}, {Type: "M", Index: 2}, {Type: "X"}}
}

// Only shards that are served are moved for balance, each once.
func TestStrategyMovesNonsense(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Strategy = greedy{}
	w := newWorld(t, cfg)
	for _, line := range []string{
		"member r1", "elect 1", "register r1 M:3", "home M/0", "home M/1", "started r1 M/0 1.1",
		"member r2", "register r2 M:3", "wait 1500ms",
	} {
		w.do(line)
	}
	if r := w.stored[sharding.ShardID{Type: "M"}]; r.Phase != sharding.HandingOff || w.m.budget.Handoffs() != 1 {
		t.Errorf("%d handoffs, %s", w.m.budget.Handoffs(), rowText(r))
	}
}

// A fourth region reaches its share of 1024 shards within 3 s.
func TestJoinIsQuick(t *testing.T) {
	now := time.Unix(0, 0)
	desc := sharding.TypeDesc{Type: "T", Shards: 1024}
	m := New(DefaultConfig())
	m.Step(now, Elected{Term: 1}, nil)
	start := func(out []Output) {
		for len(out) > 0 {
			next := m.Step(now, Stored{Facts: persisted(out)}, nil)
			for _, o := range out {
				if p, ok := o.(Plan); ok {
					next = m.Step(now, p.Compute(), next)
				}
				o, _ := o.(Send)
				switch msg := o.Msg.(type) {
				case control.HostShard:
					next = m.Step(now, from(o.To, control.ShardStarted{Shard: msg.Shard, Epoch: msg.Epoch}), next)
				case control.HandOff:
					next = m.Step(now, from(o.To, control.ShardStopped{Shard: msg.Shard, Epoch: msg.Epoch}), next)
				}
			}
			out = next
		}
	}
	for _, name := range []string{"r1", "r2", "r3"} {
		start(member(m, now, name, desc))
	}
	for i := range desc.Shards {
		start(m.Step(now, Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T", Index: i}}}, nil))
	}
	member(m, now, "r4", desc)
	for end := now.Add(3 * time.Second); now.Before(end); now = now.Add(50 * time.Millisecond) {
		start(m.Step(now, Tick{}, nil))
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	for _, r := range m.View().Regions {
		if r.Shards != 256 {
			t.Errorf("%s has %d shards, want 256", nodeText(r.Node), r.Shards)
		}
	}
}

// BenchmarkFailover is the failover of half the shards of a big cluster.
func BenchmarkFailover(b *testing.B) {
	now := time.Unix(0, 0)
	desc := sharding.TypeDesc{Type: "T", Shards: 1 << 14}
	m := New(DefaultConfig())
	m.Step(now, Elected{Term: 1}, nil)
	member(m, now, "r1", desc)
	member(m, now, "r2", desc)
	for i := range desc.Shards {
		m.Step(now, Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T", Index: i}}}, nil)
	}
	m.Step(now, Stored{Facts: int(m.ledger.lastFact)}, nil)
	for b.Loop() {
		c := m.Clone()
		if out := c.Step(now, MemberGone{Node: node(nil, "r1")}, nil); len(out) != 1<<14 {
			b.Fatal(len(out))
		}
	}
}
