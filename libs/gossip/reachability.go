package gossip

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Verdict is what one node observes about another.
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

// Record is one observation.
type Record struct {
	Subject sharding.NodeID
	Verdict Verdict
	Version uint64 // the row's version at which it was made
}

// Row is what one node observes. Only the observer changes it, and counts
// Version up with every change, so a row of a higher version is the newer one.
type Row struct {
	Observer sharding.NodeID
	Version  uint64
	Records  []Record // sorted by the uid of the subject; none once all are reachable
}

// String shows the fields, as [Member.String] does.
func (r *Row) String() string {
	type fields Row
	return fmt.Sprintf("%+v", fields(*r))
}

// Reachability is the table of all observations, sorted by the uid of the
// observer. It is a value: methods return a new table.
type Reachability []*Row

func compareRecord(r Record, n sharding.NodeID) int { return byUID(r.Subject, n) }

// place is where the row of an observer is, or would be.
func (t Reachability) place(observer sharding.NodeID) (int, bool) {
	return placeIn(t, 0, observer, func(r *Row, n sharding.NodeID) int { return byUID(r.Observer, n) })
}

// Set records the verdict of observer about subject.
func (t Reachability) Set(observer, subject sharding.NodeID, v Verdict) Reachability {
	i, ok := t.place(observer)
	if !ok || len(t[i].Records) == 0 {
		if v == Reachable {
			return t // the default
		}
		row := Row{Observer: observer, Version: 1}
		if ok {
			row.Version = t[i].Version + 1
		}
		row.Records = []Record{{subject, v, row.Version}}
		return t.replace(i, ok, row)
	}
	row := *t[i]
	j, known := slices.BinarySearchFunc(row.Records, subject, compareRecord)
	if known && (row.Records[j].Verdict == v || row.Records[j].Verdict == Terminated) {
		return t
	}
	row.Version++
	row.Records = slices.Clone(row.Records)
	if known {
		row.Records[j] = Record{subject, v, row.Version}
	} else {
		row.Records = slices.Insert(row.Records, j, Record{subject, v, row.Version})
	}
	if !slices.ContainsFunc(row.Records, func(r Record) bool { return r.Verdict != Reachable }) {
		row.Records = nil // the version remains, and outdates older rows
	}
	return t.replace(i, true, row)
}

func (t Reachability) replace(i int, exists bool, row Row) Reachability {
	out := slices.Clone(t)
	if exists {
		out[i] = &row
		return out
	}
	return slices.Insert(out, i, &row)
}

// Of is what observer observes about subject.
func (t Reachability) Of(observer, subject sharding.NodeID) Verdict {
	return verdictIn(t.row(observer), subject)
}

func verdictIn(row []Record, subject sharding.NodeID) Verdict {
	if i, ok := slices.BinarySearchFunc(row, subject, compareRecord); ok {
		return row[i].Verdict
	}
	return Reachable
}

// row is what observer observes.
func (t Reachability) row(observer sharding.NodeID) []Record {
	if i, ok := t.place(observer); ok {
		return t[i].Records
	}
	return nil
}

// Aggregate is the worst verdict about subject of the observers for which counts
// returns true. With a nil counts, all of them count.
func (t Reachability) Aggregate(subject sharding.NodeID, counts func(observer sharding.NodeID) bool) Verdict {
	worst := Reachable
	for i := range t {
		if j, ok := slices.BinarySearchFunc(t[i].Records, subject, compareRecord); ok {
			if v := t[i].Records[j].Verdict; v > worst && (counts == nil || counts(t[i].Observer)) {
				worst = v
			}
		}
	}
	return worst
}

// Keep drops everything by or about nodes that keep refuses.
func (t Reachability) Keep(keep func(sharding.NodeID) bool) Reachability {
	out := dropped(t, func(r *Row) bool { return !keep(r.Observer) })
	unknown := func(r Record) bool { return !keep(r.Subject) }
	own := false
	for i := range out {
		known := dropped(out[i].Records, unknown)
		if len(known) == len(out[i].Records) {
			continue
		}
		if !own {
			out, own = slices.Clone(out), true
		}
		out[i] = &Row{out[i].Observer, out[i].Version, known}
	}
	return out
}

// Merge takes the newer row of every observer. Rows of equal version can only
// differ in subjects that one side has already dropped.
func (t Reachability) Merge(o Reachability) Reachability {
	return mergeSorted(t, o, rowOrder, newerRow)
}

func newerRow(a, b *Row) *Row {
	switch {
	case a.Version > b.Version:
		return a
	case a.Version < b.Version:
		return b
	}
	if identical(a.Records, b.Records) {
		return a
	}
	both := dropped(a.Records, func(r Record) bool { return !slices.Contains(b.Records, r) })
	if len(both) == len(a.Records) {
		return a
	}
	return &Row{a.Observer, a.Version, both}
}

// suspect is a node that some node observes as not reachable.
type suspect struct {
	node    sharding.NodeID
	worst   Verdict // of all observers
	verdict Verdict // the worst of the members that are not down
	mine    Verdict // of this node
}

func compareSuspect(s suspect, n sharding.NodeID) int { return byUID(s.node, n) }

// suspected finds a node among suspects; one that is not there is reachable.
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

// tallies are those of all suspects, sorted by uid. Updating them costs only as
// much as the rows that change.
type tallies []*tally

// note adds a row to the tallies with sign 1, and takes it away with sign -1.
func (t *tallies) note(row *Row, counts, mine bool, sign int) {
	for _, r := range row.Records {
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
	differences(old.Reach, now.Reach, rowOrder, sameRow, func(was, is *Row) {
		if was != nil {
			t.note(was, old.observes(was.Observer), was.Observer == self, -1)
		}
		if is != nil {
			t.note(is, now.observes(is.Observer), is.Observer == self, 1)
		}
	})
	// An observer with an unchanged row may have begun or ceased to count.
	differences(old.Members, now.Members, memberOrder, (*Member).equal, func(was, is *Member) {
		if counted := was != nil && was.Status != Down; counted != (is != nil && is.Status != Down) {
			n := cmp.Or(was, is).Node
			i, ok := old.Reach.place(n)
			j, still := now.Reach.place(n)
			if ok && still && sameRow(old.Reach[i], now.Reach[j]) {
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
		out[i] = suspect{node: x.node, worst: worst(x.by), verdict: worst(x.counted), mine: x.mine}
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
		if i > 0 && rowOrder(t[i-1], t[i]) >= 0 {
			return "observers are not sorted"
		}
		for j, r := range t[i].Records {
			if j > 0 && byUID(t[i].Records[j-1].Subject, r.Subject) >= 0 {
				return "observations are not sorted"
			}
			if r.Verdict > Terminated {
				return "a verdict is invalid"
			}
		}
	}
	return ""
}
