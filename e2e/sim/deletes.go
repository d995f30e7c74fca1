package sim

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
)

// readDeleted reads which deleted entities may be removed, as the driver of a region does.
func (s *shardNode) readDeleted(o purge.Read) {
	var page journal.WakesPage
	incarnation := s.p.incarnation
	s.w.journal.read(s.p.host, func() {
		page = s.w.journal.ledger.Wakes(s.w.clock(), o.WakesRequest)
		shorten(s.w, &page, shardOfWake)
	}, func(ok bool) {
		if s.p.incarnation != incarnation {
			return
		}
		s.p.post(func() {
			s.stepShard(purge.Page{Number: o.Number, WakesPage: page, Err: lost(ok)})
		})
	})
}

func (s *shardNode) purge(o journal.Purge) {
	s.group.add(journal.Op{Purge: &o}, func(r journal.Result) {
		if r.Verdict == sharding.Durable {
			s.w.mark("delete: purged")
		}
		s.stepShard(purge.Purged{Purge: o, Verdict: r.Verdict})
	})
}

// isBuiltin reports whether a command of the simulation is an operator's. The gateways of the
// simulation let operators through.
func isBuiltin(cmd string) bool { return sharding.IsBuiltin(cmd) }

// deletions checks what operators were told of their deletes: one that was acknowledged is in
// the log, and one that was refused by all is not.
func (c *checker) deletions(log []commit) {
	w := c.w
	deleted := map[sharding.CommandID]int{}
	for _, commit := range log {
		for _, r := range commit.Append.Records {
			if r.Delete && r.Command != "" {
				deleted[r.Command]++
			}
		}
	}
	for _, o := range w.ops {
		if o.cmd != sharding.DeleteCommand || w.volatile(o.entity) {
			continue
		}
		switch n := deleted[o.key]; {
		case o.acknowledged() && n == 0:
			w.violate("acknowledged is durable", "%v was acknowledged, and no record deletes the entity", o)
		case o.refused() && n > 0:
			w.violate("not applied has no effect", "%v was refused and has deleted the entity", o)
		case n > 1 && !w.weather.Harsh.Expires:
			w.violate("one effect", "%v has deleted the entity %d times", o, n)
		case n > 0:
			w.mark("delete: by an operator")
		}
	}
}
