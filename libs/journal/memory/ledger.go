package memory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// expireBatch bounds how many dedupe entries one append considers for dropping.
const expireBatch = 16

// Committed is an append that was committed.
type Committed struct {
	Epoch  sharding.Epoch
	Append sharding.Append
}

// Ledger is a journal as a value: no mutex, no clock, no I/O. The same calls
// give the same results. Payloads are kept as they are given and must not be
// changed afterwards.
type Ledger struct {
	cfg    journal.Config
	facts  journal.Facts
	fences map[sharding.ShardID]sharding.Fence
	// expired has the newest time of a key of a purged entity, by shard.
	expired  map[sharding.ShardID]time.Time
	entities map[sharding.Entity]*entity
	log      []Committed
	now      journal.Moment // of the running Apply
}

type entity struct {
	// entries are in the order of their sequence numbers. A slice is only appended to, so that
	// clones may share it; what is removed makes a new one.
	entries  []entry
	snapshot journal.Snapshot
	life     uint64 // the newest record that deletes the entity; 0: none does
	// cut, stripped and swept are as in journal.TrimMarks.
	cut, stripped, swept uint64
	// looked is the stamp of the last purge, if no record was appended since.
	looked journal.Stamp
	// commands has the sequence number of the record of each command that is remembered.
	commands map[sharding.CommandID]uint64
	// expireIndex is the index of the first entry that expireKeys has not decided about;
	// neverDropped counts the dedupe entries before it that are kept forever.
	expireIndex, neverDropped int
	dropped                   time.Time
	damaged                   []uint64 // sequence numbers, of records; see Damage
	// wakes and sends are the rows in addition to the records.
	wakes map[wakeKey]wakeRow
	sends map[uint64]sendRow // by the sequence number of the record
}

type entry struct {
	record sharding.Record
	epoch  sharding.Epoch
	stamp  journal.Stamp
	wall   time.Time
}

// NewLedger returns an empty journal, of generation 1. Only the dedupe limits of cfg
// matter.
func NewLedger(cfg journal.Config) *Ledger {
	return &Ledger{
		cfg:    cfg,
		facts:  journal.NewFacts(1),
		fences: map[sharding.ShardID]sharding.Fence{}, expired: map[sharding.ShardID]time.Time{},
		entities: map[sharding.Entity]*entity{},
	}
}

// Apply decides the operations in order, as one transaction that cannot fail.
func (l *Ledger) Apply(now journal.Moment, ops []journal.Op) []journal.Result {
	l.now = now
	results, err := journal.Decide(ops, (*tx)(l))
	if err != nil {
		panic(err) // no method of tx returns one
	}
	journal.StoredAt(results, ops, now.Wall)
	return results
}

// Declare checks and stores the facts about the journal.
func (l *Ledger) Declare(d journal.Declaration) (journal.Facts, error) {
	facts, err := l.facts.Merge(d)
	if err != nil {
		return journal.Facts{}, err
	}
	l.facts = facts
	facts.Types = slices.Clone(facts.Types)
	if d.Cluster == "" {
		facts.MaxEpoch = l.MaxEpoch()
	}
	return facts, nil
}

// Generation returns the generation of the journal.
func (l *Ledger) Generation() sharding.Generation { return l.facts.Generation }

// Replace gives the journal another generation, as a restore does.
func (l *Ledger) Replace(g sharding.Generation) { l.facts.Generation = g }

// Restore replaces the journal by a backup, which is a clone, as described at [journal.Facts.Restore].
// highest is the highest known epoch.
func (l *Ledger) Restore(from *Ledger, drawn sharding.Generation, highest sharding.Epoch) error {
	facts := from.facts
	facts.MaxEpoch = from.MaxEpoch()
	facts, fence, err := facts.Restore(drawn, highest)
	if err != nil {
		return err
	}
	*l = *from.Clone()
	l.facts = facts
	l.facts.MaxEpoch = 0          // the fences have it
	for shard := range l.fences { // order-free: each gets the same
		l.fences[shard] = fence
	}
	return nil
}

// SetLowest sets the lowest formats that a program must know to read the journal, and to
// write it, as an activation by a later release does.
func (l *Ledger) SetLowest(reader, writer int) {
	l.facts.MinReader, l.facts.MinWriter = reader, writer
}

// MaxEpoch is the highest epoch of all fences.
func (l *Ledger) MaxEpoch() sharding.Epoch {
	var highest sharding.Epoch
	for _, f := range l.fences { // order-free: a maximum
		highest = max(highest, f.Epoch)
	}
	return highest
}

// Fence is the stored fence of a shard.
func (l *Ledger) Fence(shard sharding.ShardID) sharding.Fence { return l.fences[shard] }

// Log returns the committed appends in order. It must not be changed.
func (l *Ledger) Log() []Committed { return l.log }

// Load reads one entity.
func (l *Ledger) Load(req journal.LoadRequest) (journal.Loaded, error) {
	e := l.entities[req.Entity]
	if e == nil {
		e = &entity{dropped: l.expired[req.Shard]}
	}
	marks := e.marks()
	out := journal.Loaded{LastSeq: e.last(), Life: e.life, Cut: marks.Trimmed()}
	if req.Wakes {
		out.Remembered = -e.wakes[wakeKey{sharding.RememberWake, journal.RememberName}].due
		for key := range e.wakes { // order-free: counts
			if key.kind == sharding.ReminderWake {
				out.Reminders++
			}
		}
	}
	if !req.LookupOnly && !req.WithoutSnapshot {
		out.Snapshot = e.snapshot
	}
	if !req.LookupOnly {
		out.Pending = e.pending()
	}
	var begin uint64
	if !req.LookupOnly {
		var err error
		if begin, err = journal.ReplayFrom(req.Entity, out.Snapshot.Seq, e.life, out.Cut); err != nil {
			return journal.Loaded{}, err
		}
	}
	for i := range e.entries {
		if req.LookupOnly {
			break
		}
		if seq := e.entries[i].record.Seq; seq > begin {
			if slices.Contains(e.damaged, seq) {
				return journal.Loaded{}, fmt.Errorf("%w: %s, record %d", journal.ErrCorrupt, req.Entity, seq)
			}
			r := e.entries[i].record
			r.Reply = sharding.Reply{}
			out.Records = append(out.Records, r)
		}
	}
	for _, id := range req.Lookup {
		s, ok := e.lookup(id)
		if !ok {
			continue
		}
		if out.Stored == nil {
			out.Stored = make(map[sharding.CommandID]sharding.Stored, len(req.Lookup))
		}
		out.Stored[id] = s
	}
	return out, nil
}

// List returns a page of the stored entities.
func (l *Ledger) List(req journal.ListRequest) []sharding.Entity {
	after := req.Start()
	var page []sharding.Entity
	for _, id := range l.ids() {
		if id.Compare(after) > 0 && (req.Type == "" || id.Type == req.Type) && len(page) < req.Limit {
			page = append(page, id)
		}
	}
	return page
}

// History returns the newest records of an entity.
func (l *Ledger) History(req journal.HistoryRequest) (out journal.History) {
	e := l.entities[req.Entity]
	if e == nil {
		return out
	}
	marks := e.marks()
	out.LastSeq, out.Life, out.Cut = e.last(), e.life, marks.Trimmed()
	if out.SnapshotSeq = e.snapshot.Seq; out.SnapshotSeq > 0 {
		out.SnapshotBytes = len(journal.AppendSnapshot(nil, &journal.WriteSnapshot{Entity: req.Entity, Snapshot: e.snapshot}))
	}
	for i := range slices.Backward(e.entries) {
		x := &e.entries[i]
		if req.Before > 0 && x.record.Seq >= req.Before {
			continue
		}
		body := journal.AppendRecord(nil, req.Entity, x.epoch, x.wall, &x.record)
		if slices.Contains(e.damaged, x.record.Seq) {
			body[len(body)-1] ^= 1
		}
		if !out.AddBody(&req, x.record.Seq, body) {
			break
		}
	}
	return out
}

// Facts returns what is declared.
func (l *Ledger) Facts() (journal.Facts, error) {
	facts := l.facts
	facts.Types = slices.Clone(facts.Types)
	return facts, facts.CheckReader()
}

// Damage makes a stored record unreadable, as a flipped bit on a disk would.
func (l *Ledger) Damage(id sharding.Entity, seq uint64) {
	if e := l.entities[id]; e != nil {
		e.damaged = append(slices.Clip(e.damaged), seq)
	}
}

// Delete removes all rows of an entity, as someone does who deletes them by hand.
func (l *Ledger) Delete(id sharding.Entity) { delete(l.entities, id) }

// Clone returns a copy that shares no mutable memory with l.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.facts.Types = slices.Clone(l.facts.Types)
	c.fences, c.expired = maps.Clone(l.fences), maps.Clone(l.expired)
	c.entities = make(map[sharding.Entity]*entity, len(l.entities))
	for id, e := range l.entities { // order-free: copied into a map
		d := *e
		d.entries = slices.Clip(e.entries)
		d.commands = maps.Clone(e.commands)
		d.damaged = slices.Clip(e.damaged)
		d.wakes, d.sends = maps.Clone(e.wakes), maps.Clone(e.sends)
		c.entities[id] = &d
	}
	c.log = slices.Clip(l.log)
	// What is shared must not be appended to in place by either side.
	for _, e := range l.entities { // order-free: each one separately
		e.entries = slices.Clip(e.entries)
	}
	l.log = slices.Clip(l.log)
	return &c
}

// Check verifies that every entity's records are in sequence, that dedupe
// entries and records agree, and that epochs never go back.
func (l *Ledger) Check() error {
	for _, id := range l.ids() {
		e := l.entities[id]
		var epoch sharding.Epoch
		for i := range e.entries {
			x := &e.entries[i]
			seq := x.record.Seq
			if i > 0 && seq != e.entries[i-1].record.Seq+1 && (seq > e.cut+1 || seq <= e.entries[i-1].record.Seq) {
				return fmt.Errorf("%s: record %d comes behind record %d, events up to record %d were trimmed", id, seq, e.entries[i-1].record.Seq, e.cut)
			}
			if x.epoch < epoch {
				return fmt.Errorf("%s: record %d of epoch %v comes after epoch %v", id, seq, x.epoch, epoch)
			}
			epoch = x.epoch
			if c := x.record.Command; c != "" && i >= e.expireIndex {
				if at, ok := e.commands[c]; !ok || at != seq {
					return fmt.Errorf("%s: record %d: command %q is stored at record %d", id, seq, c, at)
				}
			}
		}
		for c, seq := range e.commands { // order-free: any error will do
			if x := e.at(seq); x == nil || x.record.Command != c {
				return fmt.Errorf("%s: record %d does not hold command %q any more", id, seq, c)
			}
		}
		if e.cut > e.life && e.cut > e.snapshot.Seq || e.stripped > e.cut {
			return fmt.Errorf("%s: events up to record %d of %d are trimmed, the snapshot is at %d", id, e.stripped, e.cut, e.snapshot.Seq)
		}
		if err := e.checkRows(); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		if e.snapshot.Seq > e.last() || e.snapshot.Seq > 0 && e.snapshot.Seq <= e.life {
			return fmt.Errorf("%s: snapshot at %d, last record %d, deleted by %d", id, e.snapshot.Seq, e.last(), e.life)
		}
	}
	return nil
}

func (l *Ledger) ids() []sharding.Entity {
	return slices.SortedFunc(maps.Keys(l.entities), sharding.Entity.Compare)
}

func (e *entity) last() uint64 {
	if len(e.entries) == 0 {
		return 0
	}
	return e.entries[len(e.entries)-1].record.Seq
}

func (e *entity) lookup(id sharding.CommandID) (sharding.Stored, bool) {
	if seq, ok := e.commands[id]; ok {
		r := &e.at(seq).record
		return sharding.Stored{Hash: r.Hash, Reply: r.Reply}, true
	}
	return sharding.Stored{Expired: true}, journal.Expired(e.dropped, id)
}

// at returns the entry of a record, nil if there is none.
func (e *entity) at(seq uint64) *entry {
	i, found := slices.BinarySearchFunc(e.entries, seq, func(x entry, seq uint64) int { return cmp.Compare(x.record.Seq, seq) })
	if !found {
		return nil
	}
	return &e.entries[i]
}

// stamp returns the stamp of the last record, or of a purge after it.
func (e *entity) stamp() journal.Stamp {
	if e.looked.Writer != 0 {
		return e.looked
	}
	if len(e.entries) == 0 {
		return journal.Stamp{}
	}
	return e.entries[len(e.entries)-1].stamp
}

// expireKeys drops dedupe entries, oldest first.
func (e *entity) expireKeys(cfg *journal.Config, wall time.Time) {
	age := e.stamp().Age
	for n := 0; n < expireBatch && len(e.commands)-e.neverDropped > cfg.DedupeCount && e.expireIndex < len(e.entries); n++ {
		x := &e.entries[e.expireIndex]
		if id := x.record.Command; id != "" {
			t, what := cfg.Drop(age, x.stamp.Age, wall, x.wall, id)
			switch what {
			case journal.Keep:
				return
			case journal.Forever:
				e.neverDropped++
			case journal.Expire:
				delete(e.commands, id)
				if t.After(e.dropped) {
					e.dropped = t
				}
			}
		}
		e.expireIndex++
	}
}
