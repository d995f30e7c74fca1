package gossip

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// later features, for which vectors exist already.
var notYet = map[string]string{
	"heartbeat_ring":                   "every node watches every other; a ring of observers is for larger clusters",
	"heartbeat_sender":                 "every node watches every other; a ring of observers is for larger clusters",
	"gossip_targets":                   "targets go round without chance, and there are no data centres",
	"gossip_random_n":                  "targets go round without chance, and there are no data centres",
	"cross_dc_probability":             "there are no data centres",
	"domain_events_multi_dc":           "there are no data centres",
	"top_oldest_per_dc":                "there are no data centres",
	"exiting_gossip_targets":           "exiting is told to one node after the other, like all news",
	"gossip_speedup":                   "rounds are fast until everybody has seen the newest state",
	"gossip_probability_as_shipped":    "targets go round without chance",
	"gossip_probability_as_documented": "targets go round without chance",
}

type vecMember struct {
	Host   string
	Port   int
	UID    uint64
	Status string
	DC     string
	N      string
}

type vector struct {
	ID, Kind, Name string
	Raw            json.RawMessage `json:"-"`

	Ops, LeftOps, RightOps [][3]string
	Allowed                []string
	RemoveObservers        []string `json:"remove_observers"`
	Remove                 []string
	Keep                   string
	Records                [][]any
	Expect                 json.RawMessage
	FullResult             *struct {
		Records  []vecRecord
		Versions map[string]uint64
	} `json:"full_result"`
	Left, Right json.RawMessage

	Gossip struct {
		Members     []vecMember
		Seen        []string
		Unreachable [][2]string
	}
	Self             string
	SelfDC           string   `json:"self_dc"`
	ExitingConfirmed []string `json:"exiting_confirmed"`

	A, B, Winner  string
	From          string
	To            json.RawMessage
	Tombstones    json.RawMessage
	ExpectMembers [][2]string `json:"expect_members"`
	ExpectClock   []string    `json:"expect_clock_nodes"`
	ExpectSorted  []string    `json:"expect_sorted"`
	LeftSeen      []string    `json:"left_seen"`
	RightSeen     []string    `json:"right_seen"`
	Members       json.RawMessage
	MembersUp     [][]any `json:"members_up_number"`
	Unreachable   [][2]string
	Clock, Seen   []string
	Op            []any
	DCs           map[string]string
	Before, After vecView
}

type vecRecord struct {
	Observer, Subject, Status string
	Version                   uint64
}

type vecView struct {
	Members     [][2]string
	Unreachable [][2]string
	Seen        []string
}

func (v *vector) UnmarshalJSON(raw []byte) error {
	type plain vector
	var ops struct {
		L [][3]string `json:"left_ops"`
		R [][3]string `json:"right_ops"`
	}
	if err := json.Unmarshal(raw, (*plain)(v)); err != nil {
		return err
	}
	v.Raw = slices.Clone(raw)
	err := json.Unmarshal(raw, &ops)
	v.LeftOps, v.RightOps = ops.L, ops.R
	return err
}

func TestVectors(t *testing.T) {
	for _, name := range []string{"gossip.json", "membership.json"} {
		files := []string{filepath.Join("testdata", name)}
		if dir := os.Getenv("ROOST_VECTORS"); dir != "" {
			files = append(files, filepath.Join(dir, name))
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var doc struct{ Cases []json.RawMessage }
			if err := json.Unmarshal(raw, &doc); err != nil {
				t.Fatal(err)
			}
			if len(doc.Cases) == 0 {
				t.Fatalf("%s has no cases", file)
			}
			checked := 0
			for _, c := range doc.Cases {
				var head struct{ ID, Kind string }
				_ = json.Unmarshal(c, &head)
				t.Run(head.ID, func(t *testing.T) {
					t.Cleanup(func() {
						if !t.Skipped() {
							checked++
						}
					})
					runVector(t, head.Kind, c)
				})
			}
			if checked < 20 {
				t.Errorf("only %d vectors of %s apply: has the format changed?", checked, file)
			}
		}
	}
}

func runVector(t *testing.T, kind string, raw json.RawMessage) {
	if why, ok := notYet[kind]; ok {
		t.Skip(why)
	}
	if strings.Contains(string(raw), "WeaklyUp") || strings.Contains(string(raw), "ForShutdown") {
		if kind != "allowed_transitions" {
			t.Skip("the statuses weakly-up, preparing-for-shutdown and ready-for-shutdown do not exist")
		}
	}
	var v vector
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Skip("a vector of a form that this test does not know: ", err)
	}
	run, ok := map[string]func(*testing.T, *vector){
		"reachability_ops":                     vecReachability,
		"reachability_remove_observers":        vecReachability,
		"reachability_remove":                  vecReachability,
		"reachability_filter":                  vecReachability,
		"reachability_aggregate":               vecAggregate,
		"reachability_merge":                   vecReachabilityMerge,
		"reachability_merge_versions":          vecReachabilityVersions,
		"convergence":                          vecConvergence,
		"leader":                               vecLeader,
		"status_precedence":                    vecPrecedence,
		"allowed_transitions":                  vecTransitions,
		"gossip_merge_members":                 vecMergeMembers,
		"gossip_merge_seen":                    vecMergeSeen,
		"gossip_op":                            vecOp,
		"youngest":                             vecYoungest,
		"pair_reachable":                       vecPair,
		"reachable_excluding_downed_observers": vecExcluding,
		"address_order":                        vecAddressOrder,
		"member_order":                         vecMemberOrder,
		"leader_status_order":                  vecMemberOrder,
		"domain_events":                        vecEvents,
	}[kind]
	if !ok {
		t.Skipf("kind %q is about something that does not exist here", kind)
	}
	run(t, &v)
}

// node turns "b" or "b#2" into a node.
func node(name string) sharding.NodeID {
	host, uid, _ := strings.Cut(name, "#")
	id := sharding.NodeUID(1)
	if uid != "" {
		_, _ = fmt.Sscan(uid, &id)
	}
	// Uids must differ between nodes, as they do in life.
	for _, c := range []byte(host) {
		id = id*257 + sharding.NodeUID(c)
	}
	return sharding.NodeID{Addr: host, UID: id}
}

func nodes(names []string) []sharding.NodeID {
	var out []sharding.NodeID
	for _, n := range names {
		out = append(out, node(n))
	}
	slices.SortFunc(out, sharding.NodeID.Compare)
	return out
}

func status(t *testing.T, name string) Status {
	t.Helper()
	for s := Joining; s <= Removed; s++ {
		if strings.EqualFold(s.String(), name) {
			return s
		}
	}
	t.Fatalf("no status %q", name)
	return 0
}

func verdict(t *testing.T, name string) Verdict {
	t.Helper()
	for v := Reachable; v <= Terminated; v++ {
		if v.String() == name {
			return v
		}
	}
	t.Fatalf("no verdict %q", name)
	return 0
}

func withMembers(t *testing.T, list [][2]string) State {
	var s State
	for _, m := range list {
		mem := Member{Node: node(m[0]), Status: status(t, m[1])}
		if mem.Status != Joining {
			mem.UpNumber = 1
		}
		s = s.with(mem)
		s.Version = s.Version.Tick(mem.Node.UID)
	}
	return s
}

func unreachable(t Reachability, pairs [][2]string) Reachability {
	for _, p := range pairs {
		t = t.Set(node(p[0]), node(p[1]), Unreachable)
	}
	return t
}

func (v *vector) expect(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(v.Expect, into); err != nil {
		t.Fatal(err)
	}
}

func table(t *testing.T, ops [][3]string) Reachability {
	var r Reachability
	for _, op := range ops {
		r = r.Set(node(op[1]), node(op[2]), verdict(t, op[0]))
	}
	return r
}

type expectReach struct {
	Status      map[string]string
	IsReachable map[string]bool `json:"is_reachable"`
	All         *[]string       `json:"all_unreachable"`
	AllOrGone   *[]string       `json:"all_unreachable_or_terminated"`
	Records     []vecRecord
	Versions    map[string]uint64
	Observers   *[]string
}

func vecReachability(t *testing.T, v *vector) {
	r := table(t, v.Ops)
	switch {
	case v.RemoveObservers != nil:
		r = slices.DeleteFunc(slices.Clone(r), func(row Row) bool {
			return slices.Contains(nodes(v.RemoveObservers), row.Observer)
		})
	case v.Remove != nil:
		r = r.Keep(func(n sharding.NodeID) bool { return !slices.Contains(nodes(v.Remove), n) })
	case v.Keep == "records whose observer is not C":
		r = slices.DeleteFunc(slices.Clone(r), func(row Row) bool { return row.Observer == node("C") })
	case v.Keep != "":
		t.Skipf("no such filter here: %s", v.Keep)
	}
	var want expectReach
	v.expect(t, &want)
	checkReach(t, r, want)
}

func checkReach(t *testing.T, r Reachability, want expectReach) {
	t.Helper()
	if why := r.check(); why != "" {
		t.Error(why)
	}
	for pair, name := range want.Status {
		observer, subject, _ := strings.Cut(pair, "->")
		if got := r.Of(node(observer), node(subject)); got != verdict(t, name) {
			t.Errorf("%s is %v, want %s", pair, got, name)
		}
	}
	for name, reachable := range want.IsReachable {
		if got := r.Aggregate(node(name), nil); (got == Reachable) != reachable {
			t.Errorf("%s is %v", name, got)
		}
	}
	var all, gone, observers []string
	var records []vecRecord
	versions := map[string]uint64{}
	for _, row := range r {
		versions[row.Observer.Addr] = row.Version
		if len(row.Records) > 0 {
			observers = append(observers, row.Observer.Addr)
		}
		for _, rec := range row.Records {
			records = append(records, vecRecord{row.Observer.Addr, rec.Subject.Addr, rec.Verdict.String(), rec.Version})
			switch r.Aggregate(rec.Subject, nil) {
			case Unreachable:
				all = append(all, rec.Subject.Addr)
				gone = append(gone, rec.Subject.Addr)
			case Terminated:
				gone = append(gone, rec.Subject.Addr)
			}
		}
	}
	sameSet(t, "unreachable", all, want.All)
	sameSet(t, "unreachable or terminated", gone, want.AllOrGone)
	sameSet(t, "observers", observers, want.Observers)
	if want.Records != nil {
		for _, rec := range want.Records {
			if !slices.Contains(records, rec) {
				t.Errorf("record %v is missing in %v", rec, records)
			}
		}
		if len(records) != len(want.Records) {
			t.Errorf("records are %v, want %v", records, want.Records)
		}
	}
	for name, n := range want.Versions {
		if versions[name] != n {
			t.Errorf("version of %s is %d, want %d", name, versions[name], n)
		}
	}
}

func sameSet(t *testing.T, what string, got []string, want *[]string) {
	t.Helper()
	if want == nil {
		return
	}
	slices.Sort(got)
	got = slices.Compact(got)
	w := slices.Sorted(slices.Values(*want))
	if !slices.Equal(got, w) {
		t.Errorf("%s: got %v, want %v", what, got, w)
	}
}

func vecAggregate(t *testing.T, v *vector) {
	var r Reachability
	for _, rec := range v.Records {
		name := node(rec[0].(string))
		row := Row{Observer: name, Version: uint64(rec[3].(float64))}
		i, ok := slices.BinarySearchFunc(r, name, rowOf)
		if ok {
			row = r[i]
		}
		row.Records = append(row.Records, Record{node(rec[1].(string)), verdict(t, rec[2].(string)), uint64(rec[3].(float64))})
		slices.SortFunc(row.Records, func(a, b Record) int { return a.Subject.Compare(b.Subject) })
		r = r.replace(i, ok, row)
	}
	var want struct{ Aggregated map[string]string }
	v.expect(t, &want)
	for name, w := range want.Aggregated {
		if got := r.Aggregate(node(name), nil); got != verdict(t, w) {
			t.Errorf("%s is %v, want %s", name, got, w)
		}
	}
}

func vecReachabilityMerge(t *testing.T, v *vector) {
	l, r := table(t, v.LeftOps), table(t, v.RightOps)
	allowed := nodes(v.Allowed)
	keep := func(n sharding.NodeID) bool { return slices.Contains(allowed, n) }
	var want expectReach
	v.expect(t, &want)
	for _, merged := range []Reachability{l.Merge(r).Keep(keep), r.Merge(l).Keep(keep)} {
		checkReach(t, merged, want)
		if v.FullResult != nil {
			checkReach(t, merged, expectReach{Records: v.FullResult.Records, Versions: v.FullResult.Versions})
		}
	}
}

func vecReachabilityVersions(t *testing.T, v *vector) {
	var sides [2]map[string]uint64
	var tables [2]Reachability
	for i, raw := range []json.RawMessage{v.Left, v.Right} {
		_ = json.Unmarshal(raw, &sides[i])
		for name, version := range sides[i] {
			at, _ := slices.BinarySearchFunc(tables[i], node(name), rowOf)
			tables[i] = tables[i].replace(at, false, Row{Observer: node(name), Version: version})
		}
	}
	var want map[string]uint64
	v.expect(t, &want)
	checkReach(t, tables[0].Merge(tables[1]), expectReach{Versions: want})
}
