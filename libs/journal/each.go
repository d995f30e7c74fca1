package journal

import (
	"context" // pure: handed on
	"errors"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Pages reads pages of entries: a Journal (package commit) does, and a [Reader].
type Pages interface {
	Wakes(ctx context.Context, req WakesRequest) (WakesPage, error)
	Sends(ctx context.Context, req SendsRequest) (SendsPage, error)
}

const (
	// [EachReminder] and [EachSend] read eachEntries entries of each of eachShards shards at a time. These
	// are so many that most of the time is spent in reading.
	eachShards  = 64
	eachEntries = 1000
)

// EachReminder visits the reminders that stand in shards, and reads them in pages. It calls damaged
// for the shards whose entries cannot be read. It returns an error if it could not go on, or the error
// of visit.
func EachReminder(ctx context.Context, from Pages, shards []sharding.ShardID, visit func(*WakeEntry) error, damaged func(sharding.ShardID, error)) error {
	e := each[ShardPosition, WakeEntry]{
		read: func(at []ShardPosition) (WakesPage, error) {
			return from.Wakes(ctx, WakesRequest{Shards: at, Limit: eachEntries})
		},
		shard:   func(p *ShardPosition) sharding.ShardID { return p.Shard },
		of:      func(r *WakeEntry) sharding.ShardID { return r.Shard },
		after:   func(r *WakeEntry) ShardPosition { return ShardPosition{Shard: r.Shard, After: r.Position()} },
		visit:   visit,
		damaged: damaged,
	}
	at := make([]ShardPosition, len(shards))
	for i, s := range shards {
		at[i].Shard = s
	}
	return e.run(at)
}

// EachSend is EachReminder for records with pending sends, or with dead letters.
func EachSend(ctx context.Context, from Pages, shards []sharding.ShardID, dead bool, visit func(*SendEntry) error, damaged func(sharding.ShardID, error)) error {
	e := each[SendPosition, SendEntry]{
		read: func(at []SendPosition) (SendsPage, error) {
			return from.Sends(ctx, SendsRequest{Shards: at, Dead: dead, Limit: eachEntries})
		},
		shard:   func(p *SendPosition) sharding.ShardID { return p.Shard },
		of:      func(r *SendEntry) sharding.ShardID { return r.Shard },
		after:   (*SendEntry).Position,
		visit:   visit,
		damaged: damaged,
	}
	at := make([]SendPosition, len(shards))
	for i, s := range shards {
		at[i].Shard = s
	}
	return e.run(at)
}

// each visits entries R of shards at positions P.
type each[P, R any] struct {
	read    func([]P) (Page[R], error)
	shard   func(*P) sharding.ShardID
	of      func(*R) sharding.ShardID
	after   func(*R) P
	visit   func(*R) error
	damaged func(sharding.ShardID, error)
}

func (e *each[P, R]) run(from []P) error {
	for n := eachShards; len(from) > 0; {
		n = min(n, len(from))
		page, err := e.read(from[:n])
		switch {
		case errors.Is(err, ErrCorrupt) && n > 1: // until the damaged shards are alone
			n /= 2
			continue
		case errors.Is(err, ErrCorrupt):
			e.damaged(e.shard(&from[0]), err)
			from = from[1:]
			continue
		case err != nil:
			return err
		}
		for _, d := range page.Damaged {
			e.damaged(d.Shard, d.Err)
		}
		left, err := e.page(from[:n], &page)
		if err != nil {
			return err
		}
		from, n = append(left, from[n:]...), eachShards
	}
	return nil
}

// page visits the entries of a page, and returns the positions after which there are more entries.
func (e *each[P, R]) page(at []P, page *Page[R]) (left []P, err error) {
	entries := page.Entries
	for i := range at {
		p := at[i]
		for len(entries) > 0 && e.of(&entries[0]) == e.shard(&p) {
			if err := e.visit(&entries[0]); err != nil {
				return nil, err
			}
			p, entries = e.after(&entries[0]), entries[1:]
		}
		if slices.Contains(page.More, e.shard(&p)) {
			left = append(left, p)
		}
	}
	return left, nil
}
