package open

import (
	"context"
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/spread"
)

// CheckPages reads every page of the files of a journal, see [PageChecker]. The result is empty for a journal without such
// files. progress is called for one file after the other.
func CheckPages(ctx context.Context, at At, cfg journal.Config, progress func(done, total int64)) (all []CheckedPages, err error) {
	databases, err := at.others()
	if err != nil {
		return nil, err
	}
	databases[spread.First] = at.URL
	for _, n := range slices.Sorted(maps.Keys(databases)) {
		store, err := find(databases[n], cfg)
		if err != nil {
			return nil, err
		}
		checker, ok := store.(PageChecker)
		if !ok {
			continue
		}
		c, err := checker.CheckPages(ctx, databases[n], cfg, progress)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}
