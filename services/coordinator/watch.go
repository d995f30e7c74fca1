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
// out and ask again. So the watch is parked until some facts are durable. durable is true if all facts are.
func (tab *table) watch(s *step, durable bool, call control.Call, from sharding.Version) {
	if from != tab.version && !durable {
		if len(tab.parked) >= s.cfg.MaxWatches {
			s.reply(tab.parked[0].call, control.NotActive{Term: tab.version.Term})
			tab.parked = slices.Delete(tab.parked, 0, 1)
		}
		tab.parked = append(tab.parked, parked{call, from})
		return
	}
	if from != tab.version {
		s.reply(call, control.TableChanged{Delta: tab.delta(from)})
		return
	}
	if len(tab.waiting) >= s.cfg.MaxWatches {
		tab.answer(s, 1, tab.delta(tab.version))
	}
	tab.waiting = append(tab.waiting, waiter{call: call, since: s.now})
}

// forget forgets a watch that its caller no longer waits for.
func (tab *table) forget(call control.Call) {
	tab.waiting = slices.DeleteFunc(tab.waiting, func(w waiter) bool { return w.call == call })
	tab.parked = slices.DeleteFunc(tab.parked, func(w parked) bool { return w.call == call })
}

// unpark answers the parked watches. Those that are equally far behind share a
// delta.
func (tab *table) unpark(s *step) {
	known := map[sharding.Version]sharding.TableDelta{}
	for _, w := range tab.parked {
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
	tab.parked = nil
}

// wake answers the waiting watches if the table has changed in this Step. All of them share the delta, which is never
// written to.
func (tab *table) wake(s *step) {
	if len(tab.waiting) > 0 && tab.told != tab.version.N {
		tab.answer(s, len(tab.waiting), tab.delta(sharding.Version{Term: tab.version.Term, N: tab.told}))
	}
	tab.told = tab.version.N
}

// expire answers the watches that have waited long enough. The answer reports no change.
func (tab *table) expire(s *step) {
	old := 0
	for old < len(tab.waiting) && s.now.Sub(tab.waiting[old].since) >= s.cfg.WatchHold {
		old++
	}
	if old > 0 {
		tab.answer(s, old, tab.delta(sharding.Version{Term: tab.version.Term, N: tab.told}))
	}
}

// answer gives the delta to the n oldest watches.
func (tab *table) answer(s *step, n int, d sharding.TableDelta) {
	for _, w := range tab.waiting[:n] {
		s.reply(w.call, control.TableChanged{Delta: d})
	}
	tab.waiting = slices.Delete(tab.waiting, 0, n)
}
