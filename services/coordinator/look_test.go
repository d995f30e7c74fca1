package coordinator

import (
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

// crashedCanary returns a world in which the only region of version 2 has crashed, with all
// shards, and which only a region of version 1 is left in.
func crashedCanary(t *testing.T, shards uint32) (w *formsWorld, r1 sharding.NodeID) {
	w = newFormsWorld(t, shards)
	w.do(Elected{Term: 1})
	r2 := w.join("r2", 2)
	for i := range shards {
		w.serve(i)
	}
	r1 = w.join("r1", 1)
	w.do(MemberGone{Node: r2})
	for i := range shards {
		w.owner(i, sharding.NodeID{})
	}
	return w, r1
}

// outputs returns the outputs of one type.
func outputs[O Output](out []Output) (list []O) {
	for _, o := range out {
		if o, ok := o.(O); ok {
			list = append(list, o)
		}
	}
	return list
}

// fence answers that the shards are claimed, and returns the requests then.
func (w *formsWorld) fence(out []Output, verdict sharding.Verdict) (reads []ReadForms) {
	w.t.Helper()
	if reads := outputs[ReadForms](out); len(reads) > 0 {
		w.t.Fatalf("read before anything is fenced: %+v", reads)
	}
	for _, o := range outputs[FenceShard](out) {
		r := w.row(o.Claim.Shard.Index)
		if o.Claim != (sharding.Claim{Shard: r.Shard, Epoch: r.Epoch}) {
			w.t.Errorf("%+v is claimed, and the row is %s", o.Claim, rowText(r.Row))
		}
		reads = append(reads, outputs[ReadForms](w.do(ShardFenced{Shard: o.Claim.Shard, Epoch: o.Claim.Epoch, Verdict: verdict}))...)
	}
	return reads
}

// event is a record with an event of a version.
func event(version uint16) []sharding.Record {
	return []sharding.Record{{Events: []sharding.Event{{Name: "added", Version: version}}}}
}

// entityOf returns an entity of a shard.
func entityOf(t *testing.T, shard, shards uint32) sharding.Entity {
	for i := range 1000 {
		if e := (sharding.Entity{Type: "T", ID: sharding.EntityID(rune('a' + i))}); shardingtest.ShardOf(e.ID, shards) == shard {
			return e
		}
	}
	t.Fatal("no entity")
	return sharding.Entity{}
}

// TestLook: shards in which a crashed region has stored nothing new are served again; the
// others are known to hold it.
func TestLook(t *testing.T) {
	w, r1 := crashedCanary(t, 4)
	reads := w.fence(w.do(LookAtShards{}), sharding.Durable)
	if len(reads) != 1 || len(reads[0].At) != 4 || reads[0].Desc.Shards != 4 {
		t.Fatalf("all are read in one go: %+v", reads)
	}
	if out := w.do(LookAtShards{}); len(out) > 0 {
		t.Errorf("what is in progress begins anew: %+v", out)
	}
	found := reads[0].Begin()
	found.Stored(entityOf(t, 0, 4), event(1))
	found.Stored(entityOf(t, 1, 4), event(2))
	found.Unknown(entityOf(t, 2, 4))
	before := w.row(0).Epoch
	w.do(found.Answer())
	for i, owner := range []sharding.NodeID{r1, {}, {}, r1} {
		w.owner(uint32(i), owner)
	}
	if w.row(0).Epoch <= before {
		t.Error("it goes to its owner at the unused epoch")
	}
	u := w.m.View().Unreadable
	if len(u) != 1 || !u[0].Looked || !slices.Equal(u[0].Shards, []uint32{1, 2}) {
		t.Errorf("an operator sees %+v", u)
	}
	if out := w.do(LookAtShards{}); len(out) > 0 {
		t.Errorf("known data is examined again: %+v", out)
	}
	w.join("r3", 3)
	if u := w.m.View().Unreadable; len(u) > 0 {
		t.Errorf("a region that reads all is here, and an operator sees %+v", u)
	}
	w.checkReplay()
}

// TestLookFails: whatever goes wrong leaves all as it is, and the next look repairs it.
func TestLookFails(t *testing.T) {
	w, r1 := crashedCanary(t, 2)
	stays := func(when string) {
		t.Helper()
		for i := range uint32(2) {
			w.owner(i, sharding.NodeID{})
		}
		if u := w.m.View().Unreadable; len(u) != 1 || u[0].Looked {
			t.Errorf("%s: an operator sees %+v", when, u)
		}
	}
	if reads := w.fence(w.do(LookAtShards{}), sharding.UnknownOutcome); len(reads) > 0 {
		t.Errorf("read without a claim: %+v", reads)
	}
	stays("no claim is known to hold")
	before := w.row(0).Epoch
	if reads := w.fence(w.do(LookAtShards{}), sharding.RefusedEpoch); len(reads) > 0 {
		t.Errorf("read without a claim: %+v", reads)
	}
	if stays("the fence is above the row"); w.row(0).Epoch <= before {
		t.Errorf("it is claimed again at epoch %v", before)
	}
	reads := w.fence(w.do(LookAtShards{}), sharding.Durable)
	w.do(reads[0].Begin().Failed())
	stays("nothing is read")
	reads = w.fence(w.do(LookAtShards{}), sharding.Durable)
	old := reads[0].Begin().Answer()
	old.At = slices.Clone(old.At)
	for i := range old.At {
		old.At[i].Epoch--
	}
	w.do(old)
	stays("the answer is about an earlier epoch")
	w.do(reads[0].Begin().Answer())
	w.owner(0, r1)
	w.owner(1, r1)
}

// TestLookIsOvertaken: a shard that has got an owner meanwhile is not touched.
func TestLookIsOvertaken(t *testing.T) {
	w, _ := crashedCanary(t, 1)
	reads := w.fence(w.do(LookAtShards{}), sharding.Durable)
	r3 := w.join("r3", 3)
	epoch := w.row(0).Epoch
	w.do(reads[0].Begin().Answer())
	if w.owner(0, r3); w.row(0).Epoch != epoch || w.row(0).before == "" {
		t.Errorf("the row is %s now", rowText(w.row(0).Row))
	}
}

// TestLookOfNextTerm: the next coordinator makes the same claim again.
func TestLookOfNextTerm(t *testing.T) {
	w, _ := crashedCanary(t, 1)
	claim := outputs[FenceShard](w.do(LookAtShards{}))[0].Claim
	facts := w.facts
	w.do(Deposed{})
	w.do(Elected{Term: 2, Facts: facts})
	w.do(ShardFenced{Shard: claim.Shard, Epoch: claim.Epoch, Verdict: sharding.Durable}) // no request in this term
	if again := outputs[FenceShard](w.do(LookAtShards{})); len(again) != 1 || again[0].Claim != claim {
		t.Errorf("%+v, want %+v", again, claim)
	}
}

// TestFormsFound: what a request finds in records.
func TestFormsFound(t *testing.T) {
	shape := added(2)
	shape.Shape++
	other := sharding.Form{Kind: sharding.FormOfSnapshot, Version: 2}
	ask := ReadForms{Desc: sharding.TypeDesc{Type: "T", Shards: 2}, Forms: []sharding.Form{added(1), added(2), shape, other}, At: []FormsAt{{Index: 1, Forms: sharding.FormSet("").With(1).With(2).With(3)}}}
	here, there := entityOf(t, 1, 2), entityOf(t, 0, 2)
	stranger := here
	stranger.Type = "U"
	f := ask.Begin()
	want := func(when string, forms ...int) {
		t.Helper()
		var set sharding.FormSet
		for _, i := range forms {
			set = set.With(i)
		}
		if got := f.Answer().At[0].Forms; got != set {
			t.Errorf("%s: %x, want %x", when, string(got), string(set))
		}
	}
	want("something other than an event may be stored", 3)
	if !f.Wants(here) || f.Wants(there) || f.Wants(stranger) || f.Done() {
		t.Error("it wants other entities")
	}
	f.Stored(there, event(2))
	f.Unknown(there)
	f.Stored(stranger, event(2))
	want("of other shards and types", 3)
	f.Stored(here, event(0))
	want("an event without a version is of the first", 0, 3)
	f.Stored(here, event(2))
	want("a version may have several shapes", 0, 1, 2, 3)
	if f.Wants(here) || !f.Done() {
		t.Error("it wants more than there is to find")
	}
	f = ask.Begin()
	f.Unknown(here)
	want("damage", 1, 2, 3)
}

// TestInputsFound: the input of a timer has a form of its own, and of an answer only the command is
// known that takes it.
func TestInputsFound(t *testing.T) {
	input := func(name string, version uint16, shape uint64) sharding.Form {
		return sharding.Form{Kind: sharding.FormOfInput, Name: name, Version: version, Shape: shape}
	}
	ask := ReadForms{Desc: sharding.TypeDesc{Type: "T", Shards: 2}, Forms: []sharding.Form{added(1), input("Ring", 1, 7), input("Ring", 1, 8), input("Got", 1, 9)}, At: []FormsAt{
		{Index: 0, Forms: sharding.FormSet("").With(0)}, {Index: 1, Forms: sharding.FormSet("").With(0).With(1).With(2).With(3)},
	}}
	here, shard := entityOf(t, 1, 2), sharding.ShardID{Type: "T", Index: 1}
	f := ask.Begin()
	if got := f.InputShards(); !slices.Equal(got, []sharding.ShardID{shard}) {
		t.Errorf("the inputs are read of %v", got)
	}
	found := func(when string, want ...int) {
		t.Helper()
		if got := slices.Collect(f.Answer().At[1].Forms.All()); !slices.Equal(got, want) || f.Answer().At[0].Forms != "" {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	f.Reminder(here, &sharding.Input{Command: "Ring", Version: 1, Shape: 8})
	f.Reminder(here, &sharding.Input{Command: "Ring", Version: 2, Shape: 7})
	f.Reminder(here, &sharding.Input{Command: "added", Version: 1, Shape: 1})
	found("a timer", 2)
	f.ReplyTo(here, "Got")
	f.ReplyTo(here, "Other")
	found("an answer", 2, 3)
	if f.Done() || !f.Wants(here) {
		t.Error("events are not looked for")
	}
	f.UnknownShard(sharding.ShardID{Type: "U", Index: 0})
	f.UnknownShard(shard)
	found("damage", 0, 1, 2, 3)
}

// TestUnreadableIsLogged: once per change, changes of some time together, and with the version
// that stored first in these forms.
func TestUnreadableIsLogged(t *testing.T) {
	w := newFormsWorld(t, 3)
	w.do(Elected{Term: 1})
	r2 := node(t, "r2")
	w.do(Member{Node: r2, Reachable: true})
	w.do(calls(r2, control.Register{Version: "v2", Types: []sharding.TypeDesc{program(2, 3)}}))
	for i := range uint32(3) {
		w.serve(i)
	}
	w.join("r1", 1)
	told := func() (list []UnreadableNow) {
		for range 20 {
			w.now = w.now.Add(w.cfg.RebalanceInterval / 10)
			list = append(list, outputs[UnreadableNow](w.do(Tick{}))...)
		}
		return list
	}
	if list := told(); len(list) > 0 {
		t.Errorf("all are read: %+v", list)
	}
	w.leave(r2)
	for i := range uint32(3) {
		w.stop(i, 0)
	}
	list := told()
	if len(list) != 1 || !slices.Equal(list[0].Shards, []uint32{0, 1, 2}) || !slices.Equal(list[0].By, []string{"v2"}) || list[0].Closest != node(t, "r1").Addr {
		t.Errorf("the log says %+v", list)
	}
	w.m.Step(w.now, MemberGone{Node: r2}, nil)
	if list := told(); len(list) > 0 {
		t.Errorf("it is said again: %+v", list)
	}
	facts := w.facts
	w.do(Deposed{})
	w.do(Elected{Term: 2, Facts: facts})
	r1 := node(t, "r1")
	w.do(calls(r1, control.Register{Version: "v1", Types: []sharding.TypeDesc{program(1, 3)}}))
	w.pass(w.cfg.RecoveryWait)
	if u := w.m.View().Unreadable; len(u) != 1 || !slices.Equal(u[0].By, []string{"v2"}) {
		t.Errorf("the next term knows %+v", u)
	}
}

// TestLateFence: a claim that was answered late says nothing of the owners since then.
func TestLateFence(t *testing.T) {
	w, _ := crashedCanary(t, 1)
	late := outputs[FenceShard](w.do(LookAtShards{}))[0].Claim
	r3 := w.join("r3", 3)
	w.owner(0, r3)
	w.started(0)
	w.do(MemberGone{Node: r3})
	w.owner(0, sharding.NodeID{})
	again := w.do(LookAtShards{})
	if reads := outputs[ReadForms](w.do(ShardFenced{Shard: late.Shard, Epoch: late.Epoch, Verdict: sharding.Durable})); len(reads) > 0 {
		t.Errorf("r3 can still store something, and there is read %+v", reads)
	}
	if reads := w.fence(again, sharding.Durable); len(reads) != 1 || reads[0].At[0].Epoch != w.row(0).Epoch {
		t.Errorf("there is read %+v", reads)
	}
}
