// Package routetable holds a watcher's copy of the route table and the protocol
// that keeps it fresh. Regions and gateways embed both in their cores.
//
// [Table] is the copy: for every shard the newest row by (epoch, phase), whether
// it came from a watch, a refusal or a region. Merging is idempotent, and within a term commutative
// and associative, so answers may arrive late, twice or in any order. A full table of a new term also
// removes rows, see [Table.Advance]. [Watcher]
// decides which coordinator is polled when.
//
// # What this does not do
//
// Nothing here decides who owns a shard, talks to a network or reads a clock.
// A copy may be stale at any time: routing is advisory, and only the fence is enforced.
//
// # Duties of the driver
//
// The drivers are the cores of regions and gateways, which embed both types. Their own
// drivers make the polls.
//
//  1. Table and Watcher are used by one goroutine at a time, with the times of one
//     monotonic clock.
//  2. [Watcher.Poll] is called after every input and at every tick, every 20 ms or so. The process
//     at the address that it returns is polled at once, in the background: a coordinator or, while
//     none answers, a fallback, which is a region. A region holds a poll no longer than a
//     coordinator does.
//  3. Every poll ends in one call of Changed, NotActive or Failed, with the address that
//     Poll returned. An answer that comes after Timeout is passed on all the same.
//  4. A delta is applied to the Table ([Table.Apply]) only if [Watcher.Changed] returns
//     true. Rows that came by another way are merged ([Table.Merge]).
//  5. [Watcher.SetCandidates] is called whenever the addresses that discovery lists have
//     changed.
//
// What to write:
//
//	switch answer := answer.(type) {
//	case delta:
//		if w.Changed(now, answer.From, answer.Delta) {
//			t.Apply(answer.Delta)
//		}
//	case notActive:
//		w.NotActive(now, answer.From, answer.Active, answer.Term)
//	case failed:
//		w.Failed(now, answer.From)
//	}
//	if to, since, ask := w.Poll(now); ask {
//		go poll(to, since)
//	}
package routetable

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// MaxTypes is the largest number of entity types a table takes; further ones
// are ignored. It bounds what a broken peer can make a watcher store.
const MaxTypes = 4096

// Table is one copy of the route table. Make one with [New].
type Table struct {
	version sharding.Version
	// generation is the journal's, from the newest delta that named one.
	generation sharding.Generation
	names      []sharding.EntityType // sorted
	types      map[sharding.EntityType]*rowsOf
}

// rowsOf are the rows of one type, by shard index; as long as the highest
// index seen needs. Missing rows are zero.
type rowsOf struct {
	desc *sharding.TypeDesc // never changed in place, so that clones share it
	rows []sharding.Row
}

// New is an empty table at version zero.
func New() *Table { return &Table{types: map[sharding.EntityType]*rowsOf{}} }

// Version is the newest version that was applied. Zero: nothing is known yet.
func (t *Table) Version() sharding.Version { return t.version }

// Generation returns the generation of the journal that holds the table; 0: not known.
func (t *Table) Generation() sharding.Generation { return t.generation }

// Empty reports whether no type is declared yet.
func (t *Table) Empty() bool { return len(t.names) == 0 }

// Row is the newest row of a shard that is known, if any.
func (t *Table) Row(id sharding.ShardID) (sharding.Row, bool) {
	of := t.types[id.Type]
	if of == nil || uint64(id.Index) >= uint64(len(of.rows)) || of.rows[id.Index].Epoch == 0 {
		return sharding.Row{}, false
	}
	return of.rows[id.Index], true
}

// Type is the descriptor of a declared type. The caller must not change it.
func (t *Table) Type(name sharding.EntityType) (*sharding.TypeDesc, bool) {
	of := t.types[name]
	if of == nil {
		return nil, false
	}
	return of.desc, true
}

// Merge keeps the newer of row and the stored one, and reports whether that
// changed the table. It ignores rows of undeclared types, with an index beyond the
// type's shards, without epoch, with an unknown phase, or serving without an
// owner. It also ignores the row of an earlier term if the table has none of that shard, because
// the table of the term would have it (see Advance).
func (t *Table) Merge(row sharding.Row) bool {
	of := t.types[row.Shard.Type]
	switch {
	case of == nil || row.Shard.Index >= of.desc.Shards:
		return false
	case row.Epoch == 0 || row.Phase < sharding.Starting || row.Phase > sharding.HandingOff:
		return false
	case row.Phase == sharding.Serving && row.Owner.IsZero():
		return false
	}
	i := int(row.Shard.Index)
	if (i >= len(of.rows) || of.rows[i].Epoch == 0) && row.Epoch.Term() < t.version.Term { //mutant:false row-gone
		return false
	}
	if i >= len(of.rows) {
		of.rows = append(of.rows, make([]sharding.Row, i+1-len(of.rows))...)
	}
	// Invariant: a row is replaced only by a newer row.
	// Guarded by: `routetable.Merge` compares rows with `sharding.Row.Newer`.
	// Mutants: rows-forward
	if !row.Newer(of.rows[i]) { //mutant:false rows-forward
		return false
	}
	of.rows[i] = row
	return true
}

// Apply merges the delta of a watch, and returns the rows that changed the table, in the order of the
// delta. It calls Declare, Merge for each row, and Advance.
func (t *Table) Apply(d sharding.TableDelta) []sharding.Row {
	t.Declare(d)
	var changed []sharding.Row
	for _, row := range d.Rows {
		if t.Merge(row) {
			changed = append(changed, row)
		}
	}
	t.Advance(d)
	return changed
}

// Declare declares the types of a delta. The descriptor of a known type is replaced only by a
// delta that is not older, and never with another number of shards or another shard rule.
func (t *Table) Declare(d sharding.TableDelta) {
	older := d.Version.Compare(t.version) < 0
	for i := range d.Types {
		t.declare(&d.Types[i], older)
	}
}

// Advance sets the version to the version of a delta with merged rows, unless the delta is older.
//
// A full table of a new term replaces what is here: Advance removes the rows of earlier terms that the
// full table does not have, and returns them. The facts behind such rows are gone from the journal, so the
// coordinator will never change them, and routers would wait for their owners forever. Without a row, a
// router asks the coordinator for a home. Rows of the new term stay, because a region may have told them
// before the coordinator does.
func (t *Table) Advance(d sharding.TableDelta) (gone []sharding.Row) {
	if d.Version.Compare(t.version) < 0 {
		return nil
	}
	if d.Full && d.Version.Term > t.version.Term { //mutant:false full-replaces
		gone = t.removeAbsent(d)
	}
	t.version = d.Version
	if d.Generation != 0 {
		t.generation = d.Generation
	}
	return gone
}

func (t *Table) removeAbsent(d sharding.TableDelta) (gone []sharding.Row) {
	present := make(map[sharding.ShardID]struct{}, len(d.Rows))
	for i := range d.Rows {
		present[d.Rows[i].Shard] = struct{}{}
	}
	for _, name := range t.names {
		rows := t.types[name].rows
		for i, row := range rows {
			if _, found := present[row.Shard]; !found && row.Epoch != 0 && row.Epoch.Term() < d.Version.Term {
				gone = append(gone, row)
				rows[i] = sharding.Row{}
			}
		}
	}
	return gone
}

// declare adds a type or replaces its descriptor.
func (t *Table) declare(d *sharding.TypeDesc, older bool) {
	if sharding.CheckEntityType("type", d.Type) != nil || d.Shards == 0 || d.Shards > sharding.MaxShards || d.Rule.Check() != nil {
		return
	}
	desc := *d
	desc.Commands = slices.Clone(d.Commands)
	of := t.types[d.Type]
	if of == nil {
		if len(t.names) >= MaxTypes {
			return
		}
		at, _ := slices.BinarySearch(t.names, d.Type)
		t.names = slices.Insert(t.names, at, d.Type)
		t.types[d.Type] = &rowsOf{desc: &desc}
		return
	}
	if !older && of.desc.Shards == d.Shards && of.desc.Rule == d.Rule && of.desc.Volatile == d.Volatile {
		of.desc = &desc
	}
}

// Delta answers a watcher at version since from this copy: empty if it has
// the same version, the full table if it has any other.
func (t *Table) Delta(since sharding.Version) sharding.TableDelta {
	d := sharding.TableDelta{Version: t.version, Generation: t.generation}
	if since == t.version {
		return d
	}
	d.Full, d.Rows, d.Types = true, t.Rows(), t.Types()
	return d
}

// Rows are all known rows, sorted by shard.
func (t *Table) Rows() []sharding.Row {
	var all []sharding.Row
	for _, name := range t.names {
		for _, row := range t.types[name].rows {
			if row.Epoch != 0 {
				all = append(all, row)
			}
		}
	}
	return all
}

// Types are all declared types, sorted by name. The caller must not change
// their commands.
func (t *Table) Types() []sharding.TypeDesc {
	all := make([]sharding.TypeDesc, 0, len(t.names))
	for _, name := range t.names {
		all = append(all, *t.types[name].desc)
	}
	return all
}

// Check verifies the invariants of the copy.
func (t *Table) Check() error {
	if !slices.IsSorted(t.names) || len(t.names) != len(t.types) || len(t.names) > MaxTypes {
		return fmt.Errorf("table: %d names for %d types, or not sorted", len(t.names), len(t.types))
	}
	for _, name := range t.names {
		of := t.types[name]
		if of == nil || of.desc.Type != name || len(of.rows) > int(of.desc.Shards) {
			return fmt.Errorf("table: type %s: bad descriptor or too many rows", name)
		}
		for i, row := range of.rows {
			if row.Epoch != 0 && row.Shard != (sharding.ShardID{Type: name, Index: uint32(i)}) {
				return fmt.Errorf("table: row of %v at index %d of %s", row.Shard, i, name)
			}
		}
	}
	return nil
}

// Clone is an independent copy.
func (t *Table) Clone() *Table {
	c := &Table{version: t.version, generation: t.generation, names: slices.Clone(t.names), types: maps.Clone(t.types)}
	for _, name := range c.names {
		of := *c.types[name]
		of.rows = slices.Clone(of.rows)
		c.types[name] = &of
	}
	return c
}

// AppendState appends a canonical encoding: equal tables give equal bytes.
func (t *Table) AppendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(t.version.Term))
	b = binary.AppendUvarint(b, t.version.N)
	b = binary.AppendUvarint(b, uint64(t.generation))
	b = binary.AppendUvarint(b, uint64(len(t.names)))
	for _, name := range t.names {
		d := t.types[name].desc
		b = sharding.AppendString(b, string(name))
		b = binary.AppendUvarint(b, uint64(d.Shards))
		b = binary.AppendUvarint(binary.AppendUvarint(sharding.AppendString(b, d.Rule.Separator), uint64(d.Rule.Part)), uint64(d.Rule.Method))
		b = appendBool(b, d.Volatile)
		b = binary.AppendUvarint(b, uint64(len(d.Commands)))
		for _, c := range d.Commands {
			b = appendBool(sharding.AppendString(b, c.Name), c.ReadOnly)
		}
		for _, q := range d.Quarantined {
			b = appendBool(sharding.AppendString(b, string(q.ID)), q.Suspect)
		}
	}
	for _, row := range t.Rows() {
		b = sharding.AppendString(b, string(row.Shard.Type))
		b = binary.AppendUvarint(b, uint64(row.Shard.Index))
		b = sharding.AppendString(b, row.Owner.Addr)
		b = binary.AppendUvarint(b, uint64(row.Owner.UID))
		b = binary.AppendUvarint(b, uint64(row.Epoch))
		b = append(b, byte(row.Phase), byte(row.Reason))
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
