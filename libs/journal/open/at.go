package open

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/spread"
	"github.com/roost-cluster/roost/libs/sharding"
)

// At is the location of a journal.
type At struct {
	// URL is the URL of the first database, usually the only one.
	URL string `key:"url" secret:"url" help:"URL of the journal, which stores the entities and the route table, such as sqlite:/var/lib/roost/journal.db or postgres://roost@db/roost. All regions and coordinators of a cluster must use the same journal"`
	// Databases are the others, such as 2=postgres://roost@db2/roost: their numbers and URLs. An entry that does not begin with a
	// number continues with the one before, whose URL had a comma. See package spread.
	Databases []string `key:"databases" secret:"true" help:"the further databases of the journal, besides {.url}, with their numbers, such as 2=postgres://roost@db2/roost,3=postgres://roost@db3/roost. All regions and coordinators of a cluster need all of them. See docs/running/databases.md"`
	// Types says in which database a type is put when it is first declared: its number. Others are put into the first one.
	Types map[string]string `key:"types" help:"by entity type, the number of the database in which the type is put when a region first declares it, such as Order=2. Other types are put into the database of {.url}, which is 1. A type never changes its database. See docs/running/databases.md"`
}

// others returns the databases other than the first one.
func (at *At) others() (map[int]string, error) {
	all := map[int]string{}
	var texts []string
	for _, text := range at.Databases {
		if n := len(texts); n > 0 && !begins(text) { // a URL of several hosts was cut at its commas
			texts[n-1] += "," + text
			continue
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		number, rawURL, found := strings.Cut(text, "=")
		n, err := strconv.Atoi(number)
		switch {
		case !found || err != nil: // the text may hold a password
			return nil, fmt.Errorf("%w: journal.databases has an entry that is not a number with a URL; write for example 2=postgres://roost@db2.example.net/roost", journal.ErrConfig)
		case n <= spread.First || n > spread.MaxNumber:
			return nil, fmt.Errorf("%w: journal.databases has number %d; use %d to %d: journal.url is database %d", journal.ErrConfig, n, spread.First+1, spread.MaxNumber, spread.First)
		case all[n] != "":
			return nil, fmt.Errorf("%w: journal.databases has number %d twice", journal.ErrConfig, n)
		}
		all[n] = rawURL
	}
	return all, nil
}

// begins reports whether a text begins with a number and an equals sign.
func begins(text string) bool {
	number, _, found := strings.Cut(text, "=")
	_, err := strconv.Atoi(number)
	return found && err == nil
}

// types is in which database each type is wanted.
func (at *At) types(others map[int]string) (map[sharding.EntityType]int, error) {
	types := map[sharding.EntityType]int{}
	for _, name := range slices.Sorted(maps.Keys(at.Types)) {
		if err := sharding.CheckEntityType("a name in journal.types", sharding.EntityType(name)); err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(at.Types[name])
		if _, known := others[n]; err != nil || n != spread.First && !known {
			return nil, fmt.Errorf("%w: journal.types puts %s into database %q; write %d for journal.url, or a number of journal.databases", journal.ErrConfig, name, at.Types[name], spread.First)
		}
		types[sharding.EntityType(name)] = n
	}
	return types, nil
}

// Validate returns an error for URLs, numbers or types that make no sense. An empty URL is left to the caller.
func (at *At) Validate() error {
	var errs []error
	if at.URL != "" {
		if _, err := storeOf(at.URL); err != nil {
			errs = append(errs, fmt.Errorf("journal.url: %w", err))
		}
	}
	others, err := at.others()
	if err == nil {
		_, err = at.types(others)
	}
	errs = append(errs, err)
	for _, n := range slices.Sorted(maps.Keys(others)) {
		if _, err := storeOf(others[n]); err != nil {
			errs = append(errs, fmt.Errorf("journal.databases, %d: %w", n, err))
		}
	}
	return errors.Join(errs...)
}

// numbered are others, in the order of their numbers, opened by a function.
func numbered(others map[int]string, open func(ctx context.Context, rawURL string) (journal.Reader, error)) (all []spread.Database) {
	for _, n := range slices.Sorted(maps.Keys(others)) {
		all = append(all, spread.Database{Number: n, Open: func(ctx context.Context) (journal.Reader, error) {
			u, err := url.Parse(others[n])
			if err == nil && u.Scheme == "memory" {
				err = errors.New("a journal in memory has one database")
			}
			if err != nil {
				return nil, fmt.Errorf("%w: %w", journal.ErrConfig, err)
			}
			return open(ctx, others[n])
		}})
	}
	return all
}

// Backend opens the databases of a journal, without checking which cluster owns it. It returns the errors of
// [Open], and an error that wraps journal.ErrIdentity for databases that do not belong together.
func Backend(ctx context.Context, at At, cfg journal.Config) (journal.Backend, error) {
	d, _, err := at.backend(ctx, cfg)
	return d, err
}

// backend opens the databases of a journal. alone reports whether there is only one.
func (at *At) backend(ctx context.Context, cfg journal.Config) (d journal.Backend, alone bool, err error) {
	others, err := at.others()
	if err != nil {
		return nil, false, err
	}
	types, err := at.types(others)
	if err != nil {
		return nil, false, err
	}
	first, err := Open(ctx, at.URL, cfg)
	if err != nil {
		return nil, false, err
	}
	if len(others) == 0 {
		if err := spread.CheckAlone(ctx, first); err != nil {
			return nil, false, errors.Join(err, first.Close())
		}
		return first, true, nil
	}
	all, err := spread.Open(ctx, first, numbered(others, func(ctx context.Context, rawURL string) (journal.Reader, error) { return Open(ctx, rawURL, cfg) }), types)
	if err != nil {
		return nil, false, errors.Join(err, first.Close())
	}
	return all, false, nil
}
