package sim

import (
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// explanationEntity has the explanations of coordinators.
var explanationEntity = sharding.Entity{Type: factEntity.Type, ID: "decisions"}

// ofCoordinators reports whether an entity's stored data is the coordinators', and not an element
// of a command.
func ofCoordinators(e sharding.Entity) bool { return e.Type == factEntity.Type }

// explanationLimits are so low that runs reach them.
var explanationLimits = coordinator.ExplanationLimits{
	MaxBytes: 800, MaxWaiting: 400, BatchBytes: 120, BatchWait: time.Second, RetryPause: time.Second,
	MeasureBytes: 160, MeasureAfter: 20 * time.Second,
}

// explanations holds the explanations of all coordinators.
type explanations struct {
	all     []coordinator.Explanation                  // by number
	gives   map[sharding.Epoch]coordinator.Explanation // the shards that are given away, by the new epoch
	givenAt map[sharding.Epoch]int64                   // when
	terms   map[sharding.Term]*termExplanations        // the stored part of each term
	changes []sharding.Row                             // by the facts that give a shard another epoch
}

type termExplanations struct {
	stored  map[uint64]bool // by the number in the term
	last    uint64          // the highest of stored
	dropped uint64          // that records tell
}

// explained takes an explanation of a coordinator.
func (c *coordNode) explained(d coordinator.Explanation) {
	k := &c.w.explanations
	k.all = append(k.all, d)
	if d.Kind == coordinator.Given {
		if d.Cause == 0 {
			c.w.violate("an explanation has a cause", "%s: %+v", c.p.name, d)
		}
		k.gives[d.Epoch], k.givenAt[d.Epoch] = d, c.w.now
	}
	c.explanations.Add(c.p.now(), number(uint64(len(k.all)-1)))
}

// keepExplanations does what the log asks of the journal.
func (c *coordNode) keepExplanations() {
	var got journal.Loaded
	var err error
	read := func(req journal.LoadRequest) func() { return func() { got, err = c.w.journal.load(req) } }
	switch q := c.explanations.Next(c.p.now()).(type) {
	case coordinator.LocateExplanations:
		c.query(read(journal.LoadRequest{Entity: explanationEntity, LookupOnly: true}), func(ok bool) {
			c.explanations.Located(c.p.now(), q.Number, got.LastSeq, ok && err == nil)
		})
	case coordinator.MeasureExplanations:
		c.query(read(journal.LoadRequest{Entity: explanationEntity}), func(ok bool) {
			var records []coordinator.ExplanationRecord
			for i := range got.Records {
				records = append(records, coordinator.ExplanationRecord{Seq: got.Records[i].Seq, Bytes: eventBytes(&got.Records[i])})
			}
			c.explanations.Measured(c.p.now(), q.Number, records, ok && err == nil)
		})
	case coordinator.AppendExplanations:
		r := sharding.Record{Seq: q.Seq}
		for _, d := range q.Explanations {
			r.Events = append(r.Events, sharding.Event{Name: "Explanation", Payload: d})
		}
		if q.Dropped > 0 {
			c.w.mark("explanations dropped")
			r.Events = append(r.Events, sharding.Event{Name: "Dropped", Payload: number(q.Dropped)})
		}
		a := sharding.Append{Shard: factShard, Epoch: sharding.MakeEpoch(q.Term, 0), Entity: explanationEntity, Records: []sharding.Record{r}}
		c.commit(journal.Op{Append: &a}, func(r journal.Result) { c.explanations.Stored(c.p.now(), q.Number, r.Verdict) })
	case coordinator.CutExplanations:
		c.w.mark("explanations trimmed")
		s := journal.WriteSnapshot{Shard: factShard, Epoch: sharding.MakeEpoch(q.Term, 0), Entity: explanationEntity, Snapshot: journal.Snapshot{Seq: q.Seq}, Cut: q.Seq}
		c.commit(journal.Op{Snapshot: &s}, func(r journal.Result) { c.explanations.CutDone(c.p.now(), q.Number, r.Verdict) })
	}
}

func eventBytes(r *sharding.Record) (n int) {
	for _, e := range r.Events {
		n += len(e.Payload)
	}
	return n
}

// explanationsOf notes which explanations are stored.
func (s *store) explanationsOf(a sharding.Append) {
	if a.Entity != explanationEntity {
		return
	}
	of := s.w.explanations.terms[a.Epoch.Term()]
	if of == nil {
		of = &termExplanations{stored: map[uint64]bool{}}
		s.w.explanations.terms[a.Epoch.Term()] = of
	}
	for _, r := range a.Records {
		for _, e := range r.Events {
			if e.Name == "Dropped" {
				of.dropped += decodeNumber(e.Payload)
				continue
			}
			d := s.w.explanations.all[decodeNumber(e.Payload)]
			of.stored[d.N], of.last = true, max(of.last, d.N)
		}
	}
}

// checkExplanations checks that each change of an owner has an explanation, and that it is stored, unless
// records say that explanations were dropped, or it was among the last ones of its term.
func (w *World) checkExplanations() {
	for _, row := range w.explanations.changes {
		d, made := w.explanations.gives[row.Epoch]
		switch of := w.explanations.terms[row.Epoch.Term()]; {
		case !made || d.Shard != row.Shard:
			w.violate("a change of the owner has an explanation", "%+v, and the explanation at that epoch is %+v", row, d)
		case of == nil || d.N > of.last || of.dropped > 0:
		case !of.stored[d.N]:
			w.violate("explanations are kept", "%+v is not stored, a later one of its term is", d)
		}
	}
	total := 0
	got, err := w.journal.load(journal.LoadRequest{Entity: explanationEntity})
	for i := range got.Records {
		total += eventBytes(&got.Records[i])
	}
	// Each term may store so much before it measures what earlier ones have stored.
	if most := explanationLimits.MaxBytes + (len(w.explanations.terms)+1)*(explanationLimits.MeasureBytes+2*explanationLimits.BatchBytes); err == nil && total > most {
		w.violate("memory is bounded", "explanations of %d bytes are kept, at most %d may", total, most)
	}
}
