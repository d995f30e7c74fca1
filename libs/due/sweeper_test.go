package due_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

type shard struct {
	due.Shard
	read int // pages
}

type sweeper = due.Sweeper[*shard, sharding.ShardID] // an entry is the name of its shard

// world is a core that reads each shard again and again, every second.
type world struct {
	testing.TB
	now     time.Time
	w       sweeper
	want    func(*shard) due.Want
	damaged sharding.ShardID
	err     error // of every read
	reads   int
}

func newWorld(t testing.TB, shards int) *world {
	limits := due.Limits{ReadShards: 2, RetryMin: time.Second, RetryMax: 8 * time.Second, DamagedMax: 30 * time.Second}
	m := &world{TB: t, now: time.UnixMilli(1_000_000), w: due.New[*shard](limits, func(id *sharding.ShardID) sharding.ShardID { return *id })}
	m.want = func(*shard) due.Want { return due.Take }
	for i := range shards {
		m.w.Open(&shard{Shard: due.Shard{ID: name(i), Epoch: sharding.Epoch(i + 1), ReadAt: m.now}})
	}
	return m
}

func name(i int) sharding.ShardID { return sharding.ShardID{Type: "T", Index: uint32(i)} }

// begin begins a read, and returns the function that answers it; nil: no read has begun.
func (m *world) begin() (answer func()) {
	m.Helper()
	number, read := m.w.Begin(m.now, m.want)
	m.check()
	if len(read) == 0 {
		return nil
	}
	m.reads++
	page := journal.Page[sharding.ShardID]{Now: m.now}
	for _, s := range read {
		if s.ID == m.damaged {
			page.Damaged = append(page.Damaged, journal.Damaged{Shard: s.ID})
			continue
		}
		page.Entries, page.More = append(page.Entries, s.ID, s.ID), append(page.More, s.ID)
	}
	return func() {
		m.Helper()
		for _, p := range m.w.Page(m.now, number, &page, m.err) {
			if p.Shard.Reading = false; p.Failed {
				continue
			}
			if len(p.Entries) != 2 || p.Entries[1] != p.Shard.ID || !p.More {
				m.Fatalf("the part of %v is %+v", p.Shard.ID, p)
			}
			p.Shard.read++
			m.w.ReadBy(p.Shard, m.now.Add(time.Second))
		}
		if len(m.w.Page(m.now, number, &page, nil)) > 0 {
			m.Fatal("an answer is taken in twice")
		}
		m.check()
	}
}

func (m *world) check() {
	m.Helper()
	copies := map[*shard]*shard{}
	clone := m.w.Clone(func(s *shard) *shard {
		if copies[s] == nil {
			x := *s
			copies[s] = &x
		}
		return copies[s]
	})
	state := func(w *sweeper) string {
		return string(w.AppendState(m.now, nil, func(b []byte, s *shard) []byte { return fmt.Append(b, s.read, s.Reading) }))
	}
	if err := errors.Join(m.w.Check(), clone.Check()); err != nil || state(&m.w) != state(&clone) {
		m.Fatalf("%v\n%s\n%s", err, state(&m.w), state(&clone))
	}
}

// pass lets time pass, and answers reads at once.
func (m *world) pass(d time.Duration) {
	m.Helper()
	for end := m.now.Add(d); m.now.Before(end); m.now = m.now.Add(20 * time.Millisecond) {
		if answer := m.begin(); answer != nil {
			answer()
		}
	}
}

// TestTurns: if not all shards fit into a read, they take turns. None waits until the others want no more.
func TestTurns(t *testing.T) { turns(t) }

func turns(t testing.TB) {
	m := newWorld(t, 5)
	for range 50 {
		m.begin()()
		for _, s := range m.w.Shards() {
			m.w.ReadBy(s, m.now)
		}
	}
	for _, s := range m.w.Shards() {
		if s.read != 20 {
			t.Errorf("%v was read %d times, want 20", s.ID, s.read)
		}
	}
}

// TestDamagedShard: a shard whose entries cannot be read is read more and more rarely, and holds back no other.
func TestDamagedShard(t *testing.T) { damagedShard(t) }

func damagedShard(t testing.TB) {
	m := newWorld(t, 2)
	m.damaged = name(0)
	m.pass(10 * time.Minute)
	if n, d := m.w.Shard(name(1)).read, m.w.Shard(name(0)).Damaged; n < 580 || d < 20 || d > 50 || m.w.Unreadable != uint64(d) {
		t.Errorf("the good shard was read %d times, the damaged one %d", n, d)
	}
	m.damaged = sharding.ShardID{}
	m.pass(31 * time.Second)
	if s := m.w.Shard(name(0)); s.read == 0 || s.Damaged > 0 {
		t.Errorf("the repaired shard was read %d times", s.read)
	}
}

// TestFailedReads: after a read that has failed the next one waits, longer after each that follows.
func TestFailedReads(t *testing.T) {
	m := newWorld(t, 3)
	m.err = errors.New("silent")
	m.pass(10 * time.Minute)
	if n := m.reads; n < 75 || n > 155 || m.w.Failed != uint64(n) {
		t.Errorf("%d reads in 10 min, want one every 4 to 8 s", n)
	}
	m.err = nil
	m.pass(9 * time.Second)
	for _, s := range m.w.Shards() {
		if s.read == 0 {
			t.Errorf("%v is not read again", s.ID)
		}
	}
}

// TestClosedWhileRead: the part of a shard that was closed is dropped, also if it is open again.
func TestClosedWhileRead(t *testing.T) {
	m := newWorld(t, 2)
	answer := m.begin()
	m.w.Close(name(0))
	again := &shard{Shard: due.Shard{ID: name(0), Epoch: 9, ReadAt: m.now}}
	m.w.Open(again)
	if m.begin() != nil || m.w.Pending() != 2 {
		t.Fatal("two reads are in progress")
	}
	if answer(); again.read > 0 || m.w.Shard(name(1)).read != 1 || m.w.At(name(0), 1) != nil || m.w.At(name(0), 9) != again {
		t.Errorf("the shard got %d pages of its predecessor", again.read)
	}
	if m.begin()(); again.read != 1 {
		t.Error("the shard is not read")
	}
}

// TestRoom: a shard without room waits until entries have left the memory; one of the next read does not.
func TestRoom(t *testing.T) {
	m := newWorld(t, 2)
	m.want = func(s *shard) due.Want { return due.Room }
	m.pass(time.Minute)
	if m.w.MadeRoom(m.now); !m.w.Alarm().After(m.now) || m.w.Alarm().After(m.now.Add(20*time.Millisecond)) {
		t.Errorf("the next read is at %v", m.w.Alarm().Sub(m.now))
	}
	m.want = func(s *shard) due.Want { return []due.Want{due.Take, due.Next, due.Skip}[(int(s.ID.Index)+s.read)%3] }
	m.now = m.now.Add(20 * time.Millisecond)
	if m.begin()(); m.w.Shard(name(0)).read != 1 || m.w.Shard(name(1)).read != 0 || !m.w.Alarm().Equal(m.now) {
		t.Errorf("the next read is at %v", m.w.Alarm().Sub(m.now))
	}
	m.want = func(s *shard) due.Want { return due.Room }
	m.w.WaitForRoom(m.now.Add(time.Second))
	if m.begin() != nil || !m.w.LacksRoom() {
		t.Error("a read without room")
	}
}

// TestClock: a page that was late, or that could not be read, does not set the clock of the store back.
func TestClock(t *testing.T) { clock(t) }

func clock(t testing.TB) {
	m := newWorld(t, 1)
	for _, page := range []struct {
		took time.Duration
		read bool
	}{{read: true}, {5 * time.Second, true}, {}} {
		number, read := m.w.Begin(m.now, m.want)
		var store time.Time
		if page.read {
			store = m.now.Add(time.Hour)
		}
		m.now = m.now.Add(page.took)
		m.w = m.w.Clone(func(s *shard) *shard { return s }) // it knows when the read began
		m.w.Page(m.now, number, &journal.Page[sharding.ShardID]{Now: store}, nil)
		read[0].Reading = false
		m.w.ReadBy(read[0], m.now)
		if ahead := m.w.Clock.Now(m.now).Sub(m.now); ahead != time.Hour {
			t.Errorf("after %+v, the clock of the store is ahead by %v", page, ahead)
		}
	}
}
