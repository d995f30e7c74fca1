package cluster

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

// TestBootstrapByFile: coordinators and regions that are given nothing but a file, which is
// written after they have started, form one cluster. They come together again after all
// were killed and started in any order. With E2E=full this is also done with the default
// margins, for the figures.
func TestBootstrapByFile(t *testing.T) {
	t.Run("fast margins", func(t *testing.T) {
		bootstrapByFile(t, "--discovery.stable_for=500ms", "--discovery.interval=100ms")
	})
	if fullSet() {
		t.Run("default margins", func(t *testing.T) {
			bootstrapByFile(t, "--discovery.stable_for=5s", "--discovery.interval=1s")
		})
	}
}

func bootstrapByFile(t *testing.T, margins ...string) {
	dir, seed := t.TempDir(), rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("the seed of the order is %d", seed)
	file := filepath.Join(dir, "peers")
	find := "--discovery.url=file:" + file
	member := append([]string{find, "--discovery.required_contacts=3"}, margins...)
	began := time.Now()
	c, err := launcher.Start(t.Context(), launcher.Options{
		Coordinators: 3, Regions: 3, Gateways: 2, Dir: dir, BinDir: binaries(t),
		Args: map[string][]string{launcher.Coordinator: member, launcher.Region: member, launcher.Gateway: {find}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("closing the cluster: %v", err)
		}
		if t.Failed() {
			showLogs(t, dir)
		}
	})
	var list strings.Builder
	for _, p := range c.Processes() {
		if p.Role == launcher.Coordinator {
			fmt.Fprintln(&list, p.Service)
		}
	}
	if err := os.WriteFile(file+".new", []byte(list.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	firstAnswer(t, c)
	t.Logf("first answer %.1f s after the first fork", time.Since(began).Seconds())
	oneCluster(t, c, 1)

	processes := c.Processes()
	for _, p := range processes {
		if err := c.Kill(p.Name); err != nil {
			t.Fatal(err)
		}
	}
	rng.Shuffle(len(processes), func(i, j int) { processes[i], processes[j] = processes[j], processes[i] })
	began = time.Now()
	for _, p := range processes {
		if err := c.Restart(t.Context(), p.Name); err != nil {
			t.Fatal(err)
		}
	}
	firstAnswer(t, c)
	t.Logf("after a restart of everything, one after the other, first answer in %.1f s", time.Since(began).Seconds())
	oneCluster(t, c, 2)
}

// firstAnswer repeats a command until it is answered.
func firstAnswer(t *testing.T, c *launcher.Cluster) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	eventually(t, time.Minute, func() error {
		res, err := client.Post(c.Gateways()[0]+"/v1/Counter/c1/Add", "application/json", strings.NewReader(`{"delta":1}`))
		if err != nil {
			return err
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", res.Status, body)
		}
		return nil
	})
}

// oneCluster checks that all are members of one cluster, and how often a cluster was formed
// so far.
func oneCluster(t *testing.T, c *launcher.Cluster, formed int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() error {
		members, err := adminclient.New(c.Admin()...).Members(ctx)
		if err != nil {
			return err
		}
		up := 0
		for _, m := range members.Members {
			if m.Status == "up" && m.Reachable {
				up++
			}
		}
		if up != 6 || len(members.Members) != 6 {
			return fmt.Errorf("%d of %d members are up, want 6: %v", up, len(members.Members), members.Members)
		}
		return nil
	})
	got := 0
	for _, p := range c.Processes() {
		raw, err := os.ReadFile(p.Log)
		if err != nil {
			t.Fatal(err)
		}
		got += strings.Count(string(raw), "forms a cluster, as the lowest address")
	}
	if got != formed {
		t.Errorf("clusters were formed %d times, want %d", got, formed)
	}
}
