package outbox

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// pair is a sender and a target. Only the first send of the pair is in progress: the next send begins
// when the first one has ended.
type pair struct {
	source      *source
	to          sharding.Entity
	queue       []*send // by record and place, never empty
	state       pairState
	number      uint64    // of the delivery in progress
	due.Failure           // the pair is failing: an attempt for its first send has failed
	began       time.Time // when the last attempt began
	earlyAt     time.Time // when the last early retry was due; zero: there was none
	shard       uint32    // the key in typeQueue.retrying
}

// Owner returns the sender.
func (p *pair) Owner() sharding.Entity { return p.source.entity }

// Compare orders pairs by sender and target.
func (p *pair) Compare(o *pair) int {
	return cmp.Or(p.source.entity.Compare(o.source.entity), p.to.Compare(o.to))
}

type pairState uint8

const (
	ready          pairState = iota + 1 // in typeQueue.ready
	waitingForSlot                      // in addressee.waiting: all slots of the addressee are taken
	underWay                            // a delivery is in progress
	taking                              // a command of the sender takes the answer
	retrying                            // it waits to be retried, in typeQueue.retrying too
	storingEnd                          // the end of the first send is being stored, and the next send waits for it (see storeEnd)
)

// delivery is a delivery in progress.
type delivery struct {
	pair *pair // nil: the pair has left the memory
	to   sharding.Entity
}

// sendName names a send.
type sendName struct {
	from  sharding.Entity
	seq   uint64
	place uint16
}

// enqueue adds a send to the queue of its pair.
func (d *Dispatcher) enqueue(x *send) {
	src, to := x.source, x.To
	// With the mutant: every send is a pair of its own
	//
	// Invariant: the sends from one entity to another take effect in order. A target that fails does not delay sends to
	// other targets.
	// Guarded by: `outbox.Dispatcher`: of each pair, one send is in progress at a time. If the Dispatcher has sends of
	// a sender in memory, these are the sender's oldest pending sends, without a gap.
	// Mutants: pair-order, sends-meanwhile, evicted, stored-sends, send-back-off
	//mutant:do pair-order to.ID += sharding.EntityID(fmt.Sprint("\x00", x.seq, x.Place))
	p := src.pairs[to]
	if p == nil {
		p = &pair{source: src, to: to}
		src.pairs[to] = p
	}
	if p.queue = append(p.queue, x); len(p.queue) == 1 {
		d.makeReady(p)
	}
}

// addressee returns the entity that gets the next command of the pair. While the first send has no
// answer, this is the target. Once there is an answer, it is the sender, which takes the answer.
func (p *pair) addressee() sharding.Entity {
	if x := p.queue[0]; x.answer == nil {
		return x.To
	}
	return p.source.entity
}

// typeOf returns the queue of an entity type.
func (d *Dispatcher) typeOf(t sharding.EntityType) *typeQueue {
	for _, q := range d.types {
		if q.name == t {
			return q
		}
	}
	q := &typeQueue{name: t, retrying: map[uint32]map[*pair]struct{}{}, events: map[mark]time.Time{}}
	d.types = append(d.types, q)
	return q
}

// makeReady queues a pair for its next attempt.
func (d *Dispatcher) makeReady(p *pair) {
	p.state = ready
	q := d.typeOf(p.addressee().Type)
	q.ready = append(q.ready, p)
}

// unqueue takes a pair out of wherever it waits.
func (d *Dispatcher) unqueue(p *pair) {
	switch p.state {
	case ready:
		q := d.typeOf(p.addressee().Type)
		q.ready = without(q.ready, p)
		d.offerSlot(p.addressee())
	case waitingForSlot:
		t := d.addressees[p.addressee()]
		t.waiting = without(t.waiting, p)
	case underWay:
		d.deliveries[p.number].pair = nil
	case taking:
		delete(d.taking, p.firstName())
		d.freeSlot(p.source.entity)
	case retrying:
		d.failing.Unqueue(p)
		d.unindex(p)
	}
	p.state = 0
}

// takeSlot takes a slot of the pair's addressee for a command of the pair. An entity has
// Config.TargetDeliveries slots, and each command in progress to it takes one. If no slot is free, the pair
// waits, and takeSlot returns false.
func (d *Dispatcher) takeSlot(q *typeQueue, p *pair) bool {
	to := p.addressee()
	t := d.addressees[to]
	if t == nil {
		t = &addressee{}
		d.addressees[to] = t
	}
	if t.underWay >= d.cfg.TargetDeliveries {
		p.state = waitingForSlot
		t.waiting = append(t.waiting, p)
		return false
	}
	t.underWay++
	q.underWay++
	return true
}

// freeSlot frees the slot of a command to an entity. The command is no longer in progress.
func (d *Dispatcher) freeSlot(to sharding.Entity) {
	d.typeOf(to.Type).underWay--
	d.addressees[to].underWay--
	d.offerSlot(to)
}

// offerSlot makes the next pair that waits for a slot of an entity ready, if a slot is free. It must be called
// when a slot becomes free. It must also be called when a pair that was made ready will not take the slot after
// all, because the pair is removed or its send is given up. A pair that was made ready is no longer in
// addressee.waiting, and no other pair was offered the slot. So the slot would stay free while other pairs wait
// for it.
func (d *Dispatcher) offerSlot(to sharding.Entity) {
	t := d.addressees[to]
	switch {
	case t == nil || t.underWay >= d.cfg.TargetDeliveries:
	case len(t.waiting) > 0:
		p := t.waiting[0]
		t.waiting = t.waiting[1:]
		d.makeReady(p)
	case t.underWay == 0:
		delete(d.addressees, to)
	}
}

func without(list []*pair, p *pair) []*pair {
	for i, o := range list {
		if o == p {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// firstName returns the name of the first send of the pair.
func (p *pair) firstName() sendName {
	x := p.queue[0]
	return sendName{p.source.entity, x.seq, x.Place}
}

// advance begins everything that is due: retries, deliveries, appends that store ends of sends, and
// reads.
func (d *Dispatcher) advance() {
	for p, ok := d.failing.Due(d.now); ok; p, ok = d.failing.Due(d.now) {
		d.unindex(p)
		d.makeReady(p)
	}
	for d.startReady() {
	}
	d.storeDueEnds()
	d.scan()
}

// startReady begins attempts while there is room, and reports whether it has begun any. If so, it must
// be called again. An attempt may give a send up. Then the pair becomes ready in the queue of its
// sender's type, because the sender is to take the answer, and the loop may have passed that queue
// already.
func (d *Dispatcher) startReady() (any bool) {
	for _, q := range d.types {
		for q.underWay < d.cfg.Deliveries && len(q.ready) > 0 {
			p := q.ready[0]
			q.ready = q.ready[1:]
			d.attempt(q, p)
			// Invariant: a send that can be delivered is delivered at once, and an answer that its sender can take is
			// given to the sender at once. Neither waits for the next input `outbox.Tick`.
			// Mutants: ready-again
			any = true //mutant:false ready-again
		}
	}
	return any
}

// attempt delivers the first send of a pair, or gives the send up if it is too old. If there is an
// answer already, attempt has the sender take the answer.
func (d *Dispatcher) attempt(q *typeQueue, p *pair) {
	x := p.queue[0]
	if x.answer == nil && d.expired(x) { //mutant:false max-age
		d.giveUp(p)
		d.offerSlot(x.To) //mutant:skip crowded
		return
	}
	if !d.takeSlot(q, p) {
		return
	}
	p.began = d.now
	if x.answer != nil {
		d.take(p)
		return
	}
	d.lastNumber++
	p.state, p.number = underWay, d.lastNumber
	timeout := d.options(x).Timeout
	d.longestTimeout = max(d.longestTimeout, timeout)
	at := x.at
	// Invariant: a send has its effect once, however often it is delivered and whichever region delivers it.
	// Guarded by: `outbox.Key`: the key is the same for every attempt. `outbox.beginAcks` stores the end of each send.
	// Mutants: send-key, send-ack
	//mutant:do send-key at = at.Add(time.Duration(p.Times) * time.Millisecond)
	d.deliveries[p.number] = &delivery{pair: p, to: x.To}
	d.out.Delivers = append(d.out.Delivers, Deliver{Number: p.number, From: p.source.entity, Env: sharding.Envelope{
		Entity: x.To, Command: x.Input.Command, ID: Key(p.source.entity, x.seq, x.Place, at), Keyed: true,
		Encoding: x.Input.Encoding, Payload: x.Input.Payload, Version: x.Input.Version, ReadableBy: x.Input.ReadableBy,
		Deadline: d.now.Add(timeout),
	}})
}

// Key returns the idempotency key of a send. The key is the same for every delivery of the send, by
// any owner of the sender's shard. It contains the time at which the send's record was stored, so the
// target knows how old the key is.
func Key(from sharding.Entity, seq uint64, place uint16, at time.Time) sharding.CommandID {
	return sharding.DerivedKey(sharding.SendPrefix, at, string(from.Type), string(from.ID), strconv.FormatUint(seq, 10), strconv.Itoa(int(place)))
}

// giveUp ends the attempts for the first send of a pair, because the send is too old. The pair then continues as
// if the target had refused the send. All attempts of the send were refused, unless the send is marked as unsure.
func (d *Dispatcher) giveUp(p *pair) {
	age := d.options(p.queue[0]).MaxAge
	reply := sharding.Reject(p.Code, fmt.Sprintf("it has not succeeded in %s; the last attempt failed with: %s", age, p.Message))
	if p.Times == 0 {
		reply = sharding.Reject(sharding.DeadlineExceeded, fmt.Sprintf("it is older than %s, so that it is not tried any more", age))
	}
	p.queue[0].mayStillRun = false // no owner delivers the send again: it is too old
	d.targetAnswered(p, &reply)
}

// answered handles the answer to a delivery.
func (d *Dispatcher) answered(in *Answered) {
	v := d.deliveries[in.Number]
	if v == nil {
		return
	}
	delete(d.deliveries, in.Number)
	d.freeSlot(v.to)
	p := v.pair
	if p == nil {
		return
	}
	p.state = 0
	if p.queue[0].dropped {
		d.removeDropped(p)
		return
	}
	r := &in.Reply
	p.queue[0].mayStillRun = r.Outcome == sharding.NotApplied // a target does not remember refused sends: it could execute a repeat
	switch {
	case r.Outcome == sharding.Executed && r.Code != sharding.ReplyLost, r.Outcome == sharding.NotApplied && r.Code.Final(),
		r.Outcome == sharding.Unknown && r.Code == sharding.KeyExpired: // the outcome will never be known
		d.targetAnswered(p, r)
	default:
		p.queue[0].unsure = p.queue[0].unsure || r.Outcome != sharding.NotApplied
		d.retryLater(p, r.Code, r.Message)
	}
}

// targetAnswered handles the answer to the first send of a pair. If the send names a command of its
// sender for the answer, this command takes it. Otherwise the send ends: with success, or as a dead
// letter.
func (d *Dispatcher) targetAnswered(p *pair, r *sharding.Reply) {
	x := p.queue[0]
	reply := *r
	reply.Timing = sharding.Timing{}
	//mutant:false unsure
	if reply.Outcome == sharding.NotApplied && x.unsure { // an earlier attempt may have had its effect
		reply.Outcome = sharding.Unknown
	}
	if x.ReplyTo == "" {
		d.endSend(p, d.stateOf(&reply), &reply)
		return
	}
	x.answer = &reply
	more := len(r.Payload) + len(r.Message)
	x.size += more
	d.bytes += more
	d.clearFailure(p) // the failures so far were the target's, which has answered now; from here on, only the sender can fail
	d.makeReady(p)
}

// stateOf returns the state in which a send ends with a reply, if no command of its sender takes
// the reply.
func (d *Dispatcher) stateOf(r *sharding.Reply) sharding.SendState {
	switch {
	case r.Outcome == sharding.Executed && r.Code == "":
		return sharding.SendDone
	// Invariant: a send becomes a dead letter in two cases. The send has failed (the target has refused it, or has not
	// answered before it may forget the send's key), and the send names no command for the answer. Or the command for
	// the answer has failed for too long. If a dead letter may have had its effect, its state is *in doubt*.
	// Mutants: silent-refusal, max-age, take-grace, unsure, no-clock
	case r.Outcome == sharding.Unknown: //mutant:true silent-refusal
		//mutant:do silent-refusal return sharding.SendDone
		return sharding.SendInDoubt
	}
	return sharding.SendRefused
}

// take runs the command of the sender that takes the answer to the first send.
func (d *Dispatcher) take(p *pair) {
	x := p.queue[0]
	p.state = taking
	d.taking[p.firstName()] = p
	d.out.Turn = append(d.out.Turn, turn.Fire{Shard: p.source.shard.ID, Epoch: p.source.shard.Epoch, Entity: p.source.entity, Wakeup: turn.Wakeup{
		WakeRef: sharding.WakeRef{Kind: sharding.SendWake, Name: x.To.String(), Seq: x.seq, Number: uint64(x.Place)},
		Input:   sharding.Input{Command: x.ReplyTo},
		Answer:  &turn.SendResult{Target: x.To, Sent: x.Input, SentAt: x.at, Reply: *x.answer},
	}})
}

// taken handles the end of the command that was to take an answer.
func (d *Dispatcher) taken(e *turn.FiringEnded) {
	key := sendName{e.Entity, e.Ref.Seq, uint16(e.Ref.Number)}
	p := d.taking[key]
	if p == nil || p.source.shard.ID != e.Shard || p.source.shard.Epoch != e.Epoch {
		return
	}
	delete(d.taking, key)
	d.freeSlot(e.Entity)
	p.state = 0
	x := p.queue[0]
	if x.dropped {
		d.removeDropped(p)
		return
	}
	switch e.End {
	case turn.FiringDone:
		d.stats.Delivered++
		d.beginNext(p)
		d.removeSend(x)
	case turn.FiringObsolete:
		// An earlier append has ended the send. The machine has not been told of this end yet, for
		// example because the outcome of that append was unknown.
		d.stats.Obsolete++
		s := p.source.shard
		//mutant:skip obsolete-counts
		d.out.Turn = append(d.out.Turn, turn.SendsEnded{Shard: s.ID, Epoch: s.Epoch, Entity: e.Entity, Seqs: []uint64{x.seq}})
		d.beginNext(p)
		d.removeSend(x)
	case turn.FiringOtherLife: // the life of the sender that would have taken the answer is over
		d.stats.Obsolete++
		d.storeEnd(p, sharding.SendDone)
	case turn.FiringFailed:
		if d.expired(x) { //mutant:false take-grace
			reply := sharding.Doubt(e.Code, fmt.Sprintf("the sender has not taken the answer in %s: %s", d.lifetime(x), e.Message))
			d.endSend(p, sharding.SendInDoubt, &reply)
			return
		}
		d.retryLater(p, e.Code, e.Message)
	default: // if the answer was taken after all, the journal will refuse the next attempt
		d.retryLater(p, sharding.Unavailable, "whether the answer was taken is not known yet")
	}
}

// endSend counts the end of the first send of a pair, reports a dead letter, and stores the end. It must
// not be called if a command of the sender has taken the answer: that command's append has stored the
// end of the send.
func (d *Dispatcher) endSend(p *pair, as sharding.SendState, r *sharding.Reply) {
	x := p.queue[0]
	switch as {
	case sharding.SendDone:
		d.stats.Delivered++
	case sharding.SendRefused:
		d.stats.Refused++
	case sharding.SendInDoubt:
		d.stats.InDoubt++
	}
	if as.Dead() {
		d.out.Dead = append(d.out.Dead, DeadLetter{
			From: p.source.entity, Seq: x.seq, Place: x.Place, To: x.To, Command: x.Input.Command, State: as, Code: r.Code, Message: r.Message,
		})
		d.noteDied(p, r)
	}
	d.storeEnd(p, as)
}

// storeEnd stores the end of the first send of a pair. If no repeat of the first send can run, the next
// send of the pair begins at once. Otherwise the next send begins when the end of the first one is
// durable. If the next send began earlier, the next owner of the shard could deliver the first send
// again. Then the first send could succeed, and take effect after the next one.
func (d *Dispatcher) storeEnd(p *pair, as sharding.SendState) {
	x := p.queue[0]
	x.end = as
	d.queueEnd(x)
	if !x.mayStillRun { //mutant:true ended-durable
		d.beginNext(p)
		return
	}
	d.clearFailure(p)
	p.state = storingEnd
	x.source.shard.storeAt = d.now
	d.storeBy(d.now)
}

// endStored is called when the end of a send is durable. If the pair of the send has waited for that,
// endStored begins the next send of the pair.
func (d *Dispatcher) endStored(x *send) {
	if p := x.source.pairs[x.To]; p != nil && p.state == storingEnd && p.queue[0] == x {
		d.beginNext(p)
	}
}

// pending returns the sends of the pair that have not ended. While the end of the first send is being
// stored, that send is in shard.ends or in an ack, and pending leaves it out.
func (p *pair) pending() []*send {
	if p.state == storingEnd {
		return p.queue[1:]
	}
	return p.queue
}

// dropped removes a send that an operator has dropped. If an attempt of the send is in progress, the
// next send of the pair waits until the attempt has ended, and the result of the attempt is ignored.
//
// If this Dispatcher is storing the end of the send, dropped does nothing. The append that stores the
// end continues. It changes nothing in the journal, because the drop has ended the send there already.
// Once the append is durable, SendsEnded tells the machine of the end, as usual.
func (d *Dispatcher) dropped(e *turn.SendDropped) {
	s := d.sweep.At(e.Shard, e.Epoch)
	if s == nil { //mutant:true drop-forgets
		return
	}
	if s.Reading { //mutant:false drop-read
		s.dropped = append(s.dropped, sendName{e.Entity, e.Seq, e.Place})
	}
	src := s.sources[e.Entity]
	if src == nil {
		return
	}
	for _, p := range src.sorted() {
		i := slices.IndexFunc(p.queue, func(x *send) bool { return x.seq == e.Seq && x.Place == e.Place })
		if i < 0 || p.queue[i].dropped || i == 0 && p.state == storingEnd {
			continue
		}
		x := p.queue[i]
		d.out.Turn = append(d.out.Turn, turn.SendsEnded{Shard: s.ID, Epoch: s.Epoch, Entity: e.Entity, Seqs: []uint64{x.seq}})
		switch {
		case i > 0:
			p.queue = slices.Delete(p.queue, i, i+1)
			d.removeSend(x)
		case p.state == underWay || p.state == taking: //mutant:false drop-waits
			x.dropped = true
		default:
			d.unqueue(p)
			d.removeDropped(p)
		}
	}
}

// removeDropped removes the first send of a pair, which an operator has dropped, and begins the next.
func (d *Dispatcher) removeDropped(p *pair) {
	x := p.queue[0]
	d.beginNext(p)
	d.removeSend(x)
}

// beginNext removes the first send of a pair, which has ended, and begins the next send.
func (d *Dispatcher) beginNext(p *pair) {
	d.clearFailure(p)
	if p.queue = p.queue[1:]; len(p.queue) == 0 {
		delete(p.source.pairs, p.to)
		return
	}
	d.makeReady(p)
}

// clearFailure forgets that attempts for the first send of a pair have failed: there are no more
// attempts, or the attempts that follow have another addressee.
func (d *Dispatcher) clearFailure(p *pair) {
	d.failing.Clear(p)
	p.earlyAt = time.Time{}
}

// retryLater notes a failed attempt for the first send of a pair, and queues the pair to be tried again.
func (d *Dispatcher) retryLater(p *pair, code sharding.Code, message string) {
	d.stats.Failed++
	d.failing.Fail(p, d.now, code, message)
	p.state = retrying
	pause := d.retryPause(p)
	//mutant:do send-back-off pause = time.Millisecond
	d.retry(p, d.now.Add(pause))
}
