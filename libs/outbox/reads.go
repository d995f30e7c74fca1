package outbox

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
)

// reading is a read in progress.
type reading struct {
	asked time.Time
	parts []part
}

// part is one shard's part of a read: from a position on, for a sweep or for one source.
type part struct {
	shard  *shard
	from   journal.SendPosition
	source *source // nil: a sweep
}

// scanBy makes sure that the shards are scanned at time t, or earlier.
func (d *Dispatcher) scanBy(t time.Time) {
	if d.scanAt.IsZero() || t.Before(d.scanAt) {
		d.scanAt = t
	}
}

// roomCheck is the pause before the shards are scanned again after sends have left the memory. Thousands
// of sends leave the memory in a second, and a scan after each of them would cost too much.
const roomCheck = 10 * time.Millisecond

// scan begins reads of the shards that are due to be read.
func (d *Dispatcher) scan() {
	if d.scanAt.IsZero() || d.now.Before(d.scanAt) || d.now.Before(d.readsAfter) || len(d.reads) >= d.cfg.Reads {
		return
	}
	d.scanAt = time.Time{}
	d.evict()
	var r Read
	rd := &reading{asked: d.now}
	from := d.scanFrom
	for n := range d.shards {
		i := (from + n) % len(d.shards)
		s := d.shards[i]
		due := len(s.toRead) > 0 || !s.sweepAt.After(d.now)
		switch {
		case s.reading:
		case !due:
			d.scanBy(s.sweepAt)
		case len(rd.parts) >= d.cfg.ReadShards:
			d.scanBy(d.now)
		case d.sends >= d.cfg.Sends || d.bytes >= d.cfg.Bytes:
			d.noRoom = true
			d.scanBy(d.now.Add(d.cfg.RetryMin))
		default:
			p := part{shard: s, from: s.after}
			if len(s.toRead) > 0 && !(s.sweepNext && !s.sweepAt.After(d.now)) {
				p.source = s.toRead[0]
				s.toRead, p.source.readQueued = s.toRead[1:], false
				p.from = journal.SendPosition{Shard: s.id, Entity: p.source.entity, Seq: p.source.upTo}
			}
			if p.source == nil && p.from == (journal.SendPosition{Shard: s.id}) {
				s.missed = false
			}
			s.reading, s.sweepNext = true, p.source != nil
			rd.parts = append(rd.parts, p)
			d.scanFrom = (i + 1) % len(d.shards)
			r.Shards = append(r.Shards, p.from)
		}
	}
	if len(rd.parts) == 0 {
		return
	}
	d.lastRead++
	r.Number, r.Limit = d.lastRead, d.cfg.Page
	d.reads[r.Number] = rd
	d.out.Reads = append(d.out.Reads, r)
}

// evict unloads sources all of whose sends fail, if there is no room for others. A later sweep reads
// them again.
func (d *Dispatcher) evict() {
	if d.sends < d.cfg.Sends && d.bytes < d.cfg.Bytes && !d.noRoom || len(d.failing)+d.unstored == 0 {
		return
	}
	for _, s := range d.shards {
		for _, src := range s.sorted() {
			if 4*d.sends < 3*d.cfg.Sends && 4*d.bytes < 3*d.cfg.Bytes {
				return
			}
			if !s.reading && d.fails(src) {
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
	rd := d.reads[in.Number]
	if rd == nil {
		return
	}
	delete(d.reads, in.Number)
	d.scanBy(d.now) // the next read may begin
	if in.Err == nil {
		d.readPause = 0
		if !in.Now.IsZero() { //mutant:true send-no-clock
			d.clock.Read(rd.asked, d.now, in.Now)
		}
	} else {
		d.stats.ReadsFailed++
		d.readPause++
		d.readsAfter = d.now.Add(d.pause(d.readPause))
		d.scanBy(d.readsAfter)
	}
	records := in.Rows
	for i := range rd.parts {
		p := &rd.parts[i]
		n := 0
		for n < len(records) && records[n].Shard == p.shard.id {
			n++
		}
		failed := in.Err != nil || in.Unreadable(p.shard.id)
		//mutant:false page-deposed
		if n > 0 && records[0].Epoch > p.shard.epoch && !p.shard.closed {
			d.close(p.shard.id) // another owner has claimed the shard, see journal.SendRow.Epoch
		}
		if !p.shard.closed {
			p.shard.reading = false
			switch {
			case failed:
				d.notRead(p, failed && in.Err == nil)
			case p.source != nil:
				d.pageOfSource(p, records[:n], slices.Contains(in.More, p.shard.id))
			default:
				d.pageOfSweep(p, records[:n], slices.Contains(in.More, p.shard.id))
			}
			d.endRead(p.shard)
		}
		records = records[n:]
	}
}

// notRead has the shard, or the source, of a failed read read again.
func (d *Dispatcher) notRead(p *part, damaged bool) {
	at := d.now
	if damaged {
		at = d.now.Add(d.cfg.RetryMax)
	}
	if p.source != nil && p.shard.sources[p.source.entity] == p.source && !damaged {
		d.queueRead(p.source)
	}
	p.shard.sweepAt = at
	d.scanBy(at)
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
func (d *Dispatcher) pageOfSource(p *part, records []journal.SendRow, more bool) {
	n := 0
	for n < len(records) && records[n].Entity == p.source.entity {
		n++
	}
	if p.shard.sources[p.source.entity] == p.source {
		d.addRecords(p.source, records[:n], more && n == len(records))
		d.removeIfIdle(p.source)
	}
}

// notDropped returns the pending sends of a record except those that operators have dropped since the read of
// the record began.
func (src *source) notDropped(r *journal.SendRow) (sends []pending) {
	for place, s := range r.Pending() {
		if !slices.Contains(src.shard.dropped, sendName{src.entity, r.Seq, uint16(place)}) {
			sends = append(sends, pending{Place: uint16(place), Send: *s})
		}
	}
	return sends
}

// addRecords takes in the next records of a source. The parameter more is true if others may follow.
// addRecords reports whether all records had room.
func (d *Dispatcher) addRecords(src *source, records []journal.SendRow, more bool) (all bool) {
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
func (d *Dispatcher) pageOfSweep(p *part, records []journal.SendRow, more bool) {
	s := p.shard
	src := s.sources[p.from.Entity]
	//mutant:false page-full
	full := more && len(records) == 0 // the page had no room for records of this shard
	if src != nil && !full && (len(records) == 0 || records[0].Entity != src.entity) && !src.lacks(p.from.Seq) {
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
			if e == p.from.Entity {
				src.upTo = p.from.Seq // the sweep has read the records before that one
			}
		}
		if e == p.from.Entity && src.lacks(p.from.Seq) {
			// The next sweep reads these records, after those that are lacking.
		} else if !d.addRecords(src, records[:n], false) {
			// There is no room. Later, the sweep continues from here.
			s.sweepAt = d.now
			return
		}
		if more && n == len(records) {
			src.more = true // the next page may have others
		}
		s.after = journal.SendPosition{Shard: s.id, Entity: e, Seq: records[n-1].Seq}
		d.removeIfIdle(src) // operators may have dropped all that was read of it
		records = records[n:]
	}
	if more {
		s.sweepAt = d.now
		d.scanBy(d.now)
		return
	}
	s.after, s.sweepAt = journal.SendPosition{Shard: s.id}, d.now.Add(d.cfg.Refresh)
	s.complete = !s.missed
	d.scanBy(s.sweepAt)
}

// NextAlarm returns when the dispatcher has something to do if no other input comes before; zero: never.
func (d *Dispatcher) NextAlarm() time.Time {
	var t time.Time
	by := func(at time.Time) {
		if t.IsZero() || at.Before(t) {
			t = at
		}
	}
	if len(d.reads) < d.cfg.Reads && !d.scanAt.IsZero() {
		if d.scanAt.Before(d.readsAfter) {
			by(d.readsAfter)
		} else {
			by(d.scanAt)
		}
	}
	if len(d.retries) > 0 {
		by(d.retries[0].retryAt)
	}
	if !d.storeAt.IsZero() {
		by(d.storeAt)
	}
	return t
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
