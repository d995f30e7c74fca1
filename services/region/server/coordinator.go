package server

import (
	"context"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/region"
)

// callTimeout bounds one call to a coordinator: the core repeats what stays
// unanswered, and looks for another coordinator after the same time.
const callTimeout = 2 * time.Second

func (s *Server) coordinator(addr string) coordinatorv1.Coordinator {
	return coordinatorv1.NewCoordinatorProtobufClient(s.peers.URL(addr), s.peers.Client())
}

func (s *Server) watch(o region.Watch) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	w, err := s.coordinator(o.To).WatchTable(ctx, &coordinatorv1.WatchTableRequest{
		Cluster: s.cfg.ClusterName, BootUid: uint64(s.self.UID), Version: wire.ToVersion(o.Version),
	})
	switch {
	case err != nil:
		s.inbox.put(item{in: region.WatchFailed{From: o.To}})
	case w.NotActive != nil:
		s.inbox.put(item{in: region.NotActive{
			From: o.To, Active: wire.FromNode(w.NotActive.Active), Term: sharding.Term(w.NotActive.Term),
		}})
	default:
		s.inbox.put(item{in: region.TableChanged{From: o.To, Delta: wire.FromDelta(w)}})
	}
}

func (s *Server) register(o region.Register) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	req := &coordinatorv1.RegisterRequest{
		Cluster: s.cfg.ClusterName, Region: wire.ToNode(s.self), Name: s.name, AppVersion: s.version,
	}
	for i := range s.descs {
		req.Types = append(req.Types, wire.ToType(&s.descs[i].Desc))
	}
	r, err := s.coordinator(o.To).Register(ctx, req)
	if err != nil {
		s.log.Debug("registration failed", "coordinator", o.To, "error", err)
		return // the core repeats it
	}
	if r.Refusal == "" {
		s.log.Info("registered", "coordinator", o.To, "term", r.Term)
	}
	s.inbox.put(item{in: region.RegisterAck{Term: sharding.Term(r.Term), Refusal: r.Refusal}})
}

func (s *Server) gracefulShutdown(o region.GracefulShutdown) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	r, err := s.coordinator(o.To).GracefulShutdown(ctx, &coordinatorv1.GracefulShutdownRequest{
		Cluster: s.cfg.ClusterName, Region: wire.ToNode(s.self),
	})
	if err != nil {
		s.log.Debug("asking to leave failed", "coordinator", o.To, "error", err)
		return // the core repeats it
	}
	s.inbox.put(item{in: region.ShutdownAck{Term: sharding.Term(r.Term), Remaining: int(r.Remaining)}})
}

// reports carries what happened to shards to the coordinators that asked:
// gathered per batch, one call under way per address. A lost report is asked
// for again by the coordinator.
type reports struct {
	send func(to string, req *coordinatorv1.ReportShardsRequest)
	node *coordinatorv1.Node

	pending map[string]*coordinatorv1.ReportShardsRequest // of the loop only

	mu      sync.Mutex
	waiting map[string]*coordinatorv1.ReportShardsRequest
	busy    map[string]bool
}

func newReports(self sharding.NodeID, send func(string, *coordinatorv1.ReportShardsRequest)) *reports {
	return &reports{
		send: send, node: wire.ToNode(self),
		pending: map[string]*coordinatorv1.ReportShardsRequest{},
		waiting: map[string]*coordinatorv1.ReportShardsRequest{},
		busy:    map[string]bool{},
	}
}

func (r *reports) to(addr string) *coordinatorv1.ReportShardsRequest {
	req := r.pending[addr]
	if req == nil {
		req = &coordinatorv1.ReportShardsRequest{Region: r.node}
		r.pending[addr] = req
	}
	return req
}

func (r *reports) started(to string, s *coordinatorv1.ShardEpoch) {
	req := r.to(to)
	req.Started = append(req.Started, s)
}

func (r *reports) stopped(to string, s *coordinatorv1.ShardEpoch) {
	req := r.to(to)
	req.Stopped = append(req.Stopped, s)
}

func (r *reports) refused(to string, s *coordinatorv1.ShardEpoch, above uint64) {
	req := r.to(to)
	req.Refused = append(req.Refused, &coordinatorv1.Refused{Shard: s, Above: above})
}

// flush hands over what the batch has reported.
func (r *reports) flush() {
	if len(r.pending) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for to, req := range r.pending { // order-free: one message per address
		delete(r.pending, to)
		if to == "" {
			continue // no coordinator is known; it will ask again
		}
		if w := r.waiting[to]; w != nil {
			w.Started = append(w.Started, req.Started...)
			w.Stopped = append(w.Stopped, req.Stopped...)
			w.Refused = append(w.Refused, req.Refused...)
		} else {
			r.waiting[to] = req
		}
		if !r.busy[to] {
			r.busy[to] = true
			go r.work(to)
		}
	}
}

func (r *reports) work(to string) {
	for {
		r.mu.Lock()
		req := r.waiting[to]
		delete(r.waiting, to)
		if req == nil {
			delete(r.busy, to)
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		r.send(to, req)
	}
}

func (s *Server) sendReport(to string, req *coordinatorv1.ReportShardsRequest) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	req.Cluster = s.cfg.ClusterName
	if _, err := s.coordinator(to).ReportShards(ctx, req); err != nil {
		s.log.Debug("a report was lost; the coordinator will ask again", "coordinator", to, "error", err)
	}
}
