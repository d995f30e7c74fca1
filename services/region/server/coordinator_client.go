package server

import (
	"context"
	"time"

	"github.com/roost-cluster/roost/libs/node"
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
	ctx, cancel := context.WithTimeout(s.runner.ctx, callTimeout)
	defer cancel()
	w, err := s.coordinator(o.To).WatchTable(ctx, &coordinatorv1.WatchTableRequest{
		Cluster: s.cfg.ClusterName, BootUid: uint64(s.self.UID), Version: wire.ToVersion(o.Version),
	})
	switch {
	case err != nil:
		s.runner.put(item{in: region.WatchFailed{From: o.To}})
	case w.NotActive != nil:
		s.runner.put(item{in: region.NotActive{
			From: o.To, Active: wire.FromNode(w.NotActive.Active), Term: sharding.Term(w.NotActive.Term),
		}})
	default:
		s.runner.put(item{in: region.TableChanged{From: o.To, Delta: wire.FromDelta(w)}})
	}
}

func (s *Server) register(o region.Register) {
	ctx, cancel := context.WithTimeout(s.runner.ctx, callTimeout)
	defer cancel()
	req := &coordinatorv1.RegisterRequest{
		Cluster: s.cfg.ClusterName, Region: wire.ToNode(s.self), Name: s.name, AppVersion: s.version, LastTerm: uint32(o.Last),
	}
	for i := range s.runner.descs {
		req.Types = append(req.Types, wire.ToType(&s.runner.descs[i].Desc))
	}
	select {
	case <-s.opened:
	case <-ctx.Done():
		return // the core repeats it
	}
	req.JournalCluster = s.journalCluster(ctx)
	r, err := s.coordinator(o.To).Register(ctx, req)
	if err != nil {
		s.runner.put(item{do: func() { s.registrationFailed(o.To, err) }})
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
	s.runner.put(item{do: func() { s.unregistered = nil }},
		item{in: region.RegisterAck{Term: sharding.Term(r.Term), Refusal: r.Refusal}})
}

// registrationFailed says once what is wrong: the core asks again and again.
func (s *Server) registrationFailed(with string, err error) {
	if (s.unregistered == nil || s.unregistered.Error() != err.Error()) && s.runner.ctx.Err() == nil {
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
	sign, err := s.runner.journal.Sign(ctx)
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
	ctx, cancel := context.WithTimeout(s.runner.ctx, callTimeout)
	defer cancel()
	_, err := s.coordinator(o.To).ReportJournal(ctx, &coordinatorv1.ReportJournalRequest{
		Cluster: s.cfg.ClusterName, Region: wire.ToNode(s.self), Number: o.Number, State: wire.ToJournalState(o.State),
	})
	if err != nil {
		s.log.Debug("a report about the journal was lost; it is repeated", "coordinator", o.To, "error", err)
	}
}

func (s *Server) gracefulShutdown(o region.GracefulShutdown) {
	ctx, cancel := context.WithTimeout(s.runner.ctx, callTimeout)
	defer cancel()
	r, err := s.coordinator(o.To).GracefulShutdown(ctx, &coordinatorv1.GracefulShutdownRequest{
		Cluster: s.cfg.ClusterName, Region: wire.ToNode(s.self),
	})
	if err != nil {
		s.log.Debug("asking to leave failed", "coordinator", o.To, "error", err)
		return // the core repeats it
	}
	s.runner.put(item{in: region.ShutdownAck{Term: sharding.Term(r.Term), Remaining: int(r.Remaining)}})
}

// report is what happened to a shard, for the coordinator that asked. A lost one
// is asked for again.
type report struct {
	what  reported
	shard sharding.ShardID
	epoch sharding.Epoch
	above sharding.Epoch // of refused
}

type reported uint8

const (
	started reported = iota
	stopped
	refused
)

// reportLimits bound what waits for one coordinator, like the messages that it
// answers: the limits of the coordinator's side are the same.
var reportLimits = node.OutboxLimits{Call: 8192, Messages: 65_536, Bytes: 8 << 20}

// size is the memory of a report, in bytes.
func (r report) size() int { return 64 + len(r.shard.Type) }

func (s *Server) reportStarted(o region.ShardStarted) {
	s.report(o.To, report{what: started, shard: o.Shard, epoch: o.Epoch})
}

func (s *Server) reportStopped(o region.ShardStopped) {
	s.report(o.To, report{what: stopped, shard: o.Shard, epoch: o.Epoch})
}

func (s *Server) reportRefused(o region.HostRefused) {
	s.report(o.To, report{what: refused, shard: o.Shard, epoch: o.Epoch, above: o.Above})
}

func (s *Server) report(to string, r report) {
	if to == "" || s.reports.Add(to, r) {
		return // no coordinator is known: it will ask again
	}
	s.runner.telemetry.dropped.Add(s.runner.ctx, 1)
	if now := time.Now(); now.Sub(s.droppedSaid) >= droppedEvery {
		s.droppedSaid = now
		s.log.Warn("too many reports wait for the coordinator, the newest are left out until it asks again", "coordinator", to)
	}
}

// droppedEvery is the time between two lines in the log about reports left out.
const droppedEvery = 10 * time.Second

func (s *Server) sendReports(to string, reports []report) {
	ctx, cancel := context.WithTimeout(s.runner.ctx, callTimeout)
	defer cancel()
	req := &coordinatorv1.ReportShardsRequest{Cluster: s.cfg.ClusterName, Region: wire.ToNode(s.self)}
	for _, r := range reports {
		shard := wire.ToShardEpoch(r.shard, r.epoch)
		switch r.what {
		case started:
			req.Started = append(req.Started, shard)
		case stopped:
			req.Stopped = append(req.Stopped, shard)
		case refused:
			req.Refused = append(req.Refused, &coordinatorv1.Refused{Shard: shard, Above: uint64(r.above)})
		}
	}
	if _, err := s.coordinator(to).ReportShards(ctx, req); err != nil {
		s.log.Debug("a report was lost; the coordinator will ask again", "coordinator", to, "error", err)
	}
}
