package coordinator

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// formsWorld is a world in which regions of several versions run. Version n of the program
// stores event "added" in version n.
type formsWorld struct {
	*world
	shards uint32
}

func newFormsWorld(t *testing.T, shards uint32) *formsWorld {
	return &formsWorld{newWorld(t, DefaultConfig()), shards}
}

func added(version uint16) sharding.Form {
	return sharding.Form{Kind: sharding.FormOfEvent, Name: "added", Version: version, Shape: uint64(version)}
}

// program is version n of a program that reads the versions up to its own.
func program(n uint16, shards uint32) sharding.TypeDesc {
	d := sharding.TypeDesc{Type: "T", Shards: shards, Writes: []sharding.Form{added(n)}}
	for v := uint16(1); v <= n; v++ {
		d.Reads = append(d.Reads, added(v))
	}
	return d
}

// do runs an input, stores all facts, and makes plans.
func (w *formsWorld) do(in Input) (out []Output) {
	w.t.Helper()
	out = w.step(in)
	for n := persisted(out); n > 0; {
		next := w.step(Stored{Facts: n})
		n = persisted(next)
		out = append(out, next...)
	}
	for _, o := range out {
		if p, ok := o.(Plan); ok {
			out = append(out, w.do(p.Compute())...)
		}
	}
	return out
}

// join lets a region of a version join.
func (w *formsWorld) join(name string, version uint16) sharding.NodeID {
	w.t.Helper()
	n := node(w.t, name)
	w.do(Member{Node: n, Reachable: true})
	w.register(n, program(version, w.shards))
	return n
}

func (w *formsWorld) register(n sharding.NodeID, d sharding.TypeDesc) {
	w.t.Helper()
	out := w.do(calls(n, control.Register{Types: []sharding.TypeDesc{d}}))
	if i := slices.IndexFunc(out, is[control.RegisterAck]); i < 0 || sent(out[i]).(control.RegisterAck).Refusal != "" {
		w.t.Fatalf("%v is not taken in: %+v", n, out)
	}
}

func (w *formsWorld) row(i uint32) *row {
	_, r := w.m.table.find(sharding.ShardID{Type: "T", Index: i})
	return r
}

// serve has the shard allocated and claimed.
func (w *formsWorld) serve(i uint32) {
	w.t.Helper()
	w.do(Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T", Index: i}}})
	w.started(i)
}

func (w *formsWorld) started(i uint32) {
	w.t.Helper()
	r := w.row(i)
	epoch := r.Epoch
	if r.released {
		epoch = r.next
	}
	w.do(from(r.awaited(), control.ShardStarted{Shard: r.Shard, Epoch: epoch}))
	if r.Phase != sharding.Serving {
		w.t.Fatalf("not served: %s", rowText(r.Row))
	}
}

// stop lets the owner stop the shard, having stored some of its forms.
func (w *formsWorld) stop(i uint32, wrote ...int) {
	w.t.Helper()
	var set sharding.FormSet
	for _, i := range wrote {
		set = set.With(i)
	}
	r := w.row(i)
	w.do(from(r.Owner, control.ShardStopped{Shard: r.Shard, Epoch: r.Epoch, Wrote: set}))
}

func (w *formsWorld) leave(n sharding.NodeID) { w.do(calls(n, control.GracefulShutdown{})) }

// owner fails unless the shard is with a region; the zero node means that it must be
// unreadable.
func (w *formsWorld) owner(i uint32, want sharding.NodeID) {
	w.t.Helper()
	if r := w.row(i); r.Owner != want || (r.Reason == sharding.Unreadable) != want.IsZero() {
		w.t.Fatalf("%s, %q, want it at %v", rowText(r.Row), r.Reason, want)
	}
}

// TestUnhosted: a type without a region is reported to gateways after a while, with the region
// that was the last one, and until a region registers with it.
func TestUnhosted(t *testing.T) {
	w := newFormsWorld(t, 1)
	w.do(Elected{Term: 1})
	desc := func() sharding.TypeDesc { return w.m.table.types[0].desc }
	w.pass(w.m.cfg.RecoveryWait)
	r1 := w.join("r1", 1)
	w.serve(0)
	w.do(Member{Node: r1, Name: "r1", Reachable: true})
	w.do(calls(r1, control.Register{Version: "v1", Types: []sharding.TypeDesc{program(1, 1)}}))
	w.pass(w.m.cfg.UnhostedAfter)
	if desc().Unhosted {
		t.Fatal("r1 hosts it")
	}
	w.do(MemberGone{Node: r1})
	w.pass(w.m.cfg.UnhostedAfter - 100*time.Millisecond)
	if desc().Unhosted {
		t.Fatal("it may come back")
	}
	before := w.m.table.version
	w.pass(200 * time.Millisecond)
	if d := desc(); !d.Unhosted || d.LastHost != "r1 with version v1" || w.m.table.version == before {
		t.Fatalf("no region hosts it: %+v", d)
	}
	facts := w.facts
	w.do(Deposed{})
	w.do(Elected{Term: 2, Facts: facts})
	w.pass(2 * w.m.cfg.UnhostedAfter)
	if d := desc(); !d.Unhosted || d.LastHost != "r1 with version v1" {
		t.Fatalf("the next term has forgotten it: %+v", d)
	}
	d := program(1, 1)
	d.Unhosted, d.LastHost = true, "a lie"
	r2 := node(t, "r2")
	w.do(Member{Node: r2, Reachable: true})
	w.register(r2, d)
	if d := desc(); d.Unhosted || d.LastHost != "" {
		t.Fatalf("r2 hosts it: %+v", d)
	}
	w.do(Member{Node: r2}) // no member reaches it
	w.pass(2 * w.m.cfg.UnhostedAfter)
	if d := desc(); !d.Unhosted {
		t.Fatalf("no member reaches r2: %+v", d)
	}
	w.do(Member{Node: r2, Reachable: true})
	if d := desc(); d.Unhosted {
		t.Fatalf("r2 is back: %+v", d)
	}
}

// pass lets time pass, with a tick every 50 ms.
func (w *formsWorld) pass(d time.Duration) {
	w.t.Helper()
	for ; d > 0; d -= 50 * time.Millisecond {
		w.now = w.now.Add(50 * time.Millisecond)
		w.do(Tick{})
	}
}

// TestStopSaysWhatWasStored: an owner of a newer version that has stored nothing new lets
// the shard go back to an older one; one that has stored something does not.
func TestStopSaysWhatWasStored(t *testing.T) {
	w := newFormsWorld(t, 2)
	w.do(Elected{Term: 1})
	r2 := w.join("r2", 2)
	w.serve(0)
	w.serve(1)
	r1 := w.join("r1", 1)
	w.leave(r2)
	w.stop(0)
	w.owner(0, r1)
	w.stop(1, 0)
	w.owner(1, sharding.NodeID{})
	u := w.m.View().Unreadable
	if len(u) != 1 || !slices.Equal(u[0].Shards, []uint32{1}) || u[0].Closest != r1.Addr || u[0].Looked || !slices.Equal(u[0].Forms, []sharding.Form{added(2)}) {
		t.Errorf("an operator sees %+v", u)
	}
	r3 := w.join("r3", 3)
	w.owner(1, r3)
	w.checkReplay()
}

// TestLostOwnerMayHaveStored: the stored forms of an owner that is gone are unknown.
func TestLostOwnerMayHaveStored(t *testing.T) {
	if why := lostOwner(t); why != "" {
		t.Error(why)
	}
}

// lostOwner returns what is wrong after the only region of version 2 is lost.
func lostOwner(t *testing.T) string {
	w := newFormsWorld(t, 1)
	w.do(Elected{Term: 1})
	r2 := w.join("r2", 2)
	w.serve(0)
	w.join("r1", 1)
	w.m.Step(w.now, MemberGone{Node: r2}, nil)
	if r := w.row(0); !r.Owner.IsZero() || r.Reason != sharding.Unreadable {
		return fmt.Sprintf("it goes to a region that may not read it: %s %q", rowText(r.Row), r.Reason)
	}
	return ""
}

// TestNewTermKnowsForms: what an owner may have stored is known to the next coordinator.
func TestNewTermKnowsForms(t *testing.T) {
	if why := newTerm(t); why != "" {
		t.Error(why)
	}
}

func newTerm(t *testing.T) string {
	w := newFormsWorld(t, 1)
	w.do(Elected{Term: 1})
	w.join("r2", 2)
	w.serve(0)
	next := newFormsWorld(t, 1)
	next.do(Elected{Term: 2, Facts: w.facts})
	r1 := node(t, "r1")
	next.m.Step(next.now, Member{Node: r1, Reachable: true}, nil)
	next.m.Step(next.now, calls(r1, control.Register{Types: []sharding.TypeDesc{program(1, 1)}}), nil)
	next.now = next.now.Add(next.cfg.RecoveryWait)
	next.m.Step(next.now, Tick{}, nil)
	if r := next.row(0); r.Reason != sharding.Unreadable {
		return fmt.Sprintf("the next coordinator gives it away: %s", rowText(r.Row))
	}
	return ""
}

// TestStopBeforeRegistration: a region's report of its forms means nothing to a new term
// until the region has registered, so that all it may have stored counts.
func TestStopBeforeRegistration(t *testing.T) {
	w := newFormsWorld(t, 1)
	w.do(Elected{Term: 1})
	r2 := w.join("r2", 2)
	w.serve(0)
	next := newFormsWorld(t, 1)
	next.facts, next.stored = w.facts, w.stored
	next.do(Elected{Term: 2, Facts: w.facts})
	next.do(Member{Node: r2, Reachable: true})
	next.stop(0)
	if r := next.row(0); r.before != sharding.FormSet("").With(0) {
		t.Errorf("stored before: %x", string(r.before))
	}
	next.join("r1", 1)
	next.now = next.now.Add(next.cfg.RecoveryWait)
	next.do(Tick{})
	next.owner(0, sharding.NodeID{})
	next.register(r2, program(2, 1))
	next.owner(0, r2)
}

// TestVoluntaryMoves: nothing is drained or moved for balance that no other region reads;
// the rest is.
func TestVoluntaryMoves(t *testing.T) {
	w := newFormsWorld(t, 6)
	w.do(Elected{Term: 1})
	r2 := w.join("r2", 2)
	for i := range uint32(6) {
		w.serve(i)
	}
	r1 := w.join("r1", 1)
	wait := func(d time.Duration) {
		for end := w.now.Add(d); w.now.Before(end); {
			w.now = w.now.Add(50 * time.Millisecond)
			w.do(Tick{})
			for i := range uint32(6) {
				if r := w.row(i); r.Phase == sharding.HandingOff {
					w.stop(i, 0)
				} else if r.Phase == sharding.Starting && !r.Owner.IsZero() {
					w.started(i)
				}
			}
		}
	}
	wait(5 * time.Second)
	w.do(DrainRegion{Region: r2.String()})
	wait(5 * time.Second)
	if n := len(w.m.table.types[0].shardsOf(r2)); n != 6 {
		t.Fatalf("%d shards are left where they can be read, of 6", n)
	}
	w.do(DrainRegion{Region: r2.String(), Resume: true})
	// A region that reads everything gets its share; r1 gets none.
	r3 := w.join("r3", 3)
	wait(10 * time.Second)
	if two, three := len(w.m.table.types[0].shardsOf(r2)), len(w.m.table.types[0].shardsOf(r3)); two != 3 || three != 3 {
		t.Errorf("%d and %d shards", two, three)
	}
	if len(w.m.table.types[0].shardsOf(r1)) > 0 {
		t.Error("r1 has shards that it cannot read")
	}
}

// TestBalanceOfSome: shards that must stay are not in the way of those that may move, and
// none goes back and forth.
func TestBalanceOfSome(t *testing.T) {
	w := newFormsWorld(t, 8)
	w.do(Elected{Term: 1})
	r2 := w.join("r2", 2)
	for i := range uint32(8) {
		w.serve(i)
	}
	// The last four have only forms of version 1: r2 reports that it has stored nothing.
	r1 := w.join("r1", 1)
	w.leave(r2)
	for i := range uint32(8) {
		if i < 4 {
			w.stop(i, 0)
		} else {
			w.stop(i)
			w.started(i)
		}
	}
	r3 := w.join("r3", 3) // gets the first four
	for i := range uint32(4) {
		w.started(i)
	}
	w.do(MemberGone{Node: r2})
	r4 := w.join("r4", 1)
	moves := 0
	for range 400 {
		w.now = w.now.Add(50 * time.Millisecond)
		for _, o := range w.do(Tick{}) {
			moves += toInt(is[control.HandOff](o))
		}
		for i := range uint32(8) {
			if r := w.row(i); r.released || r.Phase == sharding.Starting && !r.Owner.IsZero() {
				w.started(i)
			} else if r.Phase == sharding.HandingOff {
				w.stop(i)
			}
		}
	}
	counts := func(n sharding.NodeID) int { return len(w.m.table.types[0].shardsOf(n)) }
	if counts(r3) != 4 || counts(r1) != 2 || counts(r4) != 2 || moves > 4 {
		t.Errorf("%d, %d and %d shards after %d moves", counts(r3), counts(r1), counts(r4), moves)
	}
}

// TestFormsAreRefused: what makes no sense is refused, with the field and the fix.
func TestFormsAreRefused(t *testing.T) {
	many := func(n int) (forms []sharding.Form) {
		for i := range n {
			forms = append(forms, sharding.Form{Kind: sharding.FormOfEvent, Name: fmt.Sprintf("e%04d", i), Version: 1})
		}
		return forms
	}
	for want, d := range map[string]sharding.TypeDesc{
		`stores event added, version 1, shape 0000000000000001, and does not read it`:                                               {Writes: []sharding.Form{added(1)}},
		`has the form event added, version 1, shape 0000000000000001 twice`:                                                         {Reads: []sharding.Form{added(1), added(1)}},
		`its kind and its version must not be 0`:                                                                                    {Reads: []sharding.Form{{Name: "added", Version: 1}}},
		`name of a stored form of type T is empty`:                                                                                  {Reads: []sharding.Form{{Kind: sharding.FormOfEvent, Version: 1}}},
		`has 1025 stored forms, at most 1024 are allowed`:                                                                           {Reads: many(1025)},
		`would have been stored in 1025 forms since it was first declared, at most 1024 are allowed (coordinator.max_forms); allow`: {Writes: many(1024), Reads: many(1024)},
	} { // order-free
		w := newFormsWorld(t, 1)
		w.do(Elected{Term: 1})
		w.join("r1", 1)
		d.Type, d.Shards = "T", 1
		out := w.do(calls(node(t, "r1"), control.Register{Types: []sharding.TypeDesc{d}}))
		if i := slices.IndexFunc(out, is[control.RegisterAck]); i < 0 || !strings.Contains(sent(out[i]).(control.RegisterAck).Refusal, want) {
			t.Errorf("want %q: %+v", want, out)
		}
	}
	w := newFormsWorld(t, 1)
	w.do(Elected{Term: 1})
	w.do(Member{Node: node(t, "r1"), Reachable: true})
	w.register(node(t, "r1"), sharding.TypeDesc{Type: "V", Shards: 1, Volatile: true, Writes: []sharding.Form{added(1)}})
	if len(w.m.table.types[0].forms) > 0 {
		t.Error("a volatile type has forms")
	}
}

// TestFormsOnlyGrow: a list of forms that is no longer version of the known one changes
// nothing.
func TestFormsOnlyGrow(t *testing.T) {
	m := New(DefaultConfig())
	desc := sharding.TypeDesc{Type: "T", Shards: 1}
	m.Step(time.Unix(0, 0), Elected{Term: 2, Facts: []Fact{
		TypeFact{Desc: desc, Forms: []sharding.Form{added(1), added(2)}},
		TypeFact{Desc: desc, Forms: []sharding.Form{added(2), added(1), added(3)}},
		TypeFact{Desc: desc, Forms: []sharding.Form{added(1)}},
	}}, nil)
	if got := m.table.types[0].forms; !slices.Equal(got, []sharding.Form{added(1), added(2)}) {
		t.Errorf("%v", got)
	}
}

// TestOneVersionOfTwoPrograms: regions of one version that do not read what the others store
// are listed, although the version is the same.
func TestOneVersionOfTwoPrograms(t *testing.T) {
	w := newFormsWorld(t, 4)
	w.do(Elected{Term: 1})
	w.join("r1", 1)
	if list := w.m.cannotRead(); list != nil {
		t.Errorf("one region does not read what it stores: %v", list)
	}
	w.join("r2", 2)
	want := []CannotRead{{Type: "T", Forms: []sharding.Form{added(2)}}}
	if list := w.m.cannotRead(); !reflect.DeepEqual(list, want) {
		t.Errorf("got %v, want %v", list, want)
	}
}

// TestRoomIsOfShardsInUse: of a type with few shards in use, a region has room for its share
// of these.
func TestRoomIsOfShardsInUse(t *testing.T) {
	w := newFormsWorld(t, 1024)
	w.do(Elected{Term: 1})
	w.join("r1", 1)
	w.join("r2", 1)
	for i := range uint32(8) {
		w.serve(i)
	}
	if room := w.m.rolloutRoom(w.m.table.types[0]); room != 6 {
		t.Errorf("room for %d shards, want 6: half of 8, and a half more", room)
	}
}

// TestDrainsThatStay: the log says once why a drain does not end, and an operator sees which
// shards stay; so does one who stops the region.
func TestDrainsThatStay(t *testing.T) {
	w := newFormsWorld(t, 3)
	w.do(Elected{Term: 1})
	r2 := w.join("r2", 2)
	for i := range uint32(3) {
		w.serve(i)
	}
	stays := func() []UnreadableShards {
		for _, r := range w.m.View().Regions {
			if r.Node == r2 {
				return r.Stays
			}
		}
		return nil
	}
	told := func() (list []DrainStays) {
		for range 20 {
			w.now = w.now.Add(w.cfg.RebalanceInterval / 10)
			list = append(list, outputs[DrainStays](w.do(Tick{}))...)
		}
		return list
	}
	if s := stays(); len(s) != 1 || s[0].Closest != "" || len(s[0].Shards) != 3 {
		t.Errorf("alone: %+v", s)
	}
	r1 := w.join("r1", 1)
	if list := told(); len(list) > 0 {
		t.Errorf("no region drains, and the log says %+v", list)
	}
	w.do(DrainRegion{Region: r2.String()})
	want := UnreadableShards{Type: "T", Shards: []uint32{0, 1, 2}, Forms: []sharding.Form{added(2)}, By: []string{}, Closest: r1.Addr}
	if list := told(); len(list) != 1 || list[0].Region != r2.Addr || !reflect.DeepEqual(list[0].Shards, want) || !reflect.DeepEqual(stays(), []UnreadableShards{want}) {
		t.Errorf("the log says %+v, an operator sees %+v, want %+v", list, stays(), want)
	}
	w.do(DrainRegion{Region: r2.String(), Resume: true})
	told()
	w.do(DrainRegion{Region: r2.String()})
	if list := told(); len(list) != 1 {
		t.Errorf("of another drain the log says %+v", list)
	}
	w.join("r3", 3)
	if s := stays(); len(s) > 0 {
		t.Errorf("another region reads all, and an operator sees %+v", s)
	}
}

// TestUnread: shards that no region of the target reads are counted, if there is one.
func TestUnread(t *testing.T) {
	w := newFormsWorld(t, 3)
	w.do(Elected{Term: 1})
	join := func(name string, version uint16) {
		n := node(t, name)
		w.do(Member{Node: n, Reachable: true})
		w.do(calls(n, control.Register{Version: fmt.Sprint(version), Types: []sharding.TypeDesc{program(version, 3)}}))
	}
	join("r2", 2)
	for i := range uint32(3) {
		w.serve(i)
	}
	for i, want := range []int{0, 3, 0} {
		switch i {
		case 1:
			join("r1", 1)
		case 2:
			join("r3", 3)
		}
		if r := w.m.View().Rollout; r.Unread != want {
			t.Errorf("target %s: %d, want %d", r.Target, r.Unread, want)
		}
	}
}

// TestRefusalsStoreNothing: an owner that refuses a shard before it serves it has stored
// nothing; one that served it may have.
func TestRefusalsStoreNothing(t *testing.T) {
	for _, served := range []bool{false, true} {
		if before := refused(t, served); (before == "") == served {
			t.Errorf("served %t: %x counts", served, string(before))
		}
	}
}

// refused returns what counts after the owner has refused a shard.
func refused(t *testing.T, served bool) sharding.FormSet {
	w := newFormsWorld(t, 1)
	w.do(Elected{Term: 1})
	r2 := w.join("r2", 2)
	w.do(Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T"}}})
	if served {
		w.started(0)
	}
	r := w.row(0)
	w.do(from(r2, control.HostRefused{Shard: r.Shard, Epoch: r.Epoch, Above: r.Epoch}))
	return w.row(0).before
}

// TestStoppedWithStrangeForms: an owner that names forms which it has not registered may have
// stored in any of its forms.
func TestStoppedWithStrangeForms(t *testing.T) {
	w := newFormsWorld(t, 1)
	w.do(Elected{Term: 1})
	w.join("r2", 2)
	w.serve(0)
	may := w.row(0).stored()
	w.stop(0, 0, 9)
	if before := w.row(0).before; may == "" || before != may {
		t.Errorf("%x counts, want %x", string(before), string(may))
	}
}
