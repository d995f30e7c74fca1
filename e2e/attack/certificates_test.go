package attack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/cli/authority"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/rpc"
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
		"no certificate":       {InsecureSkipVerify: true},
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
	as := func(c *http.Client) *rpc.Client {
		return &rpc.Client{Cluster: clusterName, Self: self, Reach: rpc.Via(c, url), Timeout: 10 * time.Second}
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
					continue // it may, or no one may
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

// impersonation: the certificate of one region cannot speak for another one, nor give orders as a coordinator does.
func impersonation(t *testing.T, r *rig) {
	var all struct {
		Members []struct{ Name, Addr, UID string }
	}
	must(t, json.Unmarshal([]byte(r.members(t)), &all))
	nodes := map[string]sharding.NodeID{}
	for _, m := range all.Members {
		uid, err := strconv.ParseUint(m.UID, 16, 64)
		must(t, err)
		nodes[m.Name] = sharding.NodeID{Addr: m.Addr, UID: sharding.NodeUID(uid)}
	}
	coordinator, own, other := nodes["coordinator-1"], nodes["region-1"], nodes["region-2"]
	if coordinator.IsZero() || own.IsZero() || other.IsZero() {
		t.Fatalf("the members are %v", nodes)
	}
	region := httpsClient(r.peer(t, r.peers, authority.Request{Name: "region-1", URIs: []string{authority.URI(clusterName, "region", "region-1")}}))
	as := func(n sharding.NodeID) *rpc.Client {
		return &rpc.Client{Cluster: clusterName, Self: n, Reach: rpc.Via(region, func(addr string) string { return "https://" + addr }), Timeout: 10 * time.Second}
	}
	attacks := 0
	refused := func(what string, err error) {
		t.Helper()
		attacks++
		if err == nil || !strings.Contains(err.Error(), "permission_denied") || !strings.Contains(err.Error(), "the certificate is for") && !strings.Contains(err.Error(), "is not a message of") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// It may speak for itself.
	if answer, err := as(own).Call(t.Context(), coordinator.Addr, control.CountDue{}); err != nil {
		t.Fatalf("region-1 asks in its own name: %v, %v", answer, err)
	}
	for _, m := range []control.Message{
		control.Register{Name: "region-2"}, control.ReportLoad{Number: 1 << 60, Full: true}, control.CountDue{}, control.GracefulShutdown{}, control.WatchTable{},
	} {
		_, err := as(other).Call(t.Context(), coordinator.Addr, m)
		refused("region-1 calls "+control.Name(m)+" as region-2", err)
	}
	shard := sharding.ShardID{Type: "Counter", Index: 1}
	for _, m := range []control.Message{
		control.ShardStopped{Shard: shard, Epoch: 1 << 60}, control.ShardStarted{Shard: shard, Epoch: 1 << 60}, control.HostRefused{Shard: shard, Epoch: 1 << 60, Above: 1 << 62},
		control.JournalReport{Number: 1 << 60}, control.GetShardHome{Shard: shard},
	} {
		refused("region-1 sends "+control.Name(m)+" as region-2", as(other).Send(t.Context(), coordinator, []control.Message{m}))
	}
	_, err := as(sharding.NodeID{Addr: "127.0.0.1:1", UID: 7}).Call(t.Context(), coordinator.Addr, control.Register{Name: "region-2"})
	refused("region-1 registers region-2 without a name", err)
	order := control.HostShard{Term: 1 << 30, Shard: shard, Epoch: 1 << 61}
	for who, n := range map[string]sharding.NodeID{"itself": own, "the coordinator": coordinator} {
		refused("region-1 orders as "+who, as(n).Send(t.Context(), other, []control.Message{order}))
	}
	order.Released = true
	refused("region-1 hands over as region-2", as(other).Send(t.Context(), own, []control.Message{order}))

	post := func(from sharding.NodeID, m *clusterv1.Message) error {
		_, err := clusterv1.NewClusterProtobufClient("https://"+coordinator.Addr, region).Post(t.Context(), &clusterv1.PostRequest{
			Cluster: clusterName, From: &clusterv1.Node{Addr: from.Addr, Uid: uint64(from.UID)}, Messages: []*clusterv1.Message{m},
		})
		return err
	}
	leave := &clusterv1.Message{ToUid: uint64(coordinator.UID), Kind: &clusterv1.Message_LeaveRequest{LeaveRequest: &clusterv1.LeaveRequest{}}}
	refused("region-1 gossips as region-2", post(other, leave))
	refused("region-1 gossips as the coordinator", post(coordinator, leave))
	join := func(name, role string) *clusterv1.Message {
		return &clusterv1.Message{ToUid: uint64(coordinator.UID), Kind: &clusterv1.Message_Join{Join: &clusterv1.Join{Name: name, Roles: []string{role}}}}
	}
	stranger := sharding.NodeID{Addr: "127.0.0.1:1", UID: 7}
	refused("region-1 joins as region-3", post(stranger, join("region-3", "region")))
	refused("region-1 joins as a coordinator", post(stranger, join("region-1", "coordinator")))
	if now := r.members(t); strings.Contains(now, "127.0.0.1:1\"") || strings.Contains(now, "down") || strings.Contains(now, "leaving") || strings.Count(now, `"region-`) < 2 {
		t.Errorf("the membership has changed: %s", now)
	}
	t.Logf("%d messages of region-1 in the name of others, or as orders: all refused, the membership is as before", attacks)
}

// rotation: all certificates and their authority are replaced under load, without a restart and without an error.
func rotation(t *testing.T, r *rig) {
	via, err := client.New([]string{r.gateway(1)}, client.HTTP(r.client), client.Timeout(30*time.Second))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var answered, failed atomic.Int64
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, err := via.Call(t.Context(), entity.Call{
					Type: "Counter", ID: fmt.Sprintf("rotation-%d", worker), Command: "Add",
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
		eventually(t, "the load continues", func() error {
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
