package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// counters is the number of entities: about as many shards.
const counters = 40

// TestPackCoordinator runs a cluster with this coordinator: all shards are at the first region,
// and when that one leaves, at the next one.
func TestPackCoordinator(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	bin := testbin.Build(t, "examples/pack/cmd/pack-coordinator", "services/region/cmd/region", "services/gateway/cmd/gateway")
	dir := t.TempDir()
	for name, target := range map[string]string{"coordinator": "pack-coordinator", "region": "region", "gateway": "gateway"} {
		if err := os.Symlink(filepath.Join(bin, target), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Coordinators: 1, Regions: 3, Gateways: 1, BinDir: dir, Dir: filepath.Join(dir, "data"),
		Args: map[string][]string{cluster.Coordinator: {"--allocation.strategy=pack"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range counters {
		call(ctx, t, c, i, "Add", `{"delta":1}`)
	}
	first := only(ctx, t, c)
	if err := c.Stop(ctx, first); err != nil {
		t.Fatal(err)
	}
	if second := only(ctx, t, c); second <= first {
		t.Errorf("after %s comes %s", first, second)
	}
	for i := range counters {
		if got := call(ctx, t, c, i, "Get", `{}`); got != `{"value":1}` {
			t.Errorf("counter %d has %s", i, got)
		}
	}
}

// only returns the region that has shards, and fails the test if there are several.
func only(ctx context.Context, t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	members, err := adminclient.New(c.Admin()...).Members(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var with []string
	for _, m := range members.Members {
		if m.Shards > 0 {
			with = append(with, m.Name)
		}
	}
	if len(with) != 1 {
		t.Fatalf("shards are at %q, want one region", with)
	}
	return with[0]
}

// call sends a command to a counter.
func call(ctx context.Context, t *testing.T, c *cluster.Cluster, counter int, command, input string) string {
	t.Helper()
	url := fmt.Sprintf("%s/v1/Counter/c%d/%s", c.Gateways()[0], counter, command)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Roost-Timeout", "30s")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %s, %v", url, answer.Status, body, err)
	}
	return strings.TrimSpace(string(body))
}
