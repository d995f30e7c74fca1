package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// coord is a coordinator and its driver.
type coord struct {
	core *coordinator.Tenure
	gen  int
	term sharding.Term // acquired last
	live bool          // active
	// row is the shard's row in its table, members are the regions it knows.
	row     sharding.Row
	members []sharding.NodeID
}

// view looks up what the core knows.
func (c *coord) view() {
	v := c.core.View()
	c.row, c.members = sharding.Row{}, nil
	if len(v.Rows) > 0 {
		c.row = v.Rows[0]
	}
	for _, r := range v.Regions {
		c.members = append(c.members, r.Node)
	}
}

func (c *coord) clone() part {
	d := *c
	d.core = c.core.Clone()
	return &d
}

func (c *coord) appendState(b []byte) []byte {
	b = fmt.Appendf(b, "%d %d ", c.gen, c.term)
	return c.core.AppendState(start, b)
}

// startCoordinator begins a new incarnation, a standby that knows the members.
func (w *cluster) startCoordinator(i int) {
	cfg := coordinator.DefaultConfig()
	cfg.QuarantineCrashes = 0 // crashes are not counted here
	cfg.RecoveryWait, cfg.Resend, cfg.HostTimeout = timeoutStep, timeoutStep, timeoutStep
	cfg.HandoffTimeout, cfg.HandoffSlack, cfg.RebalanceInterval = timeoutStep/2, timeoutStep/2, 1000*timeoutStep
	cfg.FactsPerRecord = 1
	cfg.JournalHeartbeatInterval, cfg.JournalHeartbeatPatience, cfg.SurveyInterval = 1000*timeoutStep, 0, 0
	self := sharding.NodeID{Addr: fmt.Sprintf("c%d", i), UID: sharding.NodeUID(100*(i+1) + w.coords[i].gen + 1)}
	w.coords[i] = &coord{core: coordinator.NewTenure(cfg, self), gen: w.coords[i].gen + 1}
	for h := range w.hosts {
		w.coordStep(i, coordinator.Member{Node: w.hosts[h].id, Reachable: true})
	}
	if w.rollout {
		w.coordStep(i, coordinator.Member{Node: earlier, Name: earlier.Addr, Reachable: true})
	}
}

// program is the type as a region has it that stores in one form, and reads some.
func program(writes, reads uint16) sharding.TypeDesc {
	d := desc
	for v := uint16(1); v <= reads; v++ {
		f := sharding.Form{Kind: sharding.FormOfEvent, Name: "Added", Version: v, Shape: uint64(v)}
		d.Reads = append(d.Reads, f)
		if v == writes {
			d.Writes = append(d.Writes, f)
		}
	}
	return d
}

// desc is the type as a region has it.
func (w *cluster) desc(h int) sharding.TypeDesc {
	if !w.rollout {
		return desc
	}
	return program(uint16(h+1), 2)
}

// elect gives a coordinator the lease in the newest term, for as long as the
// search takes, and lets the regions find out. Who has the lease is searched by the
// lease and the tenure scopes.
func (w *cluster) elect(i int) {
	c := w.coords[i]
	c.term = w.store.term() + 1
	w.coordStep(i, coordinator.Acquired{Term: c.term, Until: w.now.Add(time.Hour)})
	if w.rollout { // at once: what else happens does not depend on when
		w.coordStep(i, coordinator.Received{From: earlier, Call: 9, Msg: control.Register{Types: []sharding.TypeDesc{program(1, 1)}}})
		w.coordStep(i, coordinator.DrainRegion{Region: earlier.String()})
		w.coordStep(i, coordinator.CordonRegion{Region: earlier.Addr})
	}
	for h := range w.hosts {
		w.register(i, h)
	}
}

func (w *cluster) register(i, h int) {
	id := w.hosts[h].id
	// The answer is left out, so that all calls of a region are one.
	register := coordinator.Received{From: id, Call: control.Call(id.UID), Msg: control.Register{Types: []sharding.TypeDesc{w.desc(h)}}}
	w.toCoord(i, register, func(e *engine, s *state) bool {
		return unknown(e, s, i, id)
	})
}

// toCoord sends a message to a coordinator process, whatever its incarnation.
func (w *cluster) toCoord(i int, in coordinator.Received, stale func(*engine, *state) bool) {
	m := w.send(fmt.Sprintf("c%d %T %T %+v", i, in, in.Msg, in), ofCoord(i), func() { w.coordStep(i, in) })
	m.immediate = w.prompt
	m.void = func(e *engine, s *state) bool { return asleep(e, s, i) || !e.bound.Whole && stale(e, s) }
}

func (w *cluster) coordStep(i int, in coordinator.Input) {
	c := w.coords[i]
	out := c.core.Step(w.now, in, nil)
	c.live = c.core.ActiveTerm() != 0
	if err := c.core.Check(); err != nil {
		w.fail("c%d: %v", i, err)
	}
	for _, o := range out {
		w.perform(i, o)
	}
}

// append stores a record. A fact about drained or cordoned regions is not stored: a next
// term that knows of it would begin every move once more. That it does know is for
// the simulation to look after.
func (w *cluster) append(i int, o coordinator.Append) {
	c := w.coords[i]
	f := o.Facts[0]
	record := sharding.Record{Seq: o.Seq}
	requested := false
	switch f.(type) {
	case coordinator.DrainFact, coordinator.CordonFact:
		requested = true
	default:
		record.Events = []sharding.Event{{Name: "Fact", Payload: encodeFact(f)}}
	}
	a := sharding.Append{Shard: factShard, Epoch: sharding.MakeEpoch(o.Term, 0), Entity: factEntity, Records: []sharding.Record{record}}
	gen := c.gen
	done := func(r journal.Result) {
		if w.coords[i].gen == gen {
			w.coordStep(i, coordinator.Appended{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch})
		}
	}
	if _, isType := f.(coordinator.TypeFact); isType || requested {
		done(w.apply(journal.Op{Append: &a})) // the same for all: nothing depends on when
		return
	}
	text := fmt.Sprintf("journal c%d.%d number %d term %d seq %d %+v", i, gen, o.Number, o.Term, o.Seq, f)
	op := journal.Op{Append: &a}
	m := w.commit(text, ofCoord(i)|bothHosts, op, done)
	m.immediate = w.prompt
	refused := refusedForever(op)
	m.void = func(e *engine, s *state) bool {
		c := coordIn(e, s, i)
		return (c.gen != gen || c.term != o.Term || !c.live) && refused(e, s)
	}
}

// loaded reads the stream.
func (w *cluster) loaded(number uint64) coordinator.Loaded {
	got, _ := w.ledger.Load(journal.LoadRequest{Entity: factEntity})
	in := coordinator.Loaded{Number: number, LastSeq: got.LastSeq}
	for _, r := range got.Records {
		for _, e := range r.Events {
			in.Facts = append(in.Facts, decodeFact(e.Payload))
		}
	}
	in.FactsAfterMark = len(in.Facts)
	return in
}

func (w *cluster) perform(i int, o coordinator.Output) {
	switch o := o.(type) {
	case coordinator.Survey:
		w.coordStep(i, coordinator.Surveyed{Number: o.Number, Highest: w.ledger.MaxEpoch()})
	case coordinator.WriteJournalHeartbeat: // whose journal it is, is not searched here
		w.coordStep(i, coordinator.JournalHeartbeatWritten{Number: o.Number, Verdict: sharding.Durable})
	case coordinator.Claim:
		r := w.apply(journal.Op{Claim: &sharding.Claim{
			Shard: factShard, Epoch: sharding.MakeEpoch(o.Term, 0), Owner: sharding.NodeUID(100*(i+1) + w.coords[i].gen),
		}})
		w.coordStep(i, coordinator.Claimed{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch})
	case coordinator.Load:
		w.coordStep(i, w.loaded(o.Number))
	case coordinator.Append:
		w.append(i, o)
	case coordinator.Send:
		if o.To == earlier {
			return // it is only a name
		}
		about := o.Msg.About()
		w.revealed(sharding.Row{Shard: about.Shard, Owner: o.To, Epoch: about.Epoch, Phase: about.Phase})
		w.toRegion(fmt.Sprintf("c%d", i), o.To, o.Msg)
	}
}

// revealed: what a coordinator tells is a durable fact, or follows from one.
func (w *cluster) revealed(row sharding.Row) {
	if !slices.Contains(w.facts, row) && !slices.Contains(w.reserved, row) {
		w.fail("%+v is published and is not a fact", row)
	}
}
