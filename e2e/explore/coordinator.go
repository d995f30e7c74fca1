package explore

import (
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

// startCoordinator begins a new incarnation, a standby that knows the members.
func (w *cluster) startCoordinator(i int) {
	cfg := coordinator.DefaultConfig()
	cfg.RecoveryWait, cfg.Resend, cfg.HostTimeout = tick, tick, tick
	cfg.HandoffTimeout, cfg.HandoffSlack, cfg.RebalanceInterval = tick/2, tick/2, 1000*tick
	c := &w.coords[i]
	*c = coord{core: coordinator.New(cfg), gen: c.gen + 1, at: w.now}
	for h := range w.hosts {
		w.coordStep(i, coordinator.Member{Node: w.hosts[h].id, Reachable: true})
	}
}

// elect gives a coordinator the newest term and the facts, and lets the regions
// find out.
func (w *cluster) elect(i int) {
	w.term++
	c := &w.coords[i]
	if c.live {
		w.depose(i)
		c = &w.coords[i]
	}
	c.term, c.live = w.term, true
	w.apply(journal.Op{Claim: &sharding.Claim{
		Shard: factShard, Epoch: sharding.MakeEpoch(w.term, 0), Owner: sharding.NodeUID(100*(i+1) + c.gen),
	}})
	got, _ := w.ledger.Load(journal.LoadRequest{Entity: factEntity})
	var facts []coordinator.Fact
	for _, r := range got.Records {
		for _, e := range r.Events {
			facts = append(facts, decodeFact(e.Payload))
		}
	}
	c.seq = got.LastSeq
	w.coordStep(i, coordinator.Elected{Term: w.term, Facts: facts})
	for h := range w.hosts {
		w.register(i, h)
	}
}

func (w *cluster) register(i, h int) {
	id := w.hosts[h].id
	w.toCoord(i, coordinator.Register{Region: id, Types: []sharding.TypeDesc{desc}})
}

// toCoord sends a message to a coordinator process, whatever its incarnation.
func (w *cluster) toCoord(i int, in coordinator.Input) {
	w.send(sharding.NodeID{}, fmt.Sprintf("c%d %T %+v", i, in, in), func(n *cluster) { n.coordStep(i, in) })
	w.net[len(w.net)-1].coord = i + 1
}

// active is the coordinator that regions take for active: that of the newest
// term.
func (w *cluster) active() int {
	for i := range w.coords {
		if w.coords[i].live && w.coords[i].term == w.term {
			return i
		}
	}
	return 0
}

func (w *cluster) coordStep(i int, in coordinator.Input) {
	c := &w.coords[i]
	c.at = w.now
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
	c := &w.coords[i]
	for !c.busy && len(c.held) > 0 {
		p, ok := c.held[0].(coordinator.Persist)
		if !ok {
			w.perform(i, c.held[0])
			c.held = c.held[1:]
			continue
		}
		c.held = c.held[1:]
		w.write(i, p.Fact)
	}
}

// write appends a fact. Unknown outcome: the process stops.
func (w *cluster) write(i int, f coordinator.Fact) {
	c := &w.coords[i]
	c.busy = true
	c.seq++
	gen, term := c.gen, c.term
	a := sharding.Append{Shard: factShard, Epoch: sharding.MakeEpoch(c.term, 0), Entity: factEntity, Records: []sharding.Record{
		{Seq: c.seq, Events: []sharding.Event{{Name: "Fact", Payload: encodeFact(f)}}},
	}}
	done := func(n *cluster, r journal.Result) {
		c := &n.coords[i]
		if c.gen != gen || c.term != term || !c.live {
			return
		}
		c.busy = false
		switch r.Verdict {
		case sharding.Durable:
			n.persist(i)
		case sharding.UnknownOutcome:
			n.startCoordinator(i)
		default:
			n.depose(i)
		}
	}
	if _, isType := f.(coordinator.TypeFact); isType {
		done(w, w.apply(journal.Op{Append: &a})) // the same for all: nothing depends on when
		return
	}
	w.commit(sharding.NodeID{}, fmt.Sprintf("journal c%d.%d term %d seq %d %+v", i, gen, term, c.seq, f), journal.Op{Append: &a}, done)
}

func (w *cluster) depose(i int) {
	c := &w.coords[i]
	c.live, c.held, c.busy = false, nil, false
	w.coordStep(i, coordinator.Deposed{})
}

func (w *cluster) perform(i int, o coordinator.Output) {
	from := fmt.Sprintf("c%d", i)
	switch o := o.(type) {
	case coordinator.HostShard:
		w.revealed(sharding.Row{Shard: o.Shard, Owner: o.To, Epoch: o.Epoch, Phase: sharding.Starting})
		w.toRegion(o.To, region.HostShard{From: from, Term: o.Term, Shard: o.Shard, Epoch: o.Epoch})
	case coordinator.HandOff:
		w.revealed(sharding.Row{Shard: o.Shard, Owner: o.To, Epoch: o.Epoch, Phase: sharding.HandingOff})
		w.toRegion(o.To, region.HandOff{From: from, Term: o.Term, Shard: o.Shard, Epoch: o.Epoch})
	}
}

// revealed: what a coordinator tells is a durable fact.
func (w *cluster) revealed(row sharding.Row) {
	if !slices.Contains(w.facts, row) {
		w.fail("%+v is told and is no fact", row)
	}
}
