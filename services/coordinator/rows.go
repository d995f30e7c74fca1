package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// quickTries is how often a shard is allocated anew at once after a refusal.
// One is the normal case, two happen when a claim overtakes; who refuses more
// often gets the time of a HostShard that is not answered.
const quickTries = 3

// maxDoubts is how often the owner of a serving row is asked about refused
// commands before the shard is handed off: whoever was refused at an epoch
// never uses it again, so an owner that insists would never be heard.
const maxDoubts = 5

// owned returns the row if the node owns it, and could know. What it says is
// repeated when it has been asked.
func (m *Machine) owned(s sharding.ShardID, by sharding.NodeID) (*typeTable, *row) {
	t, r := m.find(s)
	if r == nil || by.IsZero() || r.Owner != by || m.pending(r.fact) {
		return nil, nil
	}
	return t, r
}

// shardStarted: the claim holds, whoever watches may route.
func (m *Machine) shardStarted(in ShardStarted) {
	_, r := m.owned(in.Shard, in.Region)
	if r == nil || r.Epoch != in.Epoch && !mutant.On("started-epoch") || r.Phase != sharding.Starting {
		return // a repeat, or superseded
	}
	next := r.Row
	next.Phase = sharding.Serving
	m.commit(RowFact{Row: next})
}

// hostRefused: nobody can serve at this epoch, so a higher one is due. That
// holds for a serving row too: its owner was asked after a refused command.
func (m *Machine) hostRefused(in HostRefused) {
	t, r := m.owned(in.Shard, in.Region)
	if r == nil || r.Epoch != in.Epoch || r.Phase == sharding.HandingOff || !m.plausible(in.Above) {
		return
	}
	if r.Phase == sharding.Starting && (in.Above < in.Epoch || r.tries >= quickTries) {
		return // another epoch would not help: leave it to the time-out
	}
	to := m.choose(t, r.Shard, r.Owner)
	if to.IsZero() {
		to = m.choose(t, r.Shard, sharding.NodeID{})
	}
	m.assign(r, to, in.Above)
}

// ask sends what the row's phase wants of its owner.
func (m *Machine) ask(r *row) {
	if !inTransit(r.Row) {
		return
	}
	r.asked = m.now
	if r.Phase == sharding.HandingOff {
		m.emit(HandOff{To: r.Owner, Term: m.term, Shard: r.Shard, Epoch: r.Epoch})
	} else {
		m.emit(HostShard{To: r.Owner, Term: m.term, Shard: r.Shard, Epoch: r.Epoch})
	}
}

// repeat goes through the rows whose owner has not answered: asks again, or
// allocates elsewhere after the time-out. Where there is no elsewhere, the
// owner is asked on: a slow claim must be able to succeed.
func (m *Machine) repeat() {
	for _, t := range m.types {
		for i, left := 0, t.transit; i < len(t.rows) && left > 0; i++ {
			r := &t.rows[i]
			if !inTransit(r.Row) {
				continue
			}
			left--
			if m.pending(r.fact) {
				r.since, r.asked = m.now, m.now // nobody has been asked yet
				continue
			}
			if m.overdue(t, r) {
				if to := m.choose(t, r.Shard, r.Owner); !to.IsZero() {
					m.assign(r, to, 0)
					continue
				}
			}
			if m.now.Sub(r.asked) >= m.cfg.Resend && m.region(r.Owner) != nil {
				m.ask(r)
			}
		}
	}
}

// overdue tells whether the owner's time is over. A volatile shard that was
// served is never taken without ShardStopped.
func (m *Machine) overdue(t *typeTable, r *row) bool {
	if r.Phase == sharding.HandingOff {
		return !t.desc.Volatile && m.now.Sub(r.since) >= m.cfg.HandoffTimeout+m.cfg.HandoffSlack
	}
	return m.now.Sub(r.since) >= m.cfg.HostTimeout<<min(time.Duration(r.tries), 2)
}
