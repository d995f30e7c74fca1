package outbox

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// pair is a sender and a target. Only the first send of the pair is under way: the next one begins
// when the first one has ended.
type pair struct {
	source *source
	to     sharding.Entity
	queue  []*send // by record and place, never empty
	state  pairState
	number uint64 // of the delivery under way
	// The fields below are about a pair that is failing: an attempt for its first send has failed.
	times   int           // how many attempts have failed, one after the other
	since   time.Time     // when the first of these failed
	retryAt time.Time     // when the next attempt may begin
	code    sharding.Code // of the last failure
	message string        // of the last failure
	order   uint64        // orders pairs with the same retryAt
	place   int           // index in Dispatcher.retries
}

// Before orders pairs by the time at which they are tried again, then by the order in which they
// were queued.
func (p *pair) Before(o *pair) bool {
	return cmp.Or(p.retryAt.Compare(o.retryAt), cmp.Compare(p.order, o.order)) < 0
}

func (p *pair) Place() *int { return &p.place }

type pairState uint8

const (
	ready    pairState = iota + 1 // in typeQueue.ready
	crowded                       // in target.waiting
	underWay                      // a delivery is under way
	taking                        // a command of the sender takes the answer
	retrying                      // in Dispatcher.retries
	ending                        // the end of the first send is being stored, and the next send waits for it (see endAs)
)

// delivery is a delivery under way.
type delivery struct {
	pair *pair // nil: the dispatcher has forgotten the pair
	to   sharding.Entity
}

// sendName names a send.
type sendName struct {
	from  sharding.Entity
	seq   uint64
	place uint16
}

// enqueue adds a send to those of its pair.
func (d *Dispatcher) enqueue(x *send) {
	src, to := x.source, x.To
	if mutant.On("pair-order") { // every send is a pair of its own
		to.ID += sharding.EntityID(fmt.Sprint("\x00", x.seq, x.Place))
	}
	p := src.pairs[to]
	if p == nil {
		p = &pair{source: src, to: to}
		src.pairs[to] = p
	}
	if p.queue = append(p.queue, x); len(p.queue) == 1 {
		d.makeReady(p)
	}
}

// next returns the entity that gets the next command for the first send: the target or, once there
// is an answer, the sender.
func (p *pair) next() sharding.Entity {
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
	q := &typeQueue{name: t}
	d.types = append(d.types, q)
	return q
}

// makeReady queues a pair for its next attempt.
func (d *Dispatcher) makeReady(p *pair) {
	p.state = ready
	q := d.typeOf(p.next().Type)
	q.ready = append(q.ready, p)
}

// unqueue takes a pair out of wherever it waits.
func (d *Dispatcher) unqueue(p *pair) {
	switch p.state {
	case ready:
		q := d.typeOf(p.next().Type)
		q.ready = without(q.ready, p)
		d.wake(p.next())
	case crowded:
		t := d.targets[p.next()]
		t.waiting = without(t.waiting, p)
	case underWay:
		d.deliveries[p.number].pair = nil
	case taking:
		delete(d.taking, p.first())
		d.leave(p.source.entity)
	case retrying:
		d.retries.Remove(p)
	}
	p.state = 0
}

// enter counts a command to the entity that next returns for the pair. If too many commands to this
// entity are under way, the pair waits, and enter returns false.
func (d *Dispatcher) enter(q *typeQueue, p *pair) bool {
	to := p.next()
	t := d.targets[to]
	if t == nil {
		t = &target{}
		d.targets[to] = t
	}
	if t.underWay >= d.cfg.TargetDeliveries {
		p.state = crowded
		t.waiting = append(t.waiting, p)
		return false
	}
	t.underWay++
	q.underWay++
	return true
}

// leave counts a command to an entity as ended.
func (d *Dispatcher) leave(to sharding.Entity) {
	d.typeOf(to.Type).underWay--
	d.targets[to].underWay--
	d.wake(to)
}

// wake makes the next crowded pair of an entity ready, if there is room for its command. It must be
// called when a command to the entity has ended. It must also be called when a ready pair ends or is
// removed before enter has counted its command, because another pair can then use the room.
func (d *Dispatcher) wake(to sharding.Entity) {
	t := d.targets[to]
	switch {
	case t == nil || t.underWay >= d.cfg.TargetDeliveries:
	case len(t.waiting) > 0:
		p := t.waiting[0]
		t.waiting = t.waiting[1:]
		d.makeReady(p)
	case t.underWay == 0:
		delete(d.targets, to)
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

// first names the first send of the pair.
func (p *pair) first() sendName {
	x := p.queue[0]
	return sendName{p.source.entity, x.seq, x.Place}
}

// advance begins what is due: retries, deliveries, acknowledgements and reads.
func (d *Dispatcher) advance() {
	for len(d.retries) > 0 && !d.retries[0].retryAt.After(d.now) {
		p := d.retries[0]
		d.retries.Remove(p)
		d.makeReady(p)
	}
	for d.startReady() {
	}
	d.storeDue()
	d.scan()
}

// startReady begins the attempts for which there is room, and reports whether it has begun any. If so,
// it must be called again: if an attempt gives a send up, the pair becomes ready for its sender, and
// the loop may have passed the sender's type already.
func (d *Dispatcher) startReady() (any bool) {
	for _, q := range d.types {
		for q.underWay < d.cfg.Deliveries && len(q.ready) > 0 {
			p := q.ready[0]
			q.ready = q.ready[1:]
			d.attempt(q, p)
			any = !mutant.On("ready-again")
		}
	}
	return any
}

// attempt delivers the first send of a pair, or gives it up if it is too old. If there is an answer
// already, attempt has the sender take it.
func (d *Dispatcher) attempt(q *typeQueue, p *pair) {
	x := p.queue[0]
	if x.answer == nil && d.wall()-x.at.UnixMilli() >= d.cfg.MaxAge.Milliseconds() && !mutant.On("max-age") {
		d.giveUp(p)
		if !mutant.On("crowded") {
			d.wake(x.To)
		}
		return
	}
	if !d.enter(q, p) {
		return
	}
	if x.answer != nil {
		d.take(p)
		return
	}
	d.lastNumber++
	p.state, p.number = underWay, d.lastNumber
	at := x.at
	if mutant.On("send-key") {
		at = at.Add(time.Duration(p.times) * time.Millisecond)
	}
	d.deliveries[p.number] = &delivery{pair: p, to: x.To}
	d.out.Delivers = append(d.out.Delivers, Deliver{Number: p.number, Env: sharding.Envelope{
		Entity: x.To, Command: x.Input.Command, ID: Key(p.source.entity, x.seq, x.Place, at), Keyed: true,
		Encoding: x.Input.Encoding, Payload: x.Input.Payload, Version: x.Input.Version, ReadableBy: x.Input.ReadableBy,
		Deadline: d.now.Add(d.cfg.AttemptTimeout),
	}})
}

// Key returns the idempotency key of a send. The key is the same for every delivery of the send, by
// any owner of the sender's shard. It contains the time at which the send's record was stored, so the
// target knows how old the key is.
func Key(from sharding.Entity, seq uint64, place uint16, at time.Time) sharding.CommandID {
	return sharding.DerivedKey(sharding.SendPrefix, at, string(from.Type), string(from.ID), strconv.FormatUint(seq, 10), strconv.Itoa(int(place)))
}

// giveUp ends a send that is too old to be tried again. All its attempts were refused, unless the
// send is marked as unsure.
func (d *Dispatcher) giveUp(p *pair) {
	reply := sharding.Reject(p.code, fmt.Sprintf("it has not succeeded in %s; the last attempt failed with: %s", d.cfg.MaxAge, p.message))
	if p.times == 0 {
		reply = sharding.Reject(sharding.DeadlineExceeded, fmt.Sprintf("it is older than %s, so that it is not tried any more", d.cfg.MaxAge))
	}
	p.queue[0].mayStillRun = false // the send is too old for the next owner too
	d.answer(p, &reply)
}

// answered handles the answer to a delivery.
func (d *Dispatcher) answered(in *Answered) {
	v := d.deliveries[in.Number]
	if v == nil {
		return
	}
	delete(d.deliveries, in.Number)
	d.leave(v.to)
	p := v.pair
	if p == nil {
		return
	}
	p.state = 0
	if p.queue[0].dropped {
		d.goAfterDrop(p)
		return
	}
	r := &in.Reply
	p.queue[0].mayStillRun = r.Outcome == sharding.Rejected
	switch {
	case r.Outcome == sharding.OK && r.Code != sharding.ReplyLost, r.Outcome == sharding.Rejected && r.Code.Final(),
		r.Outcome == sharding.Unknown && r.Code == sharding.KeyExpired: // the outcome will never be known
		d.answer(p, r)
	default:
		p.queue[0].unsure = p.queue[0].unsure || r.Outcome != sharding.Rejected
		d.fail(p, r.Code, r.Message)
	}
}

// answer handles the answer to the first send of a pair. If the send names a command of its sender
// for the answer, this command takes it. Otherwise the send ends: with success, or as a dead letter.
func (d *Dispatcher) answer(p *pair, r *sharding.Reply) {
	x := p.queue[0]
	reply := *r
	reply.Timing = sharding.Timing{}
	if reply.Outcome == sharding.Rejected && x.unsure && !mutant.On("unsure") { // an earlier attempt may have had its effect
		reply.Outcome = sharding.Unknown
	}
	if x.ReplyTo == "" {
		d.end(p, d.stateOf(&reply), &reply)
		return
	}
	x.answer = &reply
	more := len(r.Payload) + len(r.Message)
	x.size += more
	d.bytes += more
	d.succeed(p) // the target has answered; from here on, only the sender may fail
	d.makeReady(p)
}

// stateOf returns the state in which a send ends with a reply, if no command of its sender takes
// the reply.
func (d *Dispatcher) stateOf(r *sharding.Reply) sharding.SendState {
	switch {
	case r.Outcome == sharding.OK && r.Code == "":
		return sharding.SendDone
	case mutant.On("silent-refusal"):
		return sharding.SendDone
	case r.Outcome == sharding.Unknown:
		return sharding.SendInDoubt
	}
	return sharding.SendRefused
}

// take runs the command of the sender that takes the answer to the first send.
func (d *Dispatcher) take(p *pair) {
	x := p.queue[0]
	p.state = taking
	d.taking[p.first()] = p
	d.out.Turn = append(d.out.Turn, turn.Fire{Shard: p.source.shard.id, Epoch: p.source.shard.epoch, Entity: p.source.entity, Wakeup: turn.Wakeup{
		WakeRef: sharding.WakeRef{Kind: sharding.SendWake, Name: x.To.String(), Seq: x.seq, Number: uint64(x.Place)},
		Input:   sharding.Input{Command: x.ReplyTo},
		Answer:  &turn.SendResult{Target: x.To, Sent: x.Input, SentAt: x.at, Reply: *x.answer},
	}})
}

// taken handles the end of the command that was to take an answer.
func (d *Dispatcher) taken(e *turn.FiringEnded) {
	key := sendName{e.Entity, e.Ref.Seq, uint16(e.Ref.Number)}
	p := d.taking[key]
	if p == nil || p.source.shard.id != e.Shard || p.source.shard.epoch != e.Epoch {
		return
	}
	delete(d.taking, key)
	d.leave(e.Entity)
	p.state = 0
	x := p.queue[0]
	if x.dropped {
		d.goAfterDrop(p)
		return
	}
	switch e.End {
	case turn.FiringDone:
		d.stats.Delivered++
		d.goOn(p)
		d.gone(x)
	case turn.FiringObsolete:
		// An earlier append has ended the send. The machine has not been told of this end yet, for
		// example because the outcome of that append was unknown.
		d.stats.Obsolete++
		if s := p.source.shard; !mutant.On("obsolete-counts") {
			d.out.Turn = append(d.out.Turn, turn.SendsEnded{Shard: s.id, Epoch: s.epoch, Entity: e.Entity, Seqs: []uint64{x.seq}})
		}
		d.goOn(p)
		d.gone(x)
	case turn.FiringOtherLife: // the life of the sender that would have taken the answer is over
		d.stats.Obsolete++
		d.endAs(p, sharding.SendDone)
	case turn.FiringFailed:
		if d.wall()-x.at.UnixMilli() >= (d.cfg.MaxAge+d.cfg.TakeGrace).Milliseconds() && !mutant.On("take-grace") {
			reply := sharding.Doubt(e.Code, fmt.Sprintf("the sender has not taken the answer in %s: %s", d.cfg.MaxAge+d.cfg.TakeGrace, e.Message))
			d.end(p, sharding.SendInDoubt, &reply)
			return
		}
		d.fail(p, e.Code, e.Message)
	default: // if the answer was taken after all, the journal will refuse the next attempt
		d.fail(p, sharding.Unavailable, "whether the answer was taken is not known yet")
	}
}

// end ends the first send of a pair, if no command of the sender has ended it by taking the answer.
func (d *Dispatcher) end(p *pair, as sharding.SendState, r *sharding.Reply) {
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
	d.endAs(p, as)
}

// endAs stores the end of the first send of a pair. If the first send cannot run any more, the next
// send of the pair begins at once. Otherwise the next send begins when the end of the first one is
// durable. If the next send began earlier, the next owner of the shard could deliver the first send
// again. Then the first send could succeed, and take effect after the next one.
func (d *Dispatcher) endAs(p *pair, as sharding.SendState) {
	x := p.queue[0]
	x.as = as
	d.storeLater(x)
	if !x.mayStillRun || mutant.On("ended-durable") {
		d.goOn(p)
		return
	}
	d.succeed(p)
	p.state = ending
	x.source.shard.ackAt = d.now
	d.ackBy(d.now)
}

// ended is called when the end of a send is durable. If the pair of the send has waited for that,
// ended goes on with the next send of the pair.
func (d *Dispatcher) ended(x *send) {
	if p := x.source.pairs[x.To]; p != nil && p.state == ending && p.queue[0] == x {
		d.goOn(p)
	}
}

// held returns the sends of the pair. While the end of the first send is being stored, held leaves that
// send out, because it is counted with the ends.
func (p *pair) held() []*send {
	if p.state == ending {
		return p.queue[1:]
	}
	return p.queue
}

// dropped forgets a send that an operator has dropped. If an attempt of the send is under way, the
// next send of the pair waits until the attempt has ended, and the result of the attempt is ignored.
//
// If this Dispatcher is storing the end of the send, dropped does nothing. The append that stores the
// end goes on. It changes nothing in the journal, because the drop has ended the send there already.
// Once the append is durable, SendsEnded tells the machine of the end, as usual.
func (d *Dispatcher) dropped(e *turn.SendDropped) {
	s := d.shard(e.Shard, e.Epoch)
	if s == nil || mutant.On("drop-forgets") {
		return
	}
	if s.reading && !mutant.On("drop-read") {
		s.dropped = append(s.dropped, sendName{e.Entity, e.Seq, e.Place})
	}
	src := s.sources[e.Entity]
	if src == nil {
		return
	}
	for _, p := range src.sorted() {
		i := slices.IndexFunc(p.queue, func(x *send) bool { return x.seq == e.Seq && x.Place == e.Place })
		if i < 0 || p.queue[i].dropped || i == 0 && p.state == ending {
			continue
		}
		x := p.queue[i]
		d.out.Turn = append(d.out.Turn, turn.SendsEnded{Shard: s.id, Epoch: s.epoch, Entity: e.Entity, Seqs: []uint64{x.seq}})
		switch {
		case i > 0:
			p.queue = slices.Delete(p.queue, i, i+1)
			d.gone(x)
		case (p.state == underWay || p.state == taking) && !mutant.On("drop-waits"):
			x.dropped = true
		default:
			d.unqueue(p)
			d.goAfterDrop(p)
		}
	}
}

// goAfterDrop forgets the first send of a pair, which was dropped, and goes on with the next.
func (d *Dispatcher) goAfterDrop(p *pair) {
	x := p.queue[0]
	d.goOn(p)
	d.gone(x)
}

// goOn removes the first send of a pair, which has ended, and goes on with the send behind it.
func (d *Dispatcher) goOn(p *pair) {
	d.succeed(p)
	if p.queue = p.queue[1:]; len(p.queue) == 0 {
		delete(p.source.pairs, p.to)
		return
	}
	d.makeReady(p)
}

// succeed is called when a pair does not fail any more.
func (d *Dispatcher) succeed(p *pair) {
	delete(d.failing, p)
	p.times, p.code, p.message, p.since, p.retryAt = 0, "", "", time.Time{}, time.Time{}
}

// fail queues a pair to be tried again.
func (d *Dispatcher) fail(p *pair, code sharding.Code, message string) {
	d.stats.Failed++
	if p.times == 0 {
		d.failing[p] = struct{}{}
		p.since = d.now
	}
	p.times++
	p.code, p.message, p.state = code, message, retrying
	p.retryAt, p.order = d.now.Add(d.pause(p.times)), d.order()
	if mutant.On("send-back-off") {
		p.retryAt = d.now.Add(time.Millisecond)
	}
	d.retries.Push(p)
}

// pause returns how long to wait after this many failures, one after the other.
func (d *Dispatcher) pause(times int) time.Duration {
	return d.jitter.Pause(times, d.cfg.RetryMin, d.cfg.RetryMax)
}
