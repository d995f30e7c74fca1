package quarantine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/control"
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
// times before in this process (CleanTurns), nor for an entity whose turn had just ended.

const (
	// CleanTurns is the number of turns of the same command of a suspect that must run alone in a process before a
	// crash of this process without a cause does not count for the suspect. A command that ends its region does so
	// nearly every time.
	CleanTurns = 8
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
	fact fact.Quarantine
	// alone is true if the turn had not ended, and no other suspect ran at the same time.
	alone bool
	// ended is true if the turn had just ended. A goroutine that it has started may have ended the process.
	ended bool
}

// count returns the number of crashes of the entity, or of those that are evident.
func (c *charge) count(evident bool) (n int) {
	for _, crash := range c.fact.Crashes {
		if crash.Evident || !evident { //mutant:true quarantine-evident
			n++
		}
	}
	return n
}

// Judge takes the report of the region called name about how its previous process has ended, and returns the facts that
// follow: each entity that ran is a suspect, or quarantined. known reports whether a type is declared.
func (q *Quarantine) Judge(now time.Time, l Limits, name string, c control.Crash, known func(sharding.EntityType) bool) (facts []fact.Quarantine) {
	if c.Ago < 0 || c.Ago > l.Window {
		return nil
	}
	//mutant:false quarantine-culprit
	if slices.ContainsFunc(c.Turns, func(t control.CrashedTurn) bool { return q.Quarantined(t.Entity) }) {
		return nil // this entity has surely ended the region, which did not know yet that it is quarantined
	}
	crash := fact.CountedCrash{Process: c.Of, Region: name, At: fact.Time(now.Add(-c.Ago)), Evident: c.Cause != "" || c.Evidence != ""}
	var charges []*charge
	for i, turn := range c.Turns[:min(len(c.Turns), maxCrashTurns)] {
		if !known(turn.Entity.Type) || turn.Entity.Check() != nil {
			continue
		}
		f, counts := q.suspect(now, l, turn, crash, &c)
		if !counts || slices.ContainsFunc(c.Turns[:i], func(o control.CrashedTurn) bool { return o.Entity == turn.Entity }) {
			continue
		}
		charges = append(charges, &charge{fact: f, alone: turn.Alone && !turn.Ended, ended: turn.Ended})
	}
	l.convict(now, charges, c.Cause != "", crash.Evident)
	for _, x := range charges {
		facts = append(facts, x.fact)
	}
	return facts
}

// suspect returns the fact about an entity that ran at a crash, and whether the crash counts for it.
func (q *Quarantine) suspect(now time.Time, l Limits, turn control.CrashedTurn, crash fact.CountedCrash, c *control.Crash) (fact.Quarantine, bool) {
	f, has := q.Find(turn.Entity)
	if !has {
		f = fact.Quarantine{Entity: turn.Entity}
	}
	again := slices.ContainsFunc(f.Crashes, func(c fact.CountedCrash) bool { return c.Process == crash.Process })
	cleared := c.Cause == "" && (turn.Clean >= CleanTurns || turn.Ended) //mutant:false quarantine-clean
	if f.State == fact.Quarantined || again || cleared {                 //mutant:false quarantine-repeats again
		return f, false
	}
	f.Crashes = append(l.fresh(now, f.Crashes), crash)
	f.State, f.Command = fact.Suspected, clip(turn.Command, sharding.MaxTypeLen)
	if crash.Evident {
		f.Cause = clip(cmp.Or(c.Cause, c.Evidence), maxCrashText)
	}
	f.Note = note(now, "a turn of it ran when "+f.Regions()+" ended"+f.Explained())
	return f, true
}

// convict quarantines those entities of a crash that have probably ended the process. explained is true if the crash
// has a cause, evident if it is evident.
func (l Limits) convict(now time.Time, charges []*charge, explained, evident bool) {
	k := l.Crashes
	if !evident { //mutant:false quarantine-blind
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
	// Invariant: an entity is quarantined only if its turns ran at `coordinator.Config.QuarantineCrashes` crashes of
	// regions, and if one of two things is true for the newest of these crashes. Either the entity ran alone. Or the Go
	// runtime has written why the process ended (such as a panic). In the second case, if several of the entities that
	// ran have reached this number of crashes, only those with more crashes than this number are quarantined. If the
	// runtime has written nothing, the process was perhaps killed from outside. Such a crash does not count for an
	// entity that has executed the same command alone in this process several times before. If an entity ran that is
	// quarantined already, the crash counts for no other.
	// Mutants: quarantine-count, quarantine-window, quarantine-alone, quarantine-clean, quarantine-repeats,
	// quarantine-culprit
	//mutant:do quarantine-count guilty = charges
	//mutant:skip quarantine-count
	switch {
	case alone != nil && alone.count(evident) >= k && !behind:
		guilty = []*charge{alone}
	case !explained: //mutant:true quarantine-alone
		//mutant:skip quarantine-alone
		guilty = nil // each of them runs alone from now on, so the next crash says more
	case len(guilty) > 1: // several ran at k crashes: those that ran at one more are quarantined
		guilty = slices.DeleteFunc(guilty, func(c *charge) bool { return c.count(evident) <= k })
		//mutant:false quarantine-behind
		if slices.Contains(guilty, alone) {
			guilty = []*charge{alone} // a turn that runs is a likelier cause than a goroutine of one that has ended
		}
	}
	for _, c := range guilty {
		f := &c.fact
		f.State = fact.Quarantined
		f.Note = note(now, clip("its "+f.Turn()+" ended "+f.Regions()+f.Explained(), l.MaxReason))
	}
}

// fresh returns the crashes that are within the window.
func (l Limits) fresh(now time.Time, list []fact.CountedCrash) (fresh []fact.CountedCrash) {
	for _, c := range list {
		if now.Sub(c.At) <= l.Window { //mutant:true quarantine-window
			fresh = append(fresh, c)
		}
	}
	return fresh
}

func note(now time.Time, reason string) fact.Note {
	return fact.Note{By: "roost", Reason: reason, At: fact.Time(now)}
}

// clip returns at most so many bytes of a text, without bytes that are not valid text.
func clip(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
