package explore

import (
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

// coord is a coordinator and its driver.
type coord struct {
	core *coordinator.Machine
	gen  int
	term sharding.Term
	live bool // elected, not deposed
	held []coordinator.Output
	seq  uint64
	busy bool
	// row is that of the shard in its table, members are the regions it knows.
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
	d.core, d.held = c.core.Clone(), slices.Clone(c.held)
	return &d
}

func (c *coord) appendState(b []byte) []byte {
	b = fmt.Appendf(b, "%d %d %t %+v %d %t ", c.gen, c.term, c.live, c.held, c.seq, c.busy)
	return c.core.AppendState(start, b)
}

// startCoordinator begins a new incarnation, a standby that knows the members.
func (w *cluster) startCoordinator(i int) {
	cfg := coordinator.DefaultConfig()
	cfg.RecoveryWait, cfg.Resend, cfg.HostTimeout = tick, tick, tick
	cfg.HandoffTimeout, cfg.HandoffSlack, cfg.RebalanceInterval = tick/2, tick/2, 1000*tick
	w.coords[i] = &coord{core: coordinator.New(cfg), gen: w.coords[i].gen + 1}
	for h := range w.hosts {
		w.coordStep(i, coordinator.Member{Node: w.hosts[h].id, Reachable: true})
	}
}

// elect gives a coordinator the newest term and the facts, and lets the regions
// find out.
func (w *cluster) elect(i int) {
	if w.coords[i].live {
		w.depose(i)
	}
	c := w.coords[i]
	c.term, c.live = w.store.term()+1, true
	w.apply(journal.Op{Claim: &sharding.Claim{
		Shard: factShard, Epoch: sharding.MakeEpoch(c.term, 0), Owner: sharding.NodeUID(100*(i+1) + c.gen),
	}})
	got, _ := w.ledger.Load(journal.LoadRequest{Entity: factEntity})
	var facts []coordinator.Fact
	for _, r := range got.Records {
		for _, e := range r.Events {
			facts = append(facts, decodeFact(e.Payload))
		}
	}
	c.seq = got.LastSeq
	w.coordStep(i, coordinator.Elected{Term: c.term, Facts: facts})
	for h := range w.hosts {
		w.register(i, h)
	}
}

func (w *cluster) register(i, h int) {
	id := w.hosts[h].id
	w.toCoord(i, coordinator.Register{Region: id, Types: []sharding.TypeDesc{desc}}, func(e *engine, s *state) bool {
		return unknown(e, s, i, id)
	})
}

// toCoord sends a message to a coordinator process, whatever its incarnation.
func (w *cluster) toCoord(i int, in coordinator.Input, stale func(*engine, *state) bool) {
	m := w.send(fmt.Sprintf("c%d %T %+v", i, in, in), ofCoord(i), func() { w.coordStep(i, in) })
	m.eager = w.prompt
	m.void = func(e *engine, s *state) bool { return asleep(e, s, i) || !e.bound.Whole && stale(e, s) }
}

func (w *cluster) coordStep(i int, in coordinator.Input) {
	c := w.coords[i]
	c.held = append(c.held, c.core.Step(w.now, in, nil)...)
	if err := c.core.Check(); err != nil {
		w.fail("c%d: %v", i, err)
	}
	if !c.live {
		c.held = nil
		return
	}
	w.persist(i)
}

// persist performs outputs up to the next fact, and takes the facts of the
// outputs to the journal, a batch at a time.
func (w *cluster) persist(i int) {
	c := w.coords[i]
	for !c.busy && len(c.held) > 0 {
		p, ok := c.held[0].(coordinator.Persist)
		if !ok {
			w.perform(i, c.held[0])
			c.held = c.held[1:]
			continue
		}
		c.held = c.held[1:]
		if _, wish := p.Fact.(coordinator.DrainFact); wish {
			// Not stored: a next term that knows of it would begin every move once
			// more. That it does know is for the simulation to look after.
			c.held = append(c.held, c.core.Step(w.now, coordinator.Stored{Facts: 1}, nil)...)
			continue
		}
		w.write(i, p.Fact)
	}
}

// write appends a fact. Unknown outcome: the process stops.
func (w *cluster) write(i int, f coordinator.Fact) {
	c := w.coords[i]
	c.busy = true
	c.seq++
	gen, term := c.gen, c.term
	a := sharding.Append{Shard: factShard, Epoch: sharding.MakeEpoch(c.term, 0), Entity: factEntity, Records: []sharding.Record{
		{Seq: c.seq, Events: []sharding.Event{{Name: "Fact", Payload: encodeFact(f)}}},
	}}
	done := func(r journal.Result) {
		c := w.coords[i]
		if c.gen != gen || c.term != term || !c.live {
			return
		}
		c.busy = false
		switch r.Verdict {
		case sharding.Durable:
			w.coordStep(i, coordinator.Stored{Facts: 1})
		case sharding.UnknownOutcome:
			w.startCoordinator(i)
		default:
			w.depose(i)
		}
	}
	if _, isType := f.(coordinator.TypeFact); isType {
		done(w.apply(journal.Op{Append: &a})) // the same for all: nothing depends on when
		return
	}
	text := fmt.Sprintf("journal c%d.%d term %d seq %d %+v", i, gen, term, c.seq, f)
	// If the outcome is unknown the process starts anew and learns the members.
	op := journal.Op{Append: &a}
	m := w.commit(text, ofCoord(i)|bothHosts, op, done)
	m.eager = w.prompt
	refused := refusedForever(op)
	m.void = func(e *engine, s *state) bool {
		c := coordIn(e, s, i)
		return (c.gen != gen || c.term != term || !c.live) && refused(e, s)
	}
}

func (w *cluster) depose(i int) {
	c := w.coords[i]
	c.live, c.held, c.busy = false, nil, false
	w.coordStep(i, coordinator.Deposed{})
}

func (w *cluster) perform(i int, o coordinator.Output) {
	from := fmt.Sprintf("c%d", i)
	switch o := o.(type) {
	case coordinator.HostShard:
		w.revealed(sharding.Row{Shard: o.Shard, Owner: o.To, Epoch: o.Epoch, Phase: sharding.Starting})
		w.toRegion(o.To, o.Epoch, region.HostShard{From: from, Term: o.Term, Shard: o.Shard, Epoch: o.Epoch})
	case coordinator.HandOff:
		w.revealed(sharding.Row{Shard: o.Shard, Owner: o.To, Epoch: o.Epoch, Phase: sharding.HandingOff})
		w.toRegion(o.To, o.Epoch, region.HandOff{From: from, Term: o.Term, Shard: o.Shard, Epoch: o.Epoch})
	}
}

// revealed: what a coordinator tells is a durable fact.
func (w *cluster) revealed(row sharding.Row) {
	if !slices.Contains(w.facts, row) {
		w.fail("%+v is told and is no fact", row)
	}
}
