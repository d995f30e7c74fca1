package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

const faulty = "faults"

// faults measures what clients of durable entities notice of a region that is
// killed and of one that hands its shards off, under an open loop of commands.
func (r *run) faults() error {
	ctx := r.ctx
	c, err := cluster.Start(ctx, cluster.Options{
		Name: clusterName, Coordinators: 2, Regions: 3, Gateways: 2, Dir: filepath.Join(r.Dir, "faults"), BinDir: r.Bin,
		RegionBinary: filepath.Join(r.Bin, "bench-region"), LogLevel: "warn",
	})
	if err != nil {
		return err
	}
	defer func() {
		at, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		_ = c.Close(at) // what was measured stands
	}()
	h := &hurt{run: r, cluster: c, admin: cluster.NewAdmin(c.Admin()...)}
	if h.client, err = client.New(client.DefaultConfig(c.Gateways()...)); err != nil {
		return err
	}
	if err := h.ready(); err != nil {
		return err
	}
	if err := h.kills(); err != nil {
		return err
	}
	return h.drains()
}

// hurt is a cluster under faults.
type hurt struct {
	*run
	cluster *cluster.Cluster
	admin   *cluster.Admin
	client  *client.Client

	mu    sync.Mutex
	asked []asked
}

// asked is one command of the open loop.
type asked struct {
	shard    uint32
	due, end time.Time
	failed   bool
}

// deadline is that of a client: what it does not cover has failed.
const deadline = 5 * time.Second

func (h *hurt) ready() error {
	ctx, cancel := context.WithTimeout(h.ctx, startTimeout)
	defer cancel()
	return h.cluster.Ready(ctx)
}

// load sends commands at a steady rate for a time, and does what is to be
// measured after a third of it. It returns when that began.
func (h *hurt) load(length time.Duration, hurt func() error) (began time.Time, err error) {
	h.mu.Lock()
	h.asked = nil
	h.mu.Unlock()
	deposit := entity.Command[entities.Question, entities.Answer](entities.AccountType, entities.Deposit)
	question := entities.Question{Data: "a"}
	broken := make(chan error, 1)
	go func() {
		time.Sleep(length / 3)
		h.mu.Lock()
		began = time.Now()
		h.mu.Unlock()
		broken <- hurt()
	}()
	_, _ = measure.Open(h.Sizes.FaultRate, 1<<20, length, func(n int, done func(error)) { // failures are counted below
		id := "account-" + strconv.Itoa(n%h.Sizes.Entities)
		a := asked{shard: sharding.ShardOf(sharding.EntityID(id), entities.Shards), due: time.Now()}
		go func() {
			ctx, cancel := context.WithTimeout(h.ctx, deadline)
			defer cancel()
			_, err := deposit.Ask(ctx, h.client, id, question)
			a.end, a.failed = time.Now(), err != nil
			h.mu.Lock()
			h.asked = append(h.asked, a)
			h.mu.Unlock()
			done(nil)
		}()
	})
	err = <-broken
	return began, err
}

// warm sends each entity a command, so that all shards are placed.
func (h *hurt) warm() error {
	each := time.Duration(float64(h.Sizes.Entities) / h.Sizes.FaultRate * float64(time.Second))
	_, err := h.load(each, func() error { return nil })
	return err
}

// victim is the region that owns most shards, and which those are.
func (h *hurt) victim() (name string, owned map[uint32]bool, err error) {
	for i := range 3 {
		region := fmt.Sprintf("%s-%d", cluster.Region, 1+i)
		res, err := h.admin.Shards(h.ctx, entities.AccountType, region)
		if err != nil {
			return "", nil, err
		}
		if len(res.Shards) <= len(owned) {
			continue
		}
		name, owned = region, map[uint32]bool{}
		for _, s := range res.Shards {
			owned[s.Index] = true
		}
	}
	if name == "" {
		return "", nil, errors.New("no region owns a shard")
	}
	return name, owned, nil
}

// noticed is what clients saw of a fault.
type noticed struct {
	back   []time.Duration // of commands that waited: until they were answered, from the fault on
	gaps   []time.Duration // of the shards concerned: the longest wait
	failed float64
	all    int
}

// waited is the latency from which on a command is said to have waited.
const waited = 50 * time.Millisecond

func (h *hurt) notice(began time.Time, owned map[uint32]bool) (n noticed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n.all = len(h.asked)
	gaps := map[uint32]time.Duration{}
	for _, a := range h.asked {
		if a.failed {
			n.failed++
			continue
		}
		if took := a.end.Sub(a.due); owned[a.shard] && a.end.After(began) {
			gaps[a.shard] = max(gaps[a.shard], took)
			if took > waited {
				n.back = append(n.back, a.end.Sub(began))
			}
		}
	}
	for _, gap := range gaps { // order-free: quantiles
		n.gaps = append(n.gaps, gap)
	}
	return n
}

// kills kills regions, one at a time, by SIGKILL.
func (h *hurt) kills() error {
	var half, last, failed []float64
	for range h.Sizes.Kills {
		if err := h.warm(); err != nil {
			return err
		}
		victim, owned, err := h.victim()
		if err != nil {
			return err
		}
		began, err := h.load(h.Sizes.FaultTime, func() error { return h.cluster.Kill(victim) })
		if err != nil {
			return err
		}
		n := h.notice(began, owned)
		half, last = append(half, millis(n.back, 0.5)), append(last, millis(n.back, 1))
		failed = append(failed, n.failed)
		if err := h.cluster.Restart(h.ctx, victim); err != nil {
			return err
		}
		if err := h.ready(); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("kill -9 of a region, %d times: ", h.Sizes.Kills)
	h.add(report.Row{Section: faulty, Measure: name + "commands that waited, median until answered", Unit: "ms",
		Value: measure.Median(half), Target: report.Target{AtMost: 1000}})
	h.add(report.Row{Section: faulty, Measure: name + "last of them, worst kill", Unit: "ms", Value: most(last), Target: report.Target{AtMost: 2500}})
	h.add(report.Row{Section: faulty, Measure: name + "failed commands, worst kill", Unit: "commands", Value: most(failed), Target: report.Target{None: true}})
	return nil
}

// drains lets a region hand all its shards off under load.
func (h *hurt) drains() error {
	if err := h.warm(); err != nil {
		return err
	}
	victim, owned, err := h.victim()
	if err != nil {
		return err
	}
	began, err := h.load(h.Sizes.FaultTime, func() error {
		_, err := h.admin.Drain(h.ctx, victim, false)
		return err
	})
	if err != nil {
		return err
	}
	n := h.notice(began, owned)
	name := fmt.Sprintf("planned move of %d shards: ", len(owned))
	h.add(report.Row{Section: faulty, Measure: name + "longest wait per shard, 99th percentile", Unit: "ms",
		Value: millis(n.gaps, 0.99), Target: report.Target{AtMost: 250}})
	h.add(report.Row{Section: faulty, Measure: name + "failed commands", Unit: "commands", Value: n.failed, Target: report.Target{None: true}})
	return nil
}

// millis is a quantile in milliseconds.
func millis(ds []time.Duration, q float64) float64 {
	var h measure.Histogram
	for _, d := range ds {
		h.Add(d)
	}
	return float64(h.Quantile(q)) / 1e6
}

func most(vs []float64) (m float64) {
	for _, v := range vs {
		m = max(m, v)
	}
	return m
}
