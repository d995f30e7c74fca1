package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// lookPage is the number of entities that are listed at a time to find out the forms stored in shards: so many that
// the time is spent in reading them.
const lookPage = 1000

// StoredForms finds out which forms are stored in shards.
type StoredForms struct {
	Journal Journal
	Log     *slog.Logger
}

// Read reads the journal for a request of the core, and returns the answer.
func (s StoredForms) Read(ctx context.Context, o coordinator.ReadForms) coordinator.Input {
	begin := time.Now()
	s.Log.Info("inspecting shards that no region can read", "type", o.Desc.Type, "shards", len(o.At))
	found := o.Begin()
	err := s.findInputs(ctx, found)
	n := 0
	if err == nil {
		n, err = s.findForms(ctx, o.Desc.Type, found)
	}
	if err != nil {
		s.Log.Warn("inspection could not read some shards", "hint", "repeat the inspection: roost rollout look", "type", o.Desc.Type, "error", err)
		return found.Failed()
	}
	s.Log.Info("inspected shards that no region can read", "type", o.Desc.Type, "shards", len(o.At), "entities", n, "took", time.Since(begin).Round(time.Millisecond))
	return found.Answer()
}

// findInputs reads the reminders and the pending sends of the shards that may have some. No region reads the sends
// that were given up.
func (s StoredForms) findInputs(ctx context.Context, found *coordinator.FormsFound) error {
	damaged := func(id sharding.ShardID, err error) {
		s.Log.Error("cannot read reminders or sends of a shard", "hint", "the shard may need any version of the program", "shard", id, "error", err)
		found.UnknownShard(id)
	}
	shards := found.InputShards()
	err := journal.EachReminder(ctx, s.Journal, shards, func(r *journal.WakeEntry) error {
		if r.Err != nil {
			damaged(r.Shard, r.Err)
		}
		found.Reminder(r.Entity, &r.Input)
		return nil
	}, damaged)
	if err != nil {
		return fmt.Errorf("reading the reminders: %w", err)
	}
	err = journal.EachSend(ctx, s.Journal, shards, false, func(r *journal.SendEntry) error {
		if r.Err != nil {
			damaged(r.Shard, r.Err)
		}
		for place := range r.Sends {
			if x := &r.Sends[place]; x.ReplyTo != "" && r.States.Of(place) == sharding.SendPending {
				found.ReplyTo(r.Entity, x.ReplyTo)
			}
		}
		return nil
	}, damaged)
	if err != nil {
		return fmt.Errorf("reading the sends: %w", err)
	}
	return nil
}

// findForms reads the entities of a type that are wanted, and returns how many those are.
func (s StoredForms) findForms(ctx context.Context, typ sharding.EntityType, found *coordinator.FormsFound) (n int, err error) {
	req := journal.ListRequest{Type: typ, Limit: lookPage}
	for !found.Done() {
		page, err := s.Journal.List(ctx, req)
		if err != nil {
			return n, fmt.Errorf("listing the entities: %w", err)
		}
		for _, e := range page {
			if !found.Wants(e) {
				continue
			}
			n++
			got, err := s.Journal.Load(ctx, journal.LoadRequest{Entity: e, WithoutSnapshot: true})
			if errors.Is(err, journal.ErrTrimmed) { // records before the snapshot are never read; its form counts anyway
				got, err = s.Journal.Load(ctx, journal.LoadRequest{Entity: e})
			}
			switch {
			case errors.Is(err, journal.ErrCorrupt):
				s.Log.Error("an entity of the shard is damaged", "hint", "the shard may need any version of the program", "entity", e, "error", err)
				found.Unknown(e)
			case err != nil:
				return n, fmt.Errorf("reading %s: %w", e, err)
			default:
				found.Stored(e, got.Records)
			}
		}
		if len(page) < req.Limit {
			break
		}
		req.After = page[len(page)-1]
	}
	return n, nil
}
