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

// pair is a sender and a target. One send of it is under way at a time: the next one begins
// when it has ended.
type pair struct {
	source *source
	to     sharding.Entity
	queue  []*send // by record and place, never empty
	state  pairState
	number uint64 // of the delivery under way
	// Of one whose first send has failed:
	times          int
	since, retryAt time.Time
	code           sharding.Code
	message        string
	order          uint64
	place          int // in Dispatcher.retries
}

// Before orders pairs by when they are tried again, then by when they were put in.
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
)

// delivery is one that is under way.
type delivery struct {
	pair *pair // nil: it was forgotten
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

// next is the entity that has the next command for the first send: the target, or the sender
// once there is an answer.
func (p *pair) next() sharding.Entity {
	if x := p.queue[0]; x.answer == nil {
		return x.To
	}
	return p.source.entity
}

// typeOf returns the queue of a type of targets.
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

// enter counts a command to an entity, unless there are too many.
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

// wake makes the next crowded pair of an entity ready if there is room for its command. It is
// called for every pair that is not ready any more and has not entered: if that one was woken,
// another one has its room.
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

// startReady begins the attempts for which there is room, and reports whether there were any: a
// send that is given up makes its sender ready, whose type may have had its turn before.
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

// attempt delivers the first send of a pair, or gives it up; or has its answer taken.
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

// Key returns the idempotency key of a send: whoever delivers it, and however often, it is
// the same. The time in it is when its record was stored, so that its target knows how old
// it is.
func Key(from sharding.Entity, seq uint64, place uint16, at time.Time) sharding.CommandID {
	return sharding.DerivedKey(sharding.SendPrefix, at, string(from.Type), string(from.ID), strconv.FormatUint(seq, 10), strconv.Itoa(int(place)))
}

// giveUp ends a send that is too old to be tried. It was refused whenever it was tried, unless
// it is unsure.
func (d *Dispatcher) giveUp(p *pair) {
	reply := sharding.Reject(p.code, fmt.Sprintf("it has not succeeded in %s; the last attempt failed with: %s", d.cfg.MaxAge, p.message))
	if p.times == 0 {
		reply = sharding.Reject(sharding.DeadlineExceeded, fmt.Sprintf("it is older than %s, so that it is not tried any more", d.cfg.MaxAge))
	}
	d.answer(p, &reply)
}

// answered takes in the answer to a delivery.
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
	switch {
	case r.Outcome == sharding.OK && r.Code != sharding.ReplyLost, r.Outcome == sharding.Rejected && r.Code.Final(),
		r.Outcome == sharding.Unknown && r.Code == sharding.KeyExpired: // nobody will ever know more
		d.answer(p, r)
	default:
		p.queue[0].unsure = p.queue[0].unsure || r.Outcome != sharding.Rejected
		d.fail(p, r.Code, r.Message)
	}
}

// answer hands the answer to a send to its sender. If no command of the sender takes it, the
// send ends: with success, or as a dead letter.
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
	d.succeed(p) // the target has answered; what may fail from here on is the sender
	d.makeReady(p)
}

// stateOf is the state in which a send ends whose sender is not told.
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
		Answer:  &turn.Answered{From: x.To, Sent: x.Input, SentAt: x.at, Reply: *x.answer},
	}})
}

// taken takes in how the command has ended that took an answer.
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
		d.stats.Obsolete++
		d.goOn(p)
		d.gone(x)
	case turn.FiringOtherLife: // nobody wants it any more
		d.stats.Obsolete++
		x.as = sharding.SendDone
		d.goOn(p)
		d.storeLater(x)
	case turn.FiringFailed:
		if d.wall()-x.at.UnixMilli() >= (d.cfg.MaxAge+d.cfg.TakeGrace).Milliseconds() && !mutant.On("take-grace") {
			reply := sharding.Doubt(e.Code, fmt.Sprintf("the sender has not taken the answer in %s: %s", d.cfg.MaxAge+d.cfg.TakeGrace, e.Message))
			d.end(p, sharding.SendInDoubt, &reply)
			return
		}
		d.fail(p, e.Code, e.Message)
	default: // the journal refuses it if it is done
		d.fail(p, sharding.Unavailable, "whether the answer was taken is not known yet")
	}
}

// end ends the first send of a pair, other than by a command of the sender.
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
	x.as = as
	d.goOn(p)
	d.storeLater(x)
}

// dropped forgets a send that an operator has given up. If an attempt of it is under way, the
// next one of its pair waits until that has ended, and its result is nothing any more. A send
// whose end is being stored is not pending for its sender any more when that is done, whatever
// the journal makes of it.
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
		if i < 0 || p.queue[i].dropped {
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

// goAfterDrop forgets the first send of a pair, which was given up, and goes on with the next.
func (d *Dispatcher) goAfterDrop(p *pair) {
	x := p.queue[0]
	d.goOn(p)
	d.gone(x)
}

// goOn goes on with the send behind the first one, which has ended.
func (d *Dispatcher) goOn(p *pair) {
	d.succeed(p)
	if p.queue = p.queue[1:]; len(p.queue) == 0 {
		delete(p.source.pairs, p.to)
		return
	}
	d.makeReady(p)
}

// succeed notes that a pair does not fail any more.
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

// pause is how long to wait after a number of failures.
func (d *Dispatcher) pause(times int) time.Duration {
	return d.jitter.Pause(times, d.cfg.RetryMin, d.cfg.RetryMax)
}
