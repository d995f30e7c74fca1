package gossip

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// history is a set of states that grew apart from one another by local
// changes and joins, as states of nodes do.
func history(r *rand.Rand, steps int) []State {
	var all []sharding.NodeID
	for i := range 5 { // in parts of their own, and in another order than by address
		all = append(all, sharding.NodeID{Addr: string(rune('a' + i)), UID: sharding.NodeUID(i+1) * 0x9e3779b97f4a7c15})
	}
	states := make([]State, 4)
	for range steps {
		i := r.IntN(len(states))
		states[i] = mutate(r, states[i], all)
		if r.IntN(3) == 0 {
			j := r.IntN(len(states))
			states[i] = states[i].merge(&states[j])
		}
	}
	return states
}

func mutate(r *rand.Rand, s State, all []sharding.NodeID) State {
	self, n := all[r.IntN(len(all))], all[r.IntN(len(all))]
	mem, ok := s.Member(n)
	_, selfOK := s.Member(self)
	switch {
	case s.IsRemoved(n):
		return s
	case !ok:
		s = s.with(Member{Node: n, Status: Joining})
	case selfOK && r.IntN(3) == 0 && self != n:
		s.Reach = s.Reach.Set(self, n, Verdict(r.IntN(3)))
	case r.IntN(8) == 0:
		return s.without(n)
	default:
		next := *mem
		next.Status = Status(r.IntN(int(Down)) + 1)
		if !mem.Status.CanBecome(next.Status) {
			return s
		}
		if next.Status == Up {
			next.UpNumber = uint32(r.IntN(9) + 1)
		}
		s = s.with(next)
	}
	s.Version = s.Version.Tick(n.UID)
	return s
}

// Merging gossip is a join: in whatever order and however often states meet,
// all nodes end with the same one, and no removed node comes back.
func TestJoinIsALattice(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		checkLattice(t, history(r, 40))
		if t.Failed() {
			return
		}
	}
}

func FuzzJoin(f *testing.F) {
	f.Add(uint64(1), uint8(10))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) {
		checkLattice(t, history(rand.New(rand.NewPCG(seed, 0)), int(steps)))
	})
}

func checkLattice(t *testing.T, states []State) {
	t.Helper()
	same := func(law string, x, y State) {
		t.Helper()
		if x.digest() != y.digest() || x.Version.Compare(y.Version) != 1 {
			t.Errorf("join is not %s:\n%+v\n%+v", law, x, y)
		}
	}
	a, b, c := &states[0], &states[1], &states[2]
	ab, ba, bc := a.merge(b), b.merge(a), b.merge(c)
	same("commutative", ab, ba)
	same("associative", ab.merge(c), a.merge(&bc))
	same("idempotent", a.merge(a), *a)
	same("absorbing", ab.merge(a), ab)
	for _, s := range states {
		if why := s.check(100); why != "" {
			t.Error(why)
		}
	}
	for _, stone := range slices.Concat(a.Tombstones, b.Tombstones) {
		if _, ok := ab.Member(stone.Node); ok || !ab.IsRemoved(stone.Node) {
			t.Errorf("%v was removed and is back", stone.Node)
		}
	}
}

func TestBadStatesAreRefused(t *testing.T) {
	good := Member{Node: node("a"), Status: Joining}
	for name, s := range map[string]State{
		"no uid":             {Members: []*Member{{Node: sharding.NodeID{Addr: "a"}, Status: Joining}}},
		"no status":          {Members: []*Member{{Node: node("a")}}},
		"removed":            {Members: []*Member{{Node: node("a"), Status: Removed}}},
		"up without age":     {Members: []*Member{{Node: node("a"), Status: Up}}},
		"twice":              {Members: []*Member{&good, &good}},
		"too many":           {Members: []*Member{&good, {Node: node("b"), Status: Joining}, {Node: node("c"), Status: Joining}}},
		"long name":          {Members: []*Member{{Node: node("a"), Status: Joining, Name: string(make([]byte, 1000))}}},
		"roles unsorted":     {Members: []*Member{{Node: node("a"), Status: Joining, Roles: []string{"b", "a"}}}},
		"stones unsorted":    {Tombstones: []Tombstone{{Node: node("b")}, {Node: node("a")}}},
		"heard later":        {Members: []*Member{{Node: node("a"), Status: Joining, HeardIn: 1}}},
		"removed later":      {Tombstones: []Tombstone{{Node: node("b"), Era: 1}}},
		"forgotten":          {Era: Era{Number: 3}, Tombstones: []Tombstone{{Node: node("b"), Era: 1}}},
		"clock unsorted":     {Version: Clock{{Node: 2}, {Node: 1}}},
		"observers unsorted": {Reach: Reachability{{Node: node("b")}, {Node: node("a")}}},
		"unknown verdict":    {Reach: Reachability{{Node: node("b"), Verdicts: []SubjectVerdict{{Verdict: 9}}}}},
		"verdicts unsorted":  {Reach: Reachability{{Node: node("b"), Verdicts: []SubjectVerdict{{Subject: node("b")}, {Subject: node("a")}}}}},
	} {
		if s.check(2) == "" {
			t.Errorf("%s: taken", name)
		}
	}
	if s := (State{Members: []*Member{&good}}); s.check(2) != "" {
		t.Errorf("a good one: %s", s.check(2))
	}
}

func TestSeniority(t *testing.T) {
	old, young := Founding{Founded: 1, Founder: 9}, Founding{Founded: 2, Founder: 1}
	for _, c := range []struct {
		a, b Seniority
		want bool
	}{
		{Seniority{Cluster: old}, Seniority{Cluster: young, OldestUp: 1}, true},
		{Seniority{Cluster: young, OldestUp: 1}, Seniority{Cluster: old}, false},
		{Seniority{Cluster: old, OldestUp: 1}, Seniority{Cluster: old, OldestUp: 2}, true},
		{Seniority{Cluster: old, OldestUp: 1}, Seniority{Cluster: old, OldestUp: 1}, false},
		{Seniority{Cluster: old, OldestUp: 7}, Seniority{Cluster: old, OldestUp: 0}, true}, // 0 is youngest
	} {
		if got := c.a.Senior(c.b); got != c.want {
			t.Errorf("%+v senior to %+v: %v", c.a, c.b, got)
		}
	}
}

// A record that differs in any field is another record, with another hash: or
// nodes would take different states for the same.
func TestEveryFieldOfAMemberCounts(t *testing.T) {
	base := Member{Node: node("a"), Name: "n", Roles: []string{"r"}, Zone: "z", Version: "1", Status: Up, UpNumber: 1}
	v := reflect.ValueOf(base)
	for i := range v.NumField() {
		other := base
		field := reflect.ValueOf(&other).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString("other")
		case reflect.Slice:
			field.Set(reflect.ValueOf([]string{"other"}))
		case reflect.Struct:
			field.Set(reflect.ValueOf(node("other")))
		default:
			field.SetUint(5)
		}
		if name := v.Type().Field(i).Name; base.equal(&other) || base.hash() == other.hash() {
			t.Errorf("%s does not count", name)
		}
	}
}

// The parts of a state are all of it, and sums follow changes.
func TestPartsMakeTheWhole(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		s := history(r, 40)
		for _, parts := range []int{1, 8, maxParts} {
			joined := s[0]
			for i := range parts {
				f := s[1].fragment(parts, Bits(nil).With(i))
				joined = joined.merge(&f)
			}
			again := s[1].fragment(parts, allBits(parts)) // observers may come before the members that their verdicts are about
			joined = joined.merge(&again)
			if whole := s[0].merge(&s[1]); whole.digest() != joined.digest() {
				t.Fatalf("in %d parts:\n%+v\n%+v", parts, joined, whole)
			}
			p := s[0].sums()
			if p.update(&s[0], &joined); p != joined.sums() {
				t.Fatal("sums do not follow a change")
			}
		}
	}
}
