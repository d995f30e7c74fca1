package attack

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/cli/authority"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/controlrpc"
	"github.com/roost-cluster/roost/libs/sharding"
	clusterv1 "github.com/roost-cluster/roost/proto/roost/cluster/v1"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

const seedNodes = "/bootstrap/seed-nodes"

// certificates: who has no right certificate is not served by any peer, and learns no address of a member.
func certificates(t *testing.T, r *rig) {
	uri := func(cluster, role string) []string { return []string{authority.URI(cluster, role, "attacker")} }
	stranger, err := authority.New("stranger", time.Hour)
	must(t, err)
	region := authority.Request{Name: "attacker", URIs: uri(clusterName, "region")}
	with := func(change func(*authority.Request)) *tls.Config {
		request := region
		change(&request)
		return r.peer(t, r.peers, request)
	}
	old := r.peer(t, r.peers, region)
	old.MaxVersion = tls.VersionTLS12
	bad := map[string]*tls.Config{
		"no certificate":       {RootCAs: r.peers.Pool(), ServerName: "127.0.0.1"},
		"of another authority": r.peer(t, stranger, region),
		"self-signed":          r.peer(t, stranger, authority.Request{Name: "attacker", URIs: uri(clusterName, "coordinator")}),
		"of the public one":    r.peer(t, r.public, region),
		"expired":              with(func(q *authority.Request) { q.Begin, q.End = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour) }),
		"not valid yet":        with(func(q *authority.Request) { q.Begin = time.Now().Add(time.Hour); q.End = time.Now().Add(2 * time.Hour) }),
		"of another cluster":   with(func(q *authority.Request) { q.URIs = uri("other", "region") }),
		"of no role":           with(func(q *authority.Request) { q.URIs = nil }),
		"of an unknown role":   with(func(q *authority.Request) { q.URIs = uri(clusterName, "admin") }),
		"of a gateway":         with(func(q *authority.Request) { q.URIs = uri(clusterName, "gateway") }),
		"for servers only":     with(func(q *authority.Request) { q.Uses = serversOnly }),
		"denied":               with(func(q *authority.Request) { q.URIs = []string{authority.URI(clusterName, "region", "denied")} }),
		"with TLS 1.2":         old,
	}
	for _, name := range []string{"coordinator-1", "region-1"} {
		addr := r.processes[name].Service
		if a := do(httpsClient(r.peer(t, r.peers, region)), http.MethodGet, "https://"+addr+seedNodes, ""); a.status != 200 || !strings.Contains(a.body, "127.0.0.1:") {
			t.Fatalf("a right certificate at %s: %d %s %v", name, a.status, a.body, a.err)
		}
		refused := func(how string, a answer) {
			t.Helper()
			if a.status == 200 {
				t.Errorf("%s serves a certificate %s", name, how)
			}
			for _, p := range r.processes {
				if strings.Contains(a.body, p.Service) {
					t.Errorf("%s tells a certificate %s of %s", name, how, p.Name)
				}
			}
		}
		for how, config := range bad {
			refused(how, do(httpsClient(config), http.MethodGet, "https://"+addr+seedNodes, ""))
		}
		refused("in plain TCP", do(http.DefaultClient, http.MethodGet, "http://"+addr+seedNodes, ""))
	}
	t.Logf("%d kinds of wrong certificates, and plain TCP, at a coordinator and a region: none is served", len(bad))
}

// insider: a gateway's certificate cannot take part in the membership, register, or move a shard; a region's cannot
// do what coordinators do.
func insider(t *testing.T, r *rig) {
	gateway, region := httpsClient(r.role(t, "gateway")), httpsClient(r.role(t, "region"))
	from := &clusterv1.Node{Addr: "127.0.0.1:1", Uid: 7}
	post, err := proto.Marshal(&clusterv1.PostRequest{Cluster: clusterName, From: from})
	must(t, err)
	for _, name := range []string{"coordinator-1", "region-1"} {
		url := "https://" + r.processes[name].Service + "/twirp/roost.cluster.v1.Cluster/Post"
		if a := do(gateway, http.MethodPost, url, string(post), "Content-Type", "application/protobuf"); a.status != http.StatusForbidden {
			t.Errorf("a gateway gossips with %s: %d %s %v", name, a.status, a.body, a.err)
		}
		foreign, err := proto.Marshal(&clusterv1.PostRequest{Cluster: "other", From: from})
		must(t, err)
		if a := do(region, http.MethodPost, url, string(foreign), "Content-Type", "application/protobuf"); a.status == 200 || !strings.Contains(a.body, "this is cluster") {
			t.Errorf("gossip of another cluster with %s: %d %s", name, a.status, a.body)
		}
		for _, path := range []string{"/twirp/roost.inspection.v1.Inspection/Entities", "/kept", "/twirp/roost.admin.v1.Admin/Drain", "/debug/pprof/", "/metrics"} {
			if a := do(gateway, http.MethodPost, "https://"+r.processes[name].Service+path, "{}", "Content-Type", "application/json"); a.status == 200 {
				t.Errorf("a gateway is served %s by %s", path, name)
			}
		}
	}
	url := func(addr string) string { return "https://" + addr }
	self := sharding.NodeID{Addr: "127.0.0.1:1", UID: 7}
	as := func(c *http.Client) *controlrpc.Client {
		return &controlrpc.Client{Cluster: clusterName, Self: self, HTTP: c, URL: url, Timeout: 10 * time.Second}
	}
	coordinator, host := r.processes["coordinator-1"].Service, r.processes["region-1"].Service
	calls := 0
	for _, k := range control.Kinds {
		for _, to := range []struct {
			role control.Role
			addr string
		}{{control.Coordinator, coordinator}, {control.Region, host}} {
			for who, sender := range map[control.Role]*http.Client{control.Gateway: gateway, control.Region: region} {
				if k.To&to.role == 0 || k.From&who != 0 {
					continue // it may, or nobody may
				}
				calls++
				var err error
				if k.Answers != nil {
					_, err = as(sender).Call(t.Context(), to.addr, k.Zero)
				} else {
					err = as(sender).Send(t.Context(), sharding.NodeID{Addr: to.addr}, []control.Message{k.Zero})
				}
				if err == nil || !strings.Contains(err.Error(), "permission_denied") {
					t.Errorf("%v sends %s to %v: %v", who, control.Name(k.Zero), to.role, err)
				}
			}
		}
	}
	if calls < 8 {
		t.Errorf("only %d forbidden messages were sent", calls)
	}
	if all := r.members(t); strings.Contains(all, "attacker") || strings.Contains(all, "down") || strings.Count(all, `"region-`) < 2 {
		t.Errorf("the membership has changed: %s", all)
	}
	t.Logf("%d messages of other roles, gossip and questions: all refused, the membership is as before", calls)
}

// rotation: all certificates and their authority are replaced under load, without a restart and without an error.
func rotation(t *testing.T, r *rig) {
	config := client.DefaultConfig(r.gateway(1))
	config.HTTP, config.Timeout = r.client, 30*time.Second
	via, err := client.New(config)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var answered, failed atomic.Int64
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, err := via.Call(t.Context(), entity.Call{
					Entity: sharding.Entity{Type: "Counter", ID: sharding.EntityID(fmt.Sprintf("rotation-%d", worker))}, Command: "Add",
					Key: fmt.Sprintf("%d-%d", worker, n), Payload: []byte(`{"delta":1}`),
				})
				if err != nil {
					failed.Add(1)
					t.Errorf("worker %d, command %d: %v", worker, n, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	more := func() { // the load has gone on for a while
		before := answered.Load()
		eventually(t, "the load goes on", func() error {
			if now := answered.Load(); now < before+100 && failed.Load() == 0 {
				return fmt.Errorf("%d commands since %d", now-before, before)
			}
			return nil
		})
	}
	more()
	r.write(t, "roots.pem", string(r.peers.PEM())+string(r.other.PEM()))
	more()
	for _, p := range r.Processes() {
		r.issue(t, r.other, p.Role, p.Name)
	}
	more()
	r.write(t, "roots.pem", string(r.other.PEM()))
	eventually(t, "links of the old authority are closed", func() error {
		if !strings.Contains(r.logs(t), "tls.ca has changed") {
			return errAgain
		}
		return nil
	})
	more()
	stop()
	load.Wait()
	old := httpsClient(r.role(t, "region")) // of the old authority
	old.Transport.(*http.Transport).TLSClientConfig.RootCAs = r.other.Pool()
	eventually(t, "the old authority is not trusted", func() error {
		for _, name := range []string{"coordinator-1", "region-1"} {
			if a := do(old, http.MethodGet, "https://"+r.processes[name].Service+seedNodes, ""); a.status == 200 {
				return fmt.Errorf("%s serves a certificate of the old authority", name)
			}
		}
		return nil
	})
	for _, p := range r.Processes() {
		if p.PID != r.processes[p.Name].PID {
			t.Errorf("%s was started again", p.Name)
		}
	}
	t.Logf("%d keyed commands during the rotation of %d certificates and their authority, %d errors", answered.Load(), len(r.processes), failed.Load())
}
