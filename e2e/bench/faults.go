package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

// faults measure what clients of durable entities notice of faults, under an open loop of
// commands. Most suites share a cluster, and restore it at the end.
var faults = []suite{
	{"kill", onFaultCluster((*faultRun).kills)},
	{"pause", onFaultCluster((*faultRun).pauses)},
	{"cut", (*run).cuts},
	{"drain", onFaultCluster((*faultRun).drains)},
	{"scale", onFaultCluster((*faultRun).scales)},
	{"coordinator", onFaultCluster((*faultRun).takeovers)},
	{"watchers", onFaultCluster((*faultRun).watchers)},
	{"overload", onFaultCluster((*faultRun).overload)},
}

// onFaultCluster starts the cluster before the first suite that needs it.
func onFaultCluster(suite func(*faultRun) error) func(*run) error {
	return func(r *run) (err error) {
		if r.faultRun == nil {
			if r.faultRun, err = r.startFaultRun("faults", nil); err != nil {
				return err
			}
		}
		if err := r.faultRun.ready(); err != nil {
			return err
		}
		return suite(r.faultRun)
	}
}

// startFaultRun starts a cluster for faults; change, if set, changes its options.
func (r *run) startFaultRun(dir string, change func(*cluster.Options)) (*faultRun, error) {
	o := cluster.Options{
		Name: clusterName, Coordinators: 2, Regions: 3, Gateways: 2, Dir: filepath.Join(r.Dir, dir), BinDir: r.Bin,
		RegionBinary: filepath.Join(r.Bin, "bench-region"), LogLevel: "warn",
	}
	if change != nil {
		change(&o)
	}
	c, err := cluster.Start(r.ctx, o)
	if err != nil {
		return nil, err
	}
	f := &faultRun{run: r, cluster: c, admin: adminclient.New(c.Admin()...), journal: filepath.Join(o.Dir, "journal.db")}
	if f.client, err = client.New(c.Gateways()); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// faultRun is a cluster under faults, and the load on it.
type faultRun struct {
	*run
	cluster *cluster.Cluster
	admin   *adminclient.Client
	client  *client.Client
	journal string // its file
	used    int    // shards that unplacedIDs has given out

	mu       sync.Mutex
	commands []timedCommand
}

func (f *faultRun) close() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_ = f.cluster.Close(ctx) // the measurements are done
}

// timedCommand is one command of the open loop.
type timedCommand struct {
	shard    uint32
	due, end time.Time
	failed   bool
}

// deadline is the time after which a client counts a command as failed. It is longer than the
// longest gap that any fault may cause.
const deadline = 10 * time.Second

func (f *faultRun) ready() error {
	ctx, cancel := context.WithTimeout(f.ctx, startTimeout)
	defer cancel()
	return f.cluster.Ready(ctx)
}

// restart starts a process again, and waits until all are ready.
func (f *faultRun) restart(name string) error {
	if err := f.cluster.Restart(f.ctx, name); err != nil {
		return err
	}
	return f.ready()
}

// load sends commands at a steady rate for a time, and calls inject after a third of it.
// It returns what inject does: when the fault began.
func (f *faultRun) load(length time.Duration, inject func() (began time.Time, err error)) (began time.Time, err error) {
	f.mu.Lock()
	f.commands = nil
	f.mu.Unlock()
	deposit := entity.Command[entities.Question, entities.Answer](entities.AccountType, entities.Deposit)
	question := entities.Question{Data: "a"}
	over := make(chan struct{})
	go func() {
		defer close(over)
		time.Sleep(length / 3)
		began, err = inject()
	}()
	_, _ = measure.Open(f.Sizes.FaultRate, 1<<20, 0, length, func(n int, done func(error)) { // failures are counted below
		id := "account-" + strconv.Itoa(n%f.Sizes.Entities)
		a := timedCommand{shard: shardingtest.ShardOf(sharding.EntityID(id), entities.Shards), due: time.Now()}
		go func() {
			ctx, cancel := context.WithTimeout(f.ctx, deadline)
			defer cancel()
			_, err := deposit.Call(ctx, f.client, id, question)
			a.end, a.failed = time.Now(), err != nil
			f.mu.Lock()
			f.commands = append(f.commands, a)
			f.mu.Unlock()
			done(nil)
		}()
	})()
	<-over
	return began, err
}

// warm sends each entity a command, so that all shards are placed.
func (f *faultRun) warm() error {
	each := time.Duration(float64(f.Sizes.Entities) / f.Sizes.FaultRate * float64(time.Second))
	_, err := f.load(each, func() (time.Time, error) { return time.Now(), nil })
	return err
}

// running returns the processes of a role that run.
func (f *faultRun) running(role string) (ps []cluster.Process) {
	for _, p := range f.cluster.Processes() {
		if p.Role == role && p.PID != 0 {
			ps = append(ps, p)
		}
	}
	return ps
}

// hasEnded reports whether a process has ended.
func (f *faultRun) hasEnded(name string) bool {
	return slices.ContainsFunc(f.cluster.Processes(), func(p cluster.Process) bool { return p.Name == name && p.PID == 0 })
}

// owned returns the shards that a region serves.
func (f *faultRun) owned(region string) (map[uint32]bool, error) {
	res, err := f.admin.Shards(f.ctx, entities.AccountType, region)
	if err != nil {
		return nil, err
	}
	owned := map[uint32]bool{}
	for _, s := range res.Shards {
		if s.Phase == sharding.Serving.String() {
			owned[s.Index] = true
		}
	}
	return owned, nil
}

// victim returns the region that owns most shards, and these shards.
func (f *faultRun) victim() (name string, owned map[uint32]bool, err error) {
	for _, p := range f.running(cluster.Region) {
		has, err := f.owned(p.Name)
		if err != nil {
			return "", nil, err
		}
		if len(has) > len(owned) {
			name, owned = p.Name, has
		}
	}
	if name == "" {
		return "", nil, errors.New("no region owns a shard")
	}
	return name, owned, nil
}

// impact is the effect of a fault on clients.
type impact struct {
	waits      []time.Duration // from the fault to the answer, for each command that waited for it
	gaps       []time.Duration // the longest latency after the fault, for each affected shard
	gapsBefore []time.Duration // the same before the fault
	failed     float64
	slowest    time.Duration // the longest latency of all commands after the fault
}

// waitThreshold is the latency above which a command has waited.
const waitThreshold = 50 * time.Millisecond

// measureImpact returns what clients saw of a fault that affects the owned shards.
func (f *faultRun) measureImpact(began time.Time, owned map[uint32]bool) (n impact) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gaps, gapsBefore := map[uint32]time.Duration{}, map[uint32]time.Duration{}
	back := map[uint32]time.Time{} // when the shard first answered a command sent after the fault
	for _, a := range f.commands {
		took := a.end.Sub(a.due)
		if a.failed {
			n.failed++
			continue
		}
		if a.end.Before(began) {
			if owned[a.shard] {
				gapsBefore[a.shard] = max(gapsBefore[a.shard], took)
			}
			continue
		}
		n.slowest = max(n.slowest, took)
		if owned[a.shard] {
			gaps[a.shard] = max(gaps[a.shard], took)
			if first, ok := back[a.shard]; a.due.After(began) && (!ok || a.end.Before(first)) {
				back[a.shard] = a.end
			}
		}
	}
	for _, a := range f.commands {
		// A command that is slow after its shard is back is slow for another reason.
		first, ok := back[a.shard]
		if owned[a.shard] && !a.failed && a.end.After(began) && a.end.Sub(a.due) > waitThreshold && (!ok || a.due.Before(first)) {
			n.waits = append(n.waits, a.end.Sub(began))
		}
	}
	for shard := range owned { // order-free: quantiles
		if gap, ok := gaps[shard]; ok {
			n.gaps = append(n.gaps, gap)
		}
		if gap, ok := gapsBefore[shard]; ok {
			n.gapsBefore = append(n.gapsBefore, gap)
		}
	}
	return n
}

// allShards returns all shards of a type.
func allShards() map[uint32]bool {
	all := map[uint32]bool{}
	for i := range uint32(entities.Shards) {
		all[i] = true
	}
	return all
}

// unplacedIDs returns ids of volatile entities, each in a shard that was never requested.
func (f *faultRun) unplacedIDs(n int) (ids []string, err error) {
	if f.used+n > entities.Shards {
		return nil, fmt.Errorf("only %d unrequested shards are left, %d are needed: run fewer suites or fewer -times", entities.Shards-f.used, n)
	}
	seen := map[uint32]bool{}
	for i := 0; len(ids) < f.used+n; i++ {
		id := "new-" + strconv.Itoa(i)
		if shard := shardingtest.ShardOf(sharding.EntityID(id), entities.Shards); !seen[shard] {
			seen[shard] = true
			ids = append(ids, id)
		}
	}
	ids = ids[f.used:]
	f.used += n
	return ids, nil
}

// newHTTPClient returns a client with connections of its own.
func newHTTPClient() *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableCompression: true}}
}

// addMillis reports a figure in milliseconds.
func (f *faultRun) addMillis(section, measure string, ms float64, target report.Target) {
	f.add(report.Row{Section: section, Measure: measure, Unit: "ms", Value: ms, Target: target})
}

// addFailures reports how many commands failed.
func (r *run) addFailures(section, measure string, n float64) {
	r.add(report.Row{Section: section, Measure: measure, Unit: "commands", Value: n, Target: report.Target{None: true}})
}

// quantileMS returns a quantile in milliseconds.
func quantileMS(ds []time.Duration, q float64) float64 {
	var h measure.Histogram
	for _, d := range ds {
		h.Add(d)
	}
	return ms(h.Quantile(q))
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// maxOf returns the largest value, or 0 if there are none.
func maxOf(vs []float64) float64 { return slices.Max(append([]float64{0}, vs...)) }
