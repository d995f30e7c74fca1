package region

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// receive takes a message of another process. It reports whether regions take messages of its kind.
func (c *ControlCore) receive(in Received) bool {
	switch msg := in.Msg.(type) {
	case control.HostShard:
		c.hostShard(sharding.NodeID{Addr: in.From, UID: in.UID}, msg)
	case control.HandOff:
		c.handOff(in.From, msg)
	case control.ShardStarted:
		c.successorStarted(in.From, msg)
	case control.HostRefused:
		c.successorRefused(in.From, msg)
	case control.FindShards:
		c.emit(Reply{Call: in.Call, Msg: c.found(msg)})
	case control.WatchTable:
		c.emit(Reply{Call: in.Call, Msg: c.copy(msg)})
	default:
		return false
	}
	return true
}

// copy answers a WatchTable with this region's copy of the table, if the sender accepts a copy. If it does not,
// the message was meant for a coordinator. Then the region answers like a standby coordinator.
func (c *ControlCore) copy(w control.WatchTable) control.Message {
	// Invariant: a region is never taken for a coordinator, even if discovery lists the region as a coordinator.
	// Guarded by: a region answers a poll with its copy of the route table (`region.copy`) only if the poll explicitly
	// accepts a copy (`control.WatchTable.Copy`).
	// Mutants: region-as-coordinator
	if w.Copy { //mutant:true region-as-coordinator
		return control.TableChanged{Delta: c.table.Delta(w.Version)}
	}
	return control.NotActive{}
}

// replied takes the answer to a call of this region. It reports whether regions take answers of its kind.
func (c *ControlCore) replied(in Replied) bool {
	switch in.Asked.(type) {
	case control.WatchTable:
		return c.watched(in.From, in.Msg)
	case control.Register:
		c.announcing.call.answered(in.From)
		switch msg := in.Msg.(type) {
		case control.RegisterAck:
			c.registerAck(in.From, in.Asked.(control.Register), msg)
			return true
		case nil, control.NotActive: // it is repeated
			return true
		}
	case control.CountDue:
		c.readiness.call.answered(in.From)
		switch msg := in.Msg.(type) {
		case control.DueAck:
			c.dueAck(msg)
			return true
		case nil:
			c.dueUnanswered()
			return true
		case control.NotActive: // it is repeated
			return true
		}
	case control.ReportLoad:
		c.loads.call.answered(in.From)
		switch msg := in.Msg.(type) {
		case control.LoadAck:
			c.loadTaken(in.Asked.(control.ReportLoad), msg)
			return true
		case nil, control.NotActive: // the next report has everything
			return true
		}
	case control.GracefulShutdown:
		c.leaveCall.answered(in.From)
		switch msg := in.Msg.(type) {
		case control.ShutdownAck:
			c.shutdownAck(msg)
			return true
		case nil, control.NotActive: // it is repeated
			return true
		}
	}
	return false
}

// watched takes the answer to a watch.
func (c *ControlCore) watched(from string, answer control.Message) bool {
	switch msg := answer.(type) {
	case control.TableChanged:
		//mutant:false table-generation
		if msg.Delta.Generation.Other(c.generation) {
			c.watcher.Failed(c.now, from) // another journal's table: that coordinator refuses this region, with the reason
			break
		}
		c.tableChanged(from, msg.Delta)
		return true
	case control.NotActive:
		c.watcher.NotActive(c.now, from, msg.Active, msg.Term)
	case nil:
		c.watcher.Failed(c.now, from)
	default:
		return false
	}
	c.poll()
	return true
}

func (c *ControlCore) tableChanged(from string, d sharding.TableDelta) {
	if !c.watcher.Changed(c.now, from, d) {
		c.poll()
		return
	}
	c.current(d.Version.Term)
	before := c.table.Version()
	hosted := c.newlyHosted(d.Types)
	changed := c.table.Apply(d)
	released := c.quarantine(d.Types)
	c.endDirectHandoffs(changed)
	c.forward(changed)
	//mutant:false full-fed
	if d.Full { // rows may be gone, see routetable.Table.Advance
		c.feed(c.table.Delta(sharding.Version{}))
	} else if len(changed)+len(d.Types) > 0 || c.table.Version() != before {
		types := d.Types
		if len(types) > 0 {
			types = c.table.Types() // the types of an older delta do not replace newer ones
		}
		c.feed(sharding.TableDelta{Version: c.table.Version(), Generation: c.table.Generation(), Types: types, Rows: changed})
	}
	c.hastenSends(hosted, changed, released)
	c.poll()
	c.register()
}

// forward passes rows that have changed on to the shard cores that may host the shards.
func (c *ControlCore) forward(rows []sharding.Row) {
	of := make([][]sharding.Row, len(c.cores))
	for _, row := range rows {
		if c.hosts(row.Shard) {
			core := c.cfg.CoreOf(row.Shard)
			of[core] = append(of[core], row)
		}
	}
	for core, rows := range of {
		if len(rows) > 0 {
			c.emit(ToCore{Core: core, Order: Rows{Rows: rows}})
		}
	}
}

func (c *ControlCore) poll() {
	if to, v, ask := c.watcher.Poll(c.now); ask {
		c.emit(Send{To: to, Msg: control.WatchTable{Version: v, Copy: c.watcher.PollsCopy()}})
	}
}

// report sends a message to the coordinator at the address to, which has asked for it. If to is empty, the
// message goes to the active coordinator. If none is known, nothing is sent: the next active coordinator
// will ask again.
func (c *ControlCore) report(to string, msg control.Message) {
	if to == "" {
		to, _ = c.watcher.Active()
	}
	if to != "" {
		c.emit(Send{To: to, Msg: msg})
	}
}

// repeated is a call to the coordinator that is repeated until what it asks for has happened. At most
// one call of a kind waits for its answer: a coordinator that cannot store its facts holds the answers
// back, and has no room for many calls of one region.
type repeated struct {
	at      time.Time // when the call was last made
	askedOf string    // the address that has not answered the last call; empty: it was answered
}

func (r *repeated) answered(from string) {
	if r.askedOf == from {
		r.askedOf = ""
	}
}

// due reports whether a call must be made now, for the first time or again.
func (c *ControlCore) due(r *repeated, to string) bool {
	pause := c.cfg.Resend
	if r.askedOf == to {
		pause = max(pause, c.cfg.Watch.Timeout) // the answer may never come
	}
	return r.at.IsZero() || c.now.Sub(r.at) >= pause
}

// announcing is the progress of the registration at the coordinator of a new term. The region first reads
// from its journal which cluster the journal belongs to, and names that cluster in Register. If this is
// another cluster, the coordinator refuses the region. The owner of the journal may have changed since the
// region read it. So the region believes a refusal only if it reads the same owner once more.
type announcing struct {
	call   repeated // Register, with the ReadJournalHeartbeat before it
	number uint64   // of the newest ReadJournalHeartbeat
	open   bool     // that ReadJournalHeartbeat is not answered
	// refusal is the coordinator's reason for refusing this region; empty: it has not refused it. refused is
	// the owner of the journal that the region had named then.
	refusal string
	refused control.JournalOwner
}

// register announces this region to the coordinator of a new term.
func (c *ControlCore) register() {
	if !c.unregistered() {
		return
	}
	if to, _ := c.watcher.Active(); c.due(&c.announcing.call, to) {
		c.announcing.call.at, c.announcing.refusal = c.now, ""
		c.readJournalHeartbeat()
	}
}

// unregistered reports whether there is a coordinator whose term does not know this
// region.
func (c *ControlCore) unregistered() bool {
	addr, term := c.watcher.Active()
	return addr != "" && term > c.registered && !c.failed && !c.left
}

func (c *ControlCore) readJournalHeartbeat() {
	c.announcing.number++
	c.announcing.open = true
	c.announcing.call.askedOf, _ = c.watcher.Active()
	c.emit(ReadJournalHeartbeat{Number: c.announcing.number})
}

// journalHeartbeatRead continues with the announcement.
func (c *ControlCore) journalHeartbeatRead(in JournalHeartbeatRead) {
	a := &c.announcing
	if in.Number != a.number || !a.open {
		return
	}
	a.open, a.call.askedOf = false, ""
	c.generation = in.Generation
	var journal control.JournalOwner
	if in.OK && (in.Heartbeat.Cluster != 0 || in.Heartbeat.Term == 0) { // else an earlier version of Roost wrote the heartbeat, without the cluster
		journal = control.JournalOwner{Known: true, Cluster: in.Heartbeat.Cluster}
	}
	journal.Generation = in.Generation
	switch {
	case !c.unregistered():
	case a.refusal == "":
		to, _ := c.watcher.Active()
		reg := control.Register{Name: c.cfg.Name, Version: c.cfg.Version, Last: c.registered, Journal: journal, Zone: c.cfg.Zone, Labels: c.cfg.Labels, Capacity: c.cfg.Capacity, Crash: c.crash()}
		for i := range c.cfg.Turn.Types {
			reg.Types = append(reg.Types, c.cfg.Turn.Types[i].Desc)
		}
		a.call.askedOf = to
		c.emit(Send{To: to, Msg: reg})
	case journal == a.refused:
		c.fail(a.refusal)
	}
	a.refusal = "" // the owner of the journal has changed, which may have been the reason for the refusal: Register is repeated
}

func (c *ControlCore) registerAck(from string, asked control.Register, in control.RegisterAck) {
	if !c.current(in.Term) {
		return
	}
	switch {
	case in.Refusal == "" && in.Term <= c.registered: // known
	case in.Refusal == "":
		c.registered, c.crashTold = in.Term, c.crashTold || asked.Crash.Of != 0
		c.announcing.call = repeated{}
		c.health.told = time.Time{} // the new coordinator may not have the journal report yet
		c.loads.call, c.loads.taken = repeated{}, false
		c.emit(Registered{With: from, Term: in.Term})
		c.readiness.call = repeated{}
		c.countDue()
	case !asked.Journal.Known:
		c.fail(in.Refusal)
	case c.announcing.refusal == "" && !c.failed:
		c.announcing.refusal, c.announcing.refused = in.Refusal, asked.Journal
		c.readJournalHeartbeat()
	}
}

// fail ends this region: a refusal is final.
func (c *ControlCore) fail(refusal string) {
	if !c.failed {
		c.failed = true
		c.emit(Fail{Reason: "the coordinator refused this region: " + refusal})
	}
}
