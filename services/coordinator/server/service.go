package server

import (
	"context"
	"errors"
	"slices"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// service is the coordinator's Twirp side for regions and gateways.
type service struct{ s *Server }

// errStandby answers everything but watches at a standby.
func (s *Server) errStandby() error {
	err := twirp.NewError(twirp.FailedPrecondition, "this coordinator stands by")
	if !s.known.Node.IsZero() {
		err = err.WithMeta("active", s.known.Node.Addr)
	}
	return err
}

func (s *Server) checkCluster(name string) error {
	if name != s.cfg.ClusterName {
		return twirp.NewErrorf(twirp.FailedPrecondition, "this is cluster %q, not %q; see cluster.name", s.cfg.ClusterName, name)
	}
	return nil
}

var errStopping = twirp.NewError(twirp.Unavailable, "this coordinator stops")

// errCrowded refuses a call that would wait with too many others.
var errCrowded = twirp.NewError(twirp.ResourceExhausted, "too many calls wait for this coordinator already; nothing was done, try again")

// take hands a call from outside to the loop, or refuses it: too much waits
// already. Whoever called repeats what still matters.
func (s *Server) take(size int, f func()) error {
	if s.inbox.offer(size, f) {
		return nil
	}
	s.telemetry.refused.Add(s.ctx, 1)
	s.inboxFull.say(s.log, "too many calls wait for this coordinator, more are refused and repeated by their callers")
	return errCrowded
}

func late(ctx context.Context) error {
	return twirp.NewError(twirp.DeadlineExceeded, "no answer in time: "+ctx.Err().Error())
}

// WatchTable waits for a change of the table.
func (v service) WatchTable(ctx context.Context, req *coordinatorv1.WatchTableRequest) (*coordinatorv1.WatchTableResponse, error) {
	s := v.s
	if err := s.checkCluster(req.Cluster); err != nil {
		return nil, err
	}
	got := make(chan *coordinatorv1.WatchTableResponse, 1)
	var id coordinator.WatchID
	if err := s.take(proto.Size(req), func() {
		if len(s.watches) >= 2*s.limits.MaxWatches {
			got <- nil
			return
		}
		s.lastWatch++
		id = s.lastWatch
		s.watches[id] = got
		s.step(coordinator.WatchTable{Watch: id, Version: wire.FromVersion(req.Version)})
	}); err != nil {
		return nil, err
	}
	select {
	case w := <-got:
		if w == nil {
			return nil, errCrowded
		}
		return w, nil
	case <-ctx.Done():
		s.inbox.put(func() {
			delete(s.watches, id)
			s.step(coordinator.WatchEnded{Watch: id})
		})
		return nil, late(ctx)
	case <-s.ctx.Done():
		return nil, errStopping
	}
}

// Register takes a region in.
func (v service) Register(ctx context.Context, req *coordinatorv1.RegisterRequest) (*coordinatorv1.RegisterResponse, error) {
	s := v.s
	if err := s.checkCluster(req.Cluster); err != nil {
		return nil, err
	}
	in := coordinator.Register{Region: wire.FromNode(req.Region), Name: req.Name, Version: req.AppVersion, Last: sharding.Term(req.LastTerm)}
	for _, t := range req.Types {
		in.Types = append(in.Types, wire.FromType(t))
	}
	if c := req.JournalCluster; c != nil {
		in.Journal = (*sharding.ClusterID)(c)
	}
	if in.Version != "" {
		if err := sharding.CheckID("app_version", in.Version, sharding.MaxTypeLen); err != nil {
			return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
		}
	}
	a, err := call(ctx, s, s.registers, in.Region, proto.Size(req), in)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.RegisterResponse{Term: uint32(a.Term), Refusal: a.Refusal}, nil
}

// result is an acknowledgement, or why there is none.
type result[A any] struct {
	ack A
	err error
}

// maxCallsOfOne is how many calls of one region may wait for the same
// acknowledgement. It makes one at a time; the others have lost patience.
const maxCallsOfOne = 16

// callers wait for the acknowledgement of a region. Of the loop only.
type callers[A any] map[sharding.NodeID][]chan result[A]

func (c callers[A]) answer(to sharding.NodeID, r result[A]) {
	for _, ch := range c[to] {
		ch <- r // has room for one
	}
	delete(c, to)
}

// refuse answers everybody who waits.
func (c callers[A]) refuse(err error) {
	for to := range c { // order-free: each gets the same
		c.answer(to, result[A]{err: err})
	}
}

// crowded reports whether so many wait that one more must not.
func (c callers[A]) crowded(region sharding.NodeID, most int) bool {
	return len(c[region]) >= maxCallsOfOne || len(c) >= most && c[region] == nil
}

// forget strikes out one who waits no more.
func (c callers[A]) forget(to sharding.NodeID, ch chan result[A]) {
	if c[to] = slices.DeleteFunc(c[to], func(o chan result[A]) bool { return o == ch }); len(c[to]) == 0 {
		delete(c, to)
	}
}

// call steps an input of a region and waits for its acknowledgement.
func call[A any](ctx context.Context, s *Server, c callers[A], region sharding.NodeID, size int, in coordinator.Input) (a A, err error) {
	ch := make(chan result[A], 1)
	if err := s.take(size, func() {
		if s.core.Active() == 0 {
			ch <- result[A]{err: s.errStandby()}
			return
		}
		if c.crowded(region, s.limits.MaxWatches) {
			ch <- result[A]{err: errCrowded}
			return
		}
		c[region] = append(c[region], ch)
		s.step(in)
	}); err != nil {
		return a, err
	}
	select {
	case r := <-ch:
		return r.ack, r.err
	case <-ctx.Done():
		s.inbox.put(func() { c.forget(region, ch) })
		return a, late(ctx)
	case <-s.ctx.Done():
		return a, errStopping
	}
}

// GetShardHomes asks for allocations.
func (v service) GetShardHomes(_ context.Context, req *coordinatorv1.GetShardHomesRequest) (*coordinatorv1.GetShardHomesResponse, error) {
	s := v.s
	if err := s.checkCluster(req.Cluster); err != nil {
		return nil, err
	}
	if err := s.take(proto.Size(req), func() {
		for _, e := range req.Shards {
			shard, epoch := wire.FromShardEpoch(e)
			s.step(coordinator.GetShardHome{Shard: shard, Refused: epoch})
		}
	}); err != nil {
		return nil, err
	}
	return &coordinatorv1.GetShardHomesResponse{}, nil
}

// ReportShards takes what a region did.
func (v service) ReportShards(_ context.Context, req *coordinatorv1.ReportShardsRequest) (*coordinatorv1.ReportShardsResponse, error) {
	s := v.s
	if err := s.checkCluster(req.Cluster); err != nil {
		return nil, err
	}
	region := wire.FromNode(req.Region)
	if err := s.take(proto.Size(req), func() {
		for _, e := range req.Stopped {
			shard, epoch := wire.FromShardEpoch(e)
			s.step(coordinator.ShardStopped{Region: region, Shard: shard, Epoch: epoch})
		}
		for _, e := range req.Started {
			shard, epoch := wire.FromShardEpoch(e)
			s.step(coordinator.ShardStarted{Region: region, Shard: shard, Epoch: epoch})
		}
		for _, r := range req.Refused {
			shard, epoch := wire.FromShardEpoch(r.Shard)
			s.step(coordinator.HostRefused{Region: region, Shard: shard, Epoch: epoch, Above: sharding.Epoch(r.Above)})
		}
	}); err != nil {
		return nil, err
	}
	return &coordinatorv1.ReportShardsResponse{}, nil
}

// ReportJournal takes what a region makes of its journal.
func (v service) ReportJournal(_ context.Context, req *coordinatorv1.ReportJournalRequest) (*coordinatorv1.ReportJournalResponse, error) {
	s := v.s
	if err := s.checkCluster(req.Cluster); err != nil {
		return nil, err
	}
	in := coordinator.JournalReport{Region: wire.FromNode(req.Region), Number: req.Number, State: wire.FromJournalState(req.State)}
	if err := s.take(proto.Size(req), func() { s.step(in) }); err != nil {
		return nil, err
	}
	return &coordinatorv1.ReportJournalResponse{}, nil
}

// GracefulShutdown hands the shards of a leaving region off.
func (v service) GracefulShutdown(ctx context.Context, req *coordinatorv1.GracefulShutdownRequest) (*coordinatorv1.GracefulShutdownResponse, error) {
	s := v.s
	if err := s.checkCluster(req.Cluster); err != nil {
		return nil, err
	}
	region := wire.FromNode(req.Region)
	a, err := call(ctx, s, s.shutdowns, region, proto.Size(req), coordinator.GracefulShutdown{Region: region})
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.GracefulShutdownResponse{Term: uint32(a.Term), Remaining: uint32(a.Remaining)}, nil
}

// look runs f inside the loop and waits for it.
func (s *Server) look(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	if err := s.take(0, func() { done <- f() }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return errStopping
	}
}

// ready reports whether this coordinator acts, or knows who does.
func (s *Server) ready(ctx context.Context) error {
	return s.look(ctx, func() error {
		switch {
		case !s.agent.Members().InCluster:
			return errors.New("not a member of the cluster yet")
		case s.core.Active() == 0 && s.known.Node.IsZero():
			return errors.New("no active coordinator is known")
		}
		return nil
	})
}
