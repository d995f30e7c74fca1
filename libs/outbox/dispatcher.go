package outbox

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/backoff"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/priority"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Dispatcher delivers what the entities of the open shards send. It is not safe for
// concurrent use.
type Dispatcher struct {
	cfg     Config
	shards  []*shard // in the order in which they were opened
	byID    map[sharding.ShardID]*shard
	targets map[sharding.Entity]*target // those with deliveries
	types   []*typeQueue                // of targets, in the order in which they first came up
	retries priority.Queue[*pair]
	// deliveries are those that are not answered, taking the pairs whose answer a command of
	// the sender takes now.
	deliveries map[uint64]*delivery
	taking     map[sendName]*pair
	lastNumber uint64          // of deliveries and acks
	acks       map[uint64]*ack // under way
	refused    int             // sends whose ends were not stored and are to be stored again
	acksAt     time.Time       // when the first ones are due; zero: there are none
	// reads are under way.
	reads       map[uint64]*reading
	lastRead    uint64
	readPause   int       // failed reads in a row
	readsAfter  time.Time // no read begins before
	scanAt      time.Time // when the shards are looked at again; zero: never
	scanFrom    int       // where the next scan of the shards begins
	noRoom      bool      // a shard waits until sends have left the memory
	sends       int
	bytes       int
	sourceCount int
	failing     map[*pair]struct{}
	died        map[sendName]Died // the last dead letters, for operators
	diedOrder   []sendName
	lastOrder   uint64
	jitter      backoff.Jitter
	// The clock of the store was clock, in Unix milliseconds, at clockAt.
	clock   int64
	clockAt time.Time
	stats   Stats
	now     time.Time
	out     *Outputs
}

// typeQueue has the pairs whose targets are of one type and whose turn it is.
type typeQueue struct {
	name     sharding.EntityType
	ready    []*pair
	underWay int
}

// target is an entity to which commands are under way.
type target struct {
	underWay int
	waiting  []*pair // until there are fewer
}

// shard is an open shard.
type shard struct {
	id      sharding.ShardID
	epoch   sharding.Epoch
	closed  bool
	sources map[sharding.Entity]*source
	// complete says that there are pending sends of no entity that is not in sources.
	complete bool
	after    Position  // how far the sweep has come
	sweepAt  time.Time // when the next page of it is read
	reading  bool
	wanted   []*source // to be read by themselves
	// sweepNext says that it is the turn of the sweep, if both are due.
	sweepNext bool
	// idle are sources of which nothing is pending. They are remembered until the read under
	// way has ended, because the page may be older.
	idle []*source
	// missed says that, since the sweep began, sources were forgotten that have pending sends:
	// the sweep may have passed them.
	missed bool
	// dropped names the sends that operators have dropped while a read was under way. The page of the
	// read may still have these sends.
	dropped []sendName
	// ended are sends whose end is to be stored at ackAt.
	ended []*send
	ackAt time.Time
	// refused are acks that were not stored, and wait to be tried again.
	refused []*ack
}

// source is an entity with pending sends.
type source struct {
	shard  *shard
	entity sharding.Entity
	pairs  map[sharding.Entity]*pair // by target
	held   int                       // sends in memory
	// refused is how many of them are in shard.refused.
	refused int
	// upTo is the sequence number up to which all pending sends are in rows.
	upTo uint64
	// more says that there may be others behind it. The source is then in shard.wanted, or is
	// being read, or waits for a sweep.
	more   bool
	wanted bool // it is in shard.wanted
}

// send is a send in memory.
type send struct {
	Pending
	source *source
	seq    uint64
	at     time.Time // when its record was stored
	size   int
	// unsure says that an attempt was not answered, or that its record was read from the
	// journal, so that one may have been made before: whether it had an effect is not known.
	unsure bool
	// mayStillRun says that the target has refused the last attempt and could execute the next one,
	// because it does not remember the refusal. Before the end of such a send is stored, the next
	// owner of the shard may deliver it again.
	mayStillRun bool
	// answer is what its sender is to be told; nil: the target has not answered.
	answer *sharding.Reply
	// dropped says that an operator has dropped the send while an attempt was under way. The send is
	// forgotten when the attempt has ended.
	dropped bool
	// Of one that has ended:
	as sharding.SendState
}

// New returns a dispatcher. The configuration must be valid.
func New(cfg Config) *Dispatcher {
	return &Dispatcher{
		cfg: cfg, byID: map[sharding.ShardID]*shard{}, targets: map[sharding.Entity]*target{},
		failing: map[*pair]struct{}{}, died: map[sendName]Died{},
		deliveries: map[uint64]*delivery{}, taking: map[sendName]*pair{}, acks: map[uint64]*ack{}, reads: map[uint64]*reading{}, jitter: backoff.Jitter(cfg.Seed),
	}
}

// Step applies one input at time now, and appends to out what must be done.
func (d *Dispatcher) Step(now time.Time, in Input, out *Outputs) {
	d.now, d.out = now, out
	switch in := in.(type) {
	case Open:
		d.open(in)
	case Close:
		d.close(in.Shard)
	case Page:
		d.page(&in)
	case Answered:
		d.answered(&in)
	case Acked:
		d.acked(in)
	case Tick:
	}
	d.advance()
	d.out = nil
}

// Observe does what Step does for an event of the [turn.Machine]: a [turn.SendsStored], a
// [turn.SendDropped], a [turn.WakesUnknown] or a [turn.FiringEnded]. It ignores all others.
func (d *Dispatcher) Observe(now time.Time, e turn.ShardEvent, out *Outputs) {
	d.now, d.out = now, out
	switch e := e.(type) {
	case turn.SendsStored:
		d.stored(&e)
	case turn.SendDropped:
		d.dropped(&e)
	case turn.WakesUnknown:
		if s := d.shard(e.Shard, e.Epoch); s != nil {
			d.lookAt(s, e.Entity)
		}
	case turn.FiringEnded:
		if e.Ref.Kind == sharding.SendWake {
			d.taken(&e)
		}
	default:
		d.out = nil
		return
	}
	d.advance()
	d.out = nil
}

// shard returns the shard if it is open at the epoch, else nil.
func (d *Dispatcher) shard(id sharding.ShardID, epoch sharding.Epoch) *shard {
	if s := d.byID[id]; s != nil && s.epoch == epoch {
		return s
	}
	return nil
}

func (d *Dispatcher) open(in Open) {
	d.close(in.Shard)
	s := &shard{id: in.Shard, epoch: in.Epoch, sources: map[sharding.Entity]*source{}, after: Position{Shard: in.Shard}, sweepAt: d.now}
	d.byID[in.Shard] = s
	d.shards = append(d.shards, s)
	d.scanBy(d.now)
}

// close forgets a shard. What has ended and is not stored yet is stored now: the journal
// takes it until the next owner has claimed the shard.
func (d *Dispatcher) close(id sharding.ShardID) {
	s := d.byID[id]
	if s == nil {
		return
	}
	d.storeEnded(s)
	s.closed = true
	delete(d.byID, id)
	d.shards = slices.DeleteFunc(d.shards, func(o *shard) bool { return o == s })
	for n, a := range d.acks { // order-free: all of the shard are removed
		if a.source.shard == s {
			delete(d.acks, n)
			for _, x := range a.sends {
				d.release(x)
			}
		}
	}
	for _, src := range s.sorted() {
		d.forget(src)
	}
	d.forgetDied(id)
}

// forget removes a source from memory, and its sends that have not ended. What is under way is
// ignored when it is answered.
func (d *Dispatcher) forget(src *source) {
	for _, p := range src.sorted() {
		for _, x := range p.held() {
			d.release(x)
		}
		d.unqueue(p)
		delete(d.failing, p)
	}
	d.dropRefused(src)
	src.pairs = nil
	if src.wanted {
		src.shard.wanted = slices.DeleteFunc(src.shard.wanted, func(o *source) bool { return o == src })
	}
	d.remove(src)
}

func (d *Dispatcher) remove(src *source) {
	if src.shard.sources[src.entity] == src {
		delete(src.shard.sources, src.entity)
		d.sourceCount--
	}
}

// release counts a send as gone from memory.
func (d *Dispatcher) release(x *send) {
	d.sends--
	d.bytes -= x.size
	x.source.held--
	if d.noRoom {
		d.noRoom = false
		d.scanBy(d.now.Add(roomCheck))
	}
}

// wall is the clock of the store, in Unix milliseconds.
func (d *Dispatcher) wall() int64 {
	if d.clockAt.IsZero() {
		return d.now.UnixMilli()
	}
	return d.clock + d.now.Sub(d.clockAt).Milliseconds()
}

func (d *Dispatcher) order() uint64 { d.lastOrder++; return d.lastOrder }

// stored takes in what has become durable in this process.
func (d *Dispatcher) stored(e *turn.SendsStored) {
	s := d.shard(e.Shard, e.Epoch)
	if s == nil || mutant.On("stored-sends") {
		return
	}
	src := s.sources[e.Entity]
	switch {
	case src == nil && !s.complete, src != nil && src.more:
		d.lookAt(s, e.Entity)
		return
	case src == nil:
		if src = d.addSource(s, e.Entity); src == nil {
			return
		}
	}
	for i := range e.Records {
		r := &e.Records[i]
		if len(r.Sends) == 0 || r.Seq <= src.upTo {
			continue
		}
		in := Row{Shard: s.id, Entity: e.Entity, Seq: r.Seq, At: e.At}
		for n := range r.Sends {
			in.Sends = append(in.Sends, Pending{Place: uint16(n), Send: r.Sends[n]})
		}
		if !d.add(src, &in, false) {
			d.want(src)
			return
		}
	}
}

// lookAt has the pending sends of an entity read, because not all of them are known.
func (d *Dispatcher) lookAt(s *shard, e sharding.Entity) {
	src := s.sources[e]
	if src == nil {
		if src = d.addSource(s, e); src == nil {
			return
		}
	}
	d.want(src)
}

// want has a source read from what is known of it on.
func (d *Dispatcher) want(src *source) {
	src.more = true
	if !src.wanted {
		src.wanted = true
		src.shard.wanted = append(src.shard.wanted, src)
	}
	d.scanBy(d.now)
}

// addSource notes that an entity may have pending sends. If there are too many such entities,
// it returns nil, and a sweep finds the entity later.
func (d *Dispatcher) addSource(s *shard, e sharding.Entity) *source {
	if d.sourceCount >= d.cfg.Sends {
		s.complete, s.missed, s.after, s.sweepAt = false, true, Position{Shard: s.id}, d.now.Add(d.cfg.Refresh)
		d.scanBy(s.sweepAt)
		return nil
	}
	src := &source{shard: s, entity: e, pairs: map[sharding.Entity]*pair{}}
	s.sources[e] = src
	d.sourceCount++
	return src
}

// add puts a record into memory, if there is room. unsure says that its sends may have been
// delivered before.
func (d *Dispatcher) add(src *source, in *Row, unsure bool) bool {
	size := 0
	for i := range in.Sends {
		size += in.Sends[i].bytes()
	}
	if d.sends > 0 && (d.sends+len(in.Sends) > d.cfg.Sends || d.bytes+size > d.cfg.Bytes) {
		d.noRoom = true
		d.scanBy(d.now.Add(d.cfg.RetryMin))
		return false
	}
	src.upTo = in.Seq
	for i := range in.Sends {
		x := &send{Pending: in.Sends[i], source: src, seq: in.Seq, at: in.At, size: in.Sends[i].bytes(), unsure: unsure}
		d.sends++
		d.bytes += x.size
		src.held++
		d.enqueue(x)
	}
	return true
}

// bytes is the size of a send as limits in bytes count it.
func (p *Pending) bytes() int {
	return 200 + len(p.To.Type) + len(p.To.ID) + len(p.Input.Command) + len(p.Input.Payload) + len(p.ReplyTo)
}

// gone removes a send from memory whose end is stored.
func (d *Dispatcher) gone(x *send) {
	d.release(x)
	d.dropIdle(x.source)
}

// dropIdle forgets a source of which nothing is pending. While its shard is read, the source
// is remembered, because the page may be older.
func (d *Dispatcher) dropIdle(src *source) {
	switch s := src.shard; {
	case src.held > 0 || src.more || src.wanted:
	case s.reading:
		s.idle = append(s.idle, src)
	default:
		d.remove(src)
	}
}

// Stats returns the current counts.
func (d *Dispatcher) Stats() Stats {
	s := d.stats
	s.Sends, s.Bytes, s.UnderWay, s.Failing = d.sends, d.bytes, len(d.deliveries), len(d.failing)
	return s
}
