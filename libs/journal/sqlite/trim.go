package sqlite

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// trimPages is the number of unused pages that the file gives back for each record that was
// removed or has lost its events, while there are any: about as many as it took.
const trimPages = 1

// trimming is one trim of an entity.
type trimming struct {
	t      *tx
	id     int64
	entity sharding.Entity
	marks  journal.TrimMarks
	waking map[uint64]bool // records whose wake-ups stand
	bytes  int             // that may still be read
}

// trimEvents removes events that a snapshot has made superfluous.
func (t *tx) trimEvents(id int64, s *journal.WriteSnapshot) error {
	var last, life, cut, stripped, swept int64
	if err := t.s.marks.QueryRow(id).Scan(&life, &cut, &stripped, &swept, &last); err != nil {
		return err
	}
	x := trimming{t: t, id: id, entity: s.Entity, bytes: t.backend.cfg.PageBytes, marks: journal.TrimMarks{
		Life: uint64(life), Last: uint64(last), Cut: uint64(cut), Stripped: uint64(stripped), Swept: uint64(swept)}}
	x.marks.Raise(s.Cut)
	if err := x.readWaking(); err != nil {
		return err
	}
	after, upTo := x.marks.Fresh()
	fresh, end, err := x.visit(after, upTo, journal.MaxTrim)
	if err != nil {
		return err
	}
	from, to, limit := x.marks.Sweep(fresh)
	sweep, at, err := x.visit(from, to, limit)
	if err != nil {
		return err
	}
	m := x.marks.Done(fresh, end, sweep, limit, at)
	if x.bytes <= 0 { // neither range was read to its end
		m = x.marks
		m.Stripped, m.Swept = max(m.Stripped, end), at
	}
	err = t.s.setMarks.Exec(int64(m.Cut), int64(m.Stripped), int64(m.Swept), id)
	return err
}

func (x *trimming) readWaking() error {
	x.waking = map[uint64]bool{}
	rows, err := x.t.s.waking.Query(x.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return err
		}
		x.waking[uint64(seq)] = true
	}
	return rows.Err()
}

// trimmed is a record that a trim decides about.
type trimmed struct {
	seq   uint64
	entry journal.Entry
	send  bool
}

// visit decides about the records after one up to another, a bounded number of them. It returns
// how many there were, and the last one of them.
func (x *trimming) visit(after, last uint64, limit int) (n int, end uint64, err error) {
	if end = after; after >= last {
		return 0, end, nil
	}
	found, n, end, err := x.read(after, last, limit)
	if err != nil {
		return n, end, err
	}
	for i := range found {
		if err := x.act(&found[i]); err != nil {
			return n, end, err
		}
	}
	return n, end, nil
}

// read reads records. Those that are damaged are counted and left out: they stay as they are.
func (x *trimming) read(after, last uint64, limit int) (found []trimmed, n int, end uint64, err error) {
	end = after
	rows, err := x.t.s.trimmable.Query(x.id, int64(after), int64(last), limit)
	if err != nil {
		return nil, 0, end, err
	}
	defer rows.Close()
	for x.bytes > 0 && rows.Next() {
		var seq int64
		var body []byte
		r := trimmed{}
		if err := rows.Scan(&seq, &body, &r.send); err != nil {
			return nil, n, end, err
		}
		n, end, r.seq, x.bytes = n+1, uint64(seq), uint64(seq), x.bytes-len(body)
		if r.entry, err = journal.DecodeRecord(x.entity, r.seq, body); err == nil {
			found = append(found, r)
		}
	}
	return found, n, end, rows.Err()
}

func (x *trimming) act(r *trimmed) error {
	record := &r.entry.Record
	needed := journal.Needed{Sending: r.send, Waking: x.waking[r.seq]}
	hash := commandHash(record.Command)
	if record.Command != "" {
		if err := x.t.s.isRemembered.QueryRow(x.id, hash, int64(r.seq)).Scan(&needed.Remembered); err != nil {
			return err
		}
	}
	switch x.marks.Trim(r.seq, len(record.Events) > 0, needed) {
	case journal.RemoveRecord:
		x.t.free += trimPages
		if needed.Remembered {
			if err := x.t.s.dropCommand.Exec(x.id, hash, int64(r.seq)); err != nil {
				return err
			}
		}
		err := x.t.s.removeRecord.Exec(x.id, int64(r.seq))
		return err
	case journal.StripRecord:
		x.t.free += trimPages
		record.Events = nil
		x.t.body = journal.AppendRecord(x.t.body[:0], x.entity, r.entry.Epoch, r.entry.At, record)
		err := x.t.s.setBody.Exec(x.t.body, x.id, int64(r.seq))
		return err
	}
	return nil
}
