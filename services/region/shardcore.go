package region

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// ShardCore hosts those shards of a region for which [Config.CoreOf] is its index. It is
// not safe for concurrent use.
type ShardCore struct {
	cfg       Config
	index     int
	types     []*hostedType // by name
	lastType  *hostedType   // the type that typ returned last
	heldCount int           // number of shards held
	turn      *turn.Machine
	wakeups   *wakeup.Keeper
	starter   *wakeup.Starter
	// wakesWanted is what the keeper of wake-ups and the starter want done. It is done at the end
	// of the step.
	wakesWanted wakeup.Outputs
	purger      *purge.Purger
	// purgesWanted is what the purger wants done. stepPurger does it at once. Between the calls of
	// stepPurger the lists are empty, and are kept only so that their memory is used again.
	purgesWanted purge.Outputs
	sends        *outbox.Dispatcher // delivers what entities send
	// sendsWanted is what the dispatcher of sends wants done. It is done at the end of the step.
	sendsWanted outbox.Outputs
	// buffered and bufferedBytes count the commands in the buffers of all shards.
	buffered, bufferedBytes int
	// claimsToRepeat says that a claim has failed, or that its outcome is unknown, and that it
	// must be made again (see heldShard.claimAt).
	claimsToRepeat bool
	leaving        bool

	// The fields up to keptStats are about states of entities that are kept for the next owners
	// of shards, see kept.go.
	keptShards  int // number of shards whose states are kept here
	keptUnowned int // how many of these shards have no owner now who could fetch the states
	keptBytes   int // size of all states that are kept
	giving      int // how many [Kept] with states the driver is sending
	givingBytes int // size of the states in these
	// mayFetch says that some shard may be in the phase fetching. It saves a loop over the shards.
	mayFetch  bool
	keptStats KeptStats

	// alone says that this is the region's only shard core. Such a core has all of the region's
	// limits from the start, and never asks for more.
	alone      bool
	allowances [resources]allowance
	// returning says that this core must still give a part of its allowances back. A [Reclaim]
	// has asked for that part while it was in use. Each step gives back as much of it as is no
	// longer in use.
	returning bool

	measuredAt time.Time // when the loads of the shards were last measured

	lastHeld Held // the last one that was reported to the control core
	// answeredAt is when the journal last answered on each JournalPath (commits, loads).
	// answered says that the journal has answered on that path since the last tick.
	answeredAt [journalPaths]time.Time
	answered   [journalPaths]bool

	now time.Time
	out *Outputs
}

// Outputs are what the driver must do after steps of a shard core. Each list is to be
// performed in its order; between the lists no order is required.
type Outputs struct {
	Turn   []turn.Output
	Shard  []ShardOutput
	Events []Event // for the control core
}

// Reset empties the lists, to be used again.
func (o *Outputs) Reset() {
	clear(o.Turn)
	clear(o.Shard)
	clear(o.Events)
	o.Turn, o.Shard, o.Events = o.Turn[:0], o.Shard[:0], o.Events[:0]
}

// hostedType is an entity type of this region. Its slices have one element per shard, by
// index of the shard.
type hostedType struct {
	name     sharding.EntityType
	desc     *sharding.TypeDesc // never changed
	volatile bool
	remember bool // its entities are remembered
	// shards has nil for a shard that is not held.
	shards []*heldShard
	// minEpochs has the epoch below which the shard is refused.
	minEpochs []sharding.Epoch
	// rows has the newest row of each shard that this region knows.
	rows []sharding.Row
	// wrote has the forms of all events of the shard that this incarnation of the region has
	// handed to the journal, at any epoch. A form is named by its index in
	// [sharding.TypeDesc.Writes]. Every ShardStopped carries all of these forms, because an
	// earlier ShardStopped may have got lost.
	wrote []sharding.FormSet
	keeps bool // the type keeps the states of its entities when a shard moves
	// kept has the states that this region keeps of shards that it has handed off; nil: none.
	kept []*keptShard
}

// heldShard is one shard that this core claims, serves or releases.
type heldShard struct {
	id    sharding.ShardID
	epoch sharding.Epoch
	phase heldPhase
	// buffer holds the commands that wait until the shard is served. It is empty outside the phases
	// claiming and fetching.
	buffer  []Command
	bytes   int       // of buffer
	claimAt time.Time // when the claim is made again; zero: a claim is under way
	damaged bool      // the last claim was refused because the fence is damaged; every command is refused too
	// from is the address of the coordinator that sent the last order for the shard.
	from string
	// handOff is the epoch that ShardStopped must name: the highest one of the HandOff orders;
	// 0: there was none.
	handOff sharding.Epoch
	// nextEpoch is the epoch to claim when the shard is stopped at the present one; 0: none.
	nextEpoch sharding.Epoch
	// keptBy names the region that has kept the states of the entities, as the HostShard order for
	// the epoch in the field epoch says. nextKeptBy is what the order for nextEpoch says.
	keptBy, nextKeptBy control.Previous
	// nextFrom is the address of the sender of the order for nextEpoch.
	nextFrom string
	// fetchBy is when the shard stops waiting for the states.
	fetchBy time.Time
	meter   meter // of its load
}

type heldPhase uint8

const (
	claiming heldPhase = iota + 1
	fetching           // waits for the states of the entities, which the previous owner has kept
	serving
	stopping
)

// NewShardCore makes the shard core of an index below [Config.ShardCores]. The
// configuration must be valid.
func NewShardCore(cfg Config, index int) *ShardCore {
	turnCfg := cfg.Turn
	turnCfg.RecentIDs /= cfg.ShardCores
	turnCfg.Types = slices.Clone(turnCfg.Types)
	for i := range turnCfg.Types {
		turnCfg.Types[i].Passivation = cfg.passivationOfCore(turnCfg.Types[i].Passivation)
	}
	if !mutant.On("waiting-divided") {
		turnCfg.WaitingTurns = max(1, turnCfg.WaitingTurns/cfg.ShardCores)
	}
	if turnCfg.Program = "region " + cfg.Name; cfg.Version != "" {
		turnCfg.Program += " with version " + cfg.Version
	}
	// Each core has an equal part, but at least as much as one entity may hold.
	turnCfg.TotalHeldBytes = max(turnCfg.HeldBytes, turnCfg.TotalHeldBytes/cfg.ShardCores)
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

// typ returns the hosted type with a name, nil if there is none. It remembers the type that it
// returned last, because many commands for one type come in a row.
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

// typeOfShard returns the type of a shard if the shard belongs to this core, else nil.
func (m *ShardCore) typeOfShard(id sharding.ShardID) *hostedType {
	if t := m.typ(id.Type); t != nil && uint64(id.Index) < uint64(len(t.shards)) && m.cfg.CoreOf(id) == m.index {
		return t
	}
	return nil
}

// shard returns the shard if it is held, else nil.
func (m *ShardCore) shard(id sharding.ShardID) *heldShard {
	if t := m.typeOfShard(id); t != nil {
		return t.shards[id.Index]
	}
	return nil
}

// heldShards iterates over the shards that are held, by type and index.
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

// Stats returns the counts of the entity core, plus the commands in buffers.
func (m *ShardCore) Stats() turn.Stats {
	st := m.turn.Stats()
	st.Commands += m.buffered
	st.Bytes += m.bufferedBytes
	return st
}

// TypeStats returns the counts of the entities of each type.
func (m *ShardCore) TypeStats() []turn.TypeStats { return m.turn.TypeStats() }

// Held returns how many shards this core claims, serves or still has to release.
func (m *ShardCore) Held() int { return m.heldCount }

// Step applies one input at time now, and appends to out what the driver must do.
func (m *ShardCore) Step(now time.Time, in ShardInput, out *Outputs) {
	m.begin(now, out)
	switch in := in.(type) {
	case Command:
		m.command(&in)
	case Turn:
		m.noteJournalAnswer(in.Input)
		m.stepTurn(in.Input)
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
	case Collected:
		m.stepTurn(turn.Collected(in))
	case KeptFetched:
		m.keptFetched(in)
	case GiveKept:
		m.giveKept(in)
	case KeptSent:
		m.giving--
		m.givingBytes -= in.Bytes
	case WakesRead:
		m.wakesRead(in.Page)
	case DeletedRead:
		m.stepPurger(in.Page)
	case Purged:
		m.stepPurger(in.Purged)
	case Tick:
		m.tick()
	default:
		m.stepSends(in)
	}
	m.end()
}

// Command does what Step does for a [Command]. It exists because converting to
// ShardInput would allocate for every command.
func (m *ShardCore) Command(now time.Time, in *Command, out *Outputs) {
	m.begin(now, out)
	m.command(in)
	m.end()
}

// TurnDone does what Step does for a [Turn] with a [turn.TurnDone], without allocating.
func (m *ShardCore) TurnDone(now time.Time, in *turn.TurnDone, out *Outputs) {
	m.begin(now, out)
	m.take(m.turn.TurnDone(now, in, out.Turn))
	m.end()
}

// Loaded does what Step does for a [Turn] with a [turn.Loaded], without allocating.
func (m *ShardCore) Loaded(now time.Time, in *turn.Loaded, out *Outputs) {
	m.begin(now, out)
	m.noteJournalLoaded(in)
	m.take(m.turn.Loaded(now, in, out.Turn))
	m.end()
}

// Recycle does what [turn.Machine.Recycle] does.
func (m *ShardCore) Recycle() { m.turn.Recycle() }

func (m *ShardCore) begin(now time.Time, out *Outputs) { m.now, m.out = now, out }

// end finishes a step: it tells the control core what has changed.
func (m *ShardCore) end() {
	m.performWanted()
	if held := (Held{Shards: m.heldCount, Leaving: m.leaving, Kept: m.keptWanted()}); held != m.lastHeld {
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

// report answers the coordinator at an address.
func (m *ShardCore) report(to string, msg control.Message) { m.event(Report{To: to, Msg: msg}) }

// command admits a command only if its shard is served here, at exactly the epoch at which the
// command was routed.
func (m *ShardCore) command(in *Command) {
	t := m.typ(in.Env.Entity.Type)
	if t == nil {
		m.emit(NotMine{Request: in.Request, Refused: in.Epoch})
		return
	}
	id := t.desc.ShardOf(in.Env.Entity.ID)
	h := t.shards[id.Index]
	switch {
	case h != nil && h.phase == stopping && in.Epoch == h.epoch && len(in.Env.Chain) > 0:
		m.deliver(id, in) // the entity core refuses it, unless the shard drains and one of its turns waits for it
	case h == nil || h.phase == stopping || in.Epoch < h.epoch && !mutant.On("admission-epoch"):
		m.notMine(in.Request, id, in.Epoch)
	case in.Epoch > h.epoch:
		m.notMine(in.Request, id, in.Epoch)
		m.supersede(h)
	case h.damaged:
		m.refuseDamaged(in)
	case h.phase == claiming || h.phase == fetching:
		m.wantMore(in.Env.Size())
		m.buffer(h, in)
	default:
		m.wantMore(in.Env.Size())
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

// rowsChanged stores the rows, for refusals to carry. If the row of a held shard has an epoch
// above the one at which the shard is held, the shard is stopped. Rows come in the order in which
// the table has changed: each row of a shard is newer than the previous row of that shard.
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
		m.refuse(in.Request, sharding.ResourceExhausted, turn.TooMuchWaits)
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

// unbuffer removes and returns the commands that wait until the shard is served.
func (m *ShardCore) unbuffer(h *heldShard) []Command {
	waiting := h.buffer
	m.buffered -= len(waiting)
	m.bufferedBytes -= h.bytes
	h.buffer, h.bytes = nil, 0
	m.limit()
	return waiting
}

// used returns how much of each [Resource] this core uses.
func (m *ShardCore) used() [resources]int {
	u := m.turn.Usage()
	return [resources]int{
		ResourceCommands: u.Commands + m.buffered, ResourceBytes: u.Bytes + m.bufferedBytes, ResourceLoads: u.Loads,
	}
}

// limit tells the entity core how much it may use: the allowances, minus what the commands in
// buffers use.
func (m *ShardCore) limit() {
	const chained = true // chained commands may use all of it
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

// wantMore asks the control core for larger allowances if little of the present ones would be
// left after admitting a command of this size.
func (m *ShardCore) wantMore(size int) {
	if m.alone {
		return
	}
	u := m.used()
	m.wantOf(ResourceCommands, u[ResourceCommands]+1)
	m.wantOf(ResourceBytes, u[ResourceBytes]+size)
	m.wantOf(ResourceLoads, u[ResourceLoads]+1)
}

// wantOf asks for a larger allowance of one resource if little of it is left.
func (m *ShardCore) wantOf(r Resource, used int) {
	if a := &m.allowances[r]; a.low(used) {
		a.asked = true
		m.event(Want{Resource: r})
	}
}

// giveBack gives the control core the parts of the allowances that are above the ceiling
// and not in use.
func (m *ShardCore) giveBack() {
	m.returning = false
	u := m.used()
	for r := range resources {
		a := &m.allowances[r]
		if n := a.excess(u[r]); n > 0 {
			m.event(Return{Resource: r, N: n})
		}
		m.returning = m.returning || a.granted > a.ceiling
	}
}

// stepTurn steps the entity core.
func (m *ShardCore) stepTurn(in turn.Input) { m.take(m.turn.Step(m.now, in, m.out.Turn)) }

func (m *ShardCore) deliver(id sharding.ShardID, c *Command) {
	in := turn.Deliver{Request: c.Request, Shard: id, Env: c.Env}
	m.take(m.turn.Deliver(m.now, &in, m.out.Turn))
}

// take keeps the outputs of a step of the entity core, and handles its shard events.
func (m *ShardCore) take(out []turn.Output) {
	m.out.Turn = out
	if events := m.turn.ShardEvents(); len(events) > 0 {
		m.shardEvents(slices.Clone(events)) // handling an event may step the entity core, which overwrites the list
	}
}

func (m *ShardCore) shardEvents(events []turn.ShardEvent) {
	for _, e := range events {
		switch e := e.(type) {
		case turn.NotMine:
			m.notMine(e.Request, e.Shard, e.Epoch)
		case turn.Fenced:
			if h := m.shard(e.Shard); h != nil && h.epoch == e.Epoch {
				m.stop(h)
				m.raiseMinEpoch(e.Shard, e.Stored)
			}
		case turn.Drained:
			m.drained(e)
		default:
			m.told(e)
		}
		if mutant.On("fires-before-told") {
			m.wakeups.Step(m.now, wakeup.Tick{}, &m.wakesWanted)
		}
	}
	m.wakeups.Step(m.now, wakeup.Tick{}, &m.wakesWanted) // not before all events are told
}

// noteJournalAnswer records what an answer of the driver to the entity core shows about
// the journal.
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

// noteJournalVerdict records when the journal last answered an operation. Most refusals are
// answers too, see [sharding.Verdict.Answered].
func (m *ShardCore) noteJournalVerdict(p JournalPath, v sharding.Verdict) {
	if v.Answered() {
		m.answeredAt[p], m.answered[p] = m.now, true
	}
}

// noteJournalLoaded records that the journal answered a load. That the entity is damaged is an
// answer, too. A failure that may be retried is not an answer of the journal, nor is the load of
// a volatile entity, which does not use the journal.
func (m *ShardCore) noteJournalLoaded(in *turn.Loaded) {
	if in.Err != "" && in.Retry {
		return
	}
	if t := m.typ(in.Entity.Type); t != nil && !t.volatile {
		m.answeredAt[Loads], m.answered[Loads] = m.now, true
	}
}

func (m *ShardCore) tick() {
	m.claimAgain()
	m.tickKept()
	m.stepTurn(turn.Tick{})
	m.stepWakeups(wakeup.Tick{})
	m.stepPurger(purge.Tick{})
	m.sends.Step(m.now, outbox.Tick{}, &m.sendsWanted)
	m.tickMeasure()
	for p := range journalPaths {
		if m.answered[p] && m.cfg.JournalPatience > 0 {
			m.event(JournalAnswered{Path: p, At: m.answeredAt[p]})
		}
		m.answered[p] = false
	}
	// More may be in use, although no command has come from outside: timers deliver commands, and
	// entities are loaded again.
	if u := m.used(); !m.alone {
		for r := range resources {
			if u[r] > 0 {
				m.wantOf(r, u[r]+1)
			}
		}
	}
}

// claimAgain makes claims again that have failed, or whose outcome is unknown.
func (m *ShardCore) claimAgain() {
	if !m.claimsToRepeat {
		return // almost always: the flag saves a loop over the shards, of which there may be many
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
