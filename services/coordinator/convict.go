package coordinator

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/fact"
)

// A region that starts reports how its previous process has ended, and which turns ran then (control.Crash).
// The coordinator counts these crashes for each entity that ran:
//
//   - The entity is a suspect from then on. A region runs the turns of suspects one at a time, so that each of
//     them runs alone. (If a turn hangs, others run concurrently after a while.)
//   - A crash is evident if something shows that the process was not killed from outside: the text of the runtime, the
//     exit status, or that its memory was nearly full.
//   - An entity with Config.QuarantineCrashes evident crashes within Config.QuarantineWindow is quarantined if it ran
//     alone at the newest crash, and this one is evident.
//   - If the newest crash has a cause (the text of the runtime), the entity need not have run alone: it is quarantined
//     if no other entity that ran has so many evident crashes. If several have, those with even more are
//     quarantined, or the one of these that ran alone.
//   - After a crash that is not evident, an entity is quarantined if it ran alone, and has blindCrashes crashes.
//
// A process that is killed from outside also ends while turns run, and an entity with slow commands may run at several
// such moments. Its successor cannot tell this from os.Exit, or from the kernel's OOM killer. So a crash that is not
// evident counts less. It does not count at all for an entity that has run the same command alone several
// times before in this process (cleanTurns), nor for an entity whose turn had just ended.

const (
	// cleanTurns is the number of turns of the same command of a suspect that must run alone in a process before a
	// crash of this process without a cause does not count for the suspect. A command that ends its region does so
	// nearly every time.
	cleanTurns = 8
	// blindCrashes is the number of crashes after which an entity is quarantined although nothing shows that the processes
	// were not killed from outside. A rollout or a failing machine kills a few regions within the window, but hardly five
	// times while the same entity runs alone.
	blindCrashes = 5
	// maxCrashTurns bounds the turns of one report that are considered.
	maxCrashTurns = 64
	// maxCrashText bounds what the runtime wrote, in bytes.
	maxCrashText = 200
)

// charge is a crash that counts for an entity.
type charge struct {
	fact QuarantineFact
	// alone is true if the turn had not ended, and no other suspect ran at the same time.
	alone bool
	// ended is true if the turn had just ended. A goroutine that it has started may have ended the process.
	ended bool
}

// count returns the number of crashes of the entity, or of those that are evident.
func (c *charge) count(evident bool) (n int) {
	for _, crash := range c.fact.Crashes {
		if crash.Evident || !evident || mutant.On("quarantine-evident") {
			n++
		}
	}
	return n
}

// crashed handles the report of a region about how its previous process has ended.
func (m *Machine) crashed(name string, c control.Crash) {
	if c.Of == 0 || m.cfg.QuarantineCrashes == 0 {
		return
	}
	m.keepReport(c)
	if c.Ago < 0 || c.Ago > m.cfg.QuarantineWindow {
		return
	}
	if slices.ContainsFunc(c.Turns, m.quarantinedTurn) && !mutant.On("quarantine-culprit") {
		return // this entity has surely ended the region, which did not know yet that it is quarantined
	}
	crash := CountedCrash{Process: c.Of, Region: name, At: fact.Time(m.now.Add(-c.Ago)), Evident: c.Cause != "" || c.Evidence != ""}
	var charges []*charge
	for i, turn := range c.Turns[:min(len(c.Turns), maxCrashTurns)] {
		f, counts := m.suspect(turn, crash, &c)
		if !counts || slices.ContainsFunc(c.Turns[:i], func(o control.CrashedTurn) bool { return o.Entity == turn.Entity }) {
			continue
		}
		charges = append(charges, &charge{fact: f, alone: turn.Alone && !turn.Ended, ended: turn.Ended})
	}
	m.convict(charges, c.Cause != "", crash.Evident)
	for _, x := range charges {
		m.setQuarantine(x.fact)
	}
}

// quarantinedTurn reports whether the entity of a turn is quarantined.
func (m *Machine) quarantinedTurn(turn control.CrashedTurn) bool {
	i, found := m.searchType(turn.Entity.Type)
	if !found {
		return false
	}
	at, has := m.types[i].searchSuspect(turn.Entity.ID)
	return has && m.types[i].suspects[at].State == Quarantined
}

// suspect returns the fact about an entity that ran at a crash, and whether the crash counts for it.
func (m *Machine) suspect(turn control.CrashedTurn, crash CountedCrash, c *control.Crash) (QuarantineFact, bool) {
	i, found := m.searchType(turn.Entity.Type)
	if !found || turn.Entity.Check() != nil {
		return QuarantineFact{}, false
	}
	f := QuarantineFact{Entity: turn.Entity}
	if at, has := m.types[i].searchSuspect(turn.Entity.ID); has {
		f = m.types[i].suspects[at]
	}
	again := slices.ContainsFunc(f.Crashes, func(c CountedCrash) bool { return c.Process == crash.Process })
	cleared := c.Cause == "" && (turn.Clean >= cleanTurns || turn.Ended) && !mutant.On("quarantine-clean")
	if f.State == Quarantined || again && !mutant.On("quarantine-repeats") || cleared {
		return f, false
	}
	f.Crashes = append(m.freshCrashes(f.Crashes), crash)
	f.State, f.Command = Suspected, clip(turn.Command, sharding.MaxTypeLen)
	if crash.Evident {
		f.Cause = clip(cmp.Or(c.Cause, c.Evidence), maxCrashText)
	}
	f.Note = m.note("roost", "a turn of it ran when "+f.Regions()+" ended"+f.Explained())
	return f, true
}

// convict quarantines those entities of a crash that have probably ended the process. explained is true if the crash
// has a cause, evident if it is evident.
func (m *Machine) convict(charges []*charge, explained, evident bool) {
	k := m.cfg.QuarantineCrashes
	if !evident && !mutant.On("quarantine-blind") {
		k = max(k, blindCrashes)
	}
	var alone *charge
	var guilty []*charge
	behind := false // the cause may be a goroutine of a turn that had ended
	for _, c := range charges {
		if c.alone {
			alone = c
		}
		if c.count(evident) >= k {
			guilty, behind = append(guilty, c), behind || c.ended
		}
	}
	switch {
	case mutant.On("quarantine-count"):
		guilty = charges
	case alone != nil && alone.count(evident) >= k && !behind:
		guilty = []*charge{alone}
	case mutant.On("quarantine-alone"):
	case !explained:
		guilty = nil // each of them runs alone from now on, so the next crash says more
	case len(guilty) > 1: // several ran at k crashes: those that ran at one more are quarantined
		guilty = slices.DeleteFunc(guilty, func(c *charge) bool { return c.count(evident) <= k })
		if slices.Contains(guilty, alone) && !mutant.On("quarantine-behind") {
			guilty = []*charge{alone} // a turn that runs is a likelier cause than a goroutine of one that has ended
		}
	}
	for _, c := range guilty {
		f := &c.fact
		f.State = Quarantined
		f.Note = m.note("roost", clip("its "+f.Turn()+" ended "+f.Regions()+f.Explained(), m.cfg.MaxReason))
	}
}
