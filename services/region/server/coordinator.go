package server

import (
	"context"
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
		s.put(item{in: region.WatchFailed{From: o.To}})
	case w.NotActive != nil:
		s.put(item{in: region.NotActive{
			From: o.To, Active: wire.FromNode(w.NotActive.Active), Term: sharding.Term(w.NotActive.Term),
		}})
	default:
		s.put(item{in: region.TableChanged{From: o.To, Delta: wire.FromDelta(w)}})
	}
}

func (s *Server) register(o region.Register) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	req := &coordinatorv1.RegisterRequest{
		Cluster: s.cfg.ClusterName, Region: wire.ToNode(s.self), Name: s.name, AppVersion: s.version, LastTerm: uint32(o.Last),
	}
	for i := range s.descs {
		req.Types = append(req.Types, wire.ToType(&s.descs[i].Desc))
	}
	select {
	case <-s.opened:
	case <-ctx.Done():
		return // the core repeats it
	}
	req.JournalCluster = s.journalCluster(ctx)
	r, err := s.coordinator(o.To).Register(ctx, req)
	if err != nil {
		s.put(item{do: func() { s.registrationFailed(o.To, err) }})
		return // the core repeats it
	}
	if r.Refusal != "" && req.JournalCluster != nil {
		if now := s.journalCluster(ctx); now == nil || *now != *req.JournalCluster {
			return // it was refused for what it said of the journal, maybe; the core repeats it
		}
	}
	if r.Refusal == "" {
		s.log.Info("registered", "coordinator", o.To, "term", r.Term)
	}
	s.put(item{do: func() { s.unregistered = nil }},
		item{in: region.RegisterAck{Term: sharding.Term(r.Term), Refusal: r.Refusal}})
}

// registrationFailed says once what is wrong: the core asks again and again.
func (s *Server) registrationFailed(with string, err error) {
	if (s.unregistered == nil || s.unregistered.Error() != err.Error()) && s.ctx.Err() == nil {
		s.log.Warn("registration failed; it is repeated", "coordinator", with, "error", err)
	}
	s.unregistered = err
}

// signTimeout bounds the question whose the journal is: a region whose journal does
// not answer registers without.
const signTimeout = callTimeout / 4

// journalCluster is whose the journal is, as its coordinators have left word there, 0
// if none has; nil: not known.
func (s *Server) journalCluster(ctx context.Context) *uint64 {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	sign, err := s.journal.Sign(ctx)
	if err != nil {
		s.log.Debug("whose the journal is cannot be read", "error", err)
		return nil
	}
	if sign.Term > 0 && sign.Cluster == 0 {
		return nil // an earlier version wrote it
	}
	c := uint64(sign.Cluster)
	return &c
}

func (s *Server) reportJournal(o region.ReportJournal) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	_, err := s.coordinator(o.To).ReportJournal(ctx, &coordinatorv1.ReportJournalRequest{
		Cluster: s.cfg.ClusterName, Region: wire.ToNode(s.self), Number: o.Number, State: wire.ToJournalState(o.State),
	})
	if err != nil {
		s.log.Debug("a report about the journal was lost; it is repeated", "coordinator", o.To, "error", err)
	}
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
	s.put(item{in: region.ShutdownAck{Term: sharding.Term(r.Term), Remaining: int(r.Remaining)}})
}

// report is one line of what happened to shards, for the coordinator that
// asked. A lost one is asked for again.
type report func(*coordinatorv1.ReportShardsRequest)

func (s *Server) reportStarted(o region.ShardStarted) {
	s.report(o.To, func(r *coordinatorv1.ReportShardsRequest) {
		r.Started = append(r.Started, wire.ToShardEpoch(o.Shard, o.Epoch))
	})
}

func (s *Server) reportStopped(o region.ShardStopped) {
	s.report(o.To, func(r *coordinatorv1.ReportShardsRequest) {
		r.Stopped = append(r.Stopped, wire.ToShardEpoch(o.Shard, o.Epoch))
	})
}

func (s *Server) reportRefused(o region.HostRefused) {
	s.report(o.To, func(r *coordinatorv1.ReportShardsRequest) {
		r.Refused = append(r.Refused, &coordinatorv1.Refused{Shard: wire.ToShardEpoch(o.Shard, o.Epoch), Above: uint64(o.Above)})
	})
}

func (s *Server) report(to string, line report) {
	if to != "" { // else no coordinator is known; it will ask again
		s.reports.Add(to, line)
	}
}

func (s *Server) sendReports(to string, lines []report) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	req := &coordinatorv1.ReportShardsRequest{Cluster: s.cfg.ClusterName, Region: wire.ToNode(s.self)}
	for _, line := range lines {
		line(req)
	}
	if _, err := s.coordinator(to).ReportShards(ctx, req); err != nil {
		s.log.Debug("a report was lost; the coordinator will ask again", "coordinator", to, "error", err)
	}
}
