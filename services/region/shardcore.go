package region

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// ShardCore hosts those shards of a region that belong to this core: [Config.CoreOf] returns the core's index
// for them. A ShardCore is not safe for concurrent use.
type ShardCore struct {
	cfg       Config
	index     int
	types     []*hostedType // by name
	lastType  *hostedType   // the type that method typ has returned last
	heldCount int           // number of shards held
	turn      *turn.Machine
	wakeups   *wakeup.Keeper
	starter   *wakeup.Starter
	// wakeOutputs has the outputs of the keeper of wake-ups and of the starter. Method end performs
	// them at the end of the step.
	wakeOutputs wakeup.Outputs
	purger      *purge.Purger
	// purgeOutputs has the outputs of the purger. stepPurger performs them at once. Between calls of
	// stepPurger, the lists in purgeOutputs are empty. The field exists so that their memory is used
	// again.
	purgeOutputs purge.Outputs
	sends        *outbox.Dispatcher // delivers the sends of entities
	// sendOutputs has the outputs of the dispatcher. Method end performs them at the end of the step.
	sendOutputs outbox.Outputs
	// buffered is the number of commands in the buffers of all shards, and bufferedBytes their size.
	buffered, bufferedBytes int
	// claimsToRepeat is true if this core must repeat a claim, because the claim has failed or its outcome is
	// unknown (see heldShard.claimAt).
	claimsToRepeat bool
	leaving        bool
	fencedShards   []fencedShard // to be reported to the coordinator

	// The fields up to keptStats concern states of entities that this core keeps for the next owners
	// of shards, see kept.go.
	keptShards  int // number of shards whose states this core keeps
	keptUnowned int // number of these shards that have no owner, so that no region can fetch the states
	keptBytes   int // size of all states that this core keeps
	giving      int // number of [Kept] outputs with states that the driver is sending
	givingBytes int // size of the states in these outputs
	// mayFetch is true if some shard may be in the phase fetching. The flag saves a loop over the shards.
	mayFetch  bool
	keptStats KeptStats

	// alone is true if this is the region's only shard core. The only core has all of the region's limits from
	// the start, and never asks for more.
	alone      bool
	allowances [resources]allowance
	// returning is true if this core must still give a part of its allowances back. A [Reclaim] has asked for
	// that part while the part was in use. Each step gives back what is no longer in use.
	returning bool

	measuredAt time.Time // the last time at which the loads of the shards were measured

	lastHeld Held // the last Held that was reported to the control core
	// answeredAt is the time of the journal's last answer on each JournalPath (commits, loads). answered is
	// true if the journal has answered on that path since the last tick.
	answeredAt [journalPaths]time.Time
	answered   [journalPaths]bool

	now time.Time
	out *Outputs
}

// Outputs are the actions that the driver must perform after steps of a shard core. The driver performs
// each list in its order, and Events last. Turn and Shard may be performed in any order.
type Outputs struct {
	Turn   []turn.Output
	Shard  []ShardOutput
	Events []Event // for the control core
}

// Reset empties the lists, so that the caller can use them again.
func (o *Outputs) Reset() {
	clear(o.Turn)
	clear(o.Shard)
	clear(o.Events)
	o.Turn, o.Shard, o.Events = o.Turn[:0], o.Shard[:0], o.Events[:0]
}

// hostedType is an entity type that this region hosts. Each slice has one element per shard. The index
// of the element is the index of the shard.
type hostedType struct {
	name     sharding.EntityType
	desc     *sharding.TypeDesc // never changed
	volatile bool
	remember bool // the entities of the type are remembered
	// shards has nil for a shard that this core does not hold.
	shards []*heldShard
	// minEpochs has the minimum epoch of each shard. The core refuses the shard below this epoch.
	minEpochs []sharding.Epoch
	// rows has, for each shard, the newest row that this region knows.
	rows []sharding.Row
	// wrote has, for each shard, the forms of all events that this incarnation of the region has
	// handed to the journal, at any epoch. Each form is an index into [sharding.TypeDesc.Writes]. Every
	// ShardStopped carries all of these forms, because an earlier ShardStopped may have got lost.
	wrote []sharding.FormSet
	keeps bool // the type keeps the states of its entities when a shard moves
	// kept has, for each shard that this region has handed off, the states that the region keeps; nil:
	// the region keeps no states of the shard.
	kept []*keptShard
}

// heldShard is one shard that this core claims, serves or releases.
type heldShard struct {
	id    sharding.ShardID
	epoch sharding.Epoch
	phase heldPhase
	// damaged is true if the journal refused the last claim because the fence is damaged. While damaged is set,
	// the core refuses every command of the shard.
	damaged bool
	// buffer holds the commands that wait until the shard is served. Outside the phases claiming and
	// fetching, the buffer is empty.
	buffer  []Command
	bytes   int       // size of the commands in buffer
	claimAt time.Time // the time at which the claim is repeated; zero: a claim is in progress
	// from is the address of the sender of the last order for the shard.
	from string
	// handOff is the epoch that ShardStopped must name. It is the highest epoch of all HandOff orders;
	// 0: there was no HandOff.
	handOff sharding.Epoch
	// nextEpoch is the epoch that the core claims after it has stopped the shard at the present epoch,
	// which is in field epoch; 0: none.
	nextEpoch sharding.Epoch
	// keptBy names the region that has kept the states of the entities. It comes from the HostShard
	// order for the present epoch. nextKeptBy comes from the HostShard order for nextEpoch.
	keptBy, nextKeptBy control.Previous
	// nextFrom is the address of the sender of the order for nextEpoch.
	nextFrom string
	// fetchBy is the time at which the shard stops waiting for the states.
	fetchBy time.Time
	meter   meter // measures the load of the shard
	// fenced is true if the journal has refused an operation, because the fence has another epoch.
	fenced bool
}

type heldPhase uint8

const (
	claiming heldPhase = iota + 1
	fetching           // the shard waits for the states of the entities that the previous owner has kept
	serving
	stopping
)

// NewShardCore makes the shard core with an index. The index must be below [Config.ShardCores], and the
// configuration must be valid.
func NewShardCore(cfg Config, index int) *ShardCore {
	turnCfg := cfg.Turn
	turnCfg.RecentIDs /= cfg.ShardCores
	cfg.setHotLimits(&turnCfg, index)
	turnCfg.Types = slices.Clone(turnCfg.Types)
	for i := range turnCfg.Types {
		turnCfg.Types[i].Passivation = cfg.passivationOfCore(turnCfg.Types[i].Passivation)
	}
	// Invariant: the limit of turns that wait for answers holds for all shard cores of a region together.
	// Guarded by: `region.NewShardCore`: each shard core has an equal part.
	// Mutants: waiting-divided
	turnCfg.WaitingTurns = max(1, turnCfg.WaitingTurns/cfg.ShardCores) //mutant:skip waiting-divided
	if turnCfg.Program = "region " + cfg.Name; cfg.Version != "" {
		turnCfg.Program += " with version " + cfg.Version
	}
	// Each core has an equal part of TotalResultBytes, but at least ResultBytes, which one entity may hold.
	turnCfg.TotalResultBytes = max(turnCfg.ResultBytes, turnCfg.TotalResultBytes/cfg.ShardCores)
	m := &ShardCore{cfg: cfg, index: index, turn: turn.New(turnCfg), alone: cfg.ShardCores == 1}
	m.wakeups, m.starter = wakeup.New(cfg.wakeupsOfCore(index)), wakeup.NewStarter(cfg.startsOfCore(index))
	m.purger = purge.New(cfg.purgesOfCore(index))
	m.sends = outbox.New(cfg.sendsOfCore(index))
	for r, b := range cfg.budgets() {
		m.allowances[r] = b.allowance()
	}
	for r, n := range cfg.reserves() {
		m.allowances[r].reserve = n
	}
	for i := range cfg.Turn.Types {
		d := &cfg.Turn.Types[i].Desc
		m.types = append(m.types, &hostedType{
			name: d.Type, desc: d, volatile: d.Volatile, remember: cfg.Turn.Types[i].Remember,
			shards: make([]*heldShard, d.Shards), minEpochs: make([]sharding.Epoch, d.Shards), rows: make([]sharding.Row, d.Shards),
			wrote: make([]sharding.FormSet, d.Shards),
			keeps: d.Volatile && cfg.Turn.Types[i].KeepOnMoves, kept: make([]*keptShard, d.Shards),
		})
	}
	slices.SortFunc(m.types, func(a, b *hostedType) int { return cmp.Compare(a.name, b.name) })
	m.limit()
	return m
}

// typ returns the hosted type with a name, or nil if there is none. Field lastType saves a search,
// because many commands for one type come in a row.
func (m *ShardCore) typ(name sharding.EntityType) *hostedType {
	if m.lastType != nil && m.lastType.name == name {
		return m.lastType
	}
	for _, t := range m.types {
		if t.name == name {
			m.lastType = t
			return t
		}
	}
	return nil
}

// typeOfShard returns the type of a shard. If the shard does not belong to this core, it returns nil.
func (m *ShardCore) typeOfShard(id sharding.ShardID) *hostedType {
	if t := m.typ(id.Type); t != nil && uint64(id.Index) < uint64(len(t.shards)) && m.cfg.CoreOf(id) == m.index {
		return t
	}
	return nil
}

// shard returns the shard with an id. If this core does not hold the shard, it returns nil.
func (m *ShardCore) shard(id sharding.ShardID) *heldShard {
	if t := m.typeOfShard(id); t != nil {
		return t.shards[id.Index]
	}
	return nil
}

// heldShards iterates over the shards that this core holds, in the order of type and index.
func (m *ShardCore) heldShards() iter.Seq[*heldShard] {
	return func(yield func(*heldShard) bool) {
		for _, t := range m.types {
			for _, h := range t.shards {
				if h != nil && !yield(h) {
					return
				}
			}
		}
	}
}

// Stats returns the counts of the entity core. The counts of commands include the commands in buffers.
func (m *ShardCore) Stats() turn.Stats {
	st := m.turn.Stats()
	st.Commands += m.buffered
	st.Bytes += m.bufferedBytes
	return st
}

// TypeStats returns the counts of the entities of each type.
func (m *ShardCore) TypeStats() []turn.TypeStats { return m.turn.TypeStats() }

// Held returns the number of shards that this core claims, serves or still has to release.
func (m *ShardCore) Held() int { return m.heldCount }

// Step applies one input at the time now, and appends to out the actions that the driver must perform.
func (m *ShardCore) Step(now time.Time, in ShardInput, out *Outputs) {
	m.begin(now, out)
	switch in := in.(type) {
	case Command:
		m.command(&in)
	case turn.Input:
		m.noteJournalAnswer(in)
		m.stepTurn(in)
	case Claimed:
		m.noteJournalVerdict(Commits, in.Verdict)
		m.claimed(in)
	case Host:
		m.hostShard(in)
	case HandOff:
		m.handOff(in)
	case Rows:
		m.rowsChanged(in.Rows)
	case Leave:
		m.leaving = true
	case DrainAll:
		m.drainAll()
	case Grant:
		m.allowances[in.Resource].grant(in.N)
		m.limit()
	case Reclaim:
		m.allowances[in.Resource].reclaim(m.used()[in.Resource], in.Keep)
		m.returning = true
		m.limit()
	case SetPassivation:
		m.stepTurn(turn.SetPassivation{Type: in.Type, Strategy: m.cfg.passivationOfCore(in.Strategy)})
	case Quarantine:
		m.quarantine(in)
	case KeptFetched:
		m.keptFetched(in)
	case GiveKept:
		m.giveKept(in)
	case KeptSent:
		m.giving--
		m.givingBytes -= in.Bytes
	case wakeup.Page:
		m.wakesRead(in)
	case StoreClock:
		m.wakeups.SetClock(in.Clock)
	case purge.Page:
		m.stepPurger(in)
	case purge.Purged:
		m.stepPurger(in)
	case outbox.Page:
		m.stepSends(in)
	case outbox.Answered:
		m.stepSends(in)
	case outbox.Acked:
		m.noteJournalVerdict(Commits, in.Verdict)
		m.stepSends(in)
	case Ready:
		m.ready(in)
	case Tick:
		m.tick()
	default:
		panic(fmt.Sprintf("region: %T is not an input of a shard core", in))
	}
	m.end()
}

// Command does what Step does for a [Command]. Step would need a ShardInput, and the conversion would
// allocate memory for every command.
func (m *ShardCore) Command(now time.Time, in *Command, out *Outputs) {
	m.begin(now, out)
	m.command(in)
	m.end()
}

// TurnDone does what Step does for a [turn.TurnDone], but allocates no memory.
func (m *ShardCore) TurnDone(now time.Time, in *turn.TurnDone, out *Outputs) {
	m.begin(now, out)
	m.take(m.turn.TurnDone(now, in, out.Turn))
	m.end()
}

// Loaded does what Step does for a [turn.Loaded], but allocates no memory.
func (m *ShardCore) Loaded(now time.Time, in *turn.Loaded, out *Outputs) {
	m.begin(now, out)
	m.noteJournalLoaded(in)
	m.take(m.turn.Loaded(now, in, out.Turn))
	m.end()
}

// Recycle calls [turn.Machine.Recycle] of the entity core.
func (m *ShardCore) Recycle() { m.turn.Recycle() }

func (m *ShardCore) begin(now time.Time, out *Outputs) { m.now, m.out = now, out }

// end finishes a step. It performs the outputs of the keeper of wake-ups, the starter and the
// dispatcher of sends, and tells the control core what has changed.
func (m *ShardCore) end() {
	m.performOutputs()
	if held := (Held{Shards: m.heldCount, Leaving: m.leaving, Kept: m.keptUnfetched()}); held != m.lastHeld {
		m.lastHeld = held
		m.event(held)
	}
	if m.returning {
		m.giveBack()
	}
	m.out = nil
}

func (m *ShardCore) emit(o ShardOutput) { m.out.Shard = append(m.out.Shard, o) }

func (m *ShardCore) event(e Event) { m.out.Events = append(m.out.Events, e) }

// report answers an order: it sends msg to the process that has sent the order. The parameter addr is the
// address of that process.
func (m *ShardCore) report(addr string, msg control.Message) { m.event(Report{To: addr, Msg: msg}) }

// command takes a command only if this core holds the shard at exactly the epoch at which the command was
// routed. While the shard is not served yet, the command waits in a buffer. While the shard stops, command
// takes only a chained command, because a turn of the shard may wait for it.
func (m *ShardCore) command(in *Command) {
	t := m.typ(in.Env.Entity.Type)
	if t == nil {
		m.emit(NotMine{Request: in.Request, Refused: in.Epoch})
		return
	}
	id := t.desc.ShardOf(in.Env.Entity.ID)
	if m.turn.Takes(id, in.Epoch) { // most commands: the shard is served, and heldShard need not be read
		m.requestRoom(in.Env.Size())
		m.deliver(id, in)
		return
	}
	h := t.shards[id.Index]
	switch {
	case h != nil && h.phase == stopping && in.Epoch == h.epoch && len(in.Env.Chain) > 0:
		m.deliver(id, in) // the entity core accepts it only if the shard drains and one of the shard's turns waits for the command
		//mutant:false admission-epoch in.Epoch < h.epoch
	case h == nil || h.phase == stopping || in.Epoch < h.epoch:
		m.notMine(in.Request, id, in.Epoch)
	case in.Epoch > h.epoch:
		m.notMine(in.Request, id, in.Epoch)
		m.supersede(h)
	case h.damaged:
		m.refuseDamaged(in)
	case h.phase == claiming || h.phase == fetching:
		m.requestRoom(in.Env.Size())
		m.buffer(h, in)
	default:
		m.requestRoom(in.Env.Size())
		m.deliver(id, in)
	}
}

func (m *ShardCore) notMine(r turn.RequestID, id sharding.ShardID, refused sharding.Epoch) {
	row := sharding.Row{Shard: id} // a refusal always names the shard
	if t := m.typeOfShard(id); t != nil && t.rows[id.Index].Epoch > 0 {
		row = t.rows[id.Index]
	}
	if h := m.shard(id); h != nil && h.phase == serving {
		if own := (sharding.Row{Shard: id, Owner: m.cfg.Self, Epoch: h.epoch, Phase: sharding.Serving}); own.Newer(row) {
			row = own
		}
	}
	m.emit(NotMine{Request: r, Refused: refused, Row: row})
}

// rowsChanged stores the rows, because refusals carry them. If the row of a held shard has an epoch above
// the epoch of the held shard, rowsChanged stops the shard. Rows come in the order in which the table has
// changed. So each row of a shard is newer than the previous row of that shard.
func (m *ShardCore) rowsChanged(rows []sharding.Row) {
	for _, row := range rows {
		t := m.typeOfShard(row.Shard)
		if t == nil {
			continue
		}
		t.rows[row.Shard.Index] = row
		m.keptRow(t, row)
		if h := t.shards[row.Shard.Index]; h != nil && row.Epoch > h.epoch {
			m.supersede(h)
		}
	}
}

func (m *ShardCore) buffer(h *heldShard, in *Command) {
	size := in.Env.Size()
	if len(h.buffer) >= m.cfg.BufferCommands || h.bytes+size > m.cfg.BufferBytes {
		m.refuse(in.Request, sharding.ResourceExhausted, "too many commands, or too large ones, wait for shard "+h.id.String()+" to start")
		return
	}
	chained := len(in.Env.Chain) > 0
	if u := m.used(); u[ResourceCommands] >= m.allowances[ResourceCommands].room(chained) || u[ResourceBytes]+size > m.allowances[ResourceBytes].room(chained) {
		m.refuse(in.Request, sharding.ResourceExhausted, turn.FullText)
		return
	}
	env := *in.Env
	h.buffer = append(h.buffer, Command{Request: in.Request, Epoch: in.Epoch, Env: &env})
	h.bytes += size
	m.buffered++
	m.bufferedBytes += size
	m.limit()
}

func (m *ShardCore) refuse(r turn.RequestID, code sharding.Code, reason string) {
	m.emit(Refuse{Request: r, Reply: sharding.Reject(code, reason)})
}

// unbuffer empties the buffer of a shard, and returns the commands that were in it.
func (m *ShardCore) unbuffer(h *heldShard) []Command {
	waiting := h.buffer
	m.buffered -= len(waiting)
	m.bufferedBytes -= h.bytes
	h.buffer, h.bytes = nil, 0
	m.limit()
	return waiting
}

// used returns how much of each [Resource] this core is using.
func (m *ShardCore) used() [resources]int {
	u := m.turn.Usage()
	return [resources]int{
		ResourceCommands: u.Commands + m.buffered, ResourceBytes: u.Bytes + m.bufferedBytes, ResourceLoads: u.Loads,
	}
}

// limit tells the entity core how much of each resource the entity core may use. This is the allowance of
// the shard core, minus the part that the commands in buffers use. The second argument of Limit is the
// reserve: the part of the first argument that only chained commands may use (see allowance).
func (m *ShardCore) limit() {
	const chained = true // chained commands may use the whole allowance
	m.turn.Limit(turn.Usage{
		Commands: m.allowances[ResourceCommands].room(chained) - m.buffered,
		Bytes:    m.allowances[ResourceBytes].room(chained) - m.bufferedBytes,
		Loads:    m.allowances[ResourceLoads].room(chained),
	}, turn.Usage{
		Commands: m.allowances[ResourceCommands].reserve,
		Bytes:    m.allowances[ResourceBytes].reserve,
		Loads:    m.allowances[ResourceLoads].reserve,
	})
}

// requestRoom asks the control core for larger allowances if a command of this size would leave little of
// the present allowances.
func (m *ShardCore) requestRoom(size int) {
	if m.alone {
		return
	}
	u := m.used()
	m.requestRoomOf(ResourceCommands, u[ResourceCommands]+1)
	m.requestRoomOf(ResourceBytes, u[ResourceBytes]+size)
	m.requestRoomOf(ResourceLoads, u[ResourceLoads]+1)
}

// requestRoomOf asks the control core for a larger allowance of one resource if little of the allowance is left.
func (m *ShardCore) requestRoomOf(r Resource, used int) {
	if a := &m.allowances[r]; a.low(used) {
		a.asked = true
		m.event(RequestRoom{Resource: r})
	}
}

// giveBack returns parts of allowances to the control core: the parts that a [Reclaim] has asked for, and that
// are no longer in use.
func (m *ShardCore) giveBack() {
	m.returning = false
	u := m.used()
	for r := range resources {
		a := &m.allowances[r]
		if n := a.excess(u[r]); n > 0 {
			m.event(Return{Resource: r, N: n})
		}
		m.returning = m.returning || a.owes()
	}
}

// stepTurn steps the entity core with an input.
func (m *ShardCore) stepTurn(in turn.Input) { m.take(m.turn.Step(m.now, in, m.out.Turn)) }

func (m *ShardCore) deliver(id sharding.ShardID, c *Command) {
	in := turn.Deliver{Request: c.Request, Shard: id, Env: c.Env}
	m.take(m.turn.Deliver(m.now, &in, m.out.Turn))
}

// take stores the outputs of a step of the entity core, and handles the shard events of that step.
func (m *ShardCore) take(out []turn.Output) {
	m.out.Turn = out
	if events := m.turn.ShardEvents(); len(events) > 0 {
		m.shardEvents(slices.Clone(events)) // a copy, because shardEvents may step the entity core, and that step overwrites the list
	}
}

func (m *ShardCore) shardEvents(events []turn.ShardEvent) {
	for _, e := range events {
		switch e := e.(type) {
		case turn.NotMine:
			m.notMine(e.Request, e.Shard, e.Epoch)
		case turn.Fenced:
			if h := m.shard(e.Shard); h != nil && h.epoch == e.Epoch {
				h.fenced = true
				m.stop(h)
				m.raiseMinEpoch(e.Shard, e.Stored)
			}
		case turn.Drained:
			m.drained(e)
		default:
			m.observe(e)
		}
		//mutant:do fires-before-told m.wakeups.Step(m.now, wakeup.Tick{}, &m.wakeOutputs)
	}
	m.wakeups.Step(m.now, wakeup.Tick{}, &m.wakeOutputs) // only after the keeper has observed all events
}

// noteJournalAnswer records that the journal has answered, if the input for the entity core shows it.
func (m *ShardCore) noteJournalAnswer(in turn.Input) {
	switch in := in.(type) {
	case turn.Appended:
		m.noteJournalVerdict(Commits, in.Verdict)
	case turn.FenceRead:
		m.noteJournalVerdict(Commits, in.Verdict)
	case turn.Loaded:
		m.noteJournalLoaded(&in)
	}
}

// noteJournalVerdict records that the journal has answered an operation now. Most refusals count as
// answers, too; see [sharding.Verdict.Answered].
func (m *ShardCore) noteJournalVerdict(p JournalPath, v sharding.Verdict) {
	if v.Answered() {
		m.answeredAt[p], m.answered[p] = m.now, true
	}
}

// noteJournalLoaded records that the journal has answered a load. If the entity is damaged, this counts as
// an answer, too. A failure that may be retried does not count. Nor does a load of a volatile entity,
// because it does not use the journal.
func (m *ShardCore) noteJournalLoaded(in *turn.Loaded) {
	if in.Err != "" && in.Retry {
		return
	}
	if t := m.typ(in.Entity.Type); t != nil && !t.volatile {
		m.answeredAt[Loads], m.answered[Loads] = m.now, true
	}
}

// AlarmAt returns when the next alarm of the entity core, the next reminder, or the next group of starts is due: a
// timer, a deadline or the like. Without one, that is in a long time. The driver needs it to be on time although ticks come rarely.
func (m *ShardCore) AlarmAt() time.Time {
	at := m.turn.AlarmAt()
	for _, due := range []time.Time{m.wakeups.NextDue(), m.starter.NextStart()} {
		if !due.IsZero() && due.Before(at) {
			at = due
		}
	}
	return at
}

func (m *ShardCore) tick() {
	m.claimAgain()
	m.tellFenced()
	m.tickKept()
	m.stepTurn(turn.Tick{})
	m.stepWakeups(wakeup.Tick{})
	m.stepPurger(purge.Tick{})
	m.sends.Step(m.now, outbox.Tick{}, &m.sendOutputs)
	m.tickMeasure()
	for p := range journalPaths {
		if m.answered[p] && m.cfg.JournalPatience > 0 {
			m.event(JournalAnswered{Path: p, At: m.answeredAt[p]})
		}
		m.answered[p] = false
	}
	// The core may use more than before although no command has come from outside: timers deliver
	// commands, and entities are loaded again.
	if u := m.used(); !m.alone {
		for r := range resources {
			if u[r] > 0 {
				m.requestRoomOf(r, u[r]+1)
			}
		}
	}
}

// claimAgain repeats claims that have failed, and claims whose outcome is unknown.
func (m *ShardCore) claimAgain() {
	if !m.claimsToRepeat {
		return // almost always; the flag saves a loop over all shards
	}
	m.claimsToRepeat = false
	for h := range m.heldShards() {
		switch {
		case h.phase != claiming || h.claimAt.IsZero():
		case m.now.Before(h.claimAt):
			m.claimsToRepeat = true
		default:
			h.claimAt = time.Time{}
			m.emit(Claim{Shard: h.id, Epoch: h.epoch})
		}
	}
}
