package region

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// A question that got lost is over when the journal answers anything else: the next
// one is not put off until the patience is over, and with it the notice of an outage.
func TestLostJournalTestIsOver(t *testing.T) {
	cfg := DefaultConfig(sharding.NodeID{Addr: "r1:1", UID: 1}, "r1")
	m, now := NewControlCore(cfg), time.Unix(1_000_000, 0)
	asked := func(after time.Duration) (number uint64) {
		now = now.Add(after)
		for _, o := range m.Step(now, Tick{}, nil) {
			if p, ok := o.(TestJournal); ok && p.Path == Commits {
				number = p.Number
			}
		}
		return number
	}
	asked(0)
	if n := asked(cfg.JournalTestAfter); n != 1 { // it is never answered
		t.Fatalf("the first question is %d", n)
	}
	m.Step(now, JournalTested{Path: Commits, Number: 0, Verdict: sharding.Durable}, nil)
	if n := asked(cfg.JournalTestAfter); n != 2 {
		t.Errorf("the next question is %d", n)
	}
}
