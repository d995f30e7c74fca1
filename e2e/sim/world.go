package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

// World is one run, on one goroutine: a whole cluster, its clients and its weather. One seed determines
// the run.
type World struct {
	scheduler
	seed             uint64
	climate          climate
	weather          weather
	calm             bool
	byLoad           bool // shards move because of their loads
	losesTurnProbes  bool // every probe between turns is lost (turn.SendProbe)
	journalFaultOnly bool // there is one fault only: a region does not reach the journal for a while
	diceFor          map[string]dice

	net          network
	processes    []*process // coordinators, regions and gateways; the index of each is its host
	journal      *store
	lease        *leaseStore
	facts        []coordinator.Fact // the fact stream, by number
	explanations explanations
	heals        []func() // each ends a fault that may still last when the storm is over

	entities   []sharding.Entity
	clients    []*client
	ops        []*op
	byID       map[uint64]*op
	answeredAt map[commandName][]int64 // the times at which regions have executed a command
	storeSteps []storeStep
	letters    map[sharding.CommandID]*op // commands of operators that deal with dead letters, by their keys
	// asks has all asks: the commands that turns of Forward commands (cmdForward) are to send to
	// other entities. The key is the number of the ask. See chains.go.
	asks    map[uint64]*ask
	asksBy  map[uint64][]*ask           // all asks, by the number of the Forward whose turn sends them
	askKeys map[sharding.CommandID]*ask // the asks that were sent, by their idempotency keys
	// passivatedAt has the time at which each entity was last passivated.
	passivatedAt map[sharding.Entity]int64
	batches      int
	// refusedUnread has, for each command id, the number of refusals that regions have sent, minus
	// those that a router has read in time: before it sent the command again, to another owner or on
	// another link.
	refusedUnread map[sharding.CommandID]int
	terms         map[sharding.Term]bool // all terms that were acquired
	highest       sharding.Term          // the highest of terms
	// recordLost is true if the lease store has lost its record. From then on two processes may hold
	// the lease at a time, and a term may be acquired twice.
	recordLost bool
	kept       keptChecks
	// In the poisonous climate: the entities that end regions; the boxes of the processes that have ended, by host;
	// and how processes have really ended.
	poisons     []*poison
	boxes       map[int]*box
	processEnds map[sharding.NodeUID]*processEnd
	calmSince   int64

	broken  *violation     // the first promise that was broken, if any
	marks   map[string]int // how often each kind of event happened, see mark
	steps   int            // steps of machines so far
	traceTo func(string)
}

// checkEvery is the number of steps after which the invariants of a machine are checked.
const checkEvery = 16

// settleTime bounds the time in which the cluster finishes and converges once the weather is calm. Three
// steps take long, and may follow one another: a drain with a hung turn, a handoff (twelve seconds),
// and the removal of a member that did not come back.
const settleTime = 60 * sec

func newWorld(c climate, seed uint64, traceTo func(string)) *World {
	w := &World{
		explanations: explanations{gives: map[sharding.Epoch]coordinator.Explanation{}, givenAt: map[sharding.Epoch]int64{}, terms: map[sharding.Term]*termExplanations{}},
		climate:      c, seed: seed, traceTo: traceTo,
		diceFor: map[string]dice{}, marks: map[string]int{}, byID: map[uint64]*op{}, letters: map[sharding.CommandID]*op{}, asks: map[uint64]*ask{}, asksBy: map[uint64][]*ask{}, askKeys: map[sharding.CommandID]*ask{}, answeredAt: map[commandName][]int64{}, passivatedAt: map[sharding.Entity]int64{}, refusedUnread: map[sharding.CommandID]int{},
		terms: map[sharding.Term]bool{}, kept: newKeptChecks(), boxes: map[int]*box{}, processEnds: map[sharding.NodeUID]*processEnd{},
	}
	w.hash = 14695981039346656037 // the offset basis of FNV-1a
	w.weather = drawWeather(c, seed)
	w.journalFaultOnly = w.weather.Harsh.JournalFaultOnly
	w.net.w = w
	w.drawStrategy()
	w.journal = newStore(w)
	w.lease = &leaseStore{w: w}
	w.entities = entities()
	add := func(n int, kind string, tick int64, program func(*process) program) {
		for i := range n {
			p := &process{w: w, host: len(w.processes), name: fmt.Sprintf("%s-%d", kind, i+1), program: program, tickEvery: tick}
			p.addr = fmt.Sprintf("%s:%d", kind, 7001+i)
			w.processes = append(w.processes, p)
		}
	}
	add(coordinators, roleCoordinator, 30*ms, w.coordinatorProgram)
	add(regions, roleRegion, 20*ms, w.regionProgram)
	add(gateways, "gateway", 20*ms, w.gatewayProgram)
	w.trace(nil, "WEATHER", w.weather)
	return w
}

func newGateway(w *World, p *process) *router.Machine {
	cfg := router.DefaultConfig()
	cfg.Management = p.addr + "/management"
	if w.dice("limits").chance(0.2) && !w.journalFaultOnly {
		cfg.MaxWaiting, cfg.MaxTotal, cfg.DeferredShare = 4, 16, 0.25
	}
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return router.New(cfg)
}

func regionConfig(w *World, p *process, version int) region.Config {
	list := turnTypes(version, w.weather.KeepEvents)
	if w.weather.Forms {
		addForms(list, version)
	}
	w.addRemember(list)
	for i := range list {
		list[i].NoLoad = w.weather.NoLoad && list[i].Desc.Volatile
		list[i].Passivation = w.strategy()
	}
	cfg := region.DefaultConfig(p.id(), p.name, list...)
	cfg.Turn.HeapBytes = heapBytes
	cfg.Starts = w.startConfig()
	if w.weather.Rollout {
		cfg.Version = fmt.Sprint(version)
	}
	d := w.dice("limits")
	if d.chance(0.2) && !w.journalFaultOnly && w.weather.SendPause == 0 { // low limits; if faults of the journal are the only ones, no command may be refused for a limit
		cfg.Turn.MailboxCommands, cfg.Turn.TotalCommands, cfg.Turn.TotalLoads, cfg.BufferCommands = 3, 15, 15, 3
		cfg.Turn.WaitingTurns = 6
		if w.weather.Cores == 1 {
			cfg.Turn.TotalCommands = 10
		}
	}
	if d.chance(0.5) {
		cfg.Turn.UnitRecords = 1 + d.IntN(4)
	}
	cfg.Turn.DrainTimeout, cfg.Turn.LoadTimeout, cfg.Turn.RecentIDs = nanos(3*sec), nanos(3*sec), 256
	cfg.Turn.EntityLoads = entityLoads
	w.configureLoadReports(&cfg)
	cfg.Turn.ProbeAfter, cfg.Turn.AskTimeout = nanos(50*ms), nanos(sec)
	cfg.ShardCores = w.weather.Cores
	cfg.Wakeups.Refresh, cfg.Wakeups.Ahead, cfg.Wakeups.RetryMin, cfg.Wakeups.RetryMax = nanos(sec), nanos(2*sec), nanos(100*ms), nanos(sec)
	cfg.Sends.Page, cfg.Sends.Refresh, cfg.Sends.RetryMin, cfg.Sends.RetryMax = 2, nanos(2*sec), nanos(100*ms), nanos(sec)
	cfg.Sends.AttemptTimeout, cfg.Sends.MaxAge, cfg.Sends.Deliveries, cfg.Sends.TargetDeliveries = nanos(3*sec), 30*24*time.Hour, 4, 2
	cfg.Sends.AgeLimit = cfg.Sends.MaxAge
	if w.weather.Harsh.Expires {
		cfg.Turn.KeyAge = outbox.LongestAge(nanos(smallAge))
	}
	if pause := w.weather.SendPause; pause > 0 {
		cfg.Sends.RetryMin, cfg.Sends.RetryMax, cfg.Sends.AttemptTimeout = nanos(pause), nanos(pause), nanos(sec)
	}
	if age := w.weather.Harsh.SendAge; age > 0 {
		cfg.Sends.MaxAge = nanos(age)
	}
	cfg.Wakeups.Page, cfg.Wakeups.FailingWakes, cfg.Wakeups.BlockedWakes, cfg.Wakeups.Wakes = 3, 8, 4, 44
	cfg.Purge.Interval, cfg.Purge.Page, cfg.Purge.RetryMin, cfg.Purge.RetryMax = nanos(sec), 2, nanos(200*ms), nanos(sec)
	cfg.JournalPatience, cfg.JournalTestAfter, cfg.JournalRecovery = nanos(2*sec), nanos(500*ms), nanos(3*sec)
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return cfg
}

func newCoordinator(w *World, p *process) *coordinator.Tenure {
	return coordinator.NewTenure(coordinatorConfig(w), p.id())
}

// coordinatorConfig has limits so low that runs reach them.
func coordinatorConfig(w *World) coordinator.Config {
	cfg := coordinator.DefaultConfig()
	cfg.MaxHandoffs, cfg.MaxHandoffsPerRegion = w.weather.Handoffs, w.weather.HandoffsPerRegion
	cfg.BrakeWindow, cfg.BrakeSamples, cfg.BrakePause = nanos(sec), brakeSamples, nanos(brakePause)
	cfg.RolloutFreeze = nanos(4 * sec)
	cfg.HandoffTimeout = nanos(3 * sec)
	cfg.FactsPerRecord, cfg.CompactAfter = 8, 40
	if p := w.weather.Poison; p.Entities > 0 {
		cfg.QuarantineWindow, cfg.QuarantineCrashes = p.Window, p.After
	}
	w.configureMovesByLoad(&cfg)
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return cfg
}

// dice is the stream of randomness of one purpose.
func (w *World) dice(purpose string) dice {
	d, ok := w.diceFor[purpose]
	if !ok {
		d = newDice(w.seed, purpose)
		w.diceFor[purpose] = d
	}
	return d
}

// mark counts an event under a name, so that a test can require the event to have happened in
// some seed.
func (w *World) mark(name string) { w.marks[name]++ }

// machine is the interface that all cores implement.
type machine interface{ Check() error }

// stepped is called after every step of a machine. It adds the step to the hash of the run, and
// checks the machine's invariants. If the run is traced, they are checked after every step, otherwise
// after every checkEvery-th step.
func (w *World) stepped(p *process, m machine, outs int) {
	w.mix(uint64(p.host)<<32 | uint64(outs))
	if w.steps++; w.steps%checkEvery == 0 || w.traceTo != nil {
		if err := m.Check(); err != nil {
			w.violate("invariants", "%s: %v", p.name, err)
		}
	}
}

// process returns the process at an address.
func (w *World) process(addr string) *process {
	for _, p := range w.processes {
		if p.addr == addr {
			return p
		}
	}
	return nil
}

func (w *World) gatewayProcess(i int) *process { return w.processes[firstGateway+i] }

func (w *World) coordinatorAddrs() []string {
	return []string{w.processes[0].addr, w.processes[1].addr}
}

// discovered returns the addresses that discovery lists for coordinators. One of them is the address
// of a region. Real discovery may list an address without a role, and then gateways and regions must
// ask at that address too.
func (w *World) discovered() []string {
	return append(w.coordinatorAddrs(), w.processes[firstRegion].addr)
}

func (w *World) regionAddrs() []string {
	var list []string
	for _, p := range w.processes[firstRegion:firstGateway] {
		list = append(list, p.addr)
	}
	return list
}

// seeds are the addresses through which nodes join the cluster: the coordinators and the
// first region.
func (w *World) seeds() []string {
	return append(w.coordinatorAddrs(), w.processes[firstRegion].addr)
}

func (w *World) volatile(e sharding.Entity) bool {
	for i := range types {
		if types[i].Type == e.Type {
			return types[i].Volatile
		}
	}
	return false
}

// crashed tells other members that a process is dead, as they would learn from their connections
// to it: a connection is reset, and the next dial is refused.
func (w *World) crashed(dead *process) {
	w.mark("crash")
	if !w.weather.Evidence {
		return
	}
	id := dead.id()
	for _, p := range w.processes[:firstGateway] {
		if p == dead || w.net.blocked(dead.host, p.host) || w.net.blocked(p.host, dead.host) {
			continue
		}
		w.after(w.dice("evidence").between(ms, 200*ms), func() {
			if dead.up || !p.up {
				return // the dial succeeds: heartbeats will show which incarnation is running there
			}
			p.post(func() {
				if b, ok := p.body.(interface{ membership() *member }); ok {
					b.membership().step(gossip.Evidence{Node: id})
				}
			})
		})
	}
}

// Run runs the world. The weather is calm until the cluster has formed. Then there is the storm. After
// it the weather is calm again, and everything must finish.
func (w *World) Run() {
	d := w.dice("start")
	const secondCoordinator, lastRegion = 1, firstGateway - 1
	for i, p := range w.processes {
		startAt := d.between(0, 300*ms)
		switch {
		case i == secondCoordinator && w.weather.LateSecond:
			startAt = w.weather.Warm + d.between(0, w.weather.Storm)
		case i == lastRegion && !w.weather.Join:
			continue
		case i == lastRegion:
			startAt = w.weather.Warm + d.between(0, w.weather.Storm)
		}
		w.after(startAt, p.start)
	}
	for i := range 6 + d.IntN(7) {
		c := &client{w: w, id: i, gateway: i % gateways}
		if d := w.dice("skew"); d.chance(w.weather.Harsh.Skewed) {
			c.wall = d.wallError()
		}
		w.clients = append(w.clients, c)
		w.after(w.weather.Warm*3/4+d.between(0, sec), c.think)
	}
	stop := func() bool { return w.broken != nil }
	storm := w.weather
	w.weather = storm.calm()
	w.run(storm.Warm, stop)
	w.weather = storm
	w.spreadPoison()
	w.nemesis()
	w.run(storm.Warm+storm.Storm, stop)
	if w.broken == nil {
		w.settle(stop)
	}
	if w.broken == nil {
		w.checkHistory(w.journal.commits())
	}
	if w.broken == nil {
		if err := w.journal.ledger.Check(); err != nil {
			w.violate("invariants", "journal: %v", err)
		}
	}
}

// settle runs the time after the storm. The weather is calm, and every fault that can be repaired is
// repaired. Everything must finish.
func (w *World) settle(stop func() bool) {
	w.trace(nil, "CALM", nil)
	w.calm, w.calmSince = true, w.now
	w.weather = w.weather.calm()
	w.journal.down, w.journal.fullUntil = false, 0
	for _, heal := range w.heals {
		heal()
	}
	for _, answer := range w.journal.unhang {
		answer()
	}
	for i, p := range w.processes {
		p.resume()
		w.endOldVersion(p)
		if i != firstGateway-1 || w.weather.Join {
			p.start()
		}
	}
	if len(w.poisons) > 0 {
		w.endPoison(stop)
	}
	why := w.converge(stop)
	if stop() {
		return
	}
	if why != "" {
		w.violate("all finish and converge", "%v after the storm: %s", nanos(settleTime), why)
		return
	}
	w.readBack(stop)
	w.checkLimits()
	if w.climate == harsh && !w.journalFaultOnly {
		w.closeCircle(stop)
		w.drainThrough(stop)
	}
	if !stop() {
		w.moveVolatile(stop)
		w.steerCalm(stop)
		w.handOffAlone(stop)
		w.handOffUntold(stop)
	}
	w.checkExplanations()
}

// converge waits until everything has finished and all agree. It returns what has not, or "".
func (w *World) converge(stop func() bool) string {
	limit := w.now + settleTime
	why := "nothing was checked"
	for why != "" && w.now < limit && !stop() {
		w.run(w.now+200*ms, stop)
		if why = w.unfinished(); why == "" {
			why = w.divided()
		}
		if why == "" {
			why = w.unfired()
		}
		if why == "" {
			why = w.unsent()
		}
		if why == "" {
			why = w.unstarted()
		}
	}
	return why
}

// unfinished names a command or client that has not finished, or returns "".
func (w *World) unfinished() string {
	for _, o := range w.ops {
		if o.pending > 0 {
			return o.String() + " has no outcome"
		}
	}
	for i, c := range w.clients {
		if !c.stopped {
			return fmt.Sprintf("client %d has not stopped", i)
		}
	}
	for _, p := range w.processes {
		if n, ok := p.body.(*regionNode); ok && len(n.callers) > 0 {
			return fmt.Sprintf("%s has not answered command %d", p.name, sortedKeys(n.callers)[0])
		}
		if n, ok := p.body.(*regionNode); ok && n.router != nil && n.router.here.unread > 0 {
			return fmt.Sprintf("%s has not told its own router of %d answers", p.name, n.router.here.unread)
		}
	}
	return ""
}

// divided describes a difference between the views of the processes, or returns "". It first
// resumes the regions that are still drained.
func (w *World) divided() string {
	active := w.activeCoordinators()
	if len(active) != 1 {
		return fmt.Sprintf("%d coordinators are active", len(active))
	}
	w.resumeRegions()
	w.unsteer()
	for _, r := range active[0].core.View().Regions {
		if r.Journal != sharding.JournalAnswers {
			return fmt.Sprintf("%v is taken for cut off from the journal: %v", r.Node, r.Journal)
		}
	}
	var want []sharding.NodeID
	for _, p := range w.processes[:firstGateway] {
		switch {
		case p.up:
			want = append(want, p.id())
		case p.incarnation > 0:
			return p.name + " is not up"
		}
	}
	slices.SortFunc(want, sharding.NodeID.Compare)
	for _, p := range w.processes[:firstGateway] {
		if !p.up {
			continue
		}
		v := p.body.(interface{ membership() *member }).membership().core.View()
		var have []sharding.NodeID
		for _, m := range v.Members {
			if m.Status == gossip.Up && m.Reachable {
				have = append(have, m.Node)
			}
		}
		if !slices.Equal(have, want) || len(v.Members) != len(want) || !v.Converged {
			return fmt.Sprintf("%s sees members %v", p.name, v.Members)
		}
	}
	return w.tables(want)
}

// tables describes a difference between the copies of the route table, or a shard that no live
// region serves. It returns "" if there is neither.
func (w *World) tables(alive []sharding.NodeID) string {
	var first *routetable.Table
	for _, p := range w.processes[firstRegion:] {
		var t *routetable.Table
		switch b := p.body.(type) {
		case *regionNode:
			t = b.control.Table()
			if r := b.router; r != nil && string(r.core.Table().AppendState(nil)) != string(t.AppendState(nil)) {
				return fmt.Sprintf("the router of %s has another table: %v, not %v", p.name, r.core.Table().Rows(), t.Rows())
			}
		case *gatewayNode:
			t = b.core.Table()
		default:
			continue
		}
		if first == nil {
			first = t
			continue
		}
		if string(first.AppendState(nil)) != string(t.AppendState(nil)) {
			return fmt.Sprintf("%s has another table: %v, not %v", p.name, t.Rows(), first.Rows())
		}
	}
	if why := w.unknownCommand(first); why != "" {
		return why
	}
	for _, row := range first.Rows() {
		if row.Phase != sharding.Serving || !slices.Contains(alive, row.Owner) {
			return fmt.Sprintf("%v is not served: %+v", row.Shard, row)
		}
		if !w.volatile(sharding.Entity{Type: row.Shard.Type}) && w.journal.ledger.Fence(row.Shard) != (sharding.Fence{Epoch: row.Epoch, Owner: row.Owner.UID}) {
			return fmt.Sprintf("%v is served without a claim: %+v, stored %+v", row.Shard, row, w.journal.ledger.Fence(row.Shard))
		}
	}
	return ""
}

// unknownCommand describes a command that a region has and the table lacks, or returns "".
func (w *World) unknownCommand(table *routetable.Table) string {
	for _, p := range w.processes[firstRegion:firstGateway] {
		n, ok := p.body.(*regionNode)
		if !ok {
			continue
		}
		for _, t := range n.cfg.Turn.Types {
			known, found := table.Type(t.Desc.Type)
			for _, c := range t.Desc.Commands {
				if found {
					_, found = known.Command(c.Name)
				}
				if !found {
					return fmt.Sprintf("%s has %s.%s, which the table lacks", p.name, t.Desc.Type, c.Name)
				}
			}
		}
	}
	return ""
}

// readBack reads every entity through every gateway. Every read must succeed or, if the entity is
// damaged, say that data is lost. Through every gateway, readBack also writes to every entity whose
// writes still meet a damaged page. Every one of these writes must say that data is lost.
func (w *World) readBack(stop func() bool) {
	prober := w.idleClient(len(w.clients))
	first := len(w.ops)
	for gw := range gateways {
		for i := range 2 * len(w.entities) {
			e, cmd := w.entities[i%len(w.entities)], cmdGet
			if i >= len(w.entities) {
				if cmd = cmdAdd; !w.journal.writeDamaged(e) {
					continue
				}
			}
			const keyed, noBatch = true, 0
			o := prober.draw(e, keyed, noBatch)
			o.cmd, o.tell = cmd, false
			o.pending++                                     // the command is not sent yet, and w.answered must wait for it
			w.after(int64(len(w.ops)-first)*60*ms, func() { // one after the other, so that the smallest buffers have room
				o.pending--
				o.called = w.now
				prober.send(o, gw, nanos(30*sec))
			})
		}
	}
	// When a link that was cut off for long works again, all commands that waited on it arrive in
	// one burst, although their clients have given them up. The burst fills small buffers. A
	// command of this round that is refused because a buffer is full is sent again.
	crowded := func(o *op) bool {
		r := &o.tries[len(o.tries)-1].reply
		return r.Outcome == sharding.NotApplied && r.Code == sharding.ResourceExhausted
	}
	for end := w.now + 35*sec; ; {
		w.run(end, func() bool { return stop() || w.answered(first) })
		if stop() || w.now >= end {
			break
		}
		again := false
		for _, o := range w.ops[first:] {
			if crowded(o) {
				again = true
				o.pending++
				w.after(500*ms, func() {
					o.pending--
					prober.send(o, o.tries[0].gateway, nanos(30*sec))
				})
			}
		}
		if !again {
			break
		}
		w.mark("sent again in the last round")
	}
	for _, o := range w.ops[first:] {
		if o.pending > 0 || len(o.tries) == 0 {
			w.violate("all finish and converge", "%v of the last round is not answered", o)
		} else if r := o.tries[len(o.tries)-1].reply; w.answersDamage(o, &r) {
			w.mark("damage is answered after the storm")
		} else if r.Outcome != sharding.Executed || o.cmd == cmdAdd { // a write must not succeed here: its entity is damaged
			w.violate("all finish and converge", "%v of the last round: %v %s", o, r.Outcome, r.Message)
		}
	}
}

func (w *World) answered(from int) bool {
	for _, o := range w.ops[from:] {
		if o.pending > 0 {
			return false
		}
	}
	return true
}

func sortedKeys[K interface{ ~uint64 | ~int }, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

func sortedNodes[V any](m map[sharding.NodeID]V) []sharding.NodeID {
	return slices.SortedFunc(maps.Keys(m), sharding.NodeID.Compare)
}
