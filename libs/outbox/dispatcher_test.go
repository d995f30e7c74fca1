package outbox_test

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
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/libs/turn"
)

// model is a journal with sends, targets that remember keys, and senders that take answers as
// the journal's law has it: once.
type model struct {
	t       testing.TB
	rng     *rand.Rand
	cfg     outbox.Config
	d       *outbox.Dispatcher
	now     time.Time
	entries map[sharding.Entity][]*record
	open    map[sharding.ShardID]sharding.Epoch
	epoch   sharding.Epoch
	later   []event
	// behave returns the end of a delivery; nil: with success.
	behave func(env *sharding.Envelope) behaviour
	stored map[sharding.CommandID]sharding.Reply // of targets
	// effects are the places of the sends of each pair that had an effect, in their order.
	effects map[string][]string
	taken   map[string][]sharding.Reply // by send
	deletes bool                        // senders are deleted at times
	dropped map[string]bool             // the answers that came too late for that, by send
	given   map[string]bool             // sends that operators have given up, by pair and what was sent
	dead    []outbox.DeadLetter
	most    int // deliveries in progress
	reads   int
	acks    int
	rejects int  // attempts that were refused
	untaken bool // senders cannot take answers
	// damaged reports whether an append meets damage; nil: none.
	damaged func(*sharding.Append) bool
	torn    sharding.ShardID // cannot be read
	// tight: pages have no room for all entries at times. unreadable reports whether a record cannot be read;
	// nil: none.
	tight      bool
	unreadable func(*record) bool
}

type record struct {
	seq    uint64
	at     time.Time
	sends  []sharding.Send
	states []sharding.SendState
}

// event is a later event.
type event struct {
	at time.Time
	do func()
}

type behaviour struct {
	reply  sharding.Reply // with an effect if it is OK without a code
	lost   bool           // the answer: it is unknown
	before bool           // the command gets lost before the effect
	delay  time.Duration
	apply  time.Duration // when the effect comes, if the answer is lost
}

const shards = 3

func newModel(t testing.TB, seed uint64, change func(*outbox.Config)) *model {
	cfg := outbox.DefaultConfig()
	cfg.Seed = seed
	if change != nil {
		change(&cfg)
	}
	m := &model{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), cfg: cfg, d: outbox.New(cfg), now: time.UnixMilli(1_000_000_000_000), entries: map[sharding.Entity][]*record{},
		open: map[sharding.ShardID]sharding.Epoch{}, stored: map[sharding.CommandID]sharding.Reply{}, effects: map[string][]string{}, taken: map[string][]sharding.Reply{}, dropped: map[string]bool{}, given: map[string]bool{},
	}
	return m
}

func shardOf(e sharding.Entity) sharding.ShardID {
	return sharding.ShardID{Type: e.Type, Index: shardingtest.ShardOf(e.ID, shards)}
}

func (m *model) after(d time.Duration, do func()) { m.later = append(m.later, event{m.now.Add(d), do}) }

func (m *model) did(out *outbox.Outputs) {
	m.t.Helper()
	if err := m.d.Check(); err != nil {
		m.t.Fatal(err)
	}
	d := m.d
	current := func(in outbox.Input) func() {
		return func() {
			if m.d == d {
				m.step(in)
			}
		}
	}
	for _, r := range out.Reads {
		m.reads++
		page := m.page(r)
		m.after(time.Duration(m.rng.IntN(20))*time.Millisecond, current(page))
	}
	for _, a := range out.Acks {
		m.acks++
		m.after(time.Duration(m.rng.IntN(10))*time.Millisecond, func() {
			v := sharding.RefusedEpoch
			switch {
			case m.epochOf(a.Append.Shard) != a.Append.Epoch:
			case m.damaged != nil && m.damaged(&a.Append):
				v = sharding.RefusedDamaged
			default:
				if v = sharding.Durable; m.rng.IntN(20) == 0 {
					v = sharding.UnknownOutcome
				}
				if v == sharding.Durable || m.rng.IntN(2) == 0 {
					m.deliver(a.Append.Entity, a.Append.Delivered)
				}
			}
			current(outbox.Acked{Number: a.Number, Verdict: v})()
		})
	}
	for _, v := range out.Delivers {
		m.receive(v, current)
	}
	for _, in := range out.Turn {
		if f, ok := in.(turn.Fire); ok {
			m.fire(f, d)
		}
	}
	m.dead = append(m.dead, out.Dead...)
	m.most = max(m.most, m.d.Stats().UnderWay)
}

// epochOf is the stored epoch of a shard: of its present owner, or of the last one.
func (m *model) epochOf(s sharding.ShardID) sharding.Epoch { return m.open[s] }

func (m *model) step(in outbox.Input) {
	m.t.Helper()
	var out outbox.Outputs
	m.d.Step(m.now, in, &out)
	m.did(&out)
}

func (m *model) tell(e turn.ShardEvent) {
	m.t.Helper()
	var out outbox.Outputs
	m.d.Observe(m.now, e, &out)
	m.did(&out)
}

func (m *model) page(r outbox.Read) outbox.Page {
	p := outbox.Page{Number: r.Number, SendsPage: journal.SendsPage{Now: m.now}}
	room := 1 << 20
	if m.tight {
		room = 1 + m.rng.IntN(5)
	}
	for _, after := range r.Shards {
		if room == 0 {
			p.More = append(p.More, after.Shard)
			continue
		}
		if after.Shard == m.torn {
			if p.Damaged = append(p.Damaged, journal.Damaged{Shard: m.torn}); len(r.Shards) == 1 {
				p.Now = time.Time{}
			}
			continue
		}
		var entries []journal.SendEntry
		for e, records := range m.entries { // order-free: sorted below
			if shardOf(e) != after.Shard {
				continue
			}
			for _, rec := range records {
				entry := journal.SendEntry{Shard: after.Shard, Entity: e, Seq: rec.seq, At: rec.at, Epoch: m.open[after.Shard]}
				entry.Sends, entry.States = rec.sends, make(journal.SendStates, (len(rec.sends)+3)/4)
				wanted := false
				for i, s := range rec.states {
					entry.States.Deliver(len(rec.sends), &sharding.Delivered{Sends: []uint16{uint16(i)}, As: s})
					wanted = wanted || s == sharding.SendPending
				}
				if m.unreadable != nil && m.unreadable(rec) {
					entry.Sends, entry.Err = nil, errors.New("it is damaged")
				}
				if wanted && cmp.Or(e.Compare(after.Entity), cmp.Compare(rec.seq, after.Seq)) > 0 {
					entries = append(entries, entry)
				}
			}
		}
		slices.SortFunc(entries, func(a, b journal.SendEntry) int { return cmp.Or(a.Entity.Compare(b.Entity), cmp.Compare(a.Seq, b.Seq)) })
		if limit := min(r.Limit, room); len(entries) > limit {
			entries = entries[:limit]
			p.More = append(p.More, after.Shard)
		}
		room -= len(entries)
		p.Entries = append(p.Entries, entries...)
	}
	return p
}

func (m *model) find(e sharding.Entity, seq uint64) *record {
	for _, r := range m.entries[e] {
		if r.seq == seq {
			return r
		}
	}
	return nil
}

func (m *model) deliver(e sharding.Entity, all []sharding.Delivered) {
	for _, d := range all {
		r := m.find(e, d.Seq)
		for _, n := range d.Sends {
			if r.states[n] == sharding.SendPending || d.As == sharding.SendDone {
				r.states[n] = d.As
			}
		}
	}
}

// send stores a record, and notifies the dispatcher: of its content, or only of its unknown
// outcome.
func (m *model) send(from sharding.Entity, told bool, sends ...sharding.Send) {
	m.t.Helper()
	r := &record{seq: uint64(len(m.entries[from]) + 1), at: m.now, sends: sends, states: make([]sharding.SendState, len(sends))}
	m.entries[from] = append(m.entries[from], r)
	s := shardOf(from)
	switch {
	case m.open[s] == 0:
	case told:
		m.tell(turn.SendsStored{Shard: s, Epoch: m.open[s], Entity: from, At: m.now, Records: []sharding.Record{{Seq: r.seq, Sends: sends}}})
	default:
		m.tell(turn.WakesUnknown{Shard: s, Epoch: m.open[s], Entity: from})
	}
}

// giveUp lets an operator give up a pending send. The dispatcher is notified a while after it
// is durable, perhaps twice.
func (m *model) giveUp() {
	var all []*record
	var froms []sharding.Entity
	for from, records := range m.entries { // order-free: sorted below
		for _, r := range records {
			if slices.Contains(r.states, sharding.SendPending) {
				all, froms = append(all, r), append(froms, from)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(froms[a].Compare(froms[b]), cmp.Compare(all[a].seq, all[b].seq)) })
	n := order[m.rng.IntN(len(order))]
	r, from := all[n], froms[n]
	place := slices.Index(r.states, sharding.SendPending)
	r.states[place] = sharding.SendDone
	m.given[string(r.sends[place].Input.Payload)] = true
	s := shardOf(from)
	e := turn.SendDropped{Shard: s, Epoch: m.open[s], Entity: from, Seq: r.seq, Place: uint16(place)}
	for range 1 + m.rng.IntN(2) {
		m.after(time.Duration(m.rng.IntN(20))*time.Millisecond, func() {
			if e.Epoch == m.open[s] {
				m.tell(e)
			}
		})
	}
}

// receive is the target: it applies a command at most once for its key, unless it is late.
func (m *model) receive(v outbox.Deliver, current func(outbox.Input) func()) {
	var b behaviour
	if m.behave != nil {
		b = m.behave(&v.Env)
	}
	apply := func() sharding.Reply {
		if !m.now.Before(v.Env.Deadline) {
			return sharding.Reject(sharding.DeadlineExceeded, "late")
		}
		if r, ok := m.stored[v.Env.ID]; ok {
			return r
		}
		if b.reply.Outcome == sharding.NotApplied || b.reply.Outcome == sharding.Unknown {
			m.rejects++
			return b.reply
		}
		r := b.reply
		r.Outcome = sharding.Executed
		m.stored[v.Env.ID] = r
		if r.Code == "" {
			pair, what, _ := strings.Cut(string(v.Env.Payload), "|")
			m.effects[pair] = append(m.effects[pair], what)
		}
		return r
	}
	var reply sharding.Reply
	if !b.lost {
		reply = apply()
	} else if !b.before {
		m.after(b.apply, func() { apply() })
	}
	m.after(b.delay, func() {
		if b.lost {
			reply = sharding.Doubt(sharding.Unavailable, "lost")
		}
		current(outbox.Answered{Number: v.Number, Reply: reply})()
	})
}

// fire lets the sender take an answer.
func (m *model) fire(f turn.Fire, d *outbox.Dispatcher) {
	m.after(time.Duration(m.rng.IntN(5))*time.Millisecond, func() {
		end := turn.FiringEnded{Shard: f.Shard, Epoch: f.Epoch, Entity: f.Entity, Ref: f.Wakeup.WakeRef}
		key := fmt.Sprint(f.Entity, f.Wakeup.Seq, f.Wakeup.Number)
		r := m.find(f.Entity, f.Wakeup.Seq)
		if at := f.Wakeup.Answer.SentAt; at.UnixMilli() != r.at.UnixMilli() {
			m.t.Fatalf("the answer to a send of %s gives %v as its time, it was stored at %v", f.Entity, at, r.at)
		}
		switch dice := m.rng.IntN(20); {
		case m.open[f.Shard] != f.Epoch:
			end.End = turn.FiringGone
		case dice == 0, m.untaken:
			end.End, end.Code = turn.FiringFailed, sharding.Internal
		case r.states[f.Wakeup.Number] == sharding.SendDone:
			end.End = turn.FiringObsolete
		case m.deletes && (dice == 2 || m.dropped[key]): // the sender was deleted: nothing is taken, and the send must end
			end.End = turn.FiringOtherLife
			m.dropped[key] = true
		default:
			end.End = turn.FiringDone
			if dice == 1 {
				end.End = turn.FiringInDoubt
			}
			r.states[f.Wakeup.Number] = sharding.SendDone
			m.taken[key] = append(m.taken[key], f.Wakeup.Answer.Reply)
		}
		if m.d == d {
			m.tell(end)
		}
	})
}

// run lets time pass.
func (m *model) run(d time.Duration) {
	m.t.Helper()
	end := m.now.Add(d)
	for tick := m.now; m.now.Before(end); {
		slices.SortStableFunc(m.later, func(a, b event) int { return a.at.Compare(b.at) })
		if tick = tick.Add(20 * time.Millisecond); m.d.Stats().Sends == 0 && len(m.later) == 0 || d > time.Hour {
			tick = tick.Add(max(time.Second, d/1000))
		}
		for len(m.later) > 0 && !m.later[0].at.After(tick) {
			e := m.later[0]
			m.later = m.later[1:]
			if e.at.After(m.now) {
				m.now = e.at
			}
			e.do()
			slices.SortStableFunc(m.later, func(a, b event) int { return a.at.Compare(b.at) })
		}
		m.now = tick
		m.step(outbox.Tick{})
	}
}

// own opens all shards at another epoch, in a new process.
func (m *model) own() {
	m.t.Helper()
	m.d = outbox.New(m.cfg)
	m.epoch++
	for _, t := range []sharding.EntityType{"A", "B"} {
		for i := range uint32(shards) {
			s := sharding.ShardID{Type: t, Index: i}
			m.open[s] = m.epoch
			m.step(outbox.Open{Shard: s, Epoch: m.epoch})
		}
	}
}

func entity(typ string, n int) sharding.Entity {
	return sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(fmt.Sprint("e", n))}
}

// command is a send whose payload has its pair and its number.
func command(from, to sharding.Entity, what any, replyTo string) sharding.Send {
	return sharding.Send{To: to, Input: sharding.Input{Command: "do", Version: 1, ReadableBy: 1, Payload: fmt.Appendf(nil, "%s>%s|%v", from, to, what)}, ReplyTo: replyTo}
}

// unended counts the sends that are pending.
func (m *model) unended() (n int) {
	for _, records := range m.entries { // order-free: a sum
		for _, r := range records {
			for _, s := range r.states {
				if s == sharding.SendPending {
					n++
				}
			}
		}
	}
	return n
}

// random lets entities send, targets and answers fail, and owners change. In the end every send
// has had its effect once, in order, or is a dead letter, or its sender was told.
func random(t testing.TB, seed uint64) {
	m := newModel(t, seed, func(c *outbox.Config) {
		c.Page, c.ReadShards, c.Refresh = 2, 4, 5*time.Second
		c.Deliveries, c.TargetDeliveries = 6, 2
		if seed%2 == 0 {
			c.Sends, c.Bytes = 25, 1<<16
		}
		c.RetryMax = 4 * time.Second
	})
	calm := false
	m.deletes = true
	m.tight = seed%3 == 0
	if seed%5 == 0 {
		m.unreadable = func(r *record) bool { return !calm && r.at.UnixMilli()%7 == 0 }
	}
	m.behave = func(env *sharding.Envelope) behaviour {
		b := behaviour{delay: time.Duration(m.rng.IntN(30)) * time.Millisecond}
		h := env.Payload[len(env.Payload)-1]
		switch dice := m.rng.IntN(10); {
		case h == '7':
			b.reply = sharding.Reply{Code: sharding.FailedPrecondition, Message: "no"}
		case calm:
		case dice == 0:
			b.reply = sharding.Reject(sharding.Unavailable, "away")
		case dice == 1:
			b.lost, b.before, b.delay = true, true, time.Duration(m.rng.IntN(12))*time.Second
		case dice == 2:
			b.lost, b.apply, b.delay = true, time.Duration(m.rng.IntN(5))*time.Second, time.Duration(m.rng.IntN(4))*time.Second
		}
		return b
	}
	m.own()
	sent := map[string]int{}
	var all []sharding.Send
	var froms []sharding.Entity
	for range 60 {
		for range m.rng.IntN(6) {
			from := entity(string("AB"[m.rng.IntN(2)]), m.rng.IntN(6))
			var list []sharding.Send
			for range 1 + m.rng.IntN(3) {
				to := entity(string("CD"[m.rng.IntN(2)]), m.rng.IntN(3))
				pair := fmt.Sprint(from, to)
				sent[pair]++
				list = append(list, command(from, to, sent[pair], []string{"", "told"}[m.rng.IntN(2)]))
				all, froms = append(all, list[len(list)-1]), append(froms, from)
			}
			m.send(from, m.rng.IntN(10) > 0, list...)
		}
		m.run(time.Duration(m.rng.IntN(400)) * time.Millisecond)
		if m.rng.IntN(15) == 0 {
			m.own()
		}
		if seed%4 == 1 && m.rng.IntN(4) == 0 {
			m.giveUp()
		}
	}
	calm = true
	for n := 0; m.unended() > 0; n++ {
		if n == 100 {
			t.Fatalf("seed %d: %d sends have not ended: %+v\n%s", seed, m.unended(), m.d.Failing(sharding.Entity{}, 5), m.d.AppendState(m.now, nil))
		}
		m.run(2 * time.Second)
	}
	m.run(5 * time.Second) // the last ends are stored
	checkEffects(t, m, seed)
	for i := range all {
		checkSend(t, m, seed, froms[i], &all[i])
	}
	if s := m.d.Stats(); s.Sends != 0 || s.Bytes != 0 || s.UnderWay != 0 {
		t.Errorf("seed %d: %+v is left", seed, s)
	}
	if !bytes.Equal(m.d.AppendState(m.now, nil), m.d.Clone().AppendState(m.now, nil)) {
		t.Errorf("seed %d: the clone differs", seed)
	}
}

// checkEffects: of each pair the effects are in order, and none comes twice.
func checkEffects(t testing.TB, m *model, seed uint64) {
	for pair, list := range m.effects { // order-free: reports
		last := 0
		for _, what := range list {
			if m.given[pair+"|"+what] {
				continue // an attempt that was lost may come late
			}
			var n int
			_, _ = fmt.Sscan(what, &n)
			if n <= last {
				t.Errorf("seed %d: the effects of %s are %v", seed, pair, list)
				break
			}
			last = n
		}
	}
}

func checkSend(t testing.TB, m *model, seed uint64, from sharding.Entity, s *sharding.Send) {
	pair, what, _ := strings.Cut(string(s.Input.Payload), "|")
	refused := what[len(what)-1] == '7'
	given := m.given[string(s.Input.Payload)]
	if given && !refused {
		refused = !slices.Contains(m.effects[pair], what) // it is unknown
	}
	if got := slices.Contains(m.effects[pair], what); got == refused {
		t.Errorf("seed %d: %s of %s has an effect: %t", seed, what, pair, got)
	}
	for _, r := range m.entries[from] {
		for i := range r.sends {
			if !bytes.Equal(r.sends[i].Input.Payload, s.Input.Payload) {
				continue
			}
			want := sharding.SendDone
			if refused && s.ReplyTo == "" && !given {
				want = sharding.SendRefused
			}
			if r.states[i] != want {
				t.Errorf("seed %d: %s of %s is %v, want %v", seed, what, pair, r.states[i], want)
			}
			answers := m.taken[fmt.Sprint(from, r.seq, i)]
			if given {
				if len(answers) > 0 {
					t.Errorf("seed %d: %s of %s was given up, and the answers are %v", seed, what, pair, answers)
				}
				continue
			}
			if m.dropped[fmt.Sprint(from, r.seq, i)] {
				if len(answers) > 0 {
					t.Errorf("seed %d: %s of %s was dropped, and the answers are %v", seed, what, pair, answers)
				}
				continue
			}
			if s.ReplyTo != "" && (len(answers) != 1 || (answers[0].Code != "") != refused) || s.ReplyTo == "" && len(answers) > 0 {
				t.Errorf("seed %d: the answers to %s of %s are %v", seed, what, pair, answers)
			}
		}
	}
}

func TestRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("from seed %d", seed)
	for n := range uint64(40) {
		random(t, seed+n)
	}
	for n := range uint64(10) {
		random(t, n)
	}
}

// atOnce: sends stored in this process are delivered without a read, and in batches.
func atOnce(t testing.TB) {
	m := newModel(t, 1, nil)
	m.own()
	m.run(time.Second)
	reads := m.reads
	from := entity("A", 1)
	for n := range 50 {
		m.send(from, true, command(from, entity("C", n), 1, ""))
	}
	m.run(300 * time.Millisecond)
	if m.unended() > 0 || m.reads != reads || m.acks == 0 || m.acks > 5 {
		t.Errorf("%d sends have not ended; %d reads and %d acks", m.unended(), m.reads-reads, m.acks)
	}
}

func TestAtOnce(t *testing.T) { atOnce(t) }

// pairsApart: a target that fails holds back its own sends, in order, and nothing else.
func pairsApart(t testing.TB) {
	m := newModel(t, 2, nil)
	away, attempts := true, 0
	bad := entity("C", 1)
	m.behave = func(env *sharding.Envelope) (b behaviour) {
		if env.Entity == bad && away {
			attempts++
			b.reply = sharding.Reject(sharding.Unavailable, "away")
		}
		return b
	}
	m.own()
	m.run(time.Second)
	from := entity("A", 1)
	for n := range 20 {
		m.send(from, true, command(from, bad, n+1, ""), command(from, entity("C", 2), n+1, ""))
	}
	m.run(10 * time.Second)
	if m.unended() != 20 || len(m.effects[fmt.Sprintf("%s>%s", from, bad)]) > 0 {
		t.Errorf("%d sends have not ended, want those to one target", m.unended())
	}
	if f := m.d.Failing(from, 10); len(f) != 1 || f[0].Waiting != 19 || f[0].Code != sharding.Unavailable || f[0].To != bad {
		t.Errorf("failing: %+v", f)
	}
	if f, ok := m.d.FailingOf(shardOf(from), from, bad); !ok || f.Seq != 1 || f.Place != 0 || f.Times < 3 || !f.RetryAt.After(m.now) || m.d.FailingTypes()["A"] != 1 {
		t.Errorf("failing: %+v, %v", f, m.d.FailingTypes())
	}
	if f, ok := m.d.FailingOf(shardOf(from), from, entity("C", 2)); ok || len(m.d.Failing(sharding.Entity{Type: "B"}, 10)) > 0 {
		t.Errorf("one that is answered fails: %+v", f)
	}
	m.run(10 * time.Minute)
	if attempts < 10 || attempts > 40 {
		t.Errorf("%d attempts in ten minutes", attempts)
	}
	away = false
	m.run(time.Minute)
	if m.unended() > 0 {
		t.Errorf("%d sends have not ended", m.unended())
	}
	checkEffects(t, m, 2)
}

func TestPairsApart(t *testing.T) { pairsApart(t) }

// deadLetters: what is never answered with success ends when it is too old: refused if it was
// always refused, else in doubt.
func deadLetters(t testing.TB) {
	m := newModel(t, 3, nil)
	m.behave = func(env *sharding.Envelope) (b behaviour) {
		switch env.Entity {
		case entity("C", 1):
			b.reply = sharding.Reject(sharding.UnknownCommand, "not here")
		case entity("C", 2):
			b.lost, b.before = true, true
		case entity("C", 3):
			b.reply = sharding.Reject(sharding.PermissionDenied, "never")
		}
		return b
	}
	m.own()
	m.run(time.Minute)
	from := entity("A", 1)
	m.send(from, true, command(from, entity("C", 1), 1, ""), command(from, entity("C", 2), 1, ""), command(from, entity("C", 3), 1, ""),
		command(from, entity("C", 1), 2, "told"), command(from, entity("C", 2), 2, "told"))
	m.run(time.Minute)
	if len(m.dead) != 1 || m.dead[0].Code != sharding.PermissionDenied || m.dead[0].State != sharding.SendRefused {
		t.Errorf("dead after a minute: %+v", m.dead)
	}
	if d, ok := m.d.Died(from, 1, 2); !ok || d.Code != sharding.PermissionDenied || d.Message != "never" || m.now.Sub(d.At) > time.Minute {
		t.Errorf("why it died: %+v", d)
	}
	if _, ok := m.d.Died(from, 1, 0); ok {
		t.Error("one that is pending has died")
	}
	m.run(22 * time.Hour)
	if m.unended() != 4 {
		t.Errorf("after 22 h %d have not ended, want 4", m.unended())
	}
	m.run(2 * time.Hour)
	states := m.entries[from][0].states
	want := []sharding.SendState{sharding.SendRefused, sharding.SendInDoubt, sharding.SendRefused, sharding.SendDone, sharding.SendDone}
	if !slices.Equal(states, want) || len(m.dead) != 3 {
		t.Errorf("after a day they are %v, want %v; %+v", states, want, m.dead)
	}
	if a := m.taken[fmt.Sprint(from, 1, 3)]; len(a) != 1 || a[0].Outcome == sharding.Executed {
		t.Errorf("the sender was told %+v", a)
	}
	if a := m.taken[fmt.Sprint(from, 1, 4)]; len(a) != 1 || a[0].Outcome != sharding.NotApplied { // it waited behind another and was never tried
		t.Errorf("the sender was told %+v", a)
	}
}

func TestDeadLetters(t *testing.T) { deadLetters(t) }

// TestDied: the reasons of the last dead letters are remembered, a part of each, while their shard
// is open.
func TestDied(t *testing.T) {
	m := newModel(t, 3, func(c *outbox.Config) { c.DeadLetters, c.DeadLetterBytes = 2, 5 })
	m.behave = func(*sharding.Envelope) behaviour {
		return behaviour{reply: sharding.Reject(sharding.PermissionDenied, "nie für dich")}
	}
	m.own()
	m.run(time.Minute)
	from := entity("A", 1)
	for n := range 3 {
		m.send(from, true, command(from, entity("C", n), 1, ""))
		m.run(time.Second)
	}
	known := func() (all []uint64) {
		for seq := range uint64(5) {
			if d, ok := m.d.Died(from, seq, 0); ok && d.Message == "nie f" {
				all = append(all, seq)
			}
		}
		return all
	}
	if got := known(); len(m.dead) != 3 || !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("of %d dead letters, %v are remembered", len(m.dead), got)
	}
	m.step(outbox.Close{Shard: shardOf(entity("B", 1))})
	if got := known(); len(got) != 2 {
		t.Errorf("when another shard is closed, %v are remembered", got)
	}
	m.step(outbox.Close{Shard: shardOf(from)})
	if got := known(); len(got) != 0 {
		t.Errorf("when the shard is closed, %v are remembered", got)
	}
}

// TestExpired: a target that does not remember any more whether it has executed a send will
// not remember later. The send ends at once, in doubt.
func TestExpired(t *testing.T) {
	m := newModel(t, 3, nil)
	m.behave = func(*sharding.Envelope) behaviour {
		return behaviour{reply: sharding.Doubt(sharding.KeyExpired, "too old")}
	}
	m.own()
	m.run(time.Minute)
	from := entity("A", 1)
	m.send(from, true, command(from, entity("C", 1), 1, ""), command(from, entity("C", 2), 1, "told"))
	m.run(time.Minute)
	if states := m.entries[from][0].states; !slices.Equal(states, []sharding.SendState{sharding.SendInDoubt, sharding.SendDone}) {
		t.Errorf("after a minute they are %v", states)
	}
	if a := m.taken[fmt.Sprint(from, 1, 1)]; len(a) != 1 || a[0].Outcome != sharding.Unknown {
		t.Errorf("the sender was told %+v", a)
	}
}

// TestTooOld: what was stored long ago is not tried at all: its targets may have forgotten that
// they have done it.
func TestTooOld(t *testing.T) {
	m := newModel(t, 4, nil)
	from := entity("A", 1)
	m.send(from, false, command(from, entity("C", 1), 1, ""))
	m.now = m.now.Add(24 * time.Hour)
	m.own()
	m.run(time.Minute)
	if len(m.effects) > 0 || len(m.dead) != 1 || m.dead[0].State != sharding.SendInDoubt {
		t.Errorf("effects %v, dead letters %+v", m.effects, m.dead)
	}
}

// TestNoClock: a page of damaged shards alone does not say what the clock of the store is: a send
// is given up in time.
func TestNoClock(t *testing.T) { noClock(t) }

func noClock(t testing.TB) {
	m := newModel(t, 5, func(c *outbox.Config) { c.MaxAge, c.Refresh = 10*time.Second, time.Hour })
	m.behave = func(*sharding.Envelope) behaviour {
		return behaviour{reply: sharding.Reject(sharding.Unavailable, "away")}
	}
	m.own()
	m.run(time.Second)
	from := entity("A", 1)
	m.send(from, true, command(from, entity("C", 1), 1, ""))
	m.torn = sharding.ShardID{Type: "D", Index: 0}
	m.step(outbox.Open{Shard: m.torn, Epoch: m.epoch})
	m.run(30 * time.Second)
	if len(m.dead) != 1 {
		t.Errorf("dead letters %+v, want one that is older than %s", m.dead, m.cfg.MaxAge)
	}
}

// TestUntaken: an answer that its sender cannot take is given to it until TakeGrace after the send
// was given up. Then it is a dead letter in doubt.
func TestUntaken(t *testing.T) { untaken(t) }

func untaken(t testing.TB) {
	m := newModel(t, 5, func(c *outbox.Config) {
		c.MaxAge, c.TakeGrace, c.RetryMax = 10*time.Second, 20*time.Second, 2*time.Second
	})
	m.untaken = true
	m.own()
	m.run(time.Second)
	from, to := entity("A", 1), entity("C", 1)
	m.send(from, true, command(from, to, 1, "told"))
	m.run(28 * time.Second)
	if len(m.dead) > 0 || m.unended() != 1 {
		t.Errorf("28 s after it was sent %d have not ended, and %+v are dead letters; want 1 and none", m.unended(), m.dead)
	}
	m.run(10 * time.Second)
	if len(m.dead) != 1 || m.dead[0].State != sharding.SendInDoubt || !strings.Contains(m.dead[0].Message, "has not taken the answer in 30s") || m.unended() != 0 {
		t.Errorf("38 s after it was sent %d have not ended, and %+v are dead letters; want 0, and one in doubt", m.unended(), m.dead)
	}
}

// TestBounds: deliveries to a type, and to one entity, are bounded, and a target that hangs
// leaves room for others.
func TestBounds(t *testing.T) {
	m := newModel(t, 5, func(c *outbox.Config) { c.Deliveries, c.TargetDeliveries = 8, 3 })
	m.behave = func(env *sharding.Envelope) (b behaviour) {
		if b.delay = 5 * time.Millisecond; env.Entity == entity("C", 0) {
			b.lost, b.before, b.delay = true, true, 10*time.Second
		}
		return b
	}
	m.own()
	m.run(time.Second)
	for n := range 300 {
		from := entity("A", n)
		m.send(from, true, command(from, entity("C", 0), 1, ""), command(from, entity("C", 1+n%50), 1, ""))
	}
	m.run(5 * time.Second)
	if m.unended() != 300 || m.most > 8 {
		t.Errorf("%d have not ended, %d were in progress", m.unended(), m.most)
	}
}

// TestRefusesConfig: each limit is checked.
func TestRefusesConfig(t *testing.T) {
	good := outbox.DefaultConfig()
	good.AttemptTimeout = sharding.MaxSendTimeout
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*outbox.Config){
		"Page":      func(c *outbox.Config) { c.Page = 0 },
		"Sends":     func(c *outbox.Config) { c.Sends = 999 },
		"TakeGrace": func(c *outbox.Config) { c.TakeGrace = 0 },
		"AckDelay":  func(c *outbox.Config) { c.AckDelay = time.Second },
		"timeout":   func(c *outbox.Config) { c.AttemptTimeout = sharding.MaxSendTimeout + 1 },
		"retry_max": func(c *outbox.Config) { c.RetryMax = time.Millisecond },
	} {
		bad := good
		change(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	short := outbox.Config{MaxAge: 30 * time.Second}
	if good.CheckAge(24*time.Hour, "keys") != nil || good.CheckAge(24*time.Hour-1, "keys") == nil || short.CheckAge(time.Minute, "keys") != nil || short.CheckAge(time.Minute-2, "keys") == nil {
		t.Error("MaxAge must be an hour below the time that keys are remembered")
	}
}

// meanwhile: a send stored while its sender is being read is not overtaken by a later one.
func meanwhile(t testing.TB) {
	cfg := outbox.DefaultConfig()
	cfg.ReadShards = 1
	d, now := outbox.New(cfg), time.UnixMilli(1_000_000_000_000)
	first, second := sharding.ShardID{Type: "A"}, sharding.ShardID{Type: "A", Index: 1}
	from, to := entity("A", 1), entity("C", 1)
	var out outbox.Outputs
	delivered, last := "", uint64(0)
	step := func(do func()) {
		out = outbox.Outputs{}
		do()
		for _, v := range out.Delivers {
			delivered, last = delivered+string(v.Env.Payload), v.Number
		}
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
	}
	in := func(i outbox.Input) { step(func() { d.Step(now, i, &out) }) }
	entry := func(seq uint64) journal.SendEntry {
		s := sharding.Send{To: to, Input: sharding.Input{Command: "do", Payload: fmt.Append(nil, seq)}}
		return journal.SendEntry{Shard: first, Entity: from, Seq: seq, At: now, States: make(journal.SendStates, 1), Sends: []sharding.Send{s}}
	}
	store := func(seq uint64) {
		r := sharding.Record{Seq: seq, Sends: []sharding.Send{entry(seq).Sends[0]}}
		step(func() {
			d.Observe(now, turn.SendsStored{Shard: first, Epoch: 1, Entity: from, At: now, Records: []sharding.Record{r}}, &out)
		})
	}
	in(outbox.Open{Shard: sharding.ShardID{Type: "A", Index: 2}, Epoch: 1})
	in(outbox.Open{Shard: first, Epoch: 1})
	in(outbox.Open{Shard: second, Epoch: 1})
	in(outbox.Page{Number: 1, SendsPage: journal.SendsPage{Now: now}})
	store(2)                                                                                                   // while the first shard is read
	in(outbox.Page{Number: 2, SendsPage: journal.SendsPage{Now: now, Entries: []journal.SendEntry{entry(1)}}}) // then the second one is
	store(3)                                                                                                   // behind 2, which is not known yet
	in(outbox.Page{Number: 3, SendsPage: journal.SendsPage{Now: now}})                                         // now the sender is read
	in(outbox.Page{Number: 4, SendsPage: journal.SendsPage{Now: now, Entries: []journal.SendEntry{entry(2), entry(3)}}})
	for range 3 {
		in(outbox.Answered{Number: last, Reply: sharding.Reply{Outcome: sharding.Executed}})
	}
	if delivered != "123" {
		t.Errorf("delivered in the order %s", delivered)
	}
}

func TestMeanwhile(t *testing.T) { meanwhile(t) }

// crowded: many senders send to one target that hangs. All that is too old ends, although few
// commands to it are in progress at a time.
func crowded(t testing.TB) {
	m := newModel(t, 6, func(c *outbox.Config) { c.TargetDeliveries, c.MaxAge = 3, time.Minute })
	m.behave = func(*sharding.Envelope) behaviour {
		return behaviour{lost: true, before: true, delay: 10 * time.Second}
	}
	m.own()
	m.run(time.Second)
	for n := range 40 {
		m.send(entity("A", n), true, command(entity("A", n), entity("C", 1), 1, ""))
	}
	m.run(3 * time.Minute)
	if m.unended() > 0 || len(m.dead) != 40 {
		t.Errorf("%d sends have not ended, and %d are dead letters, want 40", m.unended(), len(m.dead))
	}
}

func TestCrowded(t *testing.T) { crowded(t) }

// TestUntried: a send that was always refused, and later ones that were never tried, certainly had
// no effect.
func TestUntried(t *testing.T) {
	m := newModel(t, 7, func(c *outbox.Config) { c.MaxAge = time.Minute })
	m.behave = func(*sharding.Envelope) behaviour {
		return behaviour{reply: sharding.Reject(sharding.Unavailable, "away")}
	}
	m.own()
	m.run(time.Second)
	from, to := entity("A", 1), entity("C", 1)
	m.send(from, true, command(from, to, 1, ""), command(from, to, 2, ""))
	m.run(3 * time.Minute)
	if len(m.dead) != 2 {
		t.Fatalf("dead letters: %+v, want two", m.dead)
	}
	for i, want := range []string{"it has not succeeded in 1m0s; the last attempt failed with: away", "it is older than 1m0s, so that it is not tried any more"} {
		if x := m.dead[i]; x.State != sharding.SendRefused || x.Message != want {
			t.Errorf("dead letter %d is %v with %q, want it refused with %q", i, x.State, x.Message, want)
		}
	}
}

// unstorable: what cannot be stored about one record is tried again, ever more rarely, until it
// can. It keeps nothing else from being stored.
func unstorable(t testing.TB) {
	m := newModel(t, 8, nil)
	broken := true
	m.damaged = func(a *sharding.Append) bool {
		return broken && slices.ContainsFunc(a.Delivered, func(d sharding.Delivered) bool { return d.Seq == 2 })
	}
	m.own()
	m.run(time.Second)
	from := entity("A", 1)
	for n := range 3 {
		m.send(from, true, command(from, entity("C", 1), n+1, ""))
	}
	m.run(10 * time.Minute)
	if m.unended() != 1 || m.acks < 10 || m.acks > 40 {
		t.Errorf("%d sends have not ended, want 1; %d acks in ten minutes", m.unended(), m.acks)
	}
	broken = false
	m.run(time.Minute)
	if m.unended() > 0 {
		t.Errorf("%d sends have not ended", m.unended())
	}
	checkEffects(t, m, 8)
}

func TestUnstorable(t *testing.T) { unstorable(t) }

// TestUnstorableLeavesRoom: many ends that cannot be stored do not fill the memory permanently.
func TestUnstorableLeavesRoom(t *testing.T) {
	m := newModel(t, 9, func(c *outbox.Config) { c.Sends, c.Refresh = outbox.LeastSends, time.Second })
	m.damaged = func(a *sharding.Append) bool { return a.Entity.Type == "A" }
	m.own()
	m.run(time.Second)
	const many = outbox.LeastSends
	for n := range 50 {
		var sends []sharding.Send
		for i := range many / 50 {
			sends = append(sends, command(entity("A", n), entity("C", i), 1, ""))
		}
		m.send(entity("A", n), true, sends...)
	}
	m.run(2 * time.Second)
	for n := range 10 {
		m.send(entity("B", n), true, command(entity("B", n), entity("C", n), 1, ""))
	}
	m.run(2 * time.Second)
	if n := m.unended(); n != many {
		t.Errorf("%d sends have not ended, want those %d whose ends cannot be stored", n, many)
	}
	checkEffects(t, m, 9)
}

// deposed: an owner that the journal has deposed stores and delivers nothing, although no other
// process has notified it.
func deposed(t testing.TB) {
	m := newModel(t, 10, nil)
	m.own()
	m.run(time.Second)
	from := entity("A", 1)
	m.open[shardOf(from)]++ // by another process
	shard := turn.SendsStored{Shard: shardOf(from), Epoch: m.open[shardOf(from)] - 1, Entity: from, At: m.now}
	for n := range 3 {
		s := command(from, entity("C", n), n, "")
		r := &record{seq: uint64(n + 1), at: m.now, sends: []sharding.Send{s}, states: make([]sharding.SendState, 1)}
		m.entries[from] = append(m.entries[from], r)
		shard.Records = []sharding.Record{{Seq: r.seq, Sends: r.sends}}
		m.tell(shard)
		m.run(time.Minute)
	}
	if len(m.effects) != 1 || m.acks > 2 {
		t.Errorf("%d sends were delivered, want the one before it was told; %d acks, want that one and what was left", len(m.effects), m.acks)
	}
}

func TestDeposed(t *testing.T) { deposed(t) }

// deposedPage: an owner does not deliver what it reads when another owner has claimed the shard.
func deposedPage(t testing.TB) {
	m := newModel(t, 11, nil)
	from := entity("A", 1)
	s := command(from, entity("C", 1), 1, "")
	m.own()
	m.run(time.Second)
	m.open[shardOf(from)]++ // by another process, which stores the send
	m.entries[from] = []*record{{seq: 1, at: m.now, sends: []sharding.Send{s}, states: make([]sharding.SendState, 1)}}
	m.run(10 * time.Minute)
	if len(m.effects) > 0 {
		t.Errorf("%d sends were delivered by an owner that was deposed", len(m.effects))
	}
}

func TestDeposedPage(t *testing.T) { deposedPage(t) }

// tooOldToWait: the sender of a send that is given up takes that answer at once, whichever
// type was examined first.
func tooOldToWait(t testing.TB) {
	for _, types := range [][2]string{{"A", "B"}, {"B", "A"}} {
		d, now := outbox.New(outbox.DefaultConfig()), time.UnixMilli(1_000_000_000_000)
		var out outbox.Outputs
		for _, typ := range types { // the order in which the types come up
			from := entity(typ, 1)
			shard := shardOf(from)
			d.Step(now, outbox.Open{Shard: shard, Epoch: 1}, &out)
			d.Step(now, outbox.Page{Number: out.Reads[len(out.Reads)-1].Number, SendsPage: journal.SendsPage{Now: now}}, &out)
			d.Observe(now, turn.SendsStored{Shard: shard, Epoch: 1, Entity: from, At: now, Records: []sharding.Record{{Seq: 1, Sends: []sharding.Send{command(from, entity(typ, 2), 1, "")}}}}, &out)
		}
		out = outbox.Outputs{}
		from := entity("A", 1)
		d.Observe(now, turn.SendsStored{Shard: shardOf(from), Epoch: 1, Entity: from, At: now.Add(-24 * time.Hour),
			Records: []sharding.Record{{Seq: 2, Sends: []sharding.Send{command(from, entity("B", 3), 1, "told")}}}}, &out)
		if err := d.Check(); err != nil {
			t.Error(err)
		}
		if len(out.Turn) != 1 {
			t.Errorf("with the types in the order %v, the answer is taken %d times at once, want once", types, len(out.Turn))
		}
	}
}

func TestTooOldToWait(t *testing.T) { tooOldToWait(t) }

// TestAckSends: no append stores more ends than AckSends, also if more of them end at once.
func TestAckSends(t *testing.T) {
	d, now := outbox.New(func() outbox.Config { c := outbox.DefaultConfig(); c.AckSends = 4; return c }()), time.UnixMilli(1_000_000_000_000)
	shard, from := sharding.ShardID{Type: "A"}, entity("A", 1)
	var out outbox.Outputs
	d.Step(now, outbox.Open{Shard: shard, Epoch: 1}, &out)
	d.Step(now, outbox.Page{Number: out.Reads[0].Number, SendsPage: journal.SendsPage{Now: now}}, &out)
	var sends []sharding.Send
	for n := range 10 {
		sends = append(sends, command(from, entity("C", n), 1, ""))
	}
	d.Observe(now, turn.SendsStored{Shard: shard, Epoch: 1, Entity: from, At: now.Add(-24 * time.Hour), Records: []sharding.Record{{Seq: 1, Sends: sends}}}, &out)
	if len(out.Delivers) > 0 {
		t.Fatalf("%d are delivered, want none: all are too old", len(out.Delivers))
	}
	d.Step(now.Add(time.Second), outbox.Tick{}, &out)
	stored := 0
	for _, a := range out.Acks {
		n := 0
		for _, x := range a.Append.Delivered {
			n += len(x.Sends)
		}
		if n > 4 {
			t.Errorf("an append stores %d ends, want at most 4", n)
		}
		stored += n
	}
	if stored != 10 {
		t.Errorf("%d ends are stored, want 10", stored)
	}
}

// aged lets sends become too old behind targets that hang or refuse, while owners change. In the
// end all have ended, and how they have ended is true.
func aged(t testing.TB, seed uint64) {
	m := newModel(t, seed, func(c *outbox.Config) {
		c.Page, c.ReadShards, c.Refresh = 2, 4, 5*time.Second
		c.Deliveries, c.TargetDeliveries = 3, 2
		c.MaxAge, c.RetryMax, c.AckSends = 20*time.Second, 4*time.Second, 3
		if seed%2 == 0 {
			c.Sends, c.Bytes = 25, 1<<16
		}
	})
	m.behave = func(env *sharding.Envelope) behaviour {
		b := behaviour{delay: time.Duration(m.rng.IntN(30)) * time.Millisecond}
		switch dice := m.rng.IntN(10); {
		case env.Entity.ID == "e0" && dice > 0:
			b.lost, b.before, b.apply, b.delay = true, dice > 3, time.Duration(m.rng.IntN(9))*time.Second, 10*time.Second
		case env.Entity.ID == "e1" && dice > 0:
			b.reply = sharding.Reject(sharding.Unavailable, "away")
		}
		return b
	}
	m.own()
	sent := map[string]int{}
	for range 30 {
		for range m.rng.IntN(5) {
			from, to := entity(string("AB"[m.rng.IntN(2)]), m.rng.IntN(12)), entity(string("CD"[m.rng.IntN(2)]), m.rng.IntN(3))
			sent[fmt.Sprint(from, to)]++
			m.send(from, m.rng.IntN(10) > 0, command(from, to, sent[fmt.Sprint(from, to)], []string{"", "told"}[m.rng.IntN(2)]))
		}
		m.run(time.Duration(m.rng.IntN(1500)) * time.Millisecond)
		switch m.rng.IntN(15) {
		case 0:
			m.own()
		case 1: // one shard is handed off and comes back
			s := sharding.ShardID{Type: "A", Index: uint32(m.rng.IntN(shards))}
			m.step(outbox.Close{Shard: s})
			m.epoch++
			m.open[s] = m.epoch
			m.step(outbox.Open{Shard: s, Epoch: m.epoch})
		}
	}
	for n := 0; m.unended() > 0; n++ {
		if n == 100 {
			t.Fatalf("seed %d: %d sends have not ended\n%s", seed, m.unended(), m.d.AppendState(m.now, nil))
		}
		m.run(2 * time.Second)
	}
	m.run(30 * time.Second)                // the last attempts and ends
	for from, records := range m.entries { // order-free: fills a map
		for _, r := range records {
			told := m.taken[fmt.Sprint(from, r.seq, 0)]
			if r.states[0] == sharding.SendInDoubt || slices.ContainsFunc(told, func(a sharding.Reply) bool { return a.Outcome == sharding.Unknown }) {
				m.given[string(r.sends[0].Input.Payload)] = true // an attempt of it may come late
			}
		}
	}
	checkEffects(t, m, seed)
	for from, records := range m.entries { // order-free: reports
		for _, r := range records {
			pair, what, _ := strings.Cut(string(r.sends[0].Input.Payload), "|")
			effect := slices.Contains(m.effects[pair], what)
			for _, a := range m.taken[fmt.Sprint(from, r.seq, 0)] {
				if a.Outcome == sharding.Executed && !effect || a.Outcome == sharding.NotApplied && effect {
					t.Errorf("seed %d: the sender of %s of %s was told %+v, and it has an effect: %t", seed, what, pair, a, effect)
				}
			}
			if s := r.states[0]; r.sends[0].ReplyTo == "" && (s == sharding.SendDone && !effect || s == sharding.SendRefused && effect) {
				t.Errorf("seed %d: %s of %s is %v, and has an effect: %t", seed, what, pair, s, effect)
			}
		}
	}
}

func TestAged(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("from seed %d", seed)
	for n := range uint64(20) {
		aged(t, seed+n)
	}
	for n := range uint64(10) {
		aged(t, n)
	}
}
