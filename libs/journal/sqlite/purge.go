package sqlite

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// purge removes the rest of a life, as far as permitted.
func (t *tx) purge(op *journal.Purge) error {
	t.free += purgePages
	var h journal.Head
	id, _, err := t.readHead(op.Entity, 0, &h)
	if err != nil || id == 0 {
		return err
	}
	stamp := t.stamp.Next(t.now)
	p := journal.Purging{Config: &t.backend.cfg, Age: stamp.Age, Wall: t.now.Wall, Newest: h.Dropped}
	left, err := t.remains(id, op)
	if err != nil {
		return err
	}
	n := 0
	for n < len(left) && p.Remove(&left[n].Remains) {
		n++
	}
	for i := range left[:n] {
		if err := t.removeRecord(id, &left[i]); err != nil {
			return err
		}
	}
	switch {
	case n > 0 && left[n-1].seq == h.LastSeq:
		return t.removeEntity(id, op, p)
	case n < len(left):
		err = t.s.nextWake.Exec(journal.PurgeFrom+p.Again.UnixMilli(), 0, id, int(sharding.PurgeWake), "")
	case n < journal.MaxPurge: // only the life that came after it is left
		err = t.s.removeWake.Exec(id, int(sharding.PurgeWake), "")
	}
	if err != nil {
		return err
	}
	err = t.s.setLooked.Exec(int64(stamp.Age), int64(stamp.Writer), stamp.Elapsed, toMillis(p.Newest), id)
	return err
}

// remaining describes a stored record of an ended life.
type remaining struct {
	journal.Remains
	seq uint64
	key sharding.CommandID // remembered or not
}

// remains reads the first records of a life that has ended.
func (t *tx) remains(id int64, op *journal.Purge) ([]remaining, error) {
	rows, err := t.s.remains.Query(id, int64(op.Life), journal.MaxPurge)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var left []remaining
	for rows.Next() {
		var seq int64
		var body []byte
		var r remaining
		if err := rows.Scan(&seq, &r.Age, &body, &r.Sending); err != nil {
			return nil, err
		}
		e, err := journal.DecodeRecord(op.Entity, uint64(seq), body)
		if err != nil {
			return nil, err
		}
		r.seq, r.key, r.Wall = uint64(seq), e.Record.Command, e.At
		left = append(left, r)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	// By the hash of the id, because a search by sequence number would read all rows of the
	// entity.
	for i := range left {
		r := &left[i]
		remembered := false
		if r.key == "" {
			continue
		}
		if err := t.s.isRemembered.QueryRow(id, commandHash(r.key), int64(r.seq)).Scan(&remembered); err != nil {
			return nil, err
		}
		if remembered {
			r.Command = r.key
		}
	}
	return left, nil
}

func (t *tx) removeRecord(id int64, r *remaining) error {
	if r.Command != "" {
		if err := t.s.dropCommand.Exec(id, commandHash(r.Command), int64(r.seq)); err != nil {
			return err
		}
	}
	err := t.s.removeRecord.Exec(id, int64(r.seq))
	return err
}

// removeEntity removes an entity that has no records left.
func (t *tx) removeEntity(id int64, op *journal.Purge, p journal.Purging) error {
	if err := t.s.removeWakes.Exec(id); err != nil {
		return err
	}
	if err := t.s.removeEntity.Exec(id); err != nil {
		return err
	}
	if err := t.s.setPurged.Exec(id); err != nil {
		return err
	}
	delete(t.added, op.Entity)
	delete(t.backend.ids, op.Entity)
	if p.Newest.IsZero() {
		return nil
	}
	err := t.s.setExpired.Exec(p.Newest.UnixMilli(), string(op.Shard.Type), op.Shard.Index)
	return err
}
