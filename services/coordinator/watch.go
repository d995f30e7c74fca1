package coordinator

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// watches are the watches of the table that are not answered yet.
type watches struct {
	told    uint64   // the number of the last change that every waiting watch knows
	waiting []waiter // watches that wait; between steps, all of them know the present table; oldest first
	parked  []parked // watches that do not know the present table, and wait until facts are durable; oldest first
	held    []held   // of a standby: watches that wait for the next active coordinator; oldest first
}

// waiter is a watch that is up to date and waits for a change.
type waiter struct {
	call  control.Call
	since time.Time
}

// parked is a watch that does not know the present table, and must wait until facts are durable.
type parked struct {
	call control.Call
	from sharding.Version
}

// watch answers at once if the watcher does not know the present table; otherwise it answers at the
// next change. While facts are not durable, the Gate would hold the answer back, and the watcher would time
// out and ask again. So the watch is parked until some facts are durable.
func (w *watches) watch(s *step, l *ledger, t *term, tab *table, call control.Call, from sharding.Version) {
	if from != tab.version && l.pending(l.lastFact) {
		if len(w.parked) >= s.cfg.MaxWatches {
			t.askAgain(s, w.parked[0].call)
			w.parked = slices.Delete(w.parked, 0, 1)
		}
		w.parked = append(w.parked, parked{call, from})
		return
	}
	if from != tab.version {
		s.reply(call, control.TableChanged{Delta: tab.delta(from)})
		return
	}
	if len(w.waiting) >= s.cfg.MaxWatches {
		w.answer(s, 1, tab.delta(tab.version))
	}
	w.waiting = append(w.waiting, waiter{call: call, since: s.now})
}

// held is a watch at a standby that waits for the next active coordinator.
type held struct {
	call  control.Call
	from  sharding.Version
	since time.Time
}

// hold handles a watch at a standby. While the term of the active coordinator seems to end, a standby holds
// watches, as it may be the next one. So the watchers, which have lost the active coordinator, know the next one as
// soon as it is active, and need not find it.
func (w *watches) hold(s *step, t *term, call control.Call, from sharding.Version) {
	if !t.termEnds(s) {
		t.sendOn(s, call)
		return
	}
	if len(w.held) >= s.cfg.MaxWatches {
		t.sendOn(s, w.held[0].call)
		w.held = slices.Delete(w.held, 0, 1)
	}
	w.held = append(w.held, held{call: call, from: from, since: s.now})
}

// termEnds reports whether the lease of the active coordinator ends soon unless it is renewed, or has ended a short
// time ago. Usually it is renewed much earlier. If no coordinator takes over in that time, this standby may be the
// one that does not see the lease, and answers at once with the coordinator that it knows.
func (t *term) termEnds(s *step) bool {
	left := t.known.Until.Sub(s.now)
	return left <= s.cfg.LeaseEnd && left > -s.cfg.WatchHold
}

// answerHeld answers the watches that this standby holds if the lease was renewed, if another coordinator has acquired
// it, or if they have waited long enough.
func (w *watches) answerHeld(s *step, t *term) {
	n := 0
	for n < len(w.held) && (!t.termEnds(s) || s.now.Sub(w.held[n].since) >= s.cfg.WatchHold) {
		t.sendOn(s, w.held[n].call)
		n++
	}
	w.held = slices.Delete(w.held, 0, n)
}

// forget forgets a watch that its caller no longer waits for.
func (w *watches) forget(call control.Call) {
	w.waiting = slices.DeleteFunc(w.waiting, func(w waiter) bool { return w.call == call })
	w.parked = slices.DeleteFunc(w.parked, func(w parked) bool { return w.call == call })
	w.held = slices.DeleteFunc(w.held, func(w held) bool { return w.call == call })
}

// unpark answers the parked watches. Those that are equally far behind share a
// delta.
func (w *watches) unpark(s *step, tab *table) {
	known := map[sharding.Version]sharding.TableDelta{}
	for _, w := range w.parked {
		from := w.from
		if tab.forgotten(from) {
			from = sharding.Version{}
		}
		d, found := known[from]
		if !found {
			d = tab.delta(from)
			known[from] = d
		}
		s.reply(w.call, control.TableChanged{Delta: d})
	}
	w.parked = nil
}

// wake answers the waiting watches if the table has changed in this Step. All of them share the delta, which is never
// written to.
func (w *watches) wake(s *step, tab *table) {
	if len(w.waiting) > 0 && w.told != tab.version.N {
		w.answer(s, len(w.waiting), tab.delta(sharding.Version{Term: tab.version.Term, N: w.told}))
	}
	w.told = tab.version.N
}

// expire answers the watches that have waited long enough. The answer reports no change.
func (w *watches) expire(s *step, tab *table) {
	old := 0
	for old < len(w.waiting) && s.now.Sub(w.waiting[old].since) >= s.cfg.WatchHold {
		old++
	}
	if old > 0 {
		w.answer(s, old, tab.delta(sharding.Version{Term: tab.version.Term, N: w.told}))
	}
}

// answer gives the delta to the n oldest watches.
func (w *watches) answer(s *step, n int, d sharding.TableDelta) {
	for _, w := range w.waiting[:n] {
		s.reply(w.call, control.TableChanged{Delta: d})
	}
	w.waiting = slices.Delete(w.waiting, 0, n)
}
