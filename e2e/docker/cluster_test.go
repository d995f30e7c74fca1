//go:build linux

package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ory/dockertest/v3/docker"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/load"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

const (
	clusterName = "proof"
	// patience is the time for one request to a process.
	patience = 2 * time.Second
	// stopTimeout bounds the stop of a process, longer than its own limit.
	stopTimeout = 95 * time.Second

	coordinator = launcher.Coordinator
	region      = launcher.Region
	gateway     = launcher.Gateway
)

// Ports are the defaults of the services.
var ports = map[string]string{coordinator: ":25521", region: ":25520", gateway: ":8080"}

// node is a process of the cluster, in its container.
type node struct {
	*container
	role   string
	listed bool // by the zone, if there is one
}

func (n *node) url() string        { return "http://" + n.ip + ports[n.role] }
func (n *node) management() string { return "http://" + n.ip + ":8558" }

// cluster is a network with the servers and the processes of one cluster.
type cluster struct {
	*testing.T
	*network
	margins []string // environment of the members

	// URLs of the servers. The default of the journal is a file on the volume.
	discovery, lease, journal string
	zone                      string // URL to change it at; empty: none

	servers []*container
	ready   map[string]func(context.Context) error // of the servers
	nodes   []*node
	volume  string
	load    *load.Load
}

// newCluster starts the servers of a backend and makes the containers of a cluster. All are
// removed when the test ends.
func newCluster(t *testing.T, e *engine, b *backend, margins ...string) *cluster {
	t.Helper()
	c := &cluster{T: t, margins: margins, ready: map[string]func(context.Context) error{}}
	t.Cleanup(func() {
		if t.Failed() {
			c.showLogs()
		}
		if err := c.close(); err != nil {
			t.Errorf("removing the containers: %v", err)
		}
	})
	var err error
	c.network, err = e.network(b.name)
	c.must(err)
	v, err := e.CreateVolume(docker.CreateVolumeOptions{Name: prefix + b.name, Labels: map[string]string{label: ""}})
	c.must(err)
	c.volume = v.Name
	b.serve(c)
	if c.journal == "" {
		c.journal = "sqlite:/data/journal.db"
	}
	for _, role := range []string{coordinator, region, gateway} {
		for i := range 3 {
			if role != gateway || i < 2 {
				c.add(fmt.Sprint(role, "-", i+1), role)
			}
		}
	}
	return c
}

func (c *cluster) close() error {
	if c.network == nil {
		return nil
	}
	err := each(c.containers(), (*container).remove)
	if c.volume != "" {
		err = errors.Join(err, c.RemoveVolumeWithOptions(docker.RemoveVolumeOptions{Name: c.volume, Force: true}))
	}
	return errors.Join(err, c.RemoveNetwork(c.network.id))
}

func (c *cluster) showLogs() {
	for _, s := range c.servers {
		c.Logf("%s:\n%s", s.name, s.log("20"))
	}
	for _, n := range c.nodes {
		c.Logf("%s at %s:\n%s", n.name, n.ip, n.log("40"))
	}
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// imageOf returns the name of an image, which is built at the first call.
func (c *cluster) imageOf(name string, build func() (string, error)) string {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if image := c.images[name]; image != "" {
		return image
	}
	image, err := build()
	c.must(err)
	c.images[name] = image
	return image
}

// server starts a server and waits until it is ready.
func (c *cluster) server(s spec, ready func(context.Context) error) {
	c.Helper()
	made, err := c.create(s)
	c.must(err)
	c.servers = append(c.servers, made)
	c.ready[made.name] = ready
	c.must(made.start())
	c.awaitServer(made)
}

func (c *cluster) awaitServer(server *container) {
	c.Helper()
	eventually(c.T, func(ctx context.Context) error {
		s, err := server.state()
		if err == nil && !s.Running {
			c.Fatalf("%s does not start: %s\n%s", server.name, s.String(), server.log("20"))
		}
		return errors.Join(err, c.ready[server.name](ctx))
	})
}

// packages are the services' packages, by role. Regions host lists, whose answers identify
// their whole state.
var packages = map[string]string{
	coordinator: "services/coordinator/cmd/coordinator",
	region:      "e2e/cluster/cmd/list-region",
	gateway:     "services/gateway/cmd/gateway",
}

// binary returns the file built from a package.
func (c *cluster) binary(pkg string) string {
	c.Helper()
	return filepath.Join(testbin.Build(c, pkg), path.Base(pkg))
}

// add makes the container of a process.
func (c *cluster) add(name, role string) *node {
	c.Helper()
	n := &node{role: role}
	n.container = c.newContainer(name, role, c.address())
	c.nodes = append(c.nodes, n)
	return n
}

// newContainer makes the container of a process, which is given nothing but its name and the
// URLs of the servers.
func (c *cluster) newContainer(name, role, ip string) *container {
	c.Helper()
	image := c.imageOf(role, func() (string, error) { return c.service(role, c.binary(packages[role])) })
	s := spec{name: name, image: image, ip: ip, env: []string{
		"ROOST_CLUSTER_NAME=" + clusterName, "ROOST_NODE_NAME=" + name, "ROOST_DISCOVERY_URL=" + c.discovery, "ROOST_MANAGEMENT_LISTEN=:8558",
	}}
	if role != gateway {
		s.volumes = []string{c.volume + ":/data"}
		s.env = append(s.env, "ROOST_JOURNAL_URL="+c.journal, "ROOST_DISCOVERY_REQUIRED_CONTACTS=3")
		s.env = append(s.env, c.margins...)
	}
	if role == coordinator {
		s.env = append(s.env, "ROOST_LEASE_URL="+c.lease)
	}
	made, err := c.create(s)
	c.must(err)
	return made
}

// replace gives a process a new container at another address.
func (c *cluster) replace(n *node) {
	c.Helper()
	c.must(n.remove())
	n.container = c.newContainer(n.name, n.role, c.address())
}

// all returns the nodes of a role.
func (c *cluster) all(role string) (nodes []*node) {
	for _, n := range c.nodes {
		if n.role == role {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (c *cluster) node(name string) *node {
	c.Helper()
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.name == name })
	if i < 0 {
		c.Fatalf("no node %s", name)
	}
	return c.nodes[i]
}

// run starts processes at the same time.
func (c *cluster) run(nodes ...*node) {
	c.Helper()
	for _, n := range nodes {
		n.listed = true
	}
	c.updateZone()
	c.must(each(nodes, func(n *node) error { return n.start() }))
}

// stopAndRemove stops processes one after the other, as an operator would, and removes them.
func (c *cluster) stopAndRemove(nodes ...*node) {
	c.Helper()
	for _, n := range nodes {
		c.must(n.stop(stopTimeout))
		if s, err := n.state(); err != nil || s.ExitCode != 0 {
			c.Errorf("%s ended with %d, %v", n.name, s.ExitCode, err)
		}
		c.must(n.remove())
		c.nodes = slices.DeleteFunc(c.nodes, func(m *node) bool { return m == n })
	}
	c.updateZone()
}

func (c *cluster) serverOf(name string) *container {
	c.Helper()
	i := slices.IndexFunc(c.servers, func(s *container) bool { return s.name == name })
	if i < 0 {
		c.Fatalf("no server %s", name)
	}
	return c.servers[i]
}

// admin returns a client for the active one of some coordinators; none given: of all.
func (c *cluster) admin(of ...*node) *adminclient.Client {
	if len(of) == 0 {
		of = c.all(coordinator)
	}
	var urls []string
	for _, n := range of {
		urls = append(urls, n.management())
	}
	return adminclient.New(urls...)
}

// active returns the active one of some coordinators, and its term.
func (c *cluster) active(of ...*node) (n *node, term uint32) {
	c.Helper()
	eventually(c.T, func(ctx context.Context) error {
		m, err := c.admin(of...).Members(ctx)
		if err == nil {
			n, term = c.node(m.Self), m.Term
		}
		return err
	})
	return n, term
}

// isActive asks one coordinator whether it is active, and in which term. No answer is an
// error.
func isActive(ctx context.Context, n *node) (active bool, term uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := twirp(ctx, n, "Call", `{"cluster":"`+clusterName+`","message":{"watch_table":{}}}`)
	if err != nil {
		return false, 0, err
	}
	var answer struct {
		Message struct {
			Standby *struct{ Term uint32 }                   `json:"not_active"`
			Table   *struct{ Version struct{ Term uint32 } } `json:"table_changed"`
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return false, 0, err
	}
	switch a := answer.Message; {
	case a.Standby != nil:
		return false, a.Standby.Term, nil
	case a.Table != nil:
		return true, a.Table.Version.Term, nil
	}
	return false, 0, fmt.Errorf("%s answers a watch with %s", n.name, raw)
}

func twirp(ctx context.Context, n *node, method, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url()+"/twirp/roost.control.v1.Control/"+method, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := noKeepAlive.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s of %s: %s: %s", method, n.name, res.Status, raw)
	}
	return raw, err
}

// up waits until every process is ready, and all coordinators and regions are members of one
// cluster.
func (c *cluster) up() {
	c.Helper()
	eventually(c.T, func(ctx context.Context) error {
		if err := each(c.nodes, func(n *node) error { return c.isReady(ctx, n) }); err != nil {
			return err
		}
		m, err := c.admin().Members(ctx)
		if err != nil {
			return err
		}
		want, got := len(c.all(coordinator))+len(c.all(region)), 0
		for _, member := range m.Members {
			if member.Status == "up" && member.Reachable {
				got++
			}
		}
		if got != want || len(m.Members) != want {
			return fmt.Errorf("%d of %d members are up, want %d: %v", got, len(m.Members), want, m.Members)
		}
		return nil
	})
}

func (c *cluster) isReady(ctx context.Context, n *node) error {
	if err := request(ctx, http.MethodGet, n.management()+"/readyz", ""); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	return nil
}

// expectedEnds matches the allowed reasons for the end of a process. The engine starts
// it again then.
var expectedEnds = regexp.MustCompile(`this node was declared down|open journal \S+ at`)

// checkDeaths fails if a process has ended for any other reason.
func (c *cluster) checkDeaths() {
	c.Helper()
	c.must(each(c.nodes, func(n *node) error {
		for line := range strings.Lines(n.log("all")) {
			fatal := strings.Contains(line, "panic:") || strings.Contains(line, "fatal error:")
			if fatal || strings.Contains(line, "level=ERROR msg=stopped") && !expectedEnds.MatchString(line) {
				return fmt.Errorf("%s ended unexpectedly: %s", n.name, line)
			}
		}
		return nil
	}))
}

// settle waits until all are members and no shard has moved for two seconds, so that figures
// show the next scenario alone.
func (c *cluster) settle() {
	c.Helper()
	c.up()
	last, since := "", time.Now()
	eventually(c.T, func(ctx context.Context) error {
		table, err := c.admin().Shards(ctx, "", "")
		if err != nil {
			return err
		}
		rows := map[string]string{}
		for _, s := range table.Shards {
			if rows[fmt.Sprint(s.Type, s.Index)] = s.Epoch; s.Phase != "serving" {
				return fmt.Errorf("shard %d is %s at %s", s.Index, s.Phase, s.Region)
			}
		}
		if now := fmt.Sprint(rows); now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < 2*time.Second {
			return fmt.Errorf("a shard moved %v ago", quiet)
		}
		return nil
	})
}

// formed returns how often processes have formed a cluster.
func (c *cluster) formed() (times int) {
	var mu sync.Mutex
	c.must(each(c.all(coordinator), func(n *node) error {
		count := strings.Count(n.log("all"), "forms a cluster, as the lowest address")
		mu.Lock()
		defer mu.Unlock()
		times += count
		return nil
	}))
	return times
}
