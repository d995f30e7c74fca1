package router

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

var seeds = flag.Uint64("seeds", 60, "random clusters to run")
var firstSeed = flag.Uint64("seed", 1, "the first of them")

// TestRandomClusters: under faults every command ends once and in time, one that was not applied had
// no effect and an OK one exactly one, effects on one entity are in the order of
// submission, and after the faults commands succeed.
func TestRandomClusters(t *testing.T) {
	count := map[string]int{}
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		w := newWorld(t, seed)
		w.run(5 * time.Second)
		w.calm = true
		w.run(12 * time.Second)
		w.verify(count)
	}
	t.Logf("outcomes: %v", count)
	for _, what := range []string{"executed", "not_applied", "unknown", "again", "new executed", "deferred"} {
		if count[what] == 0 {
			t.Errorf("no command was %s: the weather is too mild", what)
		}
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		a, b := newWorld(t, seed), newWorld(t, seed)
		a.run(3 * time.Second)
		b.run(3 * time.Second)
		if a.trace != b.trace {
			t.Fatalf("seed %d gives two traces", seed)
		}
	}
}

func (w *world) verify(count map[string]int) {
	w.t.Helper()
	if s := w.m.Stats(); s.Requests != 0 || s.Bytes != 0 || s.Waiting != 0 {
		w.fatal("not finished: %+v\n%s", s, w.m.AppendState(w.start.Add(w.now), nil))
	}
	for id := RequestID(1); id <= w.last; id++ {
		c := w.calls[id]
		effects := w.applied[c.env.ID]
		switch {
		case effects > 1:
			w.fatal("request %d took effect %d times", id, effects)
		case c.canceled:
			continue
		case c.reply == nil:
			w.fatal("request %d was not finished", id)
		case c.reply.Outcome == sharding.NotApplied && effects > 0:
			w.fatal("request %d was not applied (%s) and took effect", id, c.reply.Message)
		case c.reply.Outcome == sharding.Executed && c.env.Command != "Get" && effects != 1:
			w.fatal("request %d was executed without effect", id)
		}
		count[c.reply.Outcome.String()]++
		if c.env.Command == "New" {
			count["new "+c.reply.Outcome.String()]++
		}
	}
	count["overtaken"] += len(w.overtaken)
	count["again"] += len(w.sent)
	count["deferred"] += w.deferred
	for e, log := range w.log {
		log = slices.DeleteFunc(slices.Clone(log), func(id RequestID) bool { return w.overtaken[id] })
		if !slices.IsSorted(log) {
			w.fatal("effects on %s out of order: %v", e, log)
		}
	}
	var last []RequestID
	w.newer = false
	for range 10 {
		w.submit(w.entity(), 0)
		w.calls[w.last].env.Deadline = time.Time{}
		last = append(last, w.last)
	}
	w.run(w.now + 6*time.Second)
	for _, id := range last {
		if c := w.calls[id]; c.reply == nil || c.reply.Outcome != sharding.Executed && c.reply.Code != sharding.DeadlineExceeded {
			w.fatal("request %d in calm weather: %+v", id, c.reply)
		}
	}
}

// TestNonsense: inputs in any order, with any content, neither panic nor break
// an invariant.
func TestNonsense(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		rng := rand.New(rand.NewPCG(seed, 4))
		cfg := DefaultConfig()
		cfg.MaxWaiting, cfg.MaxTotal = 5, 12
		if seed%2 == 0 {
			cfg.MaxTimeout, cfg.LinkIdle = time.Second, 2*time.Second
		}
		m, now := New(cfg), time.Unix(1_000_000, 0)
		small := func() uint64 { return uint64(rng.IntN(6)) }
		addr := func() string { return []string{"", "c1", "c2", "r1", "r2", "r3"}[rng.IntN(6)] }
		region := func() sharding.NodeID { return sharding.NodeID{Addr: addr(), UID: sharding.NodeUID(small())} }
		attempt := func() Attempt { return m.next - min(m.next, Attempt(rng.IntN(20))) }
		typ := func() sharding.EntityType { return []sharding.EntityType{"", "T", "V", "W", "X"}[rng.IntN(5)] }
		row := func() sharding.Row {
			return sharding.Row{
				Shard: sharding.ShardID{Type: typ(), Index: uint32(small())}, Owner: region(),
				Epoch: sharding.Epoch(rng.IntN(30)), Phase: sharding.Phase(rng.IntN(5)),
			}
		}
		for range 1000 {
			now = now.Add(time.Duration(rng.IntN(120)-10) * ms)
			var in Input
			switch rng.IntN(14) {
			case 0, 1, 2:
				env := sharding.Envelope{Entity: sharding.Entity{Type: typ(), ID: "a"}, Command: []string{"Do", "Get", "", "No", "New"}[rng.IntN(5)], ID: "k", Keyed: small() > 2}
				env.Payload = make([]byte, rng.IntN(300_000))
				in = Submit{Request: RequestID(rng.IntN(200)), Env: &env}
			case 3:
				in = Cancel{Request: RequestID(rng.IntN(200))}
			case 4:
				in = LinkUp{Region: region(), Link: small()}
			case 5:
				in = LinkDown{Region: region(), Link: small()}
			case 6:
				in = Answer{Attempt: attempt(), Reply: sharding.Reply{Outcome: sharding.Outcome(small()), Code: []sharding.Code{"", sharding.Unavailable, sharding.UnknownCommand, sharding.KeyExpired}[rng.IntN(4)]}}
			case 7:
				in = NotMine{Attempt: attempt(), Refused: sharding.Epoch(small()), Row: row()}
			case 8:
				in = SendFailed{Attempt: attempt()}
			case 9, 10:
				in = changed(addr(), sharding.TableDelta{
					Version: sharding.Version{Term: sharding.Term(small()), N: small()}, Types: testTypes(), Rows: []sharding.Row{row(), row(), row()},
				})
			case 11:
				in = watched(addr(), control.NotActive{Active: region(), Term: sharding.Term(small())})
			case 12:
				in = []Input{watched(addr(), nil), Replied{From: addr(), Msg: control.HostShard{}},
					Replied{From: addr(), Asked: control.FindShards{}}, Replied{From: addr(), Asked: control.FindShards{}, Msg: control.ShardsFound{Rows: []sharding.Row{row()}}},
					Coordinators{Addrs: []string{addr()}, Regions: []string{addr()}}, nil}[rng.IntN(6)]
			default:
				in = Tick{}
			}
			due := m.Due()
			out := m.Step(now, in, nil)
			if err := m.Check(); err != nil {
				t.Fatalf("seed %d after %T%+v: %v", seed, in, in, err)
			}
			if _, tick := in.(Tick); tick && len(out) > 0 && now.Before(due) {
				t.Fatalf("seed %d: a tick does %+v, %v before anything is due", seed, out, due.Sub(now))
			}
		}
	}
}

func BenchmarkCommand(b *testing.B) {
	s := &scenario{t: b, cfg: DefaultConfig(), now: time.Unix(1_000_000, 0)}
	for _, line := range []string{"coordinators c1", "table c1 1.1 T/0 1.1 serving r1", "up r1"} {
		s.do(line)
	}
	env := sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "x"}, Command: "Do", ID: "k", Keyed: true}
	var out []Output
	b.ReportAllocs()
	for i := range b.N {
		out = s.m.Step(s.now, Submit{Request: RequestID(i), Env: &env}, out[:0])
		out = s.m.Step(s.now, Answer{Attempt: s.m.next, Reply: sharding.Reply{Outcome: sharding.Executed}}, out)
	}
}
