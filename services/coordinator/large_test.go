package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestManyAtOnce: with more than ReviewAtOnce shards, the rows are looked at once for all regions
// that have come or gone since the last tick; with fewer, at once.
func TestManyAtOnce(t *testing.T) {
	for _, test := range []struct {
		atOnce int
		tick   bool
	}{{4, false}, {3, true}} {
		cfg := DefaultConfig()
		cfg.ReviewAtOnce = test.atOnce
		w := &planWorld{world: newWorld(t, cfg)}
		w.run(Elected{Term: 1})
		w.join("r1")
		w.join("r2")
		w.pass(1)
		shard := sharding.ShardID{Type: "T"}
		w.run(Received{Msg: control.GetShardHome{Shard: shard}})
		first := w.stored[shard]
		w.run(from(first.Owner, control.ShardStarted{Shard: shard, Epoch: first.Epoch}))
		w.run(MemberGone{Node: first.Owner})
		if moved := w.stored[shard].Owner != first.Owner; moved == test.tick {
			t.Errorf("ReviewAtOnce %d: the shard of a lost region is allocated again at once: %v", test.atOnce, moved)
		}
		w.run(Tick{})
		if w.stored[shard].Owner == first.Owner {
			t.Errorf("ReviewAtOnce %d: the shard of a lost region is not allocated again at the next tick", test.atOnce)
		}
	}
}

// TestWholeTableIsShared: all watchers that need the whole table get the same rows, as long as nothing
// changes; after a change, and after a tick, the rows are new.
func TestWholeTableIsShared(t *testing.T) {
	w := &planWorld{world: newWorld(t, DefaultConfig())}
	w.run(Elected{Term: 1})
	w.join("r1")
	w.pass(1)
	whole := func() []sharding.Row {
		w.run(calls(node(t, "g"), control.WatchTable{}))
		return w.out[0].(Reply).Msg.(control.TableChanged).Delta.Rows
	}
	home := func(i uint32) {
		w.run(Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T", Index: i}}})
	}
	home(0)
	a, b := whole(), whole()
	if len(a) != 1 || &a[0] != &b[0] {
		t.Errorf("two watchers get %v and %v", a, b)
	}
	home(1)
	if c := whole(); len(c) != 2 || fmt.Sprint(a) != fmt.Sprint(b) || &c[0] == &a[0] {
		t.Errorf("after a change, a watcher gets %v", c)
	}
	w.run(Tick{})
	if w.m.table.whole.Full {
		t.Error("the rows are kept after a tick")
	}
}

// TestCommandsOfMany: a region with all commands of the type, as nearly all have, changes
// nothing of them, although another region has fewer.
func TestCommandsOfMany(t *testing.T) {
	w := &planWorld{world: newWorld(t, DefaultConfig())}
	w.run(Elected{Term: 1})
	commands := []sharding.CommandDesc{{Name: "Add"}, {Name: "Get", ReadOnly: true}}
	for i, have := range [][]sharding.CommandDesc{commands[:1], commands, commands, commands[:1]} {
		name := fmt.Sprint("r", i)
		w.run(Member{Node: node(t, name), Name: name, Reachable: true})
		w.run(calls(node(t, name), control.Register{Name: name, Types: []sharding.TypeDesc{{Type: "T", Shards: 4, Commands: have}}}))
		if got, want := w.m.table.types[0].desc.Commands, commands[:min(i+1, 2)]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after %s, the commands are %v, want %v", name, got, want)
		}
	}
}

// TestPinsOfALargeType: a program pins all shards of a large type, and unpins them, the first ones first.
// Each request takes one Step, in which the lease is not renewed.
func TestPinsOfALargeType(t *testing.T) {
	m, now := New(DefaultConfig()), time.Unix(1_000_000, 0)
	m.Step(now, Elected{Term: 1, Facts: []Fact{TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: sharding.MaxShards}}}}, nil)
	for _, region := range []string{"r1", ""} {
		for first := 0; first < sharding.MaxShards; first += m.cfg.MaxPins {
			in := PinShards{Ahead: true}
			for i := range m.cfg.MaxPins {
				in.Pins = append(in.Pins, Pin{Shard: sharding.ShardID{Type: "T", Index: uint32(first + i)}, Region: region})
			}
			m.Step(now, in, nil)
			m.Step(now, Stored{Facts: m.cfg.MaxPins}, nil)
		}
		pins := m.Steering().Pins
		if region != "" && (len(pins) != sharding.MaxShards || pins[5].Shard.Index != 5) || region == "" && len(pins) > 0 {
			t.Errorf("pinned to %q: %d shards", region, len(pins))
		}
		if err := m.Check(); err != nil {
			t.Error(err)
		}
	}
}
