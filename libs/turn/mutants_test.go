//go:build mutants

package turn_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/scenariotest"
	"github.com/roost-cluster/roost/libs/turn"
)

// TestMutants checks that the scenarios fail without a guard.
func TestMutants(t *testing.T) {
	for _, name := range []string{"quarantine-refuses", "output-gate", "read-fence", "load-again", "load-limit", "result-bytes", "mailbox-deadline", "deadline-late", "damage-is-loss", "damage-settles", "settle-refused-stays", "principal", "principal-joins", "staged-wake", "overtaken-firing", "unknown-firing", "drop-overtakes", "refused-wake", "remembered", "starts-last", "remembered-lost", "forgotten-durable", "forgotten-stops", "reminders-limit", "send-limit", "send-limit-final", "answer-once", "answer-life",
		"ask-barrier", "ask-fence", "call-cycle", "ask-chain", "ask-read-only", "ask-unkeyed", "ask-turn", "asks-again", "ask-waiting", "ask-key", "ask-ordinal", "ask-life", "ask-conflict", "ask-doubt", "ask-reserve", "ask-drain", "ask-depth", "ask-ended", "ask-unwanted", "failed-fence", "ask-sent", "ask-builtin", "ask-refused", "ask-final", "send-builtin", "asked-read-only",
		"delete-mark", "delete-ends", "bare-load", "bare-turn",
		"keep-events", "untold-snapshot", "snapshot-wrote", "input-wrote",
		"ended-twice", "again-ends", "again-once", "again-life", "again-pending", "again-doubt", "operator-record", "drop-pending", "drop-told", "doubt-outlives-key"} {
		mutant.Activate(name)
		caught := scenariotest.Differing(t, play)
		mutant.Activate("")
		if caught == 0 {
			t.Errorf("mutant %s: no scenario differs", name)
		}
	}
}

// noted only remembers that a test has failed.
type noted struct {
	testing.TB
	failed bool
}

func (n *noted) Errorf(string, ...any) { n.failed = true }

// TestMutantsOfLoads checks that an entity that is damaged, and is loaded forever, is noticed.
func TestMutantsOfLoads(t *testing.T) {
	mutant.Activate("damaged-load")
	t.Cleanup(func() { mutant.Activate("") })
	n := noted{TB: t}
	if notLoaded(&n); !n.failed {
		t.Error("mutant damaged-load: no test fails")
	}
}

// TestMutantsOfPassivation: without a guard a command gets lost, a timer does, or more
// entities stay alive than the limit allows.
func TestMutantsOfPassivation(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "busy-victim", "timer-holds"} {
		mutant.Activate(name)
		caught := len(playLate(passivation.LRU(6), 3000, rand.New(rand.NewPCG(1, 2)))) > 0
		if caught != (name != "") {
			t.Errorf("mutant %q: caught %t", name, caught)
		}
	}
}

// TestMutantsOfMemory: without the bound there are more entities than memory.
func TestMutantsOfMemory(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	mutant.Activate("heap-bound")
	if heapAfter(passivation.LRU(5000)) <= heapBound {
		t.Error("mutant heap-bound: the heap stays below its bound")
	}
	mutant.Activate("idle-bound")
	if aliveOfIdle() > 1 {
		t.Error("mutant idle-bound: a type that was idle may have many entities")
	}
	mutant.Activate("told-sizes")
	if heapWithoutCollections(passivation.LRU(5000)) <= 2*heapBound {
		t.Error("mutant told-sizes: the heap stays near its bound")
	}
}

// TestMutantsOfVictims: an entity that the policy has chosen while it was busy is stopped
// when it is idle.
func TestMutantsOfVictims(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	ids := readTrace(t, "../passivation/testdata/traces/ps.trace.gz")
	mutant.Activate("victim-stops")
	for _, s := range traceStrategies() {
		if traceThroughTurns(s, ids) != traceThroughPolicy(s, ids) {
			return
		}
	}
	t.Error("mutant victim-stops: no strategy differs")
}

// TestMutantsOfIncarnations: a shard that was lost and came back is loaded again.
// What was read for the first tenure is older, and must not be taken for it.
func TestMutantsOfIncarnations(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	shard := sharding.ShardID{Type: "T"}
	id := sharding.Entity{Type: "T", ID: "x"}
	for _, name := range []string{"", "incarnation"} {
		mutant.Activate(name)
		m := turn.New(turn.DefaultConfig(turn.Type{Desc: sharding.TypeDesc{
			Type: "T", Shards: 1, Commands: []sharding.CommandDesc{{Name: "Do"}},
		}}))
		now := time.Unix(0, 0)
		deliver := turn.Deliver{Request: 1, Shard: shard, Env: &sharding.Envelope{Entity: id, Command: "Do", ID: "a"}}
		var loads []turn.Load
		for _, in := range []turn.Input{
			turn.Open{Shard: shard, Epoch: 1}, deliver, turn.Abort{Shard: shard},
			turn.Open{Shard: shard, Epoch: 2}, deliver,
		} {
			for _, o := range m.Step(now, in, nil) {
				if load, ok := o.(turn.Load); ok {
					loads = append(loads, load)
				}
			}
		}
		if len(loads) != 2 {
			t.Fatalf("loaded %d times, want 2", len(loads))
		}
		ran := false
		for _, o := range m.Step(now, turn.Loaded{Entity: id, Incarnation: loads[0].Incarnation}, nil) {
			_, run := o.(*turn.Run)
			ran = ran || run
		}
		if ran != (name != "") {
			t.Errorf("mutant %q: a turn runs on what an ended incarnation read: %t", name, ran)
		}
	}
}

// TestMutantsOfKeptStates: an entity that has read its kept state is the only one that has it.
func TestMutantsOfKeptStates(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "kept-and-alive"} {
		mutant.Activate(name)
		o := newOwner(t, nil)
		o.open(2, []turn.Kept{{ID: "x", Payload: []byte("7")}})
		o.call("x", "Add", 0)
		o.call("x", "Quit", 0)
		o.call("x", "Add", 0)
		if again := len(o.ran) == 3 && o.ran[2] == "x Add 8"; again != (name != "") {
			t.Errorf("mutant %q: an entity that was passivated has its kept state again: %t, ran %q", name, again, o.ran)
		}
	}
}

// TestMutantsOfCalls shows what the rules about probes are for.
func TestMutantsOfCalls(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"probe-youngest", "probe-stale", "probe-again", "probe-drain", "probe-late"} {
		mutant.Activate(name)
		if breakDeadlocks() == nil && randomCalls() == nil && circleInDrainingShard() == nil {
			t.Errorf("mutant %s is not noticed", name)
		}
	}
}

// TestMutantsOfOptions: the options of commands are noticed if they are ignored.
func TestMutantsOfOptions(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"command-timeout", "send-age-refused"} {
		if mutant.Activate(name); commandOptions() == nil {
			t.Errorf("mutant %s is not noticed", name)
		}
	}
}
