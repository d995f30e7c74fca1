package open

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
)

const packages = "github.com/roost-cluster/roost/libs/journal/"

// Backends are the linked stores. A store registers when its package is imported; package backends/all imports all of them.
var Backends = backendurl.NewRegistry[Store](journal.ErrConfig, map[string]string{
	"sqlite": packages + "sqlite", "postgres": packages + "postgres", "postgresql": packages + "postgres",
})

// Store opens the databases of one kind. Each has one URL, which Check has accepted. Errors wrap journal.ErrConfig
// for a URL that is not understood, and journal.ErrUnreachable for a store that does not answer.
type Store interface {
	// Check returns an error that wraps journal.ErrConfig, and names the mistake and the fix, unless the URL is understood.
	Check(u *url.URL) error
	Open(ctx context.Context, rawURL string, cfg journal.Config) (journal.Backend, error)
	Reader(ctx context.Context, rawURL string, cfg journal.Config) (journal.Reader, error)
	// Upgrade expands the schema to [journal.Format]; Activate bars older programs. They report whether they had to.
	Upgrade(ctx context.Context, rawURL string, cfg journal.Config, dryRun bool) (changed bool, err error)
	Activate(ctx context.Context, rawURL string, cfg journal.Config, format int, dryRun bool) (changed bool, err error)
	// Snapshot returns what a backup of the database contains, as of one moment.
	Snapshot(ctx context.Context, rawURL string, cfg journal.Config) (backup.Source, error)
	// Restore replaces the database by the one in a backup.
	Restore(ctx context.Context, rawURL string, r *backup.Reader, cfg journal.Config, o backup.Options) (backup.Restored, error)
}

// CheckedPages are the pages of a journal file that do not match their checksums.
type CheckedPages struct {
	Path    string
	Pages   int64    // that were read
	Damaged int64    // of these
	First   []uint32 // the numbers of the first damaged pages
}

// PageChecker is a [Store] that stores a checksum with each page of its files. Other stores check their pages themselves.
type PageChecker interface {
	CheckPages(ctx context.Context, rawURL string, cfg journal.Config, progress func(done, total int64)) (CheckedPages, error)
}

// storeOf returns the store of a URL.
func storeOf(rawURL string) (Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The URL itself is left out: it may hold a password.
		return nil, fmt.Errorf("%w: it cannot be parsed; write for example sqlite:///var/lib/roost/journal.db or postgres://roost@db/roost; "+
			"in a password, write %%25 for a %%, %%2F for a /, %%3F for a ? and %%23 for a #, or put it into a file (?passfile=FILE)", journal.ErrConfig)
	}
	if u.Fragment != "" {
		return nil, fmt.Errorf("%w: unknown fragment, behind #; write %%23 for a # that belongs to a password or a path", journal.ErrConfig)
	}
	store, err := Backends.Find(u.Scheme)
	if err == nil {
		err = store.Check(u)
	}
	return store, err
}

// CheckParameters refuses the parameters of a URL that its store does not know.
func CheckParameters(u *url.URL, known ...string) error {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: its parameters cannot be parsed", journal.ErrConfig)
	}
	takes := "none"
	if len(known) > 0 {
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
