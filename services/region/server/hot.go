package server

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/region"
)

// Hot returns the shards and the entities that take most of this region.
func (i inspection) Hot(ctx context.Context, req *inspectionv1.HotRequest) (*inspectionv1.HotResponse, error) {
	done, err := i.admit(ctx, req.Cluster, req.To)
	if err != nil {
		return nil, err
	}
	defer done()
	return i.s.runner.hot(ctx, req)
}

// coreHot holds the hot shards and entities of one shard core.
type coreHot struct {
	shards   []control.ShardLoad
	entities []region.HotEntity
}

// hot asks the shard cores. What takes most comes first, and is kept if the answer has no room for all.
func (s *Runner) hot(ctx context.Context, req *inspectionv1.HotRequest) (*inspectionv1.HotResponse, error) {
	of, most := sharding.EntityType(req.Type), uint32(s.cfg.InspectRows)
	shards, entities := int(min(req.Shards, most)), int(min(req.Entities, most))
	cores, err := inspect(ctx, s, func(l *shardLoop) []coreHot {
		var h coreHot
		h.shards, h.entities = l.core.Hottest(time.Now(), of, shards, entities)
		return []coreHot{h}
	})
	if err != nil {
		return nil, err
	}
	var all coreHot
	for _, h := range cores {
		all.shards, all.entities = append(all.shards, h.shards...), append(all.entities, h.entities...)
	}
	sorted.By(all.shards, func(a, b control.ShardLoad) int {
		return cmp.Or(cmp.Compare(b.Load.Weight(), a.Load.Weight()), a.Shard.Compare(b.Shard))
	})
	sorted.By(all.entities, func(a, b region.HotEntity) int {
		return cmp.Or(cmp.Compare(b.Weight(), a.Weight()), a.Entity.Compare(b.Entity))
	})
	out, room := &inspectionv1.HotResponse{}, s.cfg.InspectBytes
	for _, h := range all.shards[:min(shards, len(all.shards))] {
		x := &inspectionv1.HotShard{
			Type: string(h.Shard.Type), Index: h.Shard.Index, HandlerMicros: h.Load.HandlerMicros, MilliCommands: h.Load.MilliCommands,
			MilliWaiting: h.Load.MilliWaiting, JournalBytes: h.Load.JournalBytes, Entities: h.Load.Entities, Bytes: h.Load.Bytes,
		}
		if room -= proto.Size(x); room < 0 {
			break
		}
		out.Shards = append(out.Shards, x)
	}
	for _, h := range all.entities[:min(entities, len(all.entities))] {
		x := &inspectionv1.HotEntity{Type: string(h.Entity.Type), Id: string(h.Entity.ID), Commands: h.Commands, Handlers: h.Handlers}
		if room -= proto.Size(x); room < 0 {
			break
		}
		out.Entities = append(out.Entities, x)
	}
	return out, nil
}
