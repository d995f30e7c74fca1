package coordinator

import (
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// planWorld is a cluster in which plans are made when the test says so.
type planWorld struct {
	*world
	plans []Plan
	out   []Output // of the last do, without facts and plans
	// version is the version of the program that regions have which register from now on. 0: it stores nothing.
	version uint16
}

// newPlanWorld returns a cluster of r1, which serves four shards, and of r2, which has just
// come. A plan for both is being made: T/0 goes to r2.
func newPlanWorld(t *testing.T) *planWorld {
	w := &planWorld{world: newWorld(t, DefaultConfig())}
	w.run(Elected{Term: 1})
	return w.begin()
}

// newWaitingWorld returns the same cluster with a region of an earlier version, which does not read what the others may
// store. So no epoch is reserved for the successor before the owner has stopped the shard. The region is drained and
// cordoned.
func newWaitingWorld(t *testing.T) *planWorld {
	w := &planWorld{world: newWorld(t, DefaultConfig()), version: 1}
	w.run(Elected{Term: 1})
	w.join("r9")
	w.run(DrainRegion{Region: node(t, "r9").String()})
	w.run(CordonRegion{Region: "r9"})
	w.version = 2
	return w.begin()
}

func (w *planWorld) begin() *planWorld {
	t := w.t
	w.join("r1")
	for i := range uint32(4) {
		s := sharding.ShardID{Type: "T", Index: i}
		w.run(Received{Msg: control.GetShardHome{Shard: s}})
		w.run(from(node(t, "r1"), control.ShardStarted{Shard: s, Epoch: w.stored[s].Epoch}))
	}
	w.join("r2")
	w.pass(1)
	if len(w.plans) != 1 {
		t.Fatalf("%d plans are being made", len(w.plans))
	}
	return w
}

// run steps the machine, stores all facts, and keeps the plans.
func (w *planWorld) run(in Input) {
	w.t.Helper()
	w.out = nil
	for waiting := []Input{in}; len(waiting) > 0; waiting = waiting[1:] {
		out := w.step(waiting[0])
		if n := persisted(out); n > 0 {
			waiting = append(waiting, Stored{Facts: n})
		}
		for _, o := range out {
			switch o := o.(type) {
			case Persist:
			case Plan:
				w.plans = append(w.plans, o)
			default:
				w.out = append(w.out, o)
			}
		}
	}
	w.checkReplay()
}

func (w *planWorld) register(name string) {
	desc := sharding.TypeDesc{Type: "T", Shards: 4}
	if w.version > 0 {
		desc = program(w.version, 4)
	}
	w.run(calls(node(w.t, name), control.Register{Name: name, Types: []sharding.TypeDesc{desc}}))
}

func (w *planWorld) join(name string) {
	w.run(Member{Node: node(w.t, name), Name: name, Reachable: true})
	w.register(name)
}

// pass lets n intervals between two plans pass.
func (w *planWorld) pass(n int) {
	for range n {
		w.now = w.now.Add(w.cfg.RebalanceInterval)
		w.run(Tick{})
	}
}

// made gives the machine the first plan that was asked for.
func (w *planWorld) made() {
	w.t.Helper()
	p := w.plans[0].Compute()
	if len(p.Moves) != 1 || p.Moves[0].Shard.Index != 0 || p.Moves[0].To != node(w.t, "r2") {
		w.t.Fatalf("the plan is %+v", p.Moves)
	}
	w.plans = w.plans[1:]
	w.run(p)
}

// elect begins the next term in the same process; r1 and r2 register.
func (w *planWorld) elect() {
	w.run(Deposed{})
	w.run(Elected{Term: 2, Facts: slices.Clone(w.facts)})
	w.register("r1")
	w.register("r2")
}

// stopped has r1 release T/0, and returns who gets the shard.
func (w *planWorld) stopped() string {
	r := w.stored[sharding.ShardID{Type: "T"}]
	w.run(from(node(w.t, "r1"), control.ShardStopped{Shard: r.Shard, Epoch: r.Epoch}))
	return w.next()
}

// next returns who is to have T/0: its owner, or the successor that may claim it.
func (w *planWorld) next() string {
	_, r := w.m.table.find(sharding.ShardID{Type: "T"})
	return nodeText(r.awaited())
}

func (w *planWorld) handsOff() bool { return w.m.budget.Handoffs() > 0 }

// TestOnePlanAtATime: while a plan is in progress, no other is requested, and the coordinator
// continues.
func TestOnePlanAtATime(t *testing.T) {
	w := newPlanWorld(t)
	w.pass(5)
	if len(w.plans) != 1 {
		t.Fatalf("%d plans are being made at a time", len(w.plans))
	}
	w.made()
	if !w.handsOff() {
		t.Error("the plan begins nothing")
	}
	if w.pass(1); len(w.plans) != 1 {
		t.Errorf("after the plan, %d are being made", len(w.plans))
	}
}

// planOfEarlierTerm: a plan comes when another term has begun.
func planOfEarlierTerm(t *testing.T) (moves bool) {
	w := newPlanWorld(t)
	w.elect()
	w.made()
	return w.handsOff()
}

// planForLeaver: the region that the plan gives a shard leaves meanwhile.
func planForLeaver(t *testing.T) (moves bool) {
	w := newPlanWorld(t)
	w.run(calls(node(t, "r2"), control.GracefulShutdown{}))
	w.made()
	return w.handsOff()
}

// planOvertaken: the region that the plan gives a shard to has got others meanwhile.
func planOvertaken(t *testing.T) (moves bool) {
	w := newPlanWorld(t)
	for _, s := range []string{"T/1", "T/2"} {
		w.run(MoveShard{Shard: shard(t, s), Region: "r2"})
	}
	before := w.m.budget.Handoffs()
	if w.made(); before != 2 {
		t.Fatalf("%d shards are on their way", before)
	}
	return w.m.budget.Handoffs() > before
}

// planForPin: a shard is pinned, and the pin is not what it was when the plan arrives.
func planForPin(t *testing.T, then string) (moves bool) {
	w := newPlanWorld(t)
	w.m.planner.planning, w.plans = false, nil
	pin := func(region string) { w.run(PinShards{Pins: []Pin{{shard(t, "T/3"), region}}}) }
	pin("r2")
	w.pass(1)
	if len(w.plans) != 1 {
		t.Fatalf("%d plans are being made", len(w.plans))
	}
	pin(then)
	w.run(w.plans[0].Compute())
	return w.m.table.types[0].rows[3].Phase == sharding.HandingOff
}

func TestPlansThatAreLate(t *testing.T) {
	if planOfEarlierTerm(t) {
		t.Error("a plan of an earlier term moves a shard")
	}
	if planForLeaver(t) {
		t.Error("a plan moves a shard to a region that leaves")
	}
	if planOvertaken(t) {
		t.Error("a plan moves a shard to a region that by now has more")
	}
	for _, then := range []string{"", "r1", "r2"} {
		if moves := planForPin(t, then); moves != (then == "r2") {
			t.Errorf("by now the shard is pinned to %q, and moves: %t", then, moves)
		}
	}
	for name, change := range map[string]func(*planWorld){
		"a region is unreachable": func(w *planWorld) { w.run(Member{Node: node(t, "r2"), Name: "r2"}) },
		"the shard has moved": func(w *planWorld) {
			w.run(DrainRegion{Region: node(t, "r1").String()})
			w.stopped()
			w.run(from(node(t, "r2"), control.ShardStarted{Shard: shard(t, "T/0"), Epoch: epoch(t, "1.5")}))
			w.run(DrainRegion{Region: node(t, "r1").String(), Resume: true})
		},
		"the region is drained": func(w *planWorld) { w.run(DrainRegion{Region: node(t, "r2").String()}) },
	} {
		w := newPlanWorld(t)
		change(w)
		before := w.m.budget.Handoffs()
		if w.made(); w.m.budget.Handoffs() != before {
			t.Errorf("%s, and the plan moves a shard", name)
		}
	}
}

// goesToSuccessor: another region without shards has come before the owner releases the shard.
func goesToSuccessor(t *testing.T) string { return goesOnIn(newPlanWorld(t)) }

// goesToPlanned is the same if no epoch is reserved for the successor.
func goesToPlanned(t *testing.T) string { return goesOnIn(newWaitingWorld(t)) }

func goesOnIn(w *planWorld) string {
	w.made()
	w.join("r0")
	return w.stopped()
}

// successorLeaves: the successor is about to leave when the owner releases the shard.
func successorLeaves(t *testing.T) string {
	w := newPlanWorld(t)
	w.made()
	w.run(calls(node(t, "r2"), control.GracefulShutdown{}))
	return w.stopped()
}

// successorInNextTerm: the coordinator changes before the owner releases the shard. A region
// without shards is the first to register.
func successorInNextTerm(t *testing.T) string {
	w := newWaitingWorld(t)
	w.made()
	w.run(MemberGone{Node: node(t, "r9")})
	w.run(Deposed{})
	w.run(Elected{Term: 2, Facts: slices.Clone(w.facts)})
	w.join("r0")
	w.register("r1")
	if to := w.stopped(); to != "nobody" {
		t.Errorf("the shard goes to %s before its successor has registered", to)
	}
	w.register("r2")
	return w.next()
}

// inNextTerm is the same if an epoch is reserved for the successor: it need not register first.
func inNextTerm(t *testing.T) string {
	w := newPlanWorld(t)
	w.made()
	w.run(Deposed{})
	w.run(Elected{Term: 2, Facts: slices.Clone(w.facts)})
	w.join("r0")
	w.register("r1")
	return w.stopped()
}

func TestSuccessor(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*testing.T) string
		want string
	}{
		{"as planned", goesToSuccessor, "r2"},
		{"as planned, without a reserved epoch", goesToPlanned, "r2"},
		{"the successor leaves", successorLeaves, "r1"},
		{"in the next term", inNextTerm, "r2"},
		{"in the next term, without a reserved epoch", successorInNextTerm, "r2"},
		{"the owner dies", func(t *testing.T) string {
			w := newPlanWorld(t)
			w.made()
			w.join("r0")
			w.run(MemberGone{Node: node(t, "r1")})
			return w.next()
		}, "r2"},
		{"the successor dies", func(t *testing.T) string {
			w := newPlanWorld(t)
			w.made()
			w.run(MemberGone{Node: node(t, "r2")})
			return w.stopped()
		}, "r1"},
	} {
		if to := c.run(t); to != c.want {
			t.Errorf("%s: the shard goes to %s, want %s", c.name, to, c.want)
		}
	}
}

// TestBrokenWhilePlanning: shards that break a constraint are counted although a plan does not end.
func TestBrokenWhilePlanning(t *testing.T) {
	w := newPlanWorld(t)
	if !w.m.planner.planning {
		t.Fatal("no plan is being made")
	}
	w.run(PinShards{Pins: []Pin{{shard(t, "T/3"), "r9"}}, Ahead: true})
	w.now = w.now.Add(2 * w.cfg.BrokenInterval)
	w.run(Tick{})
	if n := w.m.planner.broken.shards[1]; !w.m.planner.planning || n != 1 {
		t.Errorf("%d shards are not where they are pinned, want 1; a plan is being made: %t", n, w.m.planner.planning)
	}
}

// planAgainAtOnce: a plan that took long is followed by a pause.
func planAgainAtOnce(t *testing.T) (again bool) {
	w := newPlanWorld(t)
	w.now = w.now.Add(w.cfg.RebalanceInterval * 9 / 10)
	w.run(Planned{Number: w.plans[0].Number})
	w.plans = nil
	w.now = w.now.Add(w.cfg.RebalanceInterval * 2 / 10)
	w.run(Tick{})
	return len(w.plans) > 0
}

func TestPauseBetweenPlans(t *testing.T) {
	if planAgainAtOnce(t) {
		t.Error("a plan that took long is followed by the next one at once")
	}
}
