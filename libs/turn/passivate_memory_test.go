package turn_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/libs/turn"
)

const (
	heapBound  = 100 << 10
	heapOthers = 10 << 10 // not an entity
	heapShards = 64
)

// heapProcess is a machine whose entities have a size each, all the same.
type heapProcess struct {
	m     *turn.Machine
	now   time.Time
	size  uint64
	cycle uint64
	next  int
	tells bool // the entities tell their size
	calm  bool // garbage is not collected
}

func newHeapProcess(s passivation.Strategy, size uint64) *heapProcess {
	var types []turn.Type
	for _, name := range []sharding.EntityType{"T", "U"} {
		types = append(types, turn.Type{Desc: sharding.TypeDesc{
			Type: name, Shards: heapShards, Volatile: true, Commands: []sharding.CommandDesc{{Name: "Do"}},
		}, Passivation: s})
	}
	cfg := turn.DefaultConfig(types...)
	cfg.HeapBytes = heapBound
	p := &heapProcess{m: turn.New(cfg), now: time.Unix(1000, 0), size: size}
	for i := range uint32(heapShards) {
		for _, t := range types {
			p.step(turn.Open{Shard: sharding.ShardID{Type: t.Desc.Type, Index: i}, Epoch: 1})
		}
	}
	return p
}

func (p *heapProcess) live() uint64 { return heapOthers + p.size*uint64(p.m.Stats().Entities) }

// command gives a command to an entity.
func (p *heapProcess) command(typ sharding.EntityType, id int) {
	p.now = p.now.Add(time.Millisecond)
	env := sharding.Envelope{Entity: sharding.Entity{Type: typ, ID: sharding.EntityID(fmt.Sprint(id))}, Command: "Do"}
	p.step(turn.Deliver{Request: 1, Env: &env, Shard: sharding.ShardID{Type: typ, Index: shardingtest.ShardOf(env.Entity.ID, heapShards)}})
	p.m.Recycle()
}

// run gives commands to a working set in turn, and collects garbage from time to time.
func (p *heapProcess) run(commands, workingSet int) {
	for i := range commands {
		p.next = (p.next + 1) % workingSet
		p.command("T", p.next)
		if i%50 == 0 && !p.calm {
			p.cycle++
			p.step(turn.Collected{Cycle: p.cycle, Live: p.live()})
		}
	}
}

func (p *heapProcess) step(in turn.Input) {
	for todo := p.m.Step(p.now, in, nil); len(todo) > 0; todo = todo[1:] {
		var answer turn.Input
		switch o := todo[0].(type) {
		case turn.Load:
			answer = turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation}
		case *turn.Run:
			done := turn.TurnDone{Incarnation: o.Incarnation, Request: o.Request, Reply: sharding.Reply{Outcome: sharding.Executed}}
			if p.tells {
				done.Size = int(p.size)
			}
			answer = done
		case turn.Stop:
			answer = turn.Stopped{Incarnation: o.Incarnation}
		default:
			continue
		}
		todo = p.m.Step(p.now, answer, todo)
	}
}

// heapAfter returns the live heap after many commands to entities that take ten times the
// bound together.
func heapAfter(s passivation.Strategy) uint64 {
	p := newHeapProcess(s, 1<<10)
	p.run(5000, 1000)
	return p.live()
}

// aliveOfIdle returns the number of living entities of a type that had none when another type filled
// the heap, and has ten now.
func aliveOfIdle() int {
	p := newHeapProcess(passivation.Idle(time.Hour), 1<<10)
	p.run(5000, 1000)
	for range 100 {
		for id := range 10 {
			p.command("U", id)
		}
		p.run(60, 1000)
	}
	return p.m.TypeStats()[1].Entities
}

// TestIdleType: a type without entities gives nothing up for other types.
func TestIdleType(t *testing.T) {
	if n := aliveOfIdle(); n < 5 {
		t.Errorf("%d entities are alive, want about ten", n)
	}
}

// heapWithoutCollections returns the live heap after many commands to entities that tell their
// size, while no garbage is collected.
func heapWithoutCollections(s passivation.Strategy) uint64 {
	p := newHeapProcess(s, 1<<10)
	p.tells, p.calm = true, true
	p.step(turn.Collected{Cycle: 1, Live: heapOthers})
	p.run(2000, 1000)
	return p.live()
}

// TestToldSizes: entities that tell their size do not outgrow the bound between two
// collections. Afterwards there may be more again.
func TestToldSizes(t *testing.T) {
	for _, s := range []passivation.Strategy{passivation.Idle(time.Hour), passivation.LRU(5000)} {
		if live := heapWithoutCollections(s); live > heapBound+2<<10 {
			t.Errorf("%s: %d bytes are live, the bound is %d", s, live, heapBound)
		}
		p := newHeapProcess(s, 1<<10)
		p.tells = true
		p.run(3000, 60)
		if st := p.m.TypeStats()[0]; st.Entities != 60 || st.Bytes != 60<<10 {
			t.Errorf("%s: %+v, want all 60", s, st)
		}
		if err := p.m.Clone().Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestStrategyWhileFull: another strategy does not end the bound that told sizes have set.
func TestStrategyWhileFull(t *testing.T) {
	for _, s := range []passivation.Strategy{passivation.Idle(time.Minute), passivation.LRU(5000)} {
		p := newHeapProcess(passivation.Idle(time.Hour), 1<<10)
		p.tells, p.calm = true, true
		p.step(turn.Collected{Cycle: 1, Live: heapOthers})
		p.run(200, 1000)
		p.step(turn.SetPassivation{Type: "T", Strategy: s})
		p.run(2000, 1000)
		if live := p.live(); live > heapBound+2<<10 {
			t.Errorf("%s: %d bytes are live, the bound is %d", s, live, heapBound)
		}
	}
}

// TestHeapBound: a working set of ten times the bound does not make the heap exceed it,
// whatever the strategy is, also if there is room for fewer entities than there are shards.
// When entities become smaller there may be all of them again.
func TestHeapBound(t *testing.T) {
	for _, s := range []passivation.Strategy{
		passivation.Idle(time.Hour), passivation.LRU(5000), passivation.LFU(5000).OrIdle(time.Hour), passivation.Composite(5000),
	} {
		t.Run(s.String(), func(t *testing.T) {
			if live := heapAfter(s); live > heapBound {
				t.Errorf("%d bytes are live, beyond the bound", live)
			}
			p := newHeapProcess(s, 4<<10) // room for 22 of them
			p.run(5000, 250)
			st := p.m.TypeStats()[0]
			if live := p.live(); live > heapBound || st.Limit == 0 || st.Limit > heapShards || st.Passivations.Memory == 0 {
				t.Errorf("%d bytes are live; %+v", live, st)
			}
			p.size = 1
			p.run(20_000, 250)
			if st := p.m.TypeStats()[0]; s.Limit > 0 && st.Limit != s.Limit || st.Entities != 250 {
				t.Errorf("with small entities there are %d, the limit is %d", st.Entities, st.Limit)
			}
			if err := p.m.Check(); err != nil {
				t.Error(err)
			}
		})
	}
	p := newHeapProcess(passivation.None(), 1<<10)
	if p.run(2000, 1000); p.m.Stats().Entities != 1000 {
		t.Errorf("%d of 1000 entities that are never passivated are alive", p.m.Stats().Entities)
	}
}
