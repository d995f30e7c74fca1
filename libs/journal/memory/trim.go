package memory

import (
	"github.com/roost-cluster/roost/libs/journal"
)

func (e *entity) marks() journal.TrimMarks {
	return journal.TrimMarks{Life: e.life, Last: e.last(), Cut: e.cut, Stripped: e.stripped, Swept: e.swept}
}

// trimEvents removes events that a snapshot has made superfluous.
func (e *entity) trimEvents(cut uint64) {
	if cut == 0 {
		return
	}
	m := e.marks()
	m.Raise(cut)
	waking := map[uint64]bool{}
	for _, w := range e.wakes { // order-free: a set
		waking[w.seq] = true
	}
	acts := map[uint64]journal.TrimAct{}
	visit := func(after, last uint64, limit int) (n int, mark uint64) {
		mark = after
		for i := range e.entries {
			x := &e.entries[i]
			if x.record.Seq <= after || x.record.Seq > last || n == limit {
				continue
			}
			at, remembered := e.commands[x.record.Command]
			_, sending := e.sends[x.record.Seq]
			needed := journal.Needed{Remembered: remembered && at == x.record.Seq, Sending: sending, Waking: waking[x.record.Seq]}
			acts[x.record.Seq] = m.Trim(x.record.Seq, len(x.record.Events) > 0, needed)
			n, mark = n+1, x.record.Seq
		}
		return n, mark
	}
	after, last := m.Fresh()
	fresh, stripped := visit(after, last, journal.MaxTrim)
	after, last, limit := m.Sweep(fresh)
	sweep, swept := visit(after, last, limit)
	m = m.Done(fresh, stripped, sweep, limit, swept)
	e.cut, e.stripped, e.swept = m.Cut, m.Stripped, m.Swept
	e.apply(acts)
}

// apply does to the records what was decided. Clones share the entries, so it makes new ones.
func (e *entity) apply(acts map[uint64]journal.TrimAct) {
	left := make([]entry, 0, len(e.entries))
	index := e.expireIndex
	for i := range e.entries {
		x := e.entries[i]
		switch acts[x.record.Seq] {
		case journal.RemoveRecord:
			if at, ok := e.commands[x.record.Command]; ok && at == x.record.Seq {
				delete(e.commands, x.record.Command)
			}
			if i < index {
				e.expireIndex--
			}
			continue
		case journal.StripRecord:
			x.record.Events = nil
		}
		left = append(left, x)
	}
	e.entries = left
}
