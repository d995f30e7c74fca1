package gossip

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Verdict is one node's observation of another.
type Verdict uint8

const (
	// Reachable: answers heartbeats.
	Reachable Verdict = iota
	// Unreachable: does not answer. It may again.
	Unreachable
	// Terminated: proven gone, because its address answers as another
	// incarnation. Final.
	Terminated
)

// String is the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case Reachable:
		return "reachable"
	case Unreachable:
		return "unreachable"
	case Terminated:
		return "terminated"
	}
	return "invalid"
}

// SubjectVerdict is the verdict of one observer about one node.
type SubjectVerdict struct {
	Subject sharding.NodeID
	Verdict Verdict
	Version uint64 // of the observer, when it was made
}

// Observer holds one node's observations of others. Only that node changes it, and adds 1 to Version with
// every change, so the higher version is the newer one.
type Observer struct {
	Node     sharding.NodeID
	Version  uint64
	Verdicts []SubjectVerdict // sorted by the uid of the subject; none once all are reachable
}

// String shows the fields, as [Member.String] does.
func (r *Observer) String() string {
	type fields Observer
	return fmt.Sprintf("%+v", fields(*r))
}

// Reachability has the verdicts of all observers, sorted by their uids. It is a value:
// methods return a new table.
type Reachability []*Observer

func compareVerdict(r SubjectVerdict, n sharding.NodeID) int { return byUID(r.Subject, n) }

// place returns the position of an observer, present or not.
func (t Reachability) place(observer sharding.NodeID) (int, bool) {
	return placeIn(t, 0, observer, func(r *Observer, n sharding.NodeID) int { return byUID(r.Node, n) })
}

// Set records the verdict of observer about subject.
func (t Reachability) Set(observer, subject sharding.NodeID, v Verdict) Reachability {
	i, ok := t.place(observer)
	if !ok || len(t[i].Verdicts) == 0 {
		if v == Reachable {
			return t // the default
		}
		obs := Observer{Node: observer, Version: 1}
		if ok {
			obs.Version = t[i].Version + 1
		}
		obs.Verdicts = []SubjectVerdict{{subject, v, obs.Version}}
		return t.replace(i, ok, obs)
	}
	obs := *t[i]
	j, known := slices.BinarySearchFunc(obs.Verdicts, subject, compareVerdict)
	if known && (obs.Verdicts[j].Verdict == v || obs.Verdicts[j].Verdict == Terminated) {
		return t
	}
	obs.Version++
	obs.Verdicts = slices.Clone(obs.Verdicts)
	if known {
		obs.Verdicts[j] = SubjectVerdict{subject, v, obs.Version}
	} else {
		obs.Verdicts = slices.Insert(obs.Verdicts, j, SubjectVerdict{subject, v, obs.Version})
	}
	if !slices.ContainsFunc(obs.Verdicts, func(r SubjectVerdict) bool { return r.Verdict != Reachable }) {
		obs.Verdicts = nil // the version stays, so that older verdicts lose against it
	}
	return t.replace(i, true, obs)
}

func (t Reachability) replace(i int, exists bool, obs Observer) Reachability {
	out := slices.Clone(t)
	if exists {
		out[i] = &obs
		return out
	}
	return slices.Insert(out, i, &obs)
}

// Of returns the observer's verdict about subject.
func (t Reachability) Of(observer, subject sharding.NodeID) Verdict {
	return verdictIn(t.verdictsBy(observer), subject)
}

func verdictIn(verdicts []SubjectVerdict, subject sharding.NodeID) Verdict {
	if i, ok := slices.BinarySearchFunc(verdicts, subject, compareVerdict); ok {
		return verdicts[i].Verdict
	}
	return Reachable
}

// verdictsBy are the verdicts of an observer.
func (t Reachability) verdictsBy(observer sharding.NodeID) []SubjectVerdict {
	if i, ok := t.place(observer); ok {
		return t[i].Verdicts
	}
	return nil
}

// Aggregate is the worst verdict about subject of the observers that count: those with counts(observer)
// true. With a nil counts, all of them count.
func (t Reachability) Aggregate(subject sharding.NodeID, counts func(observer sharding.NodeID) bool) Verdict {
	worst := Reachable
	for i := range t {
		if j, ok := slices.BinarySearchFunc(t[i].Verdicts, subject, compareVerdict); ok {
			if v := t[i].Verdicts[j].Verdict; v > worst && (counts == nil || counts(t[i].Node)) {
				worst = v
			}
		}
	}
	return worst
}

// Keep drops everything by or about nodes that keep refuses.
func (t Reachability) Keep(keep func(sharding.NodeID) bool) Reachability {
	out := excluding(t, func(r *Observer) bool { return !keep(r.Node) })
	unknown := func(r SubjectVerdict) bool { return !keep(r.Subject) }
	own := false
	for i := range out {
		known := excluding(out[i].Verdicts, unknown)
		if len(known) == len(out[i].Verdicts) {
			continue
		}
		if !own {
			out, own = slices.Clone(out), true
		}
		out[i] = &Observer{out[i].Node, out[i].Version, known}
	}
	return out
}

// Merge takes the newer entry of every observer. Entries of equal version can only
// differ in subjects that one side has already dropped.
func (t Reachability) Merge(o Reachability) Reachability {
	return mergeSorted(t, o, observerOrder, newerObserver)
}

func newerObserver(a, b *Observer) *Observer {
	switch {
	case a.Version > b.Version:
		return a
	case a.Version < b.Version:
		return b
	}
	if identical(a.Verdicts, b.Verdicts) {
		return a
	}
	both := excluding(a.Verdicts, func(r SubjectVerdict) bool { return !slices.Contains(b.Verdicts, r) })
	if len(both) == len(a.Verdicts) {
		return a
	}
	return &Observer{a.Node, a.Version, both}
}

// suspect is a node that any observer, even one that is down, sees as not reachable.
type suspect struct {
	node       sharding.NodeID
	worst      Verdict // of all observers
	forCluster Verdict // the worst of the observers that are members and not down
	mine       Verdict // of this node
}

func compareSuspect(s suspect, n sharding.NodeID) int { return byUID(s.node, n) }

// suspected returns a node's entry in the list of suspects. A node that is not in the list
// is reachable for all observers.
func suspected(list []suspect, n sharding.NodeID) suspect {
	if i, ok := slices.BinarySearchFunc(list, n, compareSuspect); ok {
		return list[i]
	}
	return suspect{node: n}
}

// tally counts the verdicts about one node.
type tally struct {
	node        sharding.NodeID
	by, counted [Terminated + 1]int // observers by verdict: all, and members that are not down
	mine        Verdict             // of this node
}

// tallies has the tallies of all suspects, sorted by uid. The cost of an update depends only
// on how many observers have changed.
type tallies []*tally

// note adds the verdicts of an observer to the tallies with sign 1, and takes them
// away with sign -1.
func (t *tallies) note(obs *Observer, counts, mine bool, sign int) {
	for _, r := range obs.Verdicts {
		if r.Verdict == Reachable {
			continue
		}
		i, ok := slices.BinarySearchFunc(*t, r.Subject, func(x *tally, n sharding.NodeID) int { return byUID(x.node, n) })
		if !ok {
			*t = slices.Insert(*t, i, &tally{node: r.Subject})
		}
		x := (*t)[i]
		x.by[r.Verdict] += sign
		if counts {
			x.counted[r.Verdict] += sign
		}
		if mine {
			x.mine = r.Verdict
			if sign < 0 {
				x.mine = Reachable
			}
		}
		if x.by == (tally{}).by {
			*t = slices.Delete(*t, i, i+1)
		}
	}
}

// follow applies the change from one state to the next.
func (t *tallies) follow(old, now *State, self sharding.NodeID) {
	differences(old.Reach, now.Reach, observerOrder, sameObserver, func(was, is *Observer) {
		if was != nil {
			t.note(was, old.observes(was.Node), was.Node == self, -1)
		}
		if is != nil {
			t.note(is, now.observes(is.Node), is.Node == self, 1)
		}
	})
	// An observer whose verdicts did not change may have begun or ceased to count.
	differences(old.Members, now.Members, memberOrder, (*Member).equal, func(was, is *Member) {
		if counted := was != nil && was.Status != Down; counted != (is != nil && is.Status != Down) {
			n := cmp.Or(was, is).Node
			i, ok := old.Reach.place(n)
			j, still := now.Reach.place(n)
			if ok && still && sameObserver(old.Reach[i], now.Reach[j]) {
				t.note(old.Reach[i], counted, n == self, -1)
				t.note(old.Reach[i], !counted, n == self, 1)
			}
		}
	})
}

// suspects lists all suspects, sorted by uid.
func (t tallies) suspects() []suspect {
	worst := func(by [Terminated + 1]int) Verdict {
		for v := Terminated; v > Reachable; v-- {
			if by[v] > 0 {
				return v
			}
		}
		return Reachable
	}
	if len(t) == 0 {
		return nil
	}
	out := make([]suspect, len(t))
	for i, x := range t {
		out[i] = suspect{node: x.node, worst: worst(x.by), forCluster: worst(x.counted), mine: x.mine}
	}
	return out
}

func (t tallies) clone() tallies {
	out := slices.Clone(t)
	for i, x := range t {
		mine := *x
		out[i] = &mine
	}
	return out
}

// suspects lists the suspects of a state, sorted by uid.
func (s *State) suspects(self sharding.NodeID) []suspect {
	var t tallies
	t.follow(&State{}, s, self)
	return t.suspects()
}

func (t Reachability) check() string {
	for i := range t {
		if i > 0 && observerOrder(t[i-1], t[i]) >= 0 {
			return "observers are not sorted"
		}
		for j, r := range t[i].Verdicts {
			if j > 0 && byUID(t[i].Verdicts[j-1].Subject, r.Subject) >= 0 {
				return "observations are not sorted"
			}
			if r.Verdict > Terminated {
				return "a verdict is invalid"
			}
		}
	}
	return ""
}
