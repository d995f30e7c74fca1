package coordinator

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// moment lets the interval between two planning moments pass.
func (w *planWorld) moment() time.Time {
	w.t.Helper()
	w.now = w.now.Add(w.cfg.MomentInterval)
	w.run(Tick{})
	w.m.moments.asked = time.Time{} // what the step has changed at its end is recorded too
	w.m.recordMoment()
	list := w.m.moments.list
	if len(list) == 0 {
		w.t.Fatal("no planning moment is recorded")
	}
	size := 0
	for i, x := range list {
		var before *moment
		if i > 0 {
			before = list[i-1]
		}
		size += x.size(before)
	}
	if size != w.m.moments.bytes {
		w.t.Fatalf("%d bytes are counted, the moments take %d", w.m.moments.bytes, size)
	}
	return w.now
}

// TestMomentsAreWhatWas: a plan as of an earlier moment is made from exactly what a plan was made from
// then, whatever has happened since.
func TestMomentsAreWhatWas(t *testing.T) {
	held := 0
	for seed := range uint64(100) {
		w := newLeaveWorld(t, seed)
		if w.r.IntN(2) == 0 {
			for range 2 {
				for i, name := range w.regions {
					in := control.ReportLoad{Number: w.m.region(node(t, name)).load.number + 1, Full: true, Rest: tenths(i)}
					for _, d := range w.types {
						for k := range d.Shards {
							if s := (sharding.ShardID{Type: d.Type, Index: k}); w.r.IntN(3) == 0 && w.stored[s].Owner == node(t, name) {
								in.Shards = append(in.Shards, control.ShardLoad{Shard: s, Load: tenths(w.r.IntN(50))})
							}
						}
					}
					w.run(calls(node(t, name), in))
				}
			}
		}
		var want []Proposal
		var at []time.Time
		for range 6 {
			at = append(at, w.moment())
			p, err := w.m.Propose(PlanQuery{})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, p)
			if w.r.IntN(2) == 0 {
				w.run(DrainRegion{Region: node(t, w.regions[w.r.IntN(len(w.regions))]).String(), Resume: w.r.IntN(3) == 0})
			}
			if w.r.IntN(4) == 0 {
				w.run(CordonRegion{Region: w.regions[w.r.IntN(len(w.regions))], Lift: w.r.IntN(2) == 0})
			}
		}
		for i := range want {
			got, err := w.m.Propose(PlanQuery{AsOf: at[i]})
			if err != nil {
				t.Fatal(err)
			}
			if got.Restore(); got.At.After(at[i]) {
				t.Fatalf("seed %d: as of %v is %v", seed, at[i], got.At)
			}
			held += len(got.HeldBack)
			for k := range got.Input.Types {
				v, x := &got.Input.Types[k].View, &want[i].Input.Types[k].View
				for r := range v.Regions {
					if len(v.Regions[r].Shards)+len(x.Regions[r].Shards) == 0 {
						v.Regions[r].Shards = x.Regions[r].Shards // nil, or empty
					}
				}
			}
			got.At = time.Time{}
			if !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("seed %d, moment %d:\n%+v, was\n%+v", seed, i, got, want[i])
			}
		}
	}
	if held == 0 {
		t.Error("nothing was ever held back")
	}
}

// TestMomentsAreBounded: what does not change takes no memory, and the oldest moments give way.
func TestMomentsAreBounded(t *testing.T) {
	w := newPlanWorld(t)
	first := w.moment()
	for range 5 {
		w.moment()
	}
	if n := len(w.m.moments.list); n > 2 { // the plan of newPlanWorld was recorded before
		t.Errorf("nothing changes, and there are %d moments", n)
	}
	w.cfg.MaxMoments = 5
	w.m.cfg.MaxMoments = 5
	for i := range 12 {
		w.run(CordonRegion{Region: "r2", Lift: i%2 == 1})
		w.moment()
	}
	if n := len(w.m.moments.list); n != 5 || !w.m.moments.list[4].at.Equal(w.now.Truncate(time.Second)) {
		t.Errorf("%d moments are kept", n)
	}
	_, err := w.m.Propose(PlanQuery{AsOf: first})
	var r *Refusal
	if want := "has 5, from " + momentText(w.m.moments.list[0].at) + " to " + momentText(w.now); !errors.As(err, &r) || r.Kind != NotFound || !strings.Contains(r.Text, want) {
		t.Errorf("as of a forgotten moment: %v, want %s", err, want)
	}
	w.m.cfg.MomentBytes = 1
	w.run(CordonRegion{Region: "r1"})
	if w.moment(); len(w.m.moments.list) != 1 {
		t.Errorf("%d moments of more than a byte are kept", len(w.m.moments.list))
	}
	w.elect()
	if len(w.m.Moments()) != 0 {
		t.Error("a new term knows moments of the former one")
	}
}

// TestMomentIsNamedAsShown: the time at which a moment is listed finds it.
func TestMomentIsNamedAsShown(t *testing.T) {
	w := newPlanWorld(t)
	w.now = w.now.Truncate(time.Second).Add(999_999_999)
	w.run(CordonRegion{Region: "r1"})
	w.moment()
	list := w.m.Moments()
	shown, err := time.Parse(time.RFC3339, momentText(list[len(list)-1].At))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := w.m.Propose(PlanQuery{AsOf: shown}); err != nil || !p.At.Equal(shown) {
		t.Errorf("as of %v is %v, %v", shown, p.At, err)
	}
}

// TestAsOf: what a question about an earlier moment names must have been there.
func TestAsOf(t *testing.T) {
	w := newPlanWorld(t)
	before := w.moment()
	w.run(MemberGone{Node: node(t, "r2")})
	w.moment()
	if list := w.m.Moments(); list[len(list)-1].Regions != 1 || list[len(list)-2].Regions != 2 || list[len(list)-2].Shards != 4 {
		t.Errorf("the moments are %+v", list)
	}
	p, err := w.m.Propose(PlanQuery{AsOf: before, Type: "T", Without: []string{"r2"}})
	if p.Restore(); err != nil || len(p.Input.Types) != 1 || !p.Input.Types[0].View.Regions[1].Status.Going() || len(p.Input.Types[0].View.Regions[0].Shards) != 4 {
		t.Errorf("%+v, %v", p, err)
	}
	for want, q := range map[string]PlanQuery{
		"is in the future":                         {AsOf: w.now.Add(time.Hour)},
		"there was no entity type X at":            {AsOf: w.now, Type: "X"},
		"0 regions were called r2 at":              {AsOf: w.now, Without: []string{"r2"}},
		"there is no planning moment at or before": {AsOf: time.Unix(1, 0)},
	} { // order-free
		var r *Refusal
		if _, err := w.m.Propose(q); !errors.As(err, &r) || !strings.Contains(r.Text, want) {
			t.Errorf("%+v: %v, want %q", q, err, want)
		}
	}
}

// TestMomentsAsShown: each moment can be named as operators see it, without the part of its second.
func TestMomentsAsShown(t *testing.T) {
	w := newPlanWorld(t)
	w.now = w.now.Truncate(time.Second).Add(700 * time.Millisecond)
	for i := range 3 {
		w.run(CordonRegion{Region: fmt.Sprint("r", 7+i), Ahead: true})
		w.moment()
	}
	for _, x := range w.m.Moments() {
		shown, err := time.Parse(time.RFC3339, momentText(x.At))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := w.m.Propose(PlanQuery{AsOf: shown}); err != nil || !p.At.Equal(x.At) {
			t.Errorf("the moment of %v, shown as %v, is found as that of %v, %v", x.At, shown, p.At, err)
		}
	}
}

// BenchmarkMoment is a planning moment of 100,000 shards at 100 regions, of which some have moved.
func BenchmarkMoment(b *testing.B) {
	for _, moved := range []int{0, 100, 100_000} {
		b.Run(fmt.Sprintf("moved=%d", moved), func(b *testing.B) {
			const shards, types = 50_000, 2
			cfg := DefaultConfig()
			m := New(cfg)
			now := time.Unix(1e6, 0)
			var facts []Fact
			descs := []sharding.TypeDesc{{Type: "T", Shards: shards}, {Type: "U", Shards: shards}}
			nodes := make([]sharding.NodeID, 100)
			for i := range nodes {
				nodes[i] = sharding.NodeID{Addr: fmt.Sprintf("10.0.0.%d:25520", i), UID: sharding.NodeUID(i + 1)}
				m.Step(now, Member{Node: nodes[i], Name: fmt.Sprint("r", i), Reachable: true}, nil)
			}
			for k, d := range descs {
				facts = append(facts, TypeFact{Desc: d})
				for i := range uint32(shards) {
					facts = append(facts, RowFact{Row: sharding.Row{Shard: sharding.ShardID{Type: d.Type, Index: i}, Owner: nodes[i%100], Epoch: sharding.MakeEpoch(1, uint32(k*shards)+i+1), Phase: sharding.Serving}})
				}
			}
			m.Step(now, Elected{Term: 2, Facts: facts}, nil)
			for _, n := range nodes {
				m.Step(now, calls(n, control.Register{Types: descs}), nil)
			}
			m.recovered = true
			for i := range b.N {
				b.StopTimer()
				for k := range moved {
					m.types[k%types].rows[k/types*(types*shards/moved)].Epoch++
				}
				m.now = m.now.Add(cfg.MomentInterval)
				m.since = m.now
				b.StartTimer()
				if m.recordMoment(); i == 0 {
					b.ReportMetric(float64(m.moments.list[0].size(nil)), "bytes-first")
				}
			}
			list := m.moments.list
			if n := len(list); n > 1 {
				b.ReportMetric(float64(list[n-1].size(list[n-2])), "bytes")
			}
		})
	}
}
