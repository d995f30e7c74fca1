package outbox

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// ack is one append of how sends of an entity have ended. It is under way, or waits to be tried
// again.
type ack struct {
	source *source // it may have been forgotten
	sends  []*send
	times  int       // how many times it was not stored
	at     time.Time // when it is tried again
}

// storeLater has the end of a send stored together with others.
func (d *Dispatcher) storeLater(x *send) {
	s := x.source.shard
	if len(s.ended) == 0 {
		s.ackAt = d.now.Add(d.cfg.AckDelay)
	}
	if s.ended = append(s.ended, x); len(s.ended) >= d.cfg.AckSends {
		s.ackAt = d.now
	}
	d.ackBy(s.ackAt)
}

// ackBy makes sure that what has ended is looked at by then.
func (d *Dispatcher) ackBy(t time.Time) {
	if d.acksAt.IsZero() || t.Before(d.acksAt) {
		d.acksAt = t
	}
}

// storeEnded stores how sends of a shard have ended: with one append for each entity, or
// several if it has more than AckSends.
func (d *Dispatcher) storeEnded(s *shard) {
	ended := s.ended
	s.ended = nil
	if mutant.On("send-ack") {
		return
	}
	var list []*ack
	last := map[*source]*ack{}
	for _, x := range ended {
		a := last[x.source]
		if a == nil || len(a.sends) >= d.cfg.AckSends {
			a = &ack{source: x.source}
			last[x.source], list = a, append(list, a)
		}
		a.sends = append(a.sends, x)
	}
	for _, a := range list {
		d.store(a)
	}
}

// store begins an append.
func (d *Dispatcher) store(a *ack) {
	d.lastNumber++
	d.acks[d.lastNumber] = a
	s := a.source.shard
	d.out.Acks = append(d.out.Acks, Ack{Number: d.lastNumber, Append: sharding.Append{
		Shard: s.id, Epoch: s.epoch, Entity: a.source.entity, Delivered: a.delivered(),
	}})
}

// storeDue stores what has ended and has waited for long enough, and tries again what was not
// stored.
func (d *Dispatcher) storeDue() {
	if d.acksAt.IsZero() || d.now.Before(d.acksAt) {
		return
	}
	d.acksAt = time.Time{}
	for _, s := range d.shards {
		switch {
		case len(s.ended) == 0:
		case d.now.Before(s.ackAt):
			d.ackBy(s.ackAt)
		default:
			d.storeEnded(s)
		}
		list := s.refused
		s.refused = nil
		for _, a := range list {
			d.countRefused(a, -1)
			if d.now.Before(a.at) {
				d.waitToStore(a)
			} else {
				d.store(a)
			}
		}
	}
}

func (d *Dispatcher) waitToStore(a *ack) {
	a.source.shard.refused = append(a.source.shard.refused, a)
	d.countRefused(a, 1)
	d.ackBy(a.at)
}

// countRefused counts the sends of an ack as waiting to be stored again, or with -1 as not.
func (d *Dispatcher) countRefused(a *ack, by int) {
	a.source.refused += by * len(a.sends)
	d.refused += by * len(a.sends)
}

// delivered has an entry for each record and state.
func (a *ack) delivered() []sharding.Delivered {
	var all []sharding.Delivered
	for _, x := range a.sends {
		i := slices.IndexFunc(all, func(d sharding.Delivered) bool { return d.Seq == x.seq && d.As == x.as })
		if i < 0 {
			i = len(all)
			all = append(all, sharding.Delivered{Seq: x.seq, As: x.as})
		}
		all[i].Sends = append(all[i].Sends, x.Place)
	}
	return all
}

// byRecord divides an ack: one for each record.
func (a *ack) byRecord() []*ack {
	if mutant.On("ack-apart") {
		return []*ack{a}
	}
	var list []*ack
	for _, x := range a.sends {
		i := slices.IndexFunc(list, func(o *ack) bool { return o.sends[0].seq == x.seq })
		if i < 0 {
			i = len(list)
			list = append(list, &ack{source: a.source, times: a.times})
		}
		list[i].sends = append(list[i].sends, x)
	}
	return list
}

// acked takes in whether the ends of sends are stored. What is not is tried again: that
// changes nothing if it was stored.
func (d *Dispatcher) acked(in Acked) {
	a := d.acks[in.Number]
	if a == nil {
		return
	}
	delete(d.acks, in.Number)
	s := a.source.shard
	if s.closed || s.sources[a.source.entity] != a.source {
		return
	}
	switch verdict := in.Verdict; {
	case verdict == sharding.Durable:
		seqs := make([]uint64, 0, len(a.sends))
		for _, x := range a.sends {
			seqs = append(seqs, x.seq)
			d.ended(x)
			d.gone(x)
		}
		d.out.Turn = append(d.out.Turn, turn.SendsEnded{Shard: s.id, Epoch: s.epoch, Entity: a.source.entity, Seqs: seqs})
	case verdict == sharding.RefusedEpoch && !mutant.On("ack-deposed"):
		// The journal will take nothing more of this owner. What is not stored is for the next
		// one, who delivers it again.
		d.acks[in.Number] = a
		d.close(s.id)
	case verdict == sharding.RefusedDamaged:
		// Perhaps one of its records is damaged: the others are stored without it.
		for _, part := range a.byRecord() {
			d.notStored(part)
		}
	default:
		d.notStored(a)
	}
}

// notStored has an ack tried again after a pause that grows: damage may last until somebody
// repairs it. If there is no room for others, its source is forgotten (see evict).
func (d *Dispatcher) notStored(a *ack) {
	a.times++
	a.at = d.now.Add(d.pause(a.times))
	if mutant.On("ack-back-off") {
		a.at = d.now.Add(d.cfg.RetryMin)
	}
	d.waitToStore(a)
}

// dropRefused forgets the acks of a source that wait to be tried again.
func (d *Dispatcher) dropRefused(src *source) {
	if src.refused == 0 {
		return
	}
	s := src.shard
	s.refused = slices.DeleteFunc(s.refused, func(a *ack) bool {
		if a.source != src {
			return false
		}
		d.countRefused(a, -1)
		for _, x := range a.sends {
			d.release(x)
		}
		return true
	})
}
