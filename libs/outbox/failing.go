package outbox

import (
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/due"
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
	Until   time.Time // when it is given up, by the clock of the store
	due.Failure
}

// Died records why a send has become a dead letter.
type Died struct {
	shard   sharding.ShardID // of the sender
	At      time.Time        // by the clock of this process
	Times   int              // how many attempts have failed in a row before
	Code    sharding.Code
	Message string
}

// Failing returns the sends that have failed and will be tried again, at most limit of them: the sends of an entity, of a
// type or of all types, see [due.Failing.First].
func (d *Dispatcher) Failing(of sharding.Entity, limit int) []Failing {
	return due.Map(d.failing.First(of, limit), d.describe)
}

// FailingOf returns the first send of a pair. The later sends of the pair wait for it. If this send is
// not failing, ok is false.
func (d *Dispatcher) FailingOf(s sharding.ShardID, from, to sharding.Entity) (f Failing, ok bool) {
	sh := d.sweep.Shard(s)
	if sh == nil || sh.sources[from] == nil {
		return f, false
	}
	if p := sh.sources[from].pairs[to]; p != nil && p.Times > 0 {
		return d.describe(p), true
	}
	return f, false
}

// FailingTypes counts the pairs that are failing by the type of their senders.
func (d *Dispatcher) FailingTypes() map[sharding.EntityType]int { return d.failing.Types() }

// describe returns the first send of a pair, which is failing.
func (d *Dispatcher) describe(p *pair) Failing {
	x := p.queue[0]
	return Failing{
		From: p.source.entity, Seq: x.seq, Place: x.Place, To: x.To, Command: x.Input.Command, ReplyTo: x.ReplyTo, SentAt: x.at,
		Answer: x.answer != nil, Waiting: len(p.queue) - 1,
		Until: x.at.Add(d.lifetime(x)), Failure: p.Failure,
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
	d.died[k] = Died{shard: p.source.shard.ID, At: d.now, Times: p.Times, Code: r.Code, Message: message}
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
