package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/leasetest"
)

func openAt(t *testing.T, path string) *Backend {
	t.Helper()
	s, err := OpenSQLite(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Harness {
		path := filepath.Join(t.TempDir(), "deep", "lease?#%.db")
		s := openAt(t, path)
		return leasetest.Harness{
			Backend: s,
			Second:  func(t *testing.T) lease.Backend { return openAt(t, path) },
			Reopen: func(t *testing.T) lease.Backend {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				return openAt(t, path)
			},
		}
	})
}

func TestOpenedByManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lease.db")
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := OpenSQLite(context.Background(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestDurability(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "lease.db"))
	var mode string
	var sync int
	if err := s.db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode %q, %v", mode, err)
	}
	if err := s.db.QueryRow("PRAGMA synchronous").Scan(&sync); err != nil || sync != 2 {
		t.Errorf("synchronous is %d, %v; want 2, FULL", sync, err)
	}
}

// A file that is not ours is refused, and left as it was.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite", foreign)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE journal (x); INSERT INTO journal VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("this is not a database, but a text of more than sixteen bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	s := openAt(t, newer)
	if _, err := s.db.Exec("PRAGMA user_version = 2"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{foreign, text, newer, "", dir, filepath.Join(text, "below")} {
		var before []byte
		if path != "" && path != dir {
			before, _ = os.ReadFile(path)
		}
		if _, err := OpenSQLite(context.Background(), path); !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "sqlite "+path) {
			t.Errorf("%q gives %v", path, err)
		}
		if path != "" && path != dir {
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Errorf("%q was changed", path)
			}
		}
	}
}

// A file without the mark is refused with the reason, although it has format 1.
func TestUnmarkedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lease.db")
	s := openAt(t, path)
	if _, err := s.db.Exec(fmt.Sprintf("ALTER TABLE lease DROP COLUMN cluster; PRAGMA application_id = %d", unmarkedID)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSQLite(context.Background(), path); !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "before the formats began again at 1") {
		t.Error(err)
	}
}

func TestSpoiledRow(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "lease.db"))
	ctx := context.Background()
	if _, err := s.Swap(ctx, "x", lease.Record{}, lease.Record{Term: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("UPDATE lease SET term = -5"); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Get(ctx, "x"); !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "lease.db lease \"x\"") || !strings.Contains(err.Error(), "sqlite ") {
		t.Errorf("a spoiled row gives %+v, %v", r, err)
	}
	if ok, err := s.Swap(ctx, "x", lease.Record{}, lease.Record{Term: 1}); ok {
		t.Errorf("a spoiled row is replaced: %v", err)
	}
}

// A write that is reported is on the disk; nothing but a power cut would tell.
func TestSynchronous(t *testing.T) {
	var level int
	if err := openAt(t, filepath.Join(t.TempDir(), "lease.db")).db.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level); err != nil || level != 2 {
		t.Errorf("synchronous is %d (%v), want 2: full", level, err)
	}
}
