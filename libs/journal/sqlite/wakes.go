package sqlite

import (
	"database/sql"
	"errors"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Wake implements [journal.Tx].
func (t *tx) Wake(entity sharding.Entity, kind sharding.WakeKind, name string) (sharding.WakeRef, bool, error) {
	ref := sharding.WakeRef{Kind: kind, Name: name}
	id, err := t.id(entity)
	if err != nil || id == 0 {
		return ref, false, err
	}
	var seq, number int64
	err = t.s.wake.QueryRow(id, int(kind), name).Scan(&seq, &number)
	if errors.Is(err, sql.ErrNoRows) {
		return ref, false, nil
	}
	ref.Seq, ref.Number = uint64(seq), uint64(number)
	return ref, err == nil, err
}

// changeWakes changes the rows of wake-ups as an append says.
func (t *tx) changeWakes(id int64, a *sharding.Append) error {
	for _, c := range journal.WakeChanges(a, t.backend.cfg.LookAt(t.now.Wall)) {
		var err error
		switch c.Does {
		case journal.EndLife:
			err = t.endLifeRows(id, a, &c)
		case journal.RemoveWake:
			err = t.s.removeWake.Exec(id, int(c.Kind), c.Name)
		case journal.NextWake:
			err = t.s.nextWake.Exec(c.Due, int64(c.Number), id, int(c.Kind), c.Name)
		case journal.SetWake:
			err = t.s.setWake.Exec(id, int(c.Kind), c.Name, int64(c.Number), c.Due, c.Period, int64(c.Seq),
				string(a.Shard.Type), a.Shard.Index, idHash(a.Entity))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endLifeRows does what [journal.EndLife] says.
func (t *tx) endLifeRows(id int64, a *sharding.Append, c *journal.WakeChange) error {
	if err := t.s.removeOthers.Exec(id, int(c.Kind)); err != nil {
		return err
	}
	err := t.s.endLife.Exec(id, int(c.Kind), c.Name, c.Due, int64(c.Seq), string(a.Shard.Type), a.Shard.Index, idHash(a.Entity))
	return err
}

// deliver marks the sends of earlier records that an append says have ended.
func (t *tx) deliver(id int64, a *sharding.Append) error {
	for i := range a.Delivered {
		d := &a.Delivered[i]
		states, sends, err := t.sends(id, d.Seq)
		if err != nil {
			return err
		}
		if states == nil { // all were done before
			continue
		}
		states.Deliver(sends, d)
		if pending, dead := states.Count(sends); pending+dead == 0 {
			err = t.s.removeSends.Exec(id, int64(d.Seq))
		} else {
			err = t.s.setStates.Exec([]byte(states), pending, dead, id, int64(d.Seq))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sends reads the states of the sends of a record, nil if there is no row.
func (t *tx) sends(id int64, seq uint64) (states journal.SendStates, sends int, err error) {
	var b []byte
	err = t.s.sends.QueryRow(id, int64(seq)).Scan(&b, &sends)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	return b, sends, err
}

// Sends implements [journal.Tx].
func (t *tx) Sends(entity sharding.Entity, seq uint64) (journal.SendStates, error) {
	id, err := t.id(entity)
	if err != nil || id == 0 {
		return nil, err
	}
	states, _, err := t.sends(id, seq)
	return states, err
}

// idHash returns the hash that assigns an entity to a shard.
func idHash(e sharding.Entity) int64 { return int64(e.ID.Hash()) }
