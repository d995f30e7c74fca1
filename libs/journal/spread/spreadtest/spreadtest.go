// Package spreadtest makes one journal of two stores, for the conformance suite of package journaltest: accounts are
// in the second store, all other types in the first one.
//
// # What this does not do
//
// It has no tests of its own, and knows no backend: each backend runs the suite on two of its stores.
package spreadtest

import (
	"context"
	"errors"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/journal/spread"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Type is the entity type that is in the second store.
const Type sharding.EntityType = "Account"

// Join returns the harness of the journal in two empty stores.
func Join(t *testing.T, first, second journaltest.Harness) journaltest.Harness {
	t.Helper()
	h := journaltest.Harness{
		Open: func() (journal.Backend, error) { return open(first, second) },
		OpenReader: func() (journal.Reader, error) {
			r, err := first.OpenReader()
			if err != nil {
				return nil, err
			}
			all, err := spread.OpenReader(context.Background(), r, others(second.OpenReader))
			if err != nil {
				return nil, errors.Join(err, r.Close())
			}
			return all, nil
		},
		Replace: func(to sharding.Generation) error {
			if err := errors.Join(first.Replace(to), second.Replace(to)); err != nil {
				return err
			}
			d, err := second.Open()
			if err != nil {
				return err
			}
			return errors.Join(spread.Renew(context.Background(), d, to), d.Close())
		},
		SetLowest: func(reader, writer int) error {
			return errors.Join(first.SetLowest(reader, writer), second.SetLowest(reader, writer))
		},
	}
	// of returns the store of an entity.
	of := func(e sharding.Entity) journaltest.Harness {
		if e.Type == Type {
			return second
		}
		return first
	}
	if first.Damage != nil {
		h.Damage = func(e sharding.Entity, seq uint64) error { return of(e).Damage(e, seq) }
	}
	if first.Lose != nil {
		h.Lose = func(e sharding.Entity, seq uint64) error { return of(e).Lose(e, seq) }
		h.Renumber = func(e sharding.Entity, seq uint64, to int64) error { return of(e).Renumber(e, seq, to) }
		h.SetSnapshot = func(e sharding.Entity, seq int64) error { return of(e).SetSnapshot(e, seq) }
	}
	if err := prepare(first, second); err != nil {
		t.Fatal(err)
	}
	return h
}

// prepare gives both stores one generation, which the suite looks for in errors, and puts the type into the second
// store without declaring it.
func prepare(first, second journaltest.Harness) error {
	ctx := context.Background()
	d, err := first.Open()
	if err != nil {
		return err
	}
	facts, err := d.Facts(ctx)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	other, err := second.Open() // which makes the store, if there is none
	if err != nil {
		return err
	}
	if err := errors.Join(second.Replace(facts.Generation), other.Close()); err != nil {
		return err
	}
	both, err := open(first, second)
	if err != nil {
		return err
	}
	if err := both.Close(); err != nil {
		return err
	}
	if d, err = first.Open(); err != nil {
		return err
	}
	_, err = spread.Place(ctx, d, nil, []sharding.TypeDesc{{Type: Type}}, map[sharding.EntityType]int{Type: 2})
	return errors.Join(err, d.Close())
}

func open(first, second journaltest.Harness) (journal.Backend, error) {
	d, err := first.Open()
	if err != nil {
		return nil, err
	}
	all, err := spread.Open(context.Background(), d, others(func() (journal.Reader, error) { return second.Open() }), nil)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return all, nil
}

func others(open func() (journal.Reader, error)) []spread.Database {
	return []spread.Database{{Number: 2, Open: func(context.Context) (journal.Reader, error) { return open() }}}
}
