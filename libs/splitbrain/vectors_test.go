package splitbrain

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/archtest"
)

type vector struct {
	ID, Kind string
	Config   struct {
		Strategy      string
		Quorum        int `json:"quorum_size"`
		Role          string
		DownIfAlone   *bool `json:"down_if_alone"`
		Self          string
		StableAfter   float64  `json:"stable_after_s"`
		UnstableAfter *float64 `json:"down_all_when_unstable_s"`
		Lease         string
	}
	Sides           [][]string
	From            int `json:"view_from_side"`
	Indirect        [][2]string
	Decision        string
	Down            []string
	ReverseDecision string   `json:"reverse_decision"`
	ReverseDown     []string `json:"reverse_down"`

	PossiblyUp  bool `json:"including_possibly_up"`
	NotExiting  bool `json:"excluding_possibly_exiting"`
	Members     []string
	Reachable   []string
	Unreachable []string
	Joining     []string

	Steps      [][]json.RawMessage
	ExpectDown []string `json:"expect_down"`

	Stable  float64 `json:"stable_after_s"`
	Setting string
	ExpectS float64 `json:"expect_s"`

	Strategy string
	Side1    int `json:"side1_size"`
	Side2    int `json:"side2_size"`
	Expect   string
}

// deviation is a row of testdata/deviations.md.
type deviation struct {
	pattern *regexp.Regexp
	differs bool
}

func deviations(t *testing.T) []*deviation {
	text, err := os.ReadFile("testdata/deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []*deviation
	for _, row := range regexp.MustCompile("(?m)^\\| `(.+)` \\|").FindAllStringSubmatch(string(text), -1) {
		all = append(all, &deviation{pattern: regexp.MustCompile(row[1])})
	}
	return all
}

func TestVectors(t *testing.T) {
	listed := deviations(t)
	for _, c := range archtest.Vectors(t, "splitbrain.json") {
		t.Run(c.Name, func(t *testing.T) {
			var v vector
			c.Decode(t, &v)
			runVector(t, &v, c.Raw, listed)
		})
	}
	for _, d := range listed {
		if !d.differs {
			t.Errorf("no case differs that matches %q: testdata/deviations.md is outdated", d.pattern)
		}
	}
}

func runVector(t *testing.T, v *vector, raw []byte, listed []*deviation) {
	err := v.check(t)
	for _, d := range listed {
		if d.pattern.Match(raw) {
			d.differs = d.differs || err != nil
			t.Logf("may differ, see testdata/deviations.md: %v", err)
			return
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func (v *vector) check(t *testing.T) error {
	switch v.Kind {
	case "partition_view":
		return v.checkPartition()
	case "member_filters":
		return v.checkFilters()
	case "resolver_script":
		return v.checkScript()
	case "e2e_partition":
		return v.checkCluster(t)
	case "down_all_when_unstable_setting":
		c := Config{StableAfter: seconds(v.Stable)}
		if err := c.DownAllWhenUnstable.UnmarshalText([]byte(v.Setting)); err != nil {
			return err
		}
		return differ("duration", c.unstableAfter(), seconds(v.ExpectS))
	case "lease_name":
		return fmt.Errorf("the lease of the coordinators has its own name")
	}
	return fmt.Errorf("unknown kind %q", v.Kind)
}

func differ[T any](what string, got, want T) error {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		return fmt.Errorf("%s is %s, want %s", what, g, w)
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// The node table of the vectors.
var (
	upNumbers = map[string]uint32{"A": 5, "B": 4, "C": 3, "D": 2, "E": 1, "F": 5, "G": 6}
	nodeRoles = map[string][]string{"A": {"role3"}, "B": {"role1", "role3"}, "C": {"role2"}, "D": {"role1", "role2", "role3"}}
	suffixes  = map[string]gossip.Status{
		"": gossip.Up, "j": gossip.Joining, "w": statusNamed("weakly"), "l": gossip.Leaving, "x": gossip.Exiting, "d": gossip.Down,
	}
)

// statusNamed finds a status by the beginning of its name.
func statusNamed(prefix string) gossip.Status {
	for s := gossip.Joining; s < 20; s++ {
		if strings.HasPrefix(s.String(), prefix) {
			return s
		}
	}
	return gossip.Joining
}

func nodeID(name string) sharding.NodeID { return sharding.NodeID{Addr: name, UID: 1} }

func memberView(spec string) gossip.MemberView {
	name, suffix, _ := strings.Cut(spec, ":")
	m := gossip.MemberView{Reachable: true, ReachableByMe: true}
	m.Node, m.Roles, m.Status = nodeID(name), nodeRoles[name], suffixes[suffix]
	if m.Status >= gossip.Up && m.Status != suffixes["w"] {
		m.UpNumber = upNumbers[name]
	}
	return m
}

func sortView(v *gossip.View) {
	slices.SortFunc(v.Members, func(a, b gossip.MemberView) int { return a.Node.Compare(b.Node) })
}

// view is the knowledge of the deciding side.
func (v *vector) view() gossip.View {
	self := memberView(v.Sides[v.From][0]).Node
	w := gossip.View{Self: self, Leader: self, InCluster: true}
	observe := func(observer, subject sharding.NodeID) {
		w.Observations = append(w.Observations, gossip.Observation{Observer: observer, Subject: subject})
	}
	for i, side := range v.Sides {
		for _, spec := range side {
			m := memberView(spec)
			if m.Seen = i == v.From; !m.Seen {
				observe(self, m.Node)
			}
			w.Members = append(w.Members, m)
		}
	}
	for _, r := range v.Indirect {
		observe(nodeID(r[0]), nodeID(r[1]))
	}
	sortView(&w)
	for i := range w.Members {
		m := &w.Members[i]
		m.Reachable = !slices.ContainsFunc(w.Observations, func(o gossip.Observation) bool { return o.Subject == m.Node })
	}
	return w
}

func (v *vector) settings() Config {
	c := DefaultConfig()
	c.Strategy, c.Role, c.QuorumSize = v.Config.Strategy, v.Config.Role, v.Config.Quorum
	c.StableAfter = seconds(v.Config.StableAfter)
	if v.Config.DownIfAlone != nil {
		c.DownIfAlone = *v.Config.DownIfAlone
	}
	if v.Config.UnstableAfter != nil {
		c.DownAllWhenUnstable = Span(seconds(*v.Config.UnstableAfter))
	}
	return c
}

var decisionNames = map[action]string{
	downUnreachable: "DownUnreachable", downReachable: "DownReachable", downAll: "DownAll",
	downIndirect: "DownIndirectlyConnected", downIndirectReversed: "ReverseDownIndirectlyConnected",
}

func (v *vector) checkPartition() error {
	c := v.settings()
	view := v.view()
	s := newSides(&view)
	st := c.strategy()
	a := st.decide(s)
	name := decisionNames[a]
	if c.Strategy == leaseMajorityName {
		delay := "0"
		if a == downUnreachable && inMinority(s, c.Role) {
			delay = "minority-delay"
		}
		name = "AcquireLeaseAnd" + name + "(" + delay + ")"
	}
	if err := differ("decision", name, v.Decision); err != nil {
		return err
	}
	if v.ReverseDecision != "" {
		if err := differ("reverse decision", decisionNames[reversed(a)], v.ReverseDecision); err != nil {
			return err
		}
		if err := differ("down without the lease", letters(s.nodes(st, reversed(a))), v.ReverseDown); err != nil {
			return err
		}
	}
	return differ("down", letters(s.nodes(st, a)), v.Down)
}

func letters(nodes []sharding.NodeID) []string {
	out := []string{}
	for _, n := range nodes {
		out = append(out, n.Addr)
	}
	slices.Sort(out)
	return out
}

func (v *vector) checkFilters() error {
	view := v.view()
	s := newSides(&view)
	w := filter{joining: v.PossiblyUp, leaving: !v.NotExiting}
	var members, reachable, unreachable, joining []sharding.NodeID
	for i := range s.members {
		n := s.members[i].Node
		switch {
		case s.counts(i, w) && s.unreachable[i]:
			unreachable = append(unreachable, n)
		case s.counts(i, w):
			reachable = append(reachable, n)
		}
		if s.counts(i, w) {
			members = append(members, n)
		}
		if !s.counts(i, filter{leaving: true}) && s.counts(i, filter{leaving: true, joining: true}) {
			joining = append(joining, n)
		}
	}
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"members", letters(members), v.Members}, {"reachable", letters(reachable), v.Reachable},
		{"unreachable", letters(unreachable), v.Unreachable}, {"joining", letters(joining), v.Joining},
	} {
		if err := differ(c.what, c.got, c.want); err != nil {
			return err
		}
	}
	return nil
}

// script runs a resolver on what happens around it.
type script struct {
	now  time.Time
	view gossip.View
	r    *Resolver
	down []string
}

func (v *vector) checkScript() error {
	c := v.settings()
	c.LeaseRole = "role3"
	if v.Config.UnstableAfter == nil {
		c.DownAllWhenUnstable = 0 // as in SplitBrainResolverSpec
	}
	r, err := New(c)
	if err != nil {
		return err
	}
	self, _, _ := strings.Cut(v.Config.Self, ":")
	x := &script{now: time.Unix(1000, 0), r: r}
	x.view.Self, x.view.InCluster = nodeID(self), true
	switch v.Config.Lease {
	case "granted":
		x.view.Lease = gossip.Lease{Holder: x.view.Self, Until: x.now.Add(time.Hour)}
	case "denied":
		x.view.Lease = gossip.Lease{Holder: nodeID("B"), Until: x.now.Add(time.Hour)}
	}
	for _, step := range v.Steps {
		if err := x.step(step); err != nil {
			return err
		}
	}
	x.pass(5 * time.Second)
	if x.down == nil {
		x.down = []string{}
	}
	return differ("down", x.down, v.ExpectDown)
}

func (x *script) step(step []json.RawMessage) error {
	name, args := text(step[0]), step[1:]
	switch name {
	case "tick":
		x.tick()
		return nil
	case "leader":
		x.view.Leader = nodeID(text(args[0]))
		return nil
	case "wait_ms", "expect_nothing_for_ms":
		var ms int
		_ = json.Unmarshal(args[0], &ms)
		x.pass(time.Duration(ms) * time.Millisecond)
		if name != "wait_ms" && x.down != nil {
			return fmt.Errorf("already downed %v", x.down)
		}
		return nil
	case "records":
		x.view.Observations = nil
		for _, a := range args {
			var r [2]string
			_ = json.Unmarshal(a, &r)
			x.view.Observations = append(x.view.Observations, gossip.Observation{Observer: nodeID(r[0]), Subject: nodeID(r[1])})
			x.member(r[1]).Reachable = false
		}
		return nil
	}
	for _, a := range args {
		who := text(a)
		switch name {
		case "up", "up_other_dc":
			x.member(who).Status, x.member(who).UpNumber = gossip.Up, upNumbers[who]
		case "weakly_up":
			x.member(who).Status = suffixes["w"]
		case "leaving":
			x.member(who).Status = gossip.Leaving
		case "exited":
			x.member(who).Status = gossip.Exiting
		case "downed":
			x.member(who).Status = gossip.Down
		case "joining":
			x.member(who).Status = gossip.Joining
		case "unreachable":
			x.member(who).Reachable = false
			x.view.Observations = append(x.view.Observations, gossip.Observation{Observer: x.view.Self, Subject: nodeID(who)})
		case "reachable":
			x.member(who).Reachable = true
			x.view.Observations = slices.DeleteFunc(x.view.Observations, func(o gossip.Observation) bool { return o.Subject == nodeID(who) })
		case "removed":
			n := nodeID(who)
			x.view.Members = slices.DeleteFunc(x.view.Members, func(m gossip.MemberView) bool { return m.Node == n })
			x.view.Observations = slices.DeleteFunc(x.view.Observations, func(o gossip.Observation) bool { return o.Subject == n || o.Observer == n })
		default:
			return fmt.Errorf("unknown step %s", name)
		}
	}
	return nil
}

func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// member finds a member, or makes it join. A suffix sets its status.
func (x *script) member(spec string) *gossip.MemberView {
	name, _, given := strings.Cut(spec, ":")
	i := slices.IndexFunc(x.view.Members, func(m gossip.MemberView) bool { return m.Node.Addr == name })
	if i < 0 {
		x.view.Members = append(x.view.Members, memberView(name+":j"))
		sortView(&x.view)
		i = slices.IndexFunc(x.view.Members, func(m gossip.MemberView) bool { return m.Node.Addr == name })
	}
	m := &x.view.Members[i]
	if given {
		m.Status, m.UpNumber = memberView(spec).Status, memberView(spec).UpNumber
	}
	return m
}

// pass lets time pass, with a tick every 100 ms as in the membership.
func (x *script) pass(d time.Duration) {
	for end := x.now.Add(d); x.now.Before(end); {
		x.now = x.now.Add(100 * time.Millisecond)
		x.tick()
	}
}

// tick asks the resolver as the membership does, until it decides something.
func (x *script) tick() {
	if x.down != nil {
		return
	}
	v := x.view
	v.Members, v.Observations = slices.Clone(v.Members), slices.Clone(v.Observations)
	d := x.r.Decide(x.now, v)
	if len(d.Down) > 0 {
		x.down = letters(d.Down)
	}
}
