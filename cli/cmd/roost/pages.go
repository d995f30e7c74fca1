package main

import (
	"errors"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// listed is what the flags and the argument of a listing ask for.
type listed struct {
	typ, id, after string
	limit          uint32
	failing        bool
}

// of takes the argument: nothing, a type, or an entity.
func (l *listed) of(args []string) (err error) {
	switch {
	case l.limit == 0:
		return usageError{errors.New("--limit is 0; it must be at least 1")}
	case l.failing && l.after != "":
		return usageError{errors.New("--failing cannot be combined with --after: what has failed for longest comes first")}
	}
	switch {
	case len(args) == 0:
	case len(args) == 2 || strings.Contains(args[0], "/"):
		l.typ, l.id, err = entityOf(args, "TYPE or TYPE/ID, such as Cart or Cart/dora")
	default:
		l.typ = args[0]
		if err = sharding.CheckEntityType("type", sharding.EntityType(l.typ)); err != nil {
			err = usageError{err}
		}
	}
	return err
}

// pages asks for pages until all is listed, or as much as was asked for. page returns how many
// rows there are now, and where to go on.
func (l *listed) pages(page func(after string, limit uint32) (n int, next string, err error)) error {
	for after, n := l.after, 0; n < int(l.limit); {
		var err error
		if n, after, err = page(after, l.limit-uint32(n)); err != nil || after == "" {
			return err
		}
	}
	return nil
}

// addSilent adds the regions that have not answered for a page. A region is named once.
func addSilent(all, page []*adminv1.Silent) []*adminv1.Silent {
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
