package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/test/testbin"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

// TestPlacement: shards are where operators, programs and strategies want them, while commands
// continue and processes die.
func TestPlacement(t *testing.T) { runScenarios(t, placements) }

var placements = []scenario{
	{name: "brake", on: server, length: 20 * time.Second, rate: 150, least: 0.2, prepare: takeDetour, faults: slowJournal},
	{name: "steering", short: files, length: 10 * time.Second, faults: steer},
	{name: "external", length: 10 * time.Second, prepare: externally, faults: placeExternally},
	{name: "custom", length: 10 * time.Second, prepare: packed, faults: pack},
	{name: "skew", length: 10 * time.Second, skewed: true, prepare: byLoad, faults: divideLoad},
	{name: "co-location", length: 10 * time.Second, prepare: ofTwoKinds, faults: colocate},
	{name: "roles", length: 10 * time.Second, prepare: ofTwoKinds, faults: divideTypes},
}

// operator is the caller in these scenarios.
const operator = "the test"

func (r *run) admin() *adminclient.Client { return adminclient.New(r.cluster.Admin()...) }

// steered makes a request, and again if its outcome is unknown or it is refused for now.
func (r *run) steered(ask func(context.Context, *adminclient.Client) (*adminv1.SteerResponse, error)) {
	r.Helper()
	eventually(r.T, waitLimit, func() error {
		_, err := ask(r.Context(), r.admin())
		return err
	})
}

func (r *run) cordon(region string, lift bool) {
	r.Helper()
	r.steered(func(ctx context.Context, a *adminclient.Client) (*adminv1.SteerResponse, error) {
		return a.Cordon(ctx, &adminv1.CordonRequest{Region: region, Lift: lift, By: operator})
	})
}

func (r *run) freeze(thaw bool) {
	r.Helper()
	r.steered(func(ctx context.Context, a *adminclient.Client) (*adminv1.SteerResponse, error) {
		return a.Freeze(ctx, &adminv1.FreezeRequest{Thaw: thaw, By: operator})
	})
}

// places returns where the shards of a type are that are served.
func (r *run) places(typ string) map[uint32]string {
	r.Helper()
	places := map[uint32]string{}
	eventually(r.T, waitLimit, func() error {
		res, err := r.admin().Shards(r.Context(), typ, "")
		if err != nil {
			return err
		}
		for _, s := range res.Shards {
			if s.Phase == "serving" {
				places[s.Index] = s.Region
			}
		}
		return nil
	})
	return places
}

// at waits until shards of a type are served at a region.
func (r *run) at(typ string, want map[uint32]string) {
	r.Helper()
	eventually(r.T, waitLimit, func() error {
		now := r.places(typ)
		for shard, region := range want {
			if now[shard] != region {
				return fmt.Errorf("%s/%d is at %q, wanted at %s", typ, shard, now[shard], region)
			}
		}
		return nil
	})
}

// killActive kills the active coordinator, waits for its successor, and starts it again.
func (r *run) killActive() {
	r.Helper()
	name, before := r.active()
	r.kill(name)
	r.successor(before)
	r.up()
}

// steer pins, cordons, freezes and moves, and kills coordinators in between.
func steer(r *run) {
	r.allocateAll()
	r.wait(time.Second)
	pinned := map[string]map[uint32]string{"List": {}, "Tally": {}}
	var pins []*adminv1.Pin
	for i := range uint32(8) {
		for _, typ := range []string{"List", "Tally"} {
			pinned[typ][i] = "region-1"
			pins = append(pins, &adminv1.Pin{Type: typ, Index: i, Region: "region-1"})
		}
	}
	r.steered(func(ctx context.Context, a *adminclient.Client) (*adminv1.SteerResponse, error) {
		return a.Pin(ctx, &adminv1.PinRequest{Pins: pins, By: operator})
	})
	r.at("List", pinned["List"])
	r.at("Tally", pinned["Tally"])

	r.cordon("region-2", false)
	r.killActive()
	r.stop("region-2") // and starts it again
	if n := r.shardsOf("region-2"); n > 0 {
		r.Errorf("region-2 is cordoned, and has %d shards of the lists after its restart", n)
	}

	r.freeze(false)
	r.cordon("region-2", true)
	r.killActive()
	frozen := r.places("List")
	eventually(r.T, waitLimit, func() error { // a coordinator that has just become active moves nothing at first
		_, err := r.admin().Move(r.Context(), &adminv1.MoveRequest{Type: "List", Index: 10, Region: "region-2", By: operator})
		if err == nil || !strings.Contains(err.Error(), "roost placement freeze --undo") {
			return fmt.Errorf("a move while moves are frozen is answered with %v", err)
		}
		return nil
	})
	r.wait(2 * time.Second)
	if now := r.places("List"); !equal(now, frozen) {
		r.Errorf("shards have moved although moves are frozen: from %v to %v", frozen, now)
	}

	r.asPlanned("region-3", func() { r.drain("region-3", false) })
	r.drain("region-3", true)

	r.freeze(true)
	eventually(r.T, waitLimit, func() error {
		if r.shardsOf("region-2") == 0 {
			return fmt.Errorf("region-2 gets no shards although nothing forbids that any more")
		}
		return nil
	})
	r.at("List", pinned["List"])
	r.at("Tally", pinned["Tally"])
	steering, err := r.admin().Steering(r.Context(), "")
	r.must(err)
	if len(steering.Pins) != len(pins) || len(steering.Cordons) != 0 || steering.Freeze != nil || steering.Pins[0].By != operator {
		r.Errorf("at the end, steering is %v", steering)
	}
	r.figure("%d shards stayed pinned through 2 coordinators and a restart", len(pins))
}

// drain moves all shards off a region, or ends that.
func (r *run) drain(region string, resume bool) {
	r.Helper()
	eventually(r.T, waitLimit, func() error {
		res, err := r.admin().Drain(r.Context(), &adminv1.DrainRequest{Region: region, Resume: resume})
		if err == nil && !resume && res.Remaining > 0 {
			err = fmt.Errorf("%d shards are left at %s", res.Remaining, region)
		}
		return err
	})
}

// asPlanned empties a region while nothing moves for balance, and checks that the shards of the lists go
// where "roost placement plan --without" has said before, and no others move. Shards of volatile types are given
// away in the order in which they are released.
func (r *run) asPlanned(region string, empty func()) {
	r.Helper()
	plan, err := r.admin().Plan(r.Context(), &adminv1.PlanRequest{Without: []string{region}})
	r.must(err)
	want, moved := r.places("List"), 0
	for _, m := range plan.Moves {
		if m.Type == "List" && m.Reason == "leave" {
			if m.From != region || want[m.Index] != region {
				r.Errorf("planned is %v, and the shard is at %s", m, want[m.Index])
			}
			want[m.Index] = m.To
			moved++
		}
	}
	for shard, at := range want {
		if at == region {
			r.Errorf("no place for List/%d is planned: %v", shard, plan)
		}
	}
	empty()
	r.at("List", want)
	r.figure("%d shards of %s went where they were planned to go", moved, region)
}

func equal(a, b map[uint32]string) bool {
	for shard, region := range a {
		if b[shard] != region {
			return false
		}
	}
	return len(a) == len(b)
}

func externally(_ *run, o *launcher.Options) {
	o.Args[launcher.Coordinator] = append(o.Args[launcher.Coordinator], "--allocation.strategy=external")
}

// assign wants the shards of a type at regions in turn.
func (r *run) assign(typ string, shards uint32, ahead bool, regions ...string) map[uint32]string {
	r.Helper()
	want := map[uint32]string{}
	for i := range shards {
		if len(regions) > 0 {
			want[i] = regions[int(i)%len(regions)]
		}
	}
	eventually(r.T, waitLimit, func() error {
		_, err := r.admin().Assign(r.Context(), adminclient.Assignment{Type: typ, Regions: want, Ahead: ahead, By: operator})
		return err
	})
	return want
}

// placeExternally has a program say where shards are: at two of three regions, then at one that
// comes later.
func placeExternally(r *run) {
	r.allocateAll()
	r.at("List", r.assign("List", typeShards, false, "region-1", "region-2"))
	r.at("Tally", r.assign("Tally", tallyShards, false, "region-3"))

	before := r.places("List")
	late := r.assign("List", typeShards, true, "region-4")
	r.killActive()
	r.wait(2 * time.Second)
	if now := r.places("List"); !equal(now, before) {
		r.Errorf("shards have moved before the region that they are wanted at has come: from %v to %v", before, now)
	}
	_, err := r.cluster.AddRegion(r.Context())
	r.must(err)
	r.at("List", late)

	// A region that is gone does not keep its shards from being served.
	r.kill("region-4")
	eventually(r.T, waitLimit, func() error {
		now := r.places("List")
		if n := len(now); n < typeShards || slices.ContainsFunc([]uint32{0, 1, 2, 3}, func(i uint32) bool { return now[i] == "region-4" }) {
			return fmt.Errorf("%d of %d shards are served, %v", n, typeShards, now)
		}
		return nil
	})
	r.up()
	r.at("List", late)
	r.at("Tally", r.assign("Tally", tallyShards, false, "region-2", "region-3"))
	r.figure("%d shards moved to where a program wanted them, 5 times", typeShards)
}

// packed uses a coordinator with a strategy of its own.
func packed(r *run, o *launcher.Options) {
	o.BinDir = filepath.Join(r.dir, "bin")
	r.must(os.Mkdir(o.BinDir, 0o755))
	own := testbin.Build(r.T, "examples/pack/cmd/pack-coordinator")
	r.must(os.Symlink(filepath.Join(own, "pack-coordinator"), filepath.Join(o.BinDir, "coordinator")))
	r.must(os.Symlink(filepath.Join(binaries(r.T), "gateway"), filepath.Join(o.BinDir, "gateway")))
	o.Args[launcher.Coordinator] = append(o.Args[launcher.Coordinator], "--allocation.types=List=pack,Tally=pack")
}

// pack stops the region that has all shards: all go to the next one.
func pack(r *run) {
	r.allocateAll()
	all := func(region string) {
		r.Helper()
		for typ, shards := range map[string]uint32{"List": typeShards, "Tally": tallyShards} {
			want := map[uint32]string{}
			for i := range shards {
				want[i] = region
			}
			r.at(typ, want)
		}
	}
	all("region-1")
	r.kill("region-1")
	all("region-2")
	r.killActive() // and starts region-1 again
	all("region-1")
	r.stop("region-1")
	all("region-1")
}

// ofTwoKinds starts regions that host lists; the scenario adds others.
func ofTwoKinds(r *run, o *launcher.Options) {
	o.Regions = 2
	o.RegionBinary = filepath.Join(r.dir, "region")
	r.release(version1)
}

// The commands of the type that the added regions host.
var (
	counterAdd = entity.Command[counterDelta, counterValue]("Counter", "Add")
	counterGet = entity.Command[struct{}, counterValue]("Counter", "Get", entity.ReadOnly())
)

type counterDelta struct {
	Delta int64 `json:"delta"`
}

type counterValue struct {
	Value int64 `json:"value"`
}

// divideTypes adds regions that host another type. What happens to the regions of one type does
// not concern the other.
func divideTypes(r *run) {
	r.allocateAll()
	r.release("region")
	for range 2 {
		_, err := r.cluster.AddRegion(r.Context())
		r.must(err)
	}
	via, err := client.New(r.cluster.Gateways())
	r.must(err)
	const counters = 20
	each := func(call func(ctx context.Context, id string) error) (failed int) {
		var group sync.WaitGroup
		var answered atomic.Int32
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		for i := range counters {
			group.Go(func() {
				if call(ctx, fmt.Sprint("c", i)) == nil {
					answered.Add(1)
				}
			})
		}
		group.Wait()
		return counters - int(answered.Load())
	}
	add := func(round string) (failed int) {
		return each(func(ctx context.Context, id string) error {
			_, err := counterAdd.Call(ctx, via, id, counterDelta{1}, entity.Key(round))
			return err
		})
	}
	eventually(r.T, waitLimit, func() error {
		if n := add("first"); n > 0 {
			return fmt.Errorf("%d counters do not answer", n)
		}
		return nil
	})
	of := map[string][]string{"List": {"region-1", "region-2"}, "Tally": {"region-1", "region-2"}, "Counter": {"region-3", "region-4"}}
	for typ, regions := range of {
		for shard, region := range r.places(typ) {
			if !slices.Contains(regions, region) {
				r.Errorf("%s/%d is at %s, which does not host the type", typ, shard, region)
			}
		}
	}
	lists := r.places("List")
	r.kill("region-3", "region-4")
	if n := add("second"); n < counters {
		r.Errorf("%d counters answer without a region that hosts them", counters-n)
	}
	r.wait(3 * time.Second)
	if now := r.places("List"); !equal(now, lists) {
		r.Errorf("shards of lists have moved because regions of counters have died: from %v to %v", lists, now)
	}
	r.up()
	eventually(r.T, waitLimit, func() error {
		if n := add("second"); n > 0 {
			return fmt.Errorf("%d counters do not answer", n)
		}
		return nil
	})
	if n := each(func(ctx context.Context, id string) error {
		got, err := counterGet.Call(ctx, via, id, struct{}{})
		if err == nil && got.Value != 2 {
			r.Errorf("counter %s is %d, want 2", id, got.Value)
		}
		return err
	}); n > 0 {
		r.Errorf("%d counters do not answer", n)
	}
}

// colocate asks entities of a type with a shard rule: all orders of a customer are in one shard and
// go with it.
func colocate(r *run) {
	testbin.Build(r.T, "e2e/cluster/cmd/living-region") // in addition to the others
	r.release("living-region")
	for range 2 {
		_, err := r.cluster.AddRegion(r.Context())
		r.must(err)
	}
	via, err := client.New(r.cluster.Gateways())
	r.must(err)
	change := entity.Command[struct{}, struct {
		N int `json:"n"`
	}]("Order", "Change")
	const customers, orders = 4, 10
	all := func(times int) {
		r.Helper()
		for c := range customers {
			for o := range orders {
				id := fmt.Sprintf("customer-%d/order-%d", c, o)
				eventually(r.T, waitLimit, func() error { // at first there is no such type
					got, err := change.Call(r.Context(), via, id, struct{}{}, entity.Key(fmt.Sprint(times)))
					if err == nil && got.N != times {
						r.Errorf("order %s was changed %d times, want %d", id, got.N, times)
					}
					return err
				})
			}
		}
	}
	shardOf := func(customer int) (index uint32, region string) {
		r.Helper()
		for o := range orders {
			var at *adminv1.WhereResponse
			eventually(r.T, waitLimit, func() (err error) {
				at, err = r.admin().Where(r.Context(), "Order", fmt.Sprintf("customer-%d/order-%d", customer, o))
				return err
			})
			if at.ShardKey != fmt.Sprint("customer-", customer) || o > 0 && at.Shard.Index != index {
				r.Errorf("order %d of customer %d: %v, the others are in shard %d", o, customer, at, index)
			}
			index, region = at.Shard.Index, at.Shard.Region
		}
		return index, region
	}
	all(1)
	index, from := shardOf(0)
	r.killActive()
	all(2)
	to := map[string]string{"region-3": "region-4", "region-4": "region-3"}[from]
	eventually(r.T, waitLimit, func() error { // a coordinator that has just become active moves nothing at first
		_, err := r.admin().Move(r.Context(), &adminv1.MoveRequest{Type: "Order", Index: index, Region: to, By: operator})
		return err
	})
	r.at("Order", map[uint32]string{index: to})
	r.anotherRule(to)
	all(3)
	if after, _ := shardOf(0); after != index {
		r.Errorf("the orders of a customer were in shard %d, and are in %d", index, after)
	}
}

// anotherRule starts a region with another shard rule for the orders. The coordinator, which knows the
// rule from the facts of an earlier one, refuses the region, and the region ends.
func (r *run) anotherRule(like string) {
	r.Helper()
	wrong := r.double(like, "another-rule")
	wrong.Args = append(wrong.Args, "--node.name=another-rule")
	wrong.Env = append(os.Environ(), "LIVING_ORDERS_PART=1")
	r.must(wrong.Start())
	ended := make(chan error, 1)
	go func() { ended <- wrong.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			r.Error("a region with another shard rule ends without an error")
		}
	case <-time.After(waitLimit):
		_ = wrong.Process.Kill()
		r.Errorf("a region with another shard rule still runs after %v: %v", waitLimit, <-ended)
	}
	log, err := os.ReadFile(filepath.Join(r.dir, "logs", "another-rule.log"))
	r.must(err)
	for _, want := range []string{"Order", `hashes part 1 at`, `hashes the prefix up to`, "never changes"} {
		if !strings.Contains(string(log), want) {
			r.Errorf("the log of a region with another shard rule lacks %q", want)
		}
	}
}
