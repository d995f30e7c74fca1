package factstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
)

// fails is the part of testing.T that a mutant needs.
type fails func(format string, args ...any)

var (
	cart       = sharding.TypeDesc{Type: "Cart", Shards: 4, Rule: sharding.ShardRule{Separator: "-", Part: 1}}
	forms      = []sharding.Form{{Kind: sharding.FormOfEvent, Name: "added", Version: 1}, {Kind: sharding.FormOfEvent, Name: "added", Version: 2}, {Kind: sharding.FormOfEvent, Name: "gone", Version: 1}}
	r1, r2     = sharding.NodeID{Addr: "r1:1", UID: 1}, sharding.NodeID{Addr: "r2:1", UID: 2}
	note       = &coordinatorv1.Note{By: "anna", Reason: "slow", AtUnixMs: 1000}
	errDamaged = errors.New("it does not match its checksum")
	at         = time.UnixMilli(1_700_000_000_000).UTC()
	options    = Options{Term: 9, By: "ops", Reason: "bad disk", At: at}
)

func epoch(term sharding.Term, n uint32) sharding.Epoch { return sharding.MakeEpoch(term, n) }

func typeFact(d sharding.TypeDesc, f ...sharding.Form) sharding.Event {
	return event(wire.TypeFactName, wire.ToTypeFact(wire.TypeFact{Desc: d, Forms: f, By: make([]string, len(f))}))
}

func row(i uint32, owner sharding.NodeID, e sharding.Epoch, p sharding.Phase) wire.RowFact {
	return wire.RowFact{Row: sharding.Row{Shard: sharding.ShardID{Type: cart.Type, Index: i}, Owner: owner, Epoch: e, Phase: p}, May: sharding.FormSet("").With(0)}
}

func rowEvent(f wire.RowFact) sharding.Event { return event(wire.RowFactName, wire.ToRowFact(f)) }

func cordon(region string, lifted bool) sharding.Event {
	return event(wire.CordonFactName, &coordinatorv1.CordonFact{Region: region, Lifted: lifted, Note: note})
}

func quarantine(id string, state uint32) sharding.Event {
	return event(wire.QuarantineFactName, &coordinatorv1.QuarantineFact{Type: "Cart", Id: id, State: state, Note: note})
}

func shardOf(i uint32) *coordinatorv1.PinFact {
	return &coordinatorv1.PinFact{Shard: wire.ToShard(sharding.ShardID{Type: "Cart", Index: i}), Region: "region-1", Note: note}
}

// intactStream is one in which nothing is damaged: three records behind record 10.
func intactStream() Stream {
	handsOff := row(2, r2, epoch(3, 4), sharding.HandingOff)
	handsOff.Successor, handsOff.Next, handsOff.NextMay = r1, epoch(3, 5), sharding.FormSet("").With(1)
	return Stream{
		Start: 10, Last: 13, Fence: epoch(3, 0), Used: true, Shards: map[sharding.EntityType]uint32{"Cart": 4},
		Records: []Record{
			{Seq: 11, Events: []sharding.Event{rowEvent(row(0, r2, epoch(2, 7), sharding.Serving)), typeFact(cart, forms[0]), cordon("region-9", false), cordon("region-8", false), {Name: "later", Payload: []byte("x")}}},
			{Seq: 12, Events: []sharding.Event{rowEvent(row(0, r1, epoch(3, 1), sharding.Starting)), rowEvent(row(1, r2, epoch(3, 2), sharding.Serving)), typeFact(cart, forms[:2]...), quarantine("dora", 2), quarantine("emil", 1)}},
			{Seq: 13, Events: []sharding.Event{
				rowEvent(row(0, r1, epoch(3, 1), sharding.Serving)), rowEvent(handsOff), cordon("region-9", true), event(wire.PinFactName, shardOf(1)), quarantine("emil", 0),
				event(wire.MoveFactName, &coordinatorv1.MoveFact{Shard: wire.ToShard(handsOff.Row.Shard), Region: "region-1", Epoch: uint64(handsOff.Row.Epoch), Note: note}),
			}},
		},
	}
}

// repair examines a stream and repairs it.
func repair(fail fails, s Stream, o Options) (*Examination, Remainder) {
	x := Examine(s)
	out, err := x.Repair(o)
	if err != nil {
		fail("the repair is refused: %v", err)
	}
	return x, out
}

// again examines what remains, as the next coordinator reads it. Nothing of it is damaged.
func again(fail fails, s Stream, o Options, out Remainder) *Examination {
	s.Start, s.Last, s.Fence = s.Last, s.Last+1, epoch(o.Term, 0)
	s.Records = []Record{{Seq: s.Last, Events: out.Facts}}
	for _, typ := range o.Without {
		delete(s.Shards, typ)
	}
	x := Examine(s)
	for _, f := range x.Findings {
		fail("what remains is damaged: %s", f)
	}
	return x
}

func wantFindings(fail fails, x *Examination, want ...string) {
	var got []string
	for _, f := range x.Findings {
		if f.Cost == "" {
			fail("%s: no cost", f)
		}
		got = append(got, f.String())
	}
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || !strings.Contains(got[i], want[i]) {
			fail("found %q, want %q", got, want)
			return
		}
	}
}

// wantAnew wants all shards to be given out anew: at an epoch above all others, with all forms, to their last owners.
func wantAnew(fail fails, x *Examination, term sharding.Term, successors ...sharding.NodeID) {
	t := x.types["Cart"]
	if t == nil || len(t.rows) != int(t.fact.Desc.Shards) {
		fail("rows: %+v", t)
		return
	}
	seen := map[sharding.Epoch]bool{}
	for i, f := range t.rows { // order-free: each is checked
		var want sharding.NodeID
		if int(i) < len(successors) {
			want = successors[i]
		}
		all := sharding.FormSet("")
		for n := range t.fact.Forms {
			all = all.With(n)
		}
		if !f.Row.Owner.IsZero() || f.Row.Phase != sharding.Starting || f.Row.Epoch.Term() != term || f.Row.Epoch.Counter() == 0 || seen[f.Row.Epoch] || f.Before != all || f.Successor != want || f.Cause != sharding.CauseRepaired {
			fail("shard %d is given out as %+v, want it without an owner in term %d, with all forms, to %v", i, f.RowFact, term, want)
		}
		seen[f.Row.Epoch] = true
	}
}

func names(x *Examination) (list []string) {
	for _, a := range x.asked {
		if a.event.Name != "" {
			list = append(list, strings.TrimSpace(a.event.Name+" "+a.about))
		}
	}
	slices.Sort(list)
	return list
}

func wantNames(fail fails, x *Examination, want ...string) {
	if got := names(x); !slices.Equal(got, want) {
		fail("what was asked for is %q, want %q", got, want)
	}
}

// TestIntact: nothing is found, and rows stay as they are. What has ended is not kept.
func TestIntact(t *testing.T) { intact(t.Errorf) }

func intact(fail fails) {
	x, out := repair(fail, intactStream(), options)
	wantFindings(fail, x)
	if out.GivenOut != 0 || len(out.Dropped) != 0 {
		fail("%d shards are given out anew, %v is dropped", out.GivenOut, out.Dropped)
	}
	x = again(fail, intactStream(), options, out)
	wantNames(fail, x, "cordon region-8", "later", "move Cart/2", "pin Cart/1", "quarantine Cart/dora")
	typ := x.types["Cart"]
	if typ == nil || fmt.Sprint(typ.fact.Desc) != fmt.Sprint(cart) || len(typ.fact.Forms) != 2 || len(typ.rows) != 3 {
		fail("the type is %+v", typ)
		return
	}
	if f := typ.rows[0]; f.Row.Owner != r1 || f.Row.Epoch != epoch(3, 1) || f.Row.Phase != sharding.Serving {
		fail("row 0 is %+v", f.Row)
	}
	if f := typ.rows[2]; f.Next != epoch(3, 5) || f.Successor != r1 {
		fail("row 2 is %+v", f.RowFact)
	}
}

// TestLostRecord: any record may be lost, by its checksum or altogether. The others remain, and all shards are given out anew.
func TestLostRecord(t *testing.T) { lostRecord(t.Errorf) }

func lostRecord(fail fails) {
	for _, missing := range []bool{false, true} {
		for i, c := range []struct {
			successors []sharding.NodeID
			asked      []string
		}{
			{[]sharding.NodeID{r1, r2, r1}, []string{"pin Cart/1", "quarantine Cart/dora"}},
			{[]sharding.NodeID{r1, {}, r1}, []string{"cordon region-8", "later", "pin Cart/1"}},
			{[]sharding.NodeID{r1, r2, {}}, []string{"cordon region-8", "cordon region-9", "later", "quarantine Cart/dora", "quarantine Cart/emil"}},
		} {
			s := intactStream()
			wrong := "record " + fmt.Sprint(i+11) + ": " + errDamaged.Error()
			s.Records[i].Err, s.Records[i].Events = errDamaged, nil
			if missing {
				wrong = "record " + fmt.Sprint(i+11) + ": it is missing"
				s.Records = slices.Delete(s.Records, i, i+1)
			}
			x, out := repair(fail, s, options)
			wantFindings(fail, x, wrong)
			if out.GivenOut != 4 {
				fail("%d shards are given out anew, want 4", out.GivenOut)
			}
			x = again(fail, s, options, out)
			wantAnew(fail, x, 9, c.successors...)
			wantNames(fail, x, c.asked...)
			if len(x.Repairs) != 1 || x.Repairs[0].By != "ops" || x.Repairs[0].Reason != "bad disk" || !x.Repairs[0].At.Equal(at) || x.Repairs[0].Record != 13 ||
				x.Repairs[0].Damaged != 1 || !strings.Contains(x.Repairs[0].Dropped[0], wrong) {
				fail("the repair is noted as %+v", x.Repairs)
			}
		}
	}
}

// TestUnreadableFacts: a fact is lost alone, and its cost depends on its subject.
func TestUnreadableFacts(t *testing.T) {
	for name, anew := range map[string]int{wire.RowFactName: 4, wire.TypeFactName: 4, wire.CordonFactName: 0, wire.PinFactName: 0, wire.MoveFactName: 0, wire.QuarantineFactName: 0, wire.DrainFactName: 0, wire.FreezeFactName: 0, wire.TargetFactName: 0, RepairedName: 0} {
		s := intactStream()
		s.Records[1].Events = append(s.Records[1].Events, sharding.Event{Name: name, Payload: []byte{0xff, 0xff}})
		x, out := repair(t.Errorf, s, options)
		wantFindings(t.Errorf, x, name+" in record 12: it cannot be read")
		if x.Findings[0].Fact != 6 || out.GivenOut != anew {
			t.Errorf("%s: %+v, and %d shards are given out anew, want %d", name, x.Findings[0], out.GivenOut, anew)
		}
		again(t.Errorf, s, options, out)
	}
}

// TestContradictions: a fact that contradicts others, or makes no sense, is dropped. Only its shard is given out
// anew.
func TestContradictions(t *testing.T) { contradictions(t.Errorf) }

func contradictions(fail fails) {
	other, ruled, volatile := cart, cart, cart
	other.Shards, ruled.Rule, volatile.Volatile = 8, sharding.ShardRule{Separator: "-", Part: 2}, true
	outside, reserved, formed := row(4, r1, epoch(3, 9), sharding.Serving), row(1, r1, epoch(3, 9), sharding.Serving), row(1, r1, epoch(3, 9), sharding.Serving)
	reserved.Next, formed.May = epoch(3, 10), sharding.FormSet("").With(5)
	stray := row(0, r1, epoch(3, 9), sharding.Serving)
	stray.Row.Shard.Type = "Nobody"
	for _, c := range []struct {
		event sharding.Event
		wrong string
		anew  []uint32
	}{
		{rowEvent(row(1, r1, epoch(3, 2), sharding.Serving)), "row in record 13 (Cart/1): at epoch 3.2 the owner is r1:1, and in record 12 it is r2:1", []uint32{1}},
		{rowEvent(row(1, r1, epoch(4, 2), sharding.Serving)), "row in record 13 (Cart/1): it is of epoch 4.2, and no coordinator had a term above 3", []uint32{1}},
		{rowEvent(row(1, r1, 0, sharding.Serving)), "row in record 13 (Cart/1): it makes no sense", []uint32{1}},
		{rowEvent(row(1, sharding.NodeID{}, epoch(3, 9), sharding.Serving)), "row in record 13 (Cart/1): it makes no sense", []uint32{1}},
		{rowEvent(row(1, r1, epoch(3, 9), 4)), "row in record 13 (Cart/1): it makes no sense", []uint32{1}},
		{rowEvent(reserved), "row in record 13 (Cart/1): it makes no sense", []uint32{1}},
		{rowEvent(formed), "row in record 13 (Cart/1): it names forms that its type does not have", []uint32{1}},
		{rowEvent(outside), "row in record 13 (Cart/4): the type has 4 shards", nil},
		{rowEvent(stray), "row in record 13 (Nobody/0): no fact declares its type", nil},
		{typeFact(other, forms...), "type in record 13 (Cart): it declares 8 shards for the type, and the journal 4", nil},
		{typeFact(ruled, forms...), "type in record 13 (Cart): it contradicts an earlier declaration", nil},
		{typeFact(volatile, forms...), "type in record 13 (Cart): it contradicts an earlier declaration", nil},
		{typeFact(sharding.TypeDesc{Type: "Cart"}), "type in record 13 (Cart): it makes no sense", nil},
	} {
		s := intactStream()
		s.Records[2].Events = append(s.Records[2].Events, c.event)
		x, out := repair(fail, s, options)
		wantFindings(fail, x, c.wrong)
		if out.GivenOut != len(c.anew) {
			fail("%s: %d shards are given out anew, want %v", c.wrong, out.GivenOut, c.anew)
		}
		x = again(fail, s, options, out)
		typ := x.types["Cart"]
		if typ == nil || typ.fact.Desc.Shards != 4 || typ.fact.Desc.Rule != cart.Rule || typ.fact.Desc.Volatile {
			fail("%s: the type is %+v", c.wrong, typ)
			continue
		}
		for i := range uint32(4) {
			if f, found := typ.rows[i]; found && (f.Row.Epoch.Term() == 9) != slices.Contains(c.anew, i) {
				fail("%s: row %d is %+v", c.wrong, i, f.Row)
			} else if found && f.Row.Epoch.Term() == 9 && !f.Successor.IsZero() {
				fail("%s: shard %d goes to %v, whose row is in doubt", c.wrong, i, f.Successor)
			}
		}
	}
	// Forms that do not continue: the forms of both declarations are kept, and everything may be stored in any of them.
	s := intactStream()
	s.Records[2].Events = append(s.Records[2].Events, typeFact(cart, forms[2]))
	x, out := repair(fail, s, options)
	wantFindings(fail, x, "type in record 13 (Cart): its forms do not continue")
	if x = again(fail, s, options, out); len(x.types["Cart"].fact.Forms) != 3 {
		fail("the forms are %v", x.types["Cart"].fact.Forms)
	}
	wantAnew(fail, x, 9, r1, r2, r1)
}

// TestFirstContradicts: a first declaration that contradicts the journal does not count.
func TestFirstContradicts(t *testing.T) { firstContradicts(t.Errorf) }

func firstContradicts(fail fails) {
	s := intactStream()
	other := cart
	other.Shards = 8
	s.Records[0].Events = slices.Insert(s.Records[0].Events, 0, typeFact(other, forms...))
	x, out := repair(fail, s, options)
	wantFindings(fail, x, "type in record 11 (Cart): it declares 8 shards for the type")
	if x = again(fail, s, options, out); x.types["Cart"] == nil || len(x.types["Cart"].rows) != 3 {
		fail("the type is %+v", x.types["Cart"])
	}
}

// TestLostType: a type that is known only by its number of shards is dropped only if it is named. So is one
// whose facts and the journal contradict each other.
func TestLostType(t *testing.T) { lostType(t.Errorf) }

func lostType(fail fails) {
	s := intactStream()
	s.Records[0].Err, s.Records[0].Events = errDamaged, nil
	s.Records[1].Events = slices.DeleteFunc(s.Records[1].Events, func(e sharding.Event) bool { return e.Name == wire.TypeFactName })
	contradicts := intactStream()
	contradicts.Shards["Cart"] = 5
	gone := Stream{Used: true, Shards: map[sharding.EntityType]uint32{"Cart": 4}}
	for what, s := range map[string]Stream{"lost": s, "contradicted": contradicts, "gone": gone} {
		x := Examine(s)
		if !slices.Equal(x.Lost, []sharding.EntityType{"Cart"}) {
			fail("%s: lost is %v", what, x.Lost)
		}
		if _, err := x.Repair(options); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--without Cart") || !strings.Contains(err.Error(), "ShardBy") {
			fail("%s: without a word the repair says %v", what, err)
		}
		o := options
		o.Without = x.Lost
		x, out := repair(fail, s, o)
		if out.GivenOut != 0 || out.Kept[wire.TypeFactName] != 0 || out.Kept[RepairedName] != 1 || out.Kept[wire.LossFactName] != 1 {
			fail("%s: %+v remains of %+v", what, out, x.Findings)
		}
		later := options
		later.All = true
		if out, err := again(fail, s, o, out).Repair(later); err != nil || out.Kept[wire.LossFactName] != 1 {
			fail("%s: a later repair forgets the loss: %+v, %v", what, out, err)
		}
	}
	if x := Examine(Stream{Shards: gone.Shards}); x.Damaged() {
		fail("a new journal is damaged: %v", x.Findings)
	}
}

// TestAll: everything is dropped that can be made anew. Types stay, with their numbers of shards, rules and forms.
func TestAll(t *testing.T) { all(t.Errorf) }

func all(fail fails) {
	o := options
	o.All = true
	_, out := repair(fail, intactStream(), o)
	x := again(fail, intactStream(), o, out)
	wantAnew(fail, x, 9)
	wantNames(fail, x)
	if want := []string{"cordon: 1", "later: 1", "move: 1", "pin: 1", "quarantine: 1"}; !slices.Equal(out.Dropped, want) {
		fail("dropped are %v, want %v", out.Dropped, want)
	}
	if d := x.types["Cart"].fact.Desc; d.Shards != 4 || d.Rule != cart.Rule || len(x.types["Cart"].fact.Forms) != 2 {
		fail("the type is %+v", x.types["Cart"].fact)
	}
	if len(x.Repairs) != 1 || !x.Repairs[0].All {
		fail("the repair is noted as %+v", x.Repairs)
	}
}

// TestMark: without the mark where reading begins nothing is lost.
func TestMark(t *testing.T) {
	s := intactStream()
	s.Mark = errDamaged
	x, out := repair(t.Errorf, s, options)
	wantFindings(t.Errorf, x, "mark in record 10: it cannot be read")
	if out.GivenOut != 0 {
		t.Errorf("%d shards are given out anew", out.GivenOut)
	}
}

// TestRepairsAreKept: who has repaired the facts before is known, up to a number.
func TestRepairsAreKept(t *testing.T) {
	s := intactStream()
	for i := range MaxRepairs + 3 {
		s.Records[0].Events = append(s.Records[0].Events, Repaired{By: fmt.Sprint("ops-", i), At: at}.event())
	}
	s.Records[1].Err = errDamaged
	_, out := repair(t.Errorf, s, options)
	x := again(t.Errorf, s, options, out)
	if n := len(x.Repairs); n != MaxRepairs || x.Repairs[n-1].By != "ops" || x.Repairs[n-2].By != fmt.Sprint("ops-", MaxRepairs+2) {
		t.Errorf("repairs: %+v", x.Repairs)
	}
}

// TestNextTerm: the term is above all that were used. If fences cannot be read, it is far above them.
func TestNextTerm(t *testing.T) { nextTerm(t.Errorf) }

func nextTerm(fail fails) {
	const margin = 1000
	noFence := intactStream()
	noFence.Fence = 0
	for _, c := range []struct {
		s         Stream
		highest   sharding.Epoch
		heartbeat sharding.Term
		known     bool
		want      sharding.Term
	}{
		{intactStream(), epoch(3, 9), 3, true, 4},
		{intactStream(), epoch(7, 0), 3, true, 8},
		{intactStream(), 0, 8, true, 9},
		{intactStream(), 0, 0, false, 3 + margin + 1},
		{noFence, epoch(2, 9), 2, true, 3 + margin + 1},
		{Stream{}, 0, 0, true, 1},
	} {
		if got, err := Examine(c.s).NextTerm(c.highest, c.heartbeat, c.known, margin); err != nil || got != c.want {
			fail("above %v and %d, known: %t: term %d, %v, want %d", c.highest, c.heartbeat, c.known, got, err, c.want)
		}
	}
	if got, err := Examine(intactStream()).NextTerm(epoch(1<<32-1, 0), 0, true, margin); err == nil {
		fail("above the last term comes %d", got)
	}
}
