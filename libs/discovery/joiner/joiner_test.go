package joiner

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// process is a node with a membership that obeys at once.
type process struct {
	t                 *testing.T
	j                 *Joiner
	service, manage   *httptest.Server
	serviceM, manageM *http.ServeMux
	client            *http.Client
	ready             func(context.Context) error
	log               *lines

	mu    sync.Mutex
	view  gossip.View
	forms int
	seeds []string
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (p *process) HandleMembers(pattern string, h http.Handler)          { p.serviceM.Handle(pattern, h) }
func (p *process) HandleManagementRead(pattern string, h http.Handler)   { p.manageM.Handle(pattern, h) }
func (p *process) HandleManagement(pattern string, h http.Handler)       { p.manageM.Handle(pattern, h) }
func (p *process) Ready(_ string, check func(ctx context.Context) error) { p.ready = check }

func (p *process) Members() gossip.View {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view
}

func (p *process) enter() {
	p.view.InCluster = true
	p.view.Members = []gossip.MemberView{{Member: gossip.Member{Node: p.view.Self, Status: gossip.Up}, Reachable: true}}
}

func (p *process) SetSeeds(seeds []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seeds = seeds; len(seeds) > 0 {
		p.enter()
	}
}

func (p *process) Form() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.view.InCluster {
		p.forms++
		p.enter()
	}
}

func (p *process) addr() string { return p.service.Listener.Addr().String() }

// newProcess binds listeners; begin starts it.
func newProcess(t *testing.T) *process {
	p := &process{t: t, serviceM: http.NewServeMux(), manageM: http.NewServeMux(), client: &http.Client{Transport: &http.Transport{}}, log: &lines{}}
	p.service, p.manage = httptest.NewServer(p.serviceM), httptest.NewServer(p.manageM)
	t.Cleanup(func() { p.client.CloseIdleConnections(); p.service.Close(); p.manage.Close() })
	return p
}

// begin runs the Joiner until the test ends, or until it gives up.
func (p *process) begin(url string, change func(*Config)) <-chan error {
	p.t.Helper()
	c := Config{
		Settings: DefaultSettings(), URL: url, Cluster: "prod", Roles: []string{"coordinator"},
		Self:   sharding.NodeID{Addr: p.addr(), UID: sharding.NodeUID(len(p.addr())) + sharding.NodeUID(time.Now().UnixNano())},
		Client: p.client, PeerURL: func(addr string) string { return "http://" + addr }, Log: slog.New(slog.NewTextHandler(p.log, nil)),
	}
	b := &c.Bootstrap
	b.StableMargin, b.QueryInterval, b.QueryTimeout = 100*time.Millisecond, 20*time.Millisecond, 5*time.Second
	if change != nil {
		change(&c)
	}
	var err error
	if p.j, err = New(c); err != nil {
		p.t.Fatal(err)
	}
	p.view.Self = c.Self
	p.j.Register(p, p)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() { done <- p.j.Run(ctx) })
	p.t.Cleanup(func() { cancel(); group.Wait() })
	return done
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (p *process) get(path string) (body string) {
	p.t.Helper()
	res, err := p.client.Get(p.manage.URL + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, _ := io.ReadAll(res.Body)
	return string(raw)
}

func (p *process) status() (s struct {
	bootstrap.Status
	InCluster bool `json:"inCluster"`
}) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.get(StatusPath)), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// TestThreeFormOneCluster by a file that appears late and is garbage at first.
func TestThreeFormOneCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "peers")
	var all []*process
	var list string
	for range 3 {
		p := newProcess(t)
		all, list = append(all, p), list+p.addr()+"\n"
		p.begin("file:"+file, func(c *Config) { c.Bootstrap.Required = 3 })
	}
	await(t, "the missing file is named", func() bool { return strings.Contains(all[0].status().Waiting, "discovery.url file:"+file) })
	write(t, file, "this is not an address\n")
	await(t, "the bad line is named", func() bool { return strings.Contains(all[0].status().Waiting, file+":1: ") })
	write(t, file, all[0].addr()+"\n")
	await(t, "more are required", func() bool {
		return strings.Contains(all[0].status().Waiting, "3 are required, discovery lists "+all[0].addr())
	})
	if err := all[0].ready(t.Context()); err == nil || !strings.Contains(err.Error(), "3 are required") {
		t.Errorf("readiness is %v", err)
	}
	write(t, file, list)
	forms := 0
	for _, p := range all {
		await(t, "all are members", func() bool { return p.status().Phase == "finished" })
		p.mu.Lock()
		forms += p.forms
		p.mu.Unlock()
		if err := p.ready(t.Context()); err != nil {
			t.Error(err)
		}
		if log := p.log.String(); !strings.Contains(log, "3 are required") || !strings.Contains(log, "joined the cluster") {
			t.Errorf("the log is\n%s", log)
		}
	}
	if forms != 1 {
		t.Errorf("%d clusters were formed", forms)
	}
	var a bootstrap.Answer
	if err := json.Unmarshal([]byte(all[1].get(Path)), &a); err != nil || a.SelfNode != all[1].addr() || len(a.SeedNodes) != 1 || a.Cluster != "prod" {
		t.Errorf("the contact point answers %+v, %v", a, err)
	}
	await(t, "members announce the cluster to what discovery lists", func() bool {
		all[2].mu.Lock()
		defer all[2].mu.Unlock()
		return len(all[2].seeds) == 3
	})
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// TestBadContactPoints: what answers wrongly is named, and does no harm.
func TestBadContactPoints(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"another service": {http.NotFound, "it answers 404 Not Found to GET /bootstrap/seed-nodes"},
		"no JSON":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "not the JSON of a contact point"},
		"endless":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }, "longer than 65536 bytes"},
		"another cluster": {func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, 200, bootstrap.Answer{SelfNode: "x:1", SelfUID: 1, Cluster: "test", SeedNodes: []bootstrap.SeedNode{{Node: "x:1"}}})
		}, `it belongs to cluster "test", not "prod"`},
	} {
		t.Run(name, func(t *testing.T) {
			bad := httptest.NewServer(c.answer)
			defer bad.Close()
			p := newProcess(t)
			addr := bad.Listener.Addr().String()
			p.begin("static:"+p.addr()+","+addr, func(c *Config) { c.Bootstrap.Required = 2 })
			await(t, "the problem is named", func() bool {
				s := p.status()
				for _, contact := range s.ContactPoints {
					if contact.Addr == addr && strings.Contains(contact.Problem, c.want) {
						return strings.Contains(s.Waiting+s.Warning, addr)
					}
				}
				return false
			})
			if p.Members().InCluster {
				t.Error("it became a member of something")
			}
		})
	}
}

func TestExplicitJoinByHTTP(t *testing.T) {
	p := newProcess(t)
	p.begin("static:"+p.addr()+",127.0.0.1:1", nil)
	post := func(kind, body string) (code int) {
		res, err := p.client.Post(p.manage.URL+JoinPath, kind, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	await(t, "it waits", func() bool { return strings.Contains(p.status().Waiting, "127.0.0.1:1") })
	for _, c := range []struct {
		kind, body string
		want       int
	}{
		{"text/plain", `{"seedNodes":["a:1"]}`, 415}, {"application/json", "{}", 400}, {"application/json", "x", 400},
		{"application/json", `{"seedNodes":["nonsense"]}`, 400}, {"application/json", `{"seedNodes":["a:1"]}`, 202},
	} {
		if got := post(c.kind, c.body); got != c.want {
			t.Errorf("%s as %s is answered %d, want %d", c.body, c.kind, got, c.want)
		}
	}
	await(t, "it joins", func() bool { return p.status().InCluster })
	if got := post("application/json", `{"seedNodes":["b:1"]}`); got != 409 {
		t.Errorf("a member is answered %d", got)
	}
	res, err := p.client.Post(p.service.URL+JoinPath, "application/json", strings.NewReader("{}"))
	if err != nil || res.StatusCode != 404 {
		t.Errorf("on the service listener: %v, %v", res, err)
	}
}

func TestConfiguredSeedsWin(t *testing.T) {
	p := newProcess(t)
	p.begin("static:"+p.addr(), func(c *Config) { c.Seeds = []string{"a:1", "b:1"} })
	await(t, "a warning", func() bool { return strings.Contains(p.log.String(), "bootstrap is off") })
	g := gossip.DefaultConfig()
	if p.j.Configure(&g); g.DriverDecides || len(g.Seeds) != 2 {
		t.Errorf("the membership waits: %v, seeds %v", g.DriverDecides, g.Seeds)
	}
	if s := p.status(); s.Phase != "off" || p.ready(t.Context()) != nil {
		t.Errorf("status is %+v", s)
	}
	if got := p.j.Coordinators(); len(got) != 2 {
		t.Errorf("coordinators are %v", got)
	}
}

func TestGivesUpWithTheReason(t *testing.T) {
	p := newProcess(t)
	done := p.begin("static:"+p.addr(), func(c *Config) { c.Bootstrap.Required, c.Bootstrap.GiveUp = 2, 300*time.Millisecond })
	err := <-done
	if err == nil || !strings.Contains(err.Error(), "discovery.give_up") || !strings.Contains(err.Error(), "2 are required") {
		t.Errorf("it ended with %v", err)
	}
}

// TestManagementPort: contact points can be queried at their management port.
func TestManagementPort(t *testing.T) {
	c := Config{PeerURL: func(addr string) string { return "https://" + addr }}
	if got := c.contactURL("[::1]:25521"); got != "https://[::1]:25521"+Path {
		t.Error(got)
	}
	c.ContactPort = 8558
	if got := c.contactURL("[::1]:25521"); got != "http://[::1]:8558"+Path {
		t.Error(got)
	}
}

// TestOnlyOnePortCounts: a host that is listed with all its ports is waited for once.
func TestOnlyOnePortCounts(t *testing.T) {
	p := newProcess(t)
	_, port, err := net.SplitHostPort(p.addr())
	if err != nil {
		t.Fatal(err)
	}
	p.begin("static:"+p.addr()+",127.0.0.1:1,127.0.0.1:2", func(c *Config) {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		c.Bootstrap.Port = uint16(n)
	})
	await(t, "it forms a cluster", func() bool { return p.Members().InCluster })
	if got := p.status().ContactPoints; len(got) != 1 || got[0].Addr != p.addr() {
		t.Errorf("contact points are %+v", got)
	}
}

func TestSettingsNameWhatIsWrong(t *testing.T) {
	s := Settings{Seeds: []string{"x"}, Bootstrap: bootstrap.Config{StableMargin: -1}}
	err := s.Validate()
	for _, key := range []string{"cluster.seeds", "discovery.required_contacts", "discovery.stable_for", "discovery.interval"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("error does not name %s: %v", key, err)
		}
	}
	if d := DefaultSettings(); d.Validate() != nil {
		t.Error(d.Validate())
	}
}
