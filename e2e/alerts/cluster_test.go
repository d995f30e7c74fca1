package alerts

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/test/testbin"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

// waitLimit bounds waiting for what must happen. It does not judge speed.
const waitLimit = 90 * time.Second

// quiet is for how long the values before a cause are held, and lasting for how long those after
// it: longer than any rule looks back, and waits.
const quiet, lasting = 35 * time.Minute, 50 * time.Minute

// cluster is a cluster of real processes and what Prometheus has of it.
type cluster struct {
	*testing.T
	*launcher.Cluster
	prometheus *prometheus
	dir        string
	changes    sync.Map // name of a process → func(*exec.Cmd): how its command differs
	commands   atomic.Int64
	client     *http.Client
	scheme     string // of the gateways' URLs
}

// binaries returns the directory of the binaries.
func binaries(t *testing.T) string {
	t.Helper()
	return testbin.Build(t, "services/coordinator/cmd/coordinator", "services/region/cmd/region", "services/gateway/cmd/gateway",
		"e2e/cluster/cmd/list-region", "e2e/cluster/cmd/list-region-v2", "e2e/cluster/cmd/failing-region")
}

// start starts a cluster, and waits until all processes are ready.
func start(t *testing.T, region string, o launcher.Options) *cluster {
	t.Helper()
	c := &cluster{T: t, dir: o.Dir, client: &http.Client{}, scheme: "http:"}
	if c.dir == "" {
		c.dir = t.TempDir()
	}
	o.Dir, o.BinDir, o.StartTimeout = c.dir, binaries(t), waitLimit
	o.RegionBinary = filepath.Join(o.BinDir, region)
	o.Start = func(name string, cmd *exec.Cmd) error {
		if change, ok := c.changes.Load(name); ok {
			change.(func(*exec.Cmd))(cmd)
		}
		return cmd.Start()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit)
	defer cancel()
	var err error
	if c.Cluster, err = launcher.Start(ctx, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*waitLimit)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Logf("closing the cluster: %v", err)
		}
		if t.Failed() {
			c.showLogs()
		}
	})
	c.must(c.Ready(ctx))
	c.prometheus = newPrometheus(t)
	return c
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) showLogs() {
	logs, _ := filepath.Glob(filepath.Join(c.dir, "logs", "*.log"))
	for _, l := range logs {
		raw, _ := os.ReadFile(l)
		c.Logf("%s:\n%s", filepath.Base(l), raw[max(0, len(raw)-2000):])
	}
}

// differ has a process start with a changed command from now on.
func (c *cluster) differ(name string, change func(*exec.Cmd)) { c.changes.Store(name, change) }

// kill ends processes by SIGKILL.
func (c *cluster) kill(names ...string) {
	c.Helper()
	for _, name := range names {
		c.must(c.Kill(name))
	}
}

// killAll ends all processes: without coordinators or a journal they would stop slowly.
func (c *cluster) killAll() {
	c.Helper()
	for _, p := range c.Processes() {
		if p.PID != 0 {
			c.kill(p.Name)
		}
	}
}

// restart stops a process gracefully and starts it again.
func (c *cluster) restart(name string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 2*waitLimit)
	defer cancel()
	c.must(c.Stop(ctx, name))
	c.must(c.Restart(ctx, name))
	c.must(c.Ready(ctx, name))
}

// named returns the names of the processes with a role.
func (c *cluster) named(role string) (names []string) {
	for _, p := range c.Processes() {
		if p.Role == role {
			names = append(names, p.Name)
		}
	}
	return names
}

func (c *cluster) admin() *adminclient.Client { return adminclient.New(c.Admin()...) }

// call sends a command and returns the status of its answer, 0 if there is none.
func (c *cluster) call(path, body string, timeout time.Duration) int {
	n := c.commands.Add(1)
	gateways := c.Gateways()
	ctx, cancel := context.WithTimeout(c.Context(), timeout+5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.scheme+strings.TrimPrefix(gateways[int(n)%len(gateways)], "http:")+path, strings.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Roost-Timeout", timeout.String())
	res, err := c.client.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// ok sends a command until it succeeds.
func (c *cluster) ok(path, body string) {
	c.Helper()
	c.until(path+" succeeds", func() bool { return c.call(path, body, 5*time.Second) == http.StatusOK })
}

// work sends n commands of each path at a time, whatever becomes of them.
func (c *cluster) work(n int, timeout time.Duration, path func(i int) (path, body string)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			p, b := path(i)
			c.call(p, b, timeout)
		})
	}
	group.Wait()
}

// lists adds to lists, which are in different shards.
func lists(i int) (path, body string) {
	return fmt.Sprintf("/v1/List/l%d/Add", i), `{"value":1}`
}

// until waits until something is so.
func (c *cluster) until(what string, so func() bool) {
	c.Helper()
	for deadline := time.Now().Add(waitLimit); !so(); {
		if time.Now().After(deadline) {
			c.Fatalf("waited in vain: %s", what)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-c.Context().Done():
			c.FailNow()
		}
	}
}

// scrape returns what all processes expose now.
func (c *cluster) scrape() scrape {
	c.Helper()
	return scrapeAll(c.T, c.Processes())
}

// seen waits until what is scraped is as wanted, and returns it.
func (c *cluster) seen(what string, so func(s scrape) bool) (s scrape) {
	c.Helper()
	c.until(what, func() bool { s = c.scrape(); return so(s) })
	return s
}

// silent has Prometheus see what the cluster exposes now for a while, and no alert may fire.
func (c *cluster) silent(why string) {
	c.Helper()
	if fired := c.prometheus.hold(c.scrape(), quiet); len(fired) > 0 {
		c.Fatalf("%s: %q fire", why, fired)
	}
}

// fires has Prometheus see values for a while: the wanted alerts must fire meanwhile, those that may
// can, and no others.
func (c *cluster) fires(s scrape, want []string, may ...string) {
	c.Helper()
	fired := c.prometheus.hold(s, lasting)
	for _, alert := range want {
		if !slices.Contains(fired, alert) {
			c.Errorf("%s does not fire", alert)
		}
	}
	for _, alert := range fired {
		if !slices.Contains(want, alert) && !slices.Contains(may, alert) {
			c.Errorf("%s fires, too", alert)
		}
	}
	c.Logf("fired: %s", strings.Join(fired, ", "))
}
