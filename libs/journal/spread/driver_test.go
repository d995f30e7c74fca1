package spread

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
	"github.com/roost-cluster/roost/libs/sharding"
)

// files are the databases of a journal in SQLite files, by lane.
type files struct {
	paths []string
	cfg   journal.Config
	clock journal.Clock // may be nil
	want  map[sharding.EntityType]int
}

func newFiles(t testing.TB, names ...string) *files {
	f := &files{cfg: journal.DefaultConfig(), want: map[sharding.EntityType]int{}}
	dir := t.TempDir()
	for _, name := range names {
		f.paths = append(f.paths, filepath.Join(dir, name))
	}
	return f
}

func (f *files) driver(ctx context.Context, path string) (journal.Driver, error) {
	d, err := sqlite.Open(ctx, path, f.cfg)
	if err != nil {
		return nil, err
	}
	if f.clock != nil {
		d.SetClock(f.clock)
	}
	return d, nil
}

// others are the databases beside the first one, with the numbers from 2 on.
func (f *files) others(open func(context.Context, string) (journal.Reader, error)) (others []Database) {
	for i, path := range f.paths[1:] {
		others = append(others, Database{Number: i + 2, Open: func(ctx context.Context) (journal.Reader, error) { return open(ctx, path) }})
	}
	return others
}

func (f *files) open(ctx context.Context) (*Driver, error) {
	first, err := f.driver(ctx, f.paths[0])
	if err != nil {
		return nil, err
	}
	d, err := Open(ctx, first, f.others(func(ctx context.Context, path string) (journal.Reader, error) { return f.driver(ctx, path) }), f.want)
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	return d, nil
}

func (f *files) reader(ctx context.Context) (journal.Reader, error) {
	first, err := sqlite.OpenReader(ctx, f.paths[0], f.cfg)
	if err != nil {
		return nil, err
	}
	r, err := OpenReader(ctx, first, f.others(func(ctx context.Context, path string) (journal.Reader, error) {
		return sqlite.OpenReader(ctx, path, f.cfg)
	}))
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	return r, nil
}

// align makes the files, and gives all of them the generation of the first one, which the suite looks for in errors.
func (f *files) align(ctx context.Context) error {
	generation := ""
	for lane, path := range f.paths {
		d, err := f.driver(ctx, path)
		if err != nil {
			return err
		}
		facts, err := d.Facts(ctx)
		if lane == 0 {
			generation = facts.Generation.String()
		}
		err = errors.Join(err, f.change(lane, "UPDATE meta SET value = ? WHERE key = 'generation'", generation), d.Close(), os.Remove(path+"-mark")) // it has the generation of before
		if err != nil {
			return err
		}
	}
	return nil
}

// change runs a statement in a database as another program would, while a handle is open.
func (f *files) change(lane int, statement string, args ...any) error {
	db, err := sql.Open("sqlite", f.paths[lane])
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(statement, args...)
	return err
}

// account is the type of most tests of the suite: it is in the second database, and others are in the first one.
var account = journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Account", Shards: 8}}}

// placed opens a handle, and puts accounts into the second database without declaring them.
func placed(ctx context.Context, d *Driver, err error) (journal.Driver, error) {
	if err != nil {
		return nil, err
	}
	n, err := changeNote(ctx, d.members[0].handle.(journal.Driver), func(n Note) (Note, bool, error) {
		return n.Place(nil, account.Types, map[sharding.EntityType]int{"Account": 2})
	})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.note.Store(&n)
	return d, nil
}

const entityID = "(SELECT id FROM entity WHERE type = ? AND name = ?)"

func TestConformance(t *testing.T) {
	journaltest.Run(t, func(t *testing.T, cfg journal.Config, clock journal.Clock) journaltest.Harness {
		f := newFiles(t, "first.db", "second.db")
		f.cfg, f.clock = cfg, clock
		if err := f.align(t.Context()); err != nil {
			t.Fatal(err)
		}
		// of is the lane in which a type is.
		of := func(e sharding.Entity) int {
			if e.Type == "Account" {
				return 1
			}
			return 0
		}
		both := func(statement string, args ...any) error {
			return errors.Join(f.change(0, statement, args...), f.change(1, statement, args...))
		}
		return journaltest.Harness{
			Open: func() (journal.Driver, error) {
				d, err := f.open(context.Background())
				return placed(context.Background(), d, err)
			},
			OpenReader: func() (journal.Reader, error) { return f.reader(context.Background()) },
			Replace: func() error {
				if err := both("UPDATE meta SET value = '00000000000000a7' WHERE key = 'generation'"); err != nil {
					return err
				}
				for _, path := range f.paths { // as a restore does
					if err := os.Remove(path + "-mark"); err != nil {
						return err
					}
				}
				second, err := f.driver(context.Background(), f.paths[1])
				if err != nil {
					return err
				}
				return errors.Join(Renew(context.Background(), second, 0xa7), second.Close())
			},
			SetLowest: func(reader, writer int) error {
				return both("UPDATE meta SET value = CASE key WHEN 'min_reader' THEN ? ELSE ? END WHERE key IN ('min_reader', 'min_writer')", reader, writer)
			},
			Damage: func(e sharding.Entity, seq uint64) error {
				return f.change(of(e), "UPDATE record SET body = CAST(substr(body, 1, length(body)-3) || CASE substr(body, length(body)-2, 1) WHEN x'00' THEN x'ff' ELSE x'00' END || substr(body, length(body)-1) AS BLOB) WHERE seq = ? AND entity = "+entityID, int64(seq), string(e.Type), string(e.ID))
			},
			Lose: func(e sharding.Entity, seq uint64) error {
				return f.change(of(e), "DELETE FROM record WHERE seq = ? AND entity = "+entityID, int64(seq), string(e.Type), string(e.ID))
			},
			Renumber: func(e sharding.Entity, seq uint64, to int64) error {
				return f.change(of(e), "UPDATE record SET seq = ? WHERE seq = ? AND entity = "+entityID, to, int64(seq), string(e.Type), string(e.ID))
			},
			SetSnapshot: func(e sharding.Entity, seq int64) error {
				return f.change(of(e), "UPDATE entity SET snapshot = ? WHERE id = "+entityID, seq, string(e.Type), string(e.ID))
			},
		}
	})
}
