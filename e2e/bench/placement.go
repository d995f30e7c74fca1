package bench

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

const placing = "placement"

// Of the models of loads.
const (
	modelShards, modelRegions = 1024, 8
	modelSeeds                = 10
	// zipfRounds are the rounds of a minute, at the default interval.
	zipfRounds = 10
	// sinePlans are the plans of one period of the sine, and of one cool-down.
	sinePlans = 60
)

// placement measures what the coordinator's decisions cost, and what the strategy for loads makes
// of loads that are simulated.
func (r *run) placement() error {
	for _, name := range []string{allocation.NameLeastShards, allocation.NameConsistentHashing, allocation.NameLoad} {
		if err := r.largePlan(name); err != nil {
			return err
		}
	}
	s, err := r.strategy(allocation.NameLoad, nil)
	if err != nil {
		return err
	}
	if err := r.zipf(s.(allocation.LeastLoad)); err != nil {
		return err
	}
	if err := r.sine(s.(allocation.LeastLoad)); err != nil {
		return err
	}
	if err := r.largeTable(); err != nil {
		return err
	}
	return r.withLocal("reload", r.reload)
}

// reload measures what the move of shards costs their next owner: to claim them, and to load
// each entity again at its first command.
func (r *run) reload(l *local) error {
	const events = entities.SnapshotEvery / 2
	count := r.Sizes.Entities
	to := make([]addressee, count)
	for i := range to {
		to[i] = l.addressee(entities.AccountType, "account-"+strconv.Itoa(i))
	}
	a := newLocalAsker(l, hotCallers)
	each := func(command string, times int) (measure.Sample, error) {
		began := time.Now()
		errs := make([]error, hotCallers)
		var group sync.WaitGroup
		for c := range hotCallers {
			group.Go(func() {
				for n := c; n < count*times && errs[c] == nil; n += hotCallers {
					a.callers[c].command[0] = to[n%count].command(uint64(c), uint64(n), questionJSON)
					e := &a.callers[c].command[0].Envelope
					e.Command, e.Encoding = command, sharding.JSON
					errs[c] = a.ask(c)
				}
			})
		}
		group.Wait()
		return measure.Sample{Ops: int64(count * times), Elapsed: time.Since(began)}, errors.Join(errs...)
	}
	if _, err := each(entities.Deposit, events); err != nil {
		return err
	}
	return r.compare("entities/s",
		measure.Subject{Name: "entities in memory", Run: func(time.Duration) (measure.Sample, error) { return each(entities.Balance, 1) }},
		subject{measure.Subject{Name: "reload", Run: func(time.Duration) (measure.Sample, error) {
			began := time.Now()
			if err := l.claim(r.ctx, entities.AccountType, entities.Shards); err != nil {
				return measure.Sample{}, err
			}
			for i := range to {
				to[i].epoch = sharding.MakeEpoch(l.term, 1)
			}
			s, err := each(entities.Balance, 1)
			s.Elapsed = time.Since(began)
			return s, err
		}}, report.Row{Section: placing, Measure: fmt.Sprintf("%s entities with %d events in %d shards: claimed, and asked for the first time", report.Number(float64(count)), events, entities.Shards)}})
}

func (r *run) strategy(name string, change func(*allocation.Config)) (allocation.Strategy, error) {
	cfg := allocation.DefaultConfig()
	cfg.Strategy = name
	if change != nil {
		change(&cfg)
	}
	return allocation.New(cfg)
}

// largePlan plans all moves of a large cluster at once, with limits that allow that.
func (r *run) largePlan(name string) error {
	shards, regions := r.Sizes.PlanShards, max(3, r.Sizes.PlanShards/75)
	s, err := r.strategy(name, func(cfg *allocation.Config) {
		cfg.AbsoluteLimit, cfg.RelativeLimit, cfg.LoadMoveMiB = shards/10, 1, math.MaxInt32
	})
	if err != nil {
		return err
	}
	in := allocation.PlanInput{
		Types:  []allocation.TypePlan{{View: allocationtest.Large(1, shards, regions), Strategy: s}},
		Budget: math.MaxInt,
	}
	var took []time.Duration
	moves := 0
	for range r.Rounds {
		began := time.Now()
		moves = len(allocation.Plan(in))
		took = append(took, time.Since(began))
	}
	r.add(report.Row{
		Section: placing, Unit: "ms", Value: quantileMS(took, 0.5), Target: report.Target{AtMost: 10_000},
		Measure: fmt.Sprintf("plan by %s: %s shards on %d regions in 3 zones, a tenth of them new; %s moves",
			name, report.Number(float64(shards)), regions, report.Number(float64(moves))),
	})
	return nil
}

// zipf balances skewed loads.
func (r *run) zipf(s allocation.LeastLoad) error {
	s.Weights = allocation.Weights{} // only processor time counts
	before, over, moved := 0.0, 0.0, 0.0
	for seed := range uint64(modelSeeds) {
		z, err := allocationtest.RunZipf(seed, s, modelShards, modelRegions, zipfRounds)
		if err != nil {
			return err
		}
		before, moved = max(before, z.Before), max(moved, z.Moved/z.Excess)
		if z.Alone {
			z.After = min(z.After, 1.1) // what is above is the hottest shard alone
		}
		over = max(over, z.After)
	}
	what := fmt.Sprintf("Zipf's law over %d shards on %d regions, worst of %d: ", modelShards, modelRegions, modelSeeds)
	r.add(report.Row{Section: placing, Unit: "× the average", Value: before, Measure: what + "busiest region before"})
	r.add(report.Row{Section: placing, Unit: "× the average", Value: over, Target: report.Target{AtMost: 1.1},
		Measure: what + "busiest region after a minute, unless it has the hottest shard alone"})
	r.add(report.Row{Section: placing, Unit: "× the load above 1.1 × the average", Value: moved, Target: report.Target{AtMost: 1.3},
		Measure: what + "load that has moved"})
	return nil
}

// sine lets loads come and go.
func (r *run) sine(s allocation.LeastLoad) error {
	part, most := 0.0, 0
	for seed := range uint64(modelSeeds) {
		got, err := allocationtest.RunSine(seed, s, modelShards, modelRegions, sinePlans)
		if err != nil {
			return err
		}
		part, most = max(part, float64(slices.Max(got.PerPeriod[1:]))/modelShards), max(most, got.Most)
	}
	control := s
	control.Hysteresis = 0
	free, err := allocationtest.RunSine(0, control, modelShards, modelRegions, 0)
	if err != nil {
		return err
	}
	what := "loads that follow a sine, 6 periods: "
	r.add(report.Row{Section: placing, Unit: "% of the shards", Value: 100 * part, Target: report.Target{AtMost: 2},
		Measure: what + "moves in the worst period after the first"})
	r.add(report.Row{Section: placing, Unit: "moves", Value: float64(most), Target: report.Target{AtMost: 2}, Measure: what + "of one shard"})
	r.add(report.Row{Section: placing, Unit: "% of the shards", Value: 100 * float64(slices.Max(free.PerPeriod[1:])) / modelShards,
		Measure: what + "moves in the worst period without cool-down and hysteresis"})
	return nil
}

// largeTable measures a coordinator with many shards.
func (r *run) largeTable() error {
	shards := r.Sizes.TableShards
	owner := sharding.NodeID{Addr: "10.0.0.1:25521", UID: 1}
	facts := make([]coordinator.Fact, 0, shards+2)
	for _, typ := range []sharding.EntityType{"Account", "Transfer"} {
		facts = append(facts, coordinator.TypeFact{Desc: sharding.TypeDesc{Type: typ, Shards: uint32(shards / 2)}})
		for i := range shards / 2 {
			facts = append(facts, coordinator.RowFact{Row: sharding.Row{
				Shard: sharding.ShardID{Type: typ, Index: uint32(i)}, Owner: owner, Epoch: sharding.MakeEpoch(1, uint32(len(facts))), Phase: sharding.Serving,
			}})
		}
	}
	before := heap()
	m := coordinator.New(coordinator.DefaultConfig())
	began := time.Now()
	m.Step(time.Now(), coordinator.Elected{Term: 2, Facts: facts}, nil)
	took := time.Since(began)
	live := float64(heap() - before)
	what := report.Number(float64(shards)) + " shards in one coordinator: "
	r.add(report.Row{Section: placing, Unit: "MiB", Value: live / (1 << 20), Target: report.Target{AtMost: 64}, Measure: what + "live memory of its core"})
	r.add(report.Row{Section: placing, Unit: "ms", Value: ms(took), Measure: what + "its facts folded, when it takes over"})
	delta := control.TableChanged{Delta: sharding.TableDelta{Version: m.View().Version}}
	const changed = 1000
	delta.Delta.Rows = m.View().Rows[:min(changed, shards)]
	bytes := float64(proto.Size(wire.Encode(delta))) / float64(len(delta.Delta.Rows))
	r.add(report.Row{Section: placing, Unit: "bytes", Value: bytes, Target: report.Target{AtMost: 64}, Measure: what + "delta of a changed shard, of 1,000 in one answer"})
	runtime.KeepAlive(facts)
	runtime.KeepAlive(m)
	return nil
}
