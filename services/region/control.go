package region

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/sharding"
)

// ControlCore has what exists once per region, above all the conversation with the
// coordinator. It is not safe for concurrent use.
type ControlCore struct {
	cfg     Config
	table   *routetable.Table
	watcher *routetable.Watcher
	shards  map[sharding.EntityType]uint32 // of the hosted types
	cores   []Held                         // the last report of each shard core
	budgets [resources]budget
	feeding feeding
	// directHandoffs has the shards with a successor that HandOff has named.
	directHandoffs map[sharding.ShardID]directHandoff
	// releasers are the regions that have given shards to this one in direct handoffs: the newest
	// incarnation at each address. They wait for ShardStarted or HostRefused.
	releasers map[string]sharding.NodeUID

	term       sharding.Term // the highest term that was seen
	registered sharding.Term // the newest term whose coordinator has registered this region
	announcing announcing
	readiness  readiness
	generation sharding.Generation // of the journal; 0: it was not read yet
	leaving    bool
	leaveCall  repeated // GracefulShutdown
	leftBy     time.Time
	left       bool
	released   bool // the coordinator has confirmed that no shard belongs to this region any more
	draining   bool // DrainAll was ordered
	failed     bool
	health     health
	loads      loadReports

	// quarantined are the lists that the shard cores have, by type.
	quarantined map[sharding.EntityType][]sharding.Quarantined
	crashTold   bool // a coordinator knows how the process before this one has ended

	now time.Time
	out []ControlOutput
}

// NewControlCore makes a control core. The configuration must be valid.
func NewControlCore(cfg Config) *ControlCore {
	c := &ControlCore{
		cfg:     cfg,
		table:   routetable.New(),
		watcher: routetable.NewWatcher(cfg.Watch),
		shards:  map[sharding.EntityType]uint32{},
		cores:   make([]Held, cfg.ShardCores),
		loads:   loadReports{cores: make([]*ShardLoads, cfg.ShardCores)},
		budgets: cfg.budgets(),

		directHandoffs: map[sharding.ShardID]directHandoff{},
		releasers:      map[string]sharding.NodeUID{},

		quarantined: map[sharding.EntityType][]sharding.Quarantined{},
	}
	for i := range cfg.Turn.Types {
		d := &cfg.Turn.Types[i].Desc
		c.shards[d.Type] = d.Shards
	}
	return c
}

// Table is the region's copy of the route table, which it serves read-only.
func (c *ControlCore) Table() *routetable.Table { return c.table }

// Coordinator is the address and term of the active coordinator as far as
// known, and whether it knows this region.
func (c *ControlCore) Coordinator() (addr string, term sharding.Term, registered bool) {
	addr, term = c.watcher.Active()
	return addr, term, addr != "" && c.registered >= term
}

// Held counts the shards that this region has not released, by the last reports of its
// shard cores.
func (c *ControlCore) Held() int {
	n := 0
	for _, core := range c.cores {
		n += core.Shards
	}
	return n
}

// Step applies one input at time now, and appends to out what the driver must
// do, in that order.
func (c *ControlCore) Step(now time.Time, in ControlInput, out []ControlOutput) []ControlOutput {
	c.now, c.out = now, out
	switch in := in.(type) {
	case Received:
		c.receive(in)
	case Replied:
		c.replied(in)
	case JournalTested:
		c.journalTested(in)
	case JournalHeartbeatRead:
		c.journalHeartbeatRead(in)
	case Coordinators:
		c.watcher.SetCandidates(in.Addrs, nil)
		c.poll()
	case FromCore:
		c.event(in.Core, in.Event)
	case Leave:
		c.leave()
	case FeedRouter:
		c.feedRouter()
	case NodeMeasured:
		c.loads.node = in.Load
	case Tick:
		c.tick()
	}
	c.feedActive()
	out = c.out
	c.out = nil
	return out
}

func (c *ControlCore) emit(o ControlOutput) { c.out = append(c.out, o) }

// order gives an order to the shard core of a shard, and orderAll to all shard cores.
func (c *ControlCore) order(id sharding.ShardID, o Order) {
	c.emit(ToCore{Core: c.cfg.CoreOf(id), Order: o})
}

func (c *ControlCore) orderAll(o Order) {
	for i := range c.cores {
		c.emit(ToCore{Core: i, Order: o})
	}
}

// hosts reports whether this region hosts the type of a shard, and the type has a shard with this index.
func (c *ControlCore) hosts(id sharding.ShardID) bool { return id.Index < c.shards[id.Type] }

// current reports whether a coordinator's message is not outdated: its term t is not below the highest
// known term.
func (c *ControlCore) current(t sharding.Term) bool {
	// Invariant: a process that knows a term does not follow a coordinator of a lower term.
	// Guarded by: `region.obeyed` checks each order before the order reaches a shard core. `routetable.Watcher` checks
	// each table, in all processes that watch the table.
	// Mutants: lower-term, order-check, watch-term
	if t < c.term { //mutant:false lower-term
		return false
	}
	c.term = t
	return true
}

// obeyed reports whether an order of the term t about the epoch e must be obeyed: the term is not
// outdated, and its coordinator can have assigned the epoch. If an order with an epoch of a later term
// were obeyed, the fence would refuse all epochs that the coordinator assigns, and no region could serve
// the shard.
func (c *ControlCore) obeyed(t sharding.Term, e sharding.Epoch) bool {
	return c.current(t) && e > 0 && e.Term() <= t //mutant:true order-check
}

func (c *ControlCore) hostShard(sender sharding.NodeID, in control.HostShard) {
	from := sender.Addr
	switch {
	case !in.Released && !c.obeyed(in.Term, in.Epoch):
	case c.behind(in): // the coordinator repeats the order; the region knows its term already
	case in.Released && !c.takes(sender, in):
	case c.hosts(in.Shard):
		c.order(in.Shard, Host{From: from, Shard: in.Shard, Epoch: in.Epoch, Previous: in.Previous, Released: in.Released})
	default:
		c.reportShard(from, control.HostRefused{Shard: in.Shard, Epoch: in.Epoch, Above: in.Epoch})
	}
}

func (c *ControlCore) handOff(from string, in control.HandOff) {
	switch {
	case !c.obeyed(in.Term, in.Epoch):
	case c.hosts(in.Shard):
		c.handOffTo(in)
		c.order(in.Shard, HandOff{From: from, Shard: in.Shard, Epoch: in.Epoch})
	default:
		c.report(from, control.ShardStopped{Shard: in.Shard, Epoch: in.Epoch})
	}
}

// event handles an event of a shard core.
func (c *ControlCore) event(core int, e Event) {
	switch e := e.(type) {
	case Report:
		c.reportShard(e.To, e.Msg)
	case Held:
		c.cores[core] = e
		c.tickLeave()
	case JournalAnswered:
		c.answered(e.Path, e.At)
	case Measured:
		c.loads.cores[core] = &e.ShardLoads
	case RequestRoom:
		b := &c.budgets[e.Resource]
		b.wanting[core] = true
		c.divide(e.Resource)
		c.reclaim(e.Resource)
	case Return:
		c.budgets[e.Resource].returned(core, e.N)
		c.divide(e.Resource)
	}
}

// divide grants the free part of a resource to the shard cores that have requested more.
func (c *ControlCore) divide(r Resource) {
	for {
		core, n, ok := c.budgets[r].grant()
		if !ok {
			return
		}
		c.emit(ToCore{Core: core, Order: Grant{Resource: r, N: n}})
	}
}

// reclaim asks shard cores to give back what other shard cores have requested. It is called at every
// tick until these have got something: a core that can give nothing back now may be able to later.
func (c *ControlCore) reclaim(r Resource) {
	b := &c.budgets[r]
	keep, wanted := b.keep()
	if !wanted {
		return
	}
	for i := range c.cores {
		if b.mayReturn(i) {
			c.emit(ToCore{Core: i, Order: Reclaim{Resource: r, Keep: keep}})
		}
	}
}

func (c *ControlCore) tick() {
	c.poll()
	c.register()
	c.countDue()
	c.tickLeave()
	c.tickJournal()
	c.reportLoad()
	c.tickDirectHandoffs()
	for r := range resources {
		c.reclaim(r)
	}
}

// leave asks the coordinator to take all shards (SIGTERM).
func (c *ControlCore) leave() {
	if c.leaving {
		return
	}
	c.leaving = true
	c.leftBy = c.now.Add(c.cfg.LeaveTimeout)
	c.orderAll(Leave{}) // the shard cores answer with Held
}

func (c *ControlCore) shutdownAck(in control.ShutdownAck) {
	if !c.current(in.Term) || !c.leaving {
		return
	}
	c.released = in.Remaining == 0
	c.tickLeave()
}

// tickLeave repeats the request to leave, and emits Left when the region has left.
func (c *ControlCore) tickLeave() {
	if !c.leaving || c.left {
		return
	}
	late := !c.now.Before(c.leftBy)
	if (c.released || late) && !c.draining {
		c.draining = true
		c.orderAll(DrainAll{}) // shards may be left here that the coordinator does not count as this region's
	}
	stranger := c.registered == 0 // no coordinator has ever given a shard to this region
	if (c.released || stranger) && c.empty() || late {
		c.left = true
		c.emit(Left{Held: c.Held()})
		return
	}
	if addr, _ := c.watcher.Active(); addr != "" && c.due(&c.leaveCall, addr) {
		c.leaveCall = repeated{at: c.now, askedOf: addr}
		c.emit(Send{To: addr, Msg: control.GracefulShutdown{}})
	}
}

// empty reports whether no shard core holds a shard, will take a shard, or has states of entities that a
// next owner may fetch. A core that has not reported yet that it is leaving may still have an order to
// host a shard in its inbox.
func (c *ControlCore) empty() bool {
	for _, core := range c.cores {
		// Invariant: a region that has kept states leaves only in two cases: the states were fetched, or the time for
		// fetching them is over.
		// Mutants: leave-keeps
		if core.Kept > 0 { //mutant:false leave-keeps
			return false
		}
		if !core.Leaving || core.Shards > 0 {
			// Invariant: a region has left only when no shard core holds a shard and no shard core will take another
			// one.
			// Mutants: leave-all-cores
			//mutant:do leave-all-cores return c.cores[0].Leaving && c.cores[0].Shards == 0
			return false
		}
	}
	return true
}
