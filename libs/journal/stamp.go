package journal

import "time"

// Age is the journal's own time of an entity, in milliseconds: the total time during
// which processes have been seen writing to it. The age of command ids is measured
// in it, because clocks can be set: see [Stamp.Next].
type Age int64

// Moment is the time at which a process commits.
type Moment struct {
	Wall time.Time // by a clock that may be set
	// Writer identifies the process (or rather its backend), and is never 0. Elapsed is its
	// running time, by a clock that cannot be set.
	Writer  uint64
	Elapsed time.Duration
}

// Clock returns the two times of a [Moment].
type Clock func() (wall time.Time, elapsed time.Duration)

// Stamp is the stored form of the moment of an entity's last record.
type Stamp struct {
	Age Age
	// Writer and Elapsed are copied from the [Moment]; Elapsed is in milliseconds.
	Writer  uint64
	Elapsed int64
}

// Next returns the stamp of the following record. An age grows by the time between
// two consecutive records of one process. The time between records of two processes
// does not count, because they share no clock. So an age never grows faster than
// time passes, and never decreases.
//
// A commit whose connection was lost may take effect after later ones of the same process. Then
// the time that had passed before it must not count a second time.
//
// A backend that stores the stamp with the entity, and not with the record, may
// count snapshots like records. Ages then differ between backends if there are
// snapshots between records, but the rule holds.
func (s Stamp) Next(m Moment) Stamp {
	n := Stamp{Age: s.Age, Writer: m.Writer, Elapsed: m.Elapsed.Milliseconds()}
	if s.Writer == m.Writer {
		n.Elapsed = max(n.Elapsed, s.Elapsed)
		n.Age += Age(n.Elapsed - s.Elapsed)
	}
	return n
}
