package coordinator

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// loadWorld is a cluster of r1, which serves four shards, and of r2, which has none. Shards move
// because of their loads. The term has begun long ago.
type loadWorld struct {
	*planWorld
	reports map[string]uint64
}

func newLoadWorld(t *testing.T) *loadWorld {
	cfg := DefaultConfig()
	config := allocation.DefaultConfig()
	config.Strategy = allocation.NameLoad
	strategy, err := allocation.New(config)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Strategy = strategy
	w := &loadWorld{planWorld: &planWorld{world: newWorld(t, cfg)}, reports: map[string]uint64{}}
	w.run(Member{Node: node(t, "r1"), Name: "r1", Reachable: true})
	w.run(Elected{Term: 1})
	w.register("r1")
	for i := range uint32(4) {
		s := sharding.ShardID{Type: "T", Index: i}
		w.run(Received{Msg: control.GetShardHome{Shard: s}})
		w.run(from(node(t, "r1"), control.ShardStarted{Shard: s, Epoch: w.stored[s].Epoch}))
	}
	w.join("r2")
	w.later(w.cfg.LoadCooldown)
	return w
}

func (w *loadWorld) later(d time.Duration) { w.now = w.now.Add(d) }

// report has a region report the loads of some shards of the type T, in tenths of a processor.
func (w *loadWorld) report(name string, full bool, of map[uint32]int, rest int) {
	w.t.Helper()
	w.reports[name]++
	r := control.ReportLoad{Number: w.reports[name], Full: full, Rest: tenths(rest)}
	for index, load := range of { // order-free: each is noted alone
		r.Shards = append(r.Shards, control.ShardLoad{Shard: sharding.ShardID{Type: "T", Index: index}, Load: tenths(load)})
	}
	w.run(calls(node(w.t, name), r))
	if len(w.out) != 1 || w.out[0].(Reply).Msg != (control.LoadAck{Term: w.m.term.number}) {
		w.t.Fatalf("the report is answered with %+v", w.out)
	}
}

func tenths(n int) sharding.Load { return sharding.Load{HandlerMicros: uint64(n) * 100_000} }

// busy has both regions report twice: the four shards of r1 take half a processor each.
func (w *loadWorld) busy(times int) {
	for range times {
		w.report("r1", true, map[uint32]int{0: 5, 1: 5, 2: 5, 3: 5}, 0)
		w.report("r2", true, nil, 0)
	}
}

// moves returns how many shards the next plan moves.
func (w *loadWorld) moves() int {
	before := w.m.budget.Handoffs()
	w.plans = nil
	w.pass(1)
	for _, p := range w.plans {
		w.run(p.Compute())
	}
	return w.m.budget.Handoffs() - before
}

// arrived completes all handoffs to r2.
func (w *loadWorld) arrived() {
	for _, s := range slices.SortedFunc(maps.Keys(w.stored), sharding.ShardID.Compare) {
		if w.stored[s].Phase == sharding.HandingOff {
			w.run(from(node(w.t, "r1"), control.ShardStopped{Shard: s, Epoch: w.stored[s].Epoch}))
			w.run(from(node(w.t, "r2"), control.ShardStarted{Shard: s, Epoch: w.reserved[s].Epoch}))
		}
	}
}

// load returns a region's load in the view of T, in tenths of a processor.
func (w *loadWorld) load(name string) int {
	for _, r := range w.m.typeView(w.m.table.types[0]).Regions {
		if r.Node == node(w.t, name) {
			return int(r.Load.Processors*10 + 0.5)
		}
	}
	w.t.Fatalf("%s is not in the view", name)
	return 0
}

// movesAfter: each region has reported so often.
func movesAfter(reports int) func(*testing.T) bool {
	return func(t *testing.T) bool {
		w := newLoadWorld(t)
		w.busy(reports)
		return w.moves() > 0
	}
}

// movesInNewTerm: all regions have reported twice, and the term has just begun.
func movesInNewTerm(t *testing.T) bool {
	w := newLoadWorld(t)
	w.elect()
	w.busy(2)
	return w.moves() > 0
}

// movesOn: shards have come to r2, and then r2 has much more load than r1.
func movesOn(t *testing.T) bool {
	w := newLoadWorld(t)
	w.busy(2)
	if n := w.moves(); n != 2 {
		t.Fatalf("%d shards move", n)
	}
	w.arrived()
	for range 2 {
		w.later(time.Second)
		w.report("r1", true, nil, 0)
		w.report("r2", true, map[uint32]int{0: 20, 1: 20, 2: 20, 3: 20}, 0)
	}
	return w.moves() > 0
}

// movesByOldReports: the regions have reported long ago.
func movesByOldReports(t *testing.T) bool {
	w := newLoadWorld(t)
	w.busy(2)
	w.later(w.cfg.LoadReport)
	return w.moves() > 0
}

func TestLoadMoves(t *testing.T) {
	if !movesAfter(2)(t) {
		t.Error("nothing moves off a region that has all the load")
	}
	for name, moves := range map[string]func(*testing.T) bool{
		"no region has reported": movesAfter(0), "the regions have reported once": movesAfter(1),
		"the term has just begun": movesInNewTerm, "the shards have just come": movesOn, "the reports are old": movesByOldReports,
	} {
		if moves(t) {
			t.Errorf("%s, and shards move because of load", name)
		}
	}
	w := newLoadWorld(t)
	w.busy(2)
	w.moves()
	w.arrived()
	for range 2 {
		w.later(w.cfg.LoadCooldown)
		w.report("r1", true, nil, 0)
		w.report("r2", true, map[uint32]int{0: 20, 1: 20, 2: 20, 3: 20}, 0)
	}
	if w.moves() == 0 {
		t.Error("after the cool-down nothing moves on")
	}
}

// loadOfEarlierOwner: r2 has taken shards of r1, and has reported twice since then. Its reports leave
// these shards out, because they have almost no load there. It returns the load that is counted for them.
func loadOfEarlierOwner(t *testing.T) int {
	w := newLoadWorld(t)
	w.busy(2)
	w.moves()
	w.arrived()
	for range 2 {
		w.later(time.Second)
		w.report("r2", true, nil, 1)
	}
	return w.load("r2") - 1
}

// TestLoadThatMoves: from the decision to move a shard on, its load is counted at the new region, until
// the new owner reports another load.
func TestLoadThatMoves(t *testing.T) {
	w := newLoadWorld(t)
	w.busy(2)
	want := func(when string, r1, r2 int) {
		t.Helper()
		if a, b := w.load("r1"), w.load("r2"); a != r1 || b != r2 {
			t.Errorf("%s: the loads are %d and %d, want %d and %d", when, a, b, r1, r2)
		}
	}
	want("before", 20, 0)
	w.moves()
	want("two shards hand off", 10, 10)
	w.report("r1", true, map[uint32]int{0: 1, 1: 1, 2: 6, 3: 6}, 1)
	want("the owner reports less of shards that it drains", 13, 10)
	w.arrived()
	w.later(time.Second)
	w.report("r2", true, nil, 0)
	want("the new owner has measured nothing yet", 13, 10)
	w.report("r1", false, map[uint32]int{0: 9, 2: 0}, 1)
	want("the earlier owner speaks of shards that it has not", 7, 10)
	w.later(time.Second)
	w.report("r2", false, map[uint32]int{0: 3}, 1)
	want("the new owner has measured", 7, 4)
	if n := loadOfEarlierOwner(t); n != 0 {
		t.Errorf("the load of an earlier owner counts: %d", n)
	}
	w.run(MemberGone{Node: node(t, "r2")})
	want2 := 7 + 3
	if got := w.load("r1"); got != want2 {
		t.Errorf("a region is gone, and its shards count %d, want %d", got, want2)
	}
}

// TestOutdatedReport: a report that comes late changes nothing.
func TestOutdatedReport(t *testing.T) {
	w := newLoadWorld(t)
	w.busy(2)
	w.run(calls(node(t, "r1"), control.ReportLoad{Number: 1, Full: true, Rest: tenths(70)}))
	if n := w.load("r1"); n != 20 {
		t.Errorf("after an outdated report the load is %d", n)
	}
}

// TestUnmeasured: the log names, once, the region that reports nothing.
func TestUnmeasured(t *testing.T) {
	w := newLoadWorld(t)
	told := map[string]int{}
	for range 3 {
		w.report("r1", true, nil, 0)
		w.pass(1)
		for _, o := range w.out {
			if o, ok := o.(NoLoad); ok {
				told[o.Region]++
			}
		}
	}
	if len(told) != 1 || told["r2"] != 1 {
		t.Errorf("told is %v", told)
	}
}

// TestLoadDuringUpgrade: the strategy is load already, and one region is still of a release that reports
// no loads. Shards go by their number, and only when they have to. When that region has been replaced,
// shards move because of their loads.
func TestLoadDuringUpgrade(t *testing.T) {
	w := newLoadWorld(t)
	w.join("r3") // reports nothing
	w.busy(2)
	if w.moves() > 0 {
		t.Error("the load of r3 is not known, and shards move because of load")
	}
	w.run(MemberGone{Node: node(t, "r1")})
	if w.moves() > 0 {
		t.Error("the load of r3 is not known, and shards are handed off")
	}
	got := map[string]int{}
	for _, r := range w.stored { // order-free: counts
		got[nodeText(r.Owner)]++
	}
	if got["r2"] != 2 || got["r3"] != 2 {
		t.Errorf("the shards of a region that is gone are at %v, want two at each of the others", got)
	}

	w.run(MemberGone{Node: node(t, "r3")})
	w.later(w.cfg.CrashPatience) // shards whose two owners were lost wait for a report
	w.join("r4")
	for _, s := range slices.SortedFunc(maps.Keys(w.stored), sharding.ShardID.Compare) {
		w.run(from(node(t, "r2"), control.ShardStarted{Shard: s, Epoch: w.stored[s].Epoch}))
	}
	w.later(w.cfg.LoadCooldown)
	for range 2 {
		w.later(time.Second)
		w.report("r2", true, map[uint32]int{0: 5, 1: 5, 2: 5, 3: 5}, 0)
		w.report("r4", true, nil, 0)
	}
	if n := w.moves(); n != 2 {
		t.Errorf("all regions report their loads, and %d shards move", n)
	}
}

// TestLoadsExplained: what is kept of a move because of load has the loads that it was based on, from
// before the move. A move that loads did not decide has none.
func TestLoadsExplained(t *testing.T) {
	w := newLoadWorld(t)
	w.busy(2)
	w.explanations = nil
	w.moves()
	var got []WeighedLoads
	for _, d := range w.explanations {
		if d.Kind == HandedOff {
			got = append(got, d.Loads)
		}
	}
	loads := func(from, to float64) WeighedLoads {
		return WeighedLoads{Shard: WeighedLoad{Cost: 0.5}, From: WeighedLoad{Cost: from, Of: 1}, To: WeighedLoad{Cost: to, Of: 1}}
	}
	if want := []WeighedLoads{loads(2, 0), loads(1.5, 0.5)}; !slices.Equal(got, want) {
		t.Errorf("the handoffs were because of %+v, want %+v", got, want)
	}
	w.explanations = nil
	w.arrived()
	w.later(w.cfg.LoadReport) // nothing is known any more
	w.run(DrainRegion{Region: node(t, "r2").String()})
	w.pass(1)
	if len(w.explanations) == 0 {
		t.Error("nothing is explained")
	}
	for _, d := range w.explanations {
		if d.Loads != (WeighedLoads{}) {
			t.Errorf("%s has the loads %+v", explanationText(d), d.Loads)
		}
	}
}

// TestWaitingWeighed: the plan and the explanation have the region's processors, and no more waiting commands than
// ten per processor of other load.
func TestWaitingWeighed(t *testing.T) {
	w := newLoadWorld(t)
	shard := control.ShardLoad{Shard: sharding.ShardID{Type: "T"}, Load: sharding.Load{HandlerMicros: 500_000, MilliWaiting: 700_000}}
	for range 2 {
		w.reports["r1"]++
		w.run(calls(node(t, "r1"), control.ReportLoad{
			Number: w.reports["r1"], Full: true, Shards: []control.ShardLoad{shard}, Rest: sharding.Load{HandlerMicros: 1_500_000, MilliWaiting: 1000},
			Node: control.NodeLoad{Processors: 2, MilliGC: 250},
		}))
		w.reports["r2"]++
		w.run(calls(node(t, "r2"), control.ReportLoad{Number: w.reports["r2"], Full: true, Node: control.NodeLoad{Processors: 8}}))
	}
	v := w.m.typeView(w.m.table.types[0])
	for _, r := range v.Regions {
		if r.Node == node(t, "r1") {
			if want := (allocation.Processors{All: 2, GC: 0.25}); r.Processors != want || r.Load.Waiting != 6 {
				t.Errorf("r1 has %+v and %v waiting commands, want %+v and 6", r.Processors, r.Load.Waiting, want)
			}
		}
	}
	w.explanations = nil
	if n := w.moves(); n != 1 {
		t.Fatalf("%d shards move", n)
	}
	for _, d := range w.explanations {
		if want := (WeighedLoads{Shard: WeighedLoad{1, 0.5, 0}, From: WeighedLoad{2.6, 0.6, 2}, To: WeighedLoad{0, 0, 8}}); d.Kind == HandedOff && !near(d.Loads, want) {
			t.Errorf("the handoff was because of %+v, want %+v", d.Loads, want)
		}
	}
}

func near(a, b WeighedLoads) bool {
	for i, x := range [...]float64{a.Shard.Cost, a.Shard.Waiting, a.Shard.Of, a.From.Cost, a.From.Waiting, a.From.Of, a.To.Cost, a.To.Waiting, a.To.Of} {
		if y := [...]float64{b.Shard.Cost, b.Shard.Waiting, b.Shard.Of, b.From.Cost, b.From.Waiting, b.From.Of, b.To.Cost, b.To.Waiting, b.To.Of}[i]; x-y > 1e-9 || y-x > 1e-9 {
			return false
		}
	}
	return true
}

// TestMostLoaded: what is reported of served shards is listed, the costliest first, and only from a cost on.
func TestMostLoaded(t *testing.T) {
	w := newLoadWorld(t)
	w.report("r1", true, map[uint32]int{0: 2, 1: 9, 2: 6}, 1)
	list := w.m.table.MostLoaded(allocation.DefaultConfig().Weights(), 0.5)
	if len(list) != 2 || list[0].Shard.Index != 1 || list[1].Shard.Index != 2 || list[0].Owner != node(t, "r1") || list[0].Cost < 0.9 || list[0].Cost > 1 {
		t.Errorf("the most loaded shards are %+v", list)
	}
}
