package turn_test

import (
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/libs/turn"
)

// TestTraceThroughTurns plays a recorded trace of accesses as commands. The machine must
// activate and passivate as often as a policy alone does, whose numbers match the
// reference (see package passivation): so it touches with every command, and stops only
// the entities that the policy has chosen.
func TestTraceThroughTurns(t *testing.T) {
	ids := readTrace(t, "../passivation/testdata/traces/ps.trace.gz")
	for _, s := range traceStrategies() {
		t.Run(s.String(), func(t *testing.T) {
			if got, want := traceThroughTurns(s, ids), traceThroughPolicy(s, ids); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func traceStrategies() []passivation.Strategy {
	noWindow := passivation.Composite(100)
	noWindow.Admission.Window, noWindow.Admission.Optimizer = passivation.Replacement{}, nil
	return []passivation.Strategy{
		passivation.LRU(100), passivation.SegmentedLRU(100, 0.2, 0.8), passivation.MRU(100), passivation.LFU(100),
		passivation.LFUDynamicAging(100), passivation.Composite(100), noWindow, passivation.Idle(20 * time.Millisecond),
	}
}

const traceShards = 4

// traceCounts are the results of a trace.
type traceCounts struct{ activations, passivations uint64 }

func readTrace(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// traceThroughPolicy numbers the entities itself.
func traceThroughPolicy(s passivation.Strategy, ids []string) (n traceCounts) {
	p := passivation.New(s, traceShards, &passivation.EntityTable{})
	for i := range traceShards {
		p.Open(i, nil)
	}
	numbers, now := map[string]passivation.Entity{}, time.Unix(1000, 0)
	active := map[passivation.Entity]bool{}
	gone := func(list []passivation.Entity) {
		for _, e := range list {
			delete(active, e)
		}
		n.passivations += uint64(len(list))
	}
	for _, id := range ids {
		now = now.Add(time.Millisecond)
		gone(p.TakeExpired(now, nil))
		e := numbers[id]
		if e == 0 {
			e = passivation.Entity(len(numbers) + 1)
			numbers[id] = e
		}
		if !active[e] {
			n.activations++
			active[e] = true
		}
		entity := sharding.EntityID(id)
		gone(p.Touched(int(shardingtest.ShardOf(entity, traceShards)), e, uint32(entity.Hash()>>32), nil))
		p.MarkIdle(e, now, nil)
	}
	return n
}

// traceThroughTurns gives each command its turn before the next one comes.
func traceThroughTurns(s passivation.Strategy, ids []string) traceCounts {
	m := turn.New(turn.DefaultConfig(turn.Type{Desc: sharding.TypeDesc{
		Type: "T", Shards: traceShards, Volatile: true, Commands: []sharding.CommandDesc{{Name: "Do"}},
	}, Passivation: s}))
	now := time.Unix(1000, 0)
	step := func(in turn.Input) {
		for todo := m.Step(now, in, nil); len(todo) > 0; todo = todo[1:] {
			var answer turn.Input
			switch o := todo[0].(type) {
			case turn.Load:
				answer = turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation}
			case *turn.Run:
				answer = turn.TurnDone{Incarnation: o.Incarnation, Request: o.Request, Reply: sharding.Reply{Outcome: sharding.Executed}}
			case turn.Stop:
				answer = turn.Stopped{Incarnation: o.Incarnation}
			default:
				continue
			}
			todo = m.Step(now, answer, todo)
		}
	}
	for i := range uint32(traceShards) {
		step(turn.Open{Shard: sharding.ShardID{Type: "T", Index: i}, Epoch: 1})
	}
	for i, id := range ids {
		now = now.Add(time.Millisecond)
		step(turn.Tick{})
		env := sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(id)}, Command: "Do"}
		step(turn.Deliver{Request: turn.RequestID(i + 1), Env: &env, Shard: sharding.ShardID{Type: "T", Index: shardingtest.ShardOf(env.Entity.ID, traceShards)}})
		m.Recycle()
	}
	st := m.Stats()
	return traceCounts{st.Activations, st.Passivations.Idle + st.Passivations.Limit}
}
