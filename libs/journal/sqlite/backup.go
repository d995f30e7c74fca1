package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
)

// pagesPart is the part of a backup with the pages of the file, in their order.
const pagesPart = "pages"

// snapshot is a journal file at one moment.
type snapshot struct {
	reader *Reader
	conn   *sql.Conn
	header backup.Header
	pages  int64
}

// Snapshot begins a backup of the journal file at path, while processes use it. It reads the pages of the file in one
// transaction, as they are at one moment. Until it is closed, the log cannot start again from its beginning, and grows
// with every write. Errors wrap [journal.ErrCorrupt] if a page is damaged, and [journal.ErrReplaced] if the file is an
// older copy, also if that was put there while it was read.
func Snapshot(ctx context.Context, path string, cfg journal.Config) (backup.Source, error) {
	cfg.Loads = 1
	r, err := OpenReader(ctx, path, cfg)
	if err != nil {
		return nil, err
	}
	s := &snapshot{reader: r}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(s.explain(err), s.Close())
	}
	return s, nil
}

func (s *snapshot) explain(err error) error {
	if damaged(err) {
		err = s.reader.corrupt(err)
	}
	if err != nil {
		err = fmt.Errorf("back up journal %s: %w", s.reader.path, err)
	}
	return err
}

func (s *snapshot) begin(ctx context.Context) (err error) {
	if s.conn, err = s.reader.db.Conn(ctx); err != nil {
		return err
	}
	if _, err := s.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	s.header = backup.Header{Store: backup.SQLite, Taken: time.Now()}
	// The first statement begins the moment that the transaction sees.
	if s.header.Facts, err = readFacts(ctx, s.conn, true); err != nil {
		return err
	}
	if err := s.header.Facts.CheckOpenedReader(s.reader.generation); err != nil {
		return err
	}
	return s.conn.QueryRowContext(ctx, "PRAGMA page_count").Scan(&s.pages)
}

// Header implements [backup.Source].
func (s *snapshot) Header() backup.Header { return s.header }

// Size implements [backup.Source].
func (s *snapshot) Size() int64 { return s.pages * pageSize }

// WriteParts implements [backup.Source].
func (s *snapshot) WriteParts(ctx context.Context, w *backup.Writer, progress func(done int64)) error {
	err := s.writePages(ctx, w, progress)
	if err == nil || damaged(err) { // an older copy that was put over the file meanwhile may look damaged, or whole
		if older := s.end(ctx); older != nil {
			err = older
		}
	}
	return s.explain(err)
}

// end ends the transaction, and refuses what was read if it is older than what was acknowledged.
func (s *snapshot) end(ctx context.Context) error {
	if _, err := s.conn.ExecContext(ctx, "ROLLBACK"); err != nil { //mutant:true older-backup
		return err
	}
	return s.reader.refuseOlder(ctx, s.conn)
}

func (s *snapshot) writePages(ctx context.Context, w *backup.Writer, progress func(done int64)) error {
	if err := w.Part(pagesPart); err != nil {
		return err
	}
	next := int64(1)
	err := each(ctx, s.conn, "SELECT pgno, data FROM sqlite_dbpage ORDER BY pgno", func(rows *sql.Rows) error {
		var number int64
		var page sql.RawBytes
		if err := rows.Scan(&number, &page); err != nil {
			return err
		}
		if number != next || len(page) != pageSize {
			return fmt.Errorf("page %d of %d has number %d and %d bytes", next, s.pages, number, len(page))
		}
		_, err := w.Write(page)
		if next++; next%256 == 0 {
			progress(number * pageSize)
		}
		return err
	})
	if err == nil && next != s.pages+1 {
		err = fmt.Errorf("%d of %d pages were read", next-1, s.pages)
	}
	return err
}

// Close implements [backup.Source].
func (s *snapshot) Close() error {
	if s.conn != nil {
		_, _ = s.conn.ExecContext(context.Background(), "ROLLBACK")
		_ = s.conn.Close()
	}
	return s.reader.Close()
}
