package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Check verifies the invariants of the Holder. An error is a bug.
func (h *Holder) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("lease holder: "+format, args...)) }
	if h.held {
		if !h.known || !h.ownRecord || h.record.Holder != h.cfg.Self || h.record.Term != h.term {
			bad("holds term %d, but the record is %+v, mine %v", h.term, h.record, h.ownRecord)
		}
		if h.stopping || h.yielding {
			bad("holds term %d while giving it up", h.term)
		}
	}
	if h.stopped && !h.stopping {
		bad("stopped without a release")
	}
	if h.record.Term > h.highestTerm {
		bad("term %d of the record is above the highest seen, %d", h.record.Term, h.highestTerm)
	}
	if len(h.attempts) > maxAttempts {
		bad("%d unsettled attempts, at most %d are allowed", len(h.attempts), maxAttempts)
	}
	for _, a := range h.attempts {
		if a.next.Version != h.record.Version+1 {
			bad("an attempt for version %d, while version %d is known", a.next.Version, h.record.Version)
		}
	}
	return errors.Join(errs...)
}

// Clone copies the Holder: the copy and the original go on independently.
func (h *Holder) Clone() *Holder {
	c := *h
	c.attempts = slices.Clone(h.attempts)
	return &c
}

// AppendState appends a canonical form of the state, with times relative to
// now: equal states append equal bytes.
func (h *Holder) AppendState(now time.Time, b []byte) []byte {
	num := func(v uint64) { b = binary.BigEndian.AppendUint64(b, v) }
	flag := func(v bool) {
		if v {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	at := func(t time.Time) {
		if t.IsZero() {
			num(math.MaxUint64)
		} else {
			num(uint64(t.Sub(now)))
		}
	}
	record := func(r Record) {
		num(r.Version)
		num(uint64(r.Term))
		num(uint64(r.Holder.UID))
		num(uint64(len(r.Holder.Addr)))
		b = append(b, r.Holder.Addr...)
		num(uint64(r.TTL))
		num(r.Nonce)
		num(uint64(r.Cluster))
	}
	num(uint64(h.rank))
	num(uint64(h.spentTerm))
	num(uint64(h.highestTerm))
	num(uint64(h.cluster))
	flag(h.known)
	record(h.record)
	flag(h.ownRecord)
	at(h.seenAt)
	at(h.lostHolderUntil)
	flag(h.held)
	num(uint64(h.term))
	at(h.until)
	num(uint64(len(h.attempts)))
	for _, a := range h.attempts {
		record(a.next)
		at(a.start)
	}
	num(h.request)
	flag(h.pending)
	flag(h.swapping)
	at(h.sentAt)
	at(h.nextAt)
	flag(h.yielding)
	at(h.yieldBy)
	flag(h.stopping)
	at(h.stopAt)
	flag(h.stopped)
	num(h.drawCount)
	return b
}
