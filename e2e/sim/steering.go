package sim

import (
	"maps"
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// steering holds the operators' requests about placement, by the facts.
type steering struct {
	cordons map[string]bool
	pins    map[sharding.ShardID]string
	freeze  coordinator.FreezeFact
}

// steer makes an operator request something about placement, from time to time.
func (w *World) steer(mean int64) {
	if mean == 0 {
		return
	}
	d := w.dice("steer")
	w.after(d.between(mean/4, mean*7/4), func() {
		if w.calm {
			return
		}
		w.wish(w.drawWish())
		w.steer(mean)
	})
}

func (w *World) drawWish() coordinator.Request {
	d := w.dice("steer")
	name := w.processes[firstRegion+d.IntN(regions)].name
	shard := w.shardOf(w.entities[d.IntN(len(w.entities))])
	switch d.IntN(9) {
	case 0:
		w.mark("operator: region is cordoned")
		return coordinator.CordonRegion{Region: name, Ahead: true}
	case 1, 2:
		return coordinator.CordonRegion{Region: name, Lift: true}
	case 3:
		w.mark("operator: moves are frozen")
		return coordinator.FreezeMoves{For: nanos(d.between(0, 1) * 2 * sec)}
	case 4:
		return coordinator.FreezeMoves{Thaw: true}
	case 5:
		w.mark("operator: shard is pinned")
		return coordinator.PinShards{Pins: []coordinator.Pin{{Shard: shard, Region: name}}, Ahead: true}
	case 6:
		return coordinator.PinShards{Pins: []coordinator.Pin{{Shard: shard}}}
	}
	w.mark("operator: shard is moved")
	return coordinator.MoveShard{Shard: shard, Region: name}
}

func (w *World) wish(r coordinator.Request) {
	for _, c := range w.activeCoordinators() {
		c.p.post(func() { c.step(r) })
	}
}

// unsteer ends all cordons, pins and freezes.
func (w *World) unsteer() {
	for _, c := range w.activeCoordinators() {
		v := c.core.Steering()
		if v.Freeze.Frozen {
			w.wish(coordinator.FreezeMoves{Thaw: true})
		}
		for _, f := range v.Cordons {
			w.wish(coordinator.CordonRegion{Region: f.Region, Lift: true})
		}
		for _, f := range v.Pins {
			w.wish(coordinator.PinShards{Pins: []coordinator.Pin{{Shard: f.Shard}}})
		}
	}
}

// steered follows what operators want, by the facts, and checks that no shard begins to move
// while moves are frozen, unless it has to. A freeze that expires is not checked: its end is a
// matter of clocks.
func (s *store) steered(fact coordinator.Fact) {
	v := &s.steering
	switch f := fact.(type) {
	case coordinator.CordonFact:
		delete(v.cordons, f.Region)
		if !f.Lifted {
			v.cordons[f.Region] = true
		}
	case coordinator.PinFact:
		delete(v.pins, f.Shard)
		if f.Region != "" {
			v.pins[f.Shard] = f.Region
		}
	case coordinator.FreezeFact:
		v.freeze = f
	case coordinator.RowFact:
		s.arrives(f)
		last := s.newest[f.Row.Shard]
		if f.Row.Phase != sharding.HandingOff || mustMove(f.Cause) || last.Epoch == f.Row.Epoch && last.Phase == sharding.HandingOff {
			return // it must be, or a checkpoint repeats it
		}
		if v.freeze.Frozen && v.freeze.Until.IsZero() {
			s.w.violate("a freeze holds", "%v begins to move to %v, although all is frozen since %v", f.Row.Shard, f.Successor, v.freeze.At)
		}
	}
}

// mustMove reports whether a shard that is handed off for this cause cannot stay.
func mustMove(c sharding.Cause) bool {
	switch c {
	case sharding.CauseDrain, sharding.CauseLeave, sharding.CauseRollout, sharding.CauseCommandsRefused:
		return true
	}
	return false
}

// checkSteering checks that a new term knows what operators want.
func (c *coordNode) checkSteering(term sharding.Term) {
	v, want := c.core.Steering(), &c.w.journal.steering
	cordons, pins := map[string]bool{}, map[sharding.ShardID]string{}
	for _, f := range v.Cordons {
		cordons[f.Region] = true
	}
	for _, f := range v.Pins {
		pins[f.Shard] = f.Region
	}
	switch {
	case !maps.Equal(cordons, want.cordons):
		c.w.violate("what operators want outlives the term", "%s of term %d has cordoned %v, the facts say %v", c.p.name, term, cordons, want.cordons)
	case !maps.Equal(pins, want.pins):
		c.w.violate("what operators want outlives the term", "%s of term %d has pinned %v, the facts say %v", c.p.name, term, pins, want.pins)
	case v.Freeze.Frozen != want.freeze.Frozen:
		c.w.violate("what operators want outlives the term", "%s of term %d takes moves for frozen: %t, the facts say %t", c.p.name, term, v.Freeze.Frozen, want.freeze.Frozen)
	case len(cordons) > 0 && len(pins) > 0:
		c.w.mark("steering outlives the term")
	}
}

// steerCalm is a check when nothing fails any more: a shard goes where it is pinned, and a
// cordoned region gets nothing while other regions can take it.
func (w *World) steerCalm(stop func() bool) {
	active := w.activeCoordinators()
	if len(active) != 1 || stop() {
		return
	}
	d := w.dice("steer")
	w.unsteer()
	until := func(end int64, done func() bool) bool {
		for end += w.now; w.now < end && !stop() && !done(); {
			w.run(w.now+20*ms, stop)
		}
		return done()
	}
	core := active[0].core
	e := w.entities[d.IntN(len(w.entities))]
	var here []coordinator.RegionView
	for _, r := range core.View().Regions {
		if _, err := core.Preview(coordinator.MoveShard{Shard: w.shardOf(e), Region: r.Name}); err == nil {
			here = append(here, r)
		}
	}
	until(2*sec, func() bool { return !core.Steering().Freeze.Frozen && len(core.Steering().Cordons) == 0 })
	if i := slices.IndexFunc(here, func(r coordinator.RegionView) bool { return r.Node != w.ownerOf(e) }); i >= 0 && !stop() {
		w.wish(coordinator.PinShards{Pins: []coordinator.Pin{{Shard: w.shardOf(e), Region: here[i].Name}}})
		// By the address: the region may have ended and started again since.
		if !until(20*sec, func() bool { return w.ownerOf(e).Addr == here[i].Node.Addr }) && !stop() && w.movable(e, here[i]) {
			w.violate("a shard goes where it is pinned", "%v of %v is at %v, and not at %s", w.shardOf(e), e, w.rowOf(e), here[i].Name)
		}
		w.mark("steering: a pinned shard has moved")
		w.wish(coordinator.PinShards{Pins: []coordinator.Pin{{Shard: w.shardOf(e)}}})
	}
	if len(here) < 3 || w.weather.Forms || stop() {
		return
	}
	from := w.ownerOf(e)
	to := slices.IndexFunc(here, func(r coordinator.RegionView) bool { return r.Node != from })
	w.wish(coordinator.CordonRegion{Region: here[to].Name})
	until(2*sec, func() bool { return w.journal.steering.cordons[here[to].Name] })
	before := map[sharding.ShardID]sharding.Epoch{}
	for shard, row := range w.journal.newest { // order-free: all are noted
		if before[shard] = row.Epoch; row.Phase == sharding.HandingOff {
			before[shard] = sharding.MakeEpoch(math.MaxUint32, 0) // it may have gone to its successor already
		}
	}
	w.drain(from)
	until(5*sec, func() bool { return w.ownerOf(e) != from && !w.ownerOf(e).IsZero() })
	for shard, row := range w.journal.newest { // order-free: any of them will do
		if row.Owner == here[to].Node && row.Epoch > before[shard] && !stop() {
			w.violate("a cordoned region gets no shards", "%v goes to %v, which is cordoned, and other regions can take it", row, here[to].Name)
		}
	}
	w.mark("steering: a cordoned region gets nothing")
	w.resumeRegions()
	w.unsteer()
}

// movable reports whether the shard of an entity can be moved to a region now, or is there.
func (w *World) movable(e sharding.Entity, to coordinator.RegionView) bool {
	for _, c := range w.activeCoordinators() {
		if _, err := c.core.Preview(coordinator.MoveShard{Shard: w.shardOf(e), Region: to.Name}); err != nil {
			return false
		}
	}
	return true
}
