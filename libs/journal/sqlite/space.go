package sqlite

import (
	"context"
	"fmt"
)

// purgePages is the number of unused pages that the file gives back for each purge, while there
// are any: more than the records of most entities take, and few enough that a batch with many
// purges moves some megabytes at most.
const purgePages = 64

// freePages gives unused pages back to the file system, a bounded number of them, in the
// transaction that has removed records.
func (d *Backend) freePages(n int) error {
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
