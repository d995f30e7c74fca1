package outbox

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Dispatcher delivers what the entities of the open shards send. It is not safe for
// concurrent use.
type Dispatcher struct {
	cfg        Config
	sweep      due.Sweeper[*shard, journal.SendEntry]
	failing    due.Failing[*pair]
	addressees map[sharding.Entity]*addressee // entities with commands that are in progress, or are to be sent
	types      []*typeQueue                   // of addressees, in the order in which they first came up
	// deliveries are those that are not answered, taking the pairs whose answer a command of
	// the sender takes now.
	deliveries  map[uint64]*delivery
	taking      map[sendName]*pair
	lastNumber  uint64          // of deliveries and acks
	acks        map[uint64]*ack // in progress
	unstored    int             // sends in shard.unstored of all shards
	storeAt     time.Time       // the earliest time at which ends are to be stored; zero: there are none
	sends       int
	bytes       int
	sourceCount int
	died        map[sendName]Died // the last dead letters, for operators
	diedOrder   []sendName
	// longestTimeout is the longest that an attempt had so far.
	longestTimeout time.Duration
	stats          Stats
	now            time.Time
	out            *Outputs
}

// typeQueue has the pairs whose addressees are of one type and which are ready, or are tried again later.
type typeQueue struct {
	name     sharding.EntityType
	ready    []*pair
	underWay int  // commands to entities of the type
	shape    Type // zero: not known
	// retrying has the pairs that wait to be retried, by the shard of their addressee, see Type.shardOf.
	retrying map[uint32]map[*pair]struct{}
	// events has the times of the last events that have made shards, or entities, ready for commands; servedAt is
	// the time of the last event that has made all shards ready.
	events   map[mark]time.Time
	servedAt time.Time
	dropAt   time.Time // when old events are dropped; zero: there are none
}

// addressee is an entity with commands in progress: the target of a send, or a sender that takes an
// answer.
type addressee struct {
	underWay int     // commands; each has one of Config.TargetDeliveries slots
	waiting  []*pair // until a slot is free
}

// shard is an open shard.
type shard struct {
	due.Shard
	sources map[sharding.Entity]*source
	// complete is true if every entity of the shard that has pending sends is in sources.
	complete bool
	after    journal.SendPosition // how far the sweep has come
	sweepAt  time.Time            // when the next page of it is read
	// readFrom is the position at which the read in progress begins. readSource is its source; nil: it reads for the sweep.
	readFrom   journal.SendPosition
	readSource *source
	toRead     []*source // the sources that are to be read by themselves, apart from the sweep
	// sweepNext gives the next read to the sweep, if both the sweep and toRead are due.
	sweepNext bool
	// idle holds the sources without pending sends. They stay in memory until the read in progress
	// has ended, because the page may be older.
	idle []*source
	// missed is true if, since the sweep began, sources with pending sends were unloaded: the sweep
	// may have passed them.
	missed bool
	// dropped names the sends that operators have dropped while a read was in progress. The page of the
	// read may still have these sends.
	dropped []sendName
	// ends are sends that have ended, and whose ends are to be stored at storeAt.
	ends    []*send
	storeAt time.Time
	// unstored are acks whose appends have failed, and which wait to be tried again.
	unstored []*ack
}

// source is an entity with pending sends.
type source struct {
	shard  *shard
	entity sharding.Entity
	pairs  map[sharding.Entity]*pair // by target
	held   int                       // sends in memory, those included that have ended but are not stored yet
	// unstored is the number of its sends in shard.unstored.
	unstored int
	// upTo is a sequence number: all pending sends of the source up to it are in memory.
	upTo uint64
	// more is true if there may be pending sends after upTo. The source is then in shard.toRead, or
	// is being read, or waits for a sweep.
	more       bool
	readQueued bool // the source is in shard.toRead
}

// pending is a send that has not ended.
type pending struct {
	Place uint16 // in the record
	sharding.Send
}

// send is a send in memory.
type send struct {
	pending
	source *source
	seq    uint64
	at     time.Time // when its record was stored
	size   int
	// unsure is true if an earlier attempt may have had the effect of the send: an attempt was not
	// answered, or the send was read from the journal, so an earlier owner may have tried it.
	unsure bool
	// mayStillRun is true if the target has refused the last attempt, but may still execute the
	// send: until the end of the send is stored, the next owner of the shard may deliver it again,
	// and the target does not remember that it has refused it.
	mayStillRun bool
	// answer is the reply for the sender; nil: the target has not answered.
	answer *sharding.Reply
	// dropped is true if an operator has dropped the send while an attempt was in progress. The
	// send leaves the memory when the attempt has ended.
	dropped bool
	end     sharding.SendState // how the send has ended; SendPending: it has not
}

// New returns a dispatcher. The configuration must be valid.
func New(cfg Config) *Dispatcher {
	limits := due.Limits{ReadShards: cfg.ReadShards, RetryMin: cfg.RetryMin, RetryMax: cfg.RetryMax, DamagedMax: cfg.RetryMax, Seed: cfg.Seed}
	shardOf := func(r *journal.SendEntry) sharding.ShardID { return r.Shard }
	return &Dispatcher{
		cfg: cfg, sweep: due.New[*shard](limits, shardOf), addressees: map[sharding.Entity]*addressee{}, died: map[sendName]Died{},
		deliveries: map[uint64]*delivery{}, taking: map[sendName]*pair{}, acks: map[uint64]*ack{},
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
	case Served:
		d.served(&in)
	case Released:
		d.released(&in)
	case Tick:
		d.dropEvents()
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
		if s := d.sweep.At(e.Shard, e.Epoch); s != nil {
			d.readPending(s, e.Entity)
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

func (d *Dispatcher) open(in Open) {
	d.close(in.Shard)
	d.sweep.Open(&shard{
		Shard:   due.Shard{ID: in.Shard, Epoch: in.Epoch, ReadAt: d.now},
		sources: map[sharding.Entity]*source{}, after: journal.SendPosition{Shard: in.Shard}, sweepAt: d.now,
	})
}

// close removes a shard from memory. Ends of sends that are not stored yet are stored now: the journal
// takes them until the next owner has claimed the shard.
func (d *Dispatcher) close(id sharding.ShardID) {
	s, open := d.sweep.Close(id)
	if !open {
		return
	}
	d.beginAcks(s)
	for n, a := range d.acks { // order-free: all of the shard are removed
		if a.source.shard == s {
			delete(d.acks, n)
			for _, x := range a.sends {
				d.release(x)
			}
		}
	}
	for _, src := range s.sorted() {
		d.unload(src)
	}
	d.removeDied(id)
}

// unload removes a source from memory, with its sends. What is in progress for them is ignored when it
// is answered.
func (d *Dispatcher) unload(src *source) {
	for _, p := range src.sorted() {
		for _, x := range p.pending() {
			d.release(x)
		}
		d.unqueue(p)
		d.failing.Clear(p)
	}
	d.unloadUnstored(src)
	src.pairs = nil
	if src.readQueued {
		src.shard.toRead = slices.DeleteFunc(src.shard.toRead, func(o *source) bool { return o == src })
	}
	d.removeSource(src)
}

// removeSource removes a source without sends from memory.
func (d *Dispatcher) removeSource(src *source) {
	if src.shard.sources[src.entity] == src {
		delete(src.shard.sources, src.entity)
		d.sourceCount--
	}
}

// release counts a send as no longer in memory.
func (d *Dispatcher) release(x *send) {
	d.sends--
	d.bytes -= x.size
	x.source.held--
	d.sweep.MadeRoom(d.now)
}

// wall returns what the clock of the store says now, in Unix milliseconds.
func (d *Dispatcher) wall() int64 { return d.sweep.Clock.Now(d.now).UnixMilli() }

// stored takes in sends that have become durable in this process.
func (d *Dispatcher) stored(e *turn.SendsStored) {
	s := d.sweep.At(e.Shard, e.Epoch)
	if s == nil { //mutant:true stored-sends
		return
	}
	src := s.sources[e.Entity]
	switch {
	case src == nil && !s.complete, src != nil && src.more:
		d.readPending(s, e.Entity)
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
		sends := make([]pending, len(r.Sends))
		for n := range r.Sends {
			sends[n] = pending{Place: uint16(n), Send: r.Sends[n]}
		}
		if !d.add(src, r.Seq, e.At, sends, false) {
			d.queueRead(src)
			return
		}
	}
}

// readPending has the pending sends of an entity read, because not all of them are known.
func (d *Dispatcher) readPending(s *shard, e sharding.Entity) {
	src := s.sources[e]
	if src == nil {
		if src = d.addSource(s, e); src == nil {
			return
		}
	}
	d.queueRead(src)
}

// queueRead has a source read, from behind the records that are in memory on.
func (d *Dispatcher) queueRead(src *source) {
	src.more = true
	if !src.readQueued {
		src.readQueued = true
		src.shard.toRead = append(src.shard.toRead, src)
	}
	d.sweep.ReadBy(src.shard, d.now)
}

// addSource notes that an entity may have pending sends. If there are too many such entities,
// it returns nil, and a sweep finds the entity later.
func (d *Dispatcher) addSource(s *shard, e sharding.Entity) *source {
	if d.sourceCount >= d.cfg.Sends {
		s.complete, s.missed, s.after = false, true, journal.SendPosition{Shard: s.ID}
		d.sweepAt(s, d.now.Add(d.cfg.Refresh))
		return nil
	}
	src := &source{shard: s, entity: e, pairs: map[sharding.Entity]*pair{}}
	s.sources[e] = src
	d.sourceCount++
	return src
}

// add puts the pending sends of a record into memory, if there is room. The parameter unsure is true
// if the sends may have been delivered before.
func (d *Dispatcher) add(src *source, seq uint64, at time.Time, sends []pending, unsure bool) bool {
	size := 0
	for i := range sends {
		size += sends[i].bytes()
	}
	if d.sends > 0 && (d.sends+len(sends) > d.cfg.Sends || d.bytes+size > d.cfg.Bytes) {
		d.sweep.WaitForRoom(d.now.Add(d.cfg.RetryMin))
		return false
	}
	src.upTo = seq
	for i := range sends {
		x := &send{pending: sends[i], source: src, seq: seq, at: at, size: sends[i].bytes(), unsure: unsure}
		d.sends++
		d.bytes += x.size
		src.held++
		d.enqueue(x)
	}
	return true
}

// bytes is the size of a send as limits in bytes count it.
func (p *pending) bytes() int {
	return 232 + len(p.To.Type) + len(p.To.ID) + len(p.Input.Command) + len(p.Input.Payload) + len(p.ReplyTo)
}

// removeSend removes from memory a send whose end is stored.
func (d *Dispatcher) removeSend(x *send) {
	d.release(x)
	d.removeIfIdle(x.source)
}

// removeIfIdle removes a source from memory if nothing of it is pending. While its shard is read, the
// source stays in memory, because the page may be older.
func (d *Dispatcher) removeIfIdle(src *source) {
	switch s := src.shard; {
	case src.held > 0 || src.more || src.readQueued:
	case s.Reading:
		s.idle = append(s.idle, src)
	default:
		d.removeSource(src)
	}
}

// Stats returns the current counts.
func (d *Dispatcher) Stats() Stats {
	s := d.stats
	s.Sends, s.Bytes, s.UnderWay, s.Failing = d.sends, d.bytes, len(d.deliveries), d.failing.Len()
	s.ReadsFailed += d.sweep.Failed
	return s
}
