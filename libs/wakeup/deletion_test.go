package wakeup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// TestDeletedEntity: the wake-ups of an entity that was deleted leave the memory with it, and
// do not fire; other entities' wake-ups stay. So it is if the answer of the journal was lost.
func TestDeletedEntity(t *testing.T) { deletedEntity(t) }

func deletedEntity(t testing.TB) {
	for _, silent := range []bool{false, true} {
		m := newModel(t, 1, nil)
		m.claimAll()
		due := m.wall() + 3000
		m.set("a0", "one", due, 0, false)
		m.set("a0", "two", due, 0, false)
		m.set("a3", "other", due, 0, false)
		m.pass(time.Second)
		before := m.k.Stats().Wakes
		m.deletes("a0", silent)
		if after := m.k.Stats().Wakes; before != 3 || after != 1 {
			t.Fatalf("%d entries are in memory after the delete, want 1; %d were there before, want 3", after, before)
		}
		m.pass(10 * time.Second)
		if s := m.k.Stats(); s.Obsolete > 0 || s.Fired != 1 {
			t.Errorf("counted %+v, want one firing, and none in vain", s)
		}
	}
}

// TestDeletedWhileRead: entries of a page for an entity that was deleted while it was being read are
// left out, and so are reminders that were in doubt then. A reminder
// that was set after the delete fires.
func TestDeletedWhileRead(t *testing.T) { deletedWhileRead(t) }

func deletedWhileRead(t testing.TB) {
	for _, silent := range []bool{false, true} {
		m := newModel(t, 1, nil)
		m.set("a0", "one", m.wall()+3000, 0, false)
		m.set("a3", "other", m.wall()+3000, 0, false)
		m.claimAll() // a read is in progress now
		m.deletes("a0", silent)
		m.set("a0", "new", m.wall()+3000, 0, false)
		for range 100 {
			m.pass(20 * time.Millisecond)
			if entries := m.k.Stats().Wakes; entries > 2 {
				t.Fatalf("%d entries are in memory, one of them of the deleted entity", entries)
			}
		}
		m.pass(10 * time.Second)
		if s := m.k.Stats(); s.Obsolete > 0 || s.Fired != 2 || s.Wakes != 0 {
			t.Errorf("fired %v, %+v, want two firings, and none in vain", m.fired, s)
		}
	}
}

// TestGone: a sweep removes wake-ups that the journal does not have any more, though the keeper
// was not notified, even a reminder that keeps failing. What is in progress stays until it has ended.
func TestGone(t *testing.T) { gone(t) }

func gone(t testing.TB) {
	m := newModel(t, 1, func(c *wakeup.Config) { c.Page = 4 })
	m.claimAll()
	for i := range 5 { // they stand, and a sweep has several pages with them
		m.set("a6", fmt.Sprintf("fails%d", i), m.wall()+100, 0, false)
	}
	m.set("a0", "fails", m.wall()+100, 0, false)
	m.set("a0", "waits", m.wall()+40_000, 0, false)
	m.set("a3", "hangs", m.wall()+100, 0, false)
	m.set("a3", "stands", m.wall()+41_000, 0, false)
	m.set("a3", "after", m.wall()+42_000, 0, false)
	m.hangs = func(f turn.Fire) bool { return f.Wakeup.Name == "hangs" }
	m.fails = func(f turn.Fire) turn.FiringEnd {
		if strings.HasPrefix(f.Wakeup.Name, "fails") {
			return turn.FiringFailed
		}
		return turn.FiringDone
	}
	m.pass(5 * time.Second)
	if s := m.k.Stats(); s.Wakes != 10 || s.Failing != 6 || s.Firing != 1 {
		t.Fatalf("before: %+v", s)
	}
	for _, key := range []string{"a0/fails", "a0/waits", "a3/hangs"} {
		delete(m.entries, key)
	}
	m.pass(20 * time.Second)
	if s := m.k.Stats(); s.Wakes != 8 || s.Failing != 5 || s.Firing != 1 {
		t.Errorf("after a sweep: %+v, want what hangs and seven that stand", s)
	}
	m.hangs = nil
	m.pass(40 * time.Second)
	if s := m.k.Stats(); s.Obsolete != 1 || len(m.fired) != 2 || s.Wakes != 5 || s.Failing != 5 {
		t.Errorf("in the end: %+v, fired %v", s, m.fired)
	}
}
