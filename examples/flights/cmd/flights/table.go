package main

import (
	"context"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

const (
	// tablePoll is the interval of polling the route table to count moves. A shard that moves there and
	// back in between is not counted.
	tablePoll = 200 * time.Millisecond
	// quickPoll is that interval while waiting for a rebalance, whose handoffs take tens of milliseconds.
	quickPoll = 5 * time.Millisecond
	// rebalanceWait bounds the wait for a rebalance. Clusters with few shards may need none.
	rebalanceWait = 10 * time.Second
)

// Phases of rows in the admin API.
const (
	serving    = "serving"
	handingOff = "handing-off"
)

// table watches the route table of the cluster. It is safe for concurrent use.
type table struct {
	admin *adminclient.Client

	mu     sync.Mutex
	owners map[shard]string
	moved  int
}

type shard struct {
	typ   string
	index uint32
}

func newTable(admin *adminclient.Client) *table {
	return &table{admin: admin, owners: map[shard]string{}}
}

// watch counts moves until ctx ends.
func (t *table) watch(ctx context.Context) {
	poll := time.NewTicker(tablePoll)
	defer poll.Stop()
	for {
		// Without an active coordinator there is no table.
		_, _ = t.look(ctx)
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// look reads the table once.
func (t *table) look(ctx context.Context) ([]*adminv1.Shard, error) {
	res, err := t.admin.Shards(ctx, "", "")
	if err != nil {
		return nil, err
	}
	t.enter(res.Shards)
	return res.Shards, nil
}

// enter counts the shards that have another owner than before.
func (t *table) enter(rows []*adminv1.Shard) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, row := range rows {
		if row.Region == "" || row.Phase != serving {
			continue
		}
		key := shard{row.Type, row.Index}
		if old, known := t.owners[key]; known && old != row.Region {
			t.moved++
		}
		t.owners[key] = row.Region
	}
}

// moves returns how many moves there were so far.
func (t *table) moves() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moved
}

// settled returns when every shard is served, or after rebalanceWait.
func (t *table) settled(ctx context.Context) {
	t.until(ctx, func(rows []*adminv1.Shard) bool {
		return count(rows, func(r *adminv1.Shard) bool { return r.Phase != serving }) == 0
	})
}

// rebalance waits until shards are moving to a region, and returns how many; 0 if there was
// no rebalance within rebalanceWait.
func (t *table) rebalance(ctx context.Context, region string) (moving int) {
	t.until(ctx, func(rows []*adminv1.Shard) bool {
		moving = count(rows, func(r *adminv1.Shard) bool {
			return r.Phase == handingOff || r.Phase != serving && r.Region == region
		})
		return moving > 0
	})
	return moving
}

// until polls the table until it is as wanted, or rebalanceWait is over.
func (t *table) until(ctx context.Context, wanted func([]*adminv1.Shard) bool) {
	ctx, cancel := context.WithTimeout(ctx, rebalanceWait)
	defer cancel()
	poll := time.NewTicker(quickPoll)
	defer poll.Stop()
	for {
		if rows, err := t.look(ctx); err == nil && wanted(rows) {
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

func count(rows []*adminv1.Shard, is func(*adminv1.Shard) bool) (n int) {
	for _, r := range rows {
		if is(r) {
			n++
		}
	}
	return n
}
