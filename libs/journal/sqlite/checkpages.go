package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/open"
)

// CheckPages reads every page of the journal file at path, while processes use it: also free pages, and pages of
// indexes, which nothing else may read for a long time. Each page is read in its own transaction, so the log does not
// grow meanwhile. First has at most maxNamed pages. progress is called periodically with the bytes done and the total.
func CheckPages(ctx context.Context, path string, cfg journal.Config, progress func(done, total int64)) (c open.CheckedPages, err error) {
	cfg.Loads = 1
	r, err := OpenReader(ctx, path, cfg)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	c.Path = r.path
	count := int64(0)
	if err := r.db.QueryRowContext(ctx, "PRAGMA page_count").Scan(&count); err != nil {
		return c, fmt.Errorf("check the pages of %s: %w", r.path, err)
	}
	read, err := r.db.PrepareContext(ctx, "SELECT length(data) FROM sqlite_dbpage WHERE pgno = ?")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, read.Close()) }()
	for number := int64(1); number <= count; number++ {
		size := 0
		switch err := read.QueryRowContext(ctx, number).Scan(&size); {
		case errors.Is(err, sql.ErrNoRows): // the file has become shorter
		case err != nil && damaged(err):
			if c.Damaged++; len(c.First) < maxNamed {
				c.First = append(c.First, uint32(number))
			}
		case err != nil:
			return c, fmt.Errorf("check page %d of %s: %w", number, r.path, err)
		}
		c.Pages++
		if number%256 == 0 {
			progress(number*pageSize, count*pageSize)
		}
	}
	return c, r.stillNewest(ctx) // an older copy that was put there since may look damaged
}
