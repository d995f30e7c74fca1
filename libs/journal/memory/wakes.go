package memory

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

type wakeKey struct {
	kind sharding.WakeKind
	name string
}

type wakeRow struct {
	shard       sharding.ShardID
	due, period int64
	seq, number uint64
}

type sendRow struct {
	shard  sharding.ShardID
	states journal.SendStates // never changed in place: clones share it
}

func (e *entity) changeWakes(a *sharding.Append, lookAt time.Time) {
	for _, c := range journal.WakeChanges(a, lookAt) {
		key := wakeKey{c.Kind, c.Name}
		switch c.Does {
		case journal.EndLife:
			w, ended := e.wakes[key]
			if !ended || w.due > c.Due { //mutant:true purge-again
				w.due = c.Due
			}
			e.wakes = map[wakeKey]wakeRow{key: {shard: a.Shard, due: w.due, seq: c.Seq}}
		case journal.RemoveWake:
			delete(e.wakes, key)
		case journal.NextWake:
			if w, ok := e.wakes[key]; ok {
				w.due, w.number = c.Due, c.Number
				e.wakes[key] = w
			}
		case journal.SetWake:
			if e.wakes == nil {
				e.wakes = map[wakeKey]wakeRow{}
			}
			e.wakes[key] = wakeRow{shard: a.Shard, due: c.Due, period: c.Period, seq: c.Seq, number: c.Number}
		}
	}
}

func (e *entity) changeSends(a *sharding.Append) {
	for i := range a.Delivered {
		d := &a.Delivered[i]
		row, ok := e.sends[d.Seq]
		if !ok {
			continue
		}
		row.states = slices.Clone(row.states)
		sends := len(e.at(d.Seq).record.Sends)
		row.states.Deliver(sends, d)
		if pending, dead := row.states.Count(sends); pending+dead == 0 {
			delete(e.sends, d.Seq)
		} else {
			e.sends[d.Seq] = row
		}
	}
	for i := range a.Records {
		if states := journal.NewSends(&a.Records[i]); states != nil {
			if e.sends == nil {
				e.sends = map[uint64]sendRow{}
			}
			e.sends[a.Records[i].Seq] = sendRow{shard: a.Shard, states: states}
		}
	}
}

// Wakes returns a page of wake-ups. Wake-ups that are due at the same time are in the order of
// their entities' names.
func (l *Ledger) Wakes(now time.Time, req journal.WakesRequest) journal.WakesPage {
	rows := map[sharding.ShardID][]journal.WakeEntry{}
	for _, id := range l.ids() {
		for key, w := range l.entities[id].wakes { // order-free: sorted below
			rows[w.shard] = append(rows[w.shard], journal.WakeEntry{
				Shard: w.shard, Entity: id, WakeRef: sharding.WakeRef{Kind: key.kind, Name: key.name, Seq: w.seq, Number: w.number},
				Due: w.due, Period: w.period,
			})
		}
	}
	f := filler[journal.WakeEntry]{page: journal.WakesPage{Now: now}, left: l.cfg.PageBytes}
	for _, s := range req.Shards {
		all := slices.DeleteFunc(rows[s.Shard], func(w journal.WakeEntry) bool {
			return comparePositions(w.Position(), s.After) <= 0 || w.Due > req.Last()
		})
		slices.SortFunc(all, func(a, b journal.WakeEntry) int { return comparePositions(a.Position(), b.Position()) })
		f.add(s.Shard, all, req.Limit, func(w *journal.WakeEntry) int {
			x, err := l.entities[w.Entity].read(w.Entity, w.Seq)
			if w.Err = err; err == nil {
				w.SetInput(&x.record)
			}
			return x.record.Size()
		})
	}
	return f.page
}

// pending returns how many sends of the entity are pending.
func (e *entity) pending() (n int) {
	for seq, s := range e.sends { // order-free: a sum
		pending, _ := s.states.Count(len(e.at(seq).record.Sends))
		n += pending
	}
	return n
}

// Sends returns a page of records with pending sends, or with dead letters, in the order of
// their entities' names.
func (l *Ledger) Sends(now time.Time, req journal.SendsRequest) journal.SendsPage {
	f := filler[journal.SendEntry]{page: journal.SendsPage{Now: now}, left: l.cfg.PageBytes}
	for _, s := range req.Shards {
		var all []journal.SendEntry
		for _, id := range l.ids() {
			e := l.entities[id]
			for _, seq := range slices.Sorted(maps.Keys(e.sends)) {
				row := e.sends[seq]
				pending, dead := row.states.Count(len(e.at(seq).record.Sends))
				if row.shard == s.Shard && cmp.Or(id.Compare(s.Entity), cmp.Compare(seq, s.Seq)) > 0 && (pending > 0 && !req.Dead || dead > 0 && req.Dead) {
					all = append(all, journal.SendEntry{Shard: s.Shard, Entity: id, Seq: seq, States: slices.Clone(row.states), Epoch: l.fences[s.Shard].Epoch})
				}
			}
		}
		f.add(s.Shard, all, req.Limit, func(row *journal.SendEntry) int {
			x, err := l.entities[row.Entity].read(row.Entity, row.Seq)
			if row.Err = err; err == nil {
				row.SetSends(x.wall, &x.record)
			}
			return x.record.Size()
		})
	}
	return f.page
}

// filler fills a page.
type filler[R any] struct {
	page journal.Page[R]
	left int // bytes that may still be read
}

// add adds the rows of a shard. read completes one and returns how many bytes that took.
func (f *filler[R]) add(shard sharding.ShardID, rows []R, limit int, read func(*R) int) {
	for i := range rows {
		if i == limit || f.left <= 0 {
			f.page.More = append(f.page.More, shard)
			return
		}
		f.left -= read(&rows[i])
		f.page.Entries = append(f.page.Entries, rows[i])
	}
}

func comparePositions(a, b journal.WakePosition) int {
	return cmp.Or(cmp.Compare(a.Due, b.Due), a.Entity.Compare(b.Entity), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// read returns the entry of a record, or why it cannot be read.
func (e *entity) read(id sharding.Entity, seq uint64) (entry, error) {
	if slices.Contains(e.damaged, seq) {
		return entry{}, fmt.Errorf("%w: %s, record %d", journal.ErrCorrupt, id, seq)
	}
	x := e.at(seq)
	if x == nil {
		return entry{}, fmt.Errorf("%w: %s, record %d is missing", journal.ErrCorrupt, id, seq)
	}
	return *x, nil
}

// checkRows verifies that every row refers to a record that agrees with it.
func (e *entity) checkRows() error {
	for key, w := range e.wakes { // order-free: any error will do
		row := journal.WakeEntry{WakeRef: sharding.WakeRef{Kind: key.kind, Name: key.name, Seq: w.seq}}
		if e.at(w.seq) == nil {
			return fmt.Errorf("wake-up %q was set by record %d, the last one is %d", key.name, w.seq, e.last())
		}
		if key.kind == sharding.PurgeWake && w.seq != e.life {
			return fmt.Errorf("record %d has deleted it, the last one that does is %d", w.seq, e.life)
		}
		if row.SetInput(&e.at(w.seq).record); row.Err != nil {
			return row.Err
		}
	}
	for seq, s := range e.sends { // order-free: any error will do
		if e.at(seq) == nil {
			return fmt.Errorf("there are sends of record %d, the last one is %d", seq, e.last())
		}
		n := len(e.at(seq).record.Sends)
		if pending, dead := s.states.Count(n); n == 0 || len(s.states) != (n+3)/4 || pending+dead == 0 {
			return fmt.Errorf("record %d has %d sends, and their states are %x", seq, n, s.states)
		}
	}
	return nil
}

// appendRows is the part of appendState about wake-ups and sends.
func (e *entity) appendRows(b []byte, now time.Time) []byte {
	keys := e.wakeKeys()
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		w := e.wakes[key]
		b = sharding.AppendString(append(b, byte(key.kind)), key.name)
		b = appendShard(b, w.shard)
		b = binary.AppendVarint(b, w.due-now.UnixMilli())
		b = binary.AppendVarint(b, w.period)
		b = binary.AppendUvarint(b, w.seq)
		b = binary.AppendUvarint(b, w.number)
	}
	b = binary.AppendUvarint(b, uint64(len(e.sends)))
	for _, seq := range slices.Sorted(maps.Keys(e.sends)) {
		b = appendShard(binary.AppendUvarint(b, seq), e.sends[seq].shard)
		b = sharding.AppendString(b, string(e.sends[seq].states))
	}
	return b
}

// wakeKeys are the wake-ups of the entity, in order.
func (e *entity) wakeKeys() []wakeKey {
	return slices.SortedFunc(maps.Keys(e.wakes), func(a, b wakeKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
}

func appendShard(b []byte, s sharding.ShardID) []byte {
	return binary.AppendUvarint(sharding.AppendString(b, string(s.Type)), uint64(s.Index))
}
