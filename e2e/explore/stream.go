package explore

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// table is the content of the facts.
type table struct {
	types   []sharding.TypeDesc
	rows    []sharding.Row
	drained []sharding.NodeID
}

// Names of the events in the stream: decisions of a coordinator, and facts that it
// has stored once more.
const (
	decided  = "Fact"
	repeated = "Copy"
)

// recordOp stores facts as one record.
func recordOp(o coordinator.Append) journal.Op {
	r := sharding.Record{Seq: o.Seq}
	for i, f := range o.Facts {
		name := decided
		if i >= o.NewFacts {
			name = repeated
		}
		r.Events = append(r.Events, sharding.Event{Name: name, Payload: encodeFact(f)})
	}
	return journal.Op{Append: &sharding.Append{Shard: factShard, Epoch: sharding.MakeEpoch(o.Term, 0), Entity: factEntity, Records: []sharding.Record{r}}}
}

// facts reads the stream from its mark on, as a driver does.
func (s *stream) facts(number uint64) coordinator.Input {
	got, err := s.ledger.Load(journal.LoadRequest{Entity: factEntity})
	if err != nil {
		panic(err)
	}
	in := coordinator.Loaded{Number: number, LastSeq: got.LastSeq}
	for _, r := range got.Records {
		for _, e := range r.Events {
			in.Facts = append(in.Facts, decodeFact(e.Payload))
		}
	}
	in.FactsAfterMark = len(in.Facts)
	return in
}

func (s *stream) lastHeartbeat() (last sharding.JournalHeartbeat) {
	got, err := s.ledger.Load(journal.LoadRequest{Entity: journal.HeartbeatEntity})
	if err == nil && got.Snapshot.Seq > 0 {
		last, err = journal.DecodeHeartbeat(got.Snapshot.Payload)
	}
	if err != nil {
		panic(err)
	}
	return last
}

// decisions calls f with every fact that was ever decided and is durable, oldest
// first, those before a snapshot too.
func (s *stream) decisions(f func(coordinator.Fact)) {
	for _, c := range s.ledger.Log() {
		for _, r := range c.Append.Records {
			for _, e := range r.Events {
				if e.Name == decided {
					f(decodeFact(e.Payload))
				}
			}
		}
	}
}

func (s *stream) isDurable(is func(coordinator.Fact) bool) (found bool) {
	s.decisions(func(f coordinator.Fact) { found = found || is(f) })
	return found
}

// table is the content of the durable facts together: of each type, row and region
// the newest counts. There is one of each.
func (s *stream) table() (t table) {
	s.decisions(func(f coordinator.Fact) {
		switch f := f.(type) {
		case coordinator.TypeFact:
			t.types = []sharding.TypeDesc{f.Desc}
		case coordinator.RowFact:
			t.rows = []sharding.Row{f.Row}
		case coordinator.DrainFact:
			t.drained = nil
			if !f.Resume {
				t.drained = []sharding.NodeID{f.Region}
			}
		}
	})
	return t
}

// apply lets the journal decide the operations in order, and stops at the first one that is
// refused. One refusal does not count: the first heartbeat of a term appends a record that
// may exist already.
func (w *tenureWorld) apply(ops ...journal.Op) (r journal.Result) {
	for _, op := range ops {
		highest, fence := w.ledger.MaxEpoch(), w.ledger.Fence(factShard)
		r = w.ledger.Apply(journal.Moment{Wall: start}, []journal.Op{op})[0]
		if c := op.Claim; c != nil && r.Verdict == sharding.Durable && c.Shard == factShard && c.Epoch != fence.Epoch && c.Epoch <= highest {
			w.fail("the facts are claimed at %v, and %v is given out", c.Epoch, highest)
		}
		there := op.Append != nil && op.Append.Entity == journal.HeartbeatEntity && r.Verdict == sharding.RefusedSeq
		if r.Verdict != sharding.Durable && !there {
			break
		}
	}
	if err := w.ledger.Check(); err != nil {
		w.fail("%v", err)
	}
	return r
}

// atOnce sends a message that arrives before anything else happens.
func (w *tenureWorld) atOnce(text string, uses parts, do func()) {
	w.addMessage(text, uses, do).immediate = true
}

func (w *tenureWorld) addMessage(text string, uses parts, do func()) *message {
	m := &message{text: text}
	m.moves = []*move{{name: "arrives: " + text, takes: m, uses: uses, do: do}}
	w.sent = append(w.sent, m)
	return m
}

// askLease sends a request to the store of the record, whose answer is on its way
// then.
func (w *tenureWorld) askLease(i int, what string, request uint64, swap *lease.Swap) {
	id := w.processes[i].id
	unheard := func(e *engine, s *state) bool {
		p := processIn(e, s, i)
		return p.id != id || p.asked != request
	}
	w.addMessage(fmt.Sprintf("%v asks: %s", id, what), 1<<recordPart, func() {
		var in lease.Input = lease.Got{Request: request, Record: w.record}
		if swap != nil {
			in = w.replace(*swap)
		}
		w.addMessage(fmt.Sprintf("%v receives: %T%+v", id, in, in), 1<<i, func() {
			if w.processes[i].id == id {
				w.lease(i, in)
			}
		}).void = unheard
	}).void = func(e *engine, s *state) bool {
		return unheard(e, s) && (swap == nil || recordIn(e, s).refuses(*swap))
	}
}

// read sends a question to the journal, whose answer is on its way then.
func (w *tenureWorld) read(i int, number uint64, o coordinator.Output, answer func() coordinator.Input) {
	id := w.processes[i].id
	w.addMessage(fmt.Sprintf("%v asks: %T%+v", id, o, o), 1<<streamPart, func() { w.answer(i, id, number, answer()) }).void = w.unheard(i, id, number, o)
}

// commit sends operations to the journal, whose answer is on its way then. If the
// outcome is unknown they may happen later.
func (w *tenureWorld) commit(i int, number uint64, o coordinator.Output, answer func(journal.Result) coordinator.Input, ops ...journal.Op) {
	id := w.processes[i].id
	text := fmt.Sprintf("%v asks: %T%+v", id, o, o)
	refused := w.refused(ops[len(ops)-1])
	unheard := w.unheard(i, id, number, o)
	m := w.addMessage(text, 1<<streamPart, func() { w.answer(i, id, number, answer(w.apply(ops...))) })
	m.moves = append(m.moves, &move{name: "outcome unknown: " + text, fault: true, takes: m, do: func() {
		w.addMessage("late: "+text, 1<<streamPart, func() { w.apply(ops...) }).void = refused
		w.answer(i, id, number, answer(journal.Result{Verdict: sharding.UnknownOutcome}))
	}})
	m.void = func(e *engine, s *state) bool { return unheard(e, s) && refused(e, s) }
}

// answer sends the answer of the journal.
func (w *tenureWorld) answer(i int, id sharding.NodeID, number uint64, in coordinator.Input) {
	w.addMessage(fmt.Sprintf("%v receives: %T%+v", id, in, in), 1<<i, func() {
		if w.processes[i].id == id {
			w.step(i, in)
		}
	}).void = w.unheard(i, id, number, in)
}

// unheard: no caller waits for the answer to a request any more. Facts that are read late
// are kept in progress: it is for the core to know that they are old.
func (w *tenureWorld) unheard(i int, id sharding.NodeID, number uint64, what any) func(*engine, *state) bool {
	_, load := what.(coordinator.Load)
	_, loaded := what.(coordinator.Loaded)
	return func(e *engine, s *state) bool {
		p := processIn(e, s, i)
		return p.id != id || number < p.surveyNumber && !load && !loaded && !e.bound.Whole
	}
}

// refused: the journal has a higher fence, or the operation is done already, or
// something else in its place. None of that changes.
func (w *tenureWorld) refused(op journal.Op) func(*engine, *state) bool {
	return func(e *engine, s *state) bool {
		if e.bound.Whole {
			return false
		}
		l := streamIn(e, s).ledger
		fence := l.Fence(factShard).Epoch
		switch {
		case op.Claim != nil:
			return fence >= op.Claim.Epoch
		case op.Append != nil:
			got, _ := l.Load(journal.LoadRequest{Entity: factEntity, LookupOnly: true})
			return fence > op.Append.Epoch || op.Append.Records[0].Seq <= got.LastSeq
		case op.Snapshot.Entity == factEntity:
			got, _ := l.Load(journal.LoadRequest{Entity: factEntity})
			return fence > op.Snapshot.Epoch || op.Snapshot.Snapshot.Seq <= got.Snapshot.Seq
		}
		return fence > op.Snapshot.Epoch
	}
}

func processIn(e *engine, s *state, i int) *process { return e.parts[i][s.parts[i]].(*process) }

func recordIn(e *engine, s *state) *recordStore {
	return e.parts[recordPart][s.parts[recordPart]].(*recordStore)
}

func streamIn(e *engine, s *state) *stream { return e.parts[streamPart][s.parts[streamPart]].(*stream) }
