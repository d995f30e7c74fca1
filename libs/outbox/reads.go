package outbox

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/journal"
)

// sweepAt sets the time at which the next page of a shard's sweep is read.
func (d *Dispatcher) sweepAt(s *shard, at time.Time) {
	s.sweepAt = at
	if len(s.toRead) == 0 {
		d.sweep.ReadBy(s, at)
	}
}

// scan begins a read of the shards that are due to be read. Of each it reads a page of its sweep, or of one of its
// sources, in turn if both are due.
func (d *Dispatcher) scan() {
	if !d.sweep.Ready(d.now) {
		return
	}
	d.evict()
	number, shards := d.sweep.Begin(d.now, func(s *shard) due.Want {
		sweeps := !s.sweepAt.After(d.now)
		if len(s.toRead) == 0 && !sweeps {
			d.sweep.ReadBy(s, s.sweepAt)
			return due.Skip
		}
		if d.sends >= d.cfg.Sends || d.bytes >= d.cfg.Bytes {
			d.sweep.WaitForRoom(d.now.Add(d.cfg.RetryMin)) // by then, more may fail and leave the memory
			return due.Room
		}
		if s.readFrom, s.readSource = s.after, nil; len(s.toRead) > 0 && !(s.sweepNext && sweeps) {
			src := s.toRead[0]
			s.toRead, src.readQueued = s.toRead[1:], false
			s.readFrom, s.readSource = journal.SendPosition{Shard: s.ID, Entity: src.entity, Seq: src.upTo}, src
		} else if s.after == (journal.SendPosition{Shard: s.ID}) {
			s.missed = false
		}
		s.sweepNext = s.readSource != nil
		return due.Take
	})
	if len(shards) == 0 {
		return
	}
	r := Read{Number: number, SendsRequest: journal.SendsRequest{Limit: d.cfg.Page}}
	for _, s := range shards {
		r.Shards = append(r.Shards, s.readFrom)
	}
	d.out.Reads = append(d.out.Reads, r)
}

// evict unloads sources all of whose sends fail, if there is no room for others. A later sweep reads
// them again.
func (d *Dispatcher) evict() {
	if d.sends < d.cfg.Sends && d.bytes < d.cfg.Bytes && !d.sweep.LacksRoom() || d.failing.Len()+d.unstored == 0 {
		return
	}
	for _, s := range d.sweep.Shards() {
		for _, src := range s.sorted() {
			if 4*d.sends < 3*d.cfg.Sends && 4*d.bytes < 3*d.cfg.Bytes {
				return
			}
			if !s.Reading && d.fails(src) {
				d.unload(src)
				s.complete, s.missed = false, true //mutant:false evicted true
				if s.after.Entity == src.entity {
					s.after.Seq = 0
				}
			}
		}
	}
}

// fails reports whether a source has sends, and each of them waits to be tried again or to have its end
// stored.
func (d *Dispatcher) fails(src *source) bool {
	waiting := src.unstored
	for _, p := range src.pairs { // order-free: all must fail
		if p.state != retrying && p.state != storingEnd {
			return false
		}
		waiting += len(p.pending())
	}
	return waiting > 0 && waiting == src.held
}

// page takes in the answer to a read.
func (d *Dispatcher) page(in *Page) {
	for _, p := range d.sweep.Page(d.now, in.Number, &in.SendsPage, in.Err) {
		s := p.Shard
		//mutant:false page-deposed
		if len(p.Entries) > 0 && p.Entries[0].Epoch > s.Epoch {
			d.close(s.ID) // another owner has claimed the shard, see journal.SendEntry.Epoch
			continue
		}
		src := s.readSource
		s.Reading, s.readSource = false, nil
		switch {
		case p.Failed:
			s.sweepAt = s.ReadAt
			if src != nil && s.sources[src.entity] == src && in.Err != nil {
				d.queueRead(src)
			}
		case src != nil:
			d.pageOfSource(s, src, p.Entries, p.More)
		default:
			d.pageOfSweep(s, p.Entries, p.More)
		}
		if !p.Failed {
			d.sweep.ReadBy(s, d.now) // scan decides whether it reads now
		}
		d.endRead(s)
	}
}

// endRead removes the sources from memory that the read in progress has kept there.
func (d *Dispatcher) endRead(s *shard) {
	idle := s.idle
	s.idle, s.dropped = nil, nil
	for _, src := range idle {
		d.removeIfIdle(src)
	}
}

// pageOfSource takes in what was read of one source.
func (d *Dispatcher) pageOfSource(s *shard, src *source, records []journal.SendEntry, more bool) {
	n := 0
	for n < len(records) && records[n].Entity == src.entity {
		n++
	}
	if s.sources[src.entity] == src {
		d.addRecords(src, records[:n], more && n == len(records))
		d.removeIfIdle(src)
	}
}

// notDropped returns the pending sends of a record except those that operators have dropped since the read of
// the record began.
func (src *source) notDropped(r *journal.SendEntry) (sends []pending) {
	for place, s := range r.Pending() {
		if !slices.Contains(src.shard.dropped, sendName{src.entity, r.Seq, uint16(place)}) {
			sends = append(sends, pending{Place: uint16(place), Send: *s})
		}
	}
	return sends
}

// addRecords takes in the next records of a source. The parameter more is true if others may follow.
// addRecords reports whether all records had room.
func (d *Dispatcher) addRecords(src *source, records []journal.SendEntry, more bool) (all bool) {
	for i := range records {
		r := &records[i]
		switch {
		case r.Seq <= src.upTo:
		case r.Err != nil:
			// Later records may have sends to the same targets. They must wait for this one.
			d.stats.ReadsFailed++
			src.more = true
			return true // the next sweep tries again
		case !d.add(src, r.Seq, r.At, src.notDropped(r), true):
			d.queueRead(src)
			return false
		}
	}
	if more {
		d.queueRead(src)
		//mutant:true sends-meanwhile
	} else if !src.readQueued { // if it is to be read again, the source has changed meanwhile
		src.more = false
	}
	return true
}

// lacks reports whether a sweep that has read the source up to a record has passed records that are
// not in memory, because one of them could not be read. Then the source is read again, and the records
// behind the unreadable one wait.
func (src *source) lacks(seq uint64) bool { return src.upTo < seq } //mutant:false page-behind

// pageOfSweep takes in a page of a sweep.
func (d *Dispatcher) pageOfSweep(s *shard, records []journal.SendEntry, more bool) {
	from := s.readFrom
	src := s.sources[from.Entity]
	//mutant:false page-full
	full := more && len(records) == 0 // the page had no room for records of this shard
	if src != nil && !full && (len(records) == 0 || records[0].Entity != src.entity) && !src.lacks(from.Seq) {
		d.addRecords(src, nil, false) // the page before this one ended with the last record of the source
		d.removeIfIdle(src)
	}
	for len(records) > 0 {
		e, n := records[0].Entity, 1
		for n < len(records) && records[n].Entity == e {
			n++
		}
		src := s.sources[e]
		if src == nil {
			if src = d.addSource(s, e); src == nil {
				return
			}
			if e == from.Entity {
				src.upTo = from.Seq // the sweep has read the records before that one
			}
		}
		if e == from.Entity && src.lacks(from.Seq) {
			// The next sweep reads these records, after those that are lacking.
		} else if !d.addRecords(src, records[:n], false) {
			// There is no room. Later, the sweep continues from here.
			s.sweepAt = d.now
			return
		}
		if more && n == len(records) {
			src.more = true // the next page may have others
		}
		s.after = journal.SendPosition{Shard: s.ID, Entity: e, Seq: records[n-1].Seq}
		d.removeIfIdle(src) // operators may have dropped all that was read of it
		records = records[n:]
	}
	if more {
		s.sweepAt = d.now
		return
	}
	s.after, s.sweepAt = journal.SendPosition{Shard: s.ID}, d.now.Add(d.cfg.Refresh)
	s.complete = !s.missed
}

// NextAlarm returns when the dispatcher has something to do if no other input comes before; zero: never.
func (d *Dispatcher) NextAlarm() time.Time {
	return due.Earliest(d.sweep.Alarm(), d.failing.Alarm(), d.storeAt)
}

// sorted returns the sources of a shard in a fixed order.
func (s *shard) sorted() []*source {
	list := make([]*source, 0, len(s.sources))
	for _, src := range s.sources { // order-free: sorted below
		list = append(list, src)
	}
	slices.SortFunc(list, func(a, b *source) int { return a.entity.Compare(b.entity) })
	return list
}

// sorted returns the pairs of a source in a fixed order.
func (src *source) sorted() []*pair {
	list := make([]*pair, 0, len(src.pairs))
	for _, p := range src.pairs { // order-free: sorted below
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *pair) int { return a.to.Compare(b.to) })
	return list
}
