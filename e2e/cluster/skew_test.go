package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/load"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

const (
	// A region with all the load of three has three times the average.
	skewedRatio, dividedRatio = 1.8, 1.2
	// divideLimit is the time at which the test gives up. How long it takes to divide the load, with the reports,
	// the smoothing and the cool-down, is reported and not judged.
	divideLimit = 5 * time.Minute
	// dividedFor is the time that it must stay divided. By then the new owners have measured it.
	dividedFor = 5 * time.Second
)

// byLoad has shards move because of their loads, and soon. The loads of the test are small, and
// commands count most.
func byLoad(_ *run, o *launcher.Options) {
	o.Args[launcher.Coordinator] = append(o.Args[launcher.Coordinator],
		"--allocation.strategy=load", "--allocation.cooldown=4s", "--allocation.floor=0.001", "--allocation.command-cost=1ms")
	o.Args[launcher.Region] = append(o.Args[launcher.Region], "--region.load-interval=1s", "--region.load-half-life=3s")
}

// loads returns the loads of the regions, and the largest divided by the average; 0: not all are
// known.
func (r *run) loads() (of []float64, ratio float64) {
	res, err := r.admin().Members(r.Context())
	if err != nil {
		return nil, 0
	}
	sum := 0.0
	for _, m := range res.Members {
		if slices.Contains(m.Roles, "region") {
			if m.Load == nil || !m.Load.Complete {
				return nil, 0
			}
			of = append(of, m.Load.Cost)
			sum += m.Load.Cost
		}
	}
	if sum == 0 {
		return of, 0
	}
	return of, slices.Max(of) * float64(len(of)) / sum
}

// divideLoad brings all shards to one region by pins, and unpins them.
func divideLoad(r *run) {
	r.allocateAll()
	r.assign("List", typeShards, false, "region-1")
	want := r.assign("Tally", tallyShards, false, "region-1")
	r.at("Tally", want)
	var skewed float64
	eventually(r.T, waitLimit, func() error {
		of, ratio := r.loads()
		if n := r.shardsOf("region-1"); n < typeShards || ratio < skewedRatio {
			return fmt.Errorf("region-1 has %d shards of lists, and the loads are %.3f", n, of)
		}
		skewed = ratio
		return nil
	})
	r.hottest()
	r.wait(4 * time.Second) // shards that have just come move on only after the cool-down
	before, began := r.load.Now(), time.Now()
	r.assign("List", typeShards, false)
	r.assign("Tally", tallyShards, false)
	var divided time.Time // since when the load is; zero: it is not
	var took time.Duration
	eventually(r.T, divideLimit, func() error {
		of, ratio := r.loads()
		switch {
		case ratio == 0 || ratio > dividedRatio:
			divided = time.Time{}
		case divided.IsZero():
			divided = time.Now()
		case time.Since(divided) >= dividedFor:
			took = divided.Sub(began)
			r.figure("the largest load of a region was %.2f times the average, and %.2f times %.1f s after the pins began to go: %.3f processors",
				skewed, ratio, took.Seconds(), of)
			return nil
		}
		return fmt.Errorf("the loads are %.3f, the largest is %.2f times the average", of, ratio)
	})
	after := r.load.Now()
	r.figure("p99 of commands at one region %v, while shards moved and after that %v", r.p99(0, before), r.p99(before, after))
}

// hottest fails unless "roost cluster top" lists first the list that has most of the calls, and its shard.
func (r *run) hottest() {
	r.Helper()
	hot := load.ListName(0)
	where, err := r.admin().Where(r.Context(), "List", hot)
	if err != nil {
		r.Fatal(err)
	}
	eventually(r.T, waitLimit, func() error {
		out, err := exec.CommandContext(r.Context(), filepath.Join(binaries(r.T), "roost"), "cluster", "top", "--once", "-o", "json", "--admin", strings.Join(r.cluster.Admin(), ",")).Output()
		if err != nil {
			return fmt.Errorf("roost cluster top: %w", err)
		}
		var top adminv1.TopResponse
		if err := protojson.Unmarshal(out, &top); err != nil {
			return err
		}
		if len(top.Shards) == 0 || len(top.Entities) == 0 || len(top.Silent) > 0 || top.Regions != 3 {
			return fmt.Errorf("roost cluster top lists %v", &top)
		}
		s, e := top.Shards[0], top.Entities[0]
		if s.Type != "List" || s.Index != where.Shard.Index || s.Region != "region-1" || e.Type != "List" || e.Id != hot || e.Index != s.Index || e.Region != s.Region {
			return fmt.Errorf("hot should be %s in %s/%d, and roost cluster top lists first %v and %v", hot, where.Shard.Type, where.Shard.Index, s, e)
		}
		r.figure("the hottest shard has %.0f of %.0f commands per second, and %.1f %% of a processor; its hottest list has %.0f commands per second", s.Commands, r.rate, 100*s.Handlers, e.Commands)
		return nil
	})
}

// p99 returns the 99th percentile of the operations that were called in a part of the run, batches included.
func (r *run) p99(from, to time.Duration) time.Duration {
	var took []time.Duration
	for _, o := range r.load.Ops() {
		if o.Call >= from && o.Call < to && o.Outcome == history.Executed {
			took = append(took, o.Return-o.Call)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*99/100].Round(100 * time.Microsecond)
}
