package outbox_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// script plays inputs to a dispatcher with one shard, and notes which sends are delivered.
type script struct {
	t         testing.TB
	d         *outbox.Dispatcher
	now       time.Time
	shard     sharding.ShardID
	delivered string
	last      uint64 // delivery
	reads     []outbox.Read
	acks      []outbox.Ack
	fired     turn.Fire
	ended     int // sends, as the sender's entity core receives them
}

func newScript(t testing.TB, cfg outbox.Config) *script {
	s := &script{t: t, d: outbox.New(cfg), now: time.UnixMilli(1_000_000_000_000), shard: sharding.ShardID{Type: "A"}}
	s.in(outbox.Open{Shard: s.shard, Epoch: 1})
	return s
}

func (s *script) step(do func(*outbox.Outputs)) {
	s.t.Helper()
	var out outbox.Outputs
	do(&out)
	for _, v := range out.Delivers {
		s.delivered, s.last = s.delivered+string(v.Env.Payload), v.Number
	}
	s.reads, s.acks = append(s.reads, out.Reads...), append(s.acks, out.Acks...)
	for _, in := range out.Turn {
		switch in := in.(type) {
		case turn.Fire:
			s.fired = in
		case turn.SendsEnded:
			s.ended += len(in.Seqs)
		}
	}
	if err := s.d.Check(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) in(i outbox.Input) {
	s.t.Helper()
	s.step(func(out *outbox.Outputs) { s.d.Step(s.now, i, out) })
}

// entry is a record of an entity with one send.
func (s *script) entry(from sharding.Entity, seq uint64) journal.SendEntry {
	x := sharding.Send{To: entity("C", 1), Input: sharding.Input{Command: "do", Payload: fmt.Append(nil, seq)}}
	return journal.SendEntry{Shard: s.shard, Entity: from, Seq: seq, At: s.now, States: make(journal.SendStates, 1), Sends: []sharding.Send{x}}
}

// stored reports a record as durable.
func (s *script) stored(from sharding.Entity, seq uint64) {
	s.t.Helper()
	r := sharding.Record{Seq: seq, Sends: []sharding.Send{s.entry(from, seq).Sends[0]}}
	s.step(func(out *outbox.Outputs) {
		s.d.Observe(s.now, turn.SendsStored{Shard: s.shard, Epoch: 1, Entity: from, At: s.now, Records: []sharding.Record{r}}, out)
	})
}

// page answers the newest read.
func (s *script) page(more bool, entries ...journal.SendEntry) {
	s.t.Helper()
	p := outbox.Page{Number: s.reads[len(s.reads)-1].Number, SendsPage: journal.SendsPage{Now: s.now, Entries: entries}}
	if more {
		p.More = []sharding.ShardID{s.shard}
	}
	s.in(p)
}

// answer answers the newest delivery.
func (s *script) answer(r sharding.Reply) {
	s.t.Helper()
	s.in(outbox.Answered{Number: s.last, Reply: r})
}

// TestPendingSends: only pending sends are delivered, also of a record whose other sends have ended.
func TestPendingSends(t *testing.T) {
	s, from := newScript(t, outbox.DefaultConfig()), entity("A", 1)
	entry := journal.SendEntry{Shard: s.shard, Entity: from, Seq: 7, At: s.now, States: make(journal.SendStates, 1)}
	for i := range 3 {
		entry.Sends = append(entry.Sends, sharding.Send{To: entity("C", 1+i), Input: sharding.Input{Command: "do", Payload: fmt.Append(nil, i)}})
	}
	entry.States.Deliver(3, &sharding.Delivered{Seq: 7, Sends: []uint16{0}, As: sharding.SendRefused})
	entry.States.Deliver(3, &sharding.Delivered{Seq: 7, Sends: []uint16{2}, As: sharding.SendDone})
	s.page(false, entry)
	if s.delivered != "1" || s.d.Stats().Sends != 1 {
		t.Errorf("delivered %q, %+v", s.delivered, s.d.Stats())
	}
}

// fullPage: a page without room for entries of a shard does not say that there are none.
func fullPage(t testing.TB) {
	s, from := newScript(t, outbox.DefaultConfig()), entity("A", 1)
	s.page(true, s.entry(from, 1))
	s.page(true)
	s.stored(from, 3)
	s.page(false, s.entry(from, 2), s.entry(from, 3))
	for range 3 {
		s.answer(sharding.Reply{Outcome: sharding.Executed})
	}
	if s.delivered != "123" {
		t.Errorf("delivered in the order %s", s.delivered)
	}
}

func TestFullPage(t *testing.T) { fullPage(t) }

// behindDamage: what is behind a record that cannot be read waits for it, on the next page too.
func behindDamage(t testing.TB) {
	for _, behind := range [][]uint64{{4}, nil} {
		s, from := newScript(t, outbox.DefaultConfig()), entity("A", 1)
		torn := journal.SendEntry{Shard: s.shard, Entity: from, Seq: 2, Err: errors.New("it is damaged")}
		s.page(true, s.entry(from, 1), torn, s.entry(from, 3))
		s.answer(sharding.Reply{Outcome: sharding.Executed})
		var entries []journal.SendEntry
		for _, seq := range behind {
			entries = append(entries, s.entry(from, seq))
		}
		s.page(false, entries...)
		s.stored(from, 5)
		if s.delivered != "1" {
			t.Errorf("with %d on the next page, %s are delivered before the damage is repaired", behind, s.delivered)
		}
		entries = []journal.SendEntry{s.entry(from, 2), s.entry(from, 3)}
		for _, seq := range behind {
			entries = append(entries, s.entry(from, seq))
		}
		s.page(false, append(entries, s.entry(from, 5))...)
		for range len(behind) + 3 {
			s.answer(sharding.Reply{Outcome: sharding.Executed})
		}
		if want := map[int]string{0: "1235", 1: "12345"}[len(behind)]; s.delivered != want {
			t.Errorf("delivered in the order %s, want %s", s.delivered, want)
		}
	}
}

func TestBehindDamage(t *testing.T) { behindDamage(t) }

// evictedBehind: a sender that is forgotten while a sweep continues after it is read again before
// anything more of it is delivered.
func evictedBehind(t testing.TB) {
	cfg := outbox.DefaultConfig()
	cfg.Sends = 2
	s, first := newScript(t, cfg), entity("A", 1)
	s.page(true, s.entry(first, 1))
	s.answer(sharding.Reject(sharding.Unavailable, "away"))
	s.page(true, s.entry(entity("A", 2), 1)) // now the memory is full
	s.page(false)
	s.stored(first, 2)
	s.page(false, s.entry(first, 1), s.entry(first, 2))
	if s.delivered != "111" {
		t.Errorf("delivered in the order %s", s.delivered)
	}
}

func TestEvictedBehind(t *testing.T) { evictedBehind(t) }

// endedDurable: behind a send that was refused, the next one waits until that is stored. The target
// does not remember the refusal, and could execute what the next owner delivers again.
func endedDurable(t testing.TB) {
	s, from := newScript(t, outbox.DefaultConfig()), entity("A", 1)
	s.page(false)
	for seq := range uint64(4) {
		s.stored(from, seq+1)
	}
	no := sharding.Reject(sharding.PermissionDenied, "no")
	s.answer(no)
	if s.delivered != "1" || len(s.acks) != 1 {
		t.Fatalf("%s are delivered, and %d ends are being stored; want 1 and one", s.delivered, len(s.acks))
	}
	s.step(func(out *outbox.Outputs) { // an operator does not wait for that
		s.d.Observe(s.now, turn.SendDropped{Shard: s.shard, Epoch: 1, Entity: from, Seq: 1}, out)
	})
	s.in(outbox.Acked{Number: s.acks[0].Number, Verdict: sharding.UnknownOutcome})
	s.now = s.now.Add(time.Second)
	s.in(outbox.Tick{})
	if s.delivered != "1" || len(s.acks) != 2 {
		t.Fatalf("after a doubt %s are delivered, and %d ends were to be stored; want 1 and two", s.delivered, len(s.acks))
	}
	s.in(outbox.Acked{Number: s.acks[1].Number, Verdict: sharding.Durable})
	s.answer(sharding.Reply{Outcome: sharding.Executed, Code: sharding.FailedPrecondition}) // which the target remembers
	if s.delivered != "123" {
		t.Errorf("%s are delivered, want 123", s.delivered)
	}
	s.answer(no)
	s.in(outbox.Close{Shard: s.shard}) // while that is being stored
	if st := s.d.Stats(); st.Sends != 0 || st.Bytes != 0 || s.delivered != "123" {
		t.Errorf("%+v is left of a closed shard, and %s are delivered", st, s.delivered)
	}
}

func TestEndedDurable(t *testing.T) { endedDurable(t) }

// obsolete: an answer that was taken before, by an append with an unknown outcome, counts as ended
// when that is known.
func obsolete(t testing.TB) {
	s, from := newScript(t, outbox.DefaultConfig()), entity("A", 1)
	entry := s.entry(from, 1)
	entry.Sends[0].ReplyTo = "told"
	s.page(false, entry)
	s.answer(sharding.Reply{Outcome: sharding.Executed})
	for _, end := range []turn.FiringEnd{turn.FiringInDoubt, turn.FiringObsolete} {
		s.step(func(out *outbox.Outputs) {
			s.d.Observe(s.now, turn.FiringEnded{Shard: s.shard, Epoch: 1, Entity: from, Ref: s.fired.Wakeup.WakeRef, End: end}, out)
		})
		s.now = s.now.Add(2 * time.Second)
		s.in(outbox.Tick{})
	}
	if s.ended != 1 || s.d.Stats().Sends != 0 {
		t.Errorf("%d sends have ended, %d are held; want 1 and none", s.ended, s.d.Stats().Sends)
	}
}

func TestObsolete(t *testing.T) { obsolete(t) }

// TestRefused: targets refuse some attempts, which they do not remember, while owners change. What
// has an effect has it in order.
func TestRefused(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("from seed %d", seed)
	for n := range uint64(20) {
		refused(t, seed+n)
	}
	for n := range uint64(10) {
		refused(t, n)
	}
}

func refused(t testing.TB, seed uint64) {
	m := newModel(t, seed, func(c *outbox.Config) {
		c.Page, c.Refresh, c.RetryMax = 3, 5*time.Second, 2*time.Second
		if seed%2 == 0 {
			c.Sends = 25
		}
	})
	m.tight = seed%3 == 0
	m.behave = func(*sharding.Envelope) behaviour {
		b := behaviour{delay: time.Duration(m.rng.IntN(10)) * time.Millisecond}
		switch m.rng.IntN(6) {
		case 0:
			b.reply = sharding.Reject(sharding.FailedPrecondition, "not now")
		case 1:
			b.reply = sharding.Reject(sharding.Unavailable, "away")
		}
		return b
	}
	if seed%4 == 0 {
		m.damaged = func(*sharding.Append) bool { return m.rng.IntN(3) == 0 }
	}
	m.own()
	sent := map[string]int{}
	for range 40 {
		for range 1 + m.rng.IntN(6) {
			from, to := entity(string("AB"[m.rng.IntN(2)]), m.rng.IntN(3)), entity("C", m.rng.IntN(2))
			pair := fmt.Sprint(from, to)
			sent[pair]++
			m.send(from, true, command(from, to, sent[pair], []string{"", "told"}[m.rng.IntN(2)]))
		}
		m.run(time.Duration(m.rng.IntN(200)) * time.Millisecond)
		if m.rng.IntN(5) == 0 {
			m.own()
		}
	}
	for n := 0; m.unended() > 0; n++ {
		if n == 100 {
			t.Fatalf("seed %d: %d sends have not ended\n%s", seed, m.unended(), m.d.AppendState(m.now, nil))
		}
		m.run(2 * time.Second)
	}
	checkEffects(t, m, seed)
}
