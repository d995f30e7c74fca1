package server

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	regionv1 "github.com/roost-cluster/roost/proto/roost/region/v1"
	"github.com/roost-cluster/roost/services/gateway"
)

const (
	// callTimeout bounds one call: after the same time the core looks for
	// another coordinator.
	callTimeout = 2 * time.Second
	// maxHomes bounds one GetShardHomes, some 100 KiB; the next call takes the
	// rest.
	maxHomes = 4096
)

// discovered takes in where the coordinators are.
func (s *Server) discovered(a discovery.Answer) {
	var c gateway.Coordinators
	for _, p := range a.Peers {
		if p.Role == "region" {
			c.Regions = append(c.Regions, p.Addr)
		} else {
			c.Addrs = append(c.Addrs, p.Addr)
		}
	}
	s.log.Debug("discovered", "coordinators", c.Addrs, "regions", c.Regions)
	s.inbox.put(item{do: func() {
		s.candidates = c
		maps.DeleteFunc(s.complaints, func(from, _ string) bool { // or they would gather
			return !slices.Contains(c.Addrs, from) && !slices.Contains(c.Regions, from)
		})
		s.step(c)
	}})
}

// isRegion tells whether an address that the core wants to watch is a region,
// asked because no coordinator answered.
func (s *Server) isRegion(addr string) bool {
	for _, a := range s.candidates.Addrs {
		if a == addr {
			return false
		}
	}
	for _, a := range s.candidates.Regions {
		if a == addr {
			return true
		}
	}
	for region := range s.links { // order-free: a question
		if region.Addr == addr {
			return true
		}
	}
	return false // named by a standby
}

func (s *Server) watch(o gateway.Watch, region bool) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	req := &coordinatorv1.WatchTableRequest{Cluster: s.cfg.ClusterName, BootUid: uint64(s.self.UID), Version: wire.ToVersion(o.Version)}
	var w *coordinatorv1.WatchTableResponse
	var err error
	if region {
		w, err = regionv1.NewRegionProtobufClient(s.peers.URL(o.To), s.peers.Client()).WatchTable(ctx, req)
	} else {
		w, err = coordinatorv1.NewCoordinatorProtobufClient(s.peers.URL(o.To), s.peers.Client()).WatchTable(ctx, req)
	}
	switch {
	case err != nil:
		s.inbox.put(item{do: func() { s.watchFailed(o.To, err) }})
	case w.NotActive != nil:
		s.inbox.put(item{in: gateway.NotActive{From: o.To, Active: wire.FromNode(w.NotActive.Active), Term: sharding.Term(w.NotActive.Term)}})
	default:
		in := gateway.TableChanged{From: o.To, Delta: wire.FromDelta(w)}
		s.inbox.put(item{do: func() { s.tableChanged(in) }})
	}
}

// watchFailed says once what is wrong with an address: it is asked again and
// again.
func (s *Server) watchFailed(from string, err error) {
	if text := err.Error(); s.complaints[from] != text && s.ctx.Err() == nil {
		s.complaints[from] = text
		s.log.Warn("no route table", "from", from, "error", err)
	}
	s.step(gateway.WatchFailed{From: from})
}

func (s *Server) tableChanged(in gateway.TableChanged) {
	delete(s.complaints, in.From)
	s.step(in)
	if len(in.Delta.Types) > 0 || !s.types.Load().known {
		s.publishTypes()
	}
}

// homes gathers the shards that need a home, one call under way per address. A
// lost call does no harm: the core asks again. All of it belongs to the loop.
type homes struct {
	call    func(to string, req *coordinatorv1.GetShardHomesRequest, done func())
	waiting map[string]map[sharding.ShardID]sharding.Epoch // by address: the epoch that was refused
	busy    map[string]bool
}

func newHomes(call func(string, *coordinatorv1.GetShardHomesRequest, func())) *homes {
	return &homes{call: call, waiting: map[string]map[sharding.ShardID]sharding.Epoch{}, busy: map[string]bool{}}
}

func (h *homes) add(o gateway.GetShardHome) {
	w := h.waiting[o.To]
	if w == nil {
		w = map[sharding.ShardID]sharding.Epoch{}
		h.waiting[o.To] = w
	}
	w[o.Shard] = max(w[o.Shard], o.Refused)
}

// flush makes the calls that can be made.
func (h *homes) flush() {
	for to, w := range h.waiting { // order-free: one call per address
		if h.busy[to] {
			continue
		}
		req := &coordinatorv1.GetShardHomesRequest{}
		for shard, refused := range w { // order-free: a set
			if len(req.Shards) == maxHomes {
				break
			}
			req.Shards = append(req.Shards, wire.ToShardEpoch(shard, refused))
			delete(w, shard)
		}
		if len(w) == 0 {
			delete(h.waiting, to)
		}
		h.busy[to] = true
		h.call(to, req, func() { delete(h.busy, to) })
	}
}

// getShardHomes makes one call beside the loop; done runs inside it.
func (s *Server) getShardHomes(to string, req *coordinatorv1.GetShardHomesRequest, done func()) {
	go func() {
		ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
		defer cancel()
		req.Cluster = s.cfg.ClusterName
		_, err := coordinatorv1.NewCoordinatorProtobufClient(s.peers.URL(to), s.peers.Client()).GetShardHomes(ctx, req)
		if err != nil {
			s.log.Debug("asking for shard homes failed", "coordinator", to, "shards", len(req.Shards), "error", err)
		}
		s.inbox.put(item{do: done})
	}()
}
