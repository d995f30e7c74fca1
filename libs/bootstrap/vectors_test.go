package bootstrap

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/archtest"
)

type vecPoint struct {
	Host string
	Port *uint16
	IP   *string
}

func (p vecPoint) point(t *testing.T) ContactPoint {
	t.Helper()
	c := ContactPoint{Host: p.Host}
	if p.Port != nil {
		c.Port = *p.Port
	}
	if p.IP != nil {
		ip, err := netip.ParseAddr(*p.IP)
		if err != nil {
			t.Fatal(err)
		}
		c.IP = ip
	}
	return c
}

// vector has the fields of all kinds.
type vector struct {
	ID, Kind, Name, Spec string
	Settings             struct {
		Required   int   `json:"required_contact_point_nr"`
		Margin     int64 `json:"stable_margin_ms"`
		All        bool  `json:"contact_with_all_contact_points"`
		NewCluster bool  `json:"new_cluster_enabled"`
	}
	Self   vecPoint `json:"self_contact_point"`
	Target vecPoint
	Info   struct {
		Points       []vecPoint `json:"contact_points"`
		Changed      int64      `json:"contact_points_changed_ms_ago"`
		Observations []struct {
			Point vecPoint `json:"contact_point"`
			Seeds []string `json:"seed_nodes"`
		}
	}
	Join         []string
	Input        [][]json.RawMessage
	Expect       json.RawMessage
	PortName     *string    `json:"port_name"`
	Filter       bool       `json:"filter_on_fallback_port"`
	Fallback     uint16     `json:"fallback_port"`
	Ordered      bool       `json:"order_matters"`
	Interval     int64      `json:"probe_interval_ms"`
	Jitter       float64    `json:"jitter"`
	Range        [2]float64 `json:"delay_ms_range"`
	JSON         json.RawMessage
	JSONContains string  `json:"json_contains"`
	System       string  `json:"system_name"`
	Service      *string `json:"service_name"`
	Namespace    *string `json:"service_namespace"`
	EffectiveSet *string `json:"effective_name"`
}

var vectorKinds = map[string]func(*testing.T, *vector){
	"decide":              vecDecide,
	"matches_self":        vecMatchesSelf,
	"sort_contact_points": vecSort,
	"select_hosts":        vecSelect,
	"probe_interval":      vecQueryInterval,
	"http_json":           vecJSON,
	"effective_name":      vecEffectiveName,
	"e2e_bootstrap":       vecScenario,
}

// deviations reads the names in the first column of the tables.
func deviations(t *testing.T) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "deviations.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z0-9_]+)` \\|").FindAllStringSubmatch(string(raw), -1) {
		found[m[1]] = true
	}
	return found
}

func TestVectors(t *testing.T) {
	listed, used := deviations(t), map[string]bool{}
	checked := 0
	for _, c := range archtest.Vectors(t, "bootstrap.json") {
		t.Run(c.Name, func(t *testing.T) {
			var v vector
			c.Decode(t, &v)
			check, known := vectorKinds[v.Kind]
			name := v.Kind
			if listed[v.Spec] {
				name = v.Spec
			}
			switch {
			case listed[name] && known && name == v.Kind:
				t.Fatalf("kind %s is checked, but listed in deviations.md", v.Kind)
			case listed[name]:
				used[name] = true
				t.Log("does not apply: see testdata/deviations.md")
				return
			case !known:
				t.Fatalf("kind %s is neither checked nor listed in deviations.md", v.Kind)
			}
			checked++
			check(t, &v)
		})
	}
	if checked < 20 {
		t.Errorf("only %d vectors apply: has the format changed?", checked)
	}
	for name := range listed {
		if !used[name] {
			t.Errorf("deviations.md lists %s, which no vector is about", name)
		}
	}
}

func (v *vector) expect(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(v.Expect, into); err != nil {
		t.Fatal(err)
	}
}

func vecDecide(t *testing.T, v *vector) {
	d := LowestAddress{
		Required: v.Settings.Required, StableMargin: time.Duration(v.Settings.Margin) * time.Millisecond,
		ContactAll: v.Settings.All, NewCluster: v.Settings.NewCluster,
	}
	info := Info{Self: v.Self.point(t), Unchanged: time.Duration(v.Info.Changed) * time.Millisecond}
	for _, p := range v.Info.Points {
		info.ContactPoints = append(info.ContactPoints, p.point(t))
	}
	for _, o := range v.Info.Observations {
		info.Observations = append(info.Observations, Observation{Point: o.Point.point(t), Seeds: o.Seeds})
	}
	var want string
	v.expect(t, &want)
	got := d.Decide(info)
	if got.Choice.String() != want || v.Join != nil && !slices.Equal(got.Seeds, v.Join) {
		t.Errorf("%s: got %v %v (%s), want %s %v", v.Name, got.Choice, got.Seeds, got.Why, want, v.Join)
	}
	if got.Why == "" {
		t.Error("no reason is given")
	}
}

func vecMatchesSelf(t *testing.T, v *vector) {
	var want bool
	v.expect(t, &want)
	if got := v.Target.point(t).Is(v.Self.point(t)); got != want {
		t.Errorf("%s: got %v", v.Name, got)
	}
}

// points reads rows of host, port and IP, or of host and port.
func points(t *testing.T, rows [][]json.RawMessage) []ContactPoint {
	t.Helper()
	var out []ContactPoint
	for _, row := range rows {
		var p vecPoint
		for i, into := range []any{&p.Host, &p.Port, &p.IP}[:len(row)] {
			if err := json.Unmarshal(row[i], into); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, p.point(t))
	}
	return out
}

func vecSort(t *testing.T, v *vector) {
	var rows [][]json.RawMessage
	v.expect(t, &rows)
	got := points(t, v.Input)
	slices.SortFunc(got, ContactPoint.Compare)
	if want := points(t, rows); !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", v.Name, got, want)
	}
}

func vecSelect(t *testing.T, v *vector) {
	var rows [][]json.RawMessage
	v.expect(t, &rows)
	list := func(rows [][]json.RawMessage) []string {
		var out []string
		for _, p := range points(t, rows) {
			out = append(out, p.String())
		}
		return out
	}
	var peers []Peer
	for _, addr := range list(v.Input) {
		peers = append(peers, Peer{Addr: addr})
	}
	port := v.Fallback
	if v.PortName != nil || !v.Filter { // then discovery lists one port per node, or all are meant
		port = 0
	}
	var got []string
	for _, p := range OnPort(peers, port) {
		got = append(got, p.Addr)
	}
	want := list(rows)
	if !v.Ordered {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", v.Name, got, want)
	}
}

func vecQueryInterval(t *testing.T, v *vector) {
	c := Config{QueryInterval: time.Duration(v.Interval) * time.Millisecond, QueryJitter: v.Jitter}
	for i, random := range []float64{0, 1} {
		if got := float64(c.queryDelay(random)) / float64(time.Millisecond); got != v.Range[i] {
			t.Errorf("%v ms at %v, want %v", got, random, v.Range[i])
		}
	}
}

// vecJSON reads what such a contact point answers, and writes it again. A vector
// that only gives a part of the answer means a node in no cluster.
func vecJSON(t *testing.T, v *vector) {
	if v.JSONContains != "" {
		none := gossip.View{Self: sharding.NodeID{Addr: "10.0.0.1:25521", UID: 1}}
		raw, err := json.Marshal(AnswerOf(&none, "c", []string{"coordinator"}))
		if err != nil || !strings.Contains(string(raw), v.JSONContains) {
			t.Errorf("a node in no cluster answers %s (%v), want %s in it", raw, err, v.JSONContains)
		}
		return
	}
	var a Answer
	if err := json.Unmarshal(v.JSON, &a); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if json.Unmarshal(v.JSON, &want) != nil || json.Unmarshal(again, &got) != nil {
		t.Fatal("no JSON objects")
	}
	for key, value := range want {
		if !reflect.DeepEqual(got[key], value) {
			t.Errorf("%s is %v, want %v", key, got[key], value)
		}
	}
	if a.SelfNode == "" {
		t.Error("no selfNode")
	}
}

// vecEffectiveName: here the name stands in the discovery URL, as it is or
// derived from the cluster's, with a namespace after it.
func vecEffectiveName(t *testing.T, v *vector) {
	url := "{cluster}"
	if v.Service != nil && *v.Service != "" {
		url = *v.Service
	}
	if v.Namespace != nil && *v.Namespace != "" {
		url += "." + *v.Namespace
	}
	if v.EffectiveSet != nil && *v.EffectiveSet != "" {
		url = *v.EffectiveSet
	}
	var want string
	v.expect(t, &want)
	if got := Expand(url, v.System); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// vecScenario plays what the scenario of a specification tells.
func vecScenario(t *testing.T, v *vector) {
	unreachable := 0
	switch v.Spec {
	case "ClusterBootstrapRetryUnreachableContactPointIntegrationSpec":
		if m := regexp.MustCompile(`first (\d+)`).FindStringSubmatch(v.Name); m != nil {
			unreachable, _ = strconv.Atoi(m[1])
		}
	case "ClusterBootstrapDiscoveryBackoffIntegrationSpec":
		unreachable = 5
	}
	formed, joined := playThree(t, unreachable)
	if len(formed) != 1 || formed[0] != "10.0.0.1:25521" || len(joined) != 2 {
		t.Errorf("%s: formed by %v, joined by %v", v.Name, formed, joined)
	}
}

// playThree starts three nodes that answer each other at once, except for the
// first rounds, and tells who formed a cluster and who joined it.
func playThree(t *testing.T, unreachable int) (formed, joined []string) {
	t.Helper()
	now := time.Unix(1_000_000, 0)
	var peers []Peer
	var nodes []*Machine
	for i := range 3 {
		cfg := DefaultConfig()
		cfg.Self = sharding.NodeID{Addr: fmt.Sprintf("10.0.0.%d:25521", i+1), UID: sharding.NodeUID(i + 1)}
		cfg.Roles, cfg.Cluster, cfg.Required = []string{"coordinator"}, "c", 3
		peers = append(peers, Peer{Addr: cfg.Self.Addr})
		node, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, node)
	}
	seeds := map[string][]SeedNode{}
	var perform func(m *Machine, outs []Output, reachable bool)
	perform = func(m *Machine, outs []Output, reachable bool) {
		self := m.cfg.Self.Addr
		for _, o := range outs {
			switch o := o.(type) {
			case Query:
				var in Input = QueryFailed{o.Addr, "connection refused"}
				if reachable {
					uid, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(o.Addr, "10.0.0."), ":25521"))
					in = Answered{o.Addr, Answer{SelfNode: o.Addr, SelfUID: int64(uid), SelfRoles: []string{"coordinator"}, Cluster: "c", SeedNodes: seeds[o.Addr]}}
				}
				perform(m, m.Step(now, in, nil), reachable)
			case FormCluster:
				formed = append(formed, self)
				seeds[self] = []SeedNode{{Node: self, NodeUID: 1, Status: "Up"}}
				perform(m, m.Step(now, Joined{}, nil), reachable)
			case JoinSeeds:
				joined = append(joined, self)
				seeds[self] = []SeedNode{{Node: o.Seeds[0], NodeUID: 1, Status: "Up"}}
				perform(m, m.Step(now, Joined{}, nil), reachable)
			}
		}
	}
	for _, m := range nodes {
		perform(m, m.Step(now, Start{}, nil), true)
	}
	for round := range 30 + 2*unreachable {
		for _, m := range nodes {
			perform(m, m.Step(now, Discovered{peers}, nil), round >= unreachable)
			perform(m, m.Step(now, Tick{}, nil), round >= unreachable)
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(700 * time.Millisecond)
	}
	return formed, joined
}
