//go:build mutants

package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/scenariotest"
)

// TestPersistBeforeSend shows that the observer of all tests here notices when
// the order of a fact and what depends on it is swapped.
func TestPersistBeforeSend(t *testing.T) {
	r1 := node(t, "r1")
	for _, name := range []string{"", "persist-before-send"} {
		w := newWorld(t, DefaultConfig())
		for _, in := range []Input{
			Member{Node: r1, Reachable: true}, Elected{Term: 1},
			calls(r1, control.Register{Types: []sharding.TypeDesc{{Type: "T", Shards: 4}}}),
			Received{Call: 1, Msg: control.WatchTable{Version: sharding.Version{Term: 1, N: 1}}},
		} {
			w.step(in)
		}
		mutant.Activate(name)
		out := w.m.Step(w.now, Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T"}}}, nil)
		mutant.Activate("")
		wrong := 0
		for _, o := range out {
			wrong += toInt(w.observe(o) != nil)
		}
		if want := 2 * toInt(name != ""); len(out) != 4 || wrong != want {
			t.Errorf("mutant %q: %d of %d outputs come before their fact, want %d of 4: %+v", name, wrong, len(out), want, out)
		}
	}
}

// TestMutantsOfShardRules: a region that looks for entities in other shards would be registered.
func TestMutantsOfShardRules(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	r1 := node(t, "r1")
	for _, name := range []string{"", "shard-rule"} {
		w := newWorld(t, DefaultConfig())
		w.step(Member{Node: r1, Reachable: true})
		w.step(Elected{Term: 1, Facts: []Fact{TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 4}}}})
		mutant.Activate(name)
		out := w.step(calls(r1, control.Register{Types: []sharding.TypeDesc{{Type: "T", Shards: 4, Rule: sharding.ShardRule{Separator: "/"}}}}))
		mutant.Activate("")
		for _, o := range out {
			if ack, is := sent(o).(control.RegisterAck); is && (ack.Refusal == "") != (name != "") {
				t.Errorf("mutant %q: %+v", name, ack)
			}
		}
	}
}

// TestMutantsOfTakeover: the fact stream of a cluster that lives would be claimed by
// another one.
func TestMutantsOfTakeover(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "cluster-identity", "foreign-heartbeat"} {
		mutant.Activate(name)
		j := journalOf{
			takeover: takeover{patience: 4 * time.Second}, now: time.Unix(1e6, 0), beats: true,
			found: found{Term: 99, Cluster: ours, Highest: sharding.MakeEpoch(5, 9)}, other: sharding.JournalHeartbeat{Cluster: theirs, Term: 5},
		}
		if step, _ := j.decide(t); (step == contested) != (name == "") {
			t.Errorf("mutant %q: another cluster that lives ends in %v", name, step)
		}
	}
}

// TestMutantsOfRegistration: a region that writes elsewhere would be given shards.
func TestMutantsOfRegistration(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	other := theirs
	for _, name := range []string{"", "region-journal"} {
		mutant.Activate(name)
		if refusal := registers(t, ours, &other); (refusal == "") != (name != "") {
			t.Errorf("mutant %q: a region on the journal of another cluster is refused with %q", name, refusal)
		}
	}
	for _, name := range []string{"", "heartbeat-asked"} {
		mutant.Activate(name)
		refusal := registersFrom(t, Elected{Term: 1, Cluster: ours, Generation: 7}, control.JournalOwner{Known: true, Generation: 7})
		if asksAgain := refusal == "nothing"; asksAgain != (name == "") {
			t.Errorf("mutant %q: a region that finds no heartbeat gets %q", name, refusal)
		}
	}
	for _, name := range []string{"", "all-wanted"} {
		mutant.Activate(name)
		if n := allocated(t, true); (n == 0) != (name != "") {
			t.Errorf("mutant %q: without facts, %d shards are allocated", name, n)
		}
	}
	for _, name := range []string{"", "loss-stored"} {
		mutant.Activate(name)
		if n := allocatedInNextTerm(t, 2, true); (n == 6) != (name == "") {
			t.Errorf("mutant %q: in the term after the loss of the facts, %d shards are allocated", name, n)
		}
	}
	for _, name := range []string{"", "region-generation"} {
		mutant.Activate(name)
		if refusal := registersFrom(t, Elected{Term: 1, Generation: 7}, control.JournalOwner{Generation: 8}); (refusal == "") != (name != "") {
			t.Errorf("mutant %q: a region on another generation of the journal is refused with %q", name, refusal)
		}
	}
}

// TestMutantsOfNames: two regions of one name would have shards, so a pin would mean either.
func TestMutantsOfNames(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	r1, r2 := node(t, "r1"), node(t, "r2")
	for _, name := range []string{"", "name-unique"} {
		mutant.Activate(name)
		w := newWorld(t, DefaultConfig())
		for _, in := range []Input{
			Member{Node: r1, Name: "a", Reachable: true}, Member{Node: r2, Name: "a", Reachable: true}, Elected{Term: 1},
			calls(r1, control.Register{Types: []sharding.TypeDesc{{Type: "T", Shards: 4}}}),
			calls(r2, control.Register{Types: []sharding.TypeDesc{{Type: "T", Shards: 4}}}),
		} {
			w.step(in)
		}
		if got := w.m.live.region(r2).registered; got != (name != "") {
			t.Errorf("mutant %q: the second region of the name is registered: %v", name, got)
		}
	}
}

// TestMutantsOfHeldNames: a region that comes back would be given shards in addition to the one that has taken its name.
func TestMutantsOfHeldNames(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	r1, r2 := node(t, "r1"), node(t, "r2")
	register := control.Register{Types: []sharding.TypeDesc{{Type: "T", Shards: 4}}}
	for _, name := range []string{"", "name-held"} {
		mutant.Activate(name)
		w := newWorld(t, DefaultConfig())
		for _, in := range []Input{
			Member{Node: r1, Name: "a", Reachable: true}, Member{Node: r2, Name: "a", Reachable: true}, Elected{Term: 1},
			calls(r1, register), Member{Node: r1, Name: "a"}, calls(r2, register), Member{Node: r1, Name: "a", Reachable: true},
		} {
			w.step(in)
		}
		if got := w.m.live.region(r1).candidate(); got != (name != "") || !w.m.live.region(r2).candidate() {
			t.Errorf("mutant %q: the first region of the name may be given shards: %v", name, got)
		}
	}
}

// TestMutantsOfUnknownFacts: what a later release has decided would be lost.
func TestMutantsOfUnknownFacts(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "unknown-facts-kept"} {
		mutant.Activate(name)
		if kept := len(checkpointed(2, UnknownFact{Name: "later"})); (kept == 0) != (name != "") {
			t.Errorf("mutant %q: %d unknown facts are kept", name, kept)
		}
	}
}

// TestMutantsOfDrains: a region that is to be emptied is given nothing in the next
// term either.
func TestMutantsOfDrains(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	r1, r2 := node(t, "r1"), node(t, "r2")
	types := []sharding.TypeDesc{{Type: "T", Shards: 1}}
	for _, name := range []string{"", "drain-kept"} {
		mutant.Activate(name)
		w := newWorld(t, DefaultConfig())
		for _, in := range []Input{
			Member{Node: r1, Reachable: true}, Member{Node: r2, Reachable: true},
			Elected{Term: 2, Facts: []Fact{
				TypeFact{Desc: types[0]}, DrainFact{Region: r1},
				RowFact{Row: sharding.Row{Shard: sharding.ShardID{Type: "T"}, Owner: r1, Epoch: sharding.MakeEpoch(1, 1), Phase: sharding.Serving}},
			}},
			calls(r1, control.Register{Types: types}),
		} {
			w.m.Step(w.now, in, nil)
		}
		handOff := slices.ContainsFunc(w.m.Step(w.now, calls(r2, control.Register{Types: types}), nil), is[control.HandOff])
		if handOff != (name == "") {
			t.Errorf("mutant %q: the drained region receives HandOff: %t", name, handOff)
		}
	}
}

// TestMutantsOfSteering: what operators want would be forgotten, or not be done.
func TestMutantsOfSteering(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "cordon-kept", "cordon", "pin-kept", "pin", "freeze-kept", "freeze"} {
		mutant.Activate("")
		if lost := lostSteering(t, func() { mutant.Activate(name) }); (len(lost) > 0) != (name != "") {
			t.Errorf("mutant %q: lost is %q", name, lost)
		}
	}
	for name, broken := range map[string]func(*testing.T) bool{
		"freeze-moves":     func(t *testing.T) bool { return movesFrozen(t) == nil },
		"move-readable":    func(t *testing.T) bool { return movesToBlind(t) != "" },
		"drain-coming":     func(t *testing.T) bool { return drainForgetsComing(t) != "" },
		"target-known":     func(t *testing.T) bool { return targetAsked(t, "3") != "2" },
		"successor-wanted": func(t *testing.T) bool { return changedMind(t) == node(t, "r2") },
	} { // order-free
		for _, on := range []string{"", name} {
			mutant.Activate(on)
			if broken(t) != (on != "") {
				t.Errorf("mutant %q: noticed is %t", on, broken(t))
			}
		}
	}
}

// TestMutantsOfForms: a shard would go to a region that does not read it.
func TestMutantsOfForms(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, m := range []struct {
		name   string
		broken func(*testing.T) string
	}{{"readability", lostOwner}, {"lost-owner-wrote", lostOwner}, {"forms-in-facts", newTerm}} {
		for _, name := range []string{"", m.name} {
			mutant.Activate(name)
			if why := m.broken(t); (why != "") != (name != "") {
				t.Errorf("mutant %q: %q", name, why)
			}
		}
	}
}

// TestMutantsOfLooks: what an owner that is lost stores late would not be found.
func TestMutantsOfLooks(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "look-fence"} {
		mutant.Activate("")
		w, _ := crashedCanary(t, 2)
		mutant.Activate(name)
		if reads := outputs[ReadForms](w.do(LookAtShards{})); (len(reads) > 0) != (name != "") {
			t.Errorf("mutant %q: before any claim holds, there is read %+v", name, reads)
		}
	}
}

// TestMutantsOfLooksAtInputs: a shard would be given to a region that cannot read a reminder in it.
func TestMutantsOfLooksAtInputs(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	form := sharding.Form{Kind: sharding.FormOfInput, Name: "Ring", Version: 2, Shape: 7}
	for _, name := range []string{"", "look-inputs"} {
		mutant.Activate(name)
		found := ReadForms{Desc: sharding.TypeDesc{Type: "T", Shards: 1}, Forms: []sharding.Form{form}, At: []FormsAt{{Forms: sharding.FormSet("").With(0)}}}.Begin()
		found.Reminder(entityOf(t, 0, 1), &sharding.Input{Command: "Ring", Version: 2, Shape: 7})
		if (found.Answer().At[0].Forms == "") != (name != "") {
			t.Errorf("mutant %q: %+v is found", name, found.Answer())
		}
	}
}

// TestMutantsOfRefusals: what an owner stored before it refused a shard would be forgotten.
func TestMutantsOfRefusals(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "refused-while-serving"} {
		mutant.Activate(name)
		if before := refused(t, true); (before == "") != (name != "") {
			t.Errorf("mutant %q: %x counts", name, string(before))
		}
	}
}

// TestMutants: what comes late, or early in a term, must have no consequence.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	r1, r2 := node(t, "r1"), node(t, "r2")
	types := []sharding.TypeDesc{{Type: "T", Shards: 1}}
	shard := sharding.ShardID{Type: "T"}
	first := sharding.MakeEpoch(1, 1)
	// r1 has refused the shard at its first epoch, and claims it at the second.
	again := []Input{
		Member{Node: r1, Reachable: true}, Elected{Term: 1}, calls(r1, control.Register{Types: types}),
		Received{Msg: control.GetShardHome{Shard: shard}}, from(r1, control.HostRefused{Shard: shard, Epoch: first, Above: first}),
	}
	for _, m := range []struct {
		name string
		in   []Input
		last Input
	}{
		// An unclaimed row would be served.
		{"started-epoch", again, from(r1, control.ShardStarted{Shard: shard, Epoch: first})},
		// A shard would be taken from an owner who was not asked.
		{"stopped-epoch", again, from(r1, control.ShardStopped{Shard: shard, Epoch: first})},
		// A shard that is served would move because its owner is the second to
		// learn of the new term.
		{"recovery-wait", []Input{
			Member{Node: r1, Reachable: true}, Member{Node: r2, Reachable: true},
			Elected{Term: 2, Facts: []Fact{
				TypeFact{Desc: types[0]},
				RowFact{Row: sharding.Row{Shard: shard, Owner: r1, Epoch: first, Phase: sharding.Serving}},
			}},
		}, calls(r2, control.Register{Types: types})},
	} {
		for _, name := range []string{"", m.name} {
			mutant.Activate(name)
			c := New(DefaultConfig())
			w := newWorld(t, DefaultConfig())
			for _, in := range m.in {
				for facts := persisted(c.Step(w.now, in, nil)); facts > 0; {
					facts = persisted(c.Step(w.now, Stored{Facts: facts}, nil))
				}
			}
			changed := 0
			for _, o := range c.Step(w.now, m.last, nil) {
				p, ok := o.(Persist)
				if _, row := p.Fact.(RowFact); ok && row {
					changed++
				}
			}
			if (changed > 0) != (name != "") {
				t.Errorf("mutant %q: %d rows change by %+v", name, changed, m.last)
			}
		}
	}
}

// TestMutantsOfTenures: what a coordinator must not do before it may, or any more.
func TestMutantsOfTenures(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, m := range []struct {
		name   string
		broken func(*tenureTest) bool
	}{
		// The facts are gone, and epochs that were given out by them are not: what a
		// low term assigns, no region could claim.
		{"term-above-epochs", func(w *tenureTest) bool {
			w.acquire(3)
			w.surveyed(Surveyed{Highest: sharding.MakeEpoch(5, 1)})
			_, claims := first[Claim](w)
			return claims
		}},
		// A coordinator in between stored facts that would be forgotten.
		{"stale-fold", func(w *tenureTest) bool {
			w.acquire(3)
			w.surveyed(Surveyed{})
			w.step(Claimed{Number: want[Claim](w).Number, Verdict: sharding.Durable})
			w.step(JournalHeartbeatWritten{Number: want[WriteJournalHeartbeat](w).Number, Verdict: sharding.Durable})
			old := want[Load](w)
			w.acquire(5)
			w.surveyed(Surveyed{Highest: sharding.MakeEpoch(4, 2)})
			w.step(Claimed{Number: want[Claim](w).Number, Verdict: sharding.Durable})
			w.step(JournalHeartbeatWritten{Number: want[WriteJournalHeartbeat](w).Number, Verdict: sharding.Durable})
			w.step(Loaded{Number: old.Number})
			_, acts := first[BecameActive](w)
			return acts
		}},
		// No region could register, and another cluster could take the journal.
		{"heartbeat-deleted", func(w *tenureTest) bool {
			w.active(3)
			w.beat(sharding.RefusedSeq)
			return w.core.ActiveTerm() != 0
		}},
		// The next coordinator would know less than this one has revealed.
		{"facts-deleted", func(w *tenureTest) bool {
			w.active(3, TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 1}})
			w.beat(sharding.Durable)
			w.step(FactsChecked{Number: want[CheckFacts](w).Number})
			return w.core.ActiveTerm() != 0
		}},
		// A coordinator that ends would leave a part of the pins of a request.
		{"request-one-record", func(w *tenureTest) bool { return recordsOfPins(newTenureTest(w.t, smallRecords())) > 1 }},
	} {
		for _, name := range []string{"", m.name} {
			mutant.Activate(name)
			if broken := m.broken(newTenureTest(t, DefaultConfig())); broken != (name != "") {
				t.Errorf("mutant %q: broken %t", name, broken)
			}
		}
	}
}

// TestMutantsOfRollouts: shards would move more than once, or to regions of the version
// that is to go.
func TestMutantsOfRollouts(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	// One old region was killed and has come back, and has nothing; another one leaves.
	once := func(t *testing.T) bool {
		p := newPlatform(t, 6, 60, 1)
		p.start("2")
		p.kill(p.oldest("1"))
		p.stop(p.oldest("1"))
		return p.m.table.shardsOf(p.oldest("2")) < 14 // its share is 9
	}
	surge := func(t *testing.T) bool {
		p := newPlatform(t, 6, 60, 1)
		p.surge(6, 1, "2")
		return p.total != 60
	}
	target := func(events ...string) func(*testing.T) bool {
		return func(t *testing.T) bool { return targetAfter(t, events).m.View().Rollout.Target != "2" }
	}
	for _, m := range []struct {
		name   string
		broken func(*testing.T) bool
	}{
		{"move-once", once},
		{"rollout-freeze", surge},
		{"ready-waits", func(t *testing.T) bool {
			p := newPlatform(t, 2, 4, 1)
			p.start("2")
			p.m.Step(p.now, calls(p.oldest("1"), control.GracefulShutdown{}), nil)
			out := p.m.Step(p.now, calls(p.oldest("2"), control.CountDue{}), nil)
			return sent(out[0]) == control.Message(control.DueAck{Term: 1})
		}},
		{"ready-up", func(t *testing.T) bool {
			p := newPlatform(t, 2, 4, 1)
			p.start("2")
			n := p.oldest("2")
			p.m.Step(p.now, Member{Node: n, Reachable: true, Joining: true}, nil)
			out := p.m.Step(p.now, calls(n, control.CountDue{}), nil)
			_, answered := sent(out[0]).(control.DueAck)
			return answered
		}},
		{"target-as-a-fact", target("a:1", "b:2", "-a", "elect", "b:2", "c:1")},
		{"target-seen", target("a:1", "b:2", "-a", "c:1")},
		{"target-lapse-at-once", target("a:1", "c:1", "b:2", "-b", "wait")},
		{"target-lapse-shared", target("a:1", "c:3", "b:2", "-b", "freeze")},
	} {
		for _, name := range []string{"", m.name} {
			mutant.Activate(name)
			if broken := m.broken(t); broken != (name != "") {
				t.Errorf("mutant %q: broken %t", name, broken)
			}
		}
	}
}

// TestMutantsOfCommands: a canary that is restarted would take its commands away.
func TestMutantsOfCommands(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "target-commands"} {
		mutant.Activate(name)
		if away, _ := commandsOfCanary(t, "1"); len(away) != 2-toInt(name != "") {
			t.Errorf("mutant %q: while the canary is away there are %v", name, away)
		}
	}
}

// TestMutantsOfPrevious: a region would receive a request for states that its shard has outlived.
func TestMutantsOfPrevious(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "previous-served"} {
		mutant.Activate(name)
		w := newWorld(t, DefaultConfig())
		var last control.HostShard
		for _, line := range []string{
			"member r1", "member r2", "elect 1", "register r1 V:1:volatile", "home V/0", "started r1 V/0 1.1", "register r2 V:1:volatile",
			"drain r1", "stopped r1 V/0 1.1 keeps", "started r2 V/0 1.2", "resume r1", "drain r2",
		} {
			w.do(line)
		}
		for _, o := range w.step(from(node(t, "r2"), control.ShardStopped{Shard: shard(t, "V/0"), Epoch: epoch(t, "1.2")})) {
			if m, ok := sent(o).(control.HostShard); ok {
				last = m
			}
		}
		if asked := last.Previous != (control.Previous{}); last.Epoch == 0 || asked != (name != "") {
			t.Errorf("mutant %q: after r2 has served the shard and kept nothing, %+v", name, last)
		}
	}
}

// TestMutantsOfPlans: a plan would be carried out although the cluster has changed.
func TestMutantsOfPlans(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, m := range []struct {
		name  string
		moves func(*testing.T) bool
	}{{"plan-of-earlier-term", planOfEarlierTerm}, {"move-checked-again", planForLeaver}, {"move-still-preferred", planOvertaken}} {
		for _, name := range []string{"", m.name} {
			mutant.Activate(name)
			if m.moves(t) != (name != "") {
				t.Errorf("mutant %q: a shard moves: %t", name, name == "")
			}
		}
	}
}

// TestMutantsOfLoad: shards would follow loads that come and go, or are not there any more.
func TestMutantsOfLoad(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, m := range []struct {
		name   string
		broken func(*testing.T) bool
	}{
		{"load-two-reports", movesAfter(1)}, {"load-cooling", movesInNewTerm}, {"load-cooling", movesOn}, {"load-fresh", movesByOldReports},
		{"load-of-earlier-owner", func(t *testing.T) bool { return loadOfEarlierOwner(t) > 0 }},
	} {
		for _, name := range []string{"", m.name} {
			mutant.Activate(name)
			if broken := m.broken(t); broken != (name != "") {
				t.Errorf("mutant %q: broken %t", name, broken)
			}
		}
	}
}

// TestMutantsOfDirectHandoffs: an epoch would be given out twice, or a shard would be served at an unclaimed
// epoch.
func TestMutantsOfDirectHandoffs(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	mutant.Activate("next-epoch")
	if scenariotest.Differing(t, play) == 0 {
		t.Error("mutant next-epoch: no scenario differs")
	}
	for _, name := range []string{"", "next-counted"} {
		mutant.Activate("")
		w := beforeDirectHandoff(t)
		mutant.Activate(name)
		w.m.Step(w.now, DrainRegion{Region: node(t, "r1").String()}, nil)
		if broken := w.m.Check() != nil; broken != (name != "") {
			t.Errorf("mutant %q: an epoch is given out twice: %t", name, broken)
		}
	}
	for _, name := range []string{"", "order-repeated"} {
		mutant.Activate(name)
		if at := adoptedAtOnce(t); at != (name == "") {
			t.Errorf("mutant %q: the next coordinator continues at once: %t", name, at)
		}
	}
	for _, name := range []string{"", "successor-wrote"} {
		mutant.Activate(name)
		if wrote := storedBySuccessor(t).Has(1); wrote != (name == "") {
			t.Errorf("mutant %q: what the successor may have stored counts: %t", name, wrote)
		}
	}
}

// TestMutantsOfWhatOwnersWrote: forms would count as stored that no owner has stored, or shards
// would go to regions although nothing requires it.
func TestMutantsOfWhatOwnersWrote(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "wrote-awaited"} {
		mutant.Activate(name)
		if forms := startedFirst(t); (forms == "") != (name == "") {
			t.Errorf("mutant %q: %x may be stored", name, string(forms))
		}
	}
	for _, name := range []string{"", "choice-waits"} {
		mutant.Activate(name)
		if reserved := reservedForOne(t); reserved != (name != "") {
			t.Errorf("mutant %q: an epoch is reserved: %t", name, reserved)
		}
	}
}

// TestMutantsOfSuccessors: a shard would go elsewhere than planned, or to a region that is
// about to leave.
func TestMutantsOfSuccessors(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, m := range []struct {
		name string
		run  func(*testing.T) string
		want string
	}{
		{"successor", goesToSuccessor, "r2"},
		{"successor", goesToPlanned, "r2"},
		{"successor", successorInNextTerm, "r2"},
		{"successor-checked", successorLeaves, "r1"},
	} {
		for _, name := range []string{"", m.name} {
			mutant.Activate(name)
			if to := m.run(t); (to == m.want) != (name == "") {
				t.Errorf("mutant %q: the shard goes to %s", name, to)
			}
		}
	}
}

// TestMutantsOfPauses: the next plan would follow at once.
func TestMutantsOfPauses(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	mutant.Activate("plan-pause")
	if !planAgainAtOnce(t) {
		t.Error("mutant plan-pause is not noticed")
	}
}

// TestQuarantineIsObeyed: a quarantine is done when the regions that may run the entity know of it.
func TestQuarantineIsObeyed(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "quarantine-obeyed"} {
		mutant.Activate(name)
		now, owner := time.Unix(1_000_000, 0), sharding.NodeID{Addr: "r1:1", UID: 1}
		m := New(DefaultConfig())
		step := func(in Input) { m.Step(now, in, nil) }
		typ := sharding.TypeDesc{Type: "T", Shards: 1}
		step(Member{Node: owner, Name: "r1", Reachable: true})
		step(Elected{Term: 2, Facts: []Fact{TypeFact{Desc: typ}, RowFact{Row: sharding.Row{Shard: sharding.ShardID{Type: "T"}, Owner: owner, Epoch: sharding.MakeEpoch(1, 1), Phase: sharding.Serving}}}})
		request := QuarantineEntity{Entity: sharding.Entity{Type: "T", ID: "x"}, By: "ben"}
		before := m.table.version
		done := func(in Input) bool { return slices.Contains(m.Step(now, in, nil), Output(Done{Number: 3})) }
		watch := func(v sharding.Version) Input {
			return Received{From: owner, Call: 7, Msg: control.WatchTable{Version: v}}
		}
		early := done(Ask{Number: 3, Request: request})
		early = done(Stored{Facts: 1}) || early
		if early = done(watch(before)) || early; early != (name != "") {
			t.Errorf("mutant %q: before the region has heard of it, it is done: %t", name, early)
		}
		if name == "" && !done(watch(m.table.version)) {
			t.Error("the region knows of it, and it is not done")
		}
	}
}

// TestMutantsOfQuarantine: an entity would be quarantined without proof, or too late, or not for long, or
// regions would run it before they know that it is quarantined.
func TestMutantsOfQuarantine(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"quarantine-first", "quarantine-repeats", "quarantine-clean", "quarantine-count", "quarantine-alone", "quarantine-waits", "quarantine-starting", "quarantine-behind", "quarantine-patience", "quarantine-others", "quarantine-culprit", "quarantine-window", "quarantine-blind", "quarantine-evident", "quarantine-off"} {
		mutant.Activate(name)
		if scenariotest.Differing(t, play) == 0 {
			t.Errorf("mutant %s: no scenario differs", name)
		}
	}
	for _, name := range []string{"", "quarantine-kept"} {
		mutant.Activate(name)
		m := New(DefaultConfig())
		m.Step(time.Unix(1_000_000, 0), Elected{Term: 2, Facts: []Fact{
			TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 4}}, QuarantineFact{Entity: sharding.Entity{Type: "T", ID: "x"}, State: Quarantined},
		}}, nil)
		if kept := len(m.Quarantine()) == 1; kept != (name == "") {
			t.Errorf("mutant %q: the next coordinator knows the quarantine: %t", name, kept)
		}
	}
}
