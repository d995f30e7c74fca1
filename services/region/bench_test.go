package region_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// population is the number of entities of the benchmarks, enough that they are
// not all in the processor's cache.
const population = 10_000

// bench is a driver that answers at once.
type bench struct {
	m    *region.ShardCore
	now  time.Time
	out  region.Outputs
	cmds []region.Command
	last turn.RequestID
	done turn.TurnDone
}

func newBench(b *testing.B, volatile bool) *bench {
	d := &bench{now: time.Now(), m: region.NewShardCore(region.DefaultConfig(self, "region-1", turn.Type{
		Desc: sharding.TypeDesc{
			Type: "T", Shards: sharding.DefaultShards, Volatile: volatile, Commands: []sharding.CommandDesc{{Name: "Do"}},
		},
		Passivation: passivation.Idle(passivation.DefaultIdle),
	}), 0)}
	epoch := sharding.MakeEpoch(1, 1)
	for i := range uint32(sharding.DefaultShards) {
		id := sharding.ShardID{Type: "T", Index: i}
		d.m.Step(d.now, region.Host{Shard: id, Epoch: epoch}, &d.out)
		d.m.Step(d.now, region.Claimed{Shard: id, Epoch: epoch, Verdict: sharding.Durable}, &d.out)
	}
	d.done.Reply = sharding.Reply{Outcome: sharding.Executed, Payload: make([]byte, 16)}
	if !volatile {
		d.done.Events = []sharding.Event{{Name: "Done", Payload: make([]byte, 16)}}
	}
	for i := range population {
		d.cmds = append(d.cmds, region.Command{Epoch: epoch, Env: &sharding.Envelope{
			Entity:  sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprintf("entity-%d", i*7919%population))},
			Command: "Do", ID: sharding.CommandID(fmt.Sprintf("roost:%d", i)), Payload: make([]byte, 64),
		}})
	}
	b.ReportAllocs()
	return d
}

// ask lets the entity of the command handle it, and performs what follows.
func (d *bench) ask(cmd *region.Command) {
	d.last++
	d.now = d.now.Add(time.Microsecond)
	cmd.Request = d.last
	d.m.Command(d.now, cmd, &d.out)
	for i := 0; i < len(d.out.Turn); i++ {
		switch o := d.out.Turn[i].(type) {
		case turn.Load:
			d.m.Loaded(d.now, &turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation}, &d.out)
		case *turn.Run:
			d.done.Incarnation, d.done.Request = o.Incarnation, o.Request
			d.m.TurnDone(d.now, &d.done, &d.out)
		case turn.Append:
			d.m.Step(d.now, turn.Appended{
				Incarnation: o.Incarnation, Seq: o.Append.Records[0].Seq, Verdict: sharding.Durable,
			}, &d.out)
		case turn.Stop:
			d.m.Step(d.now, turn.Stopped{Incarnation: o.Incarnation}, &d.out)
		}
	}
	d.out.Reset()
	d.m.Recycle()
}

func (d *bench) run(b *testing.B) {
	for i := range d.cmds {
		d.ask(&d.cmds[i])
	}
	i := 0
	for b.Loop() {
		d.ask(&d.cmds[i])
		if i++; i == len(d.cmds) {
			i = 0
		}
	}
	if st := d.m.Stats(); st.Commands > 0 {
		b.Fatalf("%d commands are not answered", st.Commands)
	}
}

// BenchmarkAsk is a command for a volatile entity that lives.
func BenchmarkAsk(b *testing.B) { newBench(b, true).run(b) }

// BenchmarkPersist is a command whose turn stages an event.
func BenchmarkPersist(b *testing.B) { newBench(b, false).run(b) }

// BenchmarkActivate is a command that brings an entity to life, which is stopped
// after it.
func BenchmarkActivate(b *testing.B) {
	d := newBench(b, true)
	d.done.Passivate = true
	d.run(b)
}
