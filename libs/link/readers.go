package link

import (
	"iter"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Readers decides which connections of a server are read: for each client and lane,
// one at a time. A server welcomes a connection when it may be read, and a client
// sends no command before that. A newer connection may be read only when the reader
// of the older one has left and will deliver nothing more. So no command of an older
// connection is delivered after one of a newer connection. The newest connection is
// the one that was entered last.
//
// The number of a connection serves one purpose: a connection that its client gave up
// before the welcome, and that arrives late, must not end a newer one. The order of
// commands does not depend on it.
//
// C is the server's end of a connection. Readers is not safe for concurrent use.
type Readers[C comparable] struct {
	lanes map[LaneID]*readers[C]
}

// LaneID identifies a lane of a client.
type LaneID struct {
	Client sharding.NodeUID
	Lane   uint64
}

// readers holds the connection of a lane that is being read, and the newest one that
// waits for the first to end.
type readers[C comparable] struct{ reading, waiting slot[C] }

// slot holds one connection, or none.
type slot[C comparable] struct {
	number uint64
	conn   C
	taken  bool
}

// NewReaders returns Readers without connections.
func NewReaders[C comparable]() *Readers[C] { return &Readers[C]{lanes: map[LaneID]*readers[C]{}} }

// Entered is the result of [Readers.Enter].
type Entered[C comparable] struct {
	// Refused is true if the new connection must not be used, because a newer connection of the
	// lane is open.
	Refused bool
	// Read is true if the connection may be read at once. Otherwise it waits until Leave returns
	// it.
	Read bool
	// Older has the older connections of the lane. The caller must end them.
	Older []C
}

// Enter adds an opened connection. Unless it is refused, Leave must be called for it.
func (r *Readers[C]) Enter(lane LaneID, number uint64, c C) (e Entered[C]) {
	l := r.lanes[lane]
	if l == nil {
		l = &readers[C]{}
		r.lanes[lane] = l
	}
	older := [...]slot[C]{l.waiting, l.reading}
	for _, p := range older {
		if p.taken && p.number >= number { //mutant:false straggler
			return Entered[C]{Refused: true}
		}
	}
	for _, p := range older {
		if p.taken {
			e.Older = append(e.Older, p.conn)
		}
	}
	p := slot[C]{number, c, true}
	// Invariant: once a command of a new connection of a lane is delivered, no command of an old connection of this
	// lane is delivered.
	// Guarded by: `link.Readers`: a new connection is read only when the reader of the old one has ended.
	// `replies.Queue`: when a connection has ended, the waiting commands of this connection are dropped. After that,
	// the Queue takes no more commands from this connection.
	// Mutants: one-reader, straggler, dropped-stays
	if e.Read = !l.reading.taken; e.Read { //mutant:true one-reader
		l.reading = p
	} else {
		l.waiting = p
	}
	return e
}

// Leave removes a connection that will read and deliver nothing more. It returns the connection
// that may be read now instead, if one waits. A second call does nothing.
func (r *Readers[C]) Leave(lane LaneID, c C) (next C, ok bool) {
	l := r.lanes[lane]
	if l == nil {
		return next, false
	}
	switch {
	case l.waiting.taken && l.waiting.conn == c:
		l.waiting = slot[C]{}
	case l.reading.taken && l.reading.conn == c:
		l.reading, l.waiting = l.waiting, slot[C]{}
		next, ok = l.reading.conn, l.reading.taken
	}
	if !l.reading.taken {
		delete(r.lanes, lane)
	}
	return next, ok
}

// All returns the connections, including those that wait.
func (r *Readers[C]) All() iter.Seq[C] {
	return func(yield func(C) bool) {
		for _, l := range r.lanes { // order-free: the callers do the same to each
			for _, p := range [...]slot[C]{l.reading, l.waiting} {
				if p.taken && !yield(p.conn) {
					return
				}
			}
		}
	}
}
