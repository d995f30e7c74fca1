package bootstrap_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/sharding"
)

// node is a machine in the hands of a test.
type node struct {
	t   *testing.T
	m   *bootstrap.Machine
	now time.Time
}

func config(change func(*bootstrap.Config)) bootstrap.Config {
	c := bootstrap.DefaultConfig()
	c.Self, c.Roles, c.Cluster, c.Required = sharding.NodeID{Addr: "a:1", UID: 1}, []string{"coordinator"}, "prod", 2
	if change != nil {
		change(&c)
	}
	return c
}

func newNode(t *testing.T, change func(*bootstrap.Config)) *node {
	c := config(change)
	m, err := bootstrap.New(c)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, m: m, now: time.Unix(1_000_000, 0)}
	n.step(bootstrap.Start{})
	return n
}

func (n *node) step(in bootstrap.Input) []bootstrap.Output {
	n.t.Helper()
	outs := n.m.Step(n.now, in, nil)
	if err := n.m.Check(); err != nil {
		n.t.Fatalf("after %T: %v", in, err)
	}
	return outs
}

func peers(addrs ...string) bootstrap.Discovered {
	var d bootstrap.Discovered
	for _, a := range addrs {
		role, addr, ok := strings.Cut(a, "@")
		if !ok {
			role, addr = "", a
		}
		d.Peers = append(d.Peers, bootstrap.Peer{Addr: addr, Role: role})
	}
	return d
}

// good is the answer of a coordinator without a cluster, "a:1" has UID 1.
func good(addr string, seeds ...string) bootstrap.Answer {
	a := bootstrap.Answer{SelfNode: addr, SelfUID: int64(addr[0]-'a') + 1, SelfRoles: []string{"coordinator"}, Cluster: "prod"}
	for _, s := range seeds {
		a.SeedNodes = append(a.SeedNodes, bootstrap.SeedNode{Node: s, NodeUID: 1, Status: "Up"})
	}
	return a
}

// pass lets time go by. Probes are answered by answers, by address, as "refused"
// without one. Everything else that came out is returned.
func (n *node) pass(d time.Duration, answers map[string]bootstrap.Answer) (outs []bootstrap.Output) {
	n.t.Helper()
	for end := n.now.Add(d); ; n.now = n.now.Add(100 * time.Millisecond) {
		for _, o := range n.step(bootstrap.Tick{}) {
			p, ok := o.(bootstrap.Query)
			if !ok {
				outs = append(outs, o)
				continue
			}
			var in bootstrap.Input = bootstrap.QueryFailed{Addr: p.Addr, Reason: "connection refused"}
			if a, ok := answers[p.Addr]; ok {
				in = bootstrap.Answered{Addr: p.Addr, Answer: a}
			}
			outs = append(outs, n.step(in)...)
		}
		if !n.now.Before(end) {
			return outs
		}
	}
}

func has[T bootstrap.Output](outs []bootstrap.Output) bool {
	return slices.ContainsFunc(outs, func(o bootstrap.Output) bool { _, ok := o.(T); return ok })
}

func (n *node) waits(text string) {
	n.t.Helper()
	if got := n.m.Status().Waiting; !strings.Contains(got, text) {
		n.t.Errorf("waits %q, want %q", got, text)
	}
}

var both = map[string]bootstrap.Answer{"a:1": good("a:1"), "b:1": good("b:1")}

func TestWaitsAndForms(t *testing.T) {
	n := newNode(t, nil)
	n.waits("discovery has not answered yet")
	n.step(bootstrap.LookupFailed{Reason: "file:peers.txt: no such file"})
	n.waits("file:peers.txt: no such file")
	n.step(peers())
	n.waits("discovery lists no contact point")
	n.step(peers("a:1"))
	n.pass(10*time.Second, both)
	n.waits("2 are required, discovery lists a:1")
	n.step(peers("a:1", "b:1"))
	n.pass(time.Second, map[string]bootstrap.Answer{"a:1": good("a:1")})
	n.waits("2 are required, 1 answer; silent: b:1")
	n.pass(2*time.Second, both)
	n.waits("has not changed for 5s")
	n.step(peers("a:1", "b:1", "c:1")) // the margin begins anew
	n.pass(4*time.Second, both)
	n.waits("silent: c:1")
	n.step(peers("a:1", "b:1"))
	if outs := n.pass(4900*time.Millisecond, both); has[bootstrap.FormCluster](outs) {
		t.Error("formed before the margin was over")
	}
	if outs := n.pass(time.Second, both); !has[bootstrap.FormCluster](outs) {
		t.Error("not formed after the margin")
	}
	if outs := n.step(bootstrap.Joined{}); !has[bootstrap.Finished](outs) {
		t.Errorf("after joining: %v", outs)
	}
	if outs := n.pass(10*time.Second, both); len(outs) > 0 {
		t.Errorf("afterwards: %v", outs)
	}
}

func TestOthersWait(t *testing.T) {
	b := newNode(t, func(c *bootstrap.Config) { c.Self = sharding.NodeID{Addr: "b:1", UID: 2} })
	b.step(peers("a:1", "b:1"))
	if outs := b.pass(20*time.Second, both); has[bootstrap.FormCluster](outs) {
		t.Error("formed, though not the lowest")
	}
	b.waits("waits for a:1 to form the cluster")
	outs := b.pass(2*time.Second, map[string]bootstrap.Answer{"a:1": good("a:1", "a:1"), "b:1": good("b:1")})
	if i := slices.IndexFunc(outs, func(o bootstrap.Output) bool { _, ok := o.(bootstrap.JoinSeeds); return ok }); i < 0 || fmt.Sprint(outs[i]) != "{[a:1]}" {
		t.Errorf("a cluster shows: %v", outs)
	}

	r := newNode(t, func(c *bootstrap.Config) { c.Roles = []string{"region"} })
	r.step(peers("a:1", "b:1"))
	if outs := r.pass(20*time.Second, both); has[bootstrap.FormCluster](outs) {
		t.Error("a region formed a cluster")
	}
	r.waits("this node may not form one, and none of a:1, b:1 knows of one")

	alone := newNode(t, func(c *bootstrap.Config) { c.Roles = []string{"region"} })
	alone.step(peers("region@a:1"))
	itself := good("a:1")
	itself.SelfRoles = []string{"region"}
	if outs := alone.pass(20*time.Second, map[string]bootstrap.Answer{"a:1": itself}); has[bootstrap.FormCluster](outs) {
		t.Error("a region formed a cluster of itself")
	}
	alone.waits("discovery lists no other node that may")
}

// TestAnswersAreJudged: who answers, and when, counts; not the name in the list.
func TestAnswersAreJudged(t *testing.T) {
	foreign, region, impostor, twin := good("b:1"), good("b:1"), good("a:1"), good("b:1")
	leaving := good("b:1")
	leaving.InCluster = true
	foreign.Cluster, region.SelfRoles, impostor.SelfUID, twin.SelfUID = "test", []string{"region"}, 7, 7
	for name, c := range map[string]struct {
		answers map[string]bootstrap.Answer
		listed  []string
		waits   string
		warns   string
		forms   bool
	}{
		"another cluster":          {map[string]bootstrap.Answer{"a:1": good("a:1"), "b:1": foreign}, []string{"a:1", "b:1"}, `2 are required, discovery lists a:1 (b:1: it belongs to cluster "test", not "prod")`, `b:1: it belongs to cluster "test", not "prod"`, false},
		"no name":                  {map[string]bootstrap.Answer{"a:1": good("a:1"), "b:1": {}}, []string{"a:1", "b:1"}, "silent: b:1", "b:1: it does not say who it is", false},
		"a region":                 {map[string]bootstrap.Answer{"a:1": good("a:1"), "b:1": region}, []string{"a:1", "b:1"}, "2 are required", "", false},
		"one node, two names":      {map[string]bootstrap.Answer{"a:1": good("a:1"), "x:1": good("a:1")}, []string{"a:1", "x:1"}, "2 are required", "", false},
		"my address":               {map[string]bootstrap.Answer{"a:1": impostor, "b:1": good("b:1")}, []string{"a:1", "b:1"}, "this node's own address", "set node.advertise", false},
		"two processes, one name":  {map[string]bootstrap.Answer{"a:1": good("a:1"), "b:1": good("b:1"), "c:1": twin}, []string{"a:1", "b:1", "c:1"}, "two processes", "set node.advertise", false},
		"leaves its cluster":       {map[string]bootstrap.Answer{"a:1": good("a:1"), "b:1": leaving}, []string{"a:1", "b:1"}, "b:1 is in a cluster that no node can join any more", "", false},
		"other names":              {map[string]bootstrap.Answer{"z:1": good("a:1"), "y:1": good("b:1")}, []string{"y:1", "z:1"}, "", "", true},
		"listed as a region":       {map[string]bootstrap.Answer{"a:1": good("a:1"), "b:1": good("b:1")}, []string{"a:1", "b:1", "region@r:1"}, "", "", true},
		"strangers are left aside": {map[string]bootstrap.Answer{"a:1": good("a:1"), "b:1": good("b:1"), "c:1": {SelfNode: "c:1", SelfUID: 3, Cluster: "test"}}, []string{"a:1", "b:1", "c:1"}, "", `"test"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, nil)
			n.step(peers(c.listed...))
			outs := n.pass(8*time.Second, c.answers)
			if has[bootstrap.FormCluster](outs) != c.forms {
				t.Errorf("forms a cluster: %v", !c.forms)
			}
			n.waits(c.waits)
			if got := n.m.Status().Warning; !strings.Contains(got, c.warns) || c.warns == "" && got != "" {
				t.Errorf("warns of %q, want %q", got, c.warns)
			}
		})
	}
}

func TestOldAnswersDoNotCount(t *testing.T) {
	n := newNode(t, nil)
	n.step(peers("a:1", "b:1"))
	n.pass(2*time.Second, both)
	if outs := n.pass(10*time.Second, map[string]bootstrap.Answer{"a:1": good("a:1")}); has[bootstrap.FormCluster](outs) {
		t.Error("formed on the word of a node that is silent")
	}
	n.waits("silent: b:1")
	if formsOnLateAnswers(t) {
		t.Error("formed on answers that are 4 s old")
	}
}

// formsOnLateAnswers reports whether a process that was paused, and reads the
// answers to its questions only then, takes them for fresh.
func formsOnLateAnswers(t *testing.T) (formed bool) {
	n := newNode(t, nil)
	n.step(peers("a:1", "b:1"))
	n.pass(10*time.Second, nil)
	var asked []string
	for len(asked) < 2 {
		for _, o := range n.step(bootstrap.Tick{}) {
			if p, ok := o.(bootstrap.Query); ok {
				asked = append(asked, p.Addr)
			}
		}
		n.now = n.now.Add(100 * time.Millisecond)
	}
	n.now = n.now.Add(4 * time.Second)
	for _, addr := range asked {
		if has[bootstrap.FormCluster](n.step(bootstrap.Answered{Addr: addr, Answer: good(addr)})) {
			formed = true
		}
	}
	return formed
}

func TestLookupFailureStopsForming(t *testing.T) {
	n := newNode(t, nil)
	n.step(peers("a:1", "b:1"))
	n.pass(4*time.Second, both)
	n.step(bootstrap.LookupFailed{Reason: "dns: no answer"})
	if outs := n.pass(5*time.Second, both); has[bootstrap.FormCluster](outs) {
		t.Error("formed while discovery fails")
	}
	n.step(peers("a:1", "b:1"))
	if outs := n.pass(4*time.Second, both); has[bootstrap.FormCluster](outs) {
		t.Error("formed before the margin was over again")
	}
	n.step(bootstrap.LookupFailed{Reason: "dns: no answer"})
	if outs := n.pass(2*time.Second, map[string]bootstrap.Answer{"b:1": good("b:1", "b:1")}); !has[bootstrap.JoinSeeds](outs) {
		t.Error("a cluster that shows is not joined while discovery fails")
	}
}

func TestDiscoveryGarbage(t *testing.T) {
	n := newNode(t, func(c *bootstrap.Config) { c.MaxContacts = 3 })
	n.step(peers("a:1", "what is this"))
	n.waits(`discovery lists "what is this", which is not host:port`)
	n.step(peers("a:1", "b:1", "c:1", "d:1"))
	n.waits("discovery lists 4 contact points, at most 3 are allowed")
	n.step(peers("a:1", "a:1", "region@a:1", "b:1"))
	if got := len(n.m.Status().ContactPoints); got != 2 {
		t.Errorf("%d contact points", got)
	}
	n.step(bootstrap.Answered{Addr: "b:1", Answer: good("b:1", "b:1")}) // no peer queried
	n.step(bootstrap.QueryFailed{Addr: "nobody:1"})
	n.pass(time.Second, map[string]bootstrap.Answer{"b:1": good("b:1", "no address", "b:1", "", "c:1")})
	if got := n.m.Status().Joining; fmt.Sprint(got) != "[b:1 c:1]" {
		t.Errorf("joins through %v", got)
	}
}

// TestOthersComeAndGo: there may be many nodes that do not form clusters, and they
// hold up no other node.
func TestOthersComeAndGo(t *testing.T) {
	n := newNode(t, nil)
	formed := false
	for i := range 8 {
		list := []string{"a:1", "b:1"}
		for k := range 200 + i {
			list = append(list, fmt.Sprintf("region@r%d:1", k+i))
		}
		n.step(peers(list...))
		if got := len(n.m.Status().ContactPoints); got != 7 {
			t.Fatalf("%d contact points", got)
		}
		formed = has[bootstrap.FormCluster](n.pass(time.Second, both)) || formed
	}
	if !formed {
		t.Error("regions that come and go stop the forming of a cluster")
	}
}

func TestExplicitJoinWins(t *testing.T) {
	n := newNode(t, nil)
	n.step(peers("a:1", "b:1"))
	if outs := n.step(bootstrap.ExplicitJoin{Seeds: []string{"z:1"}}); fmt.Sprint(outs[0]) != "{[z:1]}" {
		t.Errorf("got %v", outs)
	}
	if outs := n.pass(20*time.Second, both); has[bootstrap.FormCluster](outs) || has[bootstrap.JoinSeeds](outs) {
		t.Errorf("afterwards: %v", outs)
	}
	n.waits("joins through z:1, as told")
	if outs := n.step(bootstrap.Joined{}); !has[bootstrap.Finished](outs) {
		t.Errorf("got %v", outs)
	}
	if outs := n.step(bootstrap.ExplicitJoin{Seeds: []string{"y:1"}}); len(outs) > 0 {
		t.Errorf("a member receives an order to join: %v", outs)
	}
}

func TestGivesUp(t *testing.T) {
	n := newNode(t, func(c *bootstrap.Config) { c.GiveUp = 40 * time.Second })
	n.step(peers("a:1"))
	if outs := n.pass(39*time.Second, both); has[bootstrap.GaveUp](outs) {
		t.Error("gave up too early")
	}
	outs := n.pass(2*time.Second, both)
	i := slices.IndexFunc(outs, func(o bootstrap.Output) bool { _, ok := o.(bootstrap.GaveUp); return ok })
	if i < 0 || !strings.Contains(fmt.Sprint(outs[i]), "2 are required, discovery lists a:1") {
		t.Errorf("got %v", outs)
	}
}

// decider forms a cluster at once.
type decider struct{}

func (decider) Decide(bootstrap.Info) bootstrap.Decision {
	return bootstrap.Decision{Choice: bootstrap.JoinSelf, Why: "why not"}
}

func TestDeciderIsReplaceable(t *testing.T) {
	n := newNode(t, func(c *bootstrap.Config) { c.Decider = decider{} })
	if outs := n.step(peers("a:1")); !has[bootstrap.FormCluster](outs) {
		t.Errorf("got %v", outs)
	}
}

func TestClonesAreIndependent(t *testing.T) {
	n := newNode(t, nil)
	n.step(peers("a:1", "b:1"))
	n.pass(2*time.Second, both)
	clone, before := n.m.Clone(), n.m.AppendState(nil)
	n.step(bootstrap.ExplicitJoin{Seeds: []string{"z:1"}})
	n.step(peers("c:1"))
	if string(clone.AppendState(nil)) != string(before) {
		t.Error("stepping the original changes the clone")
	}
	other := &node{t: t, m: clone, now: n.now}
	if a, b := other.pass(5*time.Second, both), other.m; !has[bootstrap.FormCluster](a) || b.Status().Phase != "searching" {
		t.Errorf("the clone continues with %v", a)
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	_, err := bootstrap.New(bootstrap.Config{StableMargin: -1, QueryJitter: 2})
	for _, field := range []string{"Self", "Cluster", "FormingRole", "required_contacts", "stable_for", "interval", "timeout", "QueryJitter", "MaxContacts"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error does not name %s: %v", field, err)
		}
	}
	for want, change := range map[string]func(*bootstrap.Config){
		"give_up is 1s, must be above stable_for (5s)":     func(c *bootstrap.Config) { c.GiveUp = time.Second },
		"required_contacts is 101, must be at most 100":    func(c *bootstrap.Config) { c.Required = 101 },
		"timeout is 999ms, must not be below interval (1s": func(c *bootstrap.Config) { c.QueryTimeout = 999 * time.Millisecond },
		"timeout is 1m1s, must be above 0 and at most 1m":  func(c *bootstrap.Config) { c.QueryTimeout = 61 * time.Second },
		"interval is 9ms, must be at least 10ms":           func(c *bootstrap.Config) { c.QueryInterval = 9 * time.Millisecond },
	} {
		c := config(change)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
