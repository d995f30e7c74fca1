package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// wish reads a request of an operator: cordon r1 [ahead] [because x], uncordon r1, freeze
// [for 1s], thaw, pin T/0 r1, unpin T/0, move T/0 r1.
func wish(t *testing.T, word string, args []string) Request {
	reason, ahead := "", false
	if i := slices.Index(args, "because"); i >= 0 {
		args, reason = args[:i], strings.Join(args[i+1:], " ")
	}
	if n := len(args); n > 0 && args[n-1] == "ahead" {
		args, ahead = args[:n-1], true
	}
	switch word {
	case "drain", "resume":
		return DrainRegion{Region: args[0], Resume: word == "resume", By: "ben", Reason: reason}
	case "target":
		return SetTarget{Version: args[0], By: "ben"}
	case "cordon", "uncordon":
		return CordonRegion{Region: args[0], Lift: word == "uncordon", Ahead: ahead, By: "ben", Reason: reason}
	case "freeze":
		in := FreezeMoves{By: "ben", Reason: reason}
		if len(args) > 1 {
			var err error
			if in.For, err = time.ParseDuration(args[1]); err != nil {
				t.Fatal(err)
			}
		}
		return in
	case "thaw":
		return FreezeMoves{Thaw: true, By: "ben"}
	case "pin":
		return PinShards{Pins: []Pin{{Shard: shard(t, args[0]), Region: args[1]}}, Ahead: ahead, By: "ben", Reason: reason}
	case "unpin":
		return PinShards{Pins: []Pin{{Shard: shard(t, args[0])}}, By: "ben"}
	case "quarantine", "release":
		typ, id, _ := strings.Cut(args[0], "/")
		return QuarantineEntity{Entity: sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}, Release: word == "release", By: "ben", Reason: reason}
	case "move":
		return MoveShard{Shard: shard(t, args[0]), Region: args[1], By: "ben", Reason: reason}
	}
	t.Fatalf("no request is called %q", word)
	return nil
}

// steer asks what a request would do, which must change nothing, and carries it out. Repeated,
// it must change nothing.
func (w *world) steer(r Request, really bool) {
	w.t.Helper()
	say := func(format string, args ...any) {
		w.trace = append(w.trace, traceLine{text: fmt.Sprintf(format, args...), times: 1})
	}
	before := string(w.m.AppendState(w.now, nil))
	e, err := w.m.Preview(r)
	if after := string(w.m.AppendState(w.now, nil)); before != after {
		w.t.Fatalf("asking for the effect of %+v changes something", r)
	}
	switch {
	case err != nil:
		say("refused: %v", err)
	case e.Already:
		say("already so")
	}
	for _, remark := range e.Remarks {
		say("  %s", remark)
	}
	if !really {
		return
	}
	n := len(w.facts)
	w.run(r)
	if got := len(w.facts) - n; got != e.Changes && err == nil && !isMove(r) || err != nil && got > 0 {
		w.t.Fatalf("%+v changes %d facts, it should be %d: %v", r, got, e.Changes, err)
	}
	if f, ok := r.(FreezeMoves); ok && f.For > 0 {
		f.Until, f.For = e.Until, 0
		r = f
	}
	w.hear() // before, a quarantine is not done
	if n = len(w.facts); err == nil {
		if e, err := w.m.Preview(r); err != nil || !e.Already {
			w.t.Fatalf("%+v, asked again: %+v, %v", r, e, err)
		}
		if w.run(r); len(w.facts) > n {
			w.t.Fatalf("%+v, repeated, changes %+v", r, w.facts[n:])
		}
	}
}

// hear has all regions know the present route table.
func (w *world) hear() {
	for i := range w.m.live.regions {
		w.m.live.regions[i].table = w.m.table.version
	}
}

func isMove(r Request) bool { _, is := r.(MoveShard); return is }

// tellSteering shows what operators want.
func (w *world) tellSteering() {
	v := w.m.Steering()
	say := func(format string, args ...any) {
		w.trace = append(w.trace, traceLine{text: "  " + fmt.Sprintf(format, args...), times: 1})
	}
	if v.Freeze.Frozen {
		say("frozen by %s%s", v.Freeze.By, because(v.Freeze.Reason))
	}
	for _, d := range v.Drains {
		say("%s drained by %s%s, %d shards left", d.Name, d.By, because(d.Reason), d.Shards)
	}
	for _, c := range v.Cordons {
		say("%s cordoned by %s%s, here %t, %d shards, %d since", c.Region, c.By, because(c.Reason), c.Here, c.Shards, c.Since)
	}
	for _, p := range v.Pins {
		say("%v pinned to %s by %s%s, at %s", p.Shard, p.Region, p.By, because(p.Reason), p.Name)
	}
	for _, f := range v.Moves {
		say("%v goes to %s, asked for by %s%s", f.Shard, f.Region, f.By, because(f.Reason))
	}
}

// TestRefusals: what is not possible is refused with the reason and what to do.
func TestRefusals(t *testing.T) {
	setUp := []string{
		"config max-handoffs=1", "member r1", "member r2", "member r3", "member r4 joining", "elect 1", "register r1 T:4 U:1", "register r2 T:4", "register r3 V:2", "register r4 T:4", "member r6", "register r6 T:4",
		"pin T/0 r1", "pin T/1 r1", "home T/0", "home T/1", "started r1 T/0 1.1", "unpin T/0",
	}
	for _, c := range []struct{ before, ask, want string }{
		{"", "cordon r9", "no region is called r9; here are r1, r2, r3, r4, r6. To name a region that is not here yet, set ahead"},
		{"", "cordon \u202e", "not shown"},
		{"", "pin T/9 r1", "type T has 4 shards, 0 to 3; roost shard show finds the shard of an entity"},
		{"", "pin X/0 r1", "no entity type X; declared are T, U, V"},
		{"", "pin T/0 r9", "no region is called r9"},
		{"", "move T/0 r9", "no region r9; see roost cluster status"},
		{"", "move T/0 r3", "does not host type T"},
		{"", "move T/0 r4", "is not up yet"},
		{"", "move T/3 r2", "has never been used"},
		{"", "move T/1 r2", "is about to move already"},
		{"started r1 T/1 1.2", "move T/1 r2", "is pinned to r1 and would move back; roost shard pin T/1 --undo first"},
		{"member r2 unreachable", "move T/0 r2", "is unreachable"},
		{"member r2 leaving", "move T/0 r2", "is leaving; choose another region"},
		{"drain r2", "move T/0 r2", "is being drained; roost region drain r2 --undo first"},
		{"cordon r2 because disk", "move T/0 r2", "ben has cordoned r2 (disk); roost region cordon r2 --undo first"},
		{"freeze because party", "move T/0 r2", "ben froze all moves of shards that can stay (party); roost placement freeze --undo first"},
		{"journal r2 1 silent", "move T/0 r2", "does not reach the journal"},
		{"member r5", "move T/0 r5", "has not registered yet"},
		{"drain r1", "move T/0 r2", "is about to move already"},
		{"", "freeze for -1s", "above 0"},
		{"", "drain r9", "no region r9; see roost cluster status"},
		{"", "drain r1 because a\u202eb", "reason"},
		{"", "target 9", "no region has or had version \"9\"; known are []"},
		{"", "target a\u202eb", "version"},
	} {
		w := newWorld(t, DefaultConfig())
		for _, line := range append(slices.Clone(setUp), c.before) {
			if line != "" {
				w.do(line)
			}
		}
		args := strings.Fields(c.ask)
		_, err := w.m.Preview(wish(t, args[0], args[1:]))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s; %s: %v, want %s", c.before, c.ask, err, c.want)
		}
	}
	w := newWorld(t, DefaultConfig())
	for _, line := range append(setUp, "home T/2", "started r2 T/2 1.3", "move T/0 r2") {
		w.do(line)
	}
	if _, err := w.m.Preview(MoveShard{Shard: shard(t, "T/2"), Region: "r1"}); err == nil || !strings.Contains(err.Error(), "which is the limit") {
		t.Errorf("over the budget: %v", err)
	}
}

// TestMoveToWhoCannotReadIt: an operator cannot move a shard to a region that does not read it.
func TestMoveToWhoCannotReadIt(t *testing.T) {
	if why := movesToBlind(t); why != "" {
		t.Error(why)
	}
}

func movesToBlind(t *testing.T) string {
	w := newWorld(t, DefaultConfig())
	form := sharding.Form{Kind: sharding.FormOfEvent, Name: "added", Version: 2, ReadableBy: 2, Shape: 7}
	w.do("member r1")
	w.do("member r2")
	w.do("elect 1")
	w.call("r1", control.Register{Name: "r1", Types: []sharding.TypeDesc{{Type: "M", Shards: 1, Writes: []sharding.Form{form}, Reads: []sharding.Form{form}}}})
	other := form
	other.Version, other.ReadableBy = 1, 1
	w.call("r2", control.Register{Name: "r2", Types: []sharding.TypeDesc{{Type: "M", Shards: 1, Writes: []sharding.Form{other}, Reads: []sharding.Form{other}}}})
	w.do("home M/0")
	w.do("started r1 M/0 1.1")
	_, err := w.m.Preview(MoveShard{Shard: shard(t, "M/0"), Region: "r2"})
	if err == nil || !strings.Contains(err.Error(), "does not read what may be stored in it: event added, version 2") {
		return fmt.Sprintf("the move is refused with: %v", err)
	}
	return ""
}

// TestSteeringOutlivesTheTerm: what operators want counts for the next coordinator, whatever
// part of it comes from a checkpoint.
func TestSteeringOutlivesTheTerm(t *testing.T) {
	if lost := lostSteering(t, func() {}); len(lost) > 0 {
		t.Errorf("the next term does not know: %s", strings.Join(lost, "; "))
	}
}

// lostSteering lists the operators' requests that the next term, which begins after a call
// of begin, does not follow.
func lostSteering(t *testing.T, begin func()) (lost []string) {
	w := newWorld(t, DefaultConfig())
	for _, line := range []string{
		"member r1", "member r2", "member r3", "elect 1", "register r1 T:4", "register r2 T:4", "register r3 T:4",
		"cordon r1", "pin T/0 r2", "freeze", "compact", "depose",
	} {
		w.do(line)
	}
	begin()
	for _, line := range []string{
		"elect 2", "register r1 T:4", "register r2 T:4", "register r3 T:4",
		"home T/0", "home T/1", "home T/2", "home T/3",
	} {
		w.do(line)
	}
	v := w.m.Steering()
	if len(v.Cordons) != 1 || len(w.m.table.types[0].shardsOf(node(t, "r1"))) > 0 {
		lost = append(lost, "the cordon")
	}
	if len(v.Pins) != 1 || w.m.table.types[0].rows[0].Owner != node(t, "r2") {
		lost = append(lost, "the pin")
	}
	if !v.Freeze.Frozen || w.m.balances() {
		lost = append(lost, "the freeze")
	}
	return lost
}

// TestFreezeHoldsMoves: while all is frozen, an operator's move is refused.
func TestFreezeHoldsMoves(t *testing.T) {
	if err := movesFrozen(t); err == nil {
		t.Error("a shard is moved although all is frozen")
	}
}

func movesFrozen(t *testing.T) error {
	w := newWorld(t, DefaultConfig())
	for _, line := range []string{"member r1", "elect 1", "register r1 M:1", "home M/0", "started r1 M/0 1.1", "member r2", "register r2 M:1", "freeze"} {
		w.do(line)
	}
	_, err := w.m.Preview(MoveShard{Shard: shard(t, "M/0"), Region: "r2"})
	return err
}

// TestChangedMind: a shard that is handed off does not go to a region that was cordoned
// meanwhile.
func TestChangedMind(t *testing.T) {
	if owner := changedMind(t); owner != node(t, "r1") {
		t.Errorf("it goes to %v", owner)
	}
}

func changedMind(t *testing.T) sharding.NodeID {
	w := newWorld(t, DefaultConfig())
	for _, line := range []string{
		"member r1", "elect 1", "register r1 M:1", "home M/0", "started r1 M/0 1.1", "member r2", "register r2 M:1",
		"move M/0 r2", "cordon r2", "stopped r1 M/0 1.1",
	} {
		w.do(line)
	}
	_, r := w.m.table.find(shard(t, "M/0"))
	return r.awaited()
}

// TestMovesEnd: if every region is cordoned, or the region of a pin is away, shards are spread
// over those that are here, and then nothing moves any more.
func TestMovesEnd(t *testing.T) {
	for _, wish := range [][]string{{"cordon r1", "cordon r2"}, {"pin M/0 r9 ahead", "pin M/1 r9 ahead", "pin M/2 r9 ahead", "pin M/3 r9 ahead"}} {
		w := newWorld(t, DefaultConfig())
		for _, line := range append([]string{
			"member r1", "elect 1", "register r1 M:4", "home M/0", "home M/1", "home M/2", "home M/3",
			"started r1 M/0 1.1", "started r1 M/1 1.2", "started r1 M/2 1.3", "started r1 M/3 1.4", "member r2", "register r2 M:4",
		}, wish...) {
			w.do(line)
		}
		for range 10 { // moves are carried out at once
			w.do("wait 500ms")
			for i := range w.m.table.types[0].rows {
				if r := w.m.table.types[0].rows[i].Row; r.Phase == sharding.HandingOff {
					w.run(from(r.Owner, control.ShardStopped{Shard: r.Shard, Epoch: r.Epoch}))
				}
				if r := w.reserved[w.m.table.types[0].rows[i].Shard]; r.Epoch != 0 {
					w.run(from(r.Owner, control.ShardStarted{Shard: r.Shard, Epoch: r.Epoch}))
				}
			}
		}
		if n := len(w.m.table.types[0].shardsOf(node(t, "r2"))); n != 2 || w.m.term.counter != 6 {
			t.Errorf("%v: r2 has %d of 4 shards after %d moves, want 2 after 2", wish, n, w.m.term.counter-4)
		}
	}
}

// TestDrainTells: a drain reports whether it is stored, which process it is about, and how many shards the
// region has or is about to get.
func TestDrainTells(t *testing.T) {
	if why := drainForgetsComing(t); why != "" {
		t.Error(why)
	}
	w := newWorld(t, DefaultConfig())
	for _, line := range []string{"member r1", "elect 1", "register r1 T:2", "home T/0", "started r1 T/0 1.1"} {
		w.do(line)
	}
	for _, word := range []string{"drain", "resume"} {
		r := wish(t, word, []string{"r1"})
		for at, want := range []Effect{{Changes: 1}, {Already: true}} {
			var e Effect
			var order []string // the effect comes before it is durable, and Done after its fact
			for _, o := range w.step(Ask{Number: 7, Request: r}) {
				switch o := o.(type) {
				case Asked:
					e, order = o.Effect, append(order, "asked")
				case Persist:
					order = append(order, "fact")
				case Done:
					order = append(order, "done")
				}
			}
			last := len(order) - 1
			if e.Changes != want.Changes || e.Already != want.Already || e.Node != node(t, "r1") || e.Region != "r1" || e.Remaining != 1 ||
				last < 1 || order[last] != "done" || slices.Contains(order, "fact") != (at == 0) || !slices.Contains(order, "asked") {
				t.Errorf("%s, attempt %d: %+v, %v, want %+v", word, at, e, order, want)
			}
		}
	}
}

// TestDrainForAnotherReason: the newer reason counts, and a repeat without one changes nothing.
func TestDrainForAnotherReason(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	for _, line := range []string{"member r1", "elect 1", "register r1 T:2", "drain r1 because disk"} {
		w.do(line)
	}
	for _, in := range []struct {
		DrainRegion
		changes int
		reason  string
	}{
		{DrainRegion{Region: "r1", By: "ben", Reason: "disk"}, 0, "disk"},
		{DrainRegion{Region: "r1", By: "ann"}, 0, "disk"},
		{DrainRegion{Region: "r1", By: "ann", Reason: "fan"}, 1, "fan"},
	} {
		e, err := w.m.Preview(in.DrainRegion)
		w.run(in.DrainRegion)
		if d := w.m.Steering().Drains; err != nil || e.Changes != in.changes || e.Already != (in.changes == 0) || len(d) != 1 || d[0].Reason != in.reason {
			t.Errorf("%+v: %+v, %v; drained is %+v", in.DrainRegion, e, err, d)
		}
	}
}

// TestLongestFreeze: a freeze with an end is not longer than MaxFreeze.
func TestLongestFreeze(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	for _, line := range []string{"member r1", "elect 1", "register r1 T:2"} {
		w.do(line)
	}
	for _, more := range []time.Duration{0, time.Millisecond} {
		for _, in := range []FreezeMoves{{For: MaxFreeze + more}, {Until: w.now.Add(MaxFreeze + more)}} {
			if _, err := w.m.Preview(in); (err != nil) != (more > 0) {
				t.Errorf("%+v: %v", in, err)
			}
		}
	}
}

func drainForgetsComing(t *testing.T) string {
	w := newWorld(t, DefaultConfig())
	for _, line := range []string{
		"member r1", "member r2", "elect 1", "register r1 T:2", "home T/0", "started r1 T/0 1.1", "register r2 T:2", "move T/0 r2", "drain r2",
	} {
		w.do(line)
	}
	e, err := w.m.Preview(DrainRegion{Region: "r2"})
	if left := w.m.Steering().Drains[0].Shards; err != nil || e.Remaining != 1 || left != 1 {
		return fmt.Sprintf("a shard is on its way to a region that is drained, and %d, or %d, are left: %v", e.Remaining, left, err)
	}
	return ""
}

// TestFindRegion: what an operator does to a region is done to the one that was meant.
func TestFindRegion(t *testing.T) {
	m := New(DefaultConfig())
	for _, r := range []Member{{Name: "a", Node: sharding.NodeID{Addr: "h:1", UID: 1}}, {Name: "b", Node: sharding.NodeID{Addr: "h:2", UID: 2}}, {Name: "b", Node: sharding.NodeID{Addr: "h:3", UID: 3}}} {
		m.Step(time.Unix(1, 0), r, nil)
	}
	for name, want := range map[string]string{
		"a": "h:1#1", "h:2": "h:2#2", "h:3#3": "h:3#3",
		"b": "choose one of h:2#2, h:3#3", "c": "no region c; see roost cluster status",
	} { // order-free
		r, err := m.live.findRegion(name)
		if err == nil && r.node.String() != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %+v, %v; want %s", name, r, err, want)
		}
	}
}

// TestTargetIsKnown: only a version that a region has, or had, becomes the target.
func TestTargetIsKnown(t *testing.T) {
	for version, want := range map[string]string{"1": "1", "2": "2", "3": "2"} { // order-free
		if got := targetAsked(t, version); got != want {
			t.Errorf("asked for %s, the target is %s, want %s", version, got, want)
		}
	}
}

func targetAsked(t *testing.T, version string) string {
	return targetAfter(t, []string{"a:1", "b:2", "target:" + version}).m.View().Rollout.Target
}

// TestQuarantineMakesRoom: an operator quarantines an entity although the list is full: a suspect is released.
func TestQuarantineMakesRoom(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxQuarantined = 1
	m := New(cfg)
	now := time.Unix(1_000_000, 0)
	suspect, other := sharding.Entity{Type: "T", ID: "s"}, sharding.Entity{Type: "T", ID: "o"}
	m.Step(now, Elected{Term: 2, Facts: []Fact{TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 1}}, QuarantineFact{Entity: suspect, State: Suspected}}}, nil)
	m.Step(now, QuarantineEntity{Entity: other}, nil)
	if list := m.Quarantine(); len(list) != 1 || list[0].Entity != other || list[0].State != Quarantined {
		t.Errorf("quarantined or suspected are %+v", list)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	if _, err := m.Preview(QuarantineEntity{Entity: suspect}); err == nil {
		t.Error("the list is full of quarantined entities, and one more is accepted")
	}
}
