package server

import (
	"context"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	regionv1 "github.com/roost-cluster/roost/proto/roost/region/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// wish is a HostShard or HandOff on its way to a region. The core repeats what
// is lost.
type wish struct {
	term    sharding.Term
	handOff bool
	shard   sharding.ShardID
	epoch   sharding.Epoch
}

func (s *Server) hostShard(o coordinator.HostShard) {
	s.wishes.Add(o.To, wish{term: o.Term, shard: o.Shard, epoch: o.Epoch})
}

func (s *Server) handOff(o coordinator.HandOff) {
	s.wishes.Add(o.To, wish{term: o.Term, handOff: true, shard: o.Shard, epoch: o.Epoch})
}

// sendWishes makes one call with what has gathered for a region, each wish once;
// what is left of an earlier term is dropped.
func (s *Server) sendWishes(to sharding.NodeID, gathered []wish) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	term := gathered[len(gathered)-1].term
	req := &regionv1.ShardsRequest{Cluster: s.cfg.ClusterName, From: s.self.Addr, RegionUid: uint64(to.UID), Term: uint32(term)}
	told := make(map[wish]bool, len(gathered))
	for _, w := range gathered {
		switch {
		case w.term != term || told[w]:
		case w.handOff:
			req.HandOff = append(req.HandOff, wire.ToShardEpoch(w.shard, w.epoch))
		default:
			req.Host = append(req.Host, wire.ToShardEpoch(w.shard, w.epoch))
		}
		told[w] = true
	}
	if _, err := regionv1.NewRegionProtobufClient(s.peers.URL(to.Addr), s.peers.Client()).Shards(ctx, req); err != nil {
		s.log.Debug("a message to a region was lost; it will be repeated", "region", to, "error", err)
	}
}
