package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// hostile is an id that would run a script if it was put into a page as it is.
const hostile = `<img src=x onerror=alert(1)>"'&amp;`

// cluster is a cluster of real processes under a little load.
type cluster struct {
	*testing.T
	*launcher.Cluster
}

func start(t *testing.T) *cluster {
	t.Helper()
	bin := testbin.Build(t, "services/coordinator/cmd/coordinator", "services/region/cmd/region", "services/gateway/cmd/gateway")
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit)
	defer cancel()
	c, err := launcher.Start(ctx, launcher.Options{
		Coordinators: 2, Regions: 3, Gateways: 2, Dir: t.TempDir(), BinDir: bin, Ports: launcher.Random, StartTimeout: waitLimit,
		Args: map[string][]string{
			launcher.Coordinator: {"--gossip.stable_after=3s", "--coordinator.show_payloads", "--coordinator.try_commands"},
			launcher.Region:      {"--gossip.stable_after=3s", "--region.show_payloads"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		_ = c.Close(ctx) // one of its regions was killed
	})
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return &cluster{t, c}
}

// load sends commands until the test ends.
func (c *cluster) load() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	c.Cleanup(func() { cancel(); running.Wait() })
	gateways := c.Gateways()
	for worker := range 4 {
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("counter-%d", (i*i*7+worker*31+i)%300)
				if i%40 == 0 {
					id = hostile
				}
				c.add(ctx, gateways[i%len(gateways)], id)
				select {
				case <-ctx.Done():
				case <-time.After(15 * time.Millisecond):
				}
			}
		})
	}
}

func (c *cluster) add(ctx context.Context, gateway, id string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+"/v1/Counter/"+url.PathEscape(id)+"/Add", strings.NewReader(`{"delta":1}`))
	if err != nil {
		c.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if res, err := http.DefaultClient.Do(req); err == nil { // while a region is away, some fail
		res.Body.Close()
	}
}
