package bench

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

const (
	// failoverLimit is the target: the lease, and a second to read the facts, to learn of all regions
	// and to tell gateways.
	failoverLimit = 3000
	// lookAgain is the time between two questions to the standby.
	lookAgain = 5 * time.Millisecond
)

// largeFailover measures, by processes, how long a standby with a large table takes until it answers,
// and until a gateway gets a command through to a shard that has no region yet.
func (r *run) largeFailover() error {
	allocated := r.Sizes.TableShards / 2 // of each of two types
	spare := max(16, allocated/50)       // that are used for the first time after a kill
	c, err := cluster.Start(r.ctx, cluster.Options{
		Name: clusterName, Coordinators: 2, Regions: 3, Gateways: 1, Dir: filepath.Join(r.Dir, "failover"), BinDir: r.Bin,
		RegionBinary: filepath.Join(r.Bin, "bench-region"), LogLevel: "info", Env: []string{entities.ShardsVariable + "=" + strconv.Itoa(allocated+spare)},
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		_ = c.Close(ctx) // the measurements are done
	}()
	ctx, cancel := context.WithTimeout(r.ctx, fillTimeout)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		return err
	}
	var shards []sharding.ShardID
	for _, t := range []sharding.EntityType{entities.EchoType, entities.AccountType} {
		for i := range allocated {
			shards = append(shards, sharding.ShardID{Type: t, Index: uint32(i)})
		}
	}
	active, _, err := c.Active(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Progress, "%d shards are allocated\n", len(shards))
	if err := fill(ctx, find(c, active).Service, shards, func() (int, error) { return servedShards(ctx, find(c, active)) }); err != nil {
		return err
	}
	gateway, err := client.New(c.Gateways())
	if err != nil {
		return err
	}
	var answers, commands []time.Duration
	kills := max(1, r.Rounds)
	for kill := range kills {
		victim, _, err := c.Active(r.ctx)
		if err != nil {
			return err
		}
		took, commandTook, err := r.failover(c, victim, gateway, newEntity(kill, allocated, allocated+spare))
		if err != nil {
			return err
		}
		answers, commands = append(answers, took), append(commands, commandTook)
		if err := c.Restart(r.ctx, victim); err != nil {
			return err
		}
		if err := c.Ready(ctx); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%s shards, kill -9 of the active coordinator, %s, SQLite: ", report.Number(float64(len(shards))), timesText(kills))
	for _, m := range []struct {
		name string
		took []time.Duration
	}{{"until the other one answers where a shard is", answers}, {"until a gateway has the answer to a command for a new shard", commands}} {
		r.add(report.Row{Section: placing, Unit: "ms", Value: ms(slices.Sorted(slices.Values(m.took))[len(m.took)/2]), Measure: what + m.name + ", median"})
		r.add(report.Row{Section: placing, Unit: "ms", Value: ms(slices.Max(m.took)), Target: report.Target{AtMost: failoverLimit}, Measure: what + m.name + ", worst"})
	}
	return nil
}

// failover kills the active coordinator.
func (r *run) failover(c *cluster.Cluster, victim string, gateway *client.Client, id string) (answered, commanded time.Duration, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, startTimeout)
	defer cancel()
	var standby adminv1.Admin
	for _, p := range c.Processes() {
		if p.Role == cluster.Coordinator && p.Name != victim {
			standby = adminv1.NewAdminProtobufClient("http://"+p.Management, &http.Client{Timeout: startTimeout})
		}
	}
	ask := entity.Command[entities.Question, entities.Answer](entities.EchoType, entities.AskJSON)
	began := time.Now()
	if err := c.Kill(victim); err != nil {
		return 0, 0, err
	}
	done := make(chan error, 1)
	go func() {
		_, err := ask.Call(ctx, gateway, id, entities.Question{Data: "a"})
		commanded = time.Since(began)
		done <- err
	}()
	for {
		_, err := standby.Where(ctx, &adminv1.WhereRequest{Type: entities.AccountType, Id: id})
		if err == nil {
			answered = time.Since(began)
			err = <-done
			return answered, commanded, err
		}
		if ctx.Err() != nil {
			return 0, 0, fmt.Errorf("the standby does not answer: %w", err)
		}
		time.Sleep(lookAgain)
	}
}

// servedShards counts the shards that regions serve, as a coordinator knows them.
func servedShards(ctx context.Context, p cluster.Process) (n int, err error) {
	members, err := adminv1.NewAdminProtobufClient("http://"+p.Management, http.DefaultClient).Shards(ctx, &adminv1.ShardsRequest{})
	if err != nil {
		return 0, err
	}
	for _, s := range members.Shards {
		if s.Phase == sharding.Serving.String() {
			n++
		}
	}
	return n, nil
}

func find(c *cluster.Cluster, name string) cluster.Process {
	all := c.Processes()
	return all[slices.IndexFunc(all, func(p cluster.Process) bool { return p.Name == name })]
}

// newEntity returns an entity whose shard is not among the first ones; another one for each number.
func newEntity(number, first, shards int) string {
	for i := number * 1_000_000; ; i++ {
		id := "new-" + strconv.Itoa(i)
		if shardingtest.ShardOf(sharding.EntityID(id), uint32(shards)) >= uint32(first) {
			return id
		}
	}
}
