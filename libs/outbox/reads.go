package outbox

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// reading is a read under way.
type reading struct{ parts []part }

// part is what is read of one shard: from a position on, for a sweep or for one source.
type part struct {
	shard  *shard
	from   Position
	source *source // nil: a sweep
}

// scanBy makes sure that the shards are looked at by then.
func (d *Dispatcher) scanBy(t time.Time) {
	if d.scanAt.IsZero() || t.Before(d.scanAt) {
		d.scanAt = t
	}
}

// roomCheck is the pause before the shards are looked at again after sends have left the
// memory: thousands of them leave it in a second.
const roomCheck = 10 * time.Millisecond

// scan begins reads of the shards whose time has come.
func (d *Dispatcher) scan() {
	if d.scanAt.IsZero() || d.now.Before(d.scanAt) || d.now.Before(d.readsAfter) || len(d.reads) >= d.cfg.Reads {
		return
	}
	d.scanAt = time.Time{}
	d.evict()
	var r Read
	rd := &reading{}
	from := d.scanFrom
	for n := range d.shards {
		i := (from + n) % len(d.shards)
		s := d.shards[i]
		due := len(s.wanted) > 0 || !s.sweepAt.After(d.now)
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
			if len(s.wanted) > 0 && !(s.sweepNext && !s.sweepAt.After(d.now)) {
				p.source = s.wanted[0]
				s.wanted, p.source.wanted = s.wanted[1:], false
				p.from = Position{Shard: s.id, Entity: p.source.entity, Seq: p.source.upTo}
			}
			if p.source == nil && p.from == (Position{Shard: s.id}) {
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

// evict forgets sources of which all that is held fails, if there is no room for others. A
// later sweep reads them again.
func (d *Dispatcher) evict() {
	if d.sends < d.cfg.Sends && d.bytes < d.cfg.Bytes && !d.noRoom || len(d.failing)+d.refused == 0 {
		return
	}
	for _, s := range d.shards {
		for _, src := range s.sorted() {
			if 4*d.sends < 3*d.cfg.Sends && 4*d.bytes < 3*d.cfg.Bytes {
				return
			}
			if !s.reading && d.fails(src) {
				d.forget(src)
				s.complete, s.missed = false, !mutant.On("evicted")
				if s.after.Entity == src.entity {
					s.after.Seq = 0
				}
			}
		}
	}
}

// fails reports whether a source has sends, and all of them wait to be tried again, or their ends
// do.
func (d *Dispatcher) fails(src *source) bool {
	waiting := src.refused
	for _, p := range src.pairs { // order-free: all must fail
		if p.state != retrying && p.state != ending {
			return false
		}
		waiting += len(p.held())
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
	d.scanBy(d.now) // the next one may begin
	if in.Err == "" {
		d.readPause = 0
		if !in.Now.IsZero() || mutant.On("send-no-clock") {
			d.clock, d.clockAt = in.Now.UnixMilli(), d.now
		}
	} else {
		d.stats.ReadsFailed++
		d.readPause++
		d.readsAfter = d.now.Add(d.pause(d.readPause))
		d.scanBy(d.readsAfter)
	}
	rows := in.Rows
	for i := range rd.parts {
		p := &rd.parts[i]
		n := 0
		for n < len(rows) && rows[n].Shard == p.shard.id {
			n++
		}
		failed := in.Err != "" || slices.Contains(in.Failed, p.shard.id)
		if n > 0 && rows[0].Epoch > p.shard.epoch && !p.shard.closed && !mutant.On("page-deposed") {
			d.close(p.shard.id) // by another owner, see journal.SendRow.Epoch
		}
		if !p.shard.closed {
			p.shard.reading = false
			switch {
			case failed:
				d.notRead(p, failed && in.Err == "")
			case p.source != nil:
				d.pageOfSource(p, rows[:n], slices.Contains(in.More, p.shard.id))
			default:
				d.pageOfSweep(p, rows[:n], slices.Contains(in.More, p.shard.id))
			}
			d.endRead(p.shard)
		}
		rows = rows[n:]
	}
}

// notRead has the same read again later.
func (d *Dispatcher) notRead(p *part, damaged bool) {
	at := d.now
	if damaged {
		at = d.now.Add(d.cfg.RetryMax)
	}
	if p.source != nil && p.shard.sources[p.source.entity] == p.source && !damaged {
		d.want(p.source)
	}
	p.shard.sweepAt = at
	d.scanBy(at)
}

// endRead forgets those sources of which nothing is pending any more.
func (d *Dispatcher) endRead(s *shard) {
	idle := s.idle
	s.idle, s.dropped = nil, nil
	for _, src := range idle {
		d.dropIdle(src)
	}
}

// pageOfSource takes in what was read of one source.
func (d *Dispatcher) pageOfSource(p *part, rows []Row, more bool) {
	n := 0
	for n < len(rows) && rows[n].Entity == p.source.entity {
		n++
	}
	if p.shard.sources[p.source.entity] == p.source {
		d.rowsOf(p.source, rows[:n], more && n == len(rows))
		d.dropIdle(p.source)
	}
}

// standing are the sends of a row that were not given up since it was read.
func (src *source) standing(r *Row) []Pending {
	if len(src.shard.dropped) == 0 {
		return r.Sends
	}
	return slices.DeleteFunc(slices.Clone(r.Sends), func(p Pending) bool {
		return slices.Contains(src.shard.dropped, sendName{src.entity, r.Seq, p.Place})
	})
}

// rowsOf takes in the next records of a source. more says that there are others behind them.
func (d *Dispatcher) rowsOf(src *source, rows []Row, more bool) (all bool) {
	for i := range rows {
		r := rows[i]
		r.Sends = src.standing(&r)
		switch {
		case r.Seq <= src.upTo:
		case r.Err != "":
			// Those behind it may be for the same targets, and come after it.
			d.stats.ReadsFailed++
			src.more = true
			return true // the next sweep tries again
		case !d.add(src, &r, true):
			d.want(src)
			return false
		}
	}
	if more {
		d.want(src)
	} else if !src.wanted || mutant.On("sends-meanwhile") { // else it has changed meanwhile
		src.more = false
	}
	return true
}

// lacks reports whether a sweep that has read the source up to a record has passed some that are
// not in memory, because one of them could not be read. The source is then read again, and what is
// behind that record waits.
func (src *source) lacks(seq uint64) bool { return src.upTo < seq && !mutant.On("page-behind") }

// pageOfSweep takes in a page of a sweep.
func (d *Dispatcher) pageOfSweep(p *part, rows []Row, more bool) {
	s := p.shard
	src := s.sources[p.from.Entity]
	full := more && len(rows) == 0 && !mutant.On("page-full") // the page had no room for rows of this shard
	if src != nil && !full && (len(rows) == 0 || rows[0].Entity != src.entity) && !src.lacks(p.from.Seq) {
		d.rowsOf(src, nil, false) // the page before ended with its last record
		d.dropIdle(src)
	}
	for len(rows) > 0 {
		e, n := rows[0].Entity, 1
		for n < len(rows) && rows[n].Entity == e {
			n++
		}
		src := s.sources[e]
		if src == nil {
			if src = d.addSource(s, e); src == nil {
				return
			}
			if e == p.from.Entity {
				src.upTo = p.from.Seq // the sweep has read what is before
			}
		}
		if e == p.from.Entity && src.lacks(p.from.Seq) {
			// Another sweep reads these after those.
		} else if !d.rowsOf(src, rows[:n], false) {
			// No room: the sweep goes on from here.
			s.sweepAt = d.now
			return
		}
		if more && n == len(rows) {
			src.more = true // the next page may have others
		}
		s.after = Position{Shard: s.id, Entity: e, Seq: rows[n-1].Seq}
		d.dropIdle(src) // all that was read of it may have been given up
		rows = rows[n:]
	}
	if more {
		s.sweepAt = d.now
		d.scanBy(d.now)
		return
	}
	s.after, s.sweepAt = Position{Shard: s.id}, d.now.Add(d.cfg.Refresh)
	s.complete = !s.missed
	d.scanBy(s.sweepAt)
}

// NextAlarm returns when the dispatcher has something to do unless it is told something
// before; zero: never.
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
	if !d.acksAt.IsZero() {
		by(d.acksAt)
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
