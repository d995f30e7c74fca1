package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// lookPage is the number of entities that are listed at a time to find out the forms stored in shards: so many that
// the time is spent in reading them.
const lookPage = 1000

// fenceShard claims a shard that belongs to no region.
func (s *Server) fenceShard(o coordinator.FenceShard) {
	s.submit(journal.Op{Claim: &o.Claim}, func(r journal.Result) {
		if r.Verdict != sharding.Durable {
			s.log.Warn("cannot claim a shard for inspection", "shard", o.Claim.Shard, "verdict", r.Verdict, "stored", r.Fence.Epoch, "error", r.Err)
		}
		s.step(coordinator.ShardFenced{Shard: o.Claim.Shard, Epoch: o.Claim.Epoch, Verdict: r.Verdict})
	})
}

// readForms reads in the background which forms are stored in shards.
func (s *Server) readForms(o coordinator.ReadForms) {
	go func() {
		begin := time.Now()
		s.log.Info("inspecting shards that no region can read", "type", o.Desc.Type, "shards", len(o.At))
		found := o.Begin()
		err := s.findInputs(s.ctx, found)
		n := 0
		if err == nil {
			n, err = s.findForms(s.ctx, o.Desc.Type, found)
		}
		in := found.Answer()
		if err != nil {
			in = found.Failed()
			s.log.Warn("inspection could not read some shards", "hint", "repeat the inspection: roost rollout look", "type", o.Desc.Type, "error", err)
		} else {
			s.log.Info("inspected shards that no region can read", "type", o.Desc.Type, "shards", len(o.At), "entities", n, "took", time.Since(begin).Round(time.Millisecond))
		}
		s.inbox.Put(func() { s.step(in) })
	}()
}

// findInputs reads the reminders and the pending sends of the shards that may have some. No region reads the sends
// that were given up.
func (s *Server) findInputs(ctx context.Context, found *coordinator.FormsFound) error {
	damaged := func(id sharding.ShardID, err error) {
		s.log.Error("cannot read reminders or sends of a shard", "hint", "the shard may need any version of the program", "shard", id, "error", err)
		found.UnknownShard(id)
	}
	shards := found.InputShards()
	err := journal.EachReminder(ctx, s.journal, shards, func(r *journal.WakeRow) error {
		if r.Err != nil {
			damaged(r.Shard, r.Err)
		}
		found.Reminder(r.Entity, &r.Input)
		return nil
	}, damaged)
	if err != nil {
		return fmt.Errorf("reading the reminders: %w", err)
	}
	err = journal.EachSend(ctx, s.journal, shards, false, func(r *journal.SendRow) error {
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
func (s *Server) findForms(ctx context.Context, typ sharding.EntityType, found *coordinator.FormsFound) (n int, err error) {
	req := journal.ListRequest{Type: typ, Limit: lookPage}
	for !found.Done() {
		page, err := s.journal.List(ctx, req)
		if err != nil {
			return n, fmt.Errorf("listing the entities: %w", err)
		}
		for _, e := range page {
			if !found.Wants(e) {
				continue
			}
			n++
			got, err := s.journal.Load(ctx, journal.LoadRequest{Entity: e, WithoutSnapshot: true})
			if errors.Is(err, journal.ErrTrimmed) { // records before the snapshot are never read; its form counts anyway
				got, err = s.journal.Load(ctx, journal.LoadRequest{Entity: e})
			}
			switch {
			case errors.Is(err, journal.ErrCorrupt):
				s.log.Error("an entity of the shard is damaged", "hint", "the shard may need any version of the program", "entity", e, "error", err)
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
