package server

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/server/stored"
)

// Shards lists the shards that this region holds, with their contents in memory.
func (i inspection) Shards(ctx context.Context, req *inspectionv1.ShardsRequest) (*inspectionv1.ShardsResponse, error) {
	done, err := i.admit(ctx, req.Cluster, req.To)
	if err != nil {
		return nil, err
	}
	defer done()
	return i.s.runner.holdings(ctx, req)
}

// holdings asks the shard cores.
func (s *Runner) holdings(ctx context.Context, req *inspectionv1.ShardsRequest) (*inspectionv1.ShardsResponse, error) {
	after := sharding.ShardID{Type: sharding.EntityType(req.After.GetType()), Index: req.After.GetIndex()}
	limit := min(int(req.Limit), s.cfg.InspectRows)
	cores, err := inspect(ctx, s, func(l *shardLoop) []region.Holdings {
		return []region.Holdings{l.core.Holdings(time.Now(), sharding.EntityType(req.Type), after, limit)}
	})
	if err != nil {
		return nil, err
	}
	out, room := &inspectionv1.ShardsResponse{}, s.cfg.InspectBytes
	var shards []region.HeldShard
	types := map[sharding.EntityType]region.HeldType{}
	for _, c := range cores {
		out.Buffered, out.BufferedBytes, out.More = out.Buffered+uint32(c.Buffered), out.BufferedBytes+uint64(c.BufferedBytes), out.More || c.More
		shards = append(shards, c.Shards...)
		for _, t := range c.Types {
			sum := types[t.Type]
			types[t.Type] = region.HeldType{Type: t.Type, Shards: sum.Shards + t.Shards, Load: sum.Load.Plus(t.Load)}
		}
	}
	for _, t := range types { // order-free: sorted below
		x := &inspectionv1.HeldType{
			Type: string(t.Type), Shards: uint32(t.Shards), Entities: t.Load.Entities, Bytes: t.Load.Bytes,
			MilliWaiting: t.Load.MilliWaiting, MilliCommands: t.Load.MilliCommands, HandlerMicros: t.Load.HandlerMicros, JournalBytes: t.Load.JournalBytes,
		}
		room -= proto.Size(x)
		out.Types = append(out.Types, x)
	}
	slices.SortFunc(out.Types, func(a, b *inspectionv1.HeldType) int { return cmp.Compare(a.Type, b.Type) })
	slices.SortFunc(shards, func(a, b region.HeldShard) int { return a.Shard.Compare(b.Shard) })
	for i := range shards {
		x := toHeldShard(&shards[i])
		if room -= proto.Size(x); room < 0 || i == limit {
			out.More = true
			break
		}
		out.Shards = append(out.Shards, x)
	}
	return out, nil
}

func toHeldShard(h *region.HeldShard) *inspectionv1.HeldShard {
	return &inspectionv1.HeldShard{
		Type: string(h.Shard.Type), Index: h.Shard.Index, Epoch: uint64(h.Epoch), Phase: h.Phase, Buffered: uint32(h.Buffered),
		Entities: h.Load.Entities, Bytes: h.Load.Bytes, MilliWaiting: h.Load.MilliWaiting, MilliCommands: h.Load.MilliCommands,
		HandlerMicros: h.Load.HandlerMicros, JournalBytes: h.Load.JournalBytes,
	}
}

// inspectTimers is the maximum number of timers of an entity in an answer: as many as an operator can read.
const inspectTimers = 20

// Entity tells all about one entity in memory.
func (i inspection) Entity(ctx context.Context, req *inspectionv1.EntityRequest) (*inspectionv1.EntityResponse, error) {
	done, err := i.admit(ctx, req.Cluster, req.To)
	if err != nil {
		return nil, err
	}
	defer done()
	return i.s.runner.entity(ctx, sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)})
}

func (s *Runner) entity(ctx context.Context, of sharding.Entity) (*inspectionv1.EntityResponse, error) {
	found, err := inspect(ctx, s, func(l *shardLoop) []*inspectionv1.EntityResponse {
		now := time.Now()
		e, ok := l.core.Entity(of)
		if !ok {
			return nil
		}
		out := &inspectionv1.EntityResponse{Entity: toActiveEntity(&e, now)}
		timers, all := l.core.Timers(of, inspectTimers)
		for i := range timers {
			out.Timers = append(out.Timers, toTimer(&timers[i], now))
		}
		out.UnlistedTimers = uint32(all - len(timers))
		return []*inspectionv1.EntityResponse{out}
	})
	if err != nil || len(found) == 0 {
		return &inspectionv1.EntityResponse{}, err
	}
	return found[0], nil
}

func toTimer(t *turn.TimerStatus, now time.Time) *inspectionv1.Timer {
	return &inspectionv1.Timer{
		Name: strings.ToValidUTF8(t.Name, "\ufffd"), Command: t.Command, DueMs: max(0, t.Due.Sub(now).Milliseconds()), PeriodMs: t.Every.Milliseconds(),
	}
}

// maxShownState is the longest state that is shown, in bytes. A longer one is not read by people.
const maxShownState = 1 << 20

// State returns the state of an entity, from a copy that is made for the answer. One copy is made at a
// time, and other questions need not wait for it.
func (i inspection) State(ctx context.Context, req *inspectionv1.StateRequest) (*inspectionv1.StateResponse, error) {
	done, err := i.admitTo(ctx, i.copying, req.Cluster, req.To)
	if err != nil {
		return nil, err
	}
	defer done()
	if !i.s.cfg.ShowPayloads {
		return nil, twirp.NewErrorf(twirp.PermissionDenied, "%s shows no state of entities; set region.show_payloads there to allow it", i.s.name)
	}
	of := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	return i.s.runner.state(ctx, of, sharding.ShardID{Type: of.Type, Index: req.Index})
}

func (s *Runner) state(ctx context.Context, of sharding.Entity, shard sharding.ShardID) (*inspectionv1.StateResponse, error) {
	typ, ok := s.types[of.Type]
	if !ok {
		return nil, twirp.NewErrorf(twirp.NotFound, "%s does not host %s", s.name, of.Type)
	}
	for i := range s.descs {
		if d := &s.descs[i].Desc; d.Type == of.Type && d.Volatile {
			return nil, twirp.NewErrorf(twirp.FailedPrecondition, "%s is volatile: its state is only in the memory of its instance, and is not shown", of.Type)
		}
	}
	found, _, err := stored.Load(ctx, s.journal, typ, journal.LoadRequest{Entity: of, Shard: shard, Background: true})
	if err != nil {
		return nil, twirp.NewError(twirp.Unavailable, "the stored data cannot be loaded: "+err.Error())
	}
	var b []byte
	err = twirp.NewError(twirp.DataLoss, "the state cannot be made from the stored data: "+instance.ErrGoexit.Error())
	loop.Apart(func() { b, err = writeState(typ, of.ID, &found) })
	if err != nil {
		return nil, err
	}
	out := &inspectionv1.StateResponse{Record: found.LastSeq, Bytes: uint64(len(b)), Json: json.Valid(b)}
	if len(b) <= maxShownState {
		out.State = b
	}
	return out, nil
}

// writeState returns the state that a loaded entity describes, as a snapshot has it.
func writeState(typ entity.Definition, id sharding.EntityID, found *journal.Loaded) ([]byte, error) {
	inst, err := stored.Rebuild(typ, id, found)
	if err != nil {
		return nil, twirp.NewError(twirp.DataLoss, "the state cannot be made from the stored data: "+err.Error())
	}
	_, b, err := inst.Snapshot()
	if err != nil {
		return nil, twirp.NewError(twirp.FailedPrecondition, "the state cannot be written down: "+err.Error())
	}
	return b, nil
}
