package journaltest

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// cutting is a snapshot that lets the events up to a record go.
func cutting(of sharding.Entity, seq, cut uint64) journal.Op {
	op := snapshot(epoch, of, seq, fmt.Sprint("state ", seq))
	op.Snapshot.Cut = cut
	return op
}

func (e *env) whole(of sharding.Entity) error {
	e.Helper()
	_, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: of, WithoutSnapshot: true})
	return err
}

// testTrim: events that a snapshot has made superfluous go. What is needed of their records
// stays, and nothing is rebuilt from the rest.
func testTrim(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	mail, timer := mailing(3, 2), blank(4)
	mail.Command = ""
	timer.Wakes = []sharding.Wake{setting("t", 100, 0)}
	e.one(durable, add(alice, record(1, "a"), blank(2), mail, timer, record(5, "b"), record(6, "c")))
	before := e.load(alice, "a", "b", "c").Stored
	e.one(durable, cutting(alice, 4, 4))
	for range 2 {
		l := e.load(alice, "a", "b", "c")
		e.equal("cut", l.Cut, uint64(4))
		e.equal("records after the snapshot", l.Records, withoutReplies(records(5, "b", "c")...))
		e.equal("replies", l.Stored, before)
		if err := e.whole(alice); !errors.Is(err, journal.ErrTrimmed) {
			e.Fatalf("without its snapshot the entity is loaded: %v", err)
		}
		e.one(bySeq, drop(alice, 6))
		e.one(byID, add(alice, record(7, "a")))
		e.equal("sends", len(e.sends(e.b, 10, journal.SendPosition{Shard: shard})[0].Sends), 2)
		w := e.wakes(e.b, 200, 10, journal.ShardPosition{Shard: shard})
		e.equal("input of the timer", w[0].Input, timer.Wakes[0].Input)
		e.one(durable, cutting(alice, 4, 2)) // less is no more
	}
	e.one(durable, add(alice, record(7, "d")))
	e.one(durable, snapshot(epoch, alice, 7, "s"))
	e.equal("cut", e.load(alice).Cut, uint64(4))
	e.one(bySeq, snapshot(epoch, alice, 3, "a snapshot in the gap"))
	// Everything may go but the last record: the sequence continues after it.
	e.one(durable, cutting(alice, 7, 7))
	e.equal("last", e.load(alice).LastSeq, uint64(7))
	e.one(durable, add(alice, record(8, "e")))
	// A new life begins with nothing trimmed, and may be rebuilt.
	e.one(durable, add(alice, deletion(9, "gone"), record(10, "new")))
	l := e.load(alice, "a")
	e.equal("cut of the new life", l.Cut, uint64(0))
	e.equal("records of the new life", l.Records, withoutReplies(records(10, "new")...))
	e.equal("reply of the old life", l.Stored, map[sharding.CommandID]sharding.Stored{"a": before["a"]})
	if err := e.whole(alice); err != nil {
		e.Fatal(err)
	}
	e.one(durable, snapshot(epoch, alice, 10, "s"))
	e.one(durable, drop(alice, 10))
	e.one(byEpoch, func() journal.Op { o := cutting(alice, 10, 9); o.Snapshot.Epoch++; return o }())
	e.one(durable, delivering(epoch, alice, 3, 0, 1))
	e.pass(e.cfg.DedupeAge + time.Second)
	e.one(durable, purge(epoch, alice, 9))
	e.equal("left", len(e.left()), 0)
}

// testTrimExpired: records are removed when nothing of them is needed any more, and the keys
// of later records are expired as before.
func testTrimExpired(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	last := uint64(0)
	for range 40 {
		var batch []sharding.Record
		for range 100 {
			last++
			r := record(last, "")
			if last > 3500 {
				r = record(last, sharding.CommandID(fmt.Sprint("k", last)))
			}
			batch = append(batch, r)
		}
		e.one(durable, add(alice, batch...))
		e.one(durable, cutting(alice, last, last-10))
	}
	l := e.load(alice, "k3501", "k4000")
	e.equal("cut", l.Cut, last-10)
	e.equal("replies", len(l.Stored), 2)
	e.one(byID, add(alice, record(last+1, "k3501")))
	e.pass(e.cfg.DedupeAge + time.Second)
	for i := range uint64(3) {
		e.one(durable, add(alice, blank(last+1+i)))
		e.one(durable, cutting(alice, last+1+i, last+i))
	}
	e.equal("last", e.load(alice).LastSeq, last+3)
}
