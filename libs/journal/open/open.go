// Package open makes a journal backend from a URL.
//
//	memory:                in memory, for tests and for trying things out
//	sqlite:///path/j.db    a SQLite file, shared by the processes of one machine
//	sqlite:path/j.db       the same, relative to the working folder
//	postgres://user@host/database?sslmode=verify-full
//	                       a PostgreSQL database, shared by many machines
//
// Of a PostgreSQL connection's parameters those that say where the server is and
// whom to trust are known; what else libpq's environment
// variables say, such as PGPASSFILE, counts too.
package open

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/backend"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/journal/postgres"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
)

// ErrURL is wrapped by every refusal of a URL, with what is wrong and the fix.
var ErrURL = errors.New("bad journal URL")

// maxWait is the longest wait between two attempts to open a journal.
const maxWait = 2 * time.Second

// Journal opens the journal that a URL names, as [journal.Open] does. A store
// that does not answer is tried again for cfg.OpenFor; waiting is told of every
// attempt in vain that another one follows.
func Journal(ctx context.Context, rawURL string, d journal.Declaration, cfg journal.Config, obs journal.Observer, waiting func(error)) (*journal.Journal, error) {
	deadline := time.Now().Add(cfg.OpenFor)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, maxWait) {
		j, err := once(ctx, rawURL, d, cfg, obs)
		again := errors.Is(err, journal.ErrUnreachable) || errors.Is(err, journal.ErrNotCommitted)
		if !again || time.Now().Add(wait).After(deadline) {
			return j, err
		}
		waiting(err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

func once(ctx context.Context, rawURL string, d journal.Declaration, cfg journal.Config, obs journal.Observer) (*journal.Journal, error) {
	b, err := Backend(rawURL, cfg)
	if err != nil {
		return nil, err
	}
	j, err := journal.Open(ctx, b, d, cfg, obs)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return j, nil
}

// Backend opens the backend that a URL names, without a look at whose journal it
// is. A new backend is one case here.
func Backend(rawURL string, cfg journal.Config) (journal.Backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		// The URL itself is left out: it may hold a password.
		return nil, fmt.Errorf("%w: it cannot be parsed; write for example sqlite:///var/lib/roost/journal.db", ErrURL)
	}
	if err := checkParameters(u); err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "memory":
		if u.Host != "" || u.Path != "" || u.Opaque != "" {
			return nil, fmt.Errorf("%w: memory: takes nothing behind the colon", ErrURL)
		}
		return memory.New(cfg), nil
	case "sqlite":
		path, err := sqlitePath(u)
		if err != nil {
			return nil, err
		}
		b, err := sqlite.Open(path, cfg)
		if err != nil {
			return nil, err
		}
		return b, nil
	case "postgres", "postgresql":
		if u.Opaque != "" || strings.Trim(u.Path, "/") == "" {
			return nil, fmt.Errorf("%w: the database is missing; write for example postgres://roost@db.example.net/roost", ErrURL)
		}
		b, err := postgres.Open(rawURL, cfg)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	return nil, fmt.Errorf("%w: scheme %q is not known; use memory, sqlite or postgres", ErrURL, u.Scheme)
}

// postgresParameters are those that a postgres URL may have. Others would
// become settings of the session, which could undo what the journal promises.
var postgresParameters = []string{
	"application_name", "connect_timeout", "host", "passfile", "port",
	"sslcert", "sslkey", "sslmode", "sslrootcert", "sslsni", "target_session_attrs",
}

// checkParameters refuses parameters that the backend does not know.
func checkParameters(u *url.URL) error {
	if u.Fragment != "" {
		return fmt.Errorf("%w: unknown fragment, behind #; write %%23 for a # that belongs to a password or a path", ErrURL)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: its parameters cannot be parsed", ErrURL)
	}
	takes, known := "none", []string(nil)
	if u.Scheme == "postgres" || u.Scheme == "postgresql" {
		known = postgresParameters
		takes = strings.Join(known, ", ")
	}
	var names []string
	for name := range q {
		if !slices.Contains(known, name) {
			names = append(names, backend.ParameterName(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%w: unknown parameter %s; %s takes %s", ErrURL, strings.Join(names, ", "), u.Scheme, takes)
}

func sqlitePath(u *url.URL) (string, error) {
	path := u.Path
	if u.Opaque != "" {
		var err error
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", fmt.Errorf("%w: its path is badly escaped", ErrURL)
		}
	}
	switch {
	case u.Host != "" || u.User != nil:
		return "", fmt.Errorf("%w: a SQLite file is on this machine, but the URL names host %q; write three slashes: sqlite:///path", ErrURL, u.Host)
	case path == "" || strings.HasSuffix(path, "/"):
		return "", fmt.Errorf("%w: the path of the SQLite file is missing; write for example sqlite:///var/lib/roost/journal.db", ErrURL)
	}
	return path, nil
}
