package gossip

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// ringVector is a vector about who watches whom, and who gossips with whom.
type ringVector struct {
	NodesNameUID [][]any `json:"nodes_name_uid"`
	UIDs         map[string]uint64
	MonitoredBy  int `json:"monitored_by"`
	Unreachable  json.RawMessage
	Sender, Self string
	Steps        [][]json.RawMessage

	ExpectReceivers []string `json:"expect_receivers"`
	ExpectActive    []string `json:"expect_active_receivers"`
	Expect          json.RawMessage
	ExpectSet       []string `json:"expect_set"`

	Members json.RawMessage
	Seen    json.RawMessage
	Forced  struct {
		PreferDifferent bool `json:"prefer_different_view"`
	}
	N           int
	HasDown     bool    `json:"has_down_member"`
	ClusterSize int     `json:"cluster_size"`
	Probability float64 // as documented
	Effective   float64 // as shipped
}

var ringVectors = map[string]func(judge, *ringVector){
	"heartbeat_ring":                   vecRing,
	"heartbeat_sender":                 vecSender,
	"gossip_targets":                   vecTargets,
	"gossip_random_n":                  vecTargets,
	"gossip_speedup":                   vecSpeedup,
	"gossip_probability_as_documented": vecDocumented,
	"gossip_probability_as_shipped":    vecShipped,
}

func vecRing(t judge, v *ringVector) {
	uids := map[string]sharding.NodeUID{}
	var s State
	for _, n := range v.NodesNameUID {
		name := n[0].(string)
		uids[name] = sharding.NodeUID(n[1].(float64))
		s = s.with(Member{Node: sharding.NodeID{Addr: name, UID: uids[name]}, Status: Up, UpNumber: 1})
	}
	id := func(name string) sharding.NodeID { return sharding.NodeID{Addr: name, UID: uids[name]} }
	var unreachable []string
	_ = json.Unmarshal(v.Unreachable, &unreachable)
	for _, n := range unreachable {
		observer := "bb" // any that is not the subject itself
		s.Reach = s.Reach.Set(id(observer), id(n), Unreachable)
	}
	var got []string
	for _, n := range s.receivers(id(v.Sender), v.MonitoredBy, s.suspects(id(v.Sender))) {
		got = append(got, n.Addr)
	}
	sameSet(t, "receivers", got, &v.ExpectReceivers)
}

func vecSender(t judge, v *ringVector) {
	id := func(name string) sharding.NodeID {
		return sharding.NodeID{Addr: name, UID: sharding.NodeUID(v.UIDs[name])}
	}
	cfg := DefaultConfig()
	cfg.Self, cfg.MonitoredBy = id(v.Self), v.MonitoredBy
	m := New(cfg)
	m.now, m.phase = time.Unix(1_000_000, 0), member
	set := func(s State) {
		m.setState(s)
		m.publish()
		m.nextHeartbeat = m.now
		m.sendHeartbeats()
	}
	add := func(name string) { set(m.state.with(Member{Node: id(name), Status: Up, UpNumber: 1})) }
	add(v.Self)
	for _, step := range v.Steps {
		var what, name string
		_ = json.Unmarshal(step[0], &what)
		_ = json.Unmarshal(step[1], &name)
		switch what {
		case "init":
			var names []string
			_ = json.Unmarshal(step[1], &names)
			for _, n := range names {
				add(n)
			}
		case "add":
			add(name)
		case "remove":
			set(m.state.without(id(name)))
		case "unreachable":
			s := m.state
			s.Reach = s.Reach.Set(id(v.Self), id(name), Unreachable)
			set(s)
		case "rsp":
			m.answered(id(name), m.seq)
		case "fd_down":
			m.peer(id(name)).gone = true
		case "expect_monitoring":
			m.nextHeartbeat = m.now
			m.sendHeartbeats() // former receivers that answered go with the next heartbeat
			var want map[string]bool
			_ = json.Unmarshal(step[1], &want)
			for name, watched := range want { // order-free: errors
				if (m.peer(id(name)) != nil) != watched {
					t.Errorf("%s: watched is not %v", name, watched)
				}
			}
		default:
			t.Fatalf("there is no step %q", what)
		}
	}
	m.nextHeartbeat = m.now
	m.sendHeartbeats()
	var got []string
	for _, p := range m.peers {
		got = append(got, p.node.Addr)
	}
	sameSet(t, "receivers", got, &v.ExpectActive)
}

func vecTargets(t judge, v *ringVector) {
	var dcs map[string]string
	_ = json.Unmarshal(v.Members, &dcs)
	cfg := Config{Self: node(v.Self)}
	if v.Forced.PreferDifferent {
		cfg.PreferUnseen, cfg.PreferUnseenUpTo = 1, len(dcs)
	}
	m := New(cfg)
	for name := range dcs { // order-free: the state is sorted
		m.state = m.state.with(Member{Node: node(name), Status: Up, UpNumber: 1})
	}
	var pairs [][2]string
	_ = json.Unmarshal(v.Unreachable, &pairs)
	m.state.Reach = unreachable(nil, pairs)
	var names []string
	_ = json.Unmarshal(v.Seen, &names)
	m.state.Seen = m.state.seenBy(nodes(names)...)
	want := v.ExpectSet
	if want == nil {
		_ = json.Unmarshal(v.Expect, &want)
	}
	seen := map[string]bool{}
	for range 1000 { // more than enough draws to meet everybody
		n, _ := m.nextTarget()
		seen[n.Addr] = true
	}
	var got []string
	for name := range seen { // order-free: a set
		got = append(got, name)
	}
	sameSet(t, "targets", got, &want)
}

func vecSpeedup(t judge, v *ringVector) {
	var members, seen int
	_ = json.Unmarshal(v.Members, &members)
	_ = json.Unmarshal(v.Seen, &seen)
	var want bool
	_ = json.Unmarshal(v.Expect, &want)
	if got := needsSpeedup(members, seen, v.HasDown); got != want {
		t.Errorf("got %v", got)
	}
}

func (v *ringVector) preference(t judge, want float64) {
	cfg := DefaultConfig()
	if got := preference(cfg.PreferUnseen, cfg.PreferUnseenUpTo, v.ClusterSize); math.Abs(got-want) > 1e-4 {
		t.Errorf("%d members: got %v, want %v", v.ClusterSize, got, want)
	}
}

func vecDocumented(t judge, v *ringVector) { v.preference(t, v.Probability) }
func vecShipped(t judge, v *ringVector)    { v.preference(t, v.Effective) }

// inSeveralZones reports whether the members of such a vector are in more than
// one data center.
func inSeveralZones(raw []byte) bool {
	var v struct{ Members map[string]string }
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	var all []string
	for _, dc := range v.Members { // order-free: sorted
		all = append(all, dc)
	}
	slices.Sort(all)
	return len(slices.Compact(all)) > 1
}
