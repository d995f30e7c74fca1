package sim

import (
	"fmt"
	"math"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// addRemember makes the journaled types remembered ones.
func (w *World) addRemember(list []turn.Type) {
	for i := range list {
		list[i].Remember = w.weather.Remember && !list[i].Desc.Volatile
	}
}

// remembers reports whether entities of the type are remembered.
func (w *World) remembers(e sharding.Entity) bool {
	return w.weather.Remember && !ofCoordinators(e) && !w.volatile(e)
}

// startConfig has limits so low that runs reach them.
func (w *World) startConfig() wakeup.StartConfig {
	c, d := wakeup.DefaultStartConfig(), w.dice("limits of starts")
	c.Page, c.Wakes, c.Limit, c.ReadShards, c.Failing = 1+d.IntN(2), 2+d.IntN(4), 1+d.IntN(3), 1+d.IntN(4), 1+d.IntN(3)
	c.BackOff, c.BackOffMax, c.ReadRetry = nanos(300*ms), nanos(2*sec), nanos(200*ms)
	if d.chance(0.5) {
		c.Strategy, c.Number = wakeup.StartConstant, 1+d.IntN(2)
	}
	return c
}

// startFails reports whether the start hook of an entity without waiting commands fails.
func (s *shardNode) startFails(o *turn.Load) bool {
	fails := o.Background && s.w.dice("start hooks").chance(s.w.weather.StartFails)
	if fails {
		s.w.mark("remembered: it cannot be started")
	}
	return fails
}

// remembered checks the log: an entity is remembered from its first record on that has events,
// sends or sets a timer, until a record says otherwise; and this is not written again and again.
func (c *checker) remembered(log []commit) {
	type row struct {
		stands bool
		epoch  sharding.Epoch // at which it was set
	}
	rows := map[sharding.Entity]row{}
	for _, commit := range log {
		a := commit.Append
		if !c.w.remembers(a.Entity) {
			continue
		}
		r := rows[a.Entity]
		for i := range a.Records {
			changes := len(a.Records[i].Events) > 0 || len(a.Records[i].Sends) > 0 && c.w.letters[a.Records[i].Command] == nil // an operator's repeated send brings no entity back
			forgotten := a.Records[i].Delete
			if forgotten {
				r = row{}
			}
			for _, k := range a.Records[i].Wakes {
				switch {
				case k.Kind != sharding.RememberWake:
					changes = true
				case k.Due == 0:
					forgotten = true
					r = row{}
				case r.stands && r.epoch == commit.Epoch:
					c.w.violate("activity is written hourly", "%v: written twice by one owner, at %s", a.Entity, at(commit.at))
				default:
					r = row{stands: true, epoch: commit.Epoch}
				}
			}
			if changes && !r.stands && !forgotten {
				c.w.violate("what stores something is remembered", "%v: record %d changes it and does not remember it, at %s", a.Entity, a.Records[i].Seq, at(commit.at))
			}
		}
		rows[a.Entity] = r
	}
}

// unstarted names a remembered entity that is neither alive nor passivated where its shard is
// served, or returns "".
func (w *World) unstarted() string {
	var req journal.WakesRequest
	for _, t := range types {
		for i := range t.Shards {
			req.Shards = append(req.Shards, journal.ShardPosition{Shard: sharding.ShardID{Type: t.Type, Index: i}, After: journal.WakePosition{Due: math.MinInt64}})
		}
	}
	req.Limit, req.Until = 1000, 1
	s := w.journal
	for _, r := range s.ledger.Wakes(w.clock(), req).Entries {
		if !w.intact(r.Entity) {
			continue
		}
		fence := s.ledger.Fence(r.Shard)
		for _, p := range w.processes {
			n, ok := p.body.(*regionNode)
			if !ok || p.uid != fence.Owner {
				continue
			}
			if sn := n.shardNodeOf(r.Entity); !sn.lives(r.Entity) && sn.passivated[r.Entity] != fence.Epoch {
				return fmt.Sprintf("%v is remembered and not alive at %s, which serves its shard at epoch %v", r.Entity, p.name, fence.Epoch)
			}
		}
	}
	return ""
}

// lives reports whether an entity has an instance that was loaded.
func (s *shardNode) lives(e sharding.Entity) bool {
	for _, b := range s.instances { // order-free: reports whether there is one
		if b.entity == e && b.alive {
			return true
		}
	}
	return false
}

// noteStop notes that an entity is passivated.
func (s *shardNode) noteStop(o turn.Stop) {
	if b := s.instances[o.Incarnation]; b != nil && o.Reason == turn.Passivated {
		s.passivated[o.Entity], s.w.passivatedAt[o.Entity] = b.epoch, s.w.now
	}
}
