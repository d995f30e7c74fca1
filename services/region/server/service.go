package server

import (
	"context"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	regionv1 "github.com/roost-cluster/roost/proto/roost/region/v1"
	"github.com/roost-cluster/roost/services/region"
)

// service is the region's Twirp side.
type service struct{ s *Server }

func (v service) checkCluster(name string) error {
	if name != v.s.cfg.ClusterName {
		return twirp.NewErrorf(twirp.FailedPrecondition, "this is cluster %q, not %q; see cluster.name", v.s.cfg.ClusterName, name)
	}
	return nil
}

// Shards takes the orders of a coordinator in.
func (v service) Shards(_ context.Context, req *regionv1.ShardsRequest) (*regionv1.ShardsResponse, error) {
	if err := v.checkCluster(req.Cluster); err != nil {
		return nil, err
	}
	if sharding.NodeUID(req.RegionUid) != v.s.self.UID {
		return nil, twirp.NewErrorf(twirp.FailedPrecondition, "another incarnation of this region was meant: %x, this is %x", req.RegionUid, uint64(v.s.self.UID))
	}
	items := make([]item, 0, len(req.Host)+len(req.HandOff))
	for _, e := range req.HandOff {
		shard, epoch := wire.FromShardEpoch(e)
		items = append(items, item{in: region.HandOff{From: req.From, Term: sharding.Term(req.Term), Shard: shard, Epoch: epoch}})
	}
	for _, e := range req.Host {
		shard, epoch := wire.FromShardEpoch(e)
		items = append(items, item{in: region.HostShard{From: req.From, Term: sharding.Term(req.Term), Shard: shard, Epoch: epoch}})
	}
	v.s.runner.put(items...)
	return &regionv1.ShardsResponse{}, nil
}

// WatchTable serves the region's copy of the table, at once.
func (v service) WatchTable(ctx context.Context, req *coordinatorv1.WatchTableRequest) (*coordinatorv1.WatchTableResponse, error) {
	if err := v.checkCluster(req.Cluster); err != nil {
		return nil, err
	}
	got := make(chan sharding.TableDelta, 1)
	v.s.runner.put(item{do: func() { got <- v.s.runner.core.Table().Delta(wire.FromVersion(req.Version)) }})
	select {
	case d := <-got:
		return wire.ToDelta(d), nil
	case <-ctx.Done():
		return nil, twirp.NewError(twirp.DeadlineExceeded, "the region is too busy to answer")
	case <-v.s.runner.ctx.Done():
		return nil, twirp.NewError(twirp.Unavailable, "stopping")
	}
}
