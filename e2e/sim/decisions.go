package sim

import (
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// decisionEntity has the decisions of coordinators.
var decisionEntity = sharding.Entity{Type: factEntity.Type, ID: "decisions"}

// ofCoordinators reports whether what is stored of an entity is the coordinators', and no element
// of a command.
func ofCoordinators(e sharding.Entity) bool { return e.Type == factEntity.Type }

// ringLimits are so low that runs reach them.
var ringLimits = coordinator.RingLimits{
	MaxBytes: 800, MaxWaiting: 400, BatchBytes: 120, BatchWait: time.Second, RetryPause: time.Second,
	MeasureBytes: 160, MeasureAfter: 20 * time.Second,
}

// decisions is what is known of the decisions of all coordinators.
type decisions struct {
	all     []coordinator.Decision                  // by number
	gives   map[sharding.Epoch]coordinator.Decision // the shards that are given away, by the new epoch
	givenAt map[sharding.Epoch]int64                // when
	terms   map[sharding.Term]*termDecisions        // what of each term was stored
	changes []sharding.Row                          // by the facts, with which a shard has another epoch
}

type termDecisions struct {
	stored  map[uint64]bool // by the number in the term
	last    uint64          // the highest of stored
	dropped uint64          // that records tell
}

// decided takes a decision of a coordinator.
func (c *coordNode) decided(d coordinator.Decision) {
	k := &c.w.decisions
	k.all = append(k.all, d)
	if d.Kind == coordinator.Given {
		if d.Cause == 0 {
			c.w.violate("a decision has a cause", "%s: %+v", c.p.name, d)
		}
		k.gives[d.Epoch], k.givenAt[d.Epoch] = d, c.w.now
	}
	c.ring.Add(c.p.now(), number(uint64(len(k.all)-1)))
}

// keepDecisions does what the ring asks of the journal.
func (c *coordNode) keepDecisions() {
	var got journal.Loaded
	var err error
	read := func(req journal.LoadRequest) func() { return func() { got, err = c.w.journal.load(req) } }
	switch q := c.ring.Next(c.p.now()).(type) {
	case coordinator.RingLocate:
		c.query(read(journal.LoadRequest{Entity: decisionEntity, LookupOnly: true}), func(ok bool) {
			c.ring.Located(c.p.now(), q.Number, got.LastSeq, ok && err == nil)
		})
	case coordinator.RingMeasure:
		c.query(read(journal.LoadRequest{Entity: decisionEntity}), func(ok bool) {
			var records []coordinator.RingRecord
			for i := range got.Records {
				records = append(records, coordinator.RingRecord{Seq: got.Records[i].Seq, Bytes: eventBytes(&got.Records[i])})
			}
			c.ring.Measured(c.p.now(), q.Number, records, ok && err == nil)
		})
	case coordinator.RingAppend:
		r := sharding.Record{Seq: q.Seq}
		for _, d := range q.Decisions {
			r.Events = append(r.Events, sharding.Event{Name: "Decision", Payload: d})
		}
		if q.Dropped > 0 {
			c.w.mark("decisions dropped")
			r.Events = append(r.Events, sharding.Event{Name: "Dropped", Payload: number(q.Dropped)})
		}
		a := sharding.Append{Shard: factShard, Epoch: sharding.MakeEpoch(q.Term, 0), Entity: decisionEntity, Records: []sharding.Record{r}}
		c.commit(journal.Op{Append: &a}, func(r journal.Result) { c.ring.Stored(c.p.now(), q.Number, r.Verdict) })
	case coordinator.RingCut:
		c.w.mark("decisions trimmed")
		s := journal.WriteSnapshot{Shard: factShard, Epoch: sharding.MakeEpoch(q.Term, 0), Entity: decisionEntity, Snapshot: journal.Snapshot{Seq: q.Seq}, Cut: q.Seq}
		c.commit(journal.Op{Snapshot: &s}, func(r journal.Result) { c.ring.CutDone(c.p.now(), q.Number, r.Verdict) })
	}
}

func eventBytes(r *sharding.Record) (n int) {
	for _, e := range r.Events {
		n += len(e.Payload)
	}
	return n
}

// decisionsOf notes which decisions are stored.
func (s *store) decisionsOf(a sharding.Append) {
	if a.Entity != decisionEntity {
		return
	}
	of := s.w.decisions.terms[a.Epoch.Term()]
	if of == nil {
		of = &termDecisions{stored: map[uint64]bool{}}
		s.w.decisions.terms[a.Epoch.Term()] = of
	}
	for _, r := range a.Records {
		for _, e := range r.Events {
			if e.Name == "Dropped" {
				of.dropped += decodeNumber(e.Payload)
				continue
			}
			d := s.w.decisions.all[decodeNumber(e.Payload)]
			of.stored[d.N], of.last = true, max(of.last, d.N)
		}
	}
}

// checkDecisions checks that each change of an owner has a decision, and that it is stored, unless
// records say that decisions were dropped, or it was among the last ones of its term.
func (w *World) checkDecisions() {
	for _, row := range w.decisions.changes {
		d, made := w.decisions.gives[row.Epoch]
		switch of := w.decisions.terms[row.Epoch.Term()]; {
		case !made || d.Shard != row.Shard:
			w.violate("a change of the owner has a decision", "%+v, and the decision at that epoch is %+v", row, d)
		case of == nil || d.N > of.last || of.dropped > 0:
		case !of.stored[d.N]:
			w.violate("decisions are kept", "%+v is not stored, a later one of its term is", d)
		}
	}
	total := 0
	got, err := w.journal.load(journal.LoadRequest{Entity: decisionEntity})
	for i := range got.Records {
		total += eventBytes(&got.Records[i])
	}
	// Each term may store so much before it measures what earlier ones have stored.
	if most := ringLimits.MaxBytes + (len(w.decisions.terms)+1)*(ringLimits.MeasureBytes+2*ringLimits.BatchBytes); err == nil && total > most {
		w.violate("memory is bounded", "decisions of %d bytes are kept, at most %d may", total, most)
	}
}
