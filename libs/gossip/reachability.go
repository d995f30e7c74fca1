package gossip

import (
	"cmp"
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
	Records  []Record // sorted by subject; none once all are reachable
}

// Reachability is the table of all observations, sorted by observer. It is a
// value: methods return a new table.
type Reachability []Row

func rowOf(r Row, n sharding.NodeID) int       { return r.Observer.Compare(n) }
func recordOf(r Record, n sharding.NodeID) int { return r.Subject.Compare(n) }

// Set notes that observer now judges subject so.
func (t Reachability) Set(observer, subject sharding.NodeID, v Verdict) Reachability {
	i, ok := slices.BinarySearchFunc(t, observer, rowOf)
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
	if i, ok := slices.BinarySearchFunc(t, observer, rowOf); ok {
		if j, ok := slices.BinarySearchFunc(t[i].Records, subject, recordOf); ok {
			return t[i].Records[j].Verdict
		}
	}
	return Reachable
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
	var out Reachability
	for _, row := range t {
		if !keep(row.Observer) {
			continue
		}
		row.Records = slices.DeleteFunc(slices.Clone(row.Records), func(r Record) bool { return !keep(r.Subject) })
		out = append(out, row)
	}
	return out
}

// Merge takes the newer row of every observer. Rows of equal version can only
// differ by subjects that one side dropped already.
func (t Reachability) Merge(o Reachability) Reachability {
	out := make(Reachability, 0, max(len(t), len(o)))
	for len(t) > 0 && len(o) > 0 {
		switch c := t[0].Observer.Compare(o[0].Observer); {
		case c < 0:
			out, t = append(out, t[0]), t[1:]
		case c > 0:
			out, o = append(out, o[0]), o[1:]
		default:
			out = append(out, newer(t[0], o[0]))
			t, o = t[1:], o[1:]
		}
	}
	return append(append(out, t...), o...)
}

func newer(a, b Row) Row {
	switch cmp.Compare(a.Version, b.Version) {
	case 1:
		return a
	case -1:
		return b
	}
	a.Records = slices.DeleteFunc(slices.Clone(a.Records), func(r Record) bool { return !slices.Contains(b.Records, r) })
	return a
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
