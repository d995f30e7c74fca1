package lease

import (
	"math"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// maxAttempts bounds the unsettled Swaps that are remembered. If a forgotten Swap happens after all, its
// record looks like another holder's, which costs one TTL.
const maxAttempts = 8

// Holder is one candidate for a lease: a state machine. Its inputs are the time
// and the answers of the store; its outputs are requests to the store and what the
// lease allows. It starts by reading the record.
type Holder struct {
	cfg         Config
	rank        int
	spentTerm   sharding.Term // terms up to this one are spent, by RaiseTerm
	highestTerm sharding.Term // ever seen in a record
	// cluster is the cluster of the last record that named one. It is kept even if that
	// record is lost.
	cluster sharding.ClusterID

	known           bool      // a record has been read
	record          Record    // the latest version known to have been stored
	ownRecord       bool      // this Holder wrote record
	seenAt          time.Time // when record was first read, or its write confirmed
	lostHolderUntil time.Time // when the holder of a lost record has stopped

	held     bool
	term     sharding.Term // the term that is held, or was held last
	until    time.Time     // the lease is held only before this time
	attempts []attempt     // unsettled Swaps of version record.Version

	request  uint64    // number of the last request
	pending  bool      // the last request is not answered yet
	swapping bool      // the last request is a Swap
	sentAt   time.Time // when the last request was sent
	nextAt   time.Time // when the next request is due; zero: now

	yielding bool
	yieldBy  time.Time // when others may take over anyway

	stopping  bool
	stopAt    time.Time // when the lease has expired, so that a release is pointless
	stopped   bool
	drawCount uint64 // random numbers drawn so far
}

// attempt is a Swap that may have happened.
type attempt struct {
	next  Record
	start time.Time
}

// NewHolder makes a Holder, or refuses the config.
func NewHolder(c Config) (*Holder, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Holder{cfg: c, rank: min(c.Rank, MaxRank)}, nil
}

// Step applies one input at time now, and appends to out what the driver must
// do, in that order. An expired lease is lost before anything else happens.
func (h *Holder) Step(now time.Time, in Input, out []Output) []Output {
	if h.stopped {
		return out
	}
	if h.held && !now.Before(h.until) { //mutant:false lease-time
		out = h.lose(now, out)
	}
	switch in := in.(type) {
	case Got:
		if h.pending && !h.swapping && in.Request == h.request {
			out = h.got(now, in, out)
		}
	case Swapped:
		if h.pending && h.swapping && in.Request == h.request {
			out = h.swapped(now, in.Outcome, out)
		}
	case SetRank:
		h.rank = min(in.Rank, MaxRank)
	case RaiseTerm:
		h.spentTerm = max(h.spentTerm, in.Above)
	case Yield:
		if h.held && !h.stopping {
			h.yielding, h.yieldBy = true, now.Add(h.cfg.TTL)
			out = h.lose(now, out)
		}
	case Release:
		if !h.stopping {
			h.stopping, h.stopAt = true, now.Add(h.cfg.TTL)
			if h.held {
				out = h.lose(now, out)
			}
		}
	case Tick:
	}
	return h.sendNext(now, out)
}

// Valid reports whether the lease may be used at now, and in which term.
func (h *Holder) Valid(now time.Time) (sharding.Term, bool) {
	return h.term, h.held && now.Before(h.until) //mutant:true lease-time now.Before(h.until)
}

// Current returns the holder of the lease, as far as this Holder can know, and until when
// it may act. That is this Holder itself, or the one that the record names until others may
// take over. Zero values mean that the lease is free, or its holder is not known.
func (h *Holder) Current() (sharding.NodeID, time.Time) {
	switch {
	case h.held:
		return h.cfg.Self, h.until
	case !h.known || h.ownRecord || h.record.Holder.IsZero():
		return sharding.NodeID{}, time.Time{}
	}
	return h.record.Holder, h.freeAt()
}

// sendNext sends the request that is due, if none is pending.
func (h *Holder) sendNext(now time.Time, out []Output) []Output {
	if h.pending {
		if now.Sub(h.sentAt) < h.cfg.OpTimeout {
			return out
		}
		h.pending, h.nextAt = false, time.Time{}
	}
	if h.stopping {
		return h.sendRelease(now, out)
	}
	if h.yielding && (len(h.attempts) == 0 && !h.ownRecord || !now.Before(h.yieldBy)) {
		h.yielding, h.attempts = false, h.attempts[:0]
	}
	if h.yielding {
		return h.sendFree(now, out)
	}
	due := !now.Before(h.nextAt)
	if !h.known || len(h.attempts) > 0 {
		if due { // learn what is true before anything is decided
			out = h.get(now, out)
		}
		return out
	}
	if h.held {
		if h.record.Term <= h.spentTerm { //mutant:false term-raised
			return h.raise(now, out)
		}
		if due {
			out = h.swap(now, h.cfg.Self, h.record.Term, out)
		}
		return out
	}
	if term, ok := h.nextTerm(); ok && h.rank >= 0 && !now.Before(h.turnAt()) {
		return h.swap(now, h.cfg.Self, term, out)
	}
	if due {
		out = h.get(now, out)
	}
	return out
}

// Due returns the time of the next [Tick] that may do something. Other inputs may change it earlier. Zero:
// at once.
func (h *Holder) Due() time.Time {
	due := h.nextAt
	earlier := func(t time.Time) {
		if t.Before(due) {
			due = t
		}
	}
	_, another := h.nextTerm()
	switch {
	case h.pending:
		due = h.sentAt.Add(h.cfg.OpTimeout)
	case h.stopping:
		earlier(h.stopAt)
	case h.yielding:
		earlier(h.yieldBy)
	case h.known && len(h.attempts) == 0 && !h.held && h.rank >= 0 && another:
		earlier(h.turnAt())
	}
	if h.held {
		earlier(h.until)
	}
	return due
}

// raise raises the held term above the spent ones.
func (h *Holder) raise(now time.Time, out []Output) []Output {
	term, ok := h.nextTerm()
	if !ok {
		return h.lose(now, out)
	}
	return h.swap(now, h.cfg.Self, term, out)
}

// sendRelease frees the record, or gives up when others may take over anyway.
func (h *Holder) sendRelease(now time.Time, out []Output) []Output {
	if !now.Before(h.stopAt) || len(h.attempts) == 0 && !h.ownRecord {
		h.stopped = true
		return append(out, Released{})
	}
	return h.sendFree(now, out)
}

// sendFree writes the record without a holder. If a Swap of ours may still happen, it first
// reads the record.
func (h *Holder) sendFree(now time.Time, out []Output) []Output {
	switch {
	case len(h.attempts) == 0:
		return h.swap(now, sharding.NodeID{}, h.record.Term, out)
	case !now.Before(h.nextAt):
		return h.get(now, out)
	}
	return out
}

// freeAt returns when the record may be replaced by an acquisition: at once if it has no
// holder, or if its holder is this Holder in an earlier term; otherwise when its TTL has
// passed since it was first seen, or since it was found to be lost.
func (h *Holder) freeAt() time.Time {
	if h.record.Version == 0 && h.lostHolderUntil.After(h.seenAt) {
		return h.lostHolderUntil
	}
	if h.ownRecord || h.record.Holder.IsZero() {
		return h.seenAt
	}
	return h.seenAt.Add(h.ttl())
}

// turnAt returns when it is this candidate's turn to acquire the lease.
func (h *Holder) turnAt() time.Time {
	return h.freeAt().Add(time.Duration(h.rank) * h.cfg.RankDelay)
}

// ttl returns how long the holder that the record names may act without another write.
func (h *Holder) ttl() time.Duration {
	if h.record.TTL > 0 {
		return h.record.TTL
	}
	return h.cfg.TTL
}

// nextTerm is the term of the next acquisition: above every term ever seen or
// spent. It is false if the last possible term is spent.
func (h *Holder) nextTerm() (sharding.Term, bool) {
	// Invariant: one process at a time holds the lease. Each acquisition has a term of its own.
	// Guarded by: `lease.Holder` acts only while the lease is valid by its own monotonic clock. The Holder replaces
	// only the record that the Holder has read. For this, the Holder compares version and nonce.
	// Mutants: term-per-incarnation, lease-time, lease-nonce, late-confirm
	//mutant:do term-per-incarnation if h.record.Holder.Addr == h.cfg.Self.Addr && h.record.Term > h.spentTerm { return h.record.Term, true }
	highest := max(h.highestTerm, h.spentTerm)
	return highest + 1, highest < math.MaxUint32
}

func (h *Holder) get(now time.Time, out []Output) []Output {
	h.send(now, false)
	return append(out, Get{Request: h.request})
}

func (h *Holder) swap(now time.Time, holder sharding.NodeID, term sharding.Term, out []Output) []Output {
	next := Record{Version: h.record.Version + 1, Term: term, Holder: holder, TTL: h.cfg.TTL, Nonce: h.draw(), Cluster: h.cluster}
	if next.Cluster == 0 {
		next.Cluster = sharding.ClusterID(next.Nonce)
	}
	if len(h.attempts) == maxAttempts {
		h.attempts = slices.Delete(h.attempts, 0, 1)
	}
	h.attempts = append(h.attempts, attempt{next: next, start: now})
	h.send(now, true)
	return append(out, Swap{Request: h.request, Old: h.record, New: next})
}

func (h *Holder) send(now time.Time, swapping bool) {
	h.request++
	h.pending, h.swapping, h.sentAt = true, swapping, now
}

// swapped handles the answer to the latest attempt. A conflict alone settles nothing: it may have collided
// with an earlier attempt of ours.
func (h *Holder) swapped(now time.Time, o Outcome, out []Output) []Output {
	h.pending = false
	if o == Done {
		return h.confirmed(now, h.attempts[len(h.attempts)-1], out)
	}
	h.nextAt = now.Add(h.cfg.RetryEvery) // then read what is true
	return out
}

// got compares the stored record with what was known and attempted.
func (h *Holder) got(now time.Time, in Got, out []Output) []Output {
	h.pending = false
	if in.Failed {
		h.nextAt = now.Add(h.retryAfter())
		return out
	}
	r := in.Record
	h.highestTerm = max(h.highestTerm, r.Term)
	for _, a := range h.attempts {
		if r.Nonce == a.next.Nonce && r.Version == a.next.Version {
			return h.confirmed(now, a, out)
		}
	}
	h.nextAt = now.Add(h.interval())
	if h.known && r.Version == h.record.Version && r.Nonce == h.record.Nonce {
		return h.unchanged(now, out)
	}
	if h.held {
		out = h.lose(now, out)
	}
	if r.Version == 0 && h.known && !h.ownRecord {
		// The record is lost, but perhaps its holder does not know that yet.
		h.lostHolderUntil = now.Add(h.ttl())
	}
	h.attempts = h.attempts[:0]
	if h.rank >= 0 && !r.Holder.IsZero() {
		// A standby looks for the next renewal when it may come at the earliest. If it looked later, it could see each
		// renewal later than the one before, and take the lease to be valid for as much longer.
		h.nextAt = now.Add(h.cfg.RenewEvery - time.Duration(h.cfg.Jitter*float64(h.cfg.RenewEvery)))
	}
	return h.setRecord(now, r, false, out)
}

// unchanged handles an answer that shows the known record, so that none of the attempts has
// happened yet. They may still happen, so they remain listed while another one is made.
func (h *Holder) unchanged(now time.Time, out []Output) []Output {
	if len(h.attempts) == 0 {
		if h.rank >= 0 && !h.record.Holder.IsZero() {
			// The renewal is due. The sooner the last one before the holder's end is seen, the sooner the lease is free.
			h.nextAt = now.Add(h.cfg.RetryEvery)
		}
		return out
	}
	switch {
	case h.stopping || h.yielding:
		if !h.ownRecord { // an acquisition that has not happened is not waited for
			h.attempts = h.attempts[:0]
			return out
		}
		return h.swap(now, sharding.NodeID{}, h.record.Term, out)
	case h.held: // if an attempt was to raise the term, that is due again after this renewal
		return h.swap(now, h.cfg.Self, h.record.Term, out)
	}
	if term, ok := h.nextTerm(); ok && h.rank >= 0 {
		return h.swap(now, h.cfg.Self, term, out)
	}
	h.attempts = h.attempts[:0]
	return out
}

// confirmed handles an attempt that has happened. The time to live counts from its start.
func (h *Holder) confirmed(now time.Time, a attempt, out []Output) []Output {
	raised := a.next.Term != h.record.Term
	h.attempts = h.attempts[:0]
	out = h.setRecord(now, a.next, true, out)
	if h.stopping || h.yielding {
		if a.next.Holder.IsZero() {
			h.ownRecord = false
		}
		return out
	}
	h.nextAt = a.start.Add(h.interval())
	until := a.start.Add(h.cfg.TTL - h.cfg.Margin)
	if !now.Before(until) { //mutant:false late-confirm
		// The answer came too late to act on. The record is ours, so the next
		// acquisition need not wait.
		if h.held {
			out = h.lose(now, out)
		}
		return out
	}
	switch {
	case h.held && !raised:
		h.until = until
		return append(out, Renewed{Term: a.next.Term, Until: until})
	case !h.held && !raised: //mutant:false term-per-incarnation
		// A renewal of a term that ended while it was in progress.
		return out
	}
	h.held, h.term, h.until = true, a.next.Term, until
	return append(out, Acquired{Term: a.next.Term, Until: until, Cluster: a.next.Cluster})
}

// setRecord makes r the known record.
func (h *Holder) setRecord(now time.Time, r Record, mine bool, out []Output) []Output {
	news := !h.known || r.Holder != h.record.Holder || r.Term != h.record.Term
	h.known, h.record, h.ownRecord, h.seenAt = true, r, mine, now
	h.highestTerm = max(h.highestTerm, r.Term)
	if r.Cluster != 0 {
		h.cluster = r.Cluster
	}
	if news {
		out = append(out, Observed{Holder: r.Holder, Term: r.Term})
	}
	return out
}

// lose ends the term. The known record remains.
func (h *Holder) lose(now time.Time, out []Output) []Output {
	h.held, h.until, h.nextAt = false, time.Time{}, now
	return append(out, Lost{Term: h.term})
}

// interval is RenewEvery, shortened at random.
func (h *Holder) interval() time.Duration {
	part := float64(h.draw()>>11) / (1 << 53)
	return h.cfg.RenewEvery - time.Duration(part*h.cfg.Jitter*float64(h.cfg.RenewEvery))
}

// retryAfter is short while something depends on the answer.
func (h *Holder) retryAfter() time.Duration {
	if h.held || h.stopping || h.yielding || len(h.attempts) > 0 {
		return h.cfg.RetryEvery
	}
	return h.interval()
}

// draw returns the next random number.
func (h *Holder) draw() uint64 {
	h.drawCount++
	return sharding.Draw(h.cfg.Seed, h.cfg.Self.UID, h.drawCount)
}
