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

// order is a HostShard or HandOff on its way to a region. The core repeats what
// is lost.
type order struct {
	term    sharding.Term
	handOff bool
	shard   sharding.ShardID
	epoch   sharding.Epoch
}

// orderLimits bound what waits for one region. What finds no room is left out: the
// core repeats it after coordinator.Config.Resend.
var orderLimits = node.OutboxLimits{
	// Some 40 bytes each, at most 140: less than the 4 MiB that service.max_body
	// allows by default.
	Call: 8192,
	// A quarter of the shards that the largest table has by default, so that a
	// region that answers is told of all of them within a few repeats.
	Messages: 65_536,
	// 8 MiB: the messages with names of 64 bytes, which are longer than most.
	Bytes: 8 << 20,
}

// size is the memory of an order, in bytes.
func (o order) size() int { return 64 + len(o.shard.Type) }

func (s *Server) hostShard(o coordinator.HostShard) {
	s.sendOrder(o.To, order{term: o.Term, shard: o.Shard, epoch: o.Epoch})
}

func (s *Server) handOff(o coordinator.HandOff) {
	s.sendOrder(o.To, order{term: o.Term, handOff: true, shard: o.Shard, epoch: o.Epoch})
}

func (s *Server) sendOrder(to sharding.NodeID, w order) {
	if !s.orders.Add(to, w) {
		s.telemetry.dropped.Add(s.ctx, 1)
		s.ordersFull.say(s.log, "too many messages wait for a region, the newest are left out and repeated later", "region", to)
	}
}

// sendOrders makes one call with what has gathered for a region; what is left of
// an earlier term is dropped.
func (s *Server) sendOrders(to sharding.NodeID, gathered []order) {
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
