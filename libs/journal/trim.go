package journal

import (
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// ErrTrimmed: events that were requested, or are needed to rebuild an entity, may have been
// removed, because a snapshot has taken their place (see [WriteSnapshot.Cut]).
var ErrTrimmed = errors.New("events were trimmed")

// MaxTrim is the largest number of records whose events are removed with one snapshot: what
// does not let the other operations of its batch wait for long.
const MaxTrim = 5000

// sweepMore is the number of records that are looked at again with a snapshot, in addition to
// as many as lose their events with it, so that the sweep comes round.
const sweepMore = 100

// ReplayFrom returns the sequence number after which the records of an entity are read to
// rebuild its state: the sequence number of the used snapshot, 0 for none, or the one at which
// its life began. Up to cut the records may lack their events: if any of these would be needed,
// the error wraps [ErrTrimmed]. A state is never rebuilt from a part of the events.
func ReplayFrom(of sharding.Entity, snapshot, life, cut uint64) (after uint64, err error) {
	after = max(snapshot, life)
	if after < cut { //mutant:false trim-gap
		return 0, fmt.Errorf("%w: %s cannot be rebuilt from its records: events up to record %d are gone, and a snapshot has taken their place", ErrTrimmed, of, cut)
	}
	return after, nil
}

// TrimMarks say how far the records of an entity were trimmed. Each is a sequence number.
type TrimMarks struct {
	Life uint64 // of the record that has deleted it last; what is before is removed by Purge
	Last uint64 // of the last record
	// Cut: events of records up to this one may be removed.
	Cut uint64
	// Stripped: they were, up to this one.
	Stripped uint64
	// Swept: what was left of records up to this one was looked at again.
	Swept uint64
}

// Raise notes that a snapshot with the given Cut was stored.
func (m *TrimMarks) Raise(cut uint64) {
	if m.Cut = max(m.Cut, cut); m.Cut > m.Last { // of a snapshot, which is never behind the last record
		m.Cut = m.Last
	}
}

// Trimmed returns [TrimMarks.Cut] if it is about the life that lasts, else 0.
func (m *TrimMarks) Trimmed() uint64 {
	if m.Cut <= m.Life {
		return 0
	}
	return m.Cut
}

// Fresh returns which records may lose their events now: those after the first number, up to
// the second, the first MaxTrim of them.
func (m *TrimMarks) Fresh() (after, last uint64) {
	//mutant:do trim-above return max(m.Stripped, m.Life), m.Last
	return max(m.Stripped, m.Life), m.Cut
}

// Sweep returns which records are looked at again, and how many of them at most, if so many
// lose their events now: at most about as many as that, so that the work stays in proportion.
func (m *TrimMarks) Sweep(fresh int) (after, last uint64, limit int) {
	return max(m.Swept, m.Life), m.Stripped, fresh + sweepMore
}

// Done returns the marks behind a trim that has visited fresh records up to the one of stripped,
// and swept records of limit up to the one of swept. If there were fewer than may be,
// all of them were visited; a sweep that has come to its end begins anew.
func (m TrimMarks) Done(fresh int, stripped uint64, sweep, limit int, swept uint64) TrimMarks {
	if m.Swept = swept; sweep < limit {
		m.Swept = 0
	}
	if fresh > 0 {
		m.Stripped = max(m.Stripped, stripped)
	}
	if fresh < MaxTrim {
		m.Stripped = max(m.Stripped, m.Cut)
	}
	return m
}

// TrimAct is the decision about a record up to the cut.
type TrimAct uint8

const (
	// LeaveRecord: nothing.
	LeaveRecord TrimAct = iota
	// StripRecord: it loses its events, and keeps its command, its sends and wake-ups, and its
	// reply.
	StripRecord
	// RemoveRecord: nothing of it is needed any more.
	RemoveRecord
)

// Needed holds the reasons why a record is still needed, other than for its events.
type Needed struct {
	Remembered bool // its key: a repeat of the command gets its reply
	Sending    bool // not all of its sends are done: some are pending, or dead letters
	Waking     bool // it has set a wake-up that stands: its input is in the record
}

// Trim decides what becomes of the record seq, which has events or not.
func (m *TrimMarks) Trim(seq uint64, events bool, n Needed) TrimAct {
	//mutant:false trim-keys n.Remembered
	//mutant:false trim-sends n.Sending
	//mutant:false trim-wakes n.Waking
	needed := n.Remembered || n.Sending || n.Waking
	switch {
	case seq > m.Cut || seq <= m.Life || seq >= m.Last: //mutant:false trim-above seq > m.Cut
		return LeaveRecord
	case !needed:
		return RemoveRecord
	case events:
		return StripRecord
	}
	return LeaveRecord
}
