package journaltest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// testWakePages: however long the pages are, each entry is in exactly one of them. The entries of a
// shard come in the order in which they are due. Many shards are read at once.
func testWakePages(e *env) {
	var shards []journal.ShardPosition
	want := map[sharding.ShardID]int{}
	for n := range uint32(12) {
		s := sharding.ShardID{Type: alice.Type, Index: n}
		if n == 11 {
			s = sharding.ShardID{Type: "Account2", Index: 3}
		}
		shards = append(shards, journal.ShardPosition{Shard: s})
		e.one(durable, claim(s, epoch, 1))
		for i := range int(n) * 3 {
			id := sharding.Entity{Type: s.Type, ID: sharding.EntityID(fmt.Sprint(n, "-", (i*7)%5, "é", i))}
			r := waking(1)
			for k := range 1 + i%3 { // many are due at the same time
				r.Wakes = append(r.Wakes, setting(fmt.Sprint("w", k), int64(1000+(i+k)%4), 0))
			}
			e.one(durable, journal.Op{Append: &sharding.Append{Shard: s, Epoch: epoch, Entity: id, Records: []sharding.Record{r}}})
			want[s] += len(r.Wakes)
		}
	}
	for what, r := range map[string]journal.Reader{"backend": e.b, "reader": e.openReader()} {
		var whole []journal.WakeEntry
		for _, limit := range []int{1000, 1, 3, 36} {
			got := e.wakes(r, 0, limit, shards...)
			slices.SortStableFunc(got, func(a, b journal.WakeEntry) int { return a.Shard.Compare(b.Shard) })
			count := map[sharding.ShardID]int{}
			for i, w := range got {
				count[w.Shard]++
				if w.Err != nil || string(w.Input.Payload) != w.Name {
					e.Fatalf("%s: %+v", what, w)
				}
				if i > 0 && got[i-1].Shard == w.Shard && got[i-1].Due > w.Due {
					e.Fatalf("%s: %+v comes after %+v", what, w, got[i-1])
				}
			}
			e.equal(fmt.Sprint(what, ": entries in pages of ", limit), count, want)
			if whole == nil {
				whole = got
			}
			e.equal(fmt.Sprint(what, ": in pages of ", limit), got, whole)
		}
		var before int
		for _, w := range whole {
			if w.Due < 1002 {
				before++
			}
		}
		e.equal(what+": due before 1002", len(e.wakes(r, 1002, 5, shards...)), before)
		e.equal(what+": due before the first", len(e.wakes(r, 1000, 5, shards...)), 0)
		for i := range shards {
			shards[i].After = journal.WakePosition{Due: 1002}
		}
		e.equal(what+": from 1002 on", len(e.wakes(r, 0, 5, shards...)), len(whole)-before)
		// After names an entity that is not stored. A database orders the entries of one due time by
		// numbers that it has given to the entities, so it does not know where that entity was. It
		// returns all entries of the due time again, and leaves none out. The store in memory orders
		// them by entity id, and may leave entries of that time out. (It has no Renumber.)
		isDatabase := e.store.Renumber != nil
		for i := range shards {
			shards[i].After = journal.WakePosition{Due: 1002, Entity: sharding.Entity{Type: shards[i].Shard.Type, ID: "gone"}, Kind: sharding.ReminderWake, Name: "x"}
		}
		if got := len(e.wakes(r, 0, 5, shards...)); got < len(whole)-before && isDatabase {
			e.Errorf("%s: %d entries from the due time of an unknown entity on, want %d", what, got, len(whole)-before)
		}
		for i := range shards {
			shards[i].After = journal.WakePosition{}
		}
	}
}

// testSendPages is testWakePages for sends.
func testSendPages(e *env) {
	var shards []journal.SendPosition
	want := map[sharding.ShardID]int{}
	for n := range uint32(8) {
		s := sharding.ShardID{Type: alice.Type, Index: n}
		shards = append(shards, journal.SendPosition{Shard: s})
		e.one(durable, claim(s, epoch, 1))
		for i := range int(n) {
			id := sharding.Entity{Type: s.Type, ID: sharding.EntityID(fmt.Sprint(n, "-", (i*7)%5, "é", i))}
			e.one(durable, journal.Op{Append: &sharding.Append{Shard: s, Epoch: epoch, Entity: id, Records: []sharding.Record{mailing(1, 1), blank(2), mailing(3, 9)}}})
			want[s] += 2
		}
	}
	for what, r := range map[string]journal.Reader{"backend": e.b, "reader": e.openReader()} {
		var whole []journal.SendEntry
		for _, limit := range []int{1000, 1, 3, 14} {
			got := e.sends(r, limit, shards...)
			slices.SortStableFunc(got, func(a, b journal.SendEntry) int { return a.Shard.Compare(b.Shard) })
			count := map[sharding.ShardID]int{}
			for i, s := range got {
				count[s.Shard]++
				if s.Err != nil || !s.At.Equal(e.now) || !slices.EqualFunc(s.Sends, mailing(s.Seq, len(s.Sends)).Sends, func(a, b sharding.Send) bool {
					return a.To == b.To && a.ReplyTo == b.ReplyTo && bytes.Equal(a.Input.Payload, b.Input.Payload)
				}) {
					e.Fatalf("%s: %+v", what, s)
				}
				if i > 0 && got[i-1].Entity == s.Entity && got[i-1].Seq >= s.Seq {
					e.Fatalf("%s: %+v comes after %+v", what, s, got[i-1])
				}
			}
			e.equal(fmt.Sprint(what, ": entries in pages of ", limit), count, want)
			if whole == nil {
				whole = got
			}
			e.equal(fmt.Sprint(what, ": in pages of ", limit), got, whole)
		}
	}
}

// testPageBytes: a page reads about Config.PageBytes of the records, and in any case one record.
func testPageBytes(e *env) {
	cfg := e.cfg
	cfg.PageBytes = 3000
	e.store = e.fresh(e.T, cfg, e.clock)
	e.b = e.open()
	const entities, size = 12, 1000
	var shards []journal.ShardPosition
	var senders []journal.SendPosition
	for n := range uint32(3) {
		s := sharding.ShardID{Type: alice.Type, Index: n}
		shards, senders = append(shards, journal.ShardPosition{Shard: s}), append(senders, journal.SendPosition{Shard: s})
		e.one(durable, claim(s, epoch, 1))
		for i := range entities {
			r := mailing(1, 1)
			r.Sends[0].Input.Payload = make([]byte, size<<(i%5))
			r.Wakes = []sharding.Wake{setting("w", 5, 0)}
			id := sharding.Entity{Type: s.Type, ID: sharding.EntityID(fmt.Sprint(n, "-", i))}
			e.one(durable, journal.Op{Append: &sharding.Append{Shard: s, Epoch: epoch, Entity: id, Records: []sharding.Record{r}}})
		}
	}
	p, err := e.b.Wakes(e.Context(), journal.WakesRequest{Shards: shards, Limit: 1000})
	if err != nil || len(p.Entries) == 0 || len(p.Entries) > 3 || len(p.More) != len(shards) {
		e.Fatalf("a page has %d entries, more of %v, %v", len(p.Entries), p.More, err)
	}
	e.equal("wake-ups", len(e.wakes(e.b, 0, 1000, shards...)), 3*entities)
	e.equal("sends", len(e.sends(e.b, 1000, senders...)), 3*entities)
}

// testDamagedWakes: if a record is damaged, the entries of its wake-ups and sends have an error, and
// no other entries have one.
func testDamagedWakes(e *env) {
	if e.store.Damage == nil {
		e.Skip("this store cannot be damaged")
	}
	e.one(durable, claim(shard, epoch, 1))
	for _, id := range []sharding.Entity{alice, bob, carol} {
		r := mailing(2, 1)
		r.Wakes = []sharding.Wake{setting("a", 5, 0), setting("b", 6, 0)}
		e.one(durable, add(id, record(1, "x"), r))
	}
	if err := e.store.Damage(bob, 2); err != nil {
		e.Fatal(err)
	}
	if e.store.Renumber != nil {
		// Record 2 of carol becomes record 3, so the record of her entries is missing.
		if err := e.store.Renumber(carol, 2, 3); err != nil {
			e.Fatal(err)
		}
	}
	for what, r := range map[string]journal.Reader{"backend": e.b, "reader": e.openReader()} {
		for _, limit := range []int{1, 100} {
			good, bad := 0, 0
			check := func(of sharding.Entity, err error) {
				e.Helper()
				switch {
				case of == alice && err == nil, of == carol && err == nil && e.store.Renumber == nil:
					good++
				case of != alice && is(err, journal.ErrCorrupt):
					bad++
				default:
					e.Errorf("%s: %s: %v", what, of, err)
				}
			}
			for _, w := range e.wakes(r, 0, limit, journal.ShardPosition{Shard: shard}) {
				if check(w.Entity, w.Err); w.Name != "a" && w.Name != "b" || w.Seq != 2 {
					e.Errorf("%s: %+v", what, w)
				}
			}
			for _, s := range e.sends(r, limit, journal.SendPosition{Shard: shard}) {
				if check(s.Entity, s.Err); s.Seq != 2 || len(s.States) != 1 {
					e.Errorf("%s: %+v", what, s)
				}
			}
			// Each of the three entities has two wake-ups, and one entry of sends.
			if good+bad != 9 || bad < 3 {
				e.Errorf("%s: %d entries are good, %d damaged", what, good, bad)
			}
		}
	}
	// The wake-up and the sends of a damaged record can still be ended.
	e.one(durable, firing(epoch, bob, []sharding.Fired{fired("a", 2, 0, 0)}))
	e.one(durable, delivering(epoch, bob, 2, 0))
}
