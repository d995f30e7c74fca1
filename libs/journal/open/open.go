// Package open opens journals by URL: [Open] the driver of one database alone, [Journal] the
// journal on all of its databases, [Reader] a handle that only reads.
//
//	memory:                in memory, for tests and for trying things out
//	sqlite:///path/j.db    a SQLite file, shared by the processes of one machine
//	sqlite:path/j.db       the same, relative to the working folder
//	postgres://user@host/database?sslmode=verify-full
//	                       a PostgreSQL database, shared by many machines
//
// A postgres URL takes the parameters that say where the server is and how to
// authenticate. libpq's environment variables, such as PGPASSFILE, are respected.
package open

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/journal/postgres"
	"github.com/roost-cluster/roost/libs/journal/spread"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
	"github.com/roost-cluster/roost/libs/sharding"
)

// maxDelay is the longest delay between two attempts to open a journal.
const maxDelay = 2 * time.Second

// Journal opens the databases of a journal, and the journal on them, as
// [journal.Open] does. A store that does not answer is retried for cfg.OpenFor. Before
// each pause, waits is called with the reason.
func Journal(ctx context.Context, at At, d journal.Declaration, cfg journal.Config, obs journal.Observer, waits func(error)) (*journal.Journal, error) {
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

func openOnce(ctx context.Context, at At, d journal.Declaration, cfg journal.Config, obs journal.Observer) (*journal.Journal, error) {
	driver, alone, err := at.driver(ctx, cfg)
	if err != nil {
		return nil, err
	}
	j, err := journal.Open(ctx, driver, d, cfg, obs)
	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	if alone {
		if err := spread.CheckAlone(ctx, driver); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	return j, nil
}

// Open opens the driver of the database that a URL names, without checking which cluster's journal
// it is, or whether it has other databases. It and [Reader] are the only places where drivers are listed. A URL that is not understood
// wraps journal.ErrConfig, and the error names the mistake and the fix; a store that
// does not answer wraps journal.ErrUnreachable.
func Open(ctx context.Context, rawURL string, cfg journal.Config) (journal.Driver, error) {
	t, err := parse(rawURL, cfg)
	if err != nil {
		return nil, err
	}
	var d journal.Driver
	switch t.scheme {
	case "memory":
		return memory.New(cfg), nil
	case "sqlite":
		d, err = sqlite.Open(ctx, t.path, cfg)
	default:
		d, err = postgres.Open(ctx, rawURL, cfg)
	}
	if err != nil {
		return nil, err // and not a nil pointer
	}
	return d, nil
}

// errMemory: a journal in memory is always that of its process.
var errMemory = fmt.Errorf("%w: a journal in memory belongs to one process; there is nothing to upgrade", journal.ErrConfig)

// Upgrade expands the schema of the journal that a URL names to [journal.Format], and
// creates one where there is none. It reports whether it had to; with dryRun it changes
// nothing. Errors are those of [Open].
func Upgrade(ctx context.Context, rawURL string, cfg journal.Config, dryRun bool) (changed bool, err error) {
	t, err := parse(rawURL, cfg)
	switch {
	case err != nil:
		return false, err
	case t.scheme == "memory":
		return false, errMemory
	case t.scheme == "sqlite":
		return sqlite.Upgrade(ctx, t.path, cfg, dryRun)
	}
	return postgres.Upgrade(ctx, rawURL, cfg, dryRun)
}

// Activate lets no program below [journal.Format] use the journal that a URL names any
// more. It reports whether one could; with dryRun it changes nothing. Errors are those of
// [Open].
func Activate(ctx context.Context, rawURL string, cfg journal.Config, dryRun bool) (changed bool, err error) {
	t, err := parse(rawURL, cfg)
	switch {
	case err != nil:
		return false, err
	case t.scheme == "memory":
		return false, errMemory
	case t.scheme == "sqlite":
		return sqlite.Activate(ctx, t.path, cfg, journal.Format, dryRun)
	}
	return postgres.Activate(ctx, rawURL, cfg, journal.Format, dryRun)
}

// Repair repairs an entity in a journal, as the owner of its schema and beside the processes that use
// it: see [journal.DecideRepair]. Errors are those of [Open] and of [journal.Repairer].
func Repair(ctx context.Context, at At, cfg journal.Config, r *journal.Repair) (plan journal.RepairPlan, err error) {
	d, _, err := at.driver(ctx, cfg)
	if err != nil {
		return plan, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.(journal.Repairer).Repair(ctx, r) // every driver is one, as the suite checks
}

// Fence claims a shard for a repair, see [journal.RepairFence]: its region can write nothing more. So what is read of an
// entity afterwards stays as it is, until the coordinator gives the shard to a region again, which it does within a
// second. Errors are those of [Open] and of [journal.Repairer].
func Fence(ctx context.Context, at At, cfg journal.Config, shard sharding.ShardID) (err error) {
	d, _, err := at.driver(ctx, cfg)
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

// Reader opens a handle that only reads a journal, beside the
// processes that use it. It returns the same errors as [Journal]. A journal in memory belongs to one
// process, and cannot be read by another.
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
	t, err := parse(rawURL, cfg)
	if err != nil {
		return nil, err
	}
	var r journal.Reader
	switch t.scheme {
	case "memory":
		return nil, fmt.Errorf("%w: a journal in memory: belongs to the process that has it; no other can read it", journal.ErrConfig)
	case "sqlite":
		r, err = sqlite.OpenReader(ctx, t.path, cfg)
	default:
		r, err = postgres.OpenReader(ctx, rawURL, cfg)
	}
	if err != nil {
		return nil, err // and not a nil pointer
	}
	return r, nil
}

// target is what a URL names.
type target struct {
	scheme string // memory, sqlite or postgres
	path   string // of sqlite
}

// parse refuses a URL that is not understood.
func parse(rawURL string, cfg journal.Config) (target, error) {
	if err := cfg.Validate(); err != nil {
		return target{}, err
	}
	return parseURL(rawURL)
}

func parseURL(rawURL string) (target, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The URL itself is left out: it may hold a password.
		return target{}, fmt.Errorf("%w: it cannot be parsed; write for example sqlite:///var/lib/roost/journal.db or postgres://roost@db/roost; "+
			"in a password, write %%25 for a %%, %%2F for a /, %%3F for a ? and %%23 for a #, or put it into a file (?passfile=FILE)", journal.ErrConfig)
	}
	if err := checkParameters(u); err != nil {
		return target{}, err
	}
	switch u.Scheme {
	case "memory":
		if u.Host != "" || u.Path != "" || u.Opaque != "" {
			return target{}, fmt.Errorf("%w: memory: takes nothing behind the colon", journal.ErrConfig)
		}
		return target{scheme: "memory"}, nil
	case "sqlite":
		path, err := sqlitePath(u)
		return target{scheme: "sqlite", path: path}, err
	case "postgres", "postgresql":
		if u.Opaque != "" || strings.Trim(u.Path, "/") == "" {
			return target{}, fmt.Errorf("%w: the database is missing; write for example postgres://roost@db.example.net/roost", journal.ErrConfig)
		}
		return target{scheme: "postgres"}, nil
	}
	return target{}, fmt.Errorf("%w: scheme %q is not known; use memory, sqlite or postgres", journal.ErrConfig, u.Scheme)
}

// postgresParameters are those that a postgres URL may have. Others would become
// session settings, which could break the journal's guarantees.
var postgresParameters = []string{
	"application_name", "connect_timeout", "host", "passfile", "port",
	"sslcert", "sslkey", "sslmode", "sslrootcert", "sslsni", "target_session_attrs",
}

// checkParameters refuses parameters that the driver does not know.
func checkParameters(u *url.URL) error {
	if u.Fragment != "" {
		return fmt.Errorf("%w: unknown fragment, behind #; write %%23 for a # that belongs to a password or a path", journal.ErrConfig)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: its parameters cannot be parsed", journal.ErrConfig)
	}
	takes, known := "none", []string(nil)
	if u.Scheme == "postgres" || u.Scheme == "postgresql" {
		known = postgresParameters
		takes = strings.Join(known, ", ")
	}
	var names []string
	for name := range q {
		if !slices.Contains(known, name) {
			names = append(names, backendurl.ParameterName(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%w: unknown parameter %s; %s takes %s", journal.ErrConfig, strings.Join(names, ", "), u.Scheme, takes)
}

func sqlitePath(u *url.URL) (string, error) {
	path := u.Path
	if u.Opaque != "" {
		var err error
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", fmt.Errorf("%w: its path is badly escaped", journal.ErrConfig)
		}
	}
	switch {
	case u.Host != "" || u.User != nil:
		return "", fmt.Errorf("%w: a SQLite file is on this machine, but the URL names host %q; write three slashes: sqlite:///path", journal.ErrConfig, u.Host)
	case path == "" || strings.HasSuffix(path, "/"):
		return "", fmt.Errorf("%w: the path of the SQLite file is missing; write for example sqlite:///var/lib/roost/journal.db", journal.ErrConfig)
	}
	return path, nil
}
