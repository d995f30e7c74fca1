package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/journal/spread"
	"github.com/roost-cluster/roost/libs/journal/spread/spreadtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

func TestConformance(t *testing.T) { journaltest.Run(t, harness) }

// TestSpread runs the suite on a journal of two files.
func TestSpread(t *testing.T) {
	journaltest.Run(t, func(t *testing.T, cfg journal.Config, clock journal.Clock) journaltest.Harness {
		return spreadtest.Join(t, harness(t, cfg, clock), harness(t, cfg, clock))
	})
}

func harness(t *testing.T, cfg journal.Config, clock journal.Clock) journaltest.Harness {
	path := filepath.Join(t.TempDir(), "some", "folder", "j.db")
	var handles []*Backend
	return journaltest.Harness{
		Open: func() (journal.Backend, error) {
			b, err := Open(context.Background(), path, cfg)
			if err != nil {
				return nil, err
			}
			b.SetClock(clock)
			handles = append(handles, b)
			return b, nil
		},
		Replace: func(to sharding.Generation) error {
			if err := change(path, "UPDATE meta SET value = ? WHERE key = 'generation'", to.String()); err != nil {
				return err
			}
			return remove(path + markSuffix) // as a restore does
		},
		SetLowest: func(reader, writer int) error {
			return change(path, fmt.Sprintf("UPDATE meta SET value = CASE key WHEN 'min_reader' THEN '%d' ELSE '%d' END WHERE key IN ('min_reader', 'min_writer')", reader, writer))
		},
		OpenReader: func() (journal.Reader, error) { return OpenReader(context.Background(), path, cfg) },
		Damage:     func(entity sharding.Entity, seq uint64) error { return damage(path, entity, seq) },
		Lose: func(entity sharding.Entity, seq uint64) error {
			return change(path, "DELETE FROM record WHERE seq = ? AND entity = "+entityID, int64(seq), string(entity.Type), string(entity.ID))
		},
		Renumber: func(entity sharding.Entity, seq uint64, to int64) error {
			return change(path, "UPDATE record SET seq = ? WHERE seq = ? AND entity = "+entityID, to, int64(seq), string(entity.Type), string(entity.ID))
		},
		SetSnapshot: func(entity sharding.Entity, seq int64) error {
			return change(path, "UPDATE entity SET snapshot = ? WHERE id = "+entityID, seq, string(entity.Type), string(entity.ID))
		},
		Fill: func(full bool) error { return fill(handles, full) },
	}
}

// TestEmptiedDatabase: a file that was used before, and is new, is refused as a database of its journal.
func TestEmptiedDatabase(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	first, second := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	both := func() (*spread.Backend, error) {
		d, err := Open(ctx, first, journal.DefaultConfig())
		if err != nil {
			return nil, err
		}
		all, err := spread.Open(ctx, d, []spread.Database{{Number: 2, Open: func(ctx context.Context) (journal.Reader, error) {
			return Open(ctx, second, journal.DefaultConfig())
		}}}, nil)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return all, nil
	}
	d, err := both()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), os.Remove(second)); err != nil {
		t.Fatal(err)
	}
	if _, err := both(); !errors.Is(err, journal.ErrIdentity) || !strings.Contains(err.Error(), "which was used before") {
		t.Errorf("a file that was removed: %v", err)
	}
}

const entityID = "(SELECT id FROM entity WHERE type = ? AND name = ?)"

// change runs a statement as another program would.
func change(path, statement string, args ...any) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(statement, args...)
	return err
}

// damage flips one bit of a stored record.
func damage(path string, entity sharding.Entity, seq uint64) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	var id int64
	var body []byte
	err = db.QueryRow(`SELECT r.entity, r.body FROM record r JOIN entity e ON e.id = r.entity WHERE e.type = ? AND e.name = ? AND r.seq = ?`,
		string(entity.Type), string(entity.ID), seq).Scan(&id, &body)
	if err != nil {
		return err
	}
	body[len(body)-3] ^= 0x10
	_, err = db.Exec("UPDATE record SET body = ? WHERE entity = ? AND seq = ?", body, id, seq)
	return err
}

// fill sets the size of the file as its limit, or takes the limit away.
func fill(handles []*Backend, full bool) error {
	pragma := "PRAGMA max_page_count = 1" // not below what there is
	if !full {
		pragma = "PRAGMA max_page_count = 1073741823"
	}
	for _, b := range handles {
		if _, err := b.conn.ExecContext(context.Background(), pragma); err != nil {
			return err
		}
	}
	return nil
}
