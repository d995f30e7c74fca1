package gateway

import (
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Machine is the gateway core. Make one with [New]; it is not safe for
// concurrent use.
type Machine struct {
	cfg   Config
	table *routetable.Table
	watch *routetable.Watcher

	requests map[RequestID]*request
	attempts map[Attempt]*attempt
	shards   map[sharding.ShardID]*shard // that hold commands or were refused
	links    map[sharding.NodeID]*link   // that rows name or attempts went to
	unplaced *shard                      // commands that wait for the first table
	timers   timerHeap

	bytes   int // of all requests
	kinds   map[kind]*replies.Kind
	expects int // bytes of the replies to all requests
	held    int // bytes of replies that are not delivered
	waiting int // requests not sent
	order   uint64
	next    Attempt

	coordinators []string // that discovery knows
	regions      []string // that discovery knows
	moved        bool     // the watch must be told the candidates anew

	// Only during Step.
	now   time.Time
	out   []Output
	dirty []*shard

	// What is over, to be used again: every command needs one of each.
	spareRequests []*request
	spareAttempts []*attempt
	spareShards   []*shard
}

// maxSpare is how many of each kind are kept to be used again: as many as are
// under way in a busy gateway, a megabyte in all.
const maxSpare = 1024

// reuse is a spare one as it was left, or a new one.
func reuse[T any](spare *[]*T) *T {
	last := len(*spare) - 1
	if last < 0 {
		return new(T)
	}
	one := (*spare)[last]
	*spare = (*spare)[:last]
	return one
}

// keep makes one spare, if there is room.
func keep[T any](spare *[]*T, one *T) {
	if len(*spare) < maxSpare {
		*spare = append(*spare, one)
	}
}

// kind is what commands are of whose replies are of a size.
type kind struct {
	typ     sharding.EntityType
	command string
}

// request is one admitted command.
type request struct {
	id       RequestID
	env      sharding.Envelope // its deadline is set
	size     int
	expects  int    // bytes of its reply
	order    uint64 // of admission
	readOnly bool   // changes nothing, by what the table says
	resend   bool   // may be sent again after doubt
	attempts int

	shard      *shard
	prev, next *request // of the shard, by order

	// sent: the newest attempt, made at epoch, is unanswered. Else it waits.
	sent   bool
	epoch  sharding.Epoch
	region sharding.NodeID // where it went
	live   []Attempt       // unanswered, older ones included
	lost   bool            // some attempt ended without a definite answer
	// holds: sent at an epoch that is superseded, and must not be repeated:
	// what came after it waits.
	holds bool

	silence time.Duration // the next wait for an answer before it is sent again
	retryAt time.Time
	timer   timer
}

// inDoubt tells whether the command may have taken effect, or still may.
func (r *request) inDoubt() bool { return r.lost || len(r.live) > 0 }

// attempt is one unanswered sending.
type attempt struct {
	id     Attempt
	r      *request
	epoch  sharding.Epoch
	region sharding.NodeID
	link   uint64
}

// shard holds the admitted commands of one shard, in order of admission.
type shard struct {
	id          sharding.ShardID
	first, last *request
	count       int
	bytes       int
	waiting     int
	holding     int            // requests that hold up what came later
	refused     sharding.Epoch // highest epoch that was refused; never sent at again
	passed      uint64         // highest order of a request that is gone and may have taken effect

	askAt    time.Time // next GetShardHome; zero: none wanted
	pausedTo time.Time // nothing is sent before
	settleBy time.Time // what holds is given up, if holding > 0
	timer    timer
	dirty    bool
	known    bool // is among the machine's shards
}

// link is the way to one region incarnation.
type link struct {
	region sharding.NodeID
	rows   int // that name it as owner
	live   int // attempts that went there and are unanswered
	up     bool
	number uint64
}

// New is a gateway that knows nothing yet. The configuration must be valid.
func New(cfg Config) *Machine {
	return &Machine{
		cfg:      cfg,
		table:    routetable.New(),
		watch:    routetable.NewWatcher(cfg.Watch),
		requests: map[RequestID]*request{},
		attempts: map[Attempt]*attempt{},
		shards:   map[sharding.ShardID]*shard{},
		links:    map[sharding.NodeID]*link{},
		kinds:    map[kind]*replies.Kind{},
		unplaced: &shard{},
	}
}

// Table is the gateway's copy of the route table, for reading between steps.
// At version zero nothing is known yet: the gateway is not ready.
func (m *Machine) Table() *routetable.Table { return m.table }

// Stats counts what the core holds.
type Stats struct {
	Requests int // admitted, not finished
	Bytes    int // of those
	Replies  int // bytes of replies, expected or not delivered
	Waiting  int // of those not sent
	Links    int // to regions, up or not
}

// Stats is what the core holds now.
func (m *Machine) Stats() Stats {
	return Stats{Requests: len(m.requests), Bytes: m.bytes, Replies: m.expects + m.held, Waiting: m.waiting, Links: len(m.links)}
}

// Step applies in at now and appends to out what the driver must do, in that
// order.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	m.now, m.out = now, out
	switch in := in.(type) {
	case Submit:
		m.submit(&in)
	case Cancel:
		if r := m.requests[in.Request]; r != nil {
			m.forget(r)
		}
	case Delivered:
		m.held -= in.Bytes
	case Answer:
		m.answer(&in)
	case NotMine:
		m.notMine(in)
	case SendFailed:
		m.sendFailed(in)
	case LinkUp:
		m.linkUp(in)
	case LinkDown:
		m.linkDown(in)
	case TableChanged:
		m.tableChanged(in)
	case NotActive:
		m.watch.NotActive(now, in.From, in.Active, in.Term)
	case WatchFailed:
		m.watch.Failed(now, in.From)
	case Coordinators:
		m.coordinators, m.regions, m.moved = slices.Clone(in.Addrs), slices.Clone(in.Regions), true
	case Tick:
		m.tick()
	}
	return m.end()
}

// Submit is Step for the most frequent input, which stays the caller's.
func (m *Machine) Submit(now time.Time, in *Submit, out []Output) []Output {
	m.now, m.out = now, out
	m.submit(in)
	return m.end()
}

// Answer is Step for the other most frequent input, which stays the caller's.
func (m *Machine) Answer(now time.Time, in *Answer, out []Output) []Output {
	m.now, m.out = now, out
	m.answer(in)
	return m.end()
}

// end does what every step ends with.
func (m *Machine) end() []Output {
	m.settle()
	m.poll()
	out := m.out
	m.out = nil
	return out
}

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

// touch marks a shard to be looked at before the step ends.
func (m *Machine) touch(s *shard) {
	if !s.dirty && s != m.unplaced {
		s.dirty = true
		m.dirty = append(m.dirty, s)
	}
}

// settle lets every shard that was touched go on as far as it can.
func (m *Machine) settle() {
	for i := 0; i < len(m.dirty); i++ { // flushing may touch again
		s := m.dirty[i]
		s.dirty = false
		m.flush(s)
		m.rearm(s)
	}
	clear(m.dirty)
	m.dirty = m.dirty[:0]
}

// tick runs what is due.
func (m *Machine) tick() {
	for {
		t := m.timers.due(m.now)
		switch {
		case t == nil:
			return
		case t.request != nil:
			m.requestDue(t.request)
		default:
			m.shardDue(t.shard)
		}
	}
}

// poll keeps one watch of the table outstanding.
func (m *Machine) poll() {
	if m.moved {
		m.moved = false
		fallbacks := slices.Clone(m.regions)
		for _, l := range m.sortedLinks() {
			fallbacks = append(fallbacks, l.region.Addr)
		}
		m.watch.SetCandidates(m.coordinators, fallbacks)
	}
	if to, since, ask := m.watch.Poll(m.now); ask {
		m.emit(Watch{To: to, Version: since})
	}
}

// tableChanged merges what a watch brought. The version goes first: it does
// not matter to anybody before the step ends.
func (m *Machine) tableChanged(in TableChanged) {
	if !m.watch.Changed(m.now, in.From, in.Delta) {
		return
	}
	m.table.Apply(sharding.TableDelta{Version: in.Delta.Version, Types: in.Delta.Types})
	for _, row := range in.Delta.Rows {
		m.merge(row)
	}
	m.placeAll()
}

// merge takes a row from anywhere and acts on it if it is newer.
func (m *Machine) merge(row sharding.Row) {
	old, _ := m.table.Row(row.Shard)
	if !m.table.Merge(row) {
		return
	}
	m.named(row.Owner, 1)
	m.named(old.Owner, -1)
	s := m.shards[row.Shard]
	if s == nil {
		return
	}
	if row.Epoch > s.refused {
		s.askAt = time.Time{}
	}
	if row.Phase == sharding.Serving {
		m.supersede(s, row.Epoch)
	}
	m.touch(s)
}

// named counts the rows that name a region, and connects to it with the first.
func (m *Machine) named(region sharding.NodeID, change int) {
	if region.IsZero() {
		return
	}
	l := m.links[region]
	if l == nil {
		l = &link{region: region}
		m.links[region] = l
		m.moved = true
		m.emit(Connect{Region: region})
	}
	l.rows += change
	m.release(l)
}

// release closes a link that no row names and no answer is expected from.
func (m *Machine) release(l *link) {
	if l.rows == 0 && l.live == 0 {
		delete(m.links, l.region)
		m.moved = true
		m.emit(Disconnect{Region: l.region})
	}
}

// supersede puts back what was sent at older epochs: the new one is claimed,
// so they cannot take effect any more.
func (m *Machine) supersede(s *shard, epoch sharding.Epoch) {
	for r := s.first; r != nil; r = r.next {
		switch {
		case !r.sent || r.epoch >= epoch || r.holds || mutant.On("re-entry"):
		case r.resend:
			m.wait(r)
		default:
			if mutant.On("doubt-holds") {
				continue
			}
			if s.holding == 0 {
				s.settleBy = m.now.Add(m.cfg.UnkeyedWait)
			}
			r.holds = true
			s.holding++
		}
	}
}

// sortedShards are the shards with commands or refusals, by name.
func (m *Machine) sortedShards() []*shard {
	list := make([]*shard, 0, len(m.shards))
	for _, id := range slices.SortedFunc(maps.Keys(m.shards), sharding.ShardID.Compare) {
		list = append(list, m.shards[id])
	}
	return list
}

func (m *Machine) sortedLinks() []*link {
	list := make([]*link, 0, len(m.links))
	for _, id := range slices.SortedFunc(maps.Keys(m.links), sharding.NodeID.Compare) {
		list = append(list, m.links[id])
	}
	return list
}
