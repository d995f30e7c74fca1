package coordinator

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// change names the row or the type that changed at one version of the table. The row or the type itself has its
// present state, and the version of its last change.
type change struct {
	shard  sharding.ShardID
	isType bool
}

// count gives a change its number, and keeps it for deltas.
func (tab *table) count(s *step, c change) uint64 {
	if len(tab.log) >= s.cfg.ChangeLog {
		drop := (len(tab.log) + 1) / 2 // by halves: each entry is moved once
		tab.log = slices.Delete(tab.log, 0, drop)
		tab.base += uint64(drop)
	}
	tab.log = append(tab.log, c)
	tab.version.N++
	return tab.version.N
}

// delta returns the changes after a version. If they are not known, because the version is of another term
// or too old, delta returns the whole table.
func (tab *table) delta(from sharding.Version) sharding.TableDelta {
	if tab.forgotten(from) {
		return tab.full()
	}
	d := sharding.TableDelta{Version: tab.version, Generation: tab.generation}
	for i, c := range tab.log[from.N-tab.base:] {
		n := from.N + uint64(i) + 1
		if at, _ := tab.searchType(c.shard.Type); c.isType && tab.types[at].changed == n {
			d.Types = append(d.Types, tab.types[at].desc)
		} else if r := &tab.types[at].rows[c.shard.Index]; !c.isType && r.changed == n {
			d.Rows = append(d.Rows, r.Row)
		}
	}
	return d
}

// forgotten reports whether the changes after a version are no longer known.
func (tab *table) forgotten(v sharding.Version) bool {
	return v.Term != tab.version.Term || v.N < tab.base || v.N > tab.version.N
}

// full returns the whole table. When a term begins, every watcher asks for it. So all watchers that ask before the
// next tick, or the next change, share it. It is never written to.
func (tab *table) full() sharding.TableDelta {
	if tab.whole.Full && tab.whole.Version == tab.version {
		return tab.whole
	}
	d := sharding.TableDelta{Version: tab.version, Generation: tab.generation, Full: true}
	rows := 0
	for _, t := range tab.types {
		rows += len(t.rows)
	}
	d.Rows = make([]sharding.Row, 0, min(rows, tab.allocated))
	for _, t := range tab.types {
		d.Types = append(d.Types, t.desc)
		for i := range t.rows {
			if t.rows[i].Epoch != 0 {
				d.Rows = append(d.Rows, t.rows[i].Row)
			}
		}
	}
	tab.whole = d
	return d
}
