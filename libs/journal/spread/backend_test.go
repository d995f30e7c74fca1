package spread

import (
	"context"
	"errors"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
)

// databases are the databases of a journal in memory, by pipeline. Each handle on one is like one of another process.
type databases struct {
	all  []*memory.Backend
	want map[sharding.EntityType]int
}

func newDatabases(n int) *databases {
	d := &databases{want: map[sharding.EntityType]int{}}
	for range n {
		d.all = append(d.all, newDatabase())
	}
	return d
}

func newDatabase() *memory.Backend { return memory.New(journal.DefaultConfig()) }

// others are the databases other than the first one, with the numbers from 2 on.
func (d *databases) others() (others []Database) {
	for i, db := range d.all[1:] {
		others = append(others, Database{Number: i + 2, Open: func(context.Context) (journal.Reader, error) { return db.NewHandle(), nil }})
	}
	return others
}

func (d *databases) open(ctx context.Context) (*Backend, error) {
	first := d.all[0].NewHandle()
	all, err := Open(ctx, first, d.others(), d.want)
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	return all, nil
}

func (d *databases) reader(ctx context.Context) (journal.Reader, error) {
	first := d.all[0].NewHandle()
	r, err := OpenReader(ctx, first, d.others())
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	return r, nil
}
