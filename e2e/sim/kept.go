package sim

import (
	"encoding/binary"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// The states of volatile entities that move with their shards. Each one that is written down
// has its own number, which the checks follow.

// keptChecks is the knowledge of all states that were written down.
type keptChecks struct {
	last  uint64 // number of the newest one
	wrote map[uint64]writtenState
	// given has which region has given a state away last, and used those on which a turn has
	// run.
	given map[uint64]sharding.NodeUID
	used  map[uint64]bool
	// ran are the epochs at which an entity has run turns, by owners that were not deposed, in order.
	ran map[sharding.Entity][]sharding.Epoch
	// arrived are states that a region serves a shard with, and that no entity has read yet.
	arrived map[arrival]arrivedState
}

type writtenState struct {
	entity sharding.Entity
	epoch  sharding.Epoch
}

type arrival struct {
	entity sharding.Entity
	epoch  sharding.Epoch
}

type arrivedState struct {
	number uint64
	at     int64
}

func newKeptChecks() keptChecks {
	return keptChecks{
		wrote: map[uint64]writtenState{}, given: map[uint64]sharding.NodeUID{}, used: map[uint64]bool{},
		ran: map[sharding.Entity][]sharding.Epoch{}, arrived: map[arrival]arrivedState{},
	}
}

// write writes the state of a stopped instance down, as the driver of a region does.
func (s *shardNode) write(o turn.Stop, b *instance) *turn.Kept {
	w := s.w
	w.mark("kept: an entity is written down")
	w.kept.last++
	w.kept.wrote[w.kept.last] = writtenState{o.Entity, b.epoch}
	return &turn.Kept{Payload: binary.BigEndian.AppendUint64(b.list.encode(), w.kept.last)}
}

func stateNumber(k *turn.Kept) uint64 {
	if len(k.Payload) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(k.Payload[len(k.Payload)-8:])
}

// readState brings an instance to life from a state; nil: it begins empty.
func (s *shardNode) readState(kept *turn.Kept, b *instance) {
	key := arrival{b.entity, b.epoch}
	if a, found := s.w.kept.arrived[key]; found && kept == nil && s.w.now-a.at < passivateAfter*9/10 {
		s.w.violate("a planned move keeps the state", "%s: %v begins empty at %v, though its state has come", s.p.name, b.entity, b.epoch)
	}
	delete(s.w.kept.arrived, key)
	if kept == nil {
		return
	}
	s.w.mark("kept: an entity continues where it moved to")
	b.list, _ = decodeList(kept.Payload[:len(kept.Payload)-8])
	b.from = stateNumber(kept)
}

// ranTurn checks that a state is alive once, and that no entity that has begun without its
// state gets it later.
func (s *shardNode) ranTurn(o *turn.Run, b *instance) {
	w, k := s.w, &s.w.kept
	if number := b.from; number > 0 {
		b.from = 0
		was := k.wrote[number]
		if k.used[number] {
			w.violate("a state lives once", "%s: %v lives at %v with a state of epoch %v that was alive after that", s.p.name, o.Entity, o.Epoch, was.epoch)
		}
		if was.entity != o.Entity {
			w.violate("a state lives once", "%s: %v has the state of %v", s.p.name, o.Entity, was.entity)
		}
		// An owner that was deposed after it took the state may go on with it for a while, as any
		// deposed owner of a volatile entity may: so only epochs below its own count.
		for _, e := range k.ran[o.Entity] {
			if was.epoch < e && e < o.Epoch {
				w.violate("who begins without a state does not get it later", "%s: %v has a state of epoch %v at %v, and it ran at %v", s.p.name, o.Entity, was.epoch, o.Epoch, e)
			}
		}
		k.used[number] = true
	}
	if w.journal.highest[o.Shard].Epoch == o.Epoch { // else the state may live elsewhere already
		if ran := k.ran[o.Entity]; len(ran) == 0 || ran[len(ran)-1] < o.Epoch {
			k.ran[o.Entity] = append(ran, o.Epoch)
		}
	}
}

// fetchKept asks the region that had the shard before. The request and the answer are a
// stream: they come at most once, but maybe only in part, or never.
func (s *shardNode) fetchKept(o region.FetchKept) {
	w := s.w
	over, asked := false, s.p.now()
	done := func(states []turn.Kept) {
		if over {
			return
		}
		over = true
		taken := s.core.KeptStats().Fetched
		s.stepShard(region.KeptFetched{Shard: o.Shard, Epoch: o.Epoch, Kept: states})
		if len(states) == 0 {
			return
		}
		if s.core.KeptStats().Fetched == taken {
			w.mark("kept: states come too late")
			return
		}
		if waited := s.p.now().Sub(asked); waited >= s.cfg.KeptWait {
			w.violate("states that come too late are ignored", "%s takes the states of %v at %v, %v after it asked for them", s.p.name, o.Shard, o.Epoch, waited)
		}
		w.mark("kept: states come")
		for i := range states {
			e := sharding.Entity{Type: o.Shard.Type, ID: states[i].ID}
			w.kept.arrived[arrival{e, o.Epoch}] = arrivedState{stateNumber(&states[i]), w.now}
		}
	}
	w.after(int64(o.Within), s.p.ifAlive(func() { done(nil) }))
	target, to := w.process(o.Previous.Owner.Addr), o.Previous.Owner
	served := false
	w.net.send(s.p.host, target.host, func() {
		again := served
		served = true
		answer := func(states []turn.Kept) {
			if again { // the same stream has brought an answer before
				return
			}
			w.net.send(target.host, s.p.host, s.p.ifAlive(func() { done(states) }))
		}
		if !target.up || target.uid != to.UID {
			w.mark("kept: the region before is gone")
			answer(nil)
			return
		}
		target.post(func() {
			t, ok := target.body.(*regionNode)
			if !ok || target.uid != to.UID {
				answer(nil)
				return
			}
			t.give(region.GiveKept{Shard: o.Shard, Epoch: o.Epoch, Stopped: o.Previous.Epoch}, answer)
		})
	})
}

// give asks the core for its kept states.
func (n *regionNode) give(in region.GiveKept, answer func([]turn.Kept)) {
	s := n.shards[n.cfg.CoreOf(in.Shard)]
	n.lastGive++
	in.Call = n.lastGive
	n.gives[in.Call] = func(o region.Kept) {
		w := n.w
		states := o.States
		for i := range states {
			number := stateNumber(&states[i])
			if w.kept.given[number] == n.p.uid {
				w.violate("a state lives once", "%s gives the state of %s/%s twice", n.p.name, in.Shard, states[i].ID)
			}
			w.kept.given[number] = n.p.uid
			if was := w.kept.wrote[number]; in.Epoch <= was.epoch {
				w.violate("a state lives once", "%s gives a state of epoch %v to the owner of %v", n.p.name, was.epoch, in.Epoch)
			}
		}
		if d := w.dice("kept"); len(states) > 0 && d.chance(w.weather.LinkBreak*5) {
			w.mark("kept: only a part arrives")
			states = states[:d.IntN(len(states))]
		}
		answer(states)
		if len(o.States) > 0 {
			w.after(w.dice("kept").exp(ms), n.p.ifAlive(func() { s.stepShard(region.KeptSent{Bytes: o.Bytes}) }))
		}
	}
	s.stepShard(in)
}

// moveVolatile is the last check, when nothing fails any more: regions are drained, and no
// volatile entity loses its state.
func (w *World) moveVolatile(stop func() bool) {
	mover := w.idleClient(len(w.clients) + 1)
	ask := func(e sharding.Entity, cmd string) *try {
		o := mover.draw(e, true, 0)
		o.cmd, o.tell, o.called = cmd, false, w.now
		mover.send(o, 0, nanos(10*sec))
		for end := w.now + 12*sec; o.pending > 0 && w.now < end && !stop(); {
			w.run(w.now+5*ms, stop)
		}
		return o.tries[len(o.tries)-1]
	}
	for _, e := range w.entities {
		if !w.volatile(e) || stop() {
			continue
		}
		before := ask(e, cmdAdd)
		from := w.ownerOf(e)
		if before.reply.Outcome != sharding.Executed || from.IsZero() {
			continue // another check is about that
		}
		w.drain(from)
		for end := w.now + 2*sec; w.now < end && !stop() && (w.ownerOf(e) == from || w.ownerOf(e).IsZero()); {
			w.run(w.now+5*ms, stop)
		}
		to := w.ownerOf(e)
		after := ask(e, cmdGet)
		for n := 0; n < 10 && after.reply.Code == sharding.ResourceExhausted && !stop(); n++ { // low limits: it says nothing about the state
			w.run(w.now+50*ms, stop)
			after = ask(e, cmdGet)
		}
		w.resumeRegions()
		if stop() || to == from || to.IsZero() || w.passivatedAt[e] >= before.called { // for lack of memory
			continue
		}
		w.mark("kept: a planned move in calm weather")
		grown := after.list.n > before.list.n // by a timer
		if after.reply.Outcome != sharding.Executed || after.list != before.list && !grown {
			w.violate("a planned move keeps the state", "%v had %v at %v, and has %v %v at %v", e, before.list, from, after.reply.Outcome, after.list, to)
		}
	}
}

// ownerOf returns the region that serves an entity, by the active coordinator's table.
func (w *World) ownerOf(e sharding.Entity) sharding.NodeID {
	if row := w.rowOf(e); row.Phase == sharding.Serving {
		return row.Owner
	}
	return sharding.NodeID{}
}

// rowOf returns the row of the shard of an entity, by the active coordinator's table.
func (w *World) rowOf(e sharding.Entity) sharding.Row {
	id := w.shardOf(e)
	for _, c := range w.activeCoordinators() {
		for _, row := range c.core.View().Rows {
			if row.Shard == id {
				return row
			}
		}
	}
	return sharding.Row{}
}
