package server

import (
	"context"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	regionv1 "github.com/roost-cluster/roost/proto/roost/region/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// wishes carries HostShard and HandOff to regions: gathered per batch, one call
// under way per region. A lost wish is repeated by the core.
type wishes struct {
	send func(to sharding.NodeID, req *regionv1.ShardsRequest)

	pending map[sharding.NodeID]*regionv1.ShardsRequest // of the loop only

	mu      sync.Mutex
	waiting map[sharding.NodeID]*regionv1.ShardsRequest
	busy    map[sharding.NodeID]bool
}

func newWishes(send func(sharding.NodeID, *regionv1.ShardsRequest)) *wishes {
	return &wishes{
		send:    send,
		pending: map[sharding.NodeID]*regionv1.ShardsRequest{},
		waiting: map[sharding.NodeID]*regionv1.ShardsRequest{},
		busy:    map[sharding.NodeID]bool{},
	}
}

func (w *wishes) to(n sharding.NodeID, term sharding.Term) *regionv1.ShardsRequest {
	req := w.pending[n]
	if req == nil || req.Term != uint32(term) {
		req = &regionv1.ShardsRequest{RegionUid: uint64(n.UID), Term: uint32(term)}
		w.pending[n] = req
	}
	return req
}

func (w *wishes) host(o coordinator.HostShard) {
	req := w.to(o.To, o.Term)
	req.Host = append(req.Host, wire.ToShardEpoch(o.Shard, o.Epoch))
}

func (w *wishes) handOff(o coordinator.HandOff) {
	req := w.to(o.To, o.Term)
	req.HandOff = append(req.HandOff, wire.ToShardEpoch(o.Shard, o.Epoch))
}

// flush hands over what the batch has wished. What waits from an earlier term
// is replaced.
func (w *wishes) flush() {
	if len(w.pending) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for to, req := range w.pending { // order-free: one message per region
		delete(w.pending, to)
		if old := w.waiting[to]; old != nil && old.Term == req.Term {
			old.Host = append(old.Host, req.Host...)
			old.HandOff = append(old.HandOff, req.HandOff...)
		} else {
			w.waiting[to] = req
		}
		if !w.busy[to] {
			w.busy[to] = true
			go w.work(to)
		}
	}
}

func (w *wishes) work(to sharding.NodeID) {
	for {
		w.mu.Lock()
		req := w.waiting[to]
		delete(w.waiting, to)
		if req == nil {
			delete(w.busy, to)
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		w.send(to, req)
	}
}

func (s *Server) sendWishes(to sharding.NodeID, req *regionv1.ShardsRequest) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	req.From, req.Cluster = s.self.Addr, s.cfg.ClusterName
	if _, err := regionv1.NewRegionProtobufClient(s.peers.URL(to.Addr), s.peers.Client()).Shards(ctx, req); err != nil {
		s.log.Debug("a message to a region was lost; it will be repeated", "region", to, "error", err)
	}
}
