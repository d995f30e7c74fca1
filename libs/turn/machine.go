package turn

import (
	"time"

	"github.com/roost-cluster/roost/libs/heavyhitters"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Machine executes the entities of all shards that a region has opened. It is
// not safe for concurrent use.
type Machine struct {
	cfg             Config
	types           []*typeState // in the order of the configuration
	lastType        *typeState   // the result of the last typ call
	slots           slots
	nodes           *passivation.EntityTable // of the policies of all types, by slot
	victims         []passivation.Entity     // reused
	heap            heapState
	lastIncarnation uint32 // number of the newest incarnation
	lastTimer       uint64 // number of the newest timer firing
	lastTurn        uint64
	alarms          alarmHeap
	// sweepAt is the number of alarms at which obsolete ones are removed.
	sweepAt   int
	lastOrder uint64 // of the newest alarm
	// noWork is shared by all idle entities. It stays empty.
	noWork *work
	// notJournaled is shared by all entities of volatile types. It stays zero.
	notJournaled *journaled
	recent       recentIDs
	loads        loads
	workPool     []*work
	commandPool  []*command           // for reuse
	answers      block[Answer]        // emitted since Recycle
	unwatched    block[UnwatchedDone] // likewise
	hot          *heavyhitters.Sketch // which entities take most
	stats        Stats
	keptStats    KeptStats
	limit        Usage // see Limit
	reserve      Usage // the part of limit that is for commands with a chain
	resultBytes  int   // bytes of finished turns that wait for the journal
	now          time.Time
	out          []Output
	events       []ShardEvent // of the step
}

// Usage counts the machine's use of the resources that have a limit for all entities together.
type Usage struct {
	Commands int // delivered, not answered
	Bytes    int // of those commands
	Loads    int // not answered by the driver
}

// Stats describes what the core holds, and counts events since its start.
type Stats struct {
	Usage
	Entities        int // alive or being loaded
	Waiting         int // turns that wait for the answer of another entity
	Activations     uint64
	Passivations    Passivations
	Unknown         uint64 // appends whose outcome was unknown
	Duplicates      uint64 // commands answered with a stored or joined reply
	Abandoned       uint64 // turns abandoned at a drain timeout
	FailedUnwatched uint64 // accepted tells, and commands of timers and wake-ups, that did not succeed and do not run again
	Spoiled         uint64 // turns discarded after they had staged events
	Asks            uint64 // commands that turns have sent to other entities
	Deadlocks       uint64 // asks that were given up because turns waited in a circle
}

// Add adds the counts of another machine.
func (s *Stats) Add(o Stats) {
	s.Commands += o.Commands
	s.Bytes += o.Bytes
	s.Loads += o.Loads
	s.Waiting += o.Waiting
	s.Entities += o.Entities
	s.Activations += o.Activations
	s.Passivations.add(o.Passivations)
	s.Unknown += o.Unknown
	s.Duplicates += o.Duplicates
	s.Abandoned += o.Abandoned
	s.FailedUnwatched += o.FailedUnwatched
	s.Spoiled += o.Spoiled
	s.Asks += o.Asks
	s.Deadlocks += o.Deadlocks
}

type typeState struct {
	Type
	shards []*shard // by index; nil: not open
	// entities has the entities of all shards of the type: a lookup in one large table
	// touches less memory than finding the small table of the shard first.
	entities   idTable
	policy     *passivation.Policy
	bound      *passivation.Bound
	bytes      int                                        // of the entities whose size is known
	quarantine map[sharding.EntityID]sharding.Quarantined // see SetQuarantine
	// passivations counts the passivations of this type.
	passivations Passivations
}

// shard is one opened shard. What every command needs comes first: it is in few lines of the processor's cache.
type shard struct {
	id       sharding.ShardID
	epoch    sharding.Epoch
	phase    shardPhase
	typ      *typeState
	work     ShardWork // done since the shard was opened
	entities []uint32  // their slots, in no order
	fence    fenceReads
	kept     keptStates // of entities that are not alive
	bytes    int        // of the entities whose size is known
	// wrote are the forms of all events that were handed to the journal, as indexes into
	// the Writes of the type.
	wrote sharding.FormSet
}

type shardPhase uint8

const (
	open     shardPhase = iota + 1
	draining            // finishes the commands it accepted
	aborting            // only settles appends in progress
)

// New returns a machine. The configuration must be valid.
func New(cfg Config) *Machine {
	m := &Machine{
		cfg:          cfg,
		slots:        make(slots, 1),
		nodes:        &passivation.EntityTable{},
		sweepAt:      minSweep,
		noWork:       &work{},
		notJournaled: &journaled{},
		recent:       recentIDs{size: cfg.RecentIDs},
		loads:        newLoads(),
		limit:        Usage{Commands: cfg.TotalCommands, Bytes: int(cfg.TotalBytes), Loads: cfg.TotalLoads},
	}
	m.reserve = m.limit.reserved()
	m.hot = heavyhitters.New(cfg.Hot, cfg.HotSeed)
	for _, t := range cfg.Types {
		m.types = append(m.types, &typeState{
			Type: t, shards: make([]*shard, t.Desc.Shards),
			policy: passivation.New(t.Passivation, int(t.Desc.Shards), m.nodes), bound: passivation.NewBound(cfg.HeapBytes, limitOf(t.Passivation)),
		})
	}
	return m
}

// Stats returns the current counts.
func (m *Machine) Stats() Stats {
	s := m.stats
	s.Usage = m.Usage()
	for _, ts := range m.types {
		s.Passivations.add(ts.passivations)
	}
	return s
}

// Usage returns what counts towards the limits for all entities.
func (m *Machine) Usage() Usage {
	u := m.stats.Usage
	u.Loads = len(m.loads.inFlight)
	return u
}

// Limit replaces the limits for all entities together, which until then are taken from the
// configuration, and the part of them that is for commands with a chain. It lets several machines share limits. What the machine holds already
// stays, but nothing is added while a limit is reached.
func (m *Machine) Limit(limit, reserve Usage) { m.limit, m.reserve = limit, reserve }

// FullText is the message of a refusal because of the limits for all entities together. If several machines
// share the limits, it refers to the limits of one machine.
const FullText = "too many commands, or too large ones, wait in the entity's part of the region"

// ShardEvents returns what the last step told of shards, in order. The slice is
// reused by the next step.
func (m *Machine) ShardEvents() []ShardEvent { return m.events }

// Epoch returns the epoch at which the shard is open, 0 if it is not.
func (m *Machine) Epoch(id sharding.ShardID) sharding.Epoch {
	if s := m.shard(id); s != nil {
		return s.epoch
	}
	return 0
}

// Takes reports whether a shard is open at an epoch and does not drain.
func (m *Machine) Takes(id sharding.ShardID, epoch sharding.Epoch) bool {
	s := m.shard(id)
	return s != nil && s.epoch == epoch && s.phase == open
}

// typ returns the type with the name, nil if there is none. Consecutive commands
// are mostly for the same type, so the last result is cached.
func (m *Machine) typ(name sharding.EntityType) *typeState {
	if m.lastType != nil && m.lastType.Desc.Type == name {
		return m.lastType
	}
	for _, ts := range m.types {
		if ts.Desc.Type == name {
			m.lastType = ts
			return ts
		}
	}
	return nil
}

// shard returns the open shard with the id, nil if there is none.
func (m *Machine) shard(id sharding.ShardID) *shard {
	ts := m.typ(id.Type)
	if ts == nil || uint64(id.Index) >= uint64(len(ts.shards)) {
		return nil
	}
	return ts.shards[id.Index]
}

// NextAlarm returns when the next Tick has something to do: a timer, a retry, a
// passivation. The zero time means that nothing is scheduled.
func (m *Machine) NextAlarm() time.Time {
	var t time.Time
	if len(m.alarms) > 0 {
		t = m.alarms[0].at
	}
	for _, ts := range m.types {
		if at := ts.policy.NextExpiry(); !at.IsZero() && (t.IsZero() || at.Before(t)) {
			t = at
		}
	}
	return t
}

// Step applies one input at time now, and appends to out what the driver must
// do, in order.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	m.now, m.out, m.events = now, out, m.events[:0]
	switch in := in.(type) {
	case Deliver:
		m.deliver(&in)
	case Fire:
		m.fireWakeup(&in)
	case StartEntity:
		m.startEntity(&in)
	case TurnDone:
		m.turnDone(&in)
	case Appended:
		m.appended(in)
	case FenceRead:
		m.fenceRead(in)
	case SendsEnded:
		m.sendsEnded(in)
	case Loaded:
		m.loaded(&in)
	case LookedUp:
		m.lookedUp(in)
	case ReadSendDone:
		m.readSendDone(&in)
	case Ask:
		m.startAsk(&in)
	case AskAnswered:
		m.askAnswered(in)
	case WithdrawAsk:
		m.withdrawAsk(in)
	case Stopped:
		m.stopped(in)
	case Open:
		m.open(in)
	case Drain:
		m.drain(in.Shard)
	case Abort:
		m.abort(in.Shard)
	case SetPassivation:
		m.setPassivation(&in)
	case SetQuarantine:
		m.setQuarantine(in)
	case Collected:
		m.collected(in)
	case Tick:
		m.tick()
	}
	out = m.out
	m.out = nil
	return out
}

// Deliver is Step for the input of that name. It exists because passing an Input
// allocates, and this one comes with every command.
func (m *Machine) Deliver(now time.Time, in *Deliver, out []Output) []Output {
	m.now, m.out, m.events = now, out, m.events[:0]
	m.deliver(in)
	out, m.out = m.out, nil
	return out
}

// TurnDone is Step for the input of that name, without the allocation.
func (m *Machine) TurnDone(now time.Time, in *TurnDone, out []Output) []Output {
	m.now, m.out, m.events = now, out, m.events[:0]
	m.turnDone(in)
	out, m.out = m.out, nil
	return out
}

// Loaded is Step for the input of that name, without the allocation.
func (m *Machine) Loaded(now time.Time, in *Loaded, out []Output) []Output {
	m.now, m.out, m.events = now, out, m.events[:0]
	m.loaded(in)
	out, m.out = m.out, nil
	return out
}

// Recycle allows the machine to reuse the memory of every [Answer] and [UnwatchedDone] emitted so far.
// A driver that never calls it may keep them.
func (m *Machine) Recycle() {
	m.answers.recycle()
	m.unwatched.recycle()
}

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

func (m *Machine) emitShardEvent(e ShardEvent) { m.events = append(m.events, e) }

// emitAnswer answers a request.
func (m *Machine) emitAnswer(r RequestID, reply *sharding.Reply) {
	out := m.answers.next()
	*out = Answer{Request: r, Reply: *reply}
	m.emit(out)
}

// block has the memory of outputs of one kind. When it is full, there is a new one of twice the size;
// outputs emitted before stay in the old one.
type block[T any] []T

// minBlock and maxBlock bound how many outputs a block holds: few if few are emitted between two calls of
// Recycle, and never more than a driver's large batch.
const (
	minBlock = 8
	maxBlock = 1024
)

// next returns memory for one more output.
func (b *block[T]) next() *T {
	n := len(*b)
	if n == cap(*b) {
		*b, n = make([]T, 0, min(max(minBlock, 2*n), maxBlock)), 0
	}
	*b = (*b)[:n+1]
	return &(*b)[n]
}

// recycle lets the memory be used again.
func (b *block[T]) recycle() {
	clear(*b)
	*b = (*b)[:0]
}

// find returns the entity that an answer of the driver is for, nil if that
// incarnation has ended.
func (m *Machine) find(inc Incarnation) *entity {
	e := m.slots.at(inc)
	// Invariant: what an ended incarnation has read or done does not reach a later incarnation.
	// Mutants: incarnation
	if e == nil || e.inc != inc { //mutant:false incarnation e.inc != inc
		return nil
	}
	return e
}

// noAlarm is the delay that AlarmAt reports if there is no alarm.
const noAlarm = time.Hour

// AlarmAt returns when the next alarm is due: a timer of an entity, a deadline or the like. Without one,
// that is in a long time.
func (m *Machine) AlarmAt() time.Time {
	if len(m.alarms) == 0 {
		return m.now.Add(noAlarm)
	}
	return m.alarms[0].at
}

func (m *Machine) tick() {
	for len(m.alarms) > 0 && !m.alarms[0].at.After(m.now) {
		m.handleAlarm(m.alarms.pop())
	}
	m.passivateIdle()
}
