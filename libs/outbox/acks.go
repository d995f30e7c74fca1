package outbox

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// ack is one append of how sends of an entity have ended. It is in progress, or waits to be tried
// again.
type ack struct {
	source *source // it may have left the memory
	sends  []*send
	pause  due.Pause // after which the append is tried again, if it has failed
}

// queueEnd has the end of a send stored together with others.
func (d *Dispatcher) queueEnd(x *send) {
	s := x.source.shard
	if len(s.ends) == 0 {
		s.storeAt = d.now.Add(d.cfg.AckDelay)
	}
	if s.ends = append(s.ends, x); len(s.ends) >= d.cfg.AckSends {
		s.storeAt = d.now
	}
	d.storeBy(s.storeAt)
}

// storeBy makes sure that storeDueEnds does its work at time t, or earlier.
func (d *Dispatcher) storeBy(t time.Time) {
	if d.storeAt.IsZero() || t.Before(d.storeAt) {
		d.storeAt = t
	}
}

// beginAcks begins the appends that store the ends of sends of a shard: one for each sender, or several if
// the sender has more than AckSends ends.
func (d *Dispatcher) beginAcks(s *shard) {
	ends := s.ends
	s.ends = nil
	//mutant:do send-ack return
	var list []*ack
	last := map[*source]*ack{}
	for _, x := range ends {
		a := last[x.source]
		if a == nil || len(a.sends) >= d.cfg.AckSends {
			a = &ack{source: x.source}
			last[x.source], list = a, append(list, a)
		}
		a.sends = append(a.sends, x)
	}
	for _, a := range list {
		d.beginAck(a)
	}
}

// beginAck begins the append of an ack.
func (d *Dispatcher) beginAck(a *ack) {
	d.lastNumber++
	d.acks[d.lastNumber] = a
	s := a.source.shard
	d.out.Acks = append(d.out.Acks, Ack{Number: d.lastNumber, Append: sharding.Append{
		Shard: s.ID, Epoch: s.Epoch, Entity: a.source.entity, Delivered: a.delivered(),
	}})
}

// storeDueEnds stores the ends of sends that have waited for long enough, and tries appends that have
// failed again.
func (d *Dispatcher) storeDueEnds() {
	if d.storeAt.IsZero() || d.now.Before(d.storeAt) {
		return
	}
	d.storeAt = time.Time{}
	for _, s := range d.sweep.Shards() {
		switch {
		case len(s.ends) == 0:
		case d.now.Before(s.storeAt):
			d.storeBy(s.storeAt)
		default:
			d.beginAcks(s)
		}
		list := s.unstored
		s.unstored = nil
		for _, a := range list {
			d.countUnstored(a, -1)
			if d.now.Before(a.pause.Until) {
				d.queueUnstored(a)
			} else {
				d.beginAck(a)
			}
		}
	}
}

// queueUnstored has the append of an ack tried again at its time.
func (d *Dispatcher) queueUnstored(a *ack) {
	a.source.shard.unstored = append(a.source.shard.unstored, a)
	d.countUnstored(a, 1)
	d.storeBy(a.pause.Until)
}

// countUnstored counts the sends of an ack that enters shard.unstored (by is 1) or leaves it (by is -1).
func (d *Dispatcher) countUnstored(a *ack, by int) {
	a.source.unstored += by * len(a.sends)
	d.unstored += by * len(a.sends)
}

// delivered returns the ends of the sends, with one entry for each record and state.
func (a *ack) delivered() []sharding.Delivered {
	var all []sharding.Delivered
	for _, x := range a.sends {
		i := slices.IndexFunc(all, func(d sharding.Delivered) bool { return d.Seq == x.seq && d.As == x.end })
		if i < 0 {
			i = len(all)
			all = append(all, sharding.Delivered{Seq: x.seq, As: x.end})
		}
		all[i].Sends = append(all[i].Sends, x.Place)
	}
	return all
}

// byRecord divides an ack into one for each record.
func (a *ack) byRecord() []*ack {
	// Invariant: if the end of one send cannot be stored, the ends of other sends are stored all the same. The end that
	// could not be stored is tried again, with growing pauses.
	// Mutants: ack-apart, ack-back-off
	//mutant:do ack-apart return []*ack{a}
	var list []*ack
	for _, x := range a.sends {
		i := slices.IndexFunc(list, func(o *ack) bool { return o.sends[0].seq == x.seq })
		if i < 0 {
			i = len(list)
			list = append(list, &ack{source: a.source, pause: a.pause})
		}
		list[i].sends = append(list[i].sends, x)
	}
	return list
}

// acked takes in whether the ends of sends are stored. If they are not, or if this is unknown, the
// append is tried again. That changes nothing if the ends were stored after all.
func (d *Dispatcher) acked(in Acked) {
	a := d.acks[in.Number]
	if a == nil {
		return
	}
	delete(d.acks, in.Number)
	s := a.source.shard
	if s.Closed || s.sources[a.source.entity] != a.source {
		return
	}
	switch verdict := in.Verdict; {
	case verdict == sharding.Durable:
		seqs := make([]uint64, 0, len(a.sends))
		for _, x := range a.sends {
			seqs = append(seqs, x.seq)
			d.endStored(x)
			d.removeSend(x)
		}
		d.out.Turn = append(d.out.Turn, turn.SendsEnded{Shard: s.ID, Epoch: s.Epoch, Entity: a.source.entity, Seqs: seqs})
	// Invariant: when an owner learns from the journal that it is deposed, it stores and delivers nothing more. So a
	// deposed owner does not deliver a send that a later owner may have ended as refused.
	// Guarded by: `outbox.acked`: if the journal refuses an append by its epoch, the shard's sends stop. `outbox.page`:
	// the records of a page say which epoch was claimed last (`journal.SendEntry.Epoch`).
	// Mutants: ack-deposed, page-deposed
	case verdict == sharding.RefusedEpoch: //mutant:false ack-deposed
		// The journal will take nothing more of this owner. The next owner delivers the sends again
		// whose ends are not stored.
		d.acks[in.Number] = a
		d.close(s.ID)
	case verdict == sharding.RefusedDamaged:
		// Perhaps only one of the records is damaged. So each record gets an append of its own.
		for _, part := range a.byRecord() {
			d.retryAck(part)
		}
	default:
		d.retryAck(a)
	}
}

// retryAck retries the append of an ack after a pause. The pause grows with each failure: damage may
// last until an operator repairs it. If the memory has no room for others, the ack's source is unloaded
// (see evict).
func (d *Dispatcher) retryAck(a *ack) {
	a.pause.Fail(d.now, &d.sweep.Jitter, d.cfg.RetryMin, d.cfg.RetryMax)
	//mutant:do ack-back-off a.pause.Until = d.now.Add(d.cfg.RetryMin)
	d.queueUnstored(a)
}

// unloadUnstored removes the acks of a source that wait to be tried again.
func (d *Dispatcher) unloadUnstored(src *source) {
	if src.unstored == 0 {
		return
	}
	s := src.shard
	s.unstored = slices.DeleteFunc(s.unstored, func(a *ack) bool {
		if a.source != src {
			return false
		}
		d.countUnstored(a, -1)
		for _, x := range a.sends {
			d.release(x)
		}
		return true
	})
}
