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
	e, err := w.m.Ask(r)
	if after := string(w.m.AppendState(w.now, nil)); before != after {
		w.t.Fatalf("asking for the effect of %+v changes something", r)
	}
	switch {
	case err != nil:
		say("refused: %v", err)
	case e.Already:
		say("already so, stored: %t", e.Stored)
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
	if n = len(w.facts); err == nil {
		if e, err := w.m.Ask(r); err != nil || !e.Already || !e.Stored {
			w.t.Fatalf("%+v, asked again: %+v, %v", r, e, err)
		}
		if w.run(r); len(w.facts) > n {
			w.t.Fatalf("%+v, repeated, changes %+v", r, w.facts[n:])
		}
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
		"config max-handoffs=1", "member r1", "member r2", "member r3", "member r4 joining", "elect 1", "register r1 T:4 U:1", "register r2 T:4", "register r3 V:2", "register r4 T:4",
		"pin T/0 r1", "pin T/1 r1", "home T/0", "home T/1", "started r1 T/0 1.1", "unpin T/0",
	}
	for _, c := range []struct{ before, ask, want string }{
		{"", "cordon r9", "no region is called r9; here are r1, r2, r3, r4. To name a region that is not here yet, add --ahead"},
		{"", "cordon \u202e", "not shown"},
		{"", "pin T/9 r1", "type T has 4 shards, 0 to 3; roost where finds the shard of an entity"},
		{"", "pin X/0 r1", "no entity type X; declared are T, U, V"},
		{"", "pin T/0 r9", "no region is called r9"},
		{"", "move T/0 r9", "no region r9; see roost members"},
		{"", "move T/0 r3", "does not host type T"},
		{"", "move T/0 r4", "is not up yet"},
		{"", "move T/3 r2", "has never been used"},
		{"", "move T/1 r2", "is about to move already"},
		{"started r1 T/1 1.2", "move T/1 r2", "is pinned to r1 and would move back; roost unpin T/1 first"},
		{"member r2 unreachable", "move T/0 r2", "is unreachable"},
		{"member r2 leaving", "move T/0 r2", "is leaving; choose another region"},
		{"drain r2", "move T/0 r2", "is being drained; roost drain r2 --resume first"},
		{"cordon r2 because disk", "move T/0 r2", "ben has cordoned r2 (disk); roost uncordon r2 first"},
		{"freeze because party", "move T/0 r2", "ben froze all moves of shards that can stay (party); roost thaw first"},
		{"journal r2 1 silent", "move T/0 r2", "does not reach the journal"},
		{"member r5", "move T/0 r5", "has not registered yet"},
		{"drain r1", "move T/0 r2", "is about to move already"},
		{"", "freeze for -1s", "above 0"},
	} {
		w := newWorld(t, DefaultConfig())
		for _, line := range append(slices.Clone(setUp), c.before) {
			if line != "" {
				w.do(line)
			}
		}
		args := strings.Fields(c.ask)
		_, err := w.m.Ask(wish(t, args[0], args[1:]))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s; %s: %v, want %s", c.before, c.ask, err, c.want)
		}
	}
	w := newWorld(t, DefaultConfig())
	for _, line := range append(setUp, "home T/2", "started r2 T/2 1.3", "move T/0 r2") {
		w.do(line)
	}
	if _, err := w.m.Ask(MoveShard{Shard: shard(t, "T/2"), Region: "r1"}); err == nil || !strings.Contains(err.Error(), "which is the limit") {
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
	_, err := w.m.Ask(MoveShard{Shard: shard(t, "M/0"), Region: "r2"})
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

// lostSteering says what the next term, which begins after a call of begin, does not do of
// what operators want.
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
	if len(v.Cordons) != 1 || len(w.m.types[0].shardsOf(node(t, "r1"))) > 0 {
		lost = append(lost, "the cordon")
	}
	if len(v.Pins) != 1 || w.m.types[0].rows[0].Owner != node(t, "r2") {
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
	_, err := w.m.Ask(MoveShard{Shard: shard(t, "M/0"), Region: "r2"})
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
	return w.stored[shard(t, "M/0")].Owner
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
			for i := range w.m.types[0].rows {
				if r := w.m.types[0].rows[i].Row; r.Phase == sharding.HandingOff {
					w.run(from(r.Owner, control.ShardStopped{Shard: r.Shard, Epoch: r.Epoch}))
				}
				if r := w.m.types[0].rows[i].Row; r.Phase == sharding.Starting {
					w.run(from(r.Owner, control.ShardStarted{Shard: r.Shard, Epoch: r.Epoch}))
				}
			}
		}
		if n := len(w.m.types[0].shardsOf(node(t, "r2"))); n != 2 || w.m.counter != 6 {
			t.Errorf("%v: r2 has %d of 4 shards after %d moves, want 2 after 2", wish, n, w.m.counter-4)
		}
	}
}
