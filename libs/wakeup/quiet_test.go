package wakeup_test

import (
	"testing"
	"time"
)

// TestQuiet: shards without any reminder are not read again and again. When one is set, it fires.
func TestQuiet(t *testing.T) { quiet(t) }

func quiet(t testing.TB) {
	m := newModel(t, 5, nil)
	m.deletes("a0", false) // its rest to be removed is not a reminder
	m.deletes("b1", false)
	m.set("b1", "far", m.wall()+3_600_000, 0, false) // its shard is not quiet
	m.claimAll()
	m.pass(time.Minute)
	before := m.asked
	m.pass(10 * time.Minute)
	if n := m.asked - before; n > 2*40+2 { // one shard, every 15 s
		t.Errorf("%d reads in ten minutes", n)
	}
	m.release(shardOf("b1"))
	m.pass(time.Minute)
	before = m.asked
	m.pass(10 * time.Minute)
	if m.asked != before {
		t.Errorf("%d reads of shards without reminders", m.asked-before)
	}
	m.set("a1", "w", m.wall()+120_000, 0, false)
	m.set("a2", "lost", m.wall()+120_000, 0, true) // the answer of the journal is lost
	m.pass(121 * time.Second)
	if len(m.fired) != 2 {
		t.Errorf("fired %v", m.fired)
	}
	m.pass(5 * time.Minute) // quiet again
	before = m.asked
	m.pass(10 * time.Minute)
	if m.asked != before {
		t.Errorf("%d reads when all has fired", m.asked-before)
	}
}

// TestNoRoom: a page whose other shards take all its room does not say that a shard has no reminder.
func TestNoRoom(t *testing.T) { noRoom(t) }

func noRoom(t testing.TB) {
	m := newModel(t, 5, nil)
	m.room = 1
	m.ahead = -time.Hour // an old clock: nothing is due for an hour
	m.set("a1", "first", m.wall()+7_200_000, 0, false)
	m.set("a2", "second", m.wall()+7_200_000, 0, false)
	m.claimAll()
	m.pass(time.Second)
	m.ahead = 2 * time.Hour
	m.pass(time.Minute)
	if len(m.fired) != 2 {
		t.Errorf("fired %v", m.fired)
	}
}
