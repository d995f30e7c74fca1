package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	clusterv1 "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

// fault is a panic that is put into a copy of a source file, behind a line of it. The product has no hook for this: the
// attack builds programs from the copy.
type fault struct{ name, file, after, when string }

var faults = []fault{
	{"gateway-connection", "services/gateway/server/http.go", "	c := s.newCall(sharding.Envelope{Entity: entity, Command: command}, arrived)\n", `entity.ID == "gateway-connection"`},
	{"link", "libs/link/conn.go", "	err := c.stream.inNames.readCommand(body, c.now, c.stream.maxPayload, &c.batch[len(c.batch)-1])\n", `c.batch[len(c.batch)-1].Envelope.Entity.ID == "link"`},
	{"control-call", "libs/node/rpc/handler.go", "func (s *service) check(cluster string, to uint64) error {\n", `cluster == "control-call"`},
	{"shard-core", "services/region/shardcore.go", "func (m *ShardCore) Command(now time.Time, in *Command, out *Outputs) {\n	m.begin(now, out)\n", `in.Env.Entity.ID == "shard-core" && in.Env.Command == "Add"`},
	{"control-core", "services/region/coordinator.go", "func (c *ControlCore) receive(in Received) bool {\n", `in.From == "control-core:1"`},
	{"coordinator-core", "services/coordinator/machine.go", "func (m *Machine) receive(in Received) bool {\n", `in.From.Addr == "coordinator-core:1"`},
	{"gossip-core", "libs/gossip/machine.go", "func (m *Machine) receive(in Receive) {\n", `in.From.Addr == "gossip-core:1"`},
	{"router-core", "libs/router/admit.go", "func (m *Machine) submit(in *Submit) {\n", `in.Env.Entity.ID == "router-core" && in.Env.Command == "Add"`},
}

// message is the text of the panic.
func (f fault) message() string { return "injected into " + f.name }

// buildFaulty builds the programs with all faults, and returns where they are.
func buildFaulty(t *testing.T) (bin string) {
	t.Helper()
	absolute, err := filepath.Abs(root)
	must(t, err)
	dir := t.TempDir()
	replace := map[string]string{}
	for i, f := range faults {
		original := filepath.Join(absolute, filepath.FromSlash(f.file))
		text, err := os.ReadFile(original)
		must(t, err)
		if strings.Count(string(text), f.after) != 1 {
			t.Fatalf("%s does not have the line behind which the fault %s belongs:\n%s", f.file, f.name, f.after)
		}
		changed := filepath.Join(dir, strconv.Itoa(i)+".go")
		must(t, os.WriteFile(changed, []byte(strings.Replace(string(text), f.after, fmt.Sprintf("%sif %s { panic(%q) }\n", f.after, f.when, f.message()), 1)), 0o600))
		replace[original] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	bin = filepath.Join(dir, "bin") + string(filepath.Separator)
	cmd := exec.Command("go", "build", "-ldflags=-w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin,
		"./services/coordinator/cmd/coordinator", "./services/gateway/cmd/gateway", "./e2e/attack/cmd/attacked-region")
	cmd.Dir, cmd.Env = absolute, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// crashes: a panic on a connection ends that connection only. A panic in a core ends the process, because its state may
// be half changed: it logs the reason, others take over, and nothing is lost.
func crashes(t *testing.T, _ *rig) {
	s := startFaulty(t)
	s.addAll()
	s.connections()
	for _, c := range []struct {
		fault, process string
		inject         func(p launcher.Process)
	}{
		{"shard-core", s.host("shard-core"), func(launcher.Process) { s.command(0, "shard-core", "Add", "") }},
		{"control-core", "region-1", func(p launcher.Process) { s.send(p, "control-core:1", control.HostShard{}) }},
		{"gossip-core", "region-2", func(p launcher.Process) { s.post(p, "gossip-core:1") }},
		{"router-core", "gateway-1", func(launcher.Process) { s.command(0, "router-core", "Add", "") }},
		{"coordinator-core", s.active(), func(p launcher.Process) { s.send(p, "coordinator-core:1", control.GetShardHome{}) }},
	} {
		s.ends(c.fault, c.process, c.inject)
		s.onlySuspect("shard-core", "Add") // the entity of the first panic stays the only one
	}
	if a := s.command(0, "shard-core", "Get", ""); a.status != 200 || strings.TrimSpace(a.body) != "0" {
		t.Errorf("the command at which a shard core has panicked may be half done: %d %s", a.status, a.body)
	}
	t.Logf("of %d panics, those on connections end their connections, and those in cores end their processes; others take over, and %d commands have had effect exactly once", len(faults), s.sent)
}

// faulty is a cluster whose programs have the faults.
type faulty struct {
	*launcher.Cluster
	t      *testing.T
	client *http.Client
	values map[string]int // what each counter must have
	sent   int            // keyed commands that were answered
}

func startFaulty(t *testing.T) *faulty {
	t.Helper()
	bin := buildFaulty(t)
	s := &faulty{t: t, client: &http.Client{Timeout: 10 * time.Second}, values: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var err error
	s.Cluster, err = launcher.Start(ctx, launcher.Options{
		Name: clusterName, Coordinators: 2, Regions: 2, Gateways: 2, Dir: t.TempDir(), BinDir: bin, RegionBinary: filepath.Join(bin, "attacked-region"), StartTimeout: time.Minute,
	})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	must(t, s.Ready(ctx))
	return s
}

// find returns a process by its name.
func (s *faulty) find(name string) launcher.Process {
	for _, p := range s.Processes() {
		if p.Name == name {
			return p
		}
	}
	s.t.Fatalf("there is no process %q", name)
	return launcher.Process{}
}

func (s *faulty) command(gateway int, id, command, key string) answer {
	headers := []string{"Content-Type", "application/json"}
	if key != "" {
		headers = append(headers, "Idempotency-Key", key)
	}
	body := `{}`
	if command == "Add" {
		body = `{"delta":1}`
	}
	return do(s.client, http.MethodPost, s.Gateways()[gateway]+"/v1/Counter/"+id+"/"+command, body, headers...)
}

// addAll adds 1 to each of some counters, once each, and fails if one of them has lost something, or has something twice.
func (s *faulty) addAll() {
	s.t.Helper()
	for n := range 30 {
		id := "counter-" + strconv.Itoa(n)
		s.values[id]++
		s.sent++
		key := fmt.Sprint(id, "-", s.values[id])
		var a answer
		eventually(s.t, "a command is answered", func() error {
			if a = s.command(1, id, "Add", key); a.status != 200 {
				return fmt.Errorf("%d %s %v", a.status, a.body, a.err)
			}
			return nil
		})
		if got := strings.TrimSpace(a.body); got != strconv.Itoa(s.values[id]) {
			s.t.Errorf("%s has %s, want %d", id, got, s.values[id])
		}
	}
}

// connections: panics on connections of all kinds end these connections, and no process.
func (s *faulty) connections() {
	s.t.Helper()
	before := s.Processes()
	neighbour := s.neighbour()
	neighbour()
	for range 20 {
		if a := s.command(0, "gateway-connection", "Add", ""); a.err == nil {
			s.t.Errorf("a connection on which the gateway has panicked brings %d %s", a.status, a.body)
		}
	}
	if !neighbour() {
		s.t.Error("the connection of another client has ended, too")
	}
	for n := range 3 {
		if a := s.command(0, "link", "Add", ""); a.status == 200 || strings.Contains(a.body, "injected") {
			s.t.Errorf("a link on which the region has panicked brings %d %s", a.status, a.body)
		}
		eventually(s.t, "the link is there again", func() error {
			if a := s.command(0, "neighbour-"+strconv.Itoa(n), "Get", ""); a.status != 200 {
				return fmt.Errorf("%d %s %v", a.status, a.body, a.err)
			}
			return nil
		})
	}
	for _, name := range []string{"coordinator-1", "region-1", "region-2"} {
		c := &rpc.Client{Cluster: "control-call", Reach: rpc.Via(s.client, nil), Timeout: 10 * time.Second}
		if err := c.Send(s.t.Context(), sharding.NodeID{Addr: s.find(name).Service}, []control.Message{control.GetShardHome{}}); err == nil || strings.Contains(err.Error(), "injected") {
			s.t.Errorf("a call at which %s has panicked: %v", name, err)
		}
	}
	s.addAll()
	for _, was := range before {
		if p := s.find(was.Name); p.PID != was.PID || p.State != launcher.Running {
			s.t.Errorf("%s has ended: %s\n%s", p.Name, p.Reason, strings.Join(p.LastLines, "\n"))
		}
	}
}

// neighbour returns a function that sends a command on one connection to the first gateway, and reports whether the
// connection has been used before.
func (s *faulty) neighbour() func() (reused bool) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxConnsPerHost: 1}}
	return func() (reused bool) {
		s.t.Helper()
		ctx := httptrace.WithClientTrace(s.t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Gateways()[0]+"/v1/Counter/neighbour/Get", nil)
		must(s.t, err)
		res, err := client.Do(req)
		must(s.t, err)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			s.t.Errorf("the neighbour is answered %s", res.Status)
		}
		return reused
	}
}

// ends injects a fault into the core of a process. The process must end, and say why; then others take over what it had,
// and it comes back.
func (s *faulty) ends(name, process string, inject func(launcher.Process)) {
	s.t.Helper()
	s.t.Logf("a panic in a %s of %s", name, process)
	inject(s.find(process))
	eventually(s.t, process+" ends", func() error {
		if p := s.find(process); p.State != launcher.Died {
			return fmt.Errorf("it is %s after a panic in its %s", p.State, name)
		}
		return nil
	})
	p := s.find(process)
	log, err := os.ReadFile(p.Log)
	must(s.t, err)
	if message := (fault{name: name}).message(); !strings.Contains(string(log), "panic: "+message) || p.Reason != "exit status 2" {
		s.t.Errorf("%s ends by %s, and its log does not say %q:\n%s", process, p.Reason, message, strings.Join(p.LastLines, "\n"))
	}
	for _, other := range s.Processes() {
		if other.Name != process && other.State != launcher.Running {
			s.t.Errorf("%s has ended with %s: %s", other.Name, process, other.Reason)
		}
	}
	s.addAll() // while it is gone
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	must(s.t, s.Restart(ctx, process))
	must(s.t, s.Ready(ctx))
	s.addAll()
}

// onlySuspect: after a panic in a shard core, the entity of the command is suspected. No other one is, and none after a
// panic in another core.
func (s *faulty) onlySuspect(id, command string) {
	s.t.Helper()
	var list struct {
		Entities []struct{ ID, Command string }
	}
	eventually(s.t, "the entity is suspected", func() error {
		a := s.admin("Quarantines", `{}`)
		if err := json.Unmarshal([]byte(a.body), &list); err != nil || len(list.Entities) == 0 {
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		return nil
	})
	if e := list.Entities; len(e) != 1 || e[0].ID != id || e[0].Command != command {
		s.t.Errorf("after a panic of a shard core at %s of %s, and perhaps of other cores, these are suspected: %+v", command, id, e)
	}
}

// host returns the region that has the shard of a counter.
func (s *faulty) host(id string) (region string) {
	s.t.Helper()
	eventually(s.t, "a region has the shard", func() error {
		a := s.admin("Where", fmt.Sprintf(`{"type":"Counter","id":%q}`, id))
		var where struct {
			Shard struct{ Region, Phase string }
		}
		_ = json.Unmarshal([]byte(a.body), &where)
		if region = where.Shard.Region; region == "" || where.Shard.Phase != "serving" {
			s.command(0, id, "Get", "")
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		return nil
	})
	return region
}

func (s *faulty) active() string {
	s.t.Helper()
	name, _, err := s.Active(s.t.Context())
	must(s.t, err)
	return name
}

func (s *faulty) admin(method, body string) (a answer) {
	for _, url := range s.Admin() {
		if a = do(s.client, http.MethodPost, url+"/twirp/roost.admin.v1.Admin/"+method, body, "Content-Type", "application/json"); a.status == 200 {
			return a
		}
	}
	return a
}

// send brings a message of the control plane to a process.
func (s *faulty) send(p launcher.Process, from string, m control.Message) {
	s.t.Helper()
	c := &rpc.Client{Cluster: clusterName, Self: sharding.NodeID{Addr: from, UID: 7}, Reach: rpc.Via(s.client, nil), Timeout: 10 * time.Second}
	_ = c.Send(s.t.Context(), sharding.NodeID{Addr: p.Service, UID: s.uid(p)}, []control.Message{m}) // the process ends meanwhile
}

// post brings a message of the membership to a process.
func (s *faulty) post(p launcher.Process, from string) {
	s.t.Helper()
	body, err := proto.Marshal(&clusterv1.PostRequest{Cluster: clusterName, From: &clusterv1.Node{Addr: from, Uid: 7}, Messages: []*clusterv1.Message{
		{Kind: &clusterv1.Message_InitJoin{InitJoin: &clusterv1.InitJoin{}}},
	}})
	must(s.t, err)
	do(s.client, http.MethodPost, "http://"+p.Service+gossipPath, string(body), "Content-Type", "application/protobuf")
}

func (s *faulty) uid(p launcher.Process) sharding.NodeUID {
	s.t.Helper()
	a := s.admin("Members", `{}`)
	var list struct {
		Members []struct{ Addr, UID string }
	}
	must(s.t, json.Unmarshal([]byte(a.body), &list))
	for _, m := range list.Members {
		if m.Addr == p.Service {
			uid, err := strconv.ParseUint(m.UID, 16, 64)
			must(s.t, err)
			return sharding.NodeUID(uid)
		}
	}
	s.t.Fatalf("%s is not a member: %s", p.Name, a.body)
	return 0
}
