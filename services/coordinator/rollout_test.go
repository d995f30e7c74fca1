package coordinator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// platform replaces the regions of a machine, as Kubernetes and the like do. Messages
// arrive at once, and facts are durable at once.
type platform struct {
	*world
	rng   *rand.Rand
	desc  sharding.TypeDesc
	up    []sharding.NodeID // oldest first
	ver   map[sharding.NodeID]string
	last  sharding.NodeUID
	moves map[sharding.ShardID]int
	total int
	step  time.Duration // between two ticks
	// If they are set: the type as a version has it, and what a region does with a shard that
	// it is given, and has stored in one that it gives back.
	typeOf func(version string) sharding.TypeDesc
	hosts  func(sharding.NodeID, sharding.ShardID)
	wrote  func(sharding.NodeID, sharding.ShardID) sharding.FormSet
}

func newPlatform(t *testing.T, regions, shards int, seed uint64) *platform {
	p := emptyPlatform(t, regions, shards, seed)
	p.begin(regions)
	return p
}

func emptyPlatform(t *testing.T, regions, shards int, seed uint64) *platform {
	p := &platform{
		step:  50 * time.Millisecond,
		world: newWorld(t, DefaultConfig()), rng: rand.New(rand.NewPCG(seed, 1)),
		desc: sharding.TypeDesc{Type: "T", Shards: uint32(shards)},
		ver:  map[sharding.NodeID]string{}, moves: map[sharding.ShardID]int{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%d regions, %d shards, seed %d", regions, shards, seed)
		}
	})
	return p
}

// begin starts regions of version 1, which come to serve all shards.
func (p *platform) begin(regions int) {
	p.tell(Elected{Term: 1})
	for range regions {
		p.start("1")
	}
	for i := range p.desc.Shards {
		p.tell(Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T", Index: i}}})
	}
	p.rest(5 * time.Second)
	if low, high := p.spread(); high-low > 1 {
		p.t.Fatalf("at first the regions have %d to %d shards", low, high)
	}
	clear(p.moves)
	p.total = 0
}

// tell steps the machine, and has the regions do what it asks for, until nothing is left.
func (p *platform) tell(in Input) {
	for waiting := []Input{in}; len(waiting) > 0; waiting = waiting[1:] {
		waiting = append(waiting, p.worldFacts(waiting[0])...)
	}
}

func (p *platform) worldFacts(in Input) (answers []Input) {
	before := map[sharding.ShardID]sharding.NodeID{}
	for _, o := range p.m.Step(p.now, in, nil) {
		switch o := o.(type) {
		case Persist:
			answers = append(answers, Stored{Facts: 1})
			if f, ok := o.Fact.(RowFact); ok {
				s := f.Row.Shard
				before[s] = p.stored[s].Owner
				p.stored[s] = f.Row
				if !before[s].IsZero() && before[s] != f.Row.Owner {
					p.moves[s]++
					p.total++
				}
			}
			p.facts = append(p.facts, o.Fact)
		case Plan:
			answers = append(answers, o.Compute())
		case Send:
			if !slices.Contains(p.up, o.To) {
				continue
			}
			switch msg := o.Msg.(type) {
			case control.HostShard:
				if p.hosts != nil {
					p.hosts(o.To, msg.Shard)
				}
				answers = append(answers, from(o.To, control.ShardStarted{Shard: msg.Shard, Epoch: msg.Epoch}))
			case control.HandOff:
				stopped := control.ShardStopped{Shard: msg.Shard, Epoch: msg.Epoch}
				if p.wrote != nil {
					stopped.Wrote = p.wrote(o.To, msg.Shard)
				}
				answers = append(answers, from(o.To, stopped))
			}
		}
	}
	return answers
}

// rest lets time pass.
func (p *platform) rest(d time.Duration) {
	for end := p.now.Add(d); p.now.Before(end); {
		p.now = p.now.Add(p.step)
		p.tell(Tick{})
	}
	if err := p.m.Check(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *platform) start(version string) {
	p.last++
	n := sharding.NodeID{Addr: fmt.Sprintf("r%d:1", p.last), UID: p.last}
	p.up, p.ver[n] = append(p.up, n), version
	p.tell(Member{Node: n, Reachable: true})
	desc := p.desc
	if p.typeOf != nil {
		desc = p.typeOf(version)
	}
	p.tell(calls(n, control.Register{Version: version, Types: []sharding.TypeDesc{desc}}))
}

// oldest returns a region of the version, or of any other if not.
func (p *platform) oldest(version string) sharding.NodeID {
	for _, n := range p.up {
		if p.ver[n] == version {
			return n
		}
	}
	return sharding.NodeID{}
}

func (p *platform) gone(n sharding.NodeID) {
	p.up = slices.DeleteFunc(p.up, func(u sharding.NodeID) bool { return u == n })
	p.tell(MemberGone{Node: n})
}

// stop lets a region leave as it should.
func (p *platform) stop(n sharding.NodeID) {
	for p.tell(calls(n, control.GracefulShutdown{})); p.m.table.shardsOf(n) > 0; {
		p.rest(p.step)
	}
	p.gone(n)
}

// kill ends a region without a word; it is restarted with the same version.
func (p *platform) kill(n sharding.NodeID) (shards int) {
	shards = p.m.table.shardsOf(n)
	p.gone(n)
	p.start(p.ver[n])
	return shards
}

// spread returns the least and the most shards that a region has.
func (p *platform) spread() (low, high int) {
	low = len(p.stored)
	for _, n := range p.up {
		low, high = min(low, p.m.table.shardsOf(n)), max(high, p.m.table.shardsOf(n))
	}
	return low, high
}

// done lets the cluster come to rest, and checks that every region has its share.
func (p *platform) done() {
	p.rest(5 * time.Second)
	if p.m.rollingOut() {
		p.t.Error("the rollout does not end")
	}
	if low, high := p.spread(); high-low > 1 {
		p.t.Errorf("in the end the regions have %d to %d shards", low, high)
	}
	p.checkReplay()
}

func (p *platform) most() (n int) {
	for _, m := range p.moves {
		n = max(n, m)
	}
	return n
}

// surge starts new regions, n at a time, before as many old ones leave.
func (p *platform) surge(regions, n int, to string) {
	for left := regions; left > 0; left -= n {
		n = min(n, left)
		for range n {
			p.start(to)
		}
		p.pause()
		for range n {
			p.stop(p.oldest("1"))
		}
	}
}

// inPlace stops an old region before it starts a new one in its place.
func (p *platform) inPlace(regions int, to string) {
	for range regions {
		p.stop(p.oldest("1"))
		p.pause()
		p.start(to)
		p.pause()
	}
}

// pause lets some time pass, more than between two looks for balance.
func (p *platform) pause() { p.rest(time.Duration(1+p.rng.IntN(1500)) * time.Millisecond) }

func someShards(rng *rand.Rand) int { return 1 + rng.IntN(200) }

// TestSurgeMovesOnce: when new regions come before old ones go, every shard moves exactly
// once, however many come at a time.
func TestSurgeMovesOnce(t *testing.T) {
	for regions := 2; regions <= 50; regions++ {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 2))
		p := newPlatform(t, regions, someShards(rng), seed)
		p.surge(regions, 1+rng.IntN(regions), "2")
		p.done()
		if p.total != int(p.desc.Shards) || p.most() > 1 {
			t.Errorf("%d moves of %d shards, one moved %d times", p.total, p.desc.Shards, p.most())
		}
	}
}

// inPlaceMost is the most moves of shards that it takes to replace regions in place, one
// after the other. The shards of the first one go to old regions, as there are no others;
// then each shard goes from an old region to one of the target; and the last new region
// comes when all have a place, and gets its share when the rollout is over. The first and
// the last of these are a region's share, which is rounded up.
func inPlaceMost(shards, regions int) int {
	return shards + 2*((shards+regions-1)/regions)
}

// TestInPlaceIsBounded: replacing regions in place takes no more moves than that, and no
// shard moves more than three times.
func TestInPlaceIsBounded(t *testing.T) {
	for regions := 2; regions <= 50; regions++ {
		seed := rand.Uint64()
		p := newPlatform(t, regions, someShards(rand.New(rand.NewPCG(seed, 2))), seed)
		p.inPlace(regions, "2")
		p.done()
		if most := inPlaceMost(int(p.desc.Shards), regions); p.total > most || p.most() > 3 {
			t.Errorf("%d moves of %d shards, at most %d are needed; one moved %d times", p.total, p.desc.Shards, most, p.most())
		}
	}
}

// TestKillsInRollouts: a region that is killed, of either version, adds at most two moves
// for each shard that it had: to a place, and, as room on the regions of the target is
// limited, one from a place with the old version, of that shard or of one that found no
// room. What the region that is started in its place lacks in the end comes to it when
// the rollout is over.
func TestKillsInRollouts(t *testing.T) {
	for regions := 2; regions <= 50; regions++ {
		seed := rand.Uint64()
		p := newPlatform(t, regions, someShards(rand.New(rand.NewPCG(seed, 2))), seed)
		kills, killed := 0, 0
		weather := func() {
			if p.rng.IntN(1+regions/4) == 0 {
				kills++
				killed += p.kill(p.up[p.rng.IntN(len(p.up))])
				p.pause()
			}
		}
		for range regions {
			p.start("2")
			weather()
			p.pause()
			p.stop(p.oldest("1"))
			weather()
		}
		if most := int(p.desc.Shards) + 2*killed; p.total > most {
			t.Errorf("%d moves of %d shards, %d were in regions that were killed; at most %d are needed", p.total, p.desc.Shards, killed, most)
		}
		before, share := p.total, (int(p.desc.Shards)+regions-1)/regions
		p.done()
		if n := p.total - before; n > kills*share {
			t.Errorf("%d moves for balance after %d kills, at most %d are needed", n, kills, kills*share)
		}
	}
}

// TestTarget: which version is the target, after regions have come and gone.
func TestTarget(t *testing.T) {
	for _, c := range []struct{ name, events, want string }{
		{"the first version", "a:1", "1"},
		{"a new version", "a:1 b:2", "2"},
		{"versions have no order", "a:2 b:1", "1"},
		{"no version", "a:1 b:", "1"},
		{"a region of none comes first", "a: b:1", "1"},
		{"an old region that restarts", "a:1 b:2 -a c:1", "2"},
		{"and in the next term", "a:1 b:2 -a elect b:2 c:1", "2"},
		{"the last old region restarts when the new one is down", "a:1 b:2 -b -a c:1", "2"},
		{"an old region starts while others run, and the target is down", "a:1 c:1 b:2 -b d:1", "2"},
		{"a canary that comes back", "a:1 c:1 b:2 -b d:1 b:2", "2"},
		{"an earlier version in place of one that was gone back to", "a:1 b:2 c:3 -a -c wait d:1", "1"},
		{"the same, in a term that may not know all regions yet", "a:1 b:2 c:3 -a -c elect b:2 d:1", "3"},
		{"an operator goes back", "a:1 b:2 target:1", "1"},
		{"and forward again", "a:1 b:2 target:1 -b c:2 target:2", "2"},
		{"what was gone back from stays known", "a:1 b:2 target:1 -b elect a:1 wait c:2", "1"},
		{"a term forgets nothing", "a:1 b:2 -a elect", "2"},
		{"all have gone back, without a request", "a:1 c:1 b:2 -b freeze", "1"},
		{"not before that time", "a:1 c:1 b:2 -b half", "2"},
		{"the last canary crashes, and comes back in time", "a:1 c:1 b:2 -b half b:2 -b half", "2"},
		{"what it was is known permanently", "a:1 c:1 b:2 -b freeze b:2", "1"},
		{"regions of several versions are left", "a:1 b:2 c:3 -c freeze", "3"},
		{"until they have one in common", "a:1 b:2 c:3 -c freeze -b", "3"},
		{"then at once", "a:1 b:2 c:3 -c freeze -b wait", "1"},
		{"one says no version", "a:1 d: b:2 -b freeze", "2"},
		{"the first one says none", "a: d:1 b:2 -b freeze", "2"},
		{"no region at all", "a:1 b:2 -b -a freeze", "2"},
		{"a new term counts anew", "a:1 b:2 -b half elect a:1 half", "2"},
		{"to its own end", "a:1 b:2 -b half elect a:1 freeze", "1"},
		{"what an operator asks for may take as long", "a:3 -a a:1 b:2 -b half target:3 half", "3"},
		{"and no longer", "a:3 -a a:1 b:2 -b half target:3 freeze", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := targetAfter(t, strings.Fields(c.events))
			if got := w.m.View().Rollout.Target; got != c.want {
				t.Errorf("the target is %q, want %q", got, c.want)
			}
			w.checkReplay()
		})
	}
}

// targetAfter plays events: a:1 is region a with version 1, -a is its end.
func targetAfter(t *testing.T, events []string) *world {
	w := newWorld(t, DefaultConfig())
	w.run(Elected{Term: 1})
	last := sharding.NodeUID(0)
	up := map[string]sharding.NodeID{}
	for _, e := range events {
		name, version, joins := strings.Cut(e, ":")
		switch {
		case name == "target":
			w.run(SetTarget{Version: version})
		case joins:
			n, known := up[name]
			if !known {
				last++
				n = sharding.NodeID{Addr: name, UID: last}
				up[name] = n
			}
			w.run(Member{Node: n, Reachable: true})
			w.run(calls(n, control.Register{Version: version, Types: []sharding.TypeDesc{{Type: "T", Shards: 4}}}))
		case e == "elect":
			w.run(Elected{Term: w.m.term.number + 1, Facts: w.facts})
		case e == "wait":
			w.wait("3s")
		case e == "half":
			w.wait("16m")
		case e == "freeze":
			w.wait("31m")
		default:
			w.run(MemberGone{Node: up[e[1:]]})
			delete(up, e[1:])
		}
	}
	return w
}

// TestTargetIsGivenUp: when all regions have gone back and no operator has said so, shards
// move once in the next surge, commands that no region has are dropped, and the view says
// before when that will be.
func TestTargetIsGivenUp(t *testing.T) {
	p := newPlatform(t, 3, 60, 1)
	p.start("2")
	p.stop(p.oldest("2"))
	p.rest(p.cfg.RolloutFreeze - 10*time.Second)
	r := p.m.View().Rollout
	if r.Target != "2" || r.Next != "1" || r.NextIn <= 0 || r.NextIn > 11*time.Second {
		t.Errorf("an operator sees %+v", r)
	}
	out := p.m.Step(p.now.Add(r.NextIn), Tick{}, nil)
	want := TargetSet{Version: "1", Before: "2", Why: "for 30m0s no region has run 2, and all run 1"}
	if at := slices.Index(out, Output(want)); at < 1 || persisted(out[:at]) != 1 {
		t.Fatalf("want a fact and %+v: %+v", want, out)
	}
	if r := p.m.View().Rollout; r.Target != "1" || r.Next != "" {
		t.Errorf("an operator sees %+v", r)
	}
}

// TestVersionsAreForgotten: only so many are remembered, the newest.
func TestVersionsAreForgotten(t *testing.T) {
	var events []string
	for i := range 100 {
		events = append(events, fmt.Sprintf("a:%d", i), "-a")
	}
	r := targetAfter(t, events).m.View().Rollout
	if n := DefaultConfig().MaxVersions; r.Target != "99" || len(r.Seen) != n || r.Seen[0] != fmt.Sprint(99-n) || r.Seen[n-1] != "98" {
		t.Errorf("the target is %s, seen before are %v", r.Target, r.Seen)
	}
}

// TestFreezeEnds: a rollout that stands still does not keep shards from being balanced,
// and a canary then has its share, with no version preferred.
func TestFreezeEnds(t *testing.T) {
	p := newPlatform(t, 3, 60, 1)
	p.start("2")
	p.rest(p.cfg.RolloutFreeze - time.Second)
	if p.total > 0 || p.m.View().Rollout.FrozenFor != time.Second {
		t.Errorf("%d moves, frozen for %v", p.total, p.m.View().Rollout.FrozenFor)
	}
	p.rest(10 * time.Second)
	if low, high := p.spread(); p.total != 15 || low != 15 || high != 15 || p.m.frozenByRollout() {
		t.Errorf("%d moves to %d to %d shards per region, frozen %t", p.total, low, high, p.m.frozenByRollout())
	}
}

// TestRoom: the first region of the target takes no more than its share and a half of
// the shards of lost regions.
func TestRoom(t *testing.T) {
	p := newPlatform(t, 6, 60, 1)
	p.start("2")
	first := p.up[6]
	for range 3 {
		p.gone(p.oldest("1"))
	}
	p.rest(time.Second)
	low, high := p.spread()
	if n := p.m.table.shardsOf(first); n != 23 || high != 23 || low != 12 { // the shares are 10, 12 and 15
		t.Errorf("the region of the target has %d shards, the others %d to %d", n, low, high)
	}
}

// commandsOfCanary returns the commands that the table has after the only region of the
// target was killed, and after it was started again as the last step says.
func commandsOfCanary(t *testing.T, back string) (away, then []sharding.CommandDesc) {
	w := newWorld(t, DefaultConfig())
	w.run(Elected{Term: 1})
	start := func(name, version string, commands ...string) sharding.NodeID {
		n := node(t, name)
		d := sharding.TypeDesc{Type: "T", Shards: 4}
		for _, c := range commands {
			d.Commands = append(d.Commands, sharding.CommandDesc{Name: c})
		}
		w.run(Member{Node: n, Reachable: true})
		w.run(calls(n, control.Register{Version: version, Types: []sharding.TypeDesc{d}}))
		return n
	}
	start("r1", "1", "Add")
	canary := start("r2", "2", "Add", "Append")
	w.wait("3s")
	w.run(MemberGone{Node: canary})
	w.wait("3s")
	away = w.m.View().Types[0].Commands
	if back == "2" {
		start("r3", "2", "Add", "Put")
	} else {
		w.run(SetTarget{Version: back})
	}
	w.wait("3s")
	return away, w.m.View().Types[0].Commands
}

// TestCommandsOfTheTargetStay: while none of its regions is here, and until it is not the
// target any more.
func TestCommandsOfTheTargetStay(t *testing.T) {
	for back, want := range map[string][]sharding.CommandDesc{"2": {{Name: "Add"}, {Name: "Put"}}, "1": {{Name: "Add"}}} {
		away, then := commandsOfCanary(t, back)
		if !slices.Equal(away, []sharding.CommandDesc{{Name: "Add"}, {Name: "Append"}}) || !slices.Equal(then, want) {
			t.Errorf("while the canary is away there are %v, then, with %s, %v", away, back, then)
		}
	}
}

// TestDue: what is about to come to a region in a rollout is counted, and nothing else.
func TestDue(t *testing.T) {
	old, new1, other := node(t, "r1"), node(t, "r2"), node(t, "r3")
	types := []sharding.TypeDesc{{Type: "T", Shards: 3}, {Type: "V", Shards: 1, Volatile: true}}
	w := newWorld(t, DefaultConfig())
	due := func(n sharding.NodeID) int {
		t.Helper()
		for _, o := range w.step(Received{From: n, Call: 5, Msg: control.CountDue{}}) {
			switch m := sent(o).(type) {
			case control.DueAck:
				if m.Term != w.m.term.number {
					t.Errorf("the count is of term %d, want %d", m.Term, w.m.term.number)
				}
				return m.Due
			case control.NotActive:
				return -1
			}
		}
		return -2
	}
	want := func(when string, n int) {
		t.Helper()
		if got := due(new1); got != n {
			t.Errorf("%s: %d are due, want %d", when, got, n)
		}
	}
	up := func(n sharding.NodeID, version string) {
		w.run(Member{Node: n, Reachable: true})
		w.run(calls(n, control.Register{Version: version, Types: types}))
	}
	w.run(Elected{Term: 1})
	want("a stranger", -1)
	up(old, "1")
	for i := range uint32(3) {
		s := sharding.ShardID{Type: "T", Index: i}
		w.run(Received{Msg: control.GetShardHome{Shard: s}})
		w.run(from(old, control.ShardStarted{Shard: s, Epoch: sharding.MakeEpoch(1, 1+i)}))
	}
	w.run(Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "V"}}})
	w.run(Member{Node: new1, Reachable: true})
	want("not registered", -1)
	up(new1, "2")
	want("no region leaves", 0)
	w.run(DrainRegion{Region: old.String()})
	want("an operator drains", 0)
	w.run(DrainRegion{Region: old.String(), Resume: true})
	w.run(calls(old, control.GracefulShutdown{}))
	want("the old region leaves", 4)
	if n := due(old); n != 0 {
		t.Errorf("%d are due at the region that leaves", n)
	}
	first := sharding.ShardID{Type: "T"}
	w.run(from(old, control.ShardStopped{Shard: first, Epoch: sharding.MakeEpoch(1, 1)}))
	want("one is starting here", 4)
	w.run(from(new1, control.ShardStarted{Shard: first, Epoch: w.reserved[first].Epoch}))
	want("it has started", 3)
	up(other, "2")
	second := sharding.ShardID{Type: "T", Index: 1}
	w.run(from(old, control.ShardStopped{Shard: second, Epoch: sharding.MakeEpoch(1, 2)}))
	refused := w.reserved[second].Epoch
	w.run(from(new1, control.HostRefused{Shard: second, Epoch: refused, Above: refused}))
	if w.stored[second].Owner != other {
		t.Fatalf("it goes to %v", w.stored[second].Owner)
	}
	want("one is starting elsewhere", 2)
	w.run(MemberGone{Node: old})
	want("the rest starts elsewhere, and the rollout is over", 0)
	third := sharding.ShardID{Type: "T", Index: 2}
	w.run(from(new1, control.ShardStarted{Shard: third, Epoch: w.reserved[third].Epoch}))
	w.run(Elected{Term: 2, Facts: w.facts})
	want("the next term does not know the regions yet", -1)
	up(new1, "2")
	up(other, "2")
	want("now it does", 0)
}
