package coordinator

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

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

// change names the row or the type that changed at one version of the table. The row or the type itself has its
// present state, and the version of its last change.
type change struct {
	shard  sharding.ShardID
	isType bool
}

// count gives a change its number, and keeps it for deltas.
func (m *Machine) count(c change) uint64 {
	if len(m.log) >= m.cfg.ChangeLog {
		drop := (len(m.log) + 1) / 2 // by halves: each entry is moved once
		m.log = slices.Delete(m.log, 0, drop)
		m.base += uint64(drop)
	}
	m.log = append(m.log, c)
	m.n++
	return m.n
}

func (m *Machine) version() sharding.Version { return sharding.Version{Term: m.term, N: m.n} }

// watchTable answers at once if the watcher does not know the present table; otherwise it answers at the
// next change. While facts are not durable, the Gate would hold the answer back, and the watcher would time
// out and ask again. So the watch is parked until some facts are durable.
func (m *Machine) watchTable(call control.Call, from sharding.Version) {
	if from != m.version() && m.pending(m.lastFact) {
		if len(m.parked) >= m.cfg.MaxWatches {
			m.askAgain(m.parked[0].call)
			m.parked = slices.Delete(m.parked, 0, 1)
		}
		m.parked = append(m.parked, parked{call, from})
		return
	}
	if from != m.version() {
		m.reply(call, control.TableChanged{Delta: m.delta(from)})
		return
	}
	if len(m.waiting) >= m.cfg.MaxWatches {
		m.answer(1, m.delta(m.version()))
	}
	m.waiting = append(m.waiting, waiter{call: call, since: m.now})
}

// held is a watch at a standby that waits for the next active coordinator.
type held struct {
	call  control.Call
	from  sharding.Version
	since time.Time
}

// watchStandby handles a watch at a standby. While the term of the active coordinator seems to end, a standby holds
// watches, as it may be the next one. So the watchers, which have lost the active coordinator, know the next one as
// soon as it is active, and need not find it.
func (m *Machine) watchStandby(call control.Call, from sharding.Version) {
	if !m.termEnds() {
		m.sendOn(call)
		return
	}
	if len(m.held) >= m.cfg.MaxWatches {
		m.sendOn(m.held[0].call)
		m.held = slices.Delete(m.held, 0, 1)
	}
	m.held = append(m.held, held{call: call, from: from, since: m.now})
}

// termEnds reports whether the lease of the active coordinator ends soon unless it is renewed, or has ended a short
// time ago. Usually it is renewed much earlier. If no coordinator takes over in that time, this standby may be the
// one that does not see the lease, and answers at once with the coordinator that it knows.
func (m *Machine) termEnds() bool {
	left := m.knownActive.Until.Sub(m.now)
	return left <= m.cfg.LeaseEnd && left > -m.cfg.WatchHold
}

// answerHeld answers the watches that this standby holds if the lease was renewed, if another coordinator has acquired
// it, or if they have waited long enough.
func (m *Machine) answerHeld() {
	n := 0
	for n < len(m.held) && (!m.termEnds() || m.now.Sub(m.held[n].since) >= m.cfg.WatchHold) {
		m.sendOn(m.held[n].call)
		n++
	}
	m.held = slices.Delete(m.held, 0, n)
}

// watchEnded forgets a watch that its caller no longer waits for.
func (m *Machine) watchEnded(call control.Call) {
	m.waiting = slices.DeleteFunc(m.waiting, func(w waiter) bool { return w.call == call })
	m.parked = slices.DeleteFunc(m.parked, func(w parked) bool { return w.call == call })
	m.held = slices.DeleteFunc(m.held, func(w held) bool { return w.call == call })
}

// unpark answers the parked watches. Those that are equally far behind share a
// delta.
func (m *Machine) unpark() {
	known := map[sharding.Version]sharding.TableDelta{}
	for _, w := range m.parked {
		from := w.from
		if m.forgotten(from) {
			from = sharding.Version{}
		}
		d, found := known[from]
		if !found {
			d = m.delta(from)
			known[from] = d
		}
		m.reply(w.call, control.TableChanged{Delta: d})
	}
	m.parked = nil
}

// wake answers the waiting watches if the table has changed in this Step. All of them share the delta, which is never
// written to.
func (m *Machine) wake() {
	if len(m.waiting) > 0 && m.told != m.n {
		m.answer(len(m.waiting), m.delta(sharding.Version{Term: m.term, N: m.told}))
	}
	m.told = m.n
}

// expire answers the watches that have waited long enough. The answer reports no change.
func (m *Machine) expire() {
	old := 0
	for old < len(m.waiting) && m.now.Sub(m.waiting[old].since) >= m.cfg.WatchHold {
		old++
	}
	if old > 0 {
		m.answer(old, m.delta(sharding.Version{Term: m.term, N: m.told}))
	}
}

// answer gives the delta to the n oldest watches.
func (m *Machine) answer(n int, d sharding.TableDelta) {
	for _, w := range m.waiting[:n] {
		m.reply(w.call, control.TableChanged{Delta: d})
	}
	m.waiting = slices.Delete(m.waiting, 0, n)
}

// delta returns the changes after a version. If they are not known, because the version is of another term
// or too old, delta returns the whole table.
func (m *Machine) delta(from sharding.Version) sharding.TableDelta {
	if m.forgotten(from) {
		return m.full()
	}
	d := sharding.TableDelta{Version: m.version(), Generation: m.generation}
	for i, c := range m.log[from.N-m.base:] {
		n := from.N + uint64(i) + 1
		if at, _ := m.searchType(c.shard.Type); c.isType && m.types[at].changed == n {
			d.Types = append(d.Types, m.types[at].desc)
		} else if r := &m.types[at].rows[c.shard.Index]; !c.isType && r.changed == n {
			d.Rows = append(d.Rows, r.Row)
		}
	}
	return d
}

// forgotten reports whether the changes after a version are no longer known.
func (m *Machine) forgotten(v sharding.Version) bool {
	return v.Term != m.term || v.N < m.base || v.N > m.n
}

// full returns the whole table. When a term begins, every watcher asks for it. So all watchers that ask before the
// next tick, or the next change, share it. It is never written to.
func (m *Machine) full() sharding.TableDelta {
	if m.whole.Full && m.whole.Version == m.version() {
		return m.whole
	}
	d := sharding.TableDelta{Version: m.version(), Generation: m.generation, Full: true}
	rows := 0
	for _, t := range m.types {
		rows += len(t.rows)
	}
	d.Rows = make([]sharding.Row, 0, min(rows, m.allocated))
	for _, t := range m.types {
		d.Types = append(d.Types, t.desc)
		for i := range t.rows {
			if t.rows[i].Epoch != 0 {
				d.Rows = append(d.Rows, t.rows[i].Row)
			}
		}
	}
	m.whole = d
	return d
}
