package link

import (
	"iter"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Readers decides which connections of a server are read: of each client and lane
// one at a time. A client sends commands on a connection only once that is welcomed,
// which it is when it may be read; and an older one is read until its reader says
// that it has left, with what it is handing over. So nothing of an older connection
// comes behind something of a newer one. The newest is the one that came last.
//
// The number of a connection is only for stragglers: one that its client has given
// up before it was welcomed, and that comes late, does not end a newer one. The order
// of commands does not rest on it.
//
// C is the server's end of a connection. Readers is not safe for concurrent use.
type Readers[C comparable] struct {
	lanes map[LaneID]*readers[C]
}

// LaneID names a lane of a client of a server.
type LaneID struct {
	Client sharding.NodeUID
	Lane   uint64
}

// readers are the connection of a lane that is being read, and the newest one that
// waits for it to end.
type readers[C comparable] struct{ reading, waiting place[C] }

// place is that of one connection, or free.
type place[C comparable] struct {
	number uint64
	conn   C
	taken  bool
}

// NewReaders makes one without connections.
func NewReaders[C comparable]() *Readers[C] { return &Readers[C]{lanes: map[LaneID]*readers[C]{}} }

// Entered is what becomes of a connection that was opened.
type Entered[C comparable] struct {
	// Refused: a newer connection of the lane is open.
	Refused bool
	// Read: it may be read at once. Else it waits until Leave returns it.
	Read bool
	// Cut are the older ones: they are to be ended.
	Cut []C
}

// Enter takes in that a connection was opened. Whatever is not refused must leave.
func (r *Readers[C]) Enter(lane LaneID, number uint64, c C) (e Entered[C]) {
	l := r.lanes[lane]
	if l == nil {
		l = &readers[C]{}
		r.lanes[lane] = l
	}
	older := [...]place[C]{l.waiting, l.reading}
	for _, p := range older {
		if p.taken && p.number >= number && !mutant.On("straggler") {
			return Entered[C]{Refused: true}
		}
	}
	for _, p := range older {
		if p.taken {
			e.Cut = append(e.Cut, p.conn)
		}
	}
	p := place[C]{number, c, true}
	if e.Read = !l.reading.taken || mutant.On("one-reader"); e.Read {
		l.reading = p
	} else {
		l.waiting = p
	}
	return e
}

// Leave takes in that a connection will not be read any more, nor anything of it be
// handed over. It returns the one that may be read now instead, if one waits. A second
// call does nothing.
func (r *Readers[C]) Leave(lane LaneID, c C) (next C, ok bool) {
	l := r.lanes[lane]
	if l == nil {
		return next, false
	}
	switch {
	case l.waiting.taken && l.waiting.conn == c:
		l.waiting = place[C]{}
	case l.reading.taken && l.reading.conn == c:
		l.reading, l.waiting = l.waiting, place[C]{}
		next, ok = l.reading.conn, l.reading.taken
	}
	if !l.reading.taken {
		delete(r.lanes, lane)
	}
	return next, ok
}

// All are the connections, also those that wait.
func (r *Readers[C]) All() iter.Seq[C] {
	return func(yield func(C) bool) {
		for _, l := range r.lanes { // order-free: the callers do the same to each
			for _, p := range [...]place[C]{l.reading, l.waiting} {
				if p.taken && !yield(p.conn) {
					return
				}
			}
		}
	}
}
