package wakeup_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// purgeFrom is the due time of the journal behind which deleted entities are.
const purgeFrom = 1 << 62

// model is a journal with wake-ups, and an entity core that runs their commands. A firing takes
// effect by the rule of the journal: only if its setting still stands.
type model struct {
	t       testing.TB
	rng     *rand.Rand
	k       *wakeup.Keeper
	now     time.Time
	ahead   time.Duration                 // difference between the store's clock and now
	entries map[string]*journal.WakeEntry // the entries of the journal, by entity and name
	seq     uint64
	open    map[sharding.ShardID]sharding.Epoch
	epochs  uint32
	reads   []answer    // answers to reads, which have not arrived yet
	fires   []turn.Fire // firings that have not ended yet
	// fails returns the end of a firing; nil: every firing succeeds.
	fails func(turn.Fire) turn.FiringEnd
	// effects counts, for each setting and number, the firings that took effect.
	effects map[string]int
	fired   []string            // the wake-ups that took effect, in their order
	latest  time.Duration       // how late a wake-up took effect, at most
	missed  map[string]int64    // how many due times each wake-up has missed
	asked   int                 // reads so far
	purges  []journal.WakeEntry // the rest of deleted entities
	// hangs reports whether a firing does not end; nil: every firing does.
	hangs   func(turn.Fire) bool
	damaged sharding.ShardID // cannot be read
	room    int              // a page has at most so many entries, of all shards together; 0: any number
}

// answer is the answer to a read on its way.
type answer struct {
	at   time.Time
	page wakeup.Page
}

const shards = 3

func newModel(t testing.TB, seed uint64, change func(*wakeup.Config)) *model {
	cfg := wakeup.DefaultConfig()
	cfg.Seed = seed
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	m := &model{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), k: wakeup.New(cfg), now: time.UnixMilli(1_000_000_000), entries: map[string]*journal.WakeEntry{},
		open: map[sharding.ShardID]sharding.Epoch{}, effects: map[string]int{}, missed: map[string]int64{},
	}
	return m
}

func (m *model) wall() int64 { return m.now.Add(m.ahead).UnixMilli() }

func shardOf(entity string) sharding.ShardID {
	return sharding.ShardID{Type: sharding.EntityType("T" + entity[:1]), Index: uint32(entity[1]) % shards}
}

func (m *model) ent(id string) sharding.Entity {
	return sharding.Entity{Type: shardOf(id).Type, ID: sharding.EntityID(id)}
}

// did checks the keeper after a step, and takes what it wants done.
func (m *model) did(out *wakeup.Outputs) {
	m.t.Helper()
	if err := m.k.Check(); err != nil {
		m.t.Fatal(err)
	}
	m.fires = append(m.fires, out.Fires...)
	m.asked += len(out.Reads)
	for _, r := range out.Reads {
		m.reads = append(m.reads, answer{at: m.now.Add(time.Duration(m.rng.IntN(40)) * time.Millisecond), page: m.page(r)})
	}
}

func (m *model) step(in wakeup.Input) {
	m.t.Helper()
	var out wakeup.Outputs
	m.k.Step(m.now, in, &out)
	m.did(&out)
}

func (m *model) tell(e turn.ShardEvent) {
	m.t.Helper()
	m.k.Observe(m.now, e)
	m.step(wakeup.Tick{})
}

// page reads the entries that the journal has now.
func (m *model) page(r wakeup.Read) wakeup.Page {
	until := r.Until - 1
	if r.Until == 0 { // all reminders
		until = purgeFrom - 1
	}
	p := wakeup.Page{Number: r.Number, WakesPage: journal.WakesPage{Now: time.UnixMilli(m.wall())}}
	for _, after := range r.Shards {
		if after.Shard == m.damaged {
			if p.Damaged = append(p.Damaged, journal.Damaged{Shard: m.damaged}); len(r.Shards) == 1 {
				p.Now = time.Time{}
			}
			continue
		}
		var entries []journal.WakeEntry
		for _, w := range m.entries { // order-free: sorted below
			if w.Shard == after.Shard && w.Due <= until && place(w.Due, string(w.Entity.ID), w.Name) > place(after.After.Due, string(after.After.Entity.ID), after.After.Name) {
				entries = append(entries, *w)
			}
		}
		for _, w := range m.purges {
			if w.Shard == after.Shard && w.Due <= until {
				entries = append(entries, w)
			}
		}
		slices.SortFunc(entries, func(a, b journal.WakeEntry) int {
			return cmp.Compare(place(a.Due, string(a.Entity.ID), a.Name), place(b.Due, string(b.Entity.ID), b.Name))
		})
		if len(entries) >= r.Limit {
			entries = entries[:r.Limit]
			p.More = append(p.More, after.Shard)
		}
		p.Entries = append(p.Entries, entries...)
	}
	if m.room > 0 && len(p.Entries) > m.room {
		for _, w := range p.Entries[m.room:] {
			if !slices.Contains(p.More, w.Shard) {
				p.More = append(p.More, w.Shard)
			}
		}
		p.Entries = p.Entries[:m.room]
	}
	return p
}

func place(due int64, id, name string) string { return fmt.Sprintf("%020d %s %s", due, id, name) }

// set sets a wake-up, or removes it if due is 0, in a record that is durable at once. silent is
// true if the keeper does not learn of the record, because the answer of the journal was lost.
func (m *model) set(id, name string, due, period int64, silent bool) {
	m.t.Helper()
	m.seq++
	key := id + "/" + name
	w := sharding.Wake{Kind: sharding.ReminderWake, Name: name, Due: due, Period: period, Input: sharding.Input{Command: "C"}}
	if due == 0 {
		delete(m.entries, key)
	} else {
		m.entries[key] = &journal.WakeEntry{Shard: shardOf(id), Entity: m.ent(id), Due: due, Period: period, Input: w.Input,
			WakeRef: sharding.WakeRef{Kind: w.Kind, Name: name, Seq: m.seq}}
	}
	s := shardOf(id)
	switch epoch := m.open[s]; {
	case epoch == 0:
	case silent:
		m.tell(turn.WakesUnknown{Shard: s, Epoch: epoch, Entity: m.ent(id)})
	default:
		m.tell(turn.WakesChanged{Shard: s, Epoch: epoch, Entity: m.ent(id), Records: []sharding.Record{{Seq: m.seq, Wakes: []sharding.Wake{w}}}})
	}
}

// deletes deletes an entity, as set does.
func (m *model) deletes(id string, silent bool) {
	m.t.Helper()
	m.seq++
	s := shardOf(id)
	for key, w := range m.entries { // order-free: all of the entity are removed
		if w.Entity == m.ent(id) {
			delete(m.entries, key)
		}
	}
	m.purges = append(m.purges, journal.WakeEntry{Shard: s, Entity: m.ent(id), Due: purgeFrom + m.wall(), WakeRef: sharding.WakeRef{Kind: sharding.PurgeWake, Seq: m.seq}})
	switch epoch := m.open[s]; {
	case epoch == 0:
	case silent:
		m.tell(turn.WakesUnknown{Shard: s, Epoch: epoch, Entity: m.ent(id)})
	default:
		m.tell(turn.WakesChanged{Shard: s, Epoch: epoch, Entity: m.ent(id), Records: []sharding.Record{{Seq: m.seq, Delete: true}}})
	}
}

// fire ends a firing, and tells the keeper.
func (m *model) fire(f turn.Fire) {
	m.t.Helper()
	key := string(f.Entity.ID) + "/" + f.Wakeup.Name
	ended := turn.FiringEnded{Shard: f.Shard, Epoch: f.Epoch, Entity: f.Entity, Ref: f.Wakeup.WakeRef, End: turn.FiringDone}
	if m.open[f.Shard] != f.Epoch {
		ended.End = turn.FiringGone
		m.tell(ended)
		return
	}
	lost := false
	if m.fails != nil {
		switch ended.End = m.fails(f); ended.End {
		case turn.FiringFailed:
			ended.Code = sharding.Internal
			m.tell(ended)
			return
		case turn.FiringInDoubt: // one half of these takes effect
			if lost = true; m.rng.IntN(2) == 0 {
				m.tell(ended)
				return
			}
		default:
			ended.End = turn.FiringDone
		}
	}
	entry := m.entries[key]
	if entry == nil || entry.WakeRef != f.Wakeup.WakeRef {
		ended.End = turn.FiringObsolete
		m.tell(ended)
		return
	}
	if m.wall() < entry.Due || f.Wakeup.Due != entry.Due {
		m.t.Fatalf("%s fires at %d, due at %d and said to be due at %d", key, m.wall(), entry.Due, f.Wakeup.Due)
	}
	m.effects[fmt.Sprintf("%s %d %d", key, entry.Seq, entry.Number)]++
	m.fired = append(m.fired, key)
	m.latest = max(m.latest, time.Duration(m.wall()-entry.Due)*time.Millisecond)
	m.missed[key] += f.Wakeup.Missed
	switch next := f.Wakeup.Next; {
	case entry.Period == 0 && next != 0 || entry.Period > 0 && (next <= entry.Due || (next-entry.Due)/entry.Period != f.Wakeup.Missed+1 || (next-entry.Due)%entry.Period != 0):
		m.t.Fatalf("%s was due at %d with period %d, is due next at %d and has missed %d", key, entry.Due, entry.Period, next, f.Wakeup.Missed)
	case next == 0:
		delete(m.entries, key)
	default:
		entry.Due = next
		entry.Number++
	}
	if lost {
		m.tell(ended)
		return
	}
	m.tell(turn.WakesChanged{Shard: f.Shard, Epoch: f.Epoch, Entity: f.Entity, Fired: []sharding.Fired{{WakeRef: f.Wakeup.WakeRef, Next: f.Wakeup.Next}}})
	m.tell(ended)
}

func (m *model) claim(s sharding.ShardID) {
	m.epochs++
	m.open[s] = sharding.Epoch(m.epochs)
	m.step(wakeup.Open{Shard: s, Epoch: m.open[s]})
}

func (m *model) release(s sharding.ShardID) {
	delete(m.open, s)
	m.step(wakeup.Close{Shard: s})
}

// pass lets time pass in ticks: pages arrive, and firings end.
func (m *model) pass(d time.Duration) {
	m.t.Helper()
	for end := m.now.Add(d); m.now.Before(end); {
		m.now = m.now.Add(20 * time.Millisecond)
		m.deliver()
		m.step(wakeup.Tick{})
	}
}

func (m *model) deliver() {
	m.t.Helper()
	reads := m.reads
	m.reads = nil
	for _, a := range reads {
		switch {
		case a.at.After(m.now):
			m.reads = append(m.reads, a)
		case m.fails != nil && m.rng.IntN(10) == 0:
			m.step(wakeup.Page{Number: a.page.Number, Err: errors.New("unreachable")})
		default:
			m.step(a.page)
		}
	}
	var hung []turn.Fire
	for len(m.fires) > 0 {
		f := m.fires[0]
		if m.fires = m.fires[1:]; m.hangs != nil && m.hangs(f) {
			hung = append(hung, f)
			continue
		}
		m.fire(f)
	}
	m.fires = hung
}

func (m *model) claimAll() {
	for _, typ := range []string{"Ta", "Tb"} {
		for i := range uint32(shards) {
			m.claim(sharding.ShardID{Type: sharding.EntityType(typ), Index: i})
		}
	}
}

// TestRandom runs the keeper against the model. No wake-up fires early, and none takes effect
// twice. In the end all that are due have fired.
func TestRandom(t *testing.T) {
	var all wakeup.Stats
	for seed := range uint64(16) {
		all.Add(random(t, seed))
	}
	if all.Fired < 1000 || all.Failed < 100 || all.Obsolete < 10 || all.ReadsFailed < 10 {
		t.Errorf("%+v: too few of these have happened for the test to show anything", all)
	}
}

func random(t testing.TB, seed uint64) wakeup.Stats {
	m := newModel(t, seed, func(c *wakeup.Config) {
		c.Page, c.Firings, c.ReadShards = 1+int(seed%4), 2, 2
		c.FailingWakes, c.BlockedWakes, c.Wakes = 5, 2, 7+3*c.Page
		c.RetryMax = 4 * time.Second
	})
	m.ahead = time.Duration(m.rng.IntN(200)-100) * time.Second
	m.fails = func(turn.Fire) turn.FiringEnd {
		switch m.rng.IntN(8) {
		case 0:
			return turn.FiringFailed
		case 1:
			return turn.FiringInDoubt
		}
		return turn.FiringDone
	}
	m.hangs = func(turn.Fire) bool { return m.rng.IntN(40) > 0 } // it ends later
	m.room = int(seed % 3)
	m.claimAll()
	for range 400 {
		id := string("ab"[m.rng.IntN(2)]) + string(rune('0'+m.rng.IntN(6)))
		name := string(rune('m' + m.rng.IntN(3)))
		switch m.rng.IntN(13) {
		case 12:
			m.deletes(id, m.rng.IntN(4) == 0)
		case 0:
			m.set(id, name, 0, 0, m.rng.IntN(4) == 0)
		case 1, 2, 3:
			m.set(id, name, m.wall()+int64(m.rng.IntN(200_000)), 0, m.rng.IntN(4) == 0)
		case 4:
			m.set(id, name, m.wall()+int64(m.rng.IntN(20_000)), 1000+int64(m.rng.IntN(60_000)), m.rng.IntN(4) == 0)
		case 5:
			s := shardOf(id)
			if m.open[s] != 0 {
				m.release(s)
			} else {
				m.claim(s)
			}
		case 6:
			m.ahead += time.Duration(m.rng.IntN(3000)) * time.Millisecond // the clock is set
		default:
			m.pass(time.Duration(m.rng.IntN(3000)) * time.Millisecond)
		}
		if c := m.k.Clone(); !bytes.Equal(c.AppendState(m.now, nil), m.k.AppendState(m.now, nil)) {
			t.Fatalf("seed %d: a clone differs", seed)
		}
	}
	for s := range m.open { // order-free: all are claimed again
		m.release(s)
	}
	m.fails, m.hangs = nil, nil
	m.claimAll()
	m.pass(5 * time.Minute)
	for key, w := range m.entries { // order-free: any is an error
		if w.Period == 0 || m.wall()-w.Due > 2000 {
			t.Fatalf("seed %d: %s was due %d ms ago and has not fired\n%s", seed, key, m.wall()-w.Due, m.k.AppendState(m.now, nil))
		}
	}
	for key, n := range m.effects { // order-free: any is an error
		if n > 1 {
			t.Fatalf("seed %d: %s took effect %d times", seed, key, n)
		}
	}
	return m.k.Stats()
}

// TestBacklog: wake-ups that became due while their shards had no owner fire in the order of
// their times. The number of firings in progress is bounded, and so is the memory.
func TestBacklog(t *testing.T) {
	m := newModel(t, 1, func(c *wakeup.Config) { c.Page, c.Firings, c.FailingWakes, c.BlockedWakes, c.Wakes = 10, 4, 5, 5, 60 })
	for i := range 500 {
		m.set(fmt.Sprintf("a0%d", i), "w", m.wall()-1000+int64(i), 0, false)
	}
	m.claimAll()
	m.fires = nil
	most, overdue := 0, time.Duration(0)
	for range 400 {
		m.now = m.now.Add(20 * time.Millisecond)
		reads := m.reads
		m.reads = nil
		for _, a := range reads {
			m.step(a.page)
		}
		most, overdue = max(most, len(m.fires)), max(overdue, m.k.Stats().Overdue)
		if len(m.fires) > 0 {
			f := m.fires[0]
			m.fires = m.fires[1:]
			m.fire(f)
		}
		m.deliverOne()
		m.step(wakeup.Tick{})
	}
	if most != 4 {
		t.Errorf("%d firings were in progress at a time, want 4", most)
	}
	if len(m.fired) < 400 {
		t.Errorf("only %d have fired", len(m.fired))
	}
	if overdue < 5*time.Second || overdue > 9*time.Second { // 400 take 8 s, and all were due within half a second
		t.Errorf("they were overdue by at most %s", overdue)
	}
	if !slices.IsSortedFunc(m.fired, func(a, b string) int { return cmp.Compare(order(a), order(b)) }) {
		t.Errorf("not in the order in which they were due: %v", m.fired)
	}
}

// TestThreeDays: 20,000 wake-ups that became due within two minutes have waited for three days,
// because nothing ran. This is one of three regions that have come back. Each wake-up fires
// once. Where a query and a commit take 10 ms, 99 of 100 have fired within a second after their
// shards were opened.
func TestThreeDays(t *testing.T) {
	m := newModel(t, 1, nil)
	const count = 20_000 / 3
	for i := range count {
		m.set(fmt.Sprintf("a%c%d", 'a'+i%shards, i), "w", m.wall()+int64(i%120_000), 0, false)
	}
	m.now = m.now.Add(72 * time.Hour)
	m.claimAll()
	within := 0
	for round := 1; len(m.fired) < count; round++ {
		if round > 1000 {
			t.Fatalf("only %d have fired after %d rounds", len(m.fired), round)
		}
		m.now = m.now.Add(10 * time.Millisecond)
		reads, fires := m.reads, m.fires
		m.reads, m.fires = nil, nil
		for _, a := range reads {
			m.step(a.page)
		}
		for _, f := range fires {
			m.fire(f)
		}
		m.step(wakeup.Tick{})
		if round <= 100 {
			within = len(m.fired)
		}
	}
	for key, n := range m.effects { // order-free: each for itself
		if n != 1 {
			t.Errorf("%s has fired %d times", key, n)
		}
	}
	if len(m.effects) != count || within < count/100*99 {
		t.Errorf("%d of %d have fired, %d of them within a second", len(m.effects), count, within)
	}
}

func order(key string) int {
	var n int
	_, _ = fmt.Sscanf(strings.TrimSuffix(key, "/w"), "a0%d", &n)
	return n
}

func (m *model) deliverOne() {
	if len(m.fires) > 0 {
		f := m.fires[0]
		m.fires = m.fires[1:]
		m.fire(f)
	}
}

// TestOverdueBehindFailing: how late the oldest wake-up is does not hide behind one that is failing and waits for room, too.
func TestOverdueBehindFailing(t *testing.T) {
	m := newModel(t, 1, func(c *wakeup.Config) { c.Firings = 1 })
	m.claimAll()
	pass := func(d time.Duration) { // without the end of any firing
		for range int(d / (100 * time.Millisecond)) {
			m.now = m.now.Add(100 * time.Millisecond)
			reads := m.reads
			m.reads = nil
			for _, a := range reads {
				m.step(a.page)
			}
			m.step(wakeup.Tick{})
		}
	}
	m.set("a00", "bad", m.wall(), 0, false)
	pass(time.Second)
	m.fails = func(turn.Fire) turn.FiringEnd { return turn.FiringFailed }
	m.deliverOne()
	m.set("a01", "slow", m.wall(), 0, false)
	pass(time.Minute) // it has the only place, and the one that has failed waits for it
	if len(m.fires) != 1 || m.fires[0].Wakeup.Name != "slow" {
		t.Fatalf("in progress: %+v", m.fires)
	}
	m.set("a02", "good", m.wall(), 0, false)
	pass(10 * time.Second)
	if s := m.k.Stats(); s.Failing != 1 || s.Overdue < 9*time.Second || s.Overdue > 10*time.Second {
		t.Errorf("%d fail, others are overdue by %s", s.Failing, s.Overdue)
	}
}

// TestFailingHoldsNobodyBack: more wake-ups fail forever than may be failing in memory. All
// others fire in time.
func TestFailingHoldsNobodyBack(t *testing.T) { failingHoldsNobodyBack(t) }

func failingHoldsNobodyBack(t testing.TB) {
	m := newModel(t, 2, func(c *wakeup.Config) { c.Page, c.Firings, c.FailingWakes, c.BlockedWakes, c.Wakes = 10, 20, 5, 5, 100 })
	m.claimAll()
	failing := 0
	m.fails = func(f turn.Fire) turn.FiringEnd {
		if f.Wakeup.Name == "bad" {
			failing++
			return turn.FiringFailed
		}
		return turn.FiringDone
	}
	m.rng = rand.New(rand.NewPCG(1, 1))
	for i := range 20 {
		m.set(fmt.Sprintf("a0%d", i), "bad", m.wall(), 0, false)
	}
	m.pass(time.Minute)
	m.latest = 0
	for i := range 10 {
		m.set(fmt.Sprintf("a0%d", i), "good", m.wall()+1000, 0, false)
	}
	m.pass(40 * time.Second)
	if len(m.fired) != 10 || m.latest > 100*time.Millisecond {
		t.Errorf("%d of 10 have fired, the latest %s after its time", len(m.fired), m.latest)
	}
	if failing < 60 || failing > 600 {
		t.Errorf("%d failures of 20 that fail forever, in 100 s", failing)
	}
	list := m.k.Failing(sharding.Entity{}, 100)
	if s := m.k.Stats(); s.Failing != 5 || len(list) != 5 || list[0].Times < 2 || list[0].Name != "bad" || list[0].Code != sharding.Internal {
		t.Errorf("failing: %+v %+v", s, list)
	}
	if got := m.k.Failing(list[1].Entity, 100); len(got) != 1 || got[0] != list[1] {
		t.Errorf("of one entity: %+v", got)
	}
	for _, of := range []struct {
		typ  sharding.EntityType
		want int
	}{{"Ta", 3}, {"Tb", 0}} {
		if got := m.k.Failing(sharding.Entity{Type: of.typ}, 3); len(got) != of.want {
			t.Errorf("of type %s: %+v", of.typ, got)
		}
	}
	e := list[1].Entity
	shard := shardOf(string(e.ID))
	if got, ok := m.k.FailingOf(shard, e, "bad"); !ok || got != list[1] || got.RetryAt.Before(m.now) {
		t.Errorf("one that fails: %+v", got)
	}
	if _, ok := m.k.FailingOf(shard, e, "good"); ok {
		t.Error("one that has fired fails")
	}
	if n := m.k.FailingTypes(); len(n) != 1 || n["Ta"] != 5 {
		t.Errorf("by type: %v", n)
	}
	m.release(shard)
	if _, ok := m.k.FailingOf(shard, e, "bad"); ok || m.k.FailingTypes()["Ta"] == 5 {
		t.Error("one of a shard that was released fails")
	}
}

// TestBeyondTheHorizon: a wake-up that is due later than a sweep reads is found by a later
// sweep, and fires on time.
func TestBeyondTheHorizon(t *testing.T) { beyondTheHorizon(t) }

func beyondTheHorizon(t testing.TB) {
	m := newModel(t, 3, nil)
	m.claimAll()
	m.pass(time.Second)
	m.set("a1", "w", m.wall()+200_000, 0, false)
	m.set("a2", "soon", m.wall()+500, 0, false)
	m.pass(199 * time.Second)
	if len(m.fired) != 1 || m.k.Stats().Wakes != 1 {
		t.Fatalf("fired %v, %+v", m.fired, m.k.Stats())
	}
	m.pass(2 * time.Second)
	if len(m.fired) != 2 || m.latest > 100*time.Millisecond {
		t.Errorf("fired %v, up to %s late", m.fired, m.latest)
	}
}

// TestPageOlderThanAChange: if a wake-up changes while a read is in progress, the change counts,
// and not what the page of the read says.
func TestPageOlderThanAChange(t *testing.T) { pageOlder(t) }

func pageOlder(t testing.TB) {
	m := newModel(t, 4, nil)
	m.set("a0", "removed", m.wall()+100, 0, false)
	m.claimAll() // a read is in progress now; both entities are in its shard
	m.set("a0", "removed", 0, 0, false)
	m.set("a3", "set", m.wall()+100, 0, false)
	m.pass(time.Second)
	if s := m.k.Stats(); len(m.fired) != 1 || s.Obsolete != 0 {
		t.Errorf("fired %v, %+v", m.fired, s)
	}
}

// TestToldFirst: due wake-ups do not fire before the keeper has received all events of a step of the machine.
// The last one may say that it is gone.
func TestToldFirst(t *testing.T) { toldFirst(t) }

func toldFirst(t testing.TB) {
	m := newModel(t, 7, nil)
	m.claimAll()
	m.set("a0", "w", m.wall()+1000, 0, false)
	m.set("a0", "v", m.wall()+1000, 0, false)
	m.pass(990 * time.Millisecond)
	m.now = m.now.Add(20 * time.Millisecond)
	delete(m.entries, "a0/w")
	delete(m.entries, "a0/v")
	s := shardOf("a0")
	m.k.Observe(m.now, turn.SendsStored{Shard: s, Epoch: m.open[s], Entity: m.ent("a0")})
	m.k.Observe(m.now, turn.WakesChanged{Shard: s, Epoch: m.open[s], Entity: m.ent("a0"), Records: []sharding.Record{{Seq: 3, Delete: true}}})
	m.pass(time.Second)
	if got := m.k.Stats(); got.Obsolete > 0 || got.Wakes > 0 {
		t.Errorf("%+v, want no firing of a deleted entity", got)
	}
}

// TestPageOutdated: a page counts for nothing if more has changed, or was deleted, while it was
// being read than the keeper has noted.
func TestPageOutdated(t *testing.T) { pageOutdated(t) }

func pageOutdated(t testing.TB) {
	const noted = 4
	for _, deletes := range []bool{false, true} {
		m := newModel(t, 6, func(c *wakeup.Config) { c.Page, c.FailingWakes, c.BlockedWakes, c.Wakes = 2, 1, 1, noted })
		id := func(n int) string { return fmt.Sprintf("a0%d", n) }
		m.set("a0", "removed", m.wall()+100, 0, false)
		m.claimAll() // a read is in progress now; all entities are in its shard
		for n := range noted {
			if deletes {
				m.deletes(id(n), false)
			} else {
				m.set(id(n), "later", m.wall()+1000_000, 0, false)
			}
		}
		if deletes {
			m.deletes("a0", false)
		} else {
			m.set("a0", "removed", 0, 0, false)
		}
		m.set("a3", "set", m.wall()+100, 0, false)
		m.pass(time.Second)
		if s := m.k.Stats(); len(m.fired) != 1 || s.Obsolete != 0 {
			t.Errorf("deletes %t: fired %v, %+v", deletes, m.fired, s)
		}
	}
}

// TestMissed: after a long pause, a periodic wake-up fires once, with the number of missed due
// times.
func TestMissed(t *testing.T) { missed(t) }

func missed(t testing.TB) {
	m := newModel(t, 5, nil)
	m.set("a1", "w", m.wall(), 1000, false)
	m.now = m.now.Add(10*time.Second + 500*time.Millisecond)
	m.claimAll()
	m.pass(100 * time.Millisecond)
	if len(m.fired) != 1 || m.missed["a1/w"] != 10 {
		t.Fatalf("fired %v, missed %d", m.fired, m.missed["a1/w"])
	}
	m.pass(2 * time.Second)
	if len(m.fired) != 3 || m.missed["a1/w"] != 10 {
		t.Errorf("fired %v, missed %d", m.fired, m.missed["a1/w"])
	}
}

// TestLostAnswer: if the outcome of a firing is unknown, the wake-up is read again. It fires
// again only if its setting still stands.
func TestLostAnswer(t *testing.T) { lostAnswers(t) }

func lostAnswers(t testing.TB) {
	for seed := range uint64(10) {
		m := newModel(t, seed, nil)
		m.claimAll()
		m.fails = func(turn.Fire) turn.FiringEnd { return turn.FiringInDoubt }
		m.set("a1", "w", m.wall()+100, 0, false)
		m.pass(150 * time.Millisecond)
		m.fails = nil
		m.pass(2 * time.Second)
		if len(m.fired) != 1 || len(m.entries) != 0 || m.k.Stats().Wakes != 0 {
			t.Errorf("seed %d: fired %v, %+v", seed, m.fired, m.k.Stats())
		}
	}
}
