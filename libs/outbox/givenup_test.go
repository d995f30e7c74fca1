package outbox_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// givenUp: a send that an operator has given up is not tried again, wherever it is just then, and
// the sends that wait for it continue: at once, or when the attempt in progress has ended.
func givenUp(t testing.TB) {
	s := &sender{
		TB: t, d: outbox.New(outbox.DefaultConfig()), cfg: outbox.DefaultConfig(), now: time.UnixMilli(1_000_000_000_000),
		shard: sharding.ShardID{Type: "A"}, from: entity("A", 1), to: entity("C", 1),
	}
	s.in(outbox.Open{Shard: s.shard, Epoch: 1})
	s.in(outbox.Page{Number: 1, SendsPage: journal.SendsPage{Now: s.now}})
	givenUpUnderWay(s)
	givenUpWhileAnswerIsTaken(s)
	givenUpWhileRead(s)
}

// sender is a dispatcher with the sends of one entity to another.
type sender struct {
	testing.TB
	d    *outbox.Dispatcher
	cfg  outbox.Config
	now  time.Time
	out  outbox.Outputs // of the last step
	from sharding.Entity
	to   sharding.Entity

	shard     sharding.ShardID
	delivered string // the delivered payloads, in this order
	last      uint64 // the number of the last delivery
	ended     int    // how many sends have ended
	fired     turn.Fire
}

func (s *sender) step(do func()) {
	s.out = outbox.Outputs{}
	do()
	for _, v := range s.out.Delivers {
		s.delivered, s.last = s.delivered+string(v.Env.Payload), v.Number
	}
	for _, in := range s.out.Turn {
		switch in := in.(type) {
		case turn.SendsEnded:
			s.ended += len(in.Seqs)
		case turn.Fire:
			s.fired = in
		}
	}
	if err := s.d.Check(); err != nil {
		s.Fatal(err)
	}
	if c := s.d.Clone(); !bytes.Equal(c.AppendState(s.now, nil), s.d.AppendState(s.now, nil)) {
		s.Fatal("the clone differs")
	}
}

func (s *sender) in(i outbox.Input) { s.step(func() { s.d.Step(s.now, i, &s.out) }) }

func (s *sender) tell(e turn.ShardEvent) { s.step(func() { s.d.Observe(s.now, e, &s.out) }) }

func (s *sender) want(what, delivered string, held, ended int) {
	s.Helper()
	if s.delivered != delivered || s.d.Stats().Sends != held || s.ended != ended {
		s.Errorf("%s: delivered %q, %d held, %d ended; want %q, %d, %d", what, s.delivered, s.d.Stats().Sends, s.ended, delivered, held, ended)
	}
}

func (s *sender) send(seq uint64) sharding.Send {
	return sharding.Send{To: s.to, Input: sharding.Input{Command: "do", Payload: fmt.Append(nil, seq)}}
}

func (s *sender) store(seq uint64, replyTo string) {
	send := s.send(seq)
	send.ReplyTo = replyTo
	s.tell(turn.SendsStored{Shard: s.shard, Epoch: 1, Entity: s.from, At: s.now, Records: []sharding.Record{{Seq: seq, Sends: []sharding.Send{send}}}})
}

// drop is an operator who gives a send up.
func (s *sender) drop(seq uint64) {
	s.tell(turn.SendDropped{Shard: s.shard, Epoch: 1, Entity: s.from, Seq: seq})
}

// done answers the last delivery.
func (s *sender) done() {
	s.in(outbox.Answered{Number: s.last, Reply: sharding.Reply{Outcome: sharding.Executed}})
}

// later lets time pass.
func (s *sender) later(d time.Duration) {
	s.now = s.now.Add(d)
	s.in(outbox.Tick{})
}

// stored has the one end stored that is to be stored now.
func (s *sender) stored() {
	s.Helper()
	s.later(s.cfg.AckDelay)
	if len(s.out.Acks) != 1 {
		s.Fatalf("%d ends are stored at a time, want 1", len(s.out.Acks))
	}
	s.in(outbox.Acked{Number: s.out.Acks[0].Number, Verdict: sharding.Durable})
}

func (s *sender) entry(seq uint64) journal.SendEntry {
	return journal.SendEntry{Shard: s.shard, Entity: s.from, Seq: seq, At: s.now, States: make(journal.SendStates, 1), Sends: []sharding.Send{s.send(seq)}}
}

func givenUpUnderWay(s *sender) {
	s.store(1, "")
	s.store(2, "")
	s.store(3, "")
	s.in(outbox.Answered{Number: s.last, Reply: sharding.Reject(sharding.Unavailable, "away")})
	s.want("one fails", "1", 3, 0)
	s.drop(2)
	s.want("after it", "1", 2, 1)
	s.drop(2)
	s.drop(1)
	s.want("while it waits to be tried again", "13", 1, 2)
	s.store(4, "")
	s.drop(3)
	s.want("while it is in progress", "13", 2, 3)
	s.drop(3)
	s.done()
	s.want("when that has ended", "134", 1, 3)
	s.done()
	s.in(outbox.Tick{})
	s.drop(4) // while its end is being stored, which counts it
	s.stored()
	s.want("while its end is stored", "134", 0, 4)
	s.drop(4)
	s.want("when it has ended", "134", 0, 4)
}

func givenUpWhileAnswerIsTaken(s *sender) {
	s.store(5, "take")
	s.store(6, "")
	s.done()
	s.drop(5) // the turn that takes the answer is refused, or fails
	s.tell(turn.FiringEnded{Shard: s.shard, Epoch: 1, Entity: s.from, Ref: s.fired.Wakeup.WakeRef, End: turn.FiringFailed, Code: sharding.Internal})
	s.want("while its answer is taken", "13456", 1, 5)
	s.done()
	s.stored()
}

// givenUpWhileRead: a read may be older than a notification.
func givenUpWhileRead(s *sender) {
	s.later(s.cfg.Refresh)
	s.drop(7)
	s.in(outbox.Page{Number: 2, SendsPage: journal.SendsPage{Now: s.now, Entries: []journal.SendEntry{s.entry(7), s.entry(8)}}})
	s.want("while it is read", "134568", 1, 6)
	s.done()
	s.later(s.cfg.Refresh)
	s.drop(9)
	s.in(outbox.Page{Number: 3, SendsPage: journal.SendsPage{Now: s.now, Entries: []journal.SendEntry{s.entry(9)}}})
	s.want("while it alone is read", "134568", 1, 6)
}

func TestGivenUp(t *testing.T) { givenUp(t) }
