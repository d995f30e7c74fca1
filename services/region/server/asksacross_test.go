package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

// own gives each of the four shards of chimes to a region, at epochs that begin with a number,
// and publishes that.
func own(t *testing.T, f *fake, first uint32, owners ...*running) {
	t.Helper()
	d := instance.Describe(chimes())
	f.mu.Lock()
	delta := sharding.TableDelta{Full: true, Version: sharding.Version{Term: 1, N: f.table.Version.N + 1}, Types: []sharding.TypeDesc{d.Desc}}
	f.mu.Unlock()
	for i, r := range owners {
		id, epoch := sharding.ShardID{Type: "Chime", Index: uint32(i)}, sharding.MakeEpoch(1, first+uint32(i))
		if err := r.order(control.HostShard{Term: 1, Shard: id, Epoch: epoch}); err != nil {
			t.Fatal(err)
		}
		await(t, "the shard is started", f.look(func() bool { return f.started[epoch] }))
		delta.Rows = append(delta.Rows, sharding.Row{Shard: id, Owner: r.server.self, Epoch: epoch, Phase: sharding.Serving})
	}
	f.mu.Lock()
	f.table = delta
	f.mu.Unlock()
}

// chimeIn returns the id of a chime in a shard.
func chimeIn(shard uint32, n int) string {
	for i := 0; ; i++ {
		if id := fmt.Sprintf("%d-%d", n, i); shardingtest.ShardOf(sharding.EntityID(id), 4) == shard {
			return id
		}
	}
}

// TestRegionsAskEachOther: chimes of two regions ask each other over a link, and chimes of one
// region without. One region is stopped, and the other continues with what it had.
func TestRegionsAskEachOther(t *testing.T) {
	noneLeft(t)
	f, journal := newFake(t), "sqlite:"+t.TempDir()+"/journal.db"
	region := func() *running {
		r := launchWith(t, f, journal, nil, chimes())
		await(t, "the region is ready", func() bool { return strings.Contains(r.get("/readyz"), "ok") })
		return r
	}
	a, b := region(), region()
	own(t, f, 1, a, a, b, b)
	g := a.dial()
	number := uint64(0)
	strikeAt := func(first uint32, id string, next ...string) sharding.Reply {
		t.Helper()
		number++
		c := striking(number, id, next...)
		index := shardingtest.ShardOf(sharding.EntityID(id), 4)
		c.Epoch = sharding.MakeEpoch(1, first+index)
		if err := g.link.Send(index, &c); err != nil {
			t.Fatal(err)
		}
		return g.answer(number).Reply
	}
	here, there, beside, far := chimeIn(0, 1), chimeIn(2, 1), chimeIn(1, 1), chimeIn(3, 1)
	for i, next := range [][]string{{beside}, {there}, {there, beside}, {there, far, beside}} {
		if r := strikeAt(1, here, next...); r.Outcome != sharding.Executed || string(r.Payload) != fmt.Sprint(i+1) {
			t.Errorf("by way of %v: %+v %s", next, r, r.Payload)
		}
	}
	if r := strikeAt(1, here, there, here); r.Outcome != sharding.Executed || r.Code != sharding.FailedPrecondition || !strings.Contains(r.Message, "call cycle") {
		t.Errorf("a cycle over two regions: %+v", r)
	}
	// Two that ask each other at the same time: neither waits until its time is over.
	gb := b.dial()
	for i := range uint64(5) {
		one, other := striking(100+i, chimeIn(0, 2), chimeIn(2, 2)), striking(200+i, chimeIn(2, 2), chimeIn(0, 2))
		one.Epoch, other.Epoch = sharding.MakeEpoch(1, 1), sharding.MakeEpoch(1, 3)
		if err := errors.Join(g.link.Send(0, &one), gb.link.Send(2, &other)); err != nil {
			t.Fatal(err)
		}
		for _, r := range []sharding.Reply{g.answer(100 + i).Reply, gb.answer(200 + i).Reply} {
			if r.Outcome != sharding.Executed && (r.Outcome != sharding.Unknown || r.Code != sharding.Aborted || !strings.Contains(r.Message, "deadlock")) {
				t.Errorf("round %d: %+v", i, r)
			}
		}
	}
	b.end()
	own(t, f, 11, a, a, a, a)
	if r := strikeAt(11, here, there); r.Outcome != sharding.Executed || string(r.Payload) != "5" {
		t.Errorf("after the other region has ended: %+v %s", r, r.Payload)
	}
	if r := strikeAt(11, there); r.Outcome != sharding.Executed || string(r.Payload) != "5" {
		t.Errorf("it was struck: %+v %s, want 5", r, r.Payload)
	}
	a.end()
}
