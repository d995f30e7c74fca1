package entitytest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Send is a command that an entity has sent to another one, and that is not done.
type Send struct {
	To      string // "Type/id"
	Command string
	// State is "pending", or "refused" or "in doubt" for a dead letter.
	State string
	// Failures is the number of failures of a pending one, and Error is the last error. For a dead letter,
	// Error is the reason why it has become one.
	Failures int
	Error    string
}

// sendName names a send of an entity: by its record and its place there.
type sendName struct {
	seq   uint64
	place uint16
}

// Sends returns what the entity has sent and is not done, in the order in which it was sent. What
// has a target in the kit is delivered before the call returns that has sent it, unless it fails:
// then it is tried again when time passes.
func (e Entity) Sends() []Send {
	k, ent := e.kit, e.addr
	failing := k.outbox.Failing(ent, 1<<30)
	var list []Send
	s := k.journal(ent)
	for _, seq := range slices.Sorted(maps.Keys(s.sends)) {
		for place, state := range s.sends[seq] {
			if state == sharding.SendDone {
				continue
			}
			x := s.records[seq-1].Sends[place]
			out := Send{To: x.To.String(), Command: x.Input.Command, State: state.String(), Error: s.died[sendName{seq, uint16(place)}]}
			if i := slices.IndexFunc(failing, func(f outbox.Failing) bool { return f.Seq == seq && int(f.Place) == place }); i >= 0 {
				out.Failures, out.Error = failing[i].Times, string(failing[i].Code)+": "+failing[i].Message
			}
			list = append(list, out)
		}
	}
	return list
}

// DeliverAgain delivers once more what was delivered last, as a region does that did not learn
// how it ended. The target recognizes it, and answers as it did before, without running the
// command.
func (k *Kit) DeliverAgain() {
	k.t.Helper()
	if k.lastDelivery == nil {
		k.t.Fatal("entitytest: DeliverAgain: nothing was delivered yet")
	}
	env := *k.lastDelivery
	env.Deadline = time.Time{}
	k.deliverSend(outbox.Deliver{Env: env})
	k.run()
}

// outboxConfig is the dispatcher's configuration: it knows all sends without asking again, and ends are
// stored at once.
func outboxConfig() outbox.Config {
	c := outbox.DefaultConfig()
	c.Refresh = 365 * 24 * time.Hour
	c.AckSends = 1
	c.AgeLimit = c.Refresh // the kit remembers all keys
	return c
}

// deliverSend brings a send to its target.
func (k *Kit) deliverSend(v outbox.Deliver) {
	env := v.Env
	k.lastDelivery = &env
	d, ok := k.descs[env.Entity.Type]
	if !ok {
		k.sendAnswered(v.Number, sharding.Reject(sharding.Unavailable, "no type "+string(env.Entity.Type)+" in this kit"))
		return
	}
	k.last++
	k.deliveries[k.last] = v.Number
	shard := d.Desc.ShardOf(env.Entity.ID)
	k.openShard(env.Entity)
	k.core(turn.Deliver{Request: k.last, Shard: shard, Env: &env})
}

// sendAnswered tells the dispatcher how a target has answered.
func (k *Kit) sendAnswered(number uint64, r sharding.Reply) {
	if number != 0 { // else it was delivered again
		k.outbox.Step(k.now, outbox.Answered{Number: number, Reply: r}, &k.sent)
	}
}

// sendPage answers a read of sends.
func (k *Kit) sendPage(r outbox.Read) outbox.Page {
	p := outbox.Page{Number: r.Number, SendsPage: journal.SendsPage{Now: k.now}}
	for _, after := range r.Shards {
		var records []journal.SendEntry
		for ent, s := range k.store { // order-free: sorted below
			d := k.descs[ent.Type].Desc
			if d.ShardOf(ent.ID) != after.Shard {
				continue
			}
			for seq, states := range s.sends { // order-free: sorted below
				rec := journal.SendEntry{Shard: after.Shard, Entity: ent, Seq: seq, At: s.sentAt[seq]}
				rec.Sends, rec.States = s.records[seq-1].Sends, journal.NewSends(&s.records[seq-1])
				for place, state := range states {
					if state != sharding.SendPending {
						rec.States.Deliver(len(states), &sharding.Delivered{Seq: seq, Sends: []uint16{uint16(place)}, As: state})
					}
				}
				if slices.Contains(states, sharding.SendPending) && cmp.Or(ent.Compare(after.Entity), cmp.Compare(seq, after.Seq)) > 0 {
					records = append(records, rec)
				}
			}
		}
		slices.SortFunc(records, func(a, b journal.SendEntry) int { return cmp.Or(a.Entity.Compare(b.Entity), cmp.Compare(a.Seq, b.Seq)) })
		if len(records) > r.Limit {
			records = records[:r.Limit]
			p.More = append(p.More, after.Shard)
		}
		p.Entries = append(p.Entries, records...)
	}
	return p
}

// mayDeliver reports whether none of the sends is done that an append may deliver only once.
func (s *stored) mayDeliver(all []sharding.Delivered) bool {
	for _, d := range all {
		for _, place := range d.Sends {
			if states := s.sends[d.Seq]; d.Once && (int(place) >= len(states) || states[place] == sharding.SendDone) {
				return false
			}
		}
	}
	return true
}

// changeSends does what an append does to sends.
func (s *stored) changeSends(a *sharding.Append, now time.Time) {
	for _, d := range a.Delivered {
		states := s.sends[d.Seq]
		for _, place := range d.Sends {
			if states[place] == sharding.SendPending || d.As == sharding.SendDone {
				states[place] = d.As
			}
		}
	}
	for _, r := range a.Records {
		if len(r.Sends) > 0 {
			s.sends[r.Seq], s.sentAt[r.Seq] = make([]sharding.SendState, len(r.Sends)), now
		}
	}
}

// pending is the number of pending sends of the entity.
func (s *stored) pending() (n int) {
	for _, states := range s.sends { // order-free: a sum
		for _, state := range states {
			if state == sharding.SendPending {
				n++
			}
		}
	}
	return n
}
