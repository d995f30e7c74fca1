package server

import (
	"context"
	"time"

	"github.com/roost-cluster/roost/libs/node"
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

// wishLimits bound what waits for one region. What finds no room is left out: the
// core repeats it after coordinator.Config.Resend.
var wishLimits = node.OutboxLimits{
	// Some 40 bytes each, at most 140: less than the 4 MiB that service.max_body
	// allows by default.
	Call: 8192,
	// A quarter of the shards that the largest table has by default, so that a
	// region that answers is told of all of them within a few repeats.
	Messages: 65_536,
	// 8 MiB: the messages with names of 64 bytes, which are longer than most.
	Bytes: 8 << 20,
}

// size is the memory of a wish, in bytes.
func (w wish) size() int { return 64 + len(w.shard.Type) }

func (s *Server) hostShard(o coordinator.HostShard) {
	s.order(o.To, wish{term: o.Term, shard: o.Shard, epoch: o.Epoch})
}

func (s *Server) handOff(o coordinator.HandOff) {
	s.order(o.To, wish{term: o.Term, handOff: true, shard: o.Shard, epoch: o.Epoch})
}

func (s *Server) order(to sharding.NodeID, w wish) {
	if !s.wishes.Add(to, w) {
		s.telemetry.dropped.Add(s.ctx, 1)
		s.ordersFull.say(s.log, "too many messages wait for a region, the newest are left out and repeated later", "region", to)
	}
}

// sendWishes makes one call with what has gathered for a region; what is left of
// an earlier term is dropped.
func (s *Server) sendWishes(to sharding.NodeID, gathered []wish) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	term := gathered[len(gathered)-1].term
	req := &regionv1.ShardsRequest{Cluster: s.cfg.ClusterName, From: s.self.Addr, RegionUid: uint64(to.UID), Term: uint32(term)}
	for _, w := range gathered {
		switch {
		case w.term != term:
		case w.handOff:
			req.HandOff = append(req.HandOff, wire.ToShardEpoch(w.shard, w.epoch))
		default:
			req.Host = append(req.Host, wire.ToShardEpoch(w.shard, w.epoch))
		}
	}
	if _, err := regionv1.NewRegionProtobufClient(s.peers.URL(to.Addr), s.peers.Client()).Shards(ctx, req); err != nil {
		s.log.Debug("a message to a region was lost; it will be repeated", "region", to, "error", err)
	}
}
