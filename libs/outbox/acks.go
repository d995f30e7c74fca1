package outbox

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// ack is one that is not answered.
type ack struct {
	source *source // it may have been forgotten
	sends  []*send
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
		d.lastNumber++
		d.acks[d.lastNumber] = a
		d.out.Acks = append(d.out.Acks, Ack{Number: d.lastNumber, Append: sharding.Append{
			Shard: s.id, Epoch: s.epoch, Entity: a.source.entity, Delivered: a.delivered(),
		}})
	}
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

// acked takes in whether the ends of sends are stored. What is not is stored again: that
// changes nothing if it was.
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
	switch in.Verdict {
	case sharding.Durable:
		for _, x := range a.sends {
			d.gone(x)
		}
		d.out.Turn = append(d.out.Turn, turn.SendsEnded{Shard: s.id, Epoch: s.epoch, Entity: a.source.entity, Count: len(a.sends)})
	default:
		if len(s.ended) == 0 {
			s.ackAt = d.now.Add(d.pause(1))
		}
		s.ended = append(s.ended, a.sends...)
		d.ackBy(s.ackAt)
	}
}
