package gossip

import (
	"cmp"
	"slices"
	"sort"

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
	Records  []Record // sorted by subject; none once all are reachable
}

// Reachability is the table of all observations, sorted by observer. It is a
// value: methods return a new table.
type Reachability []Row

func recordOf(r Record, n sharding.NodeID) int { return r.Subject.Compare(n) }

// place is where the row of an observer is, or would be.
func (t Reachability) place(observer sharding.NodeID) (int, bool) {
	return sort.Find(len(t), func(i int) int { return observer.Compare(t[i].Observer) })
}

// Set notes that observer now judges subject so.
func (t Reachability) Set(observer, subject sharding.NodeID, v Verdict) Reachability {
	i, ok := t.place(observer)
	if !ok || len(t[i].Records) == 0 {
		if v == Reachable {
			return t // what everybody is anyway
		}
		row := Row{Observer: observer, Version: 1}
		if ok {
			row.Version = t[i].Version + 1
		}
		row.Records = []Record{{subject, v, row.Version}}
		return t.replace(i, ok, row)
	}
	row := t[i]
	j, known := slices.BinarySearchFunc(row.Records, subject, recordOf)
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
		row.Records = nil // the version stays and outdates the older rows
	}
	return t.replace(i, true, row)
}

func (t Reachability) replace(i int, exists bool, row Row) Reachability {
	out := slices.Clone(t)
	if exists {
		out[i] = row
		return out
	}
	return slices.Insert(out, i, row)
}

// Of is what observer observes about subject.
func (t Reachability) Of(observer, subject sharding.NodeID) Verdict {
	return verdictIn(t.row(observer), subject)
}

func verdictIn(row []Record, subject sharding.NodeID) Verdict {
	if i, ok := slices.BinarySearchFunc(row, subject, recordOf); ok {
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

// includes tells whether a row would change nothing.
func (t Reachability) includes(r *Row) bool {
	i, ok := t.place(r.Observer)
	return ok && newer(&t[i], r) == &t[i]
}

// Aggregate is the worst that any observer for which counts holds observes
// about subject. A nil counts lets all of them count.
func (t Reachability) Aggregate(subject sharding.NodeID, counts func(observer sharding.NodeID) bool) Verdict {
	worst := Reachable
	for i := range t {
		if j, ok := slices.BinarySearchFunc(t[i].Records, subject, recordOf); ok {
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
	unknown := func(r *Record) bool { return !keep(r.Subject) }
	own := false
	for i := range out {
		known := dropped(out[i].Records, unknown)
		if len(known) == len(out[i].Records) {
			continue
		}
		if !own {
			out, own = slices.Clone(out), true
		}
		out[i].Records = known
	}
	return out
}

// Merge takes the newer row of every observer. Rows of equal version can only
// differ by subjects that one side dropped already.
func (t Reachability) Merge(o Reachability) Reachability {
	return mergeSorted(t, o, rowOrder, newer)
}

func newer(a, b *Row) *Row {
	switch {
	case a.Version > b.Version:
		return a
	case a.Version < b.Version:
		return b
	}
	if identical(a.Records, b.Records) {
		return a
	}
	both := dropped(a.Records, func(r *Record) bool { return !slices.Contains(b.Records, *r) })
	if len(both) == len(a.Records) {
		return a
	}
	return &Row{a.Observer, a.Version, both}
}

// suspect is a node about which somebody observes that it is not reachable.
type suspect struct {
	node sharding.NodeID
	// The worst that anybody observes, that members who are not down observe,
	// and that this node does.
	worst, verdict, mine Verdict
}

func suspectOf(s suspect, n sharding.NodeID) int { return s.node.Compare(n) }

// suspects lists, sorted, who is not reachable in the eyes of somebody.
func (s *State) suspects(self sharding.NodeID) []suspect {
	var out []suspect
	members := s.Members // sorted as rows are
	for i := range s.Reach {
		row := &s.Reach[i]
		if len(row.Records) == 0 {
			continue
		}
		for len(members) > 0 && members[0].Node != row.Observer && members[0].Node.Compare(row.Observer) < 0 {
			members = members[1:]
		}
		counts := len(members) > 0 && members[0].Node == row.Observer && members[0].Status != Down
		for _, r := range row.Records {
			if r.Verdict == Reachable {
				continue
			}
			x := suspect{node: r.Subject, worst: r.Verdict}
			if counts {
				x.verdict = r.Verdict
			}
			if row.Observer == self {
				x.mine = r.Verdict
			}
			out = append(out, x)
		}
	}
	// By uid first, which is a number: many observe the same few.
	slices.SortFunc(out, func(a, b suspect) int {
		if a.node.UID != b.node.UID {
			return cmp.Compare(a.node.UID, b.node.UID)
		}
		return sharding.CompareAddr(a.node.Addr, b.node.Addr)
	})
	kept := out[:0]
	for _, x := range out {
		if n := len(kept); n > 0 && kept[n-1].node == x.node {
			last := &kept[n-1]
			last.worst, last.verdict, last.mine = max(last.worst, x.worst), max(last.verdict, x.verdict), max(last.mine, x.mine)
			continue
		}
		kept = append(kept, x)
	}
	slices.SortFunc(kept, func(a, b suspect) int { return a.node.Compare(b.node) })
	return kept
}

// suspected finds a node among suspects; one who is not there is reachable.
func suspected(list []suspect, n sharding.NodeID) suspect {
	if i, ok := slices.BinarySearchFunc(list, n, suspectOf); ok {
		return list[i]
	}
	return suspect{node: n}
}

func (t Reachability) check() string {
	for i := range t {
		if i > 0 && t[i-1].Observer.Compare(t[i].Observer) >= 0 {
			return "observers are not sorted"
		}
		for j, r := range t[i].Records {
			if j > 0 && t[i].Records[j-1].Subject.Compare(r.Subject) >= 0 {
				return "observations are not sorted"
			}
			if r.Verdict > Terminated {
				return "a verdict is none"
			}
		}
	}
	return ""
}
