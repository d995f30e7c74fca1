package wakeup_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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

// startModel is a journal with remembered entities, and an entity core that starts them.
type startModel struct {
	t       testing.TB
	rng     *rand.Rand
	s       *wakeup.Starter
	cfg     wakeup.StartConfig
	now     time.Time
	entries map[string]int64 // last activity, by entity
	open    map[sharding.ShardID]sharding.Epoch
	epochs  uint32
	reads   []answer
	begun   []begun
	alive   map[string]bool
	// ends returns the end of a start; nil: as it should.
	ends   func(id string) turn.StartEnd
	order  []string    // of all starts
	starts []time.Time // of all starts
	most   int         // that were in progress at a time, of one type
	held   int         // the most entries in memory
	slow   bool        // starts take a while
}

// begun is a start in progress.
type begun struct {
	at time.Time
	in turn.StartEntity
}

func newStartModel(t testing.TB, seed uint64, change func(*wakeup.StartConfig)) *startModel {
	cfg := wakeup.DefaultStartConfig()
	cfg.Seed = seed
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return &startModel{
		t: t, rng: rand.New(rand.NewPCG(seed, 2)), s: wakeup.NewStarter(cfg), cfg: cfg, now: time.UnixMilli(1_000_000_000), entries: map[string]int64{},
		open: map[sharding.ShardID]sharding.Epoch{}, alive: map[string]bool{},
	}
}

func (m *startModel) did(out *wakeup.Outputs) {
	m.t.Helper()
	if err := m.s.Check(); err != nil {
		m.t.Fatal(err)
	}
	m.held = max(m.held, m.s.Stats().Wakes)
	for _, r := range out.Reads {
		m.reads = append(m.reads, answer{at: m.now.Add(time.Duration(m.rng.IntN(20)) * time.Millisecond), page: m.page(r)})
	}
	for _, a := range out.Starts {
		took := time.Millisecond
		if m.slow {
			took = time.Duration(m.rng.IntN(400)) * time.Millisecond
		}
		m.order, m.starts = append(m.order, string(a.Entity.ID)), append(m.starts, m.now)
		m.begun = append(m.begun, begun{m.now.Add(took), a})
	}
	byType := map[sharding.EntityType]int{}
	for _, b := range m.begun {
		byType[b.in.Entity.Type]++
		m.most = max(m.most, byType[b.in.Entity.Type])
	}
}

func (m *startModel) step(in wakeup.Input) {
	m.t.Helper()
	var out wakeup.Outputs
	m.s.Step(m.now, in, &out)
	m.did(&out)
}

func (m *startModel) tell(e turn.ShardEvent) {
	m.t.Helper()
	var out wakeup.Outputs
	m.s.Observe(m.now, e, &out)
	m.did(&out)
}

func (m *startModel) page(r wakeup.Read) wakeup.Page {
	if !r.Remembered || r.Until != 1 {
		m.t.Errorf("read %+v is not about remembered entities", r)
	}
	p := wakeup.Page{Number: r.Number, Remembered: true, WakesPage: journal.WakesPage{Now: m.now}}
	for _, after := range r.Shards {
		var entries []journal.WakeEntry
		for id, at := range m.entries { // order-free: sorted below
			entry := journal.WakeEntry{Shard: shardOf(id), Entity: sharding.Entity{Type: shardOf(id).Type, ID: sharding.EntityID(id)}, Due: -at}
			if entry.Shard == after.Shard && (entry.Due > after.After.Due || entry.Due == after.After.Due && id > string(after.After.Entity.ID)) {
				entries = append(entries, entry)
			}
		}
		slices.SortFunc(entries, func(a, b journal.WakeEntry) int { return cmp.Or(cmp.Compare(a.Due, b.Due), a.Entity.Compare(b.Entity)) })
		if len(entries) >= r.Limit {
			entries = entries[:r.Limit]
			p.More = append(p.More, after.Shard)
		}
		p.Entries = append(p.Entries, entries...)
	}
	return p
}

// claim opens a shard at a new epoch, and ends all that lives in it.
func (m *startModel) claim(id sharding.ShardID) {
	m.t.Helper()
	m.lose(id)
	m.epochs++
	m.open[id] = sharding.MakeEpoch(1, m.epochs)
	m.step(wakeup.Open{Shard: id, Epoch: m.open[id]})
}

func (m *startModel) lose(id sharding.ShardID) {
	m.t.Helper()
	if m.open[id] == 0 {
		return
	}
	delete(m.open, id)
	for e := range m.alive { // order-free: all of the shard end
		if shardOf(e) == id {
			delete(m.alive, e)
		}
	}
	m.begun = slices.DeleteFunc(m.begun, func(b begun) bool { return b.in.Shard == id })
	m.step(wakeup.Close{Shard: id})
}

func (m *startModel) claimAll() {
	m.t.Helper()
	for _, typ := range []sharding.EntityType{"Ta", "Tb"} {
		for i := range uint32(shards) {
			m.claim(sharding.ShardID{Type: typ, Index: i})
		}
	}
}

// pass lets time pass, tick by tick.
func (m *startModel) pass(d time.Duration) {
	m.t.Helper()
	for end := m.now.Add(d); m.now.Before(end); m.now = m.now.Add(20 * time.Millisecond) {
		reads := m.reads
		m.reads = nil
		for {
			i := slices.IndexFunc(m.begun, func(b begun) bool { return !b.at.After(m.now) })
			if i < 0 {
				break
			}
			b := m.begun[i]
			m.begun = slices.Delete(m.begun, i, i+1)
			m.end(b)
		}
		for _, r := range reads {
			if r.at.After(m.now) {
				m.reads = append(m.reads, r)
			} else {
				m.step(r.page)
			}
		}
		m.step(wakeup.Tick{})
	}
}

// end ends a start.
func (m *startModel) end(b begun) {
	m.t.Helper()
	id := string(b.in.Entity.ID)
	e := turn.StartEnded{Shard: b.in.Shard, Epoch: b.in.Epoch, Entity: b.in.Entity, End: turn.StartDone}
	if m.ends != nil {
		e.End = m.ends(id)
	}
	if e.End == turn.StartDone {
		m.alive[id] = true
	}
	m.tell(e)
}

// dead names an entity of an open shard that is not alive, or returns "".
func (m *startModel) dead() string {
	for _, id := range slices.Sorted(maps.Keys(m.entries)) {
		if m.open[shardOf(id)] != 0 && !m.alive[id] {
			return id
		}
	}
	return ""
}

// TestStartRandom: whatever happens, all remembered entities of the open shards are alive in the
// end, and the limits are kept.
func TestStartRandom(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { startRandom(t, seed) })
	}
}

func startRandom(t testing.TB, seed uint64) {
	m := newStartModel(t, seed, func(c *wakeup.StartConfig) {
		rng := rand.New(rand.NewPCG(seed, 3))
		c.Page, c.ReadShards, c.Limit, c.Failing = 1+rng.IntN(4), 1+rng.IntN(4), 1+rng.IntN(4), 1+rng.IntN(6)
		c.Wakes, c.BackOff, c.BackOffMax = c.Page*(1+rng.IntN(3)), time.Second, 4*time.Second
		if rng.IntN(2) == 0 {
			c.Strategy, c.Number = wakeup.StartConstant, 1+rng.IntN(3)
		}
	})
	m.slow = true
	for i := range m.rng.IntN(80) {
		m.entries[fmt.Sprintf("%c%c%d", 'a'+m.rng.IntN(2), 'a'+m.rng.IntN(26), i)] = 1 + m.rng.Int64N(20)
	}
	m.ends = func(string) turn.StartEnd {
		return []turn.StartEnd{turn.StartDone, turn.StartDone, turn.StartFailed, turn.StartPostponed}[m.rng.IntN(4)]
	}
	m.claimAll()
	for range 40 {
		m.pass(time.Duration(m.rng.IntN(600)) * time.Millisecond)
		ids := slices.Sorted(maps.Keys(m.entries))
		if len(ids) == 0 {
			break
		}
		id := ids[m.rng.IntN(len(ids))]
		s := shardOf(id)
		switch m.rng.IntN(6) {
		case 0:
			m.claim(s)
		case 1:
			m.lose(s)
		case 2: // it dies
			if m.alive[id] {
				delete(m.alive, id)
				m.tell(turn.RememberedLost{Shard: s, Epoch: m.open[s], Entity: sharding.Entity{Type: s.Type, ID: sharding.EntityID(id)}})
			}
		case 3: // the answer to a read is an error
			for i := range m.reads {
				p := &m.reads[i].page
				*p = wakeup.Page{Number: p.Number, Remembered: true, Err: errors.New("lost")}
			}
		case 4:
			if c := m.s.Clone(); string(c.AppendState(m.now, nil)) != string(m.s.AppendState(m.now, nil)) || c.Check() != nil {
				t.Errorf("the clone differs: %v", c.Check())
			}
		}
	}
	m.ends = nil
	m.pass(3 * time.Minute)
	if id := m.dead(); id != "" {
		t.Errorf("%s is not alive; %s", id, m.s.AppendState(m.now, nil))
	}
	if m.most > m.cfg.Limit {
		t.Errorf("%d entities of a type were being started at a time, at most %d may", m.most, m.cfg.Limit)
	}
	if st := m.s.Stats(); st.Wakes != 0 || st.Starting != 0 || st.Failing != 0 {
		t.Errorf("all is done, and it holds %+v", st)
	}
	m.checkRate()
}

// checkRate checks that a constant rate was kept: between as many starts as fit into three
// pauses, two pauses pass at least.
func (m *startModel) checkRate() {
	m.t.Helper()
	n := 3*m.cfg.Number*2 + 1 // of two types
	if m.cfg.Strategy != wakeup.StartConstant {
		return
	}
	for i := n; i < len(m.starts); i++ {
		if took := m.starts[i].Sub(m.starts[i-n]); took < 2*m.cfg.Frequency {
			m.t.Errorf("%d entities were started in %s", n, took)
			return
		}
	}
}

// TestStartOrder: the entities that were active last are started first, though they are in
// several shards, and in memory is one page of each.
func TestStartOrder(t *testing.T) { startOrder(t) }

func startOrder(t testing.TB) {
	m := newStartModel(t, 1, func(c *wakeup.StartConfig) { c.Limit, c.Page = 1, 4 })
	for i := range 300 {
		m.entries[fmt.Sprintf("a%c%03d", 'a'+i%26, i)] = int64(1 + i*7919%300)
	}
	m.claimAll()
	m.pass(time.Minute)
	if id := m.dead(); id != "" || len(m.order) != 300 {
		t.Fatalf("%s is not alive; %d starts", id, len(m.order))
	}
	wrong := 0 // when a page of a shard is used up, the others go on while the next one is read
	for i := range m.order {
		for _, later := range m.order[i+1:] {
			if m.entries[later] > m.entries[m.order[i]] {
				wrong++
			}
		}
	}
	if wrong > 300 {
		t.Errorf("%d pairs of 300 entities were started in the wrong order: %s", wrong, strings.Join(m.order, " "))
	}
	if first := m.entries[m.order[0]]; first != 300 {
		t.Errorf("the first one was active at %d, not 300", first)
	}
	if m.held > 4*2*shards {
		t.Errorf("%d entries were in memory, a page has 4", m.held)
	}
}

// TestStartManyCostsAPage: of a shard with many remembered entities a page is in memory.
func TestStartManyCostsAPage(t *testing.T) {
	m := newStartModel(t, 1, nil)
	for i := range 3000 {
		m.entries[fmt.Sprintf("aa%d", i)] = int64(1 + i)
	}
	m.claim(shardOf("aa"))
	m.pass(15 * time.Second)
	if m.held > m.cfg.Page || m.dead() != "" {
		t.Errorf("%d entries were in memory, a page has %d; %s is dead", m.held, m.cfg.Page, m.dead())
	}
}

// TestStartFailureHoldsNobodyUp: what cannot be started is tried again after pauses that grow, and
// the others are started meanwhile.
func TestStartFailureHoldsNobodyUp(t *testing.T) { startFailures(t) }

func startFailures(t testing.TB) {
	m := newStartModel(t, 1, func(c *wakeup.StartConfig) { c.Limit = 2 })
	for i := range 20 {
		m.entries[fmt.Sprintf("aa%d", i)] = int64(1 + i)
	}
	tries := map[string][]time.Time{}
	m.ends = func(id string) turn.StartEnd {
		if strings.HasSuffix(id, "9") { // the first ones
			tries[id] = append(tries[id], m.now)
			return turn.StartFailed
		}
		return turn.StartDone
	}
	m.claim(shardOf("aa"))
	m.pass(2 * time.Second)
	if len(m.alive) != 18 {
		t.Errorf("%d entities are alive in addition to two that fail", len(m.alive))
	}
	m.pass(time.Hour)
	for id, at := range tries {
		if n := len(at); n < 10 || n > 40 {
			t.Errorf("%s was tried %d times in an hour", id, n)
			continue
		}
		if first := at[1].Sub(at[0]); first < m.cfg.BackOff || first > m.cfg.BackOff+time.Second {
			t.Errorf("%s was tried again after %s", id, first)
		}
	}
	if st := m.s.Stats(); st.Failing != 2 {
		t.Errorf("%+v", st)
	}
	list := m.s.Failing(sharding.Entity{}, 10)
	if len(list) != 2 || list[0].Times < 10 || m.now.Sub(list[0].Since) < time.Hour || len(m.s.Failing(list[1].Entity, 10)) != 1 {
		t.Fatalf("failing: %+v", list)
	}
	if got, ok := m.s.FailingOf(list[1].Entity); !ok || got != list[1] || m.s.FailingTypes()[got.Entity.Type] != 2 {
		t.Errorf("one that fails: %+v, %v", got, m.s.FailingTypes())
	}
	if got, ok := m.s.FailingOf(sharding.Entity{Type: shardOf("aa").Type, ID: "aa1"}); ok {
		t.Errorf("one that is alive: %+v", got)
	}
}

// TestStartRate: the rate is kept if steps are as rare as groups or rarer, and come a little earlier or later, and at NextStart.
func TestStartRate(t *testing.T) { startRate(t) }

func startRate(t testing.TB) {
	for _, test := range []struct {
		frequency time.Duration
		alarms    bool
		tick      time.Duration
	}{
		{20 * time.Millisecond, false, 20 * time.Millisecond}, {8 * time.Millisecond, false, 20 * time.Millisecond},
		{3 * time.Millisecond, false, 20 * time.Millisecond}, {5 * time.Millisecond, true, 20 * time.Millisecond},
		{10 * time.Millisecond, false, 58 * time.Millisecond}, // later than what a step makes up for
		{40 * time.Millisecond, false, 60 * time.Millisecond},
	} {
		m := newStartModel(t, 1, func(c *wakeup.StartConfig) {
			c.Strategy, c.Frequency, c.Number = wakeup.StartConstant, test.frequency, 5
			c.Page, c.Wakes = 1000, 20_000 // reads must not be what limits it
		})
		for i := range 8000 {
			m.entries[fmt.Sprintf("aa%d", i)] = int64(1 + i)
		}
		m.claimAll()
		m.pass(time.Second)
		m.order = nil
		const passed = 2 * time.Second
		end := m.now.Add(passed)
		for n := 0; m.now.Before(end); n++ {
			next := m.now.Add(test.tick + []time.Duration{0, -time.Millisecond, time.Millisecond}[n%3])
			for test.alarms {
				at := m.s.NextStart()
				if at.IsZero() || !at.Before(next) {
					break
				}
				m.now = at
				m.pass(1)
				m.now = at
			}
			m.now = next
			m.pass(1) // one tick
			m.now = next
		}
		if n, want := len(m.order), 5*int(passed/test.frequency); n < want*8/10 || n > want*11/10 {
			t.Errorf("every %v: %d entities were started in %v, want about %d", test.frequency, n, passed, want)
		}
	}
}

// TestStartsAfterIdleness: hardly anything is made up for of the time in which there was nothing to start.
func TestStartsAfterIdleness(t *testing.T) { startsAfterIdleness(t) }

func startsAfterIdleness(t testing.TB) {
	m := newStartModel(t, 1, func(c *wakeup.StartConfig) {
		c.Strategy, c.Frequency, c.Number = wakeup.StartConstant, 10*time.Millisecond, 5
		c.Page, c.Wakes, c.Limit = 1000, 20_000, 1000 // only the rate limits
	})
	m.entries["aa0"] = 1
	m.claimAll()
	m.pass(time.Minute)
	if len(m.order) != 1 {
		t.Fatalf("%d entities were started", len(m.order))
	}
	for i := range 400 {
		m.entries[fmt.Sprintf("aa%d", 1+i)] = int64(2 + i)
	}
	m.claimAll()
	for len(m.order) == 1 {
		m.pass(1) // one tick
	}
	if n := len(m.order) - 1; n > 5*6 { // the number for 50 ms
		t.Errorf("%d entities are started together", n)
	}
}

// TestStartConstant: five entities of a type every tenth of a second.
func TestStartConstant(t *testing.T) { startConstant(t) }

func startConstant(t testing.TB) {
	m := newStartModel(t, 1, func(c *wakeup.StartConfig) {
		c.Strategy, c.Frequency, c.Number = wakeup.StartConstant, 100*time.Millisecond, 5
	})
	for i := range 400 {
		m.entries[fmt.Sprintf("%ca%d", 'a'+i%2, i)] = int64(1 + i)
	}
	m.claimAll()
	m.pass(2 * time.Second)
	if n := len(m.order); n < 180 || n > 210 { // two types
		t.Errorf("%d entities were started in 2 s", n)
	}
	m.pass(3 * time.Second)
	if id := m.dead(); id != "" {
		t.Errorf("%s is dead", id)
	}
	m.checkRate()
}
