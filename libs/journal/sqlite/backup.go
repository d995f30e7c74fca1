package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
)

// pagesPart is the part of a backup with the pages of the file, in their order.
const pagesPart = "pages"

// Backup writes a backup of the journal file at path to out, beside the processes that use it. It
// reads the pages of the file in one transaction, so they are those of one moment. While it runs,
// the log cannot start again from its beginning, and grows with what is written. progress is called
// with how many bytes of how many are read. The error wraps [journal.ErrCorrupt] if a page is damaged.
func Backup(ctx context.Context, path string, cfg journal.Config, out io.Writer, progress func(done, total int64)) (backup.Header, error) {
	cfg.Loads = 1
	r, err := OpenReader(ctx, path, cfg)
	if err != nil {
		return backup.Header{}, err
	}
	defer func() { _ = r.Close() }()
	h, err := r.backup(ctx, out, progress)
	if damaged(err) {
		err = corrupt(r.path, r.file, err)
	}
	if err != nil {
		err = fmt.Errorf("back up journal %s: %w", r.path, err)
	}
	return h, err
}

func (r *Reader) backup(ctx context.Context, out io.Writer, progress func(done, total int64)) (h backup.Header, err error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return h, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return h, err
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }()
	h = backup.Header{Store: backup.SQLite, Taken: time.Now()}
	// The first statement begins the moment that the transaction sees.
	if h.Facts, err = readFacts(ctx, conn, true); err != nil {
		return h, err
	}
	if err := h.Facts.CheckOpenedReader(r.generation); err != nil {
		return h, err
	}
	var pages int64
	if err := conn.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
		return h, err
	}
	w, err := backup.NewWriter(out, h)
	if err != nil {
		return h, err
	}
	if err := w.Part(pagesPart); err != nil {
		return h, err
	}
	next := int64(1)
	err = each(ctx, conn, "SELECT pgno, data FROM sqlite_dbpage ORDER BY pgno", func(rows *sql.Rows) error {
		var number int64
		var page sql.RawBytes
		if err := rows.Scan(&number, &page); err != nil {
			return err
		}
		if number != next || len(page) != pageSize {
			return fmt.Errorf("page %d of %d has number %d and %d bytes", next, pages, number, len(page))
		}
		_, err := w.Write(page)
		if next++; next%256 == 0 {
			progress(number*pageSize, pages*pageSize)
		}
		return err
	})
	if err != nil {
		return h, err
	}
	if next != pages+1 {
		return h, fmt.Errorf("%d of %d pages were read", next-1, pages)
	}
	return h, w.Close()
}
