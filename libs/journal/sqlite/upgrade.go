package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/roost-cluster/roost/libs/journal"
)

// Upgrade expands the tables of a journal file to the format of this program: it creates
// one where there is none. It reports whether it had to; with dryRun it changes nothing.
// Errors wrap [journal.ErrIdentity] for a file that it cannot expand.
func Upgrade(ctx context.Context, path string, cfg journal.Config, dryRun bool) (changed bool, err error) {
	info, err := os.Stat(path)
	if changed = errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0; changed && dryRun {
		return true, nil
	}
	d, err := openTo(ctx, path, cfg, func(d *Backend, ctx context.Context) error {
		err := d.connectWriter(ctx)
		if err == nil {
			changed, err = d.expand(ctx, dryRun)
		}
		if err == nil {
			err = d.place.check()
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("upgrade journal %s: %w", path, err)
	}
	return changed, d.closeAll()
}

// expand adds to a file of an earlier format what it lacks, in one transaction. Processes of
// the release before may have it open.
func (d *Backend) expand(ctx context.Context, dryRun bool) (changed bool, err error) {
	stored, err := checkFile(ctx, d.conn)
	if errors.Is(err, errNoTables) {
		if !dryRun {
			err = d.makeSchema(ctx)
		}
		return true, err
	}
	if err != nil {
		return false, err
	}
	d.generation = stored.Generation
	if err := d.refuseOlder(ctx); err != nil {
		return false, err
	}
	facts, changed, err := stored.Expansion()
	if err != nil || !changed || dryRun {
		return changed, err
	}
	// The caller holds the queue, so that no other process expands the file meanwhile.
	script := "BEGIN IMMEDIATE;"
	for format := stored.Format + 1; format <= facts.Format; format++ {
		script += expansions[format] + ";"
	}
	script += fmt.Sprintf("UPDATE meta SET value = '%d' WHERE key = 'format'; COMMIT", facts.Format)
	_, err = d.conn.ExecContext(ctx, script)
	return true, err
}

// Activate lets no program below a format use the journal any more. It reports whether one
// could; with dryRun it changes nothing.
func Activate(ctx context.Context, path string, cfg journal.Config, format int, dryRun bool) (changed bool, err error) {
	if _, err := os.Stat(path); err != nil {
		return false, fmt.Errorf("%w: there is no such file: %w", journal.ErrIdentity, err)
	}
	d, err := Open(ctx, path, cfg)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	err = d.transact(ctx, func() error {
		facts, err := readFacts(ctx, d.conn, false)
		if err != nil {
			return err
		}
		if facts, changed, err = facts.Activation(format); err != nil || !changed || dryRun {
			return err
		}
		for key, value := range map[string]int{"min_reader": facts.MinReader, "min_writer": facts.MinWriter} {
			if _, err := d.conn.ExecContext(ctx, "UPDATE meta SET value = ? WHERE key = ?", strconv.Itoa(value), key); err != nil {
				return err
			}
		}
		return nil
	})
	return changed, err
}
