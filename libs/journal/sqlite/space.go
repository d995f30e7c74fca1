package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/roost-cluster/roost/libs/journal"
)

// purgePages is how many unused pages the file gives back for each purge, while there are any:
// more than the records of most entities take, and few enough that a batch with many purges
// moves some megabytes at most.
const purgePages = 64

// freePages gives unused pages back to the file system, a bounded number of them, in the
// transaction that has removed records. Files that were made by release 1 cannot do that before they were
// compacted, and keep the pages for what is stored next.
func (d *Driver) freePages(n int) error {
	n = min(n, checkpointPages)
	d.pagesSinceCheck += n / 2 // what is moved
	rows, err := d.conn.QueryContext(context.Background(), fmt.Sprintf("PRAGMA incremental_vacuum(%d)", n))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() { // each step frees one
	}
	return rows.Err()
}

// incremental is the mode (PRAGMA auto_vacuum) in which a file can give pages back.
const incremental = 2

// Compact writes a journal file anew, once, so that it can give pages back from then on, as
// files that are made now can. It says whether it had to; with dryRun it changes nothing. It
// takes as long as copying the file, needs as much room again, and lets nobody write meanwhile.
func Compact(ctx context.Context, path string, cfg journal.Config, dryRun bool) (changed bool, err error) {
	if _, err := os.Stat(path); err != nil {
		return false, fmt.Errorf("%w: there is no such file: %w", journal.ErrIdentity, err)
	}
	d, err := Open(ctx, path, cfg)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	var mode int
	if err := d.conn.QueryRowContext(ctx, "PRAGMA auto_vacuum").Scan(&mode); err != nil {
		return false, err
	}
	if changed = mode != incremental; !changed || dryRun {
		return changed, nil
	}
	if err := d.lock.queue.lock(ctx); err != nil {
		return true, err
	}
	defer d.lock.queue.unlock()
	_, err = d.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d; PRAGMA auto_vacuum = %d; VACUUM", cfg.CommitTimeout.Milliseconds(), incremental))
	return true, err
}
