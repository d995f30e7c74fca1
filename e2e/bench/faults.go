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
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

// faults measure what clients of durable entities notice of faults, under an
// open loop of commands. Most
// share a cluster and leave it whole.
var faults = []suite{
	{"kill", hurting((*hurt).kills)},
	{"pause", hurting((*hurt).pauses)},
	{"cut", (*run).cuts},
	{"drain", hurting((*hurt).drains)},
	{"scale", hurting((*hurt).scales)},
	{"coordinator", hurting((*hurt).takeovers)},
	{"watchers", hurting((*hurt).watchers)},
	{"overload", hurting((*hurt).overload)},
}

// hurting starts the cluster before the first suite that needs it.
func hurting(suite func(*hurt) error) func(*run) error {
	return func(r *run) (err error) {
		if r.hurt == nil {
			if r.hurt, err = r.victims("faults", nil); err != nil {
				return err
			}
		}
		if err := r.hurt.ready(); err != nil {
			return err
		}
		return suite(r.hurt)
	}
}

// victims starts a cluster to be hurt; change, if set, changes its options.
func (r *run) victims(dir string, change func(*cluster.Options)) (*hurt, error) {
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
	h := &hurt{run: r, cluster: c, admin: cluster.NewAdmin(c.Admin()...), journal: filepath.Join(o.Dir, "journal.db")}
	if h.client, err = client.New(client.DefaultConfig(c.Gateways()...)); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// hurt is a cluster under faults.
type hurt struct {
	*run
	cluster *cluster.Cluster
	admin   *cluster.Admin
	client  *client.Client
	journal string // its file
	spent   int    // unplaced shards that are placed now; see fresh

	mu    sync.Mutex
	asked []asked
}

func (h *hurt) close() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_ = h.cluster.Close(ctx) // what was measured stands
}

// asked is one command of the open loop.
type asked struct {
	shard    uint32
	due, end time.Time
	failed   bool
}

// deadline is that of a client: what it does not cover has failed. It is above
// the longest gap that any fault may cause.
const deadline = 10 * time.Second

func (h *hurt) ready() error {
	ctx, cancel := context.WithTimeout(h.ctx, startTimeout)
	defer cancel()
	return h.cluster.Ready(ctx)
}

// restart starts a process that was killed, and waits until all serve.
func (h *hurt) restart(name string) error {
	if err := h.cluster.Restart(h.ctx, name); err != nil {
		return err
	}
	return h.ready()
}

// load sends commands at a steady rate for a time, and does what is to be
// measured after a third of it. It returns when that began, by its own account.
func (h *hurt) load(length time.Duration, hurt func() (began time.Time, err error)) (began time.Time, err error) {
	h.mu.Lock()
	h.asked = nil
	h.mu.Unlock()
	deposit := entity.Command[entities.Question, entities.Answer](entities.AccountType, entities.Deposit)
	question := entities.Question{Data: "a"}
	over := make(chan struct{})
	go func() {
		defer close(over)
		time.Sleep(length / 3)
		began, err = hurt()
	}()
	_, _ = measure.Open(h.Sizes.FaultRate, 1<<20, 0, length, func(n int, done func(error)) { // failures are counted below
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
	})()
	<-over
	return began, err
}

// warm sends each entity a command, so that all shards are placed.
func (h *hurt) warm() error {
	each := time.Duration(float64(h.Sizes.Entities) / h.Sizes.FaultRate * float64(time.Second))
	_, err := h.load(each, func() (time.Time, error) { return time.Now(), nil })
	return err
}

// living are the processes of a role that run.
func (h *hurt) living(role string) (ps []cluster.Process) {
	for _, p := range h.cluster.Processes() {
		if p.Role == role && p.PID != 0 {
			ps = append(ps, p)
		}
	}
	return ps
}

// ended reports whether a process has ended.
func (h *hurt) ended(name string) bool {
	return slices.ContainsFunc(h.cluster.Processes(), func(p cluster.Process) bool { return p.Name == name && p.PID == 0 })
}

// owned are the shards that a region serves.
func (h *hurt) owned(region string) (map[uint32]bool, error) {
	res, err := h.admin.Shards(h.ctx, entities.AccountType, region)
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

// victim is the region that owns most shards, and which those are.
func (h *hurt) victim() (name string, owned map[uint32]bool, err error) {
	for _, p := range h.living(cluster.Region) {
		has, err := h.owned(p.Name)
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

// noticed is what clients saw of a fault.
type noticed struct {
	back    []time.Duration // of commands that waited for the fault: until they were answered, from it on
	gaps    []time.Duration // of the shards concerned: the longest wait of a command after it
	calm    []time.Duration // the same of the commands before it
	failed  float64
	slowest time.Duration // of all commands after it
}

// waited is the latency from which on a command is said to have waited.
const waited = 50 * time.Millisecond

// notice tells what clients saw of a fault that concerns some shards.
func (h *hurt) notice(began time.Time, owned map[uint32]bool) (n noticed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gaps, calm := map[uint32]time.Duration{}, map[uint32]time.Duration{}
	back := map[uint32]time.Time{} // when the shard first answered what was sent after the fault
	for _, a := range h.asked {
		took := a.end.Sub(a.due)
		if a.failed {
			n.failed++
			continue
		}
		if a.end.Before(began) {
			if owned[a.shard] {
				calm[a.shard] = max(calm[a.shard], took)
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
	for _, a := range h.asked {
		// What is slow after its shard is back, is so for another reason.
		first, ok := back[a.shard]
		if owned[a.shard] && !a.failed && a.end.After(began) && a.end.Sub(a.due) > waited && (!ok || a.due.Before(first)) {
			n.back = append(n.back, a.end.Sub(began))
		}
	}
	for shard := range owned { // order-free: quantiles
		if gap, ok := gaps[shard]; ok {
			n.gaps = append(n.gaps, gap)
		}
		if gap, ok := calm[shard]; ok {
			n.calm = append(n.calm, gap)
		}
	}
	return n
}

// every is that of all shards.
func every() map[uint32]bool {
	all := map[uint32]bool{}
	for i := range uint32(entities.Shards) {
		all[i] = true
	}
	return all
}

// fresh are ids of volatile entities, each in a shard that nobody has asked for.
func (h *hurt) fresh(n int) (ids []string, err error) {
	if h.spent+n > entities.Shards {
		return nil, fmt.Errorf("only %d shards are left that nobody has asked for, %d are needed: run fewer suites or fewer -times", entities.Shards-h.spent, n)
	}
	seen := map[uint32]bool{}
	for i := 0; len(ids) < h.spent+n; i++ {
		id := "new-" + strconv.Itoa(i)
		if shard := sharding.ShardOf(sharding.EntityID(id), entities.Shards); !seen[shard] {
			seen[shard] = true
			ids = append(ids, id)
		}
	}
	ids = ids[h.spent:]
	h.spent += n
	return ids, nil
}

// direct is a client of the services themselves.
func direct() *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableCompression: true}}
}

// told reports a figure in milliseconds.
func (h *hurt) told(section, measure string, ms float64, target report.Target) {
	h.add(report.Row{Section: section, Measure: measure, Unit: "ms", Value: ms, Target: target})
}

// lost reports how many commands failed.
func (h *hurt) lost(section, measure string, n float64) {
	h.add(report.Row{Section: section, Measure: measure, Unit: "commands", Value: n, Target: report.Target{None: true}})
}

// millis is a quantile in milliseconds.
func millis(ds []time.Duration, q float64) float64 {
	var h measure.Histogram
	for _, d := range ds {
		h.Add(d)
	}
	return ms(h.Quantile(q))
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// most is the largest value, 0 if there are none.
func most(vs []float64) float64 { return slices.Max(append([]float64{0}, vs...)) }
