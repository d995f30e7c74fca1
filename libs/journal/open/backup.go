package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/journal/spread"
)

// Backup writes a backup of a journal to out, while processes use it, and returns the header of each database. The
// moments of several databases differ a little. The first one is backed up at the latest moment, because its facts must
// not be older than the data in the others. progress is called periodically with the bytes done and an estimate of the
// total. Errors are as for [Reader].
func Backup(ctx context.Context, at At, cfg journal.Config, out io.Writer, progress func(done, total int64)) (headers []backup.Header, err error) {
	others, err := at.others()
	if err != nil {
		return nil, err
	}
	r, err := Reader(ctx, at, cfg) // which checks that these are the databases of one journal
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var sources []backup.Source
	defer func() {
		for _, s := range sources {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, n := range append(slices.Sorted(maps.Keys(others)), spread.First) {
		rawURL := others[n]
		if n == spread.First {
			rawURL = at.URL
		}
		s, err := snapshot(ctx, rawURL, cfg)
		if err != nil {
			return nil, err
		}
		if len(others) > 0 {
			s = backup.Numbered(s, n)
		}
		sources = append([]backup.Source{s}, sources...)
	}
	slices.SortFunc(sources, func(a, b backup.Source) int { return a.Header().Number - b.Header().Number })
	return backup.Write(ctx, out, sources, progress)
}

func snapshot(ctx context.Context, rawURL string, cfg journal.Config) (backup.Source, error) {
	store, err := find(rawURL, cfg)
	if err != nil {
		return nil, err
	}
	return store.Snapshot(ctx, rawURL, cfg)
}

// Restore puts the journal of a backup at a place, and returns the result for each database. Nothing is changed if it
// fails, unless there are several databases. Then the whole file is read, and every database looked at, before the
// first one is changed. If that is interrupted afterwards, no process can use the databases until they are restored
// again: the first one has another generation than the others belong to. file opens the file; of several databases it
// is called twice. It returns the errors of [Open], [backup.Reader] and [backup.Plan].
func Restore(ctx context.Context, at At, file func() (*backup.Reader, error), cfg journal.Config, o backup.Options) ([]backup.Restored, error) {
	r, err := file()
	if err != nil {
		return nil, err
	}
	others, err := at.others()
	if err != nil {
		return nil, err
	}
	if r.Header().Databases <= 1 {
		if len(others) > 0 {
			return nil, fmt.Errorf("%w: the backup is of one database, and journal.databases names %d more; leave them out to restore a journal of one database", journal.ErrConfig, len(others))
		}
		done, err := restore(ctx, at.URL, r, cfg, o)
		return []backup.Restored{done}, err
	}
	dry := o
	dry.DryRun = true
	all, err := restoreAll(ctx, at.URL, others, r, cfg, dry)
	if err != nil || o.DryRun {
		return all, err
	}
	for i := range all {
		o.Highest = max(o.Highest, all[i].Header.Facts.MaxEpoch, all[i].Replaced.Facts.MaxEpoch)
	}
	if r, err = file(); err != nil {
		return nil, err
	}
	return restoreAll(ctx, at.URL, others, r, cfg, o)
}

// restoreAll restores the databases in the order of the file, the first one first.
func restoreAll(ctx context.Context, first string, others map[int]string, r *backup.Reader, cfg journal.Config, o backup.Options) (all []backup.Restored, err error) {
	for n := r.Header().Databases; ; {
		number := r.Header().Number
		rawURL, given := others[number]
		if number == spread.First {
			rawURL, given = first, true
		}
		if !given || n != len(others)+1 {
			return all, fmt.Errorf("%w: the backup has %d databases, one of them with number %d; name a place for each of them, by its number, in journal.url and journal.databases, and no other", journal.ErrConfig, n, number)
		}
		if len(all) == 0 && number != spread.First {
			return all, fmt.Errorf("%w: it does not begin with database %d", backup.ErrDamaged, spread.First)
		}
		done, err := restore(ctx, rawURL, r, cfg, o)
		if err == nil && number != spread.First && !o.DryRun {
			err = renew(ctx, rawURL, cfg, all[0])
		}
		if err != nil {
			return all, fmt.Errorf("database %d of the journal: %w", number, err)
		}
		all = append(all, done)
		if err := r.Database(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return all, err
		}
	}
	if len(all) != len(others)+1 {
		return all, fmt.Errorf("%w: it ends after %d of %d databases", backup.ErrDamaged, len(all), len(others)+1)
	}
	return all, nil
}

// renew stores in a restored database the new generation of the first one, so that they belong
// together.
func renew(ctx context.Context, rawURL string, cfg journal.Config, first backup.Restored) error {
	d, err := Open(ctx, rawURL, cfg)
	if err != nil {
		return err
	}
	return errors.Join(spread.Renew(ctx, d, first.Facts.Generation), d.Close())
}

func restore(ctx context.Context, rawURL string, r *backup.Reader, cfg journal.Config, o backup.Options) (backup.Restored, error) {
	store, err := find(rawURL, cfg)
	if err != nil {
		return backup.Restored{}, err
	}
	return store.Restore(ctx, rawURL, r, cfg, o)
}
