package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/adminclient"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

var hit = entity.Command[struct{}, int64]("Visits", "Hit")

// TestMoves: the counts of volatile entities survive planned moves under load: drains and
// restarts of regions. Handoffs of journaled shards end although the coordinator is killed.
func TestMoves(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("takes minutes: make e2e for all of them, make e2e SET=short for the most important ones")
	}
	t.Run("adopt", func(t *testing.T) {
		lists, kills, on := 60, 4, files
		if fullSet() {
			kills, on = 20, both
		}
		for _, store := range on {
			t.Run(store, func(t *testing.T) {
				ran.Store(true)
				playAdopt(t, store, lists, kills)
			})
		}
	})
	t.Run("volatile", func(t *testing.T) {
		ran.Store(true)
		entities, moves := 100, 6
		if fullSet() {
			entities, moves = 1000, 100
		}
		for range attempts {
			void := ""
			if ok := t.Run("play", func(t *testing.T) { void = playMoves(t, entities, moves) }); !ok || void == "" {
				return
			}
			t.Log(void)
		}
		t.Errorf("void in %d attempts: this machine is too slow or too busy", attempts)
	})
}

// visitors call entities without a pause, each its own, and check that every answer is one
// more than the last.
type visitors struct {
	*testing.T
	via entity.Caller

	mu    sync.Mutex
	calls int
	lost  []string
}

// visit calls an entity until it has answered, and returns the count. A call whose outcome is
// unknown may have counted.
func (v *visitors) visit(ctx context.Context, id string, last int64) int64 {
	doubt := int64(0)
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, waitLimit/2)
		n, err := hit.Ask(call, v.via, id, struct{}{}, entity.NoKey())
		cancel()
		v.mu.Lock()
		v.calls++
		if err == nil && (n <= last || n > last+1+doubt) {
			v.lost = append(v.lost, fmt.Sprintf("%s: %d follows %d", id, n, last))
		}
		v.mu.Unlock()
		if err == nil {
			return n
		}
		var e *entity.Error
		if !errors.As(err, &e) || e.Outcome != sharding.Rejected {
			doubt++
		}
	}
	return last
}

// playMoves moves shards under load. It returns why the run proves nothing, if so.
func playMoves(t *testing.T, entities, moves int) (void string) {
	dir := t.TempDir()
	c := start(t, launcher.Options{
		Coordinators: 2, Regions: 3, Gateways: 1, Dir: dir,
		RegionBinary: filepath.Join(binaries(t), version1), StartTimeout: waitLimit,
	})
	via, err := client.Dial(c.Gateways()...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	v := &visitors{T: t, via: via}
	const workers = 8
	var group sync.WaitGroup
	counts := make([]int64, entities)
	for i := range counts {
		counts[i] = v.visit(ctx, fmt.Sprint("v", i), 0)
	}
	loading, end := context.WithCancel(ctx)
	for w := range workers {
		group.Go(func() {
			for loading.Err() == nil {
				for i := w; i < entities && loading.Err() == nil; i += workers {
					counts[i] = v.visit(ctx, fmt.Sprint("v", i), counts[i])
				}
			}
		})
	}
	began := time.Now()
	for n := range moves {
		region := fmt.Sprint("region-", 1+n%3)
		if n%3 == 2 {
			if err := errors.Join(c.Stop(ctx, region), c.Restart(ctx, region), c.Ready(ctx, region)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		drain(t, c, region)
	}
	took := time.Since(began)
	end()
	group.Wait()
	for i := range counts {
		counts[i] = v.visit(ctx, fmt.Sprint("v", i), counts[i])
	}
	late := logged(t, dir, "could not fetch all states")
	t.Logf("%d moves in %.0f s, %d entities, %d calls, %d counts wrong, %d fetches of states failed", moves, took.Seconds(), entities, v.calls, len(v.lost), late)
	if len(v.lost) > 0 {
		if late > 0 {
			return fmt.Sprintf("states came too late %d times", late)
		}
		t.Errorf("%d counts are wrong, among them %q", len(v.lost), v.lost[:min(5, len(v.lost))])
	}
	return ""
}

// drain moves all shards off a region, and lets it have shards again.
func drain(t *testing.T, c *launcher.Cluster, region string) {
	t.Helper()
	admin := adminclient.New(c.Admin()...)
	eventually(t, waitLimit, func() error {
		left, err := admin.Drain(t.Context(), &adminv1.DrainRequest{Region: region})
		if err == nil && left.Remaining > 0 {
			err = fmt.Errorf("%d shards are left on %s", left.Remaining, region)
		}
		return err
	})
	resume(t, c, region)
}

// resume ends the drain of a region.
func resume(t *testing.T, c *launcher.Cluster, region string) {
	t.Helper()
	admin := adminclient.New(c.Admin()...)
	eventually(t, waitLimit, func() error {
		_, err := admin.Drain(t.Context(), &adminv1.DrainRequest{Region: region, Resume: true})
		return err
	})
}

// logged counts the lines with a text in the logs of all processes.
func logged(t *testing.T, dir, text string) (n int) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "logs", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range logs {
		raw, err := os.ReadFile(l)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(raw), text)
	}
	return n
}
