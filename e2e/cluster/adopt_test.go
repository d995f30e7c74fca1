package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

var getList = entity.Command[struct{}, history.Reply]("List", "Get", entity.ReadOnly())

// calling is a list that is called without a pause, and its longest recent calls.
type calling struct {
	mu    sync.Mutex
	worst time.Duration // of the calls that have ended since it was last taken
	err   error
}

func (c *calling) call(ctx context.Context, via entity.Caller, id string) {
	for ctx.Err() == nil {
		began := time.Now()
		_, err := getList.Call(ctx, via, id, struct{}{})
		c.mu.Lock()
		if ctx.Err() == nil {
			c.worst = max(c.worst, time.Since(began))
			if err != nil {
				c.err = err
			}
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond): // the machine has other things to do
		}
	}
}

// take returns the longest call since it was last asked, and the last error.
func (c *calling) take() (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	worst, err := c.worst, c.err
	c.worst, c.err = 0, nil
	return worst, err
}

// playAdopt drains a region, and kills the active coordinator meanwhile, again and again. The
// handoffs that have begun end without it. The next coordinator moves the rest.
func playAdopt(t *testing.T, store string, lists, kills int) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	r := &run{T: t, store: store, dir: t.TempDir()}
	o := launcher.Options{Coordinators: 2, Regions: 3, Gateways: 1, Dir: r.dir, Args: map[string][]string{}, StartTimeout: waitLimit, RegionBinary: filepath.Join(binaries(t), version1)}
	r.setUpJournal(&o)
	c := start(t, o)
	via, err := client.New(c.Gateways())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	callings := make([]calling, lists)
	for i := range callings {
		id := fmt.Sprint("l", i)
		if _, err := getList.Call(ctx, via, id, struct{}{}); err != nil {
			t.Fatal(err)
		}
		group.Go(func() { callings[i].call(ctx, via, id) })
	}
	admin := adminclient.New(c.Admin()...)
	var waits []time.Duration // the longest one around each kill
	waited := 0
	for n := range kills {
		region := fmt.Sprint("region-", 1+n%3)
		name, term, err := c.Active(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range callings {
			callings[i].take()
		}
		draining := make(chan struct{})
		go func() {
			defer close(draining)
			admin.Drain(ctx, &adminv1.DrainRequest{Region: region}) //nolint:errcheck // its coordinator may die meanwhile
		}()
		after := time.NewTimer(time.Duration(rng.IntN(40)) * time.Millisecond)
		<-after.C
		if err := c.Kill(name); err != nil {
			t.Fatal(err)
		}
		<-draining
		eventually(t, waitLimit, func() error {
			if now, newer, err := c.Active(ctx); err != nil || newer <= term {
				return fmt.Errorf("%s is active in term %d, %w", now, newer, err)
			}
			return nil
		})
		worst := time.Duration(0)
		for i := range callings {
			w, err := callings[i].take()
			if err != nil {
				t.Errorf("kill %d: list l%d: %v", n, i, err)
			}
			worst = max(worst, w)
			if w > 50*time.Millisecond {
				waited++
			}
		}
		waits = append(waits, worst)
		if err := c.Restart(ctx, name); err != nil {
			t.Fatal(err)
		}
		if err := c.Ready(ctx, name); err != nil {
			t.Fatal(err)
		}
		drain(t, c, region) // what was not handed off then
	}
	sorted := slices.Clone(waits)
	slices.Sort(sorted)
	t.Logf("%d coordinators killed during a drain: the longest call around each took %v in the median, %v at worst; %d times a list waited for more than 50 ms; the longest calls: %v",
		kills, sorted[len(sorted)/2].Round(time.Millisecond), sorted[len(sorted)-1].Round(time.Millisecond), waited, waits)
}
