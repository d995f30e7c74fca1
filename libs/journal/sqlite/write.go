package sqlite

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Write implements [journal.Tx].
func (t *tx) Write(op *journal.Op) error {
	switch {
	case op.Claim != nil:
		c := op.Claim
		t.backend.cache.setFence(c.Shard, sharding.Fence{Epoch: c.Epoch, Owner: c.Owner})
		return t.s.setFence.Exec(string(c.Shard.Type), c.Shard.Index, int64(c.Epoch), int64(c.Owner))
	case op.Append != nil:
		return t.append(op.Append)
	case op.Snapshot != nil:
		defer t.backend.cache.dropHead(op.Snapshot.Entity)
		return t.writeSnapshot(op.Snapshot)
	case op.Drop != nil:
		defer t.backend.cache.dropHead(op.Drop.Entity)
		return t.dropSnapshot(op.Drop)
	case op.Purge != nil:
		defer t.backend.cache.dropHead(op.Purge.Entity)
		return t.purge(op.Purge)
	}
	return nil
}

func (t *tx) append(a *sharding.Append) error {
	id, err := t.id(a.Entity)
	if err != nil {
		return err
	}
	if id == 0 && len(a.Records) == 0 {
		return nil // there is no wake-up, and there are no sends
	}
	if id == 0 {
		expired, err := t.NewestExpired(a.Shard)
		if err != nil {
			return err
		}
		if err := t.s.addEntity.Exec(string(a.Entity.Type), string(a.Entity.ID), toMillis(expired)); err != nil {
			return err
		}
		id = t.backend.handle.lastID()
		t.add(a.Entity, id)
	}
	if err := t.changeWakes(id, a); err != nil {
		return err
	}
	if err := t.deliver(id, a); err != nil {
		return err
	}
	expire, stamp := false, t.stamp.Next(t.now)
	if t.looked && len(a.Records) > 0 {
		if err := t.s.clearLooked.Exec(id); err != nil {
			return err
		}
	}
	for i := range a.Records {
		r := &a.Records[i]
		t.body = journal.AppendRecord(t.body[:0], a.Entity, a.Epoch, t.now.Wall, r)
		t.reply = journal.AppendReply(t.reply[:0], a.Entity, r)
		var reply []byte // NULL if there is none
		if len(t.reply) > 0 {
			reply = t.reply
		}
		if err := t.s.addRecord.Exec(id, int64(r.Seq), int64(stamp.Age), int64(stamp.Writer), stamp.Elapsed, t.body, reply); err != nil {
			return err
		}
		if r.Command != "" {
			if err := t.s.addCommand.Exec(id, commandHash(r.Command), int64(r.Seq)); err != nil {
				return err
			}
		}
		if states := journal.NewSends(r); states != nil {
			n := len(r.Sends)
			if err := t.s.addSends.Exec(id, int64(r.Seq), []byte(states), string(a.Shard.Type), a.Shard.Index, idHash(a.Entity), n, n); err != nil {
				return err
			}
		}
		if r.Delete {
			if err := t.endLife(id, r.Seq); err != nil {
				return err
			}
		}
		expire = expire || r.Seq%expireEvery == 0
	}
	t.appended(a, stamp, expire)
	if !expire {
		return nil
	}
	t.stamp = stamp
	return t.expireKeys(id, a.Entity, a.Records[len(a.Records)-1].Seq)
}

// appended notes in the cache which record of an entity is the newest one. If more of its row changes, the
// entity is read again.
func (t *tx) appended(a *sharding.Append, stamp journal.Stamp, more bool) {
	heads := t.backend.cache.heads
	c, ok := heads[a.Entity]
	if !ok || len(a.Records) == 0 {
		return
	}
	if more || slices.ContainsFunc(a.Records, func(r sharding.Record) bool { return r.Delete }) {
		delete(heads, a.Entity)
		return
	}
	c.head.LastSeq, c.stamp, c.looked = a.Records[len(a.Records)-1].Seq, stamp, false
	heads[a.Entity] = c
}

// endLife notes that a record deletes its entity: nothing before it is loaded any more.
func (t *tx) endLife(id int64, seq uint64) error {
	if err := t.s.setLife.Exec(int64(seq), id); err != nil {
		return err
	}
	err := t.s.dropSnapshot.Exec(id)
	return err
}

func (t *tx) writeSnapshot(s *journal.WriteSnapshot) error {
	id, err := t.id(s.Entity)
	if err != nil {
		return err
	}
	if err := t.s.snapshot.Exec(id, journal.AppendSnapshot(nil, s)); err != nil {
		return err
	}
	if err := t.s.setSnapshotSeq.Exec(int64(s.Snapshot.Seq), id); err != nil {
		return err
	}
	if err := t.expireKeys(id, s.Entity, s.Snapshot.Seq); err != nil || s.Cut == 0 {
		return err
	}
	return t.trimEvents(id, s)
}

func (t *tx) dropSnapshot(d *journal.DropSnapshot) error {
	id, err := t.id(d.Entity)
	if err != nil {
		return err
	}
	if err := t.s.dropSnapshot.Exec(id); err != nil {
		return err
	}
	err = t.s.setSnapshotSeq.Exec(0, id)
	return err
}

// expireKeys drops dedupe entries of the entity's records, oldest first, as long as
// they are old enough and not among its newest. last is a sequence number not
// above the entity's last one.
func (t *tx) expireKeys(id int64, entity sharding.Entity, last uint64) error {
	var kept, dropped int64
	if err := t.s.expireHead.QueryRow(id).Scan(&kept, &dropped); err != nil {
		return err
	}
	// There are no more entries than records, so mostly nothing is left to do here.
	if int64(last)-kept <= int64(t.backend.cfg.DedupeCount) {
		return nil
	}
	old, err := t.oldest(id, entity, kept)
	if err != nil || len(old) == 0 {
		return err
	}
	var entries int
	if err := t.s.countCommands.QueryRow(id, kept).Scan(&entries); err != nil {
		return err
	}
	before := kept
	for _, e := range old {
		if entries <= t.backend.cfg.DedupeCount {
			break
		}
		kept = int64(e.seq)
		if e.command == "" || e.forever {
			continue
		}
		if err := t.s.dropCommand.Exec(id, commandHash(e.command), int64(e.seq)); err != nil {
			return err
		}
		entries--
		if !e.remember.IsZero() {
			dropped = max(dropped, e.remember.UnixMilli())
		}
	}
	if kept == before {
		return nil
	}
	err = t.s.setKept.Exec(kept, dropped, id)
	return err
}

// oldEntry is a record whose dedupe entry, if it has one, is old enough.
type oldEntry struct {
	seq      uint64
	command  sharding.CommandID
	remember time.Time
	forever  bool
}

// oldest reads records after kept up to the first one that is not old enough.
func (t *tx) oldest(id int64, entity sharding.Entity, kept int64) ([]oldEntry, error) {
	rows, err := t.s.expireRows.Query(id, kept, expireBatch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var old []oldEntry
	for rows.Next() {
		var seq int64
		var age journal.Age
		var body []byte
		if err := rows.Scan(&seq, &age, &body); err != nil {
			return nil, err
		}
		e, err := journal.DecodeRecord(entity, uint64(seq), body)
		if err != nil {
			return old, nil // damaged: later entries are kept
		}
		o := oldEntry{seq: uint64(seq), command: e.Record.Command}
		if o.command != "" {
			var what journal.Dropping
			if o.remember, what = t.backend.cfg.Drop(t.stamp.Age, age, t.now.Wall, e.At, o.command); what == journal.Keep {
				return old, nil
			}
			o.forever = what == journal.Forever
		}
		old = append(old, o)
	}
	return old, rows.Err()
}
