package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/suspects"
)

// In the poisonous climate, one entity or two end their regions, until they are quarantined. In the end they are
// repaired and released.

// poisonWeather holds the faults of the poisonous climate alone.
type poisonWeather struct {
	Entities int
	// Alone: nothing else ends a region, or happens at all.
	Alone    bool
	Restart  int64         // longest time until a region runs again that an entity has ended
	LoseDisk float64       // ends of regions after which it is unknown which turns ran
	Window   time.Duration // setting of the coordinators
	After    int           // setting of the coordinators: crashes after which an entity is quarantined
}

func drawPoison(w weather, seed uint64) weather {
	d := newDice(seed, "weather of poison")
	p := poisonWeather{Entities: 1 + d.IntN(2), Restart: d.between(200*ms, 3*sec), Window: 10 * time.Minute, After: 2 + d.IntN(4)/3}
	if d.chance(0.4) {
		p.Restart = d.between(3*sec, 40*sec)
	}
	if p.Alone = d.chance(0.5); p.Alone {
		evidence := w.Evidence
		w = w.calm()
		w.Warm, w.LateSecond, w.Join, w.Evidence, w.Storm, w.Crash = 6*sec, false, false, evidence, d.between(20*sec, 40*sec), 0
		p.Entities = 1
	} else {
		if d.chance(0.3) {
			p.LoseDisk = d.Float64()
		}
		if d.chance(0.4) { // there is time for crashes that do not count any more
			p.Restart, p.After, p.Window, w.Storm = d.between(100*ms, sec), 2, nanos(d.between(8*sec, 12*sec)), d.between(25*sec, 35*sec)
		}
		if d.chance(0.5) {
			w.Hang = d.Float64() * 0.1
		}
		w.Crash = d.between(sec, 5*sec) // only kills from outside make innocent entities suspects
		w.Harsh.Retention = 2 * sec
	}
	w.Harsh.Send, w.Harsh.Remind, w.Harsh.Expires = 0.1, 0.5, false
	w.Poison = p
	return w
}

// poison is an entity that ends regions.
type poison struct {
	entity sharding.Entity
	by     poisonBy
	// explained: the runtime writes why the process ends. late: a goroutine of the turn ends the process, just
	// after the turn.
	explained, late bool
	// inCore: no turn ends the process, but a bug of the shard core that the command meets.
	inCore bool

	repaired    bool
	ended       int  // how many regions it has ended, without those that do not count
	quarantined bool // by the facts
}

// poisonBy is which of its turns end the region.
type poisonBy uint8

const (
	byCommand poisonBy = iota
	byReminder
	bySend
)

// spreadPoison makes the entities of a run poisonous.
func (w *World) spreadPoison() {
	d := w.dice("poison")
	for range w.weather.Poison.Entities {
		e := w.entities[d.IntN(len(w.entities))]
		if w.volatile(e) || w.poisonOf(e) != nil {
			continue
		}
		p := &poison{entity: e, by: poisonBy(d.IntN(3)), explained: d.chance(0.5)}
		p.late = p.explained && d.chance(0.3)
		p.inCore = p.explained && !p.late && p.by != byReminder && w.dice("bugs of cores").chance(0.6)
		w.poisons = append(w.poisons, p)
		w.trace(nil, "POISON", fmt.Sprintf("%+v", *p))
	}
}

func (w *World) poisonOf(e sharding.Entity) *poison {
	for _, p := range w.poisons {
		if p.entity == e {
			return p
		}
	}
	return nil
}

// ends returns the poison if a turn ends the region; nil: it does not.
func (w *World) ends(o *turn.Run) *poison {
	p := w.poisonOf(o.Entity)
	if p == nil || p.repaired || isBuiltin(o.Env.Command) {
		return nil
	}
	fires := o.Wakeup != nil && o.Wakeup.Answer == nil
	var does bool
	switch x := decodeNumber(o.Env.Payload); p.by {
	case byCommand:
		does = !fires && o.Env.Command == cmdAdd
	case byReminder:
		does = fires
	case bySend:
		does = x == sent(x&(1<<50-1), int(x>>50&7)) && x < 1<<60
	}
	if !does {
		return nil
	}
	return p
}

// endRegion ends the region in which the poison runs.
func (n *regionNode) endRegion(p *poison, what work) {
	w := n.w
	if p.explained {
		n.box.cause = "panic: poison"
	}
	if !p.explained && n.clean[what] >= cleanTurns {
		w.mark("poison: its command has run alone before")
	} else {
		p.ended++
	}
	w.mark("poison: it ends a region by " + [...]string{"a command", "a reminder", "a send"}[p.by])
	if most := w.mostEnded(p); p.ended > most && w.broken == nil {
		w.violate("a poison is quarantined in time", "%v has ended %d regions, at most %d are allowed", p.entity, p.ended, most)
	}
	if p.quarantined {
		w.mark("poison: it ends a region that does not know yet that it is quarantined")
	}
	if w.dice("poison unsent").chance(0.5) {
		w.net.loseUnsent(n.p.host)
	}
	n.p.crash("poison")
	w.after(w.dice("poison restarts").between(w.weather.Poison.Restart*3/4, w.weather.Poison.Restart), n.p.start)
}

// corePanics ends the region because a shard core panics when it takes in a command of the poison.
func (n *regionNode) corePanics(p *poison, what work) {
	n.w.mark("poison: a shard core panics")
	n.begins(what, true).beside = false
	n.queue.CorePanicked(what.entity, what.command)
	n.w.after(0, n.p.ifAlive(func() { n.endRegion(p, what) }))
}

// mostEnded is the most regions that an entity may end, by docs/running/repair.md, if nothing else happens.
func (w *World) mostEnded(p *poison) int {
	if !w.weather.Poison.Alone || p.late {
		return 1 << 30
	}
	cfg := coordinatorConfig(w)
	need := cfg.QuarantineCrashes
	if !p.explained {
		need = max(need, blindCrashes)
	}
	most, waits, report := need+1, cfg.CrashPatience, nanos(w.weather.Poison.Restart+sec)
	for next := cfg.CrashPatience; waits < report; waits += next {
		next *= 2
		most++
	}
	return most
}

// box holds a region's notes of its turns, for the process after it.
type box struct {
	process sharding.NodeUID
	region  string
	alive   int64 // when the process last said that it runs, in virtual time
	cause   string
	turns   []suspects.Noted
	closed  bool // see Only
}

// boxSlots is the number of turns that a box notes.
const boxSlots = 64

func virtual(at int64) time.Time { return time.Unix(0, at) }

// Begin, NotAlone, End and Only implement [suspects.Notes].
func (b *box) Begin(t control.CrashedTurn) int {
	if b.closed {
		return -1
	}
	n := suspects.Noted{CrashedTurn: t, Running: true}
	if len(b.turns) < boxSlots {
		b.turns = append(b.turns, n)
		return len(b.turns) - 1
	}
	oldest := -1
	for i := range b.turns {
		if !b.turns[i].Running && (oldest < 0 || b.turns[i].End.Before(b.turns[oldest].End)) {
			oldest = i
		}
	}
	if oldest >= 0 {
		b.turns[oldest] = n
	}
	return oldest
}

// NotAlone: see Begin.
func (b *box) NotAlone(at int) {
	if at >= 0 && !b.closed {
		b.turns[at].Alone = false
	}
}

// End: see Begin.
func (b *box) End(at int, now time.Time) {
	if at >= 0 && !b.closed {
		b.turns[at].Running, b.turns[at].End = false, now
	}
}

// openBox begins the box of a process, and returns how the process before it has ended.
func (n *regionNode) openBox() (crash region.Crash) {
	w, p := n.w, n.p
	old := w.boxes[p.host]
	delete(w.boxes, p.host)
	n.box = &box{process: p.uid, region: p.name, alive: w.now}
	n.queue = suspects.New(n.box)
	n.ready = map[*suspects.Turn]func(){}
	n.clean = map[work]int{}
	if old == nil || !w.calm && w.dice("disks").chance(w.weather.Poison.LoseDisk) {
		return region.Crash{}
	}
	c, at := suspects.Report(old.process, virtual(old.alive), suspects.Evidence{Runtime: old.cause}, old.turns)
	w.mark("region: reports how its previous process ended")
	return region.Crash{Crash: c, At: p.now().Add(-virtual(w.now).Sub(at))}
}

// closeBox leaves the box for the next process, unless this one ends in order.
func (n *regionNode) closeBox() {
	if n.box == nil || n.p.inOrder {
		return
	}
	w := n.w
	w.boxes[n.p.host] = n.box
	end := &processEnd{at: w.now, region: n.p.name, explained: n.box.cause != "", clean: n.clean}
	for _, r := range n.ran {
		if r.ended < 0 || w.now-r.ended <= 40*ms {
			end.ran = append(end.ran, r)
		}
	}
	w.processEnds[n.p.uid] = end
}

// Only: see Begin.
func (b *box) Only(t control.CrashedTurn) {
	b.turns, b.closed = []suspects.Noted{{CrashedTurn: t, Running: true}}, true
}

// The method Nobody implements [suspects.Notes].
func (b *box) Nobody() { b.turns, b.closed = nil, true }

// gated lets a turn begin: at once, or if its entity is a suspect, when no other suspect runs. The turn calls end
// when it has ended.
func (n *regionNode) gated(e sharding.Entity, command string, suspect bool, begin func(end func())) {
	if n.box == nil {
		begin(func() {})
		return
	}
	if !suspect {
		at := n.box.Begin(control.CrashedTurn{Entity: e, Command: command})
		truth := n.begins(work{e, command}, false)
		begin(func() { n.box.End(at, virtual(n.w.now)); n.hasEnded(truth) })
		return
	}
	t := &suspects.Turn{Entity: e, Command: command}
	run := func() {
		truth := n.begins(work{e, command}, true)
		begin(func() {
			n.hasEnded(truth)
			if next := n.queue.End(virtual(n.w.now), t, true); next != nil {
				n.goOn(next)
			}
		})
	}
	if n.queue.Begin(virtual(n.w.now), t) {
		run()
		return
	}
	n.w.mark("suspect: it waits for another one")
	n.ready[t] = run
	n.w.after(int64(suspects.AloneWait), n.p.ifAlive(func() {
		for _, t := range n.queue.Tick(virtual(n.w.now)) {
			n.w.mark("suspect: it runs while another one does")
			n.goOn(t)
		}
		if _, waits := n.ready[t]; waits {
			n.w.violate("a suspect does not wait for long", "%s: %s of %v has waited for %v", n.p.name, t.Command, t.Entity, suspects.AloneWait)
		}
	}))
}

func (n *regionNode) goOn(t *suspects.Turn) {
	run := n.ready[t]
	delete(n.ready, t)
	run()
}

// processEnd is how a process of a region has really ended.
type processEnd struct {
	at        int64
	region    string
	explained bool
	ran       []*ran           // turns that ran, or had just ended
	clean     map[work]int     // turns that had run alone
	told      sharding.NodeUID // the coordinator that was told first; others have other clocks
	countedAt int64            // when it has ended, as that coordinator was told
}

// work is a command of an entity.
type work struct {
	entity  sharding.Entity
	command string
}

// ran is a turn.
type ran struct {
	work
	suspect      bool
	beside       bool  // another suspect ran at the same time
	begun, ended int64 // in virtual time; -1: it has not ended
}

func (n *regionNode) begins(what work, suspect bool) *ran {
	r := &ran{work: what, suspect: suspect, begun: n.w.now, ended: -1}
	n.ran = slices.DeleteFunc(n.ran, func(o *ran) bool { return o.ended >= 0 && o.ended < n.w.now-sec })
	for _, o := range n.ran {
		if suspect && o.suspect && o.ended < 0 {
			o.beside, r.beside = true, true
		}
	}
	n.ran = append(n.ran, r)
	return r
}

func (n *regionNode) hasEnded(r *ran) {
	if r.ended = n.w.now; r.suspect && !r.beside {
		n.clean[r.work]++
	}
}

// turnOf returns the turn of an entity at the end of a process; nil: none of its turns ran, or had just ended.
func (e *processEnd) turnOf(id sharding.Entity) (newest *ran) {
	for _, r := range e.ran {
		if r.entity == id && (r.ended < 0 || e.explained) && (newest == nil || r.begun > newest.begun) {
			newest = r
		}
	}
	return newest
}

// crashTold returns what an input says about how a process has ended; Of is 0 if it says nothing.
func crashTold(in coordinator.Input) control.Crash {
	if r, is := in.(coordinator.Received); is {
		if reg, is := r.Msg.(control.Register); is {
			return reg.Crash
		}
	}
	return control.Crash{}
}

// quarantineBefore returns who is quarantined before a step that may change that.
func (c *coordNode) quarantineBefore(in coordinator.Input) map[sharding.Entity]bool {
	if crashTold(in).Of == 0 {
		return nil
	}
	was := map[sharding.Entity]bool{}
	for _, v := range c.core.Quarantine() {
		was[v.Entity] = v.State == coordinator.Quarantined
	}
	return was
}

// quarantineAfter checks whom the step has quarantined.
func (c *coordNode) quarantineAfter(in coordinator.Input, was map[sharding.Entity]bool) {
	crash := crashTold(in)
	if crash.Of == 0 {
		return
	}
	if end := c.w.processEnds[crash.Of]; end != nil && end.told == 0 {
		end.told, end.countedAt = c.p.uid, c.w.now-int64(crash.Ago)
	}
	for _, v := range c.core.Quarantine() {
		if v.State == coordinator.Quarantined && !was[v.Entity] {
			c.checkQuarantined(v.QuarantineFact, crash.Of)
		}
	}
}

// blindCrashes is the number of crashes after which an entity is quarantined if none of them has a cause.
const blindCrashes = 5

// cleanTurns is the number of turns of a suspect that must have run alone so that a crash without a cause does not count.
const cleanTurns = 8

// clockError is by how much the clock of a coordinator is wrong after a window, at most.
const clockError = 100 * ms

// checkQuarantined checks that an entity is quarantined only for what has really happened, when a coordinator has
// taken in how a process has ended.
func (c *coordNode) checkQuarantined(f coordinator.QuarantineFact, of sharding.NodeUID) {
	w, cfg := c.w, coordinatorConfig(c.w)
	const rule = "only what ends regions is quarantined"
	if w.poisonOf(f.Entity) == nil {
		w.mark("poison: an innocent entity is quarantined")
		if w.weather.Poison.Alone && !w.poisons[0].late {
			w.violate(rule, "%v is quarantined, and only %v ends regions: %+v", f.Entity, w.poisons[0].entity, f)
		}
	}
	seen := map[sharding.NodeUID]bool{}
	for _, x := range f.Crashes {
		end := w.processEnds[x.Process]
		switch {
		case end == nil || seen[x.Process]:
			w.violate(rule, "%v is quarantined for the end of %v, which has not ended, or counts twice", f.Entity, x)
			return
		case end.told == c.p.uid && w.now-end.countedAt > int64(cfg.QuarantineWindow)+clockError:
			w.violate(rule, "%v is quarantined for the end of %s %v ago, the window is %v", f.Entity, end.region, nanos(w.now-end.countedAt), cfg.QuarantineWindow)
		}
		seen[x.Process] = true
		if r := end.turnOf(f.Entity); r == nil || !end.explained && end.clean[r.work] >= cleanTurns {
			w.violate(rule, "%v is quarantined for the end of %s at %s, when it did not run, or had run alone before", f.Entity, end.region, at(end.at))
		}
	}
	newest, explained := w.processEnds[of], 0
	for process := range seen { // order-free: counts
		if w.processEnds[process].explained {
			explained++
		}
	}
	if len(seen) < cfg.QuarantineCrashes || newest.explained && explained < cfg.QuarantineCrashes || !newest.explained && len(seen) < blindCrashes {
		w.violate(rule, "%v is quarantined after %d crashes", f.Entity, len(seen))
		return
	}
	if r := newest.turnOf(f.Entity); r != nil && r.suspect && !r.beside {
		return // it ran alone
	}
	if !newest.explained {
		w.violate(rule, "%v is quarantined for the end of %s at %s without a cause, and did not run alone", f.Entity, newest.region, at(newest.at))
	}
	for _, v := range c.core.Quarantine() {
		if newest.turnOf(v.Entity) != nil && v.Entity != f.Entity && evident(v.QuarantineFact) >= cfg.QuarantineCrashes && evident(f) <= cfg.QuarantineCrashes && v.State == coordinator.Suspected {
			w.violate(rule, "%v is quarantined after %d crashes, and %v ran at %d", f.Entity, len(f.Crashes), v.Entity, len(v.Crashes))
		}
	}
}

// evident returns the number of evident crashes of an entity.
func evident(f coordinator.QuarantineFact) (n int) {
	for _, c := range f.Crashes {
		if c.Evident {
			n++
		}
	}
	return n
}

// quarantineOf follows the facts.
func (s *store) quarantineOf(fact coordinator.Fact) {
	s.factNumber++
	switch f := fact.(type) {
	case coordinator.RowFact:
		for _, e := range []sharding.Epoch{f.Row.Epoch, f.Next} {
			if k := (shardEpoch{f.Row.Shard, e}); s.givenBy[k] == 0 {
				s.givenBy[k] = s.factNumber
			}
		}
	case coordinator.QuarantineFact:
		if old, was := s.quarantine[f.Entity]; !was || old.state != f.State {
			s.quarantine[f.Entity] = quarantine{f.State, s.factNumber, s.w.now}
		}
		if f.State == coordinator.Released {
			delete(s.quarantine, f.Entity)
		}
		if p := s.w.poisonOf(f.Entity); p != nil {
			p.quarantined = f.State == coordinator.Quarantined
		}
		s.w.mark("quarantine: " + f.State.String())
	}
}

// quarantine is the state of an entity by the facts.
type quarantine struct {
	state coordinator.QuarantineState
	by    int   // number of the fact
	at    int64 // when it became durable
}

type shardEpoch struct {
	shard sharding.ShardID
	epoch sharding.Epoch
}

// learnsBy bounds the time in which a region that serves a shard learns that an entity is quarantined, when nothing
// fails.
const learnsBy = 5 * sec

// checkObeys checks that a quarantined entity does not run: not at an owner that got the shard afterwards, and
// not for long at the one that has it.
func (n *regionNode) checkObeys(o *turn.Run) {
	s := n.w.journal
	q, found := s.quarantine[o.Entity]
	if !found || q.state != coordinator.Quarantined || isBuiltin(o.Env.Command) {
		return
	}
	if s.givenBy[shardEpoch{o.Shard, o.Epoch}] > q.by {
		n.w.violate("a quarantined entity does not run", "%s runs %s of %v at epoch %v, which was given after it was quarantined", n.p.name, o.Env.Command, o.Entity, o.Epoch)
	}
	if (n.w.calm || n.w.weather.Poison.Alone) && n.w.now-max(q.at, n.w.calmSince) > learnsBy {
		n.w.violate("a quarantined entity does not run", "%s runs %s of %v %v after it was quarantined", n.p.name, o.Env.Command, o.Entity, nanos(n.w.now-q.at))
	}
}

// checkQuarantine checks that a new term knows who is quarantined.
func (c *coordNode) checkQuarantine(term sharding.Term) {
	if c.w.weather.Poison.Entities == 0 {
		return
	}
	have := map[sharding.Entity]coordinator.QuarantineState{}
	for _, q := range c.core.Quarantine() {
		have[q.Entity] = q.State
	}
	want := c.w.journal.quarantine
	for _, e := range c.w.entities {
		if have[e] != want[e].state {
			c.w.violate("a quarantine outlives the term", "%s of term %d takes %v for %v, the facts say %v", c.p.name, term, e, have[e], want[e].state)
		} else if have[e] == coordinator.Quarantined {
			c.w.mark("quarantine: it outlives the term")
		}
	}
}

// quarantined reports whether an entity is quarantined, by the facts.
func (w *World) quarantined(e sharding.Entity) bool {
	return w.journal.quarantine[e].state == coordinator.Quarantined
}

// endPoison waits, when nothing else fails any more, until the poison is quarantined, checks that only
// quarantined entities are refused, repairs poisonous ones, and releases all.
func (w *World) endPoison(stop func() bool) {
	prober := w.idleClient(len(w.clients) + 9)
	n := 0
	done := func() bool {
		for _, p := range w.poisons {
			if !p.quarantined {
				return false
			}
		}
		return true
	}
	for end := w.now + 300*sec; !done() && !stop(); n++ {
		if w.now > end {
			w.violate("a poison is quarantined in time", "%+v", w.poisons)
			return
		}
		for _, p := range w.poisons {
			if !p.quarantined {
				w.provoke(prober, p, n%gateways)
			}
		}
		w.run(w.now+500*ms, stop)
	}
	if why := w.converge(stop); why != "" || stop() {
		w.violate("all finish and converge", "with quarantined entities: %s", why)
		return
	}
	first := len(w.ops)
	for gw := range gateways {
		for _, e := range w.entities {
			o := w.plain(prober.draw(e, true, 0))
			o.cmd, o.called = cmdGet, w.now
			prober.send(o, gw, nanos(10*sec))
			w.run(w.now+60*ms, stop)
		}
	}
	w.run(w.now+15*sec, func() bool { return stop() || w.answered(first) })
	for _, o := range w.ops[first:] {
		if stop() {
			return
		}
		switch r := &o.tries[len(o.tries)-1].reply; {
		case w.quarantined(o.entity) && (r.Outcome != sharding.NotApplied || r.Code != sharding.EntityQuarantined):
			w.violate("a quarantined entity is refused", "%v: %v %s %s", o, r.Outcome, r.Code, r.Message)
		case !w.quarantined(o.entity) && r.Outcome != sharding.Executed:
			w.violate("others are served", "%v: %v %s %s", o, r.Outcome, r.Code, r.Message)
		}
	}
	w.moveQuarantined(prober, stop)
	w.releaseAll(stop)
}

// moveQuarantined has an operator quarantine an entity and move its shard at once, while the next region hears nothing
// from coordinators. The present owner may not know of the quarantine when it gives the shard to that region, which
// must not run the entity nevertheless: see checkObeys.
func (w *World) moveQuarantined(c *client, stop func() bool) {
	active, d := w.activeCoordinators(), w.dice("moves of quarantined entities")
	if len(active) != 1 {
		return
	}
	w.unsteer()
	w.run(w.now+sec, stop)
	core := active[0].core
	for _, e := range w.shuffled(d) {
		if w.volatile(e) || w.quarantined(e) || w.ownerOf(e).IsZero() {
			continue
		}
		for _, r := range core.View().Regions {
			move := coordinator.MoveShard{Shard: w.shardOf(e), Region: r.Name}
			if _, err := core.Preview(move); err != nil || r.Node == w.ownerOf(e) {
				continue
			}
			w.quarantineAndMove(c, e, move, w.process(r.Node.Addr).host, stop)
			return
		}
	}
}

func (w *World) quarantineAndMove(c *client, e sharding.Entity, move coordinator.MoveShard, to int, stop func() bool) {
	var pairs [][2]int
	for _, p := range w.processes[:coordinators] {
		pairs = append(pairs, [2]int{p.host, to})
	}
	heal := w.net.block(pairs)
	w.wish(coordinator.QuarantineEntity{Entity: e, By: "operator", Reason: "tests"})
	w.wish(move)
	for end := w.now + 400*ms; w.now < end && !stop(); w.run(w.now+20*ms, stop) {
		o := w.plain(c.draw(e, true, 0))
		o.cmd, o.called = cmdAdd, w.now
		c.send(o, o.id%gateways, nanos(2*sec))
	}
	heal()
	w.run(w.now+3*sec, stop)
	w.mark("quarantine: the shard moves at once")
}

// plain makes a command one of a client that waits for the answer.
func (w *World) plain(o *op) *op {
	o.tell, o.letter = false, nil
	delete(w.letters, o.key)
	return o
}

// provoke has a poison end its region.
func (w *World) provoke(c *client, p *poison, gw int) {
	o := w.plain(c.draw(p.entity, true, 0))
	o.called = w.now
	switch p.by {
	case byCommand:
		o.cmd = cmdAdd
	case byReminder:
		o.cmd = cmdRemind
	case bySend:
		o.cmd = cmdSend
		for _, e := range w.entities {
			if !w.volatile(e) && e != p.entity && !w.quarantined(e) {
				o.entity = e // the number of the command says to whom it sends
			}
		}
	}
	c.send(o, gw, nanos(2*sec))
}

// releaseAll repairs what is poisonous, and has an operator release all that are suspected or quarantined.
func (w *World) releaseAll(stop func() bool) {
	for _, p := range w.poisons {
		p.repaired = true
	}
	for end := w.now + 30*sec; len(w.journal.quarantine) > 0 && !stop(); w.run(w.now+500*ms, stop) {
		if w.now > end {
			w.violate("a release ends a quarantine", "%+v", w.journal.quarantine)
			return
		}
		for _, e := range w.entities {
			if _, is := w.journal.quarantine[e]; is {
				w.wish(coordinator.QuarantineEntity{Entity: e, Release: true, By: "operator", Reason: "repaired"})
			}
		}
	}
	w.mark("quarantine: all are released")
}
