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
	"github.com/roost-cluster/roost/libs/test/archtest"
)

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
	Exiting       []string
	Pairs         []struct {
		A, B    string
		Compare int
	}
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
	err := json.Unmarshal(raw, &ops)
	v.LeftOps, v.RightOps = ops.L, ops.R
	return err
}

// judge is the reporter of a vector's check: a [testing.T], or a test that
// expects a failure.
type judge interface {
	Helper()
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

// objections gathers what is wrong with one vector.
type objections []string

type endOfVector struct{}

func (o *objections) Helper()                   {}
func (o *objections) Error(args ...any)         { *o = append(*o, fmt.Sprint(args...)) }
func (o *objections) Errorf(f string, a ...any) { *o = append(*o, fmt.Sprintf(f, a...)) }
func (o *objections) Fatal(args ...any)         { o.Error(args...); panic(endOfVector{}) }
func (o *objections) Fatalf(f string, a ...any) { o.Errorf(f, a...); panic(endOfVector{}) }

// deviations are the first columns of the table in testdata/deviations.md: what
// is different here on purpose, by the kind of a vector, by its id, or by its
// topic (see topics).
func deviations(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "deviations.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) > 3 && strings.TrimSpace(cells[len(cells)-2]) == "" {
			t.Errorf("deviations.md gives no reason: %s", line)
		}
		if len(cells) == 4 {
			for i, quoted := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					out[quoted] = 0
				}
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("deviations.md has no table")
	}
	return out
}

// onlyAbout is the beginning of the objections that a topic excuses, unless it
// excuses all to the vector.
var onlyAbout = map[string]string{
	"role leaders": noEvents + "role_leader_changed", "seen events": noEvents + "seen_changed",
	"tombstone events": noEvents + "tombstones_changed", "times of tombstones": noTimes, "member_order-002": uidOrder,
}

const (
	noEvents = "there are no events for "
	noTimes  = "tombstones have no times"
)

// topics are the reasons that deviations.md may give to excuse a vector.
func topics(id, kind string, raw []byte) []string {
	all := []string{id, kind}
	text := string(raw)
	if strings.Contains(text, "ForShutdown") {
		all = append(all, "full shutdown")
	}
	if strings.Contains(text, `"role_leader_changed"`) {
		all = append(all, "role leaders")
	}
	if strings.Contains(text, `"seen_changed"`) {
		all = append(all, "seen events")
	}
	if strings.Contains(text, `"tombstones_changed"`) {
		all = append(all, "tombstone events")
	}
	if strings.Contains(text, `"prune_tombstones"`) {
		all = append(all, "times of tombstones")
	}
	var v struct {
		Gossip struct{ Members []vecMember }
		SelfDC string `json:"self_dc"`
		DCs    map[string]string
	}
	_ = json.Unmarshal(raw, &v)
	if len(v.DCs) > 0 || inSeveralZones(raw) || slices.ContainsFunc(v.Gossip.Members, func(m vecMember) bool { return m.DC != v.SelfDC }) {
		all = append(all, "data centers")
	}
	return all
}

// TestVectors compares with the published behaviour of the original. What is
// different must be listed with its reason in testdata/deviations.md, and what
// is listed there must be different.
func TestVectors(t *testing.T) {
	listed := deviations(t)
	for _, name := range []string{"gossip.json", "membership.json"} {
		for _, c := range archtest.Vectors(t, name) {
			t.Run(c.Name, func(t *testing.T) {
				wrong := objectionsTo(c.Kind, c.Raw)
				for _, w := range wrong {
					excused := false
					for _, topic := range topics(c.ID, c.Kind, c.Raw) {
						if _, ok := listed[topic]; ok && strings.HasPrefix(w, onlyAbout[topic]) {
							listed[topic]++
							excused = true
						}
					}
					if excused {
						t.Log("on purpose: ", w)
					} else {
						t.Error(w)
					}
				}
			})
		}
	}
	for what, n := range listed { // order-free: errors
		if n == 0 {
			t.Errorf("deviations.md lists %q, and no vector is different because of it: strike it out", what)
		}
	}
}

// objectionsTo runs one vector.
func objectionsTo(kind string, raw json.RawMessage) (wrong objections) {
	defer func() {
		if r := recover(); r != nil {
			if _, end := r.(endOfVector); !end {
				panic(r)
			}
		}
	}()
	run, ok := map[string]func(judge, *vector){
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
		"exiting_gossip_targets":               vecExitingTargets,
	}[kind]
	if ring, known := ringVectors[kind]; known {
		var v ringVector
		if err := json.Unmarshal(raw, &v); err != nil {
			wrong.Fatal(err)
		}
		ring(&wrong, &v)
		return wrong
	}
	if !ok {
		wrong.Fatalf("nothing here answers vectors of kind %q", kind)
	}
	var v vector
	if err := json.Unmarshal(raw, &v); err != nil {
		wrong.Fatal(err)
	}
	run(&wrong, &v)
	return wrong
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

func status(t judge, name string) Status {
	t.Helper()
	for s := Joining; s <= Removed; s++ {
		if strings.EqualFold(strings.ReplaceAll(s.String(), "-", ""), name) {
			return s
		}
	}
	t.Fatalf("no status %q", name)
	return 0
}

func verdict(t judge, name string) Verdict {
	t.Helper()
	for v := Reachable; v <= Terminated; v++ {
		if v.String() == name {
			return v
		}
	}
	t.Fatalf("no verdict %q", name)
	return 0
}

func withMembers(t judge, list [][2]string) State {
	var s State
	for _, m := range list {
		mem := Member{Node: node(m[0]), Status: status(t, m[1])}
		if mem.Status >= Up {
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

func (v *vector) expect(t judge, into any) {
	t.Helper()
	if err := json.Unmarshal(v.Expect, into); err != nil {
		t.Fatal(err)
	}
}

func table(t judge, ops [][3]string) Reachability {
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

func vecReachability(t judge, v *vector) {
	r := table(t, v.Ops)
	switch {
	case v.RemoveObservers != nil:
		r = slices.DeleteFunc(slices.Clone(r), func(obs *Observer) bool {
			return slices.Contains(nodes(v.RemoveObservers), obs.Node)
		})
	case v.Remove != nil:
		r = r.Keep(func(n sharding.NodeID) bool { return !slices.Contains(nodes(v.Remove), n) })
	case v.Keep == "records whose observer is not C":
		r = slices.DeleteFunc(slices.Clone(r), func(obs *Observer) bool { return obs.Node == node("C") })
	case v.Keep != "":
		t.Fatalf("no such filter here: %s", v.Keep)
	}
	var want expectReach
	v.expect(t, &want)
	checkReach(t, r, want)
}

func checkReach(t judge, r Reachability, want expectReach) {
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
	for _, obs := range r {
		versions[obs.Node.Addr] = obs.Version
		if len(obs.Verdicts) > 0 {
			observers = append(observers, obs.Node.Addr)
		}
		for _, rec := range obs.Verdicts {
			records = append(records, vecRecord{obs.Node.Addr, rec.Subject.Addr, rec.Verdict.String(), rec.Version})
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

func sameSet(t judge, what string, got []string, want *[]string) {
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

func vecAggregate(t judge, v *vector) {
	var r Reachability
	for _, rec := range v.Records {
		name := node(rec[0].(string))
		obs := Observer{Node: name, Version: uint64(rec[3].(float64))}
		i, ok := r.place(name)
		if ok {
			obs = *r[i]
		}
		obs.Verdicts = append(obs.Verdicts, SubjectVerdict{node(rec[1].(string)), verdict(t, rec[2].(string)), uint64(rec[3].(float64))})
		slices.SortFunc(obs.Verdicts, func(a, b SubjectVerdict) int { return byUID(a.Subject, b.Subject) })
		r = r.replace(i, ok, obs)
	}
	var want struct{ Aggregated map[string]string }
	v.expect(t, &want)
	for name, w := range want.Aggregated {
		if got := r.Aggregate(node(name), nil); got != verdict(t, w) {
			t.Errorf("%s is %v, want %s", name, got, w)
		}
	}
}

func vecReachabilityMerge(t judge, v *vector) {
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

func vecReachabilityVersions(t judge, v *vector) {
	var sides [2]map[string]uint64
	var tables [2]Reachability
	for i, raw := range []json.RawMessage{v.Left, v.Right} {
		_ = json.Unmarshal(raw, &sides[i])
		for name, version := range sides[i] {
			at, _ := tables[i].place(node(name))
			tables[i] = tables[i].replace(at, false, Observer{Node: node(name), Version: version})
		}
	}
	var want map[string]uint64
	v.expect(t, &want)
	checkReach(t, tables[0].Merge(tables[1]), expectReach{Versions: want})
}
