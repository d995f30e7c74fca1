package bench

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	clusterName = "bench"
	// startTimeout bounds every step before a load. A machine that needs as long is too
	// busy for measurements.
	startTimeout = time.Minute
)

// testCluster is a cluster of one coordinator, one region and one gateway.
type testCluster struct {
	cluster *cluster.Cluster
	region  cluster.Process
	gateway cluster.Process
	rows    map[sharding.ShardID]sharding.Row
}

// sharedCluster returns the cluster of this run, and starts it if it does not run yet.
func (r *run) sharedCluster() (*testCluster, error) {
	if r.cluster != nil {
		return r.cluster, nil
	}
	c, err := r.startCluster("cluster", "")
	r.cluster = c
	return c, err
}

// startCluster starts a cluster in a directory of its own; the journal "" is SQLite.
func (r *run) startCluster(dir, journal string) (*testCluster, error) {
	return startCluster(r.ctx, cluster.Options{
		Name: clusterName, Coordinators: 1, Regions: 1, Gateways: 1, Dir: filepath.Join(r.Dir, dir), BinDir: r.Bin,
		RegionBinary: filepath.Join(r.Bin, "bench-region"), LogLevel: "warn", Journal: journal,
		Args: map[string][]string{
			cluster.Region:  {"--management.pprof=true"},
			cluster.Gateway: {"--management.pprof=true"},
		},
	})
}

func startCluster(ctx context.Context, o cluster.Options) (*testCluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &testCluster{cluster: c, rows: map[sharding.ShardID]sharding.Row{}}
	if err := c.Ready(ctx); err != nil {
		return s, err
	}
	var coordinator cluster.Process
	for _, p := range c.Processes() {
		switch p.Role {
		case cluster.Coordinator:
			coordinator = p
		case cluster.Region:
			s.region = p
		case cluster.Gateway:
			s.gateway = p
		}
	}
	return s, s.awaitPlacement(ctx, coordinator.Service)
}

func (s *testCluster) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return s.cluster.Close(ctx)
}

// controlClient returns a client of the control plane that counts as a process of its own.
func controlClient(http *http.Client, timeout time.Duration) *rpc.Client {
	return &rpc.Client{Cluster: clusterName, Self: sharding.NodeID{UID: sharding.NodeUID(clients.Add(1))}, Reach: rpc.Via(http, nil), Timeout: timeout}
}

// awaitPlacement waits until every shard of every type is served.
func (s *testCluster) awaitPlacement(ctx context.Context, coordinator string) error {
	api := controlClient(&http.Client{}, 5*time.Second)
	var homes []control.Message
	for _, t := range []string{entities.EchoType, entities.AccountType} {
		for i := range uint32(entities.Shards) {
			homes = append(homes, control.GetShardHome{Shard: sharding.ShardID{Type: sharding.EntityType(t), Index: i}})
		}
	}
	for asked := false; ; {
		answer, err := api.Call(ctx, coordinator, control.WatchTable{})
		if err != nil {
			return err
		}
		table, _ := answer.(control.TableChanged)
		delta := table.Delta
		for _, row := range delta.Rows {
			if row.Phase == sharding.Serving {
				s.rows[row.Shard] = row
			}
		}
		if len(s.rows) == len(homes) {
			return nil
		}
		if !asked && len(delta.Types) > 0 {
			if err := api.Send(ctx, sharding.NodeID{Addr: coordinator}, homes); err != nil {
				return err
			}
			asked = true
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d shards are served: %w", len(s.rows), len(homes), ctx.Err())
		}
	}
}

// dial opens a link to the region, as a gateway does.
func (s *testCluster) dial(ctx context.Context, answers func([]link.Answer)) (*link.Client, *link.Link, error) {
	cfg := link.DefaultConfig()
	cfg.Cluster, cfg.Self = clusterName, sharding.NodeID{UID: sharding.NodeUID(clients.Add(1))}
	var owner sharding.NodeID
	for _, row := range s.rows { // there is one region
		owner = row.Owner
	}
	up, failed := make(chan *link.Link, 1), make(chan error, 1)
	client, err := link.NewClient(cfg, owner, link.Events{
		Up:   func(l *link.Link) { up <- l },
		Down: func(*link.Link, link.Down) {},
		Failed: func(err error, _ bool) {
			select {
			case failed <- err:
			default:
			}
		},
		Answers: func(_ *link.Link, as []link.Answer) { answers(as) },
	})
	if err != nil {
		return nil, nil, err
	}
	select {
	case l := <-up:
		return client, l, nil
	case err = <-failed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	client.Close()
	return nil, nil, err
}

// clients numbers the links of this process: each is a client of its own.
var clients atomic.Uint64
