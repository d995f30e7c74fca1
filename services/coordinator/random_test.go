package coordinator

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/latency"
	"github.com/roost-cluster/roost/libs/sharding"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run the random test with this seed alone")
	seedCount = flag.Int("seeds", 60, "how many random clusters to run")
)

// TestRandomClusters runs one coordinator after the other with regions that do
// what regions do, through loss, repetition, delay, crashes, false alarms and a rollout.
// Facts become durable late, and a crash loses those that are not. After every
// step the machine is checked; claims never meet another owner's epoch. Then it
// gets calm: all shards must be served, evenly, and the watcher knows.
func TestRandomClusters(t *testing.T) {
	seeds := []uint64{*seedFlag}
	if *seedFlag == 0 {
		seeds = nil
		for range *seedCount {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("again: go test ./services/coordinator -run TestRandomClusters -seed %d", seed)
				}
			}()
			newCluster(t, seed).run()
		})
	}
}

// peer is a region: what it holds and what it refuses.
type peer struct {
	node    sharding.NodeID
	version uint16 // of its program: 1 does not read what 2 may store
	types   []sharding.TypeDesc
	member  bool
	alive   bool
	leaving bool
	// suspected is the end of a false alarm.
	suspected time.Time
	held      map[sharding.ShardID]sharding.Epoch
	minEpochs map[sharding.ShardID]sharding.Epoch
}

// letter is an input on its way to the coordinator, or an output from it.
type letter struct {
	at  time.Time
	in  Input
	out Output
}

type cluster struct {
	*world
	rng   *rand.Rand
	loss  float64
	calm  bool
	peers []*peer
	mail  []letter
	// held back outputs wait for their facts to be durable.
	pending []Output
	plans   []letter // that are being made
	durable []Fact
	term    sharding.Term
	fence   map[sharding.ShardID]sharding.Row
	asked   map[sharding.ShardID]bool
	reports uint64 // number of the newest report of any load
	uid     sharding.NodeUID
	// the watcher's table
	watch   control.Call
	version sharding.Version
	table   map[sharding.ShardID]sharding.Row
	polled  time.Time
}

func newCluster(t *testing.T, seed uint64) *cluster {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := DefaultConfig()
	cfg.MaxHandoffs, cfg.MaxHandoffsPerRegion, cfg.MaxMovesPerMinute = 1+rng.IntN(8), rng.IntN(3), 120*rng.IntN(2)
	cfg.BrakeWindow, cfg.BrakePause, cfg.BrakeSamples, cfg.MaxGateways = 500*time.Millisecond, time.Second, 10, 1
	cfg.MinRegions = 1 + rng.IntN(2)
	cfg.ChangeLog = 1 + rng.IntN(40)
	cfg.MaxWatches = 1 + rng.IntN(2)
	c := &cluster{
		world: newWorld(t, cfg), rng: rng, loss: 0.3 * rng.Float64(),
		fence: map[sharding.ShardID]sharding.Row{}, asked: map[sharding.ShardID]bool{},
		table: map[sharding.ShardID]sharding.Row{},
	}
	for range 2 + rng.IntN(3) {
		c.addPeer("")
	}
	return c
}

func (c *cluster) run() {
	c.elect()
	for range 600 {
		c.round()
	}
	c.calm, c.loss = true, 0
	c.input(FreezeMoves{Thaw: true})
	if c.rng.IntN(2) == 0 { // otherwise cordons and pins must be kept, and the spread is limited by them
		c.unsteer()
	}
	for _, p := range c.peers {
		p.suspected = time.Time{}
	}
	for _, p := range slices.Clone(c.peers) { // the rollout ends, so that every region may have every shard
		if p.alive && p.version == 1 {
			p.alive = false
			c.addPeer(p.node.Addr)
		}
	}
	if !slices.ContainsFunc(c.peers, func(p *peer) bool { return p.alive && !p.leaving }) {
		c.addPeer("")
	}
	for c.living() < c.cfg.MinRegions {
		c.addPeer("")
	}
	for range 30 * 20 {
		c.round()
	}
	c.checkReplay()
	c.checkCalm()
}

func (c *cluster) living() int {
	n := 0
	for _, p := range c.peers {
		n += toInt(p.alive && !p.leaving)
	}
	return n
}

// addPeer starts a region, at its own address or at the address of a dead one.
func (c *cluster) addPeer(addr string) {
	c.uid++
	if addr == "" {
		addr = fmt.Sprintf("r%d:1", c.uid)
	}
	version := uint16(2)
	if c.uid%3 == 0 && !c.calm {
		version = 1
	}
	c.peers = append(c.peers, &peer{
		node: sharding.NodeID{Addr: addr, UID: c.uid}, alive: true,
		version: version,
		types:   []sharding.TypeDesc{program(version, 16), {Type: "V", Shards: 6, Volatile: true}},
		held:    map[sharding.ShardID]sharding.Epoch{}, minEpochs: map[sharding.ShardID]sharding.Epoch{},
	})
}

// elect starts a new term with what is durable, in another coordinator process or in the same
// one, which may still be making a plan.
func (c *cluster) elect() {
	if c.rng.IntN(2) == 0 {
		c.step(Deposed{})
	} else {
		c.m, c.plans = New(c.cfg), nil
	}
	c.pending = nil
	c.term += sharding.Term(1 + c.rng.IntN(3))
	c.facts = slices.Clone(c.durable)
	c.stored, c.reserved = map[sharding.ShardID]sharding.Row{}, map[sharding.ShardID]sharding.Row{}
	for _, f := range c.facts {
		if f, ok := f.(RowFact); ok {
			c.store(f)
		}
	}
	for _, p := range c.peers {
		if p.member {
			c.input(Member{Node: p.node, Name: p.node.Addr, Reachable: p.alive && c.now.After(p.suspected)})
		}
	}
	c.input(Elected{Term: c.term, Facts: c.facts})
}

func (c *cluster) input(in Input) {
	if c.rng.IntN(30) > 0 {
		c.pending = append(c.pending, c.step(in)...)
		return
	}
	before := c.m.AppendState(c.now, nil)
	twin := c.m.Clone()
	now := c.now
	out := c.step(in)
	if !bytes.Equal(before, twin.AppendState(c.now, nil)) {
		c.t.Fatal("a clone is not independent")
	}
	again := twin.Step(now, in, nil)
	if err := twin.Check(); err != nil {
		c.t.Fatalf("a clone fails: %v", err)
	}
	if fmt.Sprint(again) != fmt.Sprint(out) || !bytes.Equal(twin.AppendState(c.now, nil), c.m.AppendState(c.now, nil)) {
		c.t.Fatalf("a clone does something else after %T%+v", in, in)
	}
	c.pending = append(c.pending, out...)
}

// flush makes facts durable and lets the outputs go that depend on them.
func (c *cluster) flush() {
	out := c.pending
	c.pending = nil
	for _, o := range out {
		switch o := o.(type) {
		case Persist:
			c.durable = append(c.durable, o.Fact)
		case Plan:
			at := c.now.Add(time.Duration(c.rng.IntN(1+3000*toInt(!c.calm))) * time.Millisecond)
			c.plans = append(c.plans, letter{at: at, in: o.Compute()})
		default:
			c.post(letter{out: o})
		}
	}
	c.input(Stored{Facts: persisted(out)})
	if persisted(c.pending) == 0 && c.rng.IntN(100) == 0 {
		c.durable = c.m.Snapshot()
	}
}

func (c *cluster) post(l letter) {
	for n := 1; n > 0; n-- {
		if c.rng.Float64() < c.loss {
			continue
		}
		l.at = c.now.Add(time.Duration(c.rng.IntN(20)) * time.Millisecond)
		if !c.calm && c.rng.IntN(20) == 0 {
			l.at = l.at.Add(time.Duration(c.rng.IntN(3000)) * time.Millisecond)
			n += c.rng.IntN(2)
		}
		c.mail = append(c.mail, l)
	}
}

func (c *cluster) tell(in Input) { c.post(letter{in: in}) }

// card is the report of one of two gateways: its commands are slow from time to time, above all while
// shards move.
func (c *cluster) card() Received {
	took := 5 * time.Millisecond
	if slow := c.rng.IntN(10) == 0 || c.m.budget.Handoffs() > 0 && c.rng.IntN(2) == 0; slow && !c.calm {
		took = time.Second
	}
	var h latency.Histogram
	for range c.rng.IntN(30) {
		h.Add(took)
	}
	gateway := sharding.NodeID{Addr: fmt.Sprintf("g%d:1", c.rng.IntN(2)), UID: 1}
	msg := control.WatchTable{Version: c.version, Card: control.Card{Management: "m:1", Span: time.Second, Latencies: h.Sketch()}}
	return Received{From: gateway, Call: control.Call(c.rng.Uint64()), Msg: msg}
}

// report has a region report loads, of shards that it has and of others.
func (c *cluster) report(p *peer) {
	c.reports++
	load := func() sharding.Load {
		return sharding.Load{HandlerMicros: uint64(c.rng.IntN(3)) << (20 * c.rng.IntN(3)), MilliCommands: uint64(c.rng.IntN(2000)), Bytes: uint64(c.rng.IntN(1 << 20))}
	}
	r := control.ReportLoad{Number: c.reports, Full: c.rng.IntN(3) == 0, Rest: load()}
	for range c.rng.IntN(8) {
		r.Shards = append(r.Shards, control.ShardLoad{Shard: sharding.ShardID{Type: "T", Index: uint32(c.rng.IntN(17))}, Load: load()})
	}
	c.tell(calls(p.node, r))
}

// round lets 50 ms pass.
func (c *cluster) round() {
	c.now = c.now.Add(50 * time.Millisecond)
	if !c.calm {
		c.weather()
	}
	for _, p := range c.peers {
		c.beat(p)
		if c.rng.IntN(10) == 0 && p.alive {
			c.report(p)
		}
	}
	if c.rng.IntN(8) == 0 {
		c.tell(c.card())
	}
	c.peers = slices.DeleteFunc(c.peers, func(p *peer) bool { return !p.alive && !p.member })
	if c.rng.IntN(4) > 0 || c.calm {
		s := sharding.ShardID{Type: "T", Index: uint32(c.rng.IntN(16))}
		if c.rng.IntN(4) == 0 {
			s = sharding.ShardID{Type: "V", Index: uint32(c.rng.IntN(6))}
		}
		c.asked[s] = true
		in := control.GetShardHome{Shard: s}
		if row := c.table[s]; row.Phase == sharding.Serving && !c.holds(row) {
			in.Refused = row.Epoch
		}
		c.tell(Received{Msg: in})
	}
	if c.now.Sub(c.polled) > 1500*time.Millisecond {
		c.poll()
	}
	due := append(c.plans, c.mail...)
	c.plans, c.mail = nil, nil
	for _, l := range due {
		_, plan := l.in.(Planned)
		switch {
		case l.at.After(c.now) && plan:
			c.plans = append(c.plans, l)
		case l.at.After(c.now):
			c.mail = append(c.mail, l)
		case l.in != nil:
			c.input(l.in)
		default:
			c.deliver(l.out)
		}
	}
	c.input(Tick{})
	if c.calm || c.rng.IntN(3) > 0 {
		c.flush()
	}
}

func (c *cluster) holds(row sharding.Row) bool {
	i := slices.IndexFunc(c.peers, func(p *peer) bool { return p.node == row.Owner })
	return i >= 0 && c.peers[i].held[row.Shard] == row.Epoch
}

// weather holds the faults of a cluster on a bad day.
func (c *cluster) weather() {
	p := c.peers[c.rng.IntN(len(c.peers))]
	switch c.rng.IntN(60) {
	case 0:
		c.elect()
	case 1:
		if p.alive {
			p.alive = false
			if c.rng.IntN(2) == 0 {
				c.addPeer(p.node.Addr)
			}
		}
	case 2:
		if len(c.peers) < 6 {
			c.addPeer("")
		}
	case 3:
		p.suspected = c.now.Add(time.Duration(c.rng.IntN(4000)) * time.Millisecond)
	case 4:
		p.leaving = p.leaving || p.alive && c.living() > 1
	case 5:
		c.input(DrainRegion{Region: p.node.String()})
	case 6, 7:
		c.input(DrainRegion{Region: p.node.String(), Resume: true})
	case 8:
		c.tell(c.nonsense(p))
	case 9, 10:
		c.steer(p)
	}
	if len(c.peers) == 0 || c.living() == 0 {
		c.addPeer("")
	}
}

// steer has an operator want something of placement.
func (c *cluster) steer(p *peer) {
	s := sharding.ShardID{Type: []sharding.EntityType{"T", "V"}[c.rng.IntN(2)], Index: uint32(c.rng.IntN(16))}
	c.input([]Input{
		CordonRegion{Region: p.node.Addr, Reason: "x"}, CordonRegion{Region: p.node.Addr, Lift: true}, CordonRegion{Region: "far away", Ahead: true},
		FreezeMoves{For: time.Duration(c.rng.IntN(3)) * time.Second}, FreezeMoves{Thaw: true},
		PinShards{Pins: []Pin{{Shard: s, Region: p.node.Addr}}}, PinShards{Pins: []Pin{{Shard: s}}}, MoveShard{Shard: s, Region: p.node.Addr},
	}[c.rng.IntN(8)])
}

// unsteer ends all cordons and pins.
func (c *cluster) unsteer() {
	v := c.m.Steering()
	for _, f := range v.Cordons {
		c.input(CordonRegion{Region: f.Region, Lift: true})
	}
	for _, f := range v.Pins {
		c.input(PinShards{Pins: []Pin{{Shard: f.Shard}}})
	}
}

// checkSteering: pinned shards are at their region, if it takes shards.
func (c *cluster) checkSteering(v SteeringView) {
	for _, f := range v.Pins {
		for _, r := range c.m.View().Regions {
			if r.Name == f.Region && f.Name != r.Name && !f.Owner.IsZero() && !r.Draining && !r.Leaving && r.Reachable && r.Registered {
				c.t.Errorf("%v is pinned to %s, and is at %s", f.Shard, f.Region, f.Name)
			}
		}
	}
	if len(v.Moves) > 0 {
		c.t.Errorf("moves do not end: %+v", v.Moves)
	}
}

func (c *cluster) nonsense(p *peer) Input {
	s := sharding.ShardID{Type: sharding.EntityType([]string{"T", "V", "X", ""}[c.rng.IntN(4)]), Index: uint32(c.rng.IntN(20))}
	e := sharding.MakeEpoch(sharding.Term(c.rng.IntN(int(c.term)+3)), uint32(c.rng.IntN(30)))
	above := sharding.MakeEpoch(sharding.Term(c.rng.IntN(int(c.term)+3)), c.rng.Uint32())
	return []Input{
		from(p.node, control.ShardStarted{Shard: s, Epoch: above}), from(p.node, control.HostRefused{Shard: s, Epoch: e, Above: above}),
		from(sharding.NodeID{}, control.ShardStopped{Shard: s, Epoch: e}), from(p.node, control.GetShardHome{Shard: s, Refused: above}),
		calls(p.node, control.Register{Types: []sharding.TypeDesc{{Type: "X", Shards: s.Index}}}),
		Received{Call: 7, Msg: control.WatchTable{Version: sharding.Version{Term: e.Term(), N: uint64(e.Counter())}}}, Member{}, MemberGone{},
		Active{}, calls(sharding.NodeID{}, control.GracefulShutdown{}), Elected{Term: c.term}, calls(sharding.NodeID{Addr: "x", UID: 9}, control.Register{}),
		from(p.node, control.HostShard{Term: c.term, Shard: s, Epoch: e}), from(p.node, control.TableChanged{}), from(p.node, nil), CallEnded{Call: 7},
	}[c.rng.IntN(16)]
}

// beat is a region's periodic work, and the membership's view of it.
func (c *cluster) beat(p *peer) {
	switch {
	case !p.alive:
		c.input(Member{Node: p.node, Name: p.node.Addr})
		if p.member = c.rng.IntN(40) > 0; !p.member {
			c.input(MemberGone{Node: p.node})
		}
		return
	case p.leaving && p.member && c.holdsNothing(p) && c.rng.IntN(4) == 0:
		p.alive = false // it has been told that nothing is left
		return
	}
	if !p.member || c.rng.IntN(4) == 0 {
		p.member = true
		c.input(Member{Node: p.node, Name: p.node.Addr, Reachable: c.now.After(p.suspected)})
	}
	if c.rng.IntN(6) == 0 {
		c.tell(calls(p.node, control.Register{Types: p.types}))
	}
	if p.leaving && c.rng.IntN(4) == 0 {
		c.tell(calls(p.node, control.GracefulShutdown{}))
	}
}

// holdsNothing: no row that anybody could know names the region.
func (c *cluster) holdsNothing(p *peer) bool {
	return len(p.held) == 0 && c.m.table.shardsOf(p.node) == 0
}

func (c *cluster) poll() {
	c.watch++
	c.polled = c.now
	c.tell(Received{Call: c.watch, Msg: control.WatchTable{Version: c.version}})
}

func (c *cluster) deliver(o Output) {
	switch o := o.(type) {
	case Send:
		p := c.peer(o.To)
		if p == nil {
			return
		}
		switch m := o.Msg.(type) {
		case control.HostShard:
			c.host(p, m)
		case control.HandOff:
			c.letGo(p, m)
		}
	case Reply:
		m, table := o.Msg.(control.TableChanged)
		if !table || o.Call != c.watch || m.Delta.Version.Term < c.version.Term {
			return
		}
		for _, row := range m.Delta.Rows {
			if row.Newer(c.table[row.Shard]) {
				c.table[row.Shard] = row
			}
		}
		c.version = m.Delta.Version
		c.poll()
	}
}

func (c *cluster) peer(n sharding.NodeID) *peer {
	if i := slices.IndexFunc(c.peers, func(p *peer) bool { return p.node == n && p.alive }); i >= 0 {
		return c.peers[i]
	}
	return nil
}

func (c *cluster) host(p *peer, o control.HostShard) {
	refuse := func(above sharding.Epoch) {
		c.tell(from(p.node, control.HostRefused{Shard: o.Shard, Epoch: o.Epoch, Above: above}))
	}
	fence := c.fence[o.Shard]
	switch held := p.held[o.Shard]; {
	case p.leaving:
		refuse(o.Epoch)
	case o.Epoch < p.minEpochs[o.Shard]:
		refuse(p.minEpochs[o.Shard])
	case o.Epoch < held:
		refuse(held)
	case o.Epoch < fence.Epoch:
		p.minEpochs[o.Shard] = fence.Epoch
		delete(p.held, o.Shard)
		refuse(fence.Epoch)
	case o.Epoch == fence.Epoch && fence.Owner != p.node:
		c.t.Fatalf("%v: %v claims %v, which %v holds", o.Shard, p.node, o.Epoch, fence.Owner)
	case !c.calm && c.rng.IntN(20) == 0: // a claim that takes its time
	default:
		c.fence[o.Shard] = sharding.Row{Owner: p.node, Epoch: o.Epoch}
		p.held[o.Shard] = o.Epoch
		c.tell(from(p.node, control.ShardStarted{Shard: o.Shard, Epoch: o.Epoch}))
	}
}

func (c *cluster) letGo(p *peer, o control.HandOff) {
	if held, ok := p.held[o.Shard]; ok && o.Epoch >= held {
		if !c.calm && c.rng.IntN(3) == 0 {
			return // still busy
		}
		delete(p.held, o.Shard)
	}
	p.minEpochs[o.Shard] = max(p.minEpochs[o.Shard], o.Epoch+1)
	c.tell(from(p.node, control.ShardStopped{Shard: o.Shard, Epoch: o.Epoch}))
	if to := c.peer(o.Successor); to != nil && c.rng.IntN(2) == 0 {
		c.host(to, control.HostShard{Term: o.Term, Shard: o.Shard, Epoch: o.Next, Released: true})
	}
}

// checkCalm: every shard ever asked for is served by a region that is there
// and knows, evenly, and the watcher knows too.
func (c *cluster) checkCalm() {
	v := c.m.View()
	counts := map[sharding.EntityType]map[sharding.NodeID]int{}
	served := map[sharding.ShardID]bool{}
	for _, r := range v.Rows {
		p := c.peer(r.Owner)
		if r.Shard.Type == "X" && p == nil && !slices.ContainsFunc(v.Regions, func(r RegionView) bool { return slices.Contains(r.Types, "X") }) {
			continue // a message made the coordinator believe that a region hosts this type; none does, so the row keeps its last owner
		}
		if r.Phase != sharding.Serving || p == nil || p.held[r.Shard] != r.Epoch || p.leaving {
			c.t.Errorf("not served: %s", rowText(r))
			continue
		}
		served[r.Shard] = true
		if c.table[r.Shard] != r {
			c.t.Errorf("the watcher has %s for %s", rowText(c.table[r.Shard]), rowText(r))
		}
		if counts[r.Shard.Type] == nil {
			counts[r.Shard.Type] = map[sharding.NodeID]int{}
		}
		counts[r.Shard.Type][r.Owner]++
	}
	for s := range c.asked {
		if !served[s] {
			c.t.Errorf("%v was asked for and is not served", s)
		}
	}
	steered := c.m.Steering()
	c.checkSteering(steered)
	drained := len(steered.Cordons)+len(steered.Pins) > 0 || slices.ContainsFunc(v.Regions, func(r RegionView) bool { return r.Draining || r.Leaving })
	for name, byNode := range counts {
		low, high := 1<<30, 0
		for _, p := range c.peers {
			if p.alive && !p.leaving {
				low, high = min(low, byNode[p.node]), max(high, byNode[p.node])
			}
		}
		if high-low > 1 && !drained {
			c.t.Errorf("%s is spread from %d to %d", name, low, high)
		}
	}
	if c.t.Failed() {
		c.t.Logf("%+v", v.Regions)
		for _, p := range c.peers {
			c.t.Logf("%+v", *p)
		}
	}
}
