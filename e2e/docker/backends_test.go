//go:build linux

package docker

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/test/servertest"
)

// backend has the servers that the processes of a cluster use to find each other and to
// choose the active coordinator.
type backend struct {
	name string
	// serve starts its servers and sets their URLs.
	serve func(c *cluster)
	// stopped is the server that is stopped for a minute. It is not the journal's, because
	// without the journal nothing can be acknowledged.
	stopped string
	// withLease is true if it has the lease; without it no coordinator is active.
	withLease bool
}

var backends = []backend{
	{name: "consul", serve: serveConsul, stopped: "consul", withLease: true},
	{name: "etcd", serve: serveEtcd, stopped: "etcd", withLease: true},
	{name: "dns", serve: serveDNS, stopped: "zone"},
	{name: "postgres", serve: servePostgres, stopped: "lease", withLease: true},
}

func serveConsul(c *cluster) {
	c.Helper()
	program := servertest.Program("consul")
	if program == "" {
		c.Skip("no consul in bin/ or $PATH; build one with: make servers")
	}
	image := c.imageOf("consul", func() (string, error) {
		f := newFiles()
		f.program("consul", program)
		f.empty("data")
		return c.rootfs("consul", "VOLUME /data\nENTRYPOINT [\"/consul\"]\n", f)
	})
	ip := c.address()
	c.server(spec{name: "consul", image: image, ip: ip, args: []string{
		"agent", "-server", "-bootstrap-expect=1", "-node=test", "-data-dir=/data", "-bind=" + ip, "-client=0.0.0.0", "-log-level=warn",
		"-hcl=performance { raft_multiplier = 1 } connect { enabled = false } disable_update_check = true",
		"-hcl=ports { serf_wan = -1 dns = -1 grpc = -1 grpc_tls = -1 }",
	}}, func(ctx context.Context) error {
		return request(ctx, http.MethodPut, "http://"+ip+":8500/v1/kv/ready", "")
	})
	c.discovery = "consul://" + ip + ":8500/roost-{cluster}"
	c.lease = "consul://" + ip + ":8500/roost/" + clusterName
}

func serveEtcd(c *cluster) {
	c.Helper()
	endpoint := c.etcd()
	c.discovery = "etcd://" + endpoint + "/roost/{cluster}"
	c.lease = "etcd://" + endpoint + "/lease/" + clusterName
}

// serveDNS has the coordinators in a zone. DNS has no lease, so that is in etcd.
func serveDNS(c *cluster) {
	c.Helper()
	c.dns()
	c.lease = "etcd://" + c.etcd() + "/lease/" + clusterName
}

// servePostgres keeps lease and journal in PostgreSQL, each in its own server, so that one
// can be stopped alone.
func servePostgres(c *cluster) {
	c.Helper()
	c.dns()
	c.lease = c.postgres("lease")
	c.journal = c.postgres("journal")
}

// etcd starts a server and returns its endpoint.
func (c *cluster) etcd() string {
	c.Helper()
	program := servertest.Program("etcd")
	if program == "" {
		servertest.Missing(c, "etcd", "on Debian: apt-get install etcd-server")
	}
	image := c.imageOf("etcd", func() (string, error) {
		f := newFiles()
		f.program("etcd", program)
		f.empty("data")
		return c.rootfs("etcd", "VOLUME /data\nENTRYPOINT [\"/etcd\"]\n", f)
	})
	ip := c.address()
	c.server(spec{name: "etcd", image: image, ip: ip, args: []string{
		"--name=test", "--data-dir=/data/etcd", "--log-level=warn",
		"--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://" + ip + ":2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=test=http://127.0.0.1:2380",
	}}, func(ctx context.Context) error {
		return request(ctx, http.MethodGet, "http://"+ip+":2379/health", "")
	})
	return ip + ":2379"
}

// zoneName is the name that has the coordinators' addresses.
const zoneName = "coordinator.roost.test"

// dns starts a server with an empty zone.
func (c *cluster) dns() {
	c.Helper()
	image := c.imageOf("zone", func() (string, error) {
		f := newFiles()
		f.file("zone", c.binary("e2e/docker/cmd/zone"))
		f.empty("data")
		return c.rootfs("zone", "VOLUME /data\nENTRYPOINT [\"/zone\"]\n", f)
	})
	ip := c.address()
	c.zone = "http://" + ip + ":8053/zone"
	c.server(spec{name: "zone", image: image, ip: ip}, func(ctx context.Context) error {
		return request(ctx, http.MethodGet, c.zone, "")
	})
	c.discovery = "dns://" + ip + ":5353/" + zoneName + "?port=25521"
}

// updateZone writes the coordinators into the zone, if there is one. With other backends,
// processes register themselves.
func (c *cluster) updateZone() {
	c.Helper()
	if c.zone == "" {
		return
	}
	var text strings.Builder
	for _, n := range c.all(coordinator) {
		if n.listed {
			fmt.Fprintf(&text, "%s. 1 IN A %s\n", zoneName, n.ip)
		}
	}
	c.must(request(c.Context(), http.MethodPut, c.zone, text.String()))
}

// unneeded matches large files of PostgreSQL that no test needs.
var unneeded = regexp.MustCompile(`llvmjit|/bitcode/|/pgxs/|\.bc$|\.mo$`)

// postgres starts a server and returns the URL of a database.
func (c *cluster) postgres(name string) string {
	c.Helper()
	image := c.imageOf("postgres", func() (string, error) {
		bin, data := postgrestest.Data(c.T)
		f := newFiles()
		f.program(filepath.Join(bin, "postgres")[1:], filepath.Join(bin, "postgres"))
		for _, folder := range []string{filepath.Join(bin, "../lib"), strings.Replace(filepath.Join(bin, ".."), "/lib/", "/share/", 1), "/usr/share/zoneinfo/Etc"} {
			if _, err := os.Stat(folder); err == nil {
				f.folder(folder[1:], folder, unneeded)
			}
		}
		f.empty("data")
		f.owned("data/db", data)
		return c.rootfs("postgres", "VOLUME /data\nSTOPSIGNAL SIGINT\nENTRYPOINT [\"/"+filepath.Join(bin, "postgres")[1:]+"\"]\n", f)
	})
	ip := c.address()
	where := "postgres://" + postgrestest.Superuser + "@" + ip + ":5432/postgres"
	c.server(spec{name: name, image: image, ip: ip, args: []string{
		"-D", "/data/db", "-c", "listen_addresses=*", "-c", "unix_socket_directories=", "-c", "fsync=on", "-c", "shared_buffers=32MB", "-c", "max_connections=200",
	}}, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, where)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	return where
}

// noKeepAlive uses a connection per request: one from before a restart proves nothing.
var noKeepAlive = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// request sends a request to a server. Any answer but a server error will do.
func request(ctx context.Context, method, url, body string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	res, err := noKeepAlive.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	if err == nil && (res.StatusCode >= 500 || method == http.MethodPut && res.StatusCode != http.StatusOK) {
		err = fmt.Errorf("%s answers %s: %s", url, res.Status, text)
	}
	return err
}
