package console

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/heavyhitters"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// topDefault is the number of shards and of entities in an answer if the request names none.
const topDefault = 10

// Top asks all regions which of their shards and entities take most, and lists the heaviest of all. Nothing of it is
// known to the core, which only lists the regions and the owners of the listed shards.
func (a *API) Top(ctx context.Context, req *adminv1.TopRequest) (*adminv1.TopResponse, error) {
	shards, entities := min(req.Shards, listMost), min(req.Entities, listMost)
	if shards+entities == 0 {
		shards, entities = topDefault, topDefault
	}
	var regions []asked
	err := a.cfg.LookActive(ctx, func(core Core) error {
		hosts, err := core.Hosts(sharding.EntityType(req.Type))
		if err != nil {
			return Refusal(err)
		}
		for _, r := range hosts {
			regions = append(regions, asked{r.Node, r.Name})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	answers, silent := ask(ctx, a, regions, func(ctx context.Context, c inspectionv1.Inspection, region int) (*inspectionv1.HotResponse, error) {
		return c.Hot(ctx, &inspectionv1.HotRequest{
			Cluster: a.cfg.Cluster, To: uint64(regions[region].node.UID), Type: req.Type, Shards: shards, Entities: entities,
		})
	})
	out := &adminv1.TopResponse{Silent: silent}
	err = a.cfg.Look(ctx, func(core Core) error {
		for i, res := range answers {
			if res != nil {
				out.Regions++
				addHot(core, out, regions[i], req.Type, res.Shards[:min(int(shards), len(res.Shards))], res.Entities[:min(int(entities), len(res.Entities))])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out.Shards, func(a, b *adminv1.TopShard) int { return cmp.Compare(loadOf(b).Weight(), loadOf(a).Weight()) })
	slices.SortStableFunc(out.Entities, func(a, b *adminv1.TopEntity) int { return cmp.Compare(useOf(b).Weight(), useOf(a).Weight()) })
	out.Shards, out.Entities = out.Shards[:min(int(shards), len(out.Shards))], out.Entities[:min(int(entities), len(out.Entities))]
	return out, nil
}

// addHot lists what a region has answered, in the loop. A region is believed only about shards that it
// owns, and their entities: a shard that has just moved is listed once.
func addHot(core Core, out *adminv1.TopResponse, r asked, typ string, shards []*inspectionv1.HotShard, entities []*inspectionv1.HotEntity) {
	for _, x := range shards {
		id := sharding.ShardID{Type: sharding.EntityType(x.GetType()), Index: x.GetIndex()}
		if core.OwnerOf(id) != r.node || typ != "" && typ != x.Type {
			continue
		}
		load := sharding.Load{
			HandlerMicros: x.HandlerMicros, MilliCommands: x.MilliCommands, MilliWaiting: x.MilliWaiting,
			JournalBytes: x.JournalBytes, Entities: x.Entities, Bytes: x.Bytes,
		}.Bounded()
		out.Shards = append(out.Shards, &adminv1.TopShard{
			Type: x.Type, Index: x.Index, Region: r.name, Commands: float64(load.MilliCommands) / 1e3, Handlers: float64(load.HandlerMicros) / 1e6,
			Waiting: float64(load.MilliWaiting) / 1e3, JournalBytes: float64(load.JournalBytes), Entities: load.Entities, Bytes: load.Bytes,
		})
	}
	for _, x := range entities {
		e := sharding.Entity{Type: sharding.EntityType(x.GetType()), ID: sharding.EntityID(x.GetId())}
		if e.Check() != nil || !isRate(x.Commands) || !isRate(x.Handlers) || typ != "" && typ != x.Type {
			continue
		}
		if id := core.ShardOf(e); core.OwnerOf(id) == r.node {
			out.Entities = append(out.Entities, &adminv1.TopEntity{
				Type: x.Type, Id: x.Id, Index: id.Index, Region: r.name, Commands: x.Commands, Handlers: x.Handlers,
			})
		}
	}
}

// isRate reports whether a region may have measured a rate.
func isRate(rate float64) bool { return rate >= 0 && rate < math.MaxUint32 }

// loadOf returns what is listed of a shard as a load, which has a weight.
func loadOf(s *adminv1.TopShard) sharding.Load {
	return sharding.Load{
		HandlerMicros: uint64(s.Handlers * 1e6), MilliCommands: uint64(s.Commands * 1e3), MilliWaiting: uint64(s.Waiting * 1e3),
		JournalBytes: uint64(s.JournalBytes), Entities: s.Entities, Bytes: s.Bytes,
	}
}

func useOf(e *adminv1.TopEntity) heavyhitters.Use {
	return heavyhitters.Use{Commands: e.Commands, Handlers: e.Handlers}
}
