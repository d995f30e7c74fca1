package sim

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

// nemesis schedules the faults of the storm.
func (w *World) nemesis() {
	wt := &w.weather
	w.every("cut", wt.Cut, w.cutPair)
	w.every("one-way", wt.OneWay, w.cutOneWay)
	w.every("isolate", wt.Isolate, w.isolate)
	w.every("bridge", wt.Bridge, w.bridge)
	w.every("island", wt.Island, w.island)
	w.every("crash", wt.Crash, func() { w.crashOne(w.dice("nemesis").IntN(len(w.processes))) })
	w.every("crash all", wt.CrashAll, func() {
		for i := range w.processes {
			w.crashOne(i)
		}
	})
	w.every("pause", wt.Pause, w.pauseOne)
	w.every("journal down", wt.JournalDown, func() {
		w.journal.down = true
		w.after(w.dice("nemesis").between(100*ms, wt.CutFor), func() { w.journal.down = false })
	})
	w.every("journal cut", wt.JournalCut, func() {
		h := w.dice("nemesis").IntN(firstGateway)
		if w.dice("nemesis").chance(0.5) {
			w.cut([][2]int{{h, journalHost}, {journalHost, h}})
		} else {
			w.cut([][2]int{{journalHost, h}})
		}
	})
	w.every("lease record lost", wt.LeaseGone, func() {
		w.lease.record = lease.Record{}
		w.recordLost = true // terms may come again; the journal knows better
	})
	if wt.Harsh.SendAge == 0 { // otherwise a send without a taker may be tried for days
		w.every("clock step", wt.Harsh.Clocks, w.stepClock)
	}
	w.every("operate", wt.Operate, w.operate)
	w.every("target", wt.Target, w.chooseTarget)
	w.steer(wt.Operate)
	w.every("look", wt.Look, w.lookAtShards)
	w.harshNemesis()
}

// harshNemesis schedules what only the harsh climate has.
func (w *World) harshNemesis() {
	h := &w.weather.Harsh
	w.every("journal hangs", h.StoreHang, w.hangStore)
	w.every("store clock step", h.Clocks, w.stepStoreClock)
	w.every("page damaged", h.Flip, w.flipPage)
	w.every("circle", h.Circle, w.sendCircle)
	w.every("reminder that ends", h.RemindEnd, w.remindAndEnd)
	w.every("crowd", h.Crowd, w.crowd)
	w.every("exile", h.Exile, w.exile)
	if h.Deprived > 0 {
		w.deprive()
	}
}

// exile cuts a member off from all others, and may pause it, until they have
// removed and forgotten it.
func (w *World) exile() {
	d := w.dice("harsh exile")
	p := w.processes[d.IntN(len(w.processes))]
	if !p.up || p.paused {
		return
	}
	var pairs [][2]int
	for b := range hosts {
		if b != p.host {
			pairs = append(pairs, [2]int{p.host, b}, [2]int{b, p.host})
		}
	}
	heal := w.net.block(pairs)
	w.trace(p, "EXILE", p.name)
	if d.chance(0.5) {
		p.pause()
	}
	incarnation, over := p.incarnation, false
	end := func() {
		if over {
			return
		}
		over = true
		heal()
		if p.incarnation == incarnation {
			p.resume()
		}
	}
	w.heals = append(w.heals, end)
	w.after(d.between(w.weather.Harsh.ExileFor/2, w.weather.Harsh.ExileFor), end)
}

// every repeats a fault at random intervals until the calm.
func (w *World) every(name string, mean int64, fault func()) {
	if mean == 0 {
		return
	}
	w.after(w.dice("nemesis").between(mean/4, mean*7/4), func() {
		if w.calm {
			return
		}
		w.mark("fault: " + name)
		w.trace(nil, "FAULT", name)
		fault()
		w.every(name, mean, fault)
	})
}

// cut stops traffic for a while.
func (w *World) cut(pairs [][2]int) {
	w.trace(nil, "CUT", pairs)
	heal := w.net.block(pairs)
	over := false
	end := func() {
		if !over {
			over = true
			heal()
			w.trace(nil, "HEAL", pairs)
		}
	}
	w.heals = append(w.heals, end)
	w.after(w.dice("nemesis").between(100*ms, w.weather.CutFor), end)
}

func (w *World) cutPair() {
	d := w.dice("nemesis")
	a, b := d.IntN(hosts), d.IntN(hosts)
	w.cut([][2]int{{a, b}, {b, a}})
}

func (w *World) cutOneWay() {
	d := w.dice("nemesis")
	a, in := d.IntN(firstGateway+gateways), d.chance(0.5)
	var pairs [][2]int
	for b := range hosts {
		if d.chance(0.6) {
			if in {
				pairs = append(pairs, [2]int{b, a})
			} else {
				pairs = append(pairs, [2]int{a, b})
			}
		}
	}
	w.cut(pairs)
}

func (w *World) isolate() {
	d := w.dice("nemesis")
	a, journal := d.IntN(firstGateway+gateways), d.chance(0.5)
	var pairs [][2]int
	for b := range hosts {
		if b != a && (b != journalHost || journal) {
			pairs = append(pairs, [2]int{a, b}, [2]int{b, a})
		}
	}
	w.cut(pairs)
}

// bridge splits the processes in two halves that only one of them sees.
func (w *World) bridge() {
	d := w.dice("nemesis")
	var side [hosts]bool
	for i := range side {
		side[i] = d.chance(0.5)
	}
	middle := d.IntN(journalHost)
	var pairs [][2]int
	for a := range journalHost {
		for b := range journalHost {
			if side[a] != side[b] && a != middle && b != middle {
				pairs = append(pairs, [2]int{a, b})
			}
		}
	}
	w.cut(pairs)
}

// island leaves a gateway and a region alone with each other, and maybe with
// the journal: there the old table stays true for long.
func (w *World) island() {
	d := w.dice("nemesis")
	g, r := firstGateway+d.IntN(gateways), firstRegion+d.IntN(regions)
	journal := d.chance(0.7)
	var pairs [][2]int
	for a := range hosts {
		if a == g || a == r || a == journalHost && journal {
			continue
		}
		for _, b := range []int{g, r} {
			pairs = append(pairs, [2]int{a, b}, [2]int{b, a})
		}
	}
	w.cut(pairs)
}

func (w *World) crashOne(i int) {
	p := w.processes[i]
	if !p.up {
		return
	}
	p.crash("killed")
	w.after(w.dice("nemesis").between(50*ms, w.weather.DownFor), p.start)
}

func (w *World) pauseOne() {
	d := w.dice("nemesis")
	p := w.processes[d.IntN(len(w.processes))]
	p.pause()
	incarnation := p.incarnation
	w.after(d.between(50*ms, w.weather.PauseFor), func() {
		if p.incarnation == incarnation {
			p.resume()
		}
	})
}

// operate does what operators do: drain, resume, stop and start again.
func (w *World) operate() {
	d := w.dice("nemesis")
	p := w.processes[firstRegion+d.IntN(regions)]
	if !p.up || p.paused {
		return
	}
	what := d.IntN(4)
	if what == 0 {
		w.mark("operator: region is stopped gracefully")
		n := p.body.(*regionNode)
		if !n.leaving {
			n.leaving = true
			p.post(func() {
				n.leaveBy = p.now().Add(n.cfg.LeaveTimeout)
				n.stepControl(region.Leave{})
			})
		}
		return
	}
	id := p.id()
	w.mark("operator: region is drained")
	w.drain(id)
	w.after(d.between(100*ms, 4*sec), func() { w.resumeRegions() })
}

// chooseTarget makes some version the target: an operator goes back, or on.
func (w *World) chooseTarget() {
	version := fmt.Sprint(w.dice("targets").IntN(versions))
	for _, c := range w.activeCoordinators() {
		c.p.post(func() { c.step(coordinator.SetTarget{Version: version}) })
	}
}

// lookAtShards has an operator look at the shards that no region reads.
func (w *World) lookAtShards() {
	for _, c := range w.activeCoordinators() {
		c.p.post(func() { c.step(coordinator.LookAtShards{}) })
	}
}

// resumeRegions ends all drains.
func (w *World) resumeRegions() {
	for _, c := range w.activeCoordinators() {
		for i := firstRegion; i < firstRegion+regions; i++ {
			id := w.processes[i].id()
			c.p.post(func() { c.step(coordinator.DrainRegion{Region: id.String(), Resume: true}) })
		}
	}
}

func (w *World) activeCoordinators() []*coordNode {
	var list []*coordNode
	for _, p := range w.processes[:coordinators] {
		if c, ok := p.body.(*coordNode); ok && c.core.ActiveTerm() != 0 {
			list = append(list, c)
		}
	}
	return list
}
