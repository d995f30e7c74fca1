package region

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Machine is the region core. It is not safe for concurrent use.
type Machine struct {
	cfg     Config
	types   []*hosted // by name
	asked   *hosted   // the one that was asked for last
	held    int       // shards
	turn    *turn.Machine
	table   *routetable.Table
	watcher *routetable.Watcher

	term       sharding.Term // highest seen
	registered sharding.Term // the term that acknowledged us
	announcing announcing
	// buffered and bufferedBytes count the commands that wait for claims.
	buffered, bufferedBytes int
	// unanswered says that some claim is to be repeated.
	unanswered bool
	leaving    bool
	leaveAt    time.Time // last GracefulShutdown
	leftBy     time.Time
	left       bool
	released   bool // the coordinator says that nothing is ours any more
	failed     bool
	health     health

	now time.Time
	out []Output
}

// hosted is an entity type of this region.
type hosted struct {
	name     sharding.EntityType
	volatile bool
	// By index of the shard. A shard that is not held is nil.
	shards []*held
	// floors: HostShard is accepted from this epoch on.
	floors []sharding.Epoch
}

// held is one shard that this region claims, serves or lets go.
type held struct {
	id    sharding.ShardID
	epoch sharding.Epoch
	phase heldPhase
	// buffer waits for the claim.
	buffer  []Command
	bytes   int
	claimAt time.Time // when the claim is repeated; zero: one is under way
	damaged bool      // the last claim was refused for that: so is every command
	// from is the coordinator's address that asked last.
	from string
	// handOff is the highest epoch to answer ShardStopped for; 0: nobody asked.
	handOff sharding.Epoch
	// next is a higher epoch to claim when this one is gone; 0: none.
	next sharding.Epoch
}

type heldPhase uint8

const (
	claiming heldPhase = iota + 1
	serving
	stopping
)

// New makes a region core. The configuration must be valid.
func New(cfg Config) *Machine {
	m := &Machine{
		cfg:     cfg,
		turn:    turn.New(cfg.Turn),
		table:   routetable.New(),
		watcher: routetable.NewWatcher(cfg.Watch),
	}
	for i := range cfg.Turn.Types {
		d := &cfg.Turn.Types[i].Desc
		m.types = append(m.types, &hosted{
			name: d.Type, volatile: d.Volatile, shards: make([]*held, d.Shards), floors: make([]sharding.Epoch, d.Shards),
		})
	}
	slices.SortFunc(m.types, func(a, b *hosted) int { return cmp.Compare(a.name, b.name) })
	return m
}

// typ is the hosted type of that name, nil if there is none. Commands for one
// type come many at a time, so the last one is remembered.
func (m *Machine) typ(name sharding.EntityType) *hosted {
	if m.asked != nil && m.asked.name == name {
		return m.asked
	}
	for _, t := range m.types {
		if t.name == name {
			m.asked = t
			return t
		}
	}
	return nil
}

// hosts reports whether there is such a shard of a type that this region hosts.
func (m *Machine) hosts(id sharding.ShardID) bool {
	t := m.typ(id.Type)
	return t != nil && uint64(id.Index) < uint64(len(t.shards))
}

// shard is the shard if it is held, else nil.
func (m *Machine) shard(id sharding.ShardID) *held {
	if !m.hosts(id) {
		return nil
	}
	return m.typ(id.Type).shards[id.Index]
}

// shards are the held ones, by type and index.
func (m *Machine) shards() iter.Seq[*held] {
	return func(yield func(*held) bool) {
		for _, t := range m.types {
			for _, h := range t.shards {
				if h != nil && !yield(h) {
					return
				}
			}
		}
	}
}

// Table is the region's copy of the route table, which it serves read-only.
func (m *Machine) Table() *routetable.Table { return m.table }

// Coordinator is the address and term of the active coordinator as far as
// known, and whether it knows this region.
func (m *Machine) Coordinator() (addr string, term sharding.Term, registered bool) {
	addr, term = m.watcher.Active()
	return addr, term, addr != "" && m.registered >= term
}

// Stats are the counts of the entity core.
func (m *Machine) Stats() turn.Stats { return m.turn.Stats() }

// Held counts the shards that this region has not let go.
func (m *Machine) Held() int { return m.held }

// Step applies in at now and appends to out what the driver must do, in that
// order.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	m.now, m.out = now, out
	switch in := in.(type) {
	case Command:
		m.command(&in)
	case Turn:
		m.hear(in.Input)
		m.step(in.Input)
	case Claimed:
		m.heard(Commits, in.Verdict)
		m.claimed(in)
	case Probed:
		m.probed(in)
	case Received:
		m.receive(in)
	case Replied:
		m.replied(in)
	case SignRead:
		m.signRead(in)
	case Coordinators:
		m.watcher.SetCandidates(in.Addrs, nil)
		m.poll()
	case Leave:
		m.leave()
	case Tick:
		m.tick()
	}
	out = m.out
	m.out = nil
	return out
}

// Command is Step for the input of that name, which comes with every command:
// nothing is allocated to pass it.
func (m *Machine) Command(now time.Time, in *Command, out []Output) []Output {
	m.now, m.out = now, out
	m.command(in)
	out, m.out = m.out, nil
	return out
}

// TurnDone is Step for a Turn of that name, likewise.
func (m *Machine) TurnDone(now time.Time, in *turn.TurnDone, out []Output) []Output {
	m.now, m.out = now, out
	m.takeUp(m.turn.TurnDone(now, in, out))
	out, m.out = m.out, nil
	return out
}

// Loaded is Step for a Turn of that name, likewise.
func (m *Machine) Loaded(now time.Time, in *turn.Loaded, out []Output) []Output {
	m.now, m.out = now, out
	m.hearLoaded(in)
	m.takeUp(m.turn.Loaded(now, in, out))
	out, m.out = m.out, nil
	return out
}

// Recycle is that of [turn.Machine].
func (m *Machine) Recycle() { m.turn.Recycle() }

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

// current reports whether a coordinator's message is of the newest known term.
func (m *Machine) current(t sharding.Term) bool {
	if t < m.term && !mutant.On("lower-term") {
		return false
	}
	m.term = t
	return true
}

// plausible reports whether a coordinator of the term can have meant the epoch:
// one it has not reached would keep the shard from everybody for good.
func plausible(e sharding.Epoch, t sharding.Term) bool { return e > 0 && e.Term() <= t }

// command is the door: a command passes if its shard is served here at exactly
// the epoch it was routed at.
func (m *Machine) command(in *Command) {
	t := m.typ(in.Env.Entity.Type)
	if t == nil {
		m.emit(NotMine{Request: in.Request, Refused: in.Epoch})
		return
	}
	id := sharding.ShardID{Type: t.name, Index: sharding.ShardOf(in.Env.Entity.ID, uint32(len(t.shards)))}
	h := t.shards[id.Index]
	switch {
	case h == nil || h.phase == stopping || in.Epoch < h.epoch && !mutant.On("door"):
		m.notMine(in.Request, id, in.Epoch)
	case in.Epoch > h.epoch:
		m.notMine(in.Request, id, in.Epoch)
		m.supersede(h)
	case h.damaged:
		m.refuseDamaged(in)
	case h.phase == claiming:
		m.buffer(h, in)
	default:
		m.deliver(id, in)
	}
}

func (m *Machine) notMine(r turn.RequestID, id sharding.ShardID, refused sharding.Epoch) {
	row, known := m.table.Row(id)
	if !known {
		row.Shard = id // a refusal always says which shard it is about
	}
	if h := m.shard(id); h != nil && h.phase == serving {
		if own := (sharding.Row{Shard: id, Owner: m.cfg.Self, Epoch: h.epoch, Phase: sharding.Serving}); own.Newer(row) {
			row = own
		}
	}
	m.emit(NotMine{Request: r, Refused: refused, Row: row})
}

func (m *Machine) buffer(h *held, in *Command) {
	size := in.Env.Size()
	st := m.turn.Stats()
	if len(h.buffer) >= m.cfg.BufferCommands || h.bytes+size > m.cfg.BufferBytes ||
		m.buffered+st.Commands >= m.cfg.Turn.TotalCommands || m.bufferedBytes+st.Bytes+size > m.cfg.Turn.TotalBytes {
		m.emit(Refuse{Request: in.Request, Reply: sharding.Reject(sharding.ResourceExhausted,
			"too many commands wait for shard "+h.id.String()+" to start")})
		return
	}
	env := *in.Env
	h.buffer = append(h.buffer, Command{Request: in.Request, Epoch: in.Epoch, Env: &env})
	h.bytes += size
	m.buffered++
	m.bufferedBytes += size
}

// unbuffer takes out what waits for the claim of the shard.
func (m *Machine) unbuffer(h *held) []Command {
	waiting := h.buffer
	m.buffered -= len(waiting)
	m.bufferedBytes -= h.bytes
	h.buffer, h.bytes = nil, 0
	return waiting
}

// step runs the entity core and takes up what concerns the shards.
func (m *Machine) step(in turn.Input) { m.takeUp(m.turn.Step(m.now, in, m.out)) }

func (m *Machine) deliver(id sharding.ShardID, c *Command) {
	in := turn.Deliver{Request: c.Request, Shard: id, Env: c.Env}
	m.takeUp(m.turn.Deliver(m.now, &in, m.out))
}

// takeUp takes the outputs of a step of the entity core, and deals with what it tells
// of shards.
func (m *Machine) takeUp(out []Output) {
	m.out = out
	if events := m.turn.ShardEvents(); len(events) > 0 {
		m.shardEvents(slices.Clone(events)) // dealing with one may step the entity core
	}
}

func (m *Machine) shardEvents(events []turn.ShardEvent) {
	for _, e := range events {
		switch o := e.(type) {
		case turn.NotMine:
			m.notMine(o.Request, o.Shard, o.Epoch)
		case turn.Fenced:
			if h := m.shard(o.Shard); h != nil && h.epoch == o.Epoch {
				h.phase = stopping
				m.raiseFloor(o.Shard, o.Stored)
			}
		case turn.Drained:
			m.drained(o)
		}
	}
}

func (m *Machine) tick() {
	m.poll()
	m.register()
	m.claimAgain()
	m.tickLeave()
	m.tickJournal()
	m.step(turn.Tick{})
}

// claimAgain repeats claims that were not answered.
func (m *Machine) claimAgain() {
	if !m.unanswered {
		return // almost always: there may be many shards
	}
	m.unanswered = false
	for h := range m.shards() {
		switch {
		case h.phase != claiming || h.claimAt.IsZero():
		case m.now.Before(h.claimAt):
			m.unanswered = true
		default:
			h.claimAt = time.Time{}
			m.emit(Claim{Shard: h.id, Epoch: h.epoch})
		}
	}
}
