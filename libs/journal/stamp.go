package journal

import "time"

// Age is the journal's own time of an entity, in milliseconds: for how long
// somebody has been seen to write to it. It is what ages of command ids are
// measured in, because clocks can be set: see [Stamp.Next].
type Age int64

// Moment is when a process commits.
type Moment struct {
	Wall time.Time // by a clock that may be set
	// By names the process (or rather its backend), never 0, and Elapsed is how
	// long that has been running, by a clock that cannot be set.
	By      uint64
	Elapsed time.Duration
}

// Stamp is what is stored of the moment of an entity's last record.
type Stamp struct {
	Age Age
	// By and Elapsed are those of the moment, Elapsed in milliseconds.
	By      uint64
	Elapsed int64
}

// Next is the stamp of a record that follows. An age grows by the time between two
// records that one process has written one after the other. The time between
// records of two processes does not count, because they have no clock in common.
// So an age never grows faster than time passes, and never falls.
//
// A backend that stores the stamp beside the entity, and not with the record, may
// have snapshots count like records: they are written by one process after the other,
// too. An age then differs between backends when there are snapshots between records,
// more if the same process writes both and less if others do, but keeps this rule.
func (s Stamp) Next(m Moment) Stamp {
	n := Stamp{Age: s.Age, By: m.By, Elapsed: m.Elapsed.Milliseconds()}
	if s.By == m.By {
		n.Age += Age(max(0, n.Elapsed-s.Elapsed))
	}
	return n
}
