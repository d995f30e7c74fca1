package outbox

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/priority"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Failing is a send that has failed and will be tried again. The later sends of the same pair wait for
// it.
type Failing struct {
	From    sharding.Entity
	Seq     uint64
	Place   uint16
	To      sharding.Entity
	Command string
	ReplyTo string
	SentAt  time.Time
	// Answer is true if the target has answered. The failing command is then the one of the sender
	// that is to take the answer.
	Answer  bool
	Waiting int       // number of later sends of the pair in memory, which wait
	Since   time.Time // of the first failure, by the clock of this process
	Times   int       // how many times it has failed
	Next    time.Time // when it is tried again, by the clock of this process; a time in the past: now
	Until   time.Time // when it is given up, by the clock of the store
	Code    sharding.Code
	Message string
}

// Died records why a send has become a dead letter.
type Died struct {
	shard   sharding.ShardID // of the sender
	At      time.Time        // by the clock of this process
	Times   int              // how many attempts have failed in a row before
	Code    sharding.Code
	Message string
}

// Failing returns the sends that have failed and will be tried again, at most limit of them. It returns
// the sends of an entity. If the entity has no id, it returns the sends of the entity's type; if the
// entity is zero, the sends of all types. The send that has been failing for the longest time comes
// first.
func (d *Dispatcher) Failing(of sharding.Entity, limit int) []Failing {
	first := priority.First(func(yield func(*pair) bool) {
		for p := range d.failing { // order-free: the first ones are taken
			e := p.source.entity
			if (of.Type == "" || of.Type == e.Type) && (of.ID == "" || of.ID == e.ID) && !yield(p) {
				return
			}
		}
	}, limit, func(a, b *pair) int {
		return cmp.Or(a.since.Compare(b.since), a.source.entity.Compare(b.source.entity), a.to.Compare(b.to))
	})
	list := make([]Failing, len(first))
	for i, p := range first {
		list[i] = d.describe(p)
	}
	return list
}

// FailingOf returns the first send of a pair. The later sends of the pair wait for it. If this send is
// not failing, ok is false.
func (d *Dispatcher) FailingOf(s sharding.ShardID, from, to sharding.Entity) (f Failing, ok bool) {
	sh := d.byID[s]
	if sh == nil || sh.sources[from] == nil {
		return f, false
	}
	if p := sh.sources[from].pairs[to]; p != nil && p.times > 0 {
		return d.describe(p), true
	}
	return f, false
}

// FailingTypes counts the pairs that are failing by the type of their senders.
func (d *Dispatcher) FailingTypes() map[sharding.EntityType]int {
	n := map[sharding.EntityType]int{}
	for p := range d.failing { // order-free: counted
		n[p.source.entity.Type]++
	}
	return n
}

// describe returns the first send of a pair, which is failing.
func (d *Dispatcher) describe(p *pair) Failing {
	x := p.queue[0]
	return Failing{
		From: p.source.entity, Seq: x.seq, Place: x.Place, To: x.To, Command: x.Input.Command, ReplyTo: x.ReplyTo, SentAt: x.at,
		Answer: x.answer != nil, Waiting: len(p.queue) - 1,
		Since: p.since, Times: p.times, Next: p.retryAt, Until: x.at.Add(d.lifetime(x)), Code: p.code, Message: p.message,
	}
}

// Died returns why a send has become a dead letter. The reason is known only if the send became a dead
// letter in this process and after its shard was opened here, and only for the last dead letters. The
// reasons are for operators; nothing is decided by them.
func (d *Dispatcher) Died(from sharding.Entity, seq uint64, place uint16) (died Died, ok bool) {
	died, ok = d.died[sendName{from, seq, place}]
	return died, ok
}

// noteDied remembers why the first send of a pair has become a dead letter.
func (d *Dispatcher) noteDied(p *pair, r *sharding.Reply) {
	k := p.firstName()
	if _, known := d.died[k]; !known {
		if len(d.diedOrder) >= d.cfg.DeadLetters {
			delete(d.died, d.diedOrder[0])
			d.diedOrder = d.diedOrder[1:]
		}
		d.diedOrder = append(d.diedOrder, k)
	}
	// A copy: the message may be part of a long reply, and waits here for long.
	message := strings.ToValidUTF8(strings.Clone(r.Message[:min(len(r.Message), d.cfg.DeadLetterBytes)]), "")
	d.died[k] = Died{shard: p.source.shard.id, At: d.now, Times: p.times, Code: r.Code, Message: message}
}

// removeDied removes the reasons for the dead letters of a shard: another region may deal with them.
func (d *Dispatcher) removeDied(s sharding.ShardID) {
	d.diedOrder = slices.DeleteFunc(d.diedOrder, func(k sendName) bool {
		if d.died[k].shard != s {
			return false
		}
		delete(d.died, k)
		return true
	})
}
