package server

import (
	"context"
	"sync"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/entitylist"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/region"
)

// Entities lists the entities in memory.
func (i inspection) Entities(ctx context.Context, req *inspectionv1.EntitiesRequest) (*inspectionv1.EntitiesResponse, error) {
	done, err := i.admit(ctx, req.Cluster, req.To)
	if err != nil {
		return nil, err
	}
	defer done()
	return i.s.runner.entities(ctx, req)
}

// maxRunning is the longest time that a question may give: a year is longer than any turn runs.
const maxRunning = 365 * 24 * time.Hour

// entityPage is a part of a list of entities in memory.
type entityPage = entitylist.Page[turn.EntityStatus]

// entities asks the shard cores which entities they have in memory.
func (s *Runner) entities(ctx context.Context, req *inspectionv1.EntitiesRequest) (*inspectionv1.EntitiesResponse, error) {
	switch {
	case req.Index != nil && req.Type == "":
		return nil, twirp.NewError(twirp.InvalidArgument, "index is given without type")
	case req.RunningMs < 0 || req.RunningMs > maxRunning.Milliseconds():
		return nil, twirp.NewErrorf(twirp.InvalidArgument, "running_ms is %d, must be 0 to %d", req.RunningMs, maxRunning.Milliseconds())
	}
	q := region.EntityQuery{
		Type: sharding.EntityType(req.Type), Shard: req.Index, Prefix: req.Prefix, RunningFor: time.Duration(req.RunningMs) * time.Millisecond,
		Limit: min(int(req.Limit), s.cfg.InspectRows), Look: s.cfg.InspectLook,
	}
	from := entitylist.Position{Shard: sharding.ShardID{Type: sharding.EntityType(req.After.GetType()), Index: req.After.GetIndex()}, ID: sharding.EntityID(req.After.GetId())}
	page, err := s.entityPage(ctx, q, from)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	out, room := &inspectionv1.EntitiesResponse{}, s.cfg.InspectBytes
	for i := range page.Rows {
		x := toActiveEntity(&page.Rows[i], now)
		if room -= proto.Size(x); room < 0 && i > 0 {
			last := positionOf(page.Rows[i-1])
			page.Next = &last
			break
		}
		out.Entities = append(out.Entities, x)
	}
	if n := page.Next; n != nil {
		out.Next = &inspectionv1.EntityPosition{Type: string(n.Shard.Type), Index: n.Shard.Index, Id: string(n.ID)}
	}
	return out, nil
}

func positionOf(e turn.EntityStatus) entitylist.Position {
	return entitylist.Position{Shard: e.Shard, ID: e.Entity.ID}
}

// entityPage asks each shard core in steps, between which it does its work, until all cores have
// answered enough, or the time for that is over.
func (s *Runner) entityPage(ctx context.Context, q region.EntityQuery, from entitylist.Position) (entityPage, error) {
	until := time.Now().Add(s.cfg.InspectTime)
	pages, errs := make([]entityPage, len(s.shards)), make([]error, len(s.shards))
	var cores sync.WaitGroup
	for i, l := range s.shards {
		cores.Go(func() { pages[i], errs[i] = s.entitiesOf(ctx, l, q, from, until) })
	}
	cores.Wait()
	for _, err := range errs {
		if err != nil {
			return entityPage{}, err
		}
	}
	return entitylist.Merge(pages, q.Limit, positionOf), nil
}

func (s *Runner) entitiesOf(ctx context.Context, l *shardLoop, q region.EntityQuery, from entitylist.Position, until time.Time) (all entityPage, _ error) {
	for {
		page, err := inspectCore(ctx, s, l, func() entityPage { return l.core.Entities(time.Now(), q, from) })
		if err != nil {
			return entityPage{}, err
		}
		all.Rows, all.Next = append(all.Rows, page.Rows...), page.Next
		if q.Limit -= len(page.Rows); page.Next == nil || q.Limit <= 0 || time.Now().After(until) {
			return all, nil
		}
		from = *page.Next
	}
}

func toActiveEntity(e *turn.EntityStatus, now time.Time) *inspectionv1.ActiveEntity {
	return &inspectionv1.ActiveEntity{
		Type: string(e.Entity.Type), Id: string(e.Entity.ID), Index: e.Shard.Index, Epoch: uint64(e.Epoch), State: e.State,
		Mailbox: uint32(e.Mailbox), OldestMs: age(now, e.OldestSince),
		Running: e.Running, RunningMs: age(now, e.RunningSince), RunningSinceUnixMs: unixMs(e.RunningSince),
		WaitsForType: string(e.WaitsFor.Type), WaitsForId: string(e.WaitsFor.ID),
		IdleMs: age(now, e.IdleSince), Record: e.Durable, Staged: e.Staged, Bytes: uint64(max(0, e.Bytes)),
	}
}

// age returns the time since t, in milliseconds, at least one; 0: there is none.
func age(now, t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(1, now.Sub(t).Milliseconds())
}
