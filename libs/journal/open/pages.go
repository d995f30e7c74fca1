package open

import (
	"context"
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/spread"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
)

// CheckPages reads every page of the SQLite files of a journal, see [sqlite.CheckPages]. The result is empty for a journal
// without such files: other stores check their pages themselves. progress is called for one file after the other.
func CheckPages(ctx context.Context, at At, cfg journal.Config, progress func(done, total int64)) (all []sqlite.CheckedPages, err error) {
	databases, err := at.others()
	if err != nil {
		return nil, err
	}
	databases[spread.First] = at.URL
	for _, n := range slices.Sorted(maps.Keys(databases)) {
		t, err := parse(databases[n], cfg)
		if err != nil {
			return nil, err
		}
		if t.scheme != "sqlite" {
			continue
		}
		c, err := sqlite.CheckPages(ctx, t.path, cfg, progress)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}
