package router

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/backoff"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Machine is the core of a router. Create one with [New]; it is not safe for concurrent use.
type Machine struct {
	cfg   Config
	table *routetable.Table
	watch *routetable.Watcher

	requests map[RequestID]*request
	attempts map[Attempt]*attempt
	shards   map[sharding.ShardID]*shard // the shards that have commands here, or a refused epoch
	links    map[sharding.NodeID]*link   // by region incarnation: those that rows name, and those with unanswered attempts
	unplaced *shard                      // commands that wait for the first table
	// inquiries has the open FindShards calls, by the address of the region.
	inquiries map[string]*inquiry
	timers    timerHeap

	bytes int // sizes of all requests
	// deferred counts the deferred requests and their bytes.
	deferred  usage
	estimates map[kind]*replies.SizeEstimate
	expects   int // bytes of the replies to all requests
	held      int // bytes of replies that are not delivered
	waiting   int // requests not sent
	order     uint64
	next      Attempt

	coordinators      []string  // listed by discovery
	regions           []string  // listed by discovery
	active            string    // address of the active coordinator, if the router is fed
	candidatesChanged bool      // the watch must get the addresses to poll again
	idleAt            time.Time // when the router next looks for idle links
	jitter            backoff.Jitter
	tally             tally

	// Used during Step only.
	now   time.Time
	out   []Output
	dirty []*shard
	rests map[sharding.EntityID]bool // entities of the shard being flushed that have a resting command, see request.restsUntil

	// Free lists: every command needs one of each.
	spareRequests []*request
	spareAttempts []*attempt
	spareShards   []*shard
}

// maxSpare bounds each free list. A busy router has this many commands in flight; the lists take
// a megabyte.
const maxSpare = 1024

// reuse returns an element of a free list, with its old content, or a new one.
func reuse[T any](spare *[]*T) *T {
	last := len(*spare) - 1
	if last < 0 {
		return new(T)
	}
	one := (*spare)[last]
	*spare = (*spare)[:last]
	return one
}

// keep adds an element to a free list, if there is room.
func keep[T any](spare *[]*T, element *T) {
	if len(*spare) < maxSpare {
		*spare = append(*spare, element)
	}
}

// kind identifies the commands with one name of one type.
type kind struct {
	typ     sharding.EntityType
	command string
}

func kindOf(env *sharding.Envelope) kind { return kind{env.Entity.Type, env.Command} }

// clone copies the names, which may share memory with a request.
func (k kind) clone() kind {
	return kind{sharding.EntityType(strings.Clone(string(k.typ))), strings.Clone(k.command)}
}

// usage is the part of the limits that some commands take.
type usage struct{ commands, bytes int }

func (u *usage) add(r *request)    { u.commands, u.bytes = u.commands+1, u.bytes+r.size }
func (u *usage) remove(r *request) { u.commands, u.bytes = u.commands-1, u.bytes-r.size }

// request is one admitted command.
type request struct {
	id       RequestID
	env      sharding.Envelope // its deadline is set
	size     int
	expects  int       // expected size of its reply, in bytes
	order    uint64    // the command's number in admission order
	since    time.Time // when the command was admitted
	readOnly bool      // the command changes nothing, according to the table
	mustRead bool      // the sender relies on the command to change nothing
	resend   bool      // the command may be sent again although an attempt is in doubt
	attempts int
	refusals int // how many answers were refusals after which the command is sent again
	// restsUntil is the time before which the command is not sent, after such a refusal.
	restsUntil time.Time
	failure    string // what the last of these refusals said; empty: there was none

	shard      *shard
	prev, next *request // of the shard, by order

	// sent is true if the newest attempt, made at epoch, is unanswered. Otherwise the request
	// waits.
	sent       bool
	epoch      sharding.Epoch
	region     sharding.NodeID // of the newest attempt
	unanswered []Attempt       // all attempts that are unanswered, older ones too
	lost       bool            // some attempt ended without a definite answer
	// blocks is true if later commands of the shard wait for this one: it was sent at a superseded
	// epoch and must not be repeated.
	blocks bool
	// deferred is true if the command waits for the next owner of the shard, or has waited for it,
	// because the version of the present owner lacks the command.
	deferred bool

	timer timer
}

// inDoubt reports whether the command may have taken effect, or still may.
func (r *request) inDoubt() bool { return r.lost || len(r.unanswered) > 0 }

// attempt is one unanswered sending of a request. A request has at most one attempt at an epoch. A
// second attempt on the same link would gain nothing, because the region answers the first attempt,
// or the link is lost. It could do harm: if the region refused the first attempt but accepted a
// later command, the second attempt would put the request behind that command.
type attempt struct {
	id     Attempt
	r      *request
	epoch  sharding.Epoch
	region sharding.NodeID
	link   uint64
}

// newest reports whether this is the newest attempt of its request, and the request has not been
// put back into the queue since.
func (a *attempt) newest() bool { return a.r.sent && a.r.epoch == a.epoch }

// shard holds the admitted commands of one shard, in order of admission.
type shard struct {
	id          sharding.ShardID
	first, last *request
	count       int
	bytes       int
	waiting     int
	blocking    int            // requests with blocks set
	deferred    usage          // of requests with deferred set
	refused     sharding.Epoch // highest refused epoch; nothing is sent at it again
	departed    uint64         // highest order of a request that was dropped although it may have taken effect

	askAt        time.Time // when GetShardHome is sent next; zero: none is needed
	pausedUntil  time.Time // no command of the shard is sent before
	restsUntil   time.Time // when the next resting request can be sent; it may have passed
	blockedUntil time.Time // until when blocking requests, if there are any, hold up the later ones
	timer        timer
	dirty        bool
	known        bool // it is in Machine.shards
}

// link is the link to one region incarnation.
type link struct {
	region     sharding.NodeID
	rows       int       // rows that name the region as owner
	unanswered int       // attempts
	wanted     bool      // the driver keeps it up, or tries to
	neededAt   time.Time // when a command last needed it
	up         bool
	number     uint64
	// lacks has the commands that the region's version does not have, each with the message of
	// the region's refusal. The commands of a region incarnation never change.
	lacks map[kind]string
}

// New returns a router without a table. The configuration must be valid.
func New(cfg Config) *Machine {
	return &Machine{
		cfg:       cfg,
		table:     routetable.New(),
		watch:     routetable.NewWatcher(cfg.Watch),
		requests:  map[RequestID]*request{},
		attempts:  map[Attempt]*attempt{},
		shards:    map[sharding.ShardID]*shard{},
		links:     map[sharding.NodeID]*link{},
		estimates: map[kind]*replies.SizeEstimate{},
		unplaced:  &shard{},
		inquiries: map[string]*inquiry{},
		rests:     map[sharding.EntityID]bool{},
		jitter:    backoff.Jitter(cfg.Seed),
	}
}

// Table returns the router's copy of the route table, for reading between steps. At
// version zero there is none yet.
func (m *Machine) Table() *routetable.Table { return m.table }

// Stats counts the objects that the core holds.
type Stats struct {
	Requests int // admitted, not finished
	Bytes    int // of those
	Replies  int // bytes of replies, expected or not delivered
	Waiting  int // requests not sent
	Deferred int // requests that wait for a version with their command, or have waited for it
	Links    int // to regions, up or not
}

// Stats returns the current numbers.
func (m *Machine) Stats() Stats {
	return Stats{Requests: len(m.requests), Bytes: m.bytes, Replies: m.expects + m.held, Waiting: m.waiting, Deferred: m.deferred.commands, Links: len(m.links)}
}

// Step applies one input at time now, and appends to out what the driver must
// do, in that order.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	m.now, m.out = now, out
	switch in := in.(type) {
	case Submit:
		m.submit(&in)
	case Cancel:
		if r := m.requests[in.Request]; r != nil {
			m.abandoned(r.since)
			m.dropRequest(r)
		}
	case TurnedAway:
		m.tally.commands += uint64(max(in.Commands, 0))
		m.tally.refused += uint64(max(in.Commands, 0))
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
	case Replied:
		before := m.coordinator()
		m.replied(in)
		m.askSince(before)
	case Coordinators:
		m.coordinators, m.regions, m.candidatesChanged = slices.Clone(in.Addrs), slices.Clone(in.Regions), true
	case TableChange:
		before := m.coordinator()
		m.active = in.Active
		m.take(in.Delta)
		m.askSince(before)
	case Stop:
		m.stop()
	case Tick:
		m.tick()
		m.closeIdle()
	}
	return m.end()
}

// quiet is the wait when no timer is pending.
const quiet = time.Hour

// Due returns the time before which a [Tick] does nothing, unless another input comes.
func (m *Machine) Due() time.Time {
	due := m.now.Add(quiet)
	earlier := func(t time.Time) {
		if t.Before(due) {
			due = t
		}
	}
	if len(m.timers.list) > 0 {
		earlier(m.timers.list[0].at)
	}
	if m.cfg.LinkIdle != 0 && len(m.links) > 0 {
		earlier(m.idleAt)
	}
	if at, ok := m.watch.Due(); ok && !m.cfg.Fed {
		earlier(at)
	}
	return due
}

// Submit is Step for the most frequent input; the caller keeps ownership of *in.
func (m *Machine) Submit(now time.Time, in *Submit, out []Output) []Output {
	m.now, m.out = now, out
	m.submit(in)
	return m.end()
}

// Answer is Step for the other most frequent input; the caller keeps ownership of *in.
func (m *Machine) Answer(now time.Time, in *Answer, out []Output) []Output {
	m.now, m.out = now, out
	m.answer(in)
	return m.end()
}

// end finishes every step.
func (m *Machine) end() []Output {
	m.flushTouched()
	m.sendInquiries()
	m.poll()
	out := m.out
	m.out = nil
	return out
}

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

// touch marks a shard, so that flushTouched sends its commands.
func (m *Machine) touch(s *shard) {
	if !s.dirty && s != m.unplaced {
		s.dirty = true
		m.dirty = append(m.dirty, s)
	}
}

// flushTouched sends what can be sent in every shard that was touched.
func (m *Machine) flushTouched() {
	for i := 0; i < len(m.dirty); i++ { // flush may touch more shards
		s := m.dirty[i]
		s.dirty = false
		m.flush(s)
		m.rearm(s)
	}
	clear(m.dirty)
	m.dirty = m.dirty[:0]
}

// tick handles the timers that are due.
func (m *Machine) tick() {
	for {
		t := m.timers.due(m.now)
		switch {
		case t == nil:
			return
		case t.request != nil:
			m.expire(t.request)
		default:
			m.shardDue(t.shard)
		}
	}
}

// poll keeps one poll of the table open, unless the router is fed.
func (m *Machine) poll() {
	if m.cfg.Fed {
		return
	}
	if m.candidatesChanged {
		m.candidatesChanged = false
		fallbacks := slices.Clone(m.regions)
		for _, l := range m.sortedLinks() {
			fallbacks = append(fallbacks, l.region.Addr)
		}
		m.watch.SetCandidates(m.coordinators, fallbacks)
	}
	if to, since, ask := m.watch.Poll(m.now); ask {
		m.emit(Send{To: to, Msg: control.WatchTable{Version: since, Copy: m.watch.PollsCopy(), Card: m.card(to)}})
	}
}

// replied takes the answer to a call. It reports false for a message that cannot answer one.
func (m *Machine) replied(in Replied) bool {
	switch in.Asked.(type) {
	case control.WatchTable:
		return m.watched(in)
	case control.FindShards:
		found, is := in.Msg.(control.ShardsFound)
		if !is && in.Msg != nil {
			return false
		}
		m.found(in.From, found.Rows)
		return true
	}
	return false
}

// watched takes the answer to a poll of the table.
func (m *Machine) watched(in Replied) bool {
	switch msg := in.Msg.(type) {
	case control.TableChanged:
		m.tableChanged(in.From, msg.Delta)
	case control.NotActive:
		m.watch.NotActive(m.now, in.From, msg.Active, msg.Term)
	case nil:
		m.watch.Failed(m.now, in.From)
	default:
		return false
	}
	return true
}

// Generation returns the generation of the route table's journal; 0: not known.
func (m *Machine) Generation() sharding.Generation { return m.table.Generation() }

// tableChanged takes the answer to a poll.
func (m *Machine) tableChanged(from string, d sharding.TableDelta) {
	if m.watch.Changed(m.now, from, d) {
		m.take(d)
	}
}

// take merges what is new in the table, and drops the rows that a full table of a new term does not have.
func (m *Machine) take(d sharding.TableDelta) {
	of := d.Generation
	//mutant:do router-generation of = 0
	d.Generation = of
	m.table.Declare(d)
	for _, row := range d.Rows {
		m.merge(row)
	}
	for _, row := range m.table.Advance(d) {
		m.dropRow(row)
	}
	m.placeAll()
}

// merge takes a row from any source. If the row is newer than the known one, merge acts on it.
func (m *Machine) merge(row sharding.Row) {
	old, _ := m.table.Row(row.Shard)
	if !m.table.Merge(row) {
		return
	}
	m.countOwner(row.Owner, 1)
	m.countOwner(old.Owner, -1)
	s := m.shards[row.Shard]
	if s == nil {
		return
	}
	if row.Epoch > s.refused {
		s.askAt = time.Time{}
	}
	if row.Phase == sharding.Serving {
		m.reenter(s, row.Epoch)
	}
	m.touch(s)
}

// dropRow acts on a row that is no longer in the table: it requests a home at once.
func (m *Machine) dropRow(row sharding.Row) {
	m.countOwner(row.Owner, -1)
	if s := m.shards[row.Shard]; s != nil {
		s.askAt = time.Time{}
		m.touch(s)
	}
}

// reenter puts commands that were sent at older epochs back into the queue. The new epoch is claimed, so these
// attempts cannot take effect any more.
func (m *Machine) reenter(s *shard, epoch sharding.Epoch) {
	for r := s.first; r != nil; r = r.next {
		switch {
		case !r.sent || r.epoch >= epoch || r.blocks: //mutant:true re-entry
		case r.resend:
			m.requeue(r)
		default:
			//mutant:do doubt-holds continue
			if s.blocking == 0 {
				s.blockedUntil = m.now.Add(m.cfg.UnkeyedWait)
			}
			r.blocks = true
			s.blocking++
		}
	}
}

// sortedShards returns the shards with commands or refusals, by name.
func (m *Machine) sortedShards() []*shard {
	list := make([]*shard, 0, len(m.shards))
	for _, id := range slices.SortedFunc(maps.Keys(m.shards), sharding.ShardID.Compare) {
		list = append(list, m.shards[id])
	}
	return list
}
