// Package open opens journals by URL: [Open] the backend of one database alone, [Journal] the
// journal on all of its databases, [Reader] a handle that only reads. [Backends] lists the kinds of databases in
// which a journal can be, by the schemes of their URLs:
//
//	memory:                in memory, for tests and for trying things out
//	sqlite:///path/j.db    a SQLite file, shared by the processes of one machine
//	sqlite:path/j.db       the same, relative to the working folder
//	postgres://user@host/database?sslmode=verify-full
//	                       a PostgreSQL database, shared by many machines
//
// A postgres URL takes the parameters that name the server and how to authenticate. libpq's environment variables, for
// example PGPASSFILE, are respected.
package open

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/spread"
	"github.com/roost-cluster/roost/libs/sharding"
)

// maxDelay is the longest delay between two attempts to open a journal.
const maxDelay = 2 * time.Second

// Journal opens the databases of a journal, and the journal on them, as
// [commit.Open] does. A store that does not answer is retried for cfg.OpenFor. Before
// each pause, waits is called with the reason.
func Journal(ctx context.Context, at At, d journal.Declaration, cfg journal.Config, obs commit.Observer, waits func(error)) (*commit.Journal, error) {
	deadline := time.Now().Add(cfg.OpenFor)
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, maxDelay) {
		j, err := openOnce(ctx, at, d, cfg, obs)
		retry := errors.Is(err, journal.ErrUnreachable) || errors.Is(err, journal.ErrNotCommitted)
		if !retry || time.Now().Add(delay).After(deadline) {
			return j, err
		}
		waits(fmt.Errorf("the journal does not answer yet, trying again: %w", err))
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

func openOnce(ctx context.Context, at At, d journal.Declaration, cfg journal.Config, obs commit.Observer) (*commit.Journal, error) {
	backend, alone, err := at.backend(ctx, cfg)
	if err != nil {
		return nil, err
	}
	j, err := commit.Open(ctx, backend, d, cfg, obs)
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	if alone {
		if err := spread.CheckAlone(ctx, backend); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	return j, nil
}

// Open opens the backend of the database that a URL names, without checking which cluster's journal
// it is, or whether it has other databases. The error for a URL
// that is not understood wraps journal.ErrConfig, and names the mistake and the fix; that for a store that does not
// answer wraps journal.ErrUnreachable.
func Open(ctx context.Context, rawURL string, cfg journal.Config) (journal.Backend, error) {
	store, err := find(rawURL, cfg)
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, rawURL, cfg)
}

// Upgrade expands the schema of the journal that a URL names to [journal.Format], and creates
// one where there is none. It reports whether it had to; with dryRun it changes nothing. It
// returns the errors of [Open].
func Upgrade(ctx context.Context, rawURL string, cfg journal.Config, dryRun bool) (changed bool, err error) {
	store, err := find(rawURL, cfg)
	if err != nil {
		return false, err
	}
	return store.Upgrade(ctx, rawURL, cfg, dryRun)
}

// Activate locks programs below [journal.Format] out of the journal that a URL names. It
// reports whether such programs could use it before; with dryRun it changes nothing. It returns
// the errors of [Open].
func Activate(ctx context.Context, rawURL string, cfg journal.Config, dryRun bool) (changed bool, err error) {
	store, err := find(rawURL, cfg)
	if err != nil {
		return false, err
	}
	return store.Activate(ctx, rawURL, cfg, journal.Format, dryRun)
}

// Repair repairs an entity in a journal, as the owner of its schema and while processes use it: see
// [journal.DecideRepair]. It returns the errors of [Open] and of [journal.Repairer].
func Repair(ctx context.Context, at At, cfg journal.Config, r *journal.Repair) (plan journal.RepairPlan, err error) {
	d, _, err := at.backend(ctx, cfg)
	if err != nil {
		return plan, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.(journal.Repairer).Repair(ctx, r) // every backend is one, as the suite checks
}

// Fence claims a shard for a repair, see [journal.RepairFence]: its region can write nothing more. So the stored data
// of its entities does not change until the coordinator assigns the shard to a region again, which it does within a
// second. It returns the errors of [Open] and of [journal.Repairer].
func Fence(ctx context.Context, at At, cfg journal.Config, shard sharding.ShardID) (err error) {
	d, _, err := at.backend(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	f := sharding.Fence{}
	for range 3 { // the fence may rise between the read and the claim
		results, err := d.Commit(ctx, []journal.Op{{Fence: &sharding.ReadFence{Shard: shard, Epoch: f.Epoch}}})
		if err != nil {
			return err
		}
		if f = results[0].Fence; f.Epoch == 0 {
			return fmt.Errorf("%w: no region ever had shard %s, so the entity is in another one: name it with --shard", journal.ErrRepair, shard)
		}
		own, err := journal.RepairFence(f)
		if err != nil {
			return err
		}
		if results, err = d.Commit(ctx, []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: own.Epoch, Owner: own.Owner}}}); err != nil {
			return err
		}
		switch v := results[0].Verdict; v {
		case sharding.Durable:
			return nil
		case sharding.RefusedEpoch:
		default:
			return fmt.Errorf("%w: the claim of shard %s was refused: %v", journal.ErrRepair, shard, v)
		}
	}
	return fmt.Errorf("%w: shard %s is claimed again and again; look at the log of the coordinator", journal.ErrRepair, shard)
}

// Reader opens a handle that only reads a journal, while processes use it. It returns the same
// errors as [Journal]. A journal in memory belongs to one process, and cannot be read by another.
func Reader(ctx context.Context, at At, cfg journal.Config) (journal.Reader, error) {
	others, err := at.others()
	if err != nil {
		return nil, err
	}
	first, err := reader(ctx, at.URL, cfg)
	if err != nil {
		return nil, err
	}
	if len(others) == 0 {
		if err := spread.CheckAlone(ctx, first); err != nil {
			return nil, errors.Join(err, first.Close())
		}
		return first, nil
	}
	all, err := spread.OpenReader(ctx, first, numbered(others, func(ctx context.Context, rawURL string) (journal.Reader, error) { return reader(ctx, rawURL, cfg) }))
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	return all, nil
}

// reader opens a handle that only reads one database.
func reader(ctx context.Context, rawURL string, cfg journal.Config) (journal.Reader, error) {
	store, err := find(rawURL, cfg)
	if err != nil {
		return nil, err
	}
	return store.Reader(ctx, rawURL, cfg)
}

// find returns the store of a URL, if the configuration is valid.
func find(rawURL string, cfg journal.Config) (Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return storeOf(rawURL)
}
