package due

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/backoff"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/storeclock"
)

// Limits are the limits of a [Sweeper].
type Limits struct {
	// ReadShards is the number of shards that one read asks for.
	ReadShards int
	// RetryMin and RetryMax are the first and the longest pause after reads that fail. The pause after a
	// shard whose entries are damaged grows up to DamagedMax.
	RetryMin, RetryMax, DamagedMax time.Duration
	// Seed seeds the random part of the pauses.
	Seed uint64
}

// Shard is the state of an open shard in a [Sweeper]. The core embeds it in its own shard.
type Shard struct {
	ID      sharding.ShardID
	Epoch   sharding.Epoch
	Closed  bool      // the shard was handed off or lost, while a read or an action was in progress
	Reading bool      // a read of the shard is in progress
	ReadAt  time.Time // when its next read may begin; zero: none is wanted
	Damaged int       // reads in a row that could not read its rows
}

func (s *Shard) swept() *Shard { return s }

// Swept is a shard of a core: a pointer to a struct that embeds [Shard].
type Swept interface {
	comparable
	swept() *Shard
}

// Part is one shard's part of a page.
type Part[S Swept, R any] struct {
	Shard   S
	Entries []R
	More    bool // the shard may have more entries than the page
	// Failed is true if the shard's entries could not be read. Then the shard is read again after a pause.
	Failed bool
}

// Want is the decision of a core about a shard whose next read may begin.
type Want uint8

const (
	Take Want = iota // the shard is part of this read
	Next             // it is part of the next one
	Room             // it waits until entries have left the memory
	Skip             // it is not to be read now: the core has set another time, or will set one
)

// Sweeper reads the entries of the open shards of a core. S is the core's shard, R an entry.
type Sweeper[S Swept, R any] struct {
	Clock storeclock.Clock // of the journal's store
	// Jitter draws the random part of pauses.
	Jitter backoff.Jitter
	// Failed counts reads that failed, and Unreadable the times that the entries of a shard were damaged.
	Failed, Unreadable uint64

	limits  Limits
	shardOf func(*R) sharding.ShardID
	shards  []S // in the order in which they were opened
	byID    map[sharding.ShardID]S
	// read has the shards of the read in progress, which is number last; nil: there is none.
	read   []S
	asked  time.Time // when that read began
	last   uint64
	pause  Pause     // after failed reads: no read begins before it is over
	scanAt time.Time // when the next read may begin, at the earliest; zero: no shard wants one
	from   int       // where in shards the next scan begins
	noRoom bool      // a shard waits until entries have left the memory
}

// New returns a sweeper without shards. shardOf returns the shard of an entry.
func New[S Swept, R any](l Limits, shardOf func(*R) sharding.ShardID) Sweeper[S, R] {
	return Sweeper[S, R]{limits: l, Jitter: backoff.Jitter(l.Seed), shardOf: shardOf, byID: map[sharding.ShardID]S{}}
}

// Open adds a shard, which is first read at its time ReadAt.
func (w *Sweeper[S, R]) Open(s S) {
	x := s.swept()
	w.byID[x.ID] = s
	w.shards = append(w.shards, s)
	w.scanBy(x.ReadAt)
}

// Close removes a shard, and returns it; false: it is not open.
func (w *Sweeper[S, R]) Close(id sharding.ShardID) (s S, open bool) {
	if s, open = w.byID[id]; open {
		s.swept().Closed = true
		delete(w.byID, id)
		w.shards = slices.DeleteFunc(w.shards, func(o S) bool { return o == s })
	}
	return s, open
}

// Shards returns the open shards, in the order in which they were opened.
func (w *Sweeper[S, R]) Shards() []S { return w.shards }

// Shard returns an open shard, else nil.
func (w *Sweeper[S, R]) Shard(id sharding.ShardID) S { return w.byID[id] }

// At returns a shard if it is open at the epoch, else nil.
func (w *Sweeper[S, R]) At(id sharding.ShardID, epoch sharding.Epoch) (s S) {
	if o, open := w.byID[id]; open && o.swept().Epoch == epoch {
		s = o
	}
	return s
}

// ReadBy sets the time at which the next read of a shard may begin.
func (w *Sweeper[S, R]) ReadBy(s S, at time.Time) {
	s.swept().ReadAt = at
	w.scanBy(at)
}

// scanBy makes sure that the shards are scanned for those to be read at a time, or earlier.
func (w *Sweeper[S, R]) scanBy(at time.Time) { w.scanAt = Earliest(w.scanAt, at) }

// roomCheck is the pause before the shards are scanned again after entries have left the memory. Thousands of
// entries may leave it in a second, and a scan after each of them would cost too much.
const roomCheck = 10 * time.Millisecond

// MadeRoom is called when entries have left the memory, so that there may be room for a shard that waits.
func (w *Sweeper[S, R]) MadeRoom(now time.Time) {
	if w.noRoom {
		w.noRoom = false
		w.scanBy(now.Add(roomCheck))
	}
}

// WaitForRoom makes the next scan wait until entries have left the memory, but not longer than until a time.
func (w *Sweeper[S, R]) WaitForRoom(until time.Time) {
	w.noRoom = true
	w.scanBy(until)
}

// LacksRoom reports whether a shard waits until entries have left the memory.
func (w *Sweeper[S, R]) LacksRoom() bool { return w.noRoom }

// Pending returns the number of shards in the read in progress. Each may bring a page of entries.
func (w *Sweeper[S, R]) Pending() int { return len(w.read) }

// Ready reports whether a read may begin.
func (w *Sweeper[S, R]) Ready(now time.Time) bool {
	return w.read == nil && !w.scanAt.IsZero() && !now.Before(w.scanAt) && !now.Before(w.pause.Until)
}

// Begin begins the next read, if one may begin and a shard wants it. It returns its number and its shards;
// without shards, no read begins. It asks want about each shard whose time has come, until one read has as
// many shards as it may have.
func (w *Sweeper[S, R]) Begin(now time.Time, want func(S) Want) (number uint64, shards []S) {
	if !w.Ready(now) {
		return 0, nil
	}
	w.scanAt = time.Time{}
	from := w.from
	for n := range w.shards {
		i := (from + n) % len(w.shards)
		s := w.shards[i]
		x := s.swept()
		switch {
		case x.ReadAt.IsZero():
			continue
		case x.ReadAt.After(now):
			w.scanBy(x.ReadAt)
			continue
		case len(w.read) >= w.limits.ReadShards:
			w.scanBy(now)
			continue
		}
		switch want(s) {
		case Take:
			x.Reading = true
			w.read = append(w.read, s)
			// Invariant: the entries of a shard are read and acted on, however many entries other shards have, and also if the
			// entries of another shard cannot be read.
			// Mutants: turns, damaged-shard
			w.from = (i + 1) % len(w.shards) //mutant:skip turns
		case Next:
			w.scanBy(now)
		case Room:
			w.noRoom = true
		}
	}
	if len(w.read) > 0 {
		w.last++
		w.asked = now
	}
	return w.last, w.read
}

// Page takes in the answer to a read, and returns its parts: one for each shard of the read that is still
// open. The error is the reason why nothing could be read. Of the shard of each part, the caller clears Reading as
// soon as it has taken in the part, and sets the time of the next read unless the part has failed.
func (w *Sweeper[S, R]) Page(now time.Time, number uint64, page *journal.Page[R], err error) (parts []Part[S, R]) {
	if w.read == nil || number != w.last {
		return nil
	}
	read := w.read
	w.read = nil
	w.scanBy(now) // the next read may begin
	if err == nil {
		w.pause.Times = 0
		if !page.Now.IsZero() { //mutant:true no-clock
			w.Clock.Read(w.asked, now, page.Now)
		}
	} else {
		w.Failed++
		w.pause.Fail(now, &w.Jitter, w.limits.RetryMin, w.limits.RetryMax)
	}
	entries := page.Entries
	for _, s := range read {
		x, n := s.swept(), 0
		for n < len(entries) && w.shardOf(&entries[n]) == x.ID {
			n++
		}
		part := Part[S, R]{Shard: s, Entries: entries[:n], More: slices.Contains(page.More, x.ID)}
		entries = entries[n:]
		if x.Closed {
			continue
		}
		switch {
		case err != nil:
			part.Failed = true
			w.ReadBy(s, w.pause.Until)
		case page.Unreadable(x.ID):
			part.Failed = true
			w.Unreadable++
			x.Damaged++
			pause := w.Jitter.Pause(x.Damaged, w.limits.RetryMin, w.limits.DamagedMax)
			//mutant:do damaged-shard pause = 0
			w.ReadBy(s, now.Add(pause))
		default:
			x.Damaged = 0
		}
		parts = append(parts, part)
	}
	return parts
}

// Alarm returns the time at which the next read may begin; zero: never, if nothing happens before.
func (w *Sweeper[S, R]) Alarm() time.Time {
	if w.read != nil || w.scanAt.IsZero() {
		return time.Time{}
	}
	return latest(w.scanAt, w.pause.Until)
}

// Check verifies the invariants of the sweeper. An error means a bug.
func (w *Sweeper[S, R]) Check() error {
	if len(w.shards) != len(w.byID) {
		return fmt.Errorf("due: %d shards are listed, and %d are known", len(w.shards), len(w.byID))
	}
	for _, s := range w.shards {
		x := s.swept()
		if w.byID[x.ID] != s || x.Closed {
			return fmt.Errorf("due: %s is listed but closed", x.ID)
		}
		if x.Reading != slices.Contains(w.read, s) {
			return fmt.Errorf("due: a read of %s is in progress: %t", x.ID, x.Reading)
		}
		if w.read == nil && w.scanAt.IsZero() && !w.noRoom && !x.ReadAt.IsZero() {
			return fmt.Errorf("due: %s is to be read at %s, and no scan follows", x.ID, x.ReadAt)
		}
	}
	return nil
}

// Clone returns a copy. clone returns the copy of a shard, always the same one.
func (w *Sweeper[S, R]) Clone(clone func(S) S) Sweeper[S, R] {
	c := *w
	c.shards, c.read, c.byID = Map(w.shards, clone), Map(w.read, clone), make(map[sharding.ShardID]S, len(w.byID))
	for _, s := range c.shards {
		c.byID[s.swept().ID] = s
	}
	return c
}

// AppendState appends a canonical description, with times relative to now: equal states give equal bytes.
// It calls shard to describe the rest of each open shard.
func (w *Sweeper[S, R]) AppendState(now time.Time, b []byte, shard func(b []byte, s S) []byte) []byte {
	b = w.Clock.AppendState(b)
	b = fmt.Appendf(b, " scan %d from %d room %t pause %d %d random %x last %d\n", Left(now, w.scanAt), w.from, w.noRoom, w.pause.Times, Left(now, w.pause.Until), w.Jitter, w.last)
	for _, s := range w.read {
		x := s.swept()
		b = fmt.Appendf(b, " reading %s %s closed %t\n", x.ID, x.Epoch, x.Closed)
	}
	for _, s := range w.shards {
		x := s.swept()
		b = fmt.Appendf(b, " shard %s %s read %d damaged %d", x.ID, x.Epoch, Left(now, x.ReadAt), x.Damaged)
		b = append(shard(b, s), '\n')
	}
	return b
}
