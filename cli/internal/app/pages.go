package app

import (
	"errors"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// Listed holds the flags and the argument of a listing.
type Listed struct {
	Type, ID, After string
	Limit           uint32
	Failing         bool
}

// Of takes the argument: nothing, a type, or an entity.
func (l *Listed) Of(args []string) (err error) {
	switch {
	case l.Limit == 0:
		return usageError{errors.New("--limit is 0; it must be at least 1")}
	case l.Failing && l.After != "":
		return usageError{errors.New("--failing cannot be combined with --after: what has failed for longest comes first")}
	}
	switch {
	case len(args) == 0:
	case len(args) == 2 || strings.Contains(args[0], "/"):
		l.Type, l.ID, err = EntityOf(args, "TYPE or TYPE/ID, such as Cart or Cart/dora")
	default:
		l.Type = args[0]
		if err = sharding.CheckEntityType("type", sharding.EntityType(l.Type)); err != nil {
			err = usageError{err}
		}
	}
	return err
}

// Pages asks for pages until all is listed, or as much as was asked for. page returns how many
// rows there are now, and where to go on.
func (l *Listed) Pages(page func(after string, limit uint32) (n int, next string, err error)) error {
	for after, n := l.After, 0; n < int(l.Limit); {
		var err error
		if n, after, err = page(after, l.Limit-uint32(n)); err != nil || after == "" {
			return err
		}
	}
	return nil
}

// AddSilent adds the regions that have not answered for a page. A region is named once.
func AddSilent(all, page []*adminv1.Silent) []*adminv1.Silent {
	named := map[string]bool{}
	for _, s := range all {
		named[s.Region] = true
	}
	for _, s := range page {
		if !named[s.Region] {
			all = append(all, s)
		}
	}
	return all
}
