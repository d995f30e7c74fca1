package journal

import (
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// A wake-up is an entry in addition to the records, and so are the sends of a record that are not
// done. Both are changed in the transaction of the append that requests it, and by nothing else
// but a [Purge] or a [Repair].

// WakesRequest asks for one page of wake-ups of each of some shards: the entries after a position
// that are due before a time, in the order of their due times. Entries that are due at the same
// time are in an order that the store chooses and keeps.
//
// A [sharding.RememberWake] has a negative due time (see [sharding.Wake]). So a request for
// reminders has the zero position as After. A request for remembered entities has the due time
// math.MinInt64 in After, and Until 1. Deleted entities that are not fully purged are after the
// due time PurgeFrom; the time of the next look at them is counted from there.
type WakesRequest struct {
	Shards []ShardPosition // each shard once
	// Until is a time in Unix milliseconds: entries that are due then, or later, are left out.
	// 0: no reminder is.
	Until int64
	// Limit is the largest number of entries of each shard, above 0.
	Limit int
}

// Last returns the latest time of an entry that was asked for.
func (r *WakesRequest) Last() int64 {
	if r.Until == 0 {
		return PurgeFrom - 1
	}
	return r.Until - 1
}

// PurgeFrom is added to the time of the next look at a deleted entity that is not fully purged,
// to make the due time of its entry (see [sharding.PurgeWake]). So these entries come after all
// reminders, and a page has entries of one sort only.
const PurgeFrom = math.MaxInt64/2 + 1

// ShardPosition is a position among the wake-ups of a shard.
type ShardPosition struct {
	Shard sharding.ShardID
	After WakePosition
}

// WakePosition is the place of a wake-up among the wake-ups of its shard. A position that only
// has Due is before all entries that are due then.
type WakePosition struct {
	Due    int64
	Entity sharding.Entity
	Kind   sharding.WakeKind
	Name   string
}

// Page is the answer to a [WakesRequest] or a [SendsRequest], as it was at one moment after the
// request.
type Page[R any] struct {
	// Now is the store's clock on the wall, so that processes can agree on which entries are due.
	// It is zero if all shards are damaged.
	Now time.Time
	// Entries are in the order of the request's shards, and within a shard in the order of their
	// positions.
	Entries []R
	// More are the shards that may have more entries: the page is full.
	More []sharding.ShardID
	// Damaged are shards whose entries cannot be read. Only a Journal (package commit)
	// sets it; a backend returns an error.
	Damaged []Damaged
}

// WakesPage is a page of wake-ups.
type WakesPage = Page[WakeEntry]

// SendsPage is a page of records with pending sends, or with dead letters.
type SendsPage = Page[SendEntry]

// WakeEntry is a wake-up as it is stored.
type WakeEntry struct {
	Shard  sharding.ShardID
	Entity sharding.Entity
	sharding.WakeRef
	Due, Period int64          // as in [sharding.Wake]
	Input       sharding.Input // from the record that set it
	// Err is the reason why the input cannot be read: it wraps ErrCorrupt. The rest of the entry
	// is valid.
	Err error
}

// Position returns the place of the entry.
func (w *WakeEntry) Position() WakePosition {
	return WakePosition{Due: w.Due, Entity: w.Entity, Kind: w.Kind, Name: w.Name}
}

// SetInput finds the input of the wake-up in the record that set it.
func (w *WakeEntry) SetInput(r *sharding.Record) {
	if w.Kind == sharding.PurgeWake {
		return // it has none
	}
	for i := range r.Wakes {
		if s := &r.Wakes[i]; s.Kind == w.Kind && s.Name == w.Name && s.Due != 0 {
			w.Input = s.Input
			return
		}
	}
	w.Err = fmt.Errorf("%w: %s, record %d does not set wake-up %q", ErrCorrupt, w.Entity, w.Seq, w.Name)
}

// SendsRequest asks for one page of the records of each of some shards that have pending
// sends.
type SendsRequest struct {
	Shards []SendPosition // each shard once
	// Dead asks for the records that have dead letters instead.
	Dead bool
	// Limit is the largest number of records of each shard, above 0.
	Limit int
}

// SendPosition is the place of a record among the records of its shard. One without Entity is
// before all of them. They are ordered by entity, in an order that the store chooses and keeps,
// and then by Seq.
type SendPosition struct {
	Shard  sharding.ShardID
	Entity sharding.Entity
	Seq    uint64
}

// SendEntry is a record with sends that are not all done.
type SendEntry struct {
	Shard  sharding.ShardID
	Entity sharding.Entity
	Seq    uint64
	At     time.Time // when the record was stored
	States SendStates
	Sends  []sharding.Send
	// Epoch is the highest epoch that was claimed for the shard when the entry was read. An owner
	// that finds a higher one than its own has been deposed, and must not deliver the sends:
	// otherwise the present owner, which may give them up, could not know of these attempts.
	Epoch sharding.Epoch
	// Err is the reason why the sends cannot be read: it wraps ErrCorrupt. At and Sends are not
	// set.
	Err error
}

// Position returns the place of the entry.
func (s *SendEntry) Position() SendPosition {
	return SendPosition{Shard: s.Shard, Entity: s.Entity, Seq: s.Seq}
}

// Pending yields the sends that are pending, by their places.
func (s *SendEntry) Pending() iter.Seq2[int, *sharding.Send] {
	return func(yield func(int, *sharding.Send) bool) {
		for place := range s.Sends {
			if s.States.Of(place) == sharding.SendPending && !yield(place, &s.Sends[place]) {
				return
			}
		}
	}
}

// SendRequest asks for the sends of one record, for [FindSend]: those pending, or the dead
// letters.
func SendRequest(shard sharding.ShardID, entity sharding.Entity, seq uint64, dead bool) SendsRequest {
	return SendsRequest{Shards: []SendPosition{{Shard: shard, Entity: entity, Seq: seq - 1}}, Dead: dead, Limit: 1}
}

// FindSend returns the state of a send, and the send unless it is done, from the answer to a
// [SendRequest].
func FindSend(entries []SendEntry, entity sharding.Entity, seq uint64, place int) (sharding.SendState, sharding.Send, error) {
	for i := range entries {
		r := &entries[i]
		if r.Entity != entity || r.Seq != seq {
			continue
		}
		state := r.States.Of(place)
		if state == sharding.SendDone || r.Err != nil || place >= len(r.Sends) {
			return sharding.SendDone, sharding.Send{}, r.Err
		}
		return state, r.Sends[place], nil
	}
	return sharding.SendDone, sharding.Send{}, nil
}

// SetSends takes the sends out of the record.
func (s *SendEntry) SetSends(at time.Time, r *sharding.Record) {
	if len(r.Sends) == 0 || len(s.States) != stateBytes(len(r.Sends)) {
		s.Err = fmt.Errorf("%w: %s, record %d has %d sends, and its entry has %d bytes about them", ErrCorrupt, s.Entity, s.Seq, len(r.Sends), len(s.States))
		return
	}
	s.At, s.Sends = at, r.Sends
}

// WakeChange is the change that an append makes to the entry of one wake-up.
type WakeChange struct {
	Does WakeDoing
	Kind sharding.WakeKind
	Name string
	// Of an entry that is set, or has fired.
	Due    int64
	Number uint64
	// Of an entry that is set.
	Period int64
	Seq    uint64
}

// WakeDoing is the kind of change of an entry.
type WakeDoing uint8

const (
	// RemoveWake: there is no entry afterwards.
	RemoveWake WakeDoing = iota + 1
	// NextWake: the entry exists, and gets a new Due and a new Number.
	NextWake
	// SetWake: there is an entry afterwards, which is new in all its parts.
	SetWake
	// EndLife: the entity has no entries afterwards but its [sharding.PurgeWake], with this Seq and
	// the earlier of Due and its previous due time, and the entries that later changes set. So an
	// entity that is deleted again and again is looked at as often as any other.
	EndLife
)

// WakeChanges returns the changes that an accepted append makes to the entries of wake-ups, at
// most one for each entry. An EndLife is the first one. lookAt is the time of the first look at
// an entity that is deleted now ([Config.LookAt]).
func WakeChanges(a *sharding.Append, lookAt time.Time) []WakeChange {
	if !changesWakes(a) {
		return nil
	}
	var changes []WakeChange
	places := map[sharding.WakeRef]int{} // by kind and name
	change := func(c WakeChange) {
		ref := sharding.WakeRef{Kind: c.Kind, Name: c.Name}
		if i, ok := places[ref]; ok {
			changes[i] = c
			return
		}
		places[ref] = len(changes)
		changes = append(changes, c)
	}
	for i := range a.Fired {
		f := &a.Fired[i]
		c := WakeChange{Does: NextWake, Kind: f.Kind, Name: f.Name, Due: f.Next, Number: f.Number + 1}
		if f.Next == 0 {
			c = WakeChange{Does: RemoveWake, Kind: f.Kind, Name: f.Name}
		}
		// Invariant: when a wake-up has fired, the wake-up is removed or gets its next due time. This happens in the
		// transaction that stores the records of the wake-up's command.
		// Mutants: fired-with-record
		change(c) //mutant:skip fired-with-record
	}
	for i := range a.Records {
		if a.Records[i].Delete { //mutant:false delete-wakes
			clear(places)
			changes = changes[:0]
		}
		if a.Records[i].Delete {
			change(WakeChange{Does: endLife(), Kind: sharding.PurgeWake, Due: PurgeFrom + lookAt.UnixMilli(), Seq: a.Records[i].Seq})
		}
		for n := range a.Records[i].Wakes {
			w := &a.Records[i].Wakes[n]
			if w.Due == 0 {
				change(WakeChange{Does: RemoveWake, Kind: w.Kind, Name: w.Name})
				continue
			}
			change(WakeChange{Does: SetWake, Kind: w.Kind, Name: w.Name, Due: w.Due, Number: w.Number, Period: w.Period, Seq: a.Records[i].Seq})
		}
	}
	return changes
}

// endLife returns the change that a delete makes to entries.
func endLife() WakeDoing {
	//mutant:do delete-wakes return SetWake
	return EndLife
}

// changesWakes reports whether WakeChanges returns any.
func changesWakes(a *sharding.Append) bool {
	for i := range a.Records {
		if len(a.Records[i].Wakes) > 0 || a.Records[i].Delete {
			return true
		}
	}
	return len(a.Fired) > 0
}

// hasSends reports whether an append writes, or changes, entries of sends.
func hasSends(a *sharding.Append) bool {
	for i := range a.Records {
		if len(a.Records[i].Sends) > 0 {
			return true
		}
	}
	return len(a.Delivered) > 0
}

// SendStates has the [sharding.SendState] of each send of a record: two bits each, from the
// lowest ones of the first byte on.
type SendStates []byte

// NewSends returns the SendStates of a record that is being stored, nil if it has no sends
// and so no entry.
func NewSends(r *sharding.Record) SendStates {
	// Invariant: a send stays in the journal until the send is done. If the end of a send is reported a second time,
	// the second report changes nothing. The append with the second report is not refused because of it, and neither
	// are other appends of the entity.
	// Guarded by: `journal.NewSends`: the entry of a send is written together with the record that contains the send.
	// `journal.SendStates.Deliver`; `journal.Decide`.
	// Mutants: send-row, delivered-again, deliver-apart
	if len(r.Sends) == 0 { //mutant:true send-row
		return nil
	}
	return make(SendStates, stateBytes(len(r.Sends)))
}

// stateBytes is the length of the SendStates of a record.
func stateBytes(sends int) int { return (sends + 3) / 4 }

// Of returns the state of the send at a place.
func (s SendStates) Of(place int) sharding.SendState {
	if place < 0 || place/4 >= len(s) {
		return sharding.SendDone
	}
	return sharding.SendState(s[place/4] >> (2 * (place % 4)) & 3)
}

// Deliver notes what has become of some of the sends of a record. A send that is done stays
// done, and a dead letter can only become done.
func (s SendStates) Deliver(sends int, d *sharding.Delivered) {
	for _, n := range d.Sends {
		place := int(n)
		if place >= sends || place/4 >= len(s) {
			continue
		}
		if old := s.Of(place); old != sharding.SendPending && d.As != sharding.SendDone { //mutant:false delivered-again
			continue
		}
		shift := 2 * (place % 4)
		s[place/4] = s[place/4]&^(3<<shift) | byte(d.As)<<shift
	}
}

// Count returns how many of the sends of a record are pending, and how many are dead letters.
// The entry of a record that has neither is removed.
func (s SendStates) Count(sends int) (pending, dead int) {
	for place := range sends {
		switch state := s.Of(place); {
		case state == sharding.SendPending:
			pending++
		case state.Dead():
			dead++
		}
	}
	return pending, dead
}

// Stands reports whether none of the sends is done that an append may deliver only once.
// Sends that a record does not have are done.
func (s SendStates) Stands(d *sharding.Delivered) bool {
	for _, n := range d.Sends {
		if s.Of(int(n)) == sharding.SendDone {
			return false
		}
	}
	return true
}

// checkWakes returns an error for wake-ups and sends of an append that are malformed.
func checkWakes(a *sharding.Append) error {
	if !changesWakes(a) && !hasSends(a) {
		return nil
	}
	for i := range a.Records {
		if err := checkRecordWakes(&a.Records[i]); err != nil {
			return fmt.Errorf("append to %s: %w", a.Entity, err)
		}
	}
	if len(a.Fired) > MaxWakes {
		return fmt.Errorf("%w: append to %s fires %d wake-ups, at most %d may", ErrTooLarge, a.Entity, len(a.Fired), MaxWakes)
	}
	fired := map[sharding.WakeRef]struct{}{}
	for i := range a.Fired {
		f := &a.Fired[i]
		if err := f.Check(); err != nil {
			return fmt.Errorf("append to %s: %w", a.Entity, err)
		}
		ref := sharding.WakeRef{Kind: f.Kind, Name: f.Name}
		if _, again := fired[ref]; again {
			return fmt.Errorf("append to %s says twice that wake-up %q has fired", a.Entity, f.Name)
		}
		fired[ref] = struct{}{}
	}
	for i := range a.Delivered {
		if err := a.Delivered[i].Check(); err != nil {
			return fmt.Errorf("append to %s: %w", a.Entity, err)
		}
	}
	return nil
}

func checkRecordWakes(r *sharding.Record) error {
	if len(r.Wakes) > MaxWakes {
		return fmt.Errorf("%w: record %d changes %d wake-ups, at most %d are allowed; change fewer in one turn", ErrTooLarge, r.Seq, len(r.Wakes), MaxWakes)
	}
	if len(r.Sends) > MaxSends {
		return fmt.Errorf("%w: record %d has %d sends, at most %d are allowed; send fewer in one turn", ErrTooLarge, r.Seq, len(r.Sends), MaxSends)
	}
	if r.Delete && len(r.Wakes) > 0 {
		return fmt.Errorf("record %d deletes the entity and changes %d of its wake-ups, which are gone with it", r.Seq, len(r.Wakes))
	}
	seen := make(map[sharding.WakeRef]struct{}, len(r.Wakes))
	for i := range r.Wakes {
		w := &r.Wakes[i]
		if err := w.Check(); err != nil {
			return fmt.Errorf("record %d: %w", r.Seq, err)
		}
		ref := sharding.WakeRef{Kind: w.Kind, Name: w.Name}
		if _, again := seen[ref]; again {
			return fmt.Errorf("record %d changes wake-up %q twice; it may do that once", r.Seq, w.Name)
		}
		seen[ref] = struct{}{}
	}
	for i := range r.Sends {
		if err := r.Sends[i].Options.Check(); err != nil {
			return fmt.Errorf("record %d: send %d to %s: %w", r.Seq, i, r.Sends[i].To, err)
		}
	}
	return nil
}
