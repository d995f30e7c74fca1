package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// For the measurement during plans.
const (
	// planTypes is the number of types in a plan.
	planTypes = 3
	// leaseLooks is the time between two looks at the record of the lease.
	leaseLooks = 5 * time.Millisecond
	// leastRenewals is the least number of renewals for a figure.
	leastRenewals = 2
	// questionEvery is the time between two questions to the coordinator.
	questionEvery = 20 * time.Millisecond
	// fillTimeout bounds the time in which all shards of a large table are allocated.
	fillTimeout = 3 * time.Minute
	// homesAtOnce is the number of shards in one request.
	homesAtOnce = 1000
)

// planningUnderLoad measures whether a coordinator process keeps its lease and answers while it plans
// for a large cluster, and while it carries such a plan out. The regions are simulated.
func (r *run) planningUnderLoad() error {
	if runtime.GOOS != "linux" {
		r.report.Skipped = append(r.report.Skipped, "a coordinator during its plans: simulated regions have addresses of Linux")
		return nil
	}
	p, err := r.startPlanning()
	if err != nil {
		return err
	}
	defer p.close()
	shards, regions := len(p.shards), len(p.regions.all)
	what := fmt.Sprintf("coordinator process, %s shards on %s regions, ", report.Number(float64(shards)), report.Number(float64(regions)))
	p.reset()
	fmt.Fprintf(r.Progress, "%d more regions register\n", regions-p.first)
	if err := p.regions.register(r.ctx, p.regions.all[p.first:]); err != nil {
		return err
	}
	moved, err := p.awaitBalance()
	if err != nil {
		return err
	}
	if err := p.report(what + fmt.Sprintf("a tenth of them new, plans carried out, %s moves: ", report.Number(float64(moved)))); err != nil {
		return err
	}
	p.reset()
	plans, longest, err := p.plans()
	if err != nil {
		return err
	}
	r.add(report.Row{Section: placing, Unit: "ms", Value: ms(longest), Target: report.Target{AtMost: 10_000},
		Measure: what + fmt.Sprintf("%d plans without a tenth of the regions, one after the other: longest", plans)})
	return p.report(what + "during these plans: ")
}

// planningRun is a coordinator process with simulated regions.
type planningRun struct {
	*run
	cluster     *cluster.Cluster
	coordinator cluster.Process
	regions     *simulatedRegions
	first       int // regions that have registered at first
	shards      []sharding.ShardID
	admin       adminv1.Admin
	store       lease.Backend
	asking      sync.WaitGroup
	refused     atomic.Int64 // requests for plans
	end         context.CancelFunc

	mu     sync.Mutex
	lapses int             // changes of the term
	gaps   []time.Duration // between renewals of the lease
	status []time.Duration // answers to operators who list the members
	where  []time.Duration // answers about where an entity is
	failed int             // answers that were none
	last   error           // why
}

func (r *run) startPlanning() (_ *planningRun, err error) {
	p := &planningRun{run: r, end: func() {}}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	ctx, cancel := context.WithTimeout(r.ctx, fillTimeout)
	defer cancel()
	dir := filepath.Join(r.Dir, "planning")
	if p.cluster, err = cluster.Start(ctx, cluster.Options{Name: clusterName, Coordinators: 1, Dir: dir, BinDir: r.Bin, LogLevel: "warn",
		RegionBinary: filepath.Join(r.Bin, "bench-region"),
		Args:         map[string][]string{cluster.Coordinator: {"--management.pprof=true", "--gossip.fast=false"}}}); err != nil {
		return p, err
	}
	if err := p.cluster.Ready(ctx); err != nil {
		return p, err
	}
	p.coordinator = p.cluster.Processes()[0]
	p.admin = adminv1.NewAdminProtobufClient("http://"+p.coordinator.Management, &http.Client{})
	if p.store, err = lease.Open(ctx, "sqlite:"+filepath.Join(dir, "lease.db")); err != nil {
		return p, err
	}
	var types []sharding.TypeDesc
	for t := range planTypes {
		d := sharding.TypeDesc{Type: sharding.EntityType(fmt.Sprint("Planned", t+1)), Shards: uint32(r.Sizes.PlanShards / planTypes), Volatile: true}
		types = append(types, d)
		for i := range d.Shards {
			p.shards = append(p.shards, sharding.ShardID{Type: d.Type, Index: i})
		}
	}
	count := max(10, r.Sizes.PlanShards/75)
	if p.regions, err = simulateRegions(r.ctx, count, p.coordinator.Service, types); err != nil {
		return p, err
	}
	fmt.Fprintf(r.Progress, "%d simulated regions join\n", count)
	if err := p.regions.members.await(ctx); err != nil {
		return p, err
	}
	p.first = count - count/10
	if err := p.regions.register(ctx, p.regions.all[:p.first]); err != nil {
		return p, err
	}
	fmt.Fprintf(r.Progress, "%d shards are allocated\n", len(p.shards))
	if err := fill(ctx, p.coordinator.Service, p.shards, func() (int, error) { return p.regions.serving(), nil }); err != nil {
		return p, err
	}
	at, stop := context.WithCancel(r.ctx)
	p.end = stop
	p.asking.Go(func() { p.watchLease(at) })
	p.asking.Go(func() {
		p.ask(at, &p.status, func() error {
			_, err := p.admin.Members(at, &adminv1.MembersRequest{})
			return err
		})
	})
	p.asking.Go(func() {
		n := 0
		p.ask(at, &p.where, func() error {
			n++
			_, err := p.admin.Where(at, &adminv1.WhereRequest{Type: string(p.shards[0].Type), Id: fmt.Sprint("entity-", n)})
			return err
		})
	})
	return p, nil
}

func (p *planningRun) close() {
	p.end()
	p.asking.Wait()
	if p.regions != nil {
		p.regions.close()
	}
	if p.store != nil {
		_ = p.store.Close() // it was only read
	}
	if p.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		_ = p.cluster.Close(ctx) // the measurements are done
	}
}

// fill asks for the homes of shards until all are served.
func fill(ctx context.Context, coordinator string, shards []sharding.ShardID, served func() (int, error)) error {
	api := controlClient(&http.Client{}, 5*time.Second)
	ask := func() error {
		for begin := 0; begin < len(shards); begin += homesAtOnce {
			var homes []control.Message
			for _, s := range shards[begin:min(begin+homesAtOnce, len(shards))] {
				homes = append(homes, control.GetShardHome{Shard: s})
			}
			if err := api.Send(ctx, sharding.NodeID{Addr: coordinator}, homes); err != nil {
				return err
			}
		}
		return nil
	}
	var asked time.Time
	var last error // a busy coordinator may refuse requests, which are repeated
	for {
		if time.Since(asked) > 10*time.Second { // what was asked for too early is not remembered
			last = ask()
			asked = time.Now()
		}
		n, err := served()
		if err != nil {
			return err
		}
		if n >= len(shards) {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d shards are served: %w", n, len(shards), errors.Join(ctx.Err(), last))
		}
	}
}

// reset forgets what was measured.
func (p *planningRun) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lapses, p.gaps, p.status, p.where, p.failed, p.last = 0, nil, nil, nil, 0, nil
}

// watchLease measures the time between renewals.
func (p *planningRun) watchLease(ctx context.Context) {
	var last lease.Record
	var at time.Time
	for ctx.Err() == nil {
		record, err := p.store.Get(ctx, "coordinator."+clusterName)
		if now := time.Now(); err == nil && record.Version != last.Version {
			p.mu.Lock()
			if last.Version > 0 {
				p.gaps = append(p.gaps, now.Sub(at))
				if record.Term != last.Term {
					p.lapses++
				}
			}
			p.mu.Unlock()
			last, at = record, now
		}
		time.Sleep(leaseLooks)
	}
}

// ask asks a question again and again.
func (p *planningRun) ask(ctx context.Context, took *[]time.Duration, question func() error) {
	for ctx.Err() == nil {
		began := time.Now()
		err := question()
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		*took = append(*took, time.Since(began))
		if err != nil {
			p.failed++
			p.last = err
		}
		p.mu.Unlock()
		time.Sleep(questionEvery)
	}
}

// awaitBalance waits until the new regions have their share of the shards, and counts these.
func (p *planningRun) awaitBalance() (moved int, err error) {
	fair := len(p.shards) / len(p.regions.all)
	for began := time.Now(); ; {
		moved, least := 0, fair
		for _, r := range p.regions.all[p.first:] {
			r.mu.Lock()
			moved, least = moved+len(r.shards), min(least, len(r.shards))
			r.mu.Unlock()
		}
		if least >= fair-fair/20-1 {
			return moved, nil
		}
		if time.Since(began) > fillTimeout {
			return moved, fmt.Errorf("a new region has %d shards after %s, a fair share is %d", least, fillTimeout, fair)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// plans asks for plans, one after the other: with each strategy for a third of the time.
func (p *planningRun) plans() (n int, longest time.Duration, err error) {
	var without []string
	for _, r := range p.regions.all[p.first:] {
		without = append(without, r.name())
	}
	for _, strategy := range []string{allocation.NameLeastShards, allocation.NameConsistentHashing, allocation.NameLoad} {
		for until := time.Now().Add(5 * p.Length); time.Now().Before(until); {
			began := time.Now()
			res, err := p.admin.Plan(p.ctx, &adminv1.PlanRequest{Without: without, Strategy: fmt.Sprintf("%s absolute_limit=%d relative_limit=1", strategy, len(p.shards))})
			if refused, is := err.(twirp.Error); is && (refused.Code() == twirp.ResourceExhausted || refused.Code() == twirp.Aborted) && p.ctx.Err() == nil {
				p.refused.Add(1)
				time.Sleep(questionEvery)
				continue
			}
			if err != nil {
				return n, longest, err
			}
			if len(res.Moves) == 0 {
				return n, longest, errors.New("a plan without a tenth of the regions has no moves: " + strings.Join(res.HeldBack, "; "))
			}
			n, longest = n+1, max(longest, time.Since(began))
		}
	}
	return n, longest, nil
}

// awaitRenewals waits until a few renewals were seen since the last reset: what takes no time is
// over before the first one.
func (p *planningRun) awaitRenewals() error {
	ctx, cancel := context.WithTimeout(p.ctx, startTimeout)
	defer cancel()
	for {
		p.mu.Lock()
		seen := len(p.gaps)
		p.mu.Unlock()
		if seen >= leastRenewals {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d renewals of the lease: %w", seen, ctx.Err())
		}
		time.Sleep(leaseLooks)
	}
}

// report reports how the lease was kept and how questions were answered since the last reset.
func (p *planningRun) report(what string) error {
	if err := p.awaitRenewals(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.run
	r.add(report.Row{Section: placing, Unit: "ms", Value: quantileMS(p.gaps, 1), Target: report.Target{AtMost: 2000},
		Measure: what + fmt.Sprintf("longest time between two of %d renewals of the lease, which lasts 2 s", len(p.gaps))})
	r.add(report.Row{Section: placing, Unit: "terms", Value: float64(p.lapses), Target: report.Target{None: true}, Measure: what + "lapses of the lease"})
	for _, q := range []struct {
		name string
		took []time.Duration
	}{{"roost cluster status", p.status}, {"Where of the admin API", p.where}} {
		r.add(report.Row{Section: placing, Unit: "ms", Value: quantileMS(q.took, 0.99), Target: report.Target{AtMost: 250},
			Measure: what + fmt.Sprintf("%d answers to %s, 99th percentile", len(q.took), q.name)})
		r.add(report.Row{Section: placing, Unit: "ms", Value: quantileMS(q.took, 1), Measure: what + "the slowest answer to " + q.name})
	}
	if p.failed > 0 {
		fmt.Fprintf(r.Progress, "%d questions failed, such as: %v\n", p.failed, p.last)
	}
	return nil
}
