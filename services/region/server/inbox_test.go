package server

import (
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
)

// endingSink is a connection whose client takes nothing, and that may end.
type endingSink struct {
	unsent int
	ended  bool
}

func (s *endingSink) SendBatch([]link.Answer) error { return nil }
func (s *endingSink) Unsent() int                   { return s.unsent }
func (s *endingSink) Ended() bool                   { return s.ended }
func (s *endingSink) Waiting()                      {}

// oneInbox is the inbox of one core.
func oneInbox(limit int) *inbox {
	return newInbox(limit, 1, func(sharding.Entity) int { return 0 }, replies.NewBudget(replies.DefaultConfig()), nil)
}

// TestNothingIsTakenBehindWhatWasDropped: a command waits for room, its connection
// ends, and what waits is dropped. The next one, which was handed over
// meanwhile, must not be taken: sent again on the next connection, the first would
// come second.
func TestNothingIsTakenBehindWhatWasDropped(t *testing.T) {
	limits := replies.DefaultConfig()
	b := oneInbox(100)
	b.estimates = map[sharding.EntityType]map[string]*replies.SizeEstimate{"T": {"Do": {}}}
	to := &endingSink{unsent: int(limits.Connection)}
	command := func(number uint64) []link.Command {
		return []link.Command{{Number: number, Envelope: sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "a"}, Command: "Do"}}}
	}
	b.arrive(to, command(1), nil, nil, func(cores) {})
	if b.budget.Waiting() != 1 {
		t.Fatalf("%d commands wait", b.budget.Waiting())
	}
	to.unsent, to.ended = 0, true
	b.refresh()
	b.arrive(to, command(2), nil, nil, func(cores) {})
	if b.budget.Waiting() != 0 || len(b.next[0].arrivals) != 0 {
		t.Errorf("%d commands wait, %d are taken", b.budget.Waiting(), len(b.next[0].arrivals))
	}
}

// TestNobodyWaitsForRoomAfterTheEnd: a reader that waits for room is let go when its
// connection ends. The next connection of its lane does not read before that.
func TestNobodyWaitsForRoomAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := oneInbox(1)
		stirs := 0
		b.stir = func() { stirs++ }
		to := &endingSink{}
		cmds := make([]link.Command, 3)
		for i := range cmds {
			cmds[i] = link.Command{Number: uint64(i), Envelope: sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "a"}, Command: "Do"}}
		}
		returned := false
		go func() {
			b.arrive(to, cmds, nil, nil, func(cores) {})
			returned = true
		}()
		synctest.Wait()
		if b.refresh(); returned {
			t.Fatal("an inbox for one command takes three")
		}
		if stirs == 0 || !b.waits() {
			t.Errorf("a reader waits: reported %d times, waits: %v", stirs, b.waits())
		}
		b.mu.Lock()
		to.ended = true
		b.mu.Unlock()
		b.refresh()
		if synctest.Wait(); !returned {
			t.Error("the reader still waits")
		}
		b.end()
	})
}
