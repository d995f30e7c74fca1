package turn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/scenariotest"
	"github.com/roost-cluster/roost/libs/turn"
)

// TestScenarios runs the scenarios. The commands:
//
//	open                              open shard 0 at epoch 1.1
//	remember                          entities are remembered; the first command of a scenario
//	start-entity [entity=E] [epoch=N]     bring an entity to life
//	deliver R ID CMD [keyed] [payload=P] [tell] [deadline=MS] [entity=E] [chain=E,E…]
//	loaded SEQ [CMDID=reply…]         answer the newest Load (conflict=CMDID, err=TEXT, retry, fresh, life=SEQ, remembered=MS, reminders=N), or nth=N
//	lookedup [CMDID=reply | expired | failed]  answer the newest Lookup; nothing: it is not stored
//	sendread [STATE] [reply-to=CMD] [err=TEXT]  answer the newest ReadSend (pending done refused in-doubt)
//	done R [events=N] [bytes=N] [reply=TEXT] [error=CODE] [reject] [bad] [spoiled] [passivate] [forget] [timer=NAME:CMD:MS]
//	                                  [deleted] the turn deletes its entity
//	                                  [set=NAME:DUE] [remove=NAME] wake-ups; [wake=NAME] the turn of a firing, with R 0
//	fire NAME CMD [seq=N] [number=N] [due=MS] [next=MS] [entity=E] [epoch=N]  a wake-up is due
//	appended VERDICT                  answer the oldest Append (durable epoch seq command wake full damaged format unknown)
//	fence VERDICT                     answer the oldest ReadFence
//	stopped                           answer the newest Stop
//	drain | abort | tick MS           tick lets MS pass first
//	limit COMMANDS BYTES LOADS [reserve=COMMANDS]  for all entities from now on
//	ask R ENTITY CMD [number=N] [read-only] [key=K] [step=NAME] [deadline=MS] [payload=P]  the running turn of request R asks
//	asked N [reply=TEXT] [error=CODE] [reject=CODE] [doubt=CODE]  answer the ask of that number
//	withdraw N                        its turn does not wait any more
//	look [prefix=P] [after=E] [running=MS] [limit=N]  list the entities in memory
//	stats
func TestScenarios(t *testing.T) { scenariotest.Run(t, play) }

// play starts a scenario.
func play(*testing.T) scenariotest.Play {
	s := newScenario()
	return func(commands []string) (trace []string) {
		for _, c := range commands {
			trace = append(trace, s.command(strings.Fields(c))...)
			if err := s.m.Check(); err != nil {
				trace = append(trace, "CHECK "+err.Error())
			}
			if err := s.m.Clone().Check(); err != nil {
				trace = append(trace, "CLONE "+err.Error())
			}
			if n := s.m.Stats().Waiting; n != s.waiting {
				trace = append(trace, fmt.Sprintf("ASKS %d wait for AskDone, the machine counts %d", s.waiting, n))
			}
		}
		return trace
	}
}

// TestTimersLeaveNothingBehind: a timer that is replaced in every turn must not
// leave an alarm behind each time.
func TestTimersLeaveNothingBehind(t *testing.T) {
	s := newScenario()
	s.command(strings.Fields("open"))
	s.command(strings.Fields("deliver 1 a Peek"))
	s.command(strings.Fields("loaded 0"))
	s.command(strings.Fields("done 1"))
	size := func() int { return strings.Count(string(s.m.AppendState(s.now, nil)), "alarm") }
	for i := range 5000 {
		s.command(strings.Fields(fmt.Sprintf("deliver %d p%d Peek", i+2, i)))
		s.command(strings.Fields(fmt.Sprintf("done %d timer=t:Add:3600000", i+2)))
	}
	if n := s.m.Alarms(); n > 2048 || size() != 1 {
		t.Errorf("%d alarms, %d of them relevant, after setting one timer 5000 times", n, size())
	}
}

// TestLateTurnKeepsItsCommand: the memory of commands is reused, but not while a
// turn of an ended incarnation may still read it, even if the command ran again
// meanwhile.
func TestLateTurnKeepsItsCommand(t *testing.T) {
	for name, lines := range map[string][]string{
		"turned away": {"abort", "appended durable", "open", "deliver 3 c Peek", "loaded 0", "done 3"},
		"run again":   {"appended unknown", "appended durable", "loaded 1 a=one", "done 2 events=1", "appended durable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario()
			step := func(line string) {
				s.command(strings.Fields(line))
				if err := s.m.Check(); err != nil {
					t.Fatalf("after %q: %v", line, err)
				}
			}
			for _, line := range []string{"open", "deliver 1 a Add keyed", "loaded 0", "done 1 events=1", "deliver 2 b Add"} {
				step(line)
			}
			late, inc := s.runs[2], s.runs[2].Incarnation
			for _, line := range lines {
				step(line)
			}
			if st := s.m.Stats(); st.Commands > 0 {
				t.Fatalf("%d commands are not answered", st.Commands)
			}
			used := map[*sharding.Envelope]bool{}
			for i := range 10 {
				step(fmt.Sprintf("deliver %d p%d Peek", i+10, i))
				used[s.runs[turn.RequestID(i+10)].Env] = true
				step(fmt.Sprintf("done %d", i+10))
			}
			if late.Env.ID != "b" || late.Incarnation != inc {
				t.Errorf("the late turn of b by %v has become the turn of %s by %v", inc, late.Env.ID, late.Incarnation)
			}
			if len(used) > 3 {
				t.Errorf("%d envelopes for commands one after the other: none are used again", len(used))
			}
		})
	}
}

// TestAnswersUntilRecycle: the memory of answers is reused after Recycle, and not
// before.
func TestAnswersUntilRecycle(t *testing.T) {
	s := newScenario()
	s.command(strings.Fields("open"))
	env := sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "a"}, ID: "a", Command: "None"}
	var list []*turn.Answer
	used := map[*turn.Answer]bool{}
	for r := range turn.RequestID(10_000) {
		for _, o := range s.m.Step(s.now, turn.Deliver{Request: r, Shard: shard0, Env: &env}, nil) {
			list = append(list, o.(*turn.Answer))
			used[list[len(list)-1]] = true
		}
		if len(list) < 2500 {
			continue
		}
		for i, a := range list {
			if want := r + 1 - turn.RequestID(len(list)-i); a.Request != want || a.Reply.Code != sharding.UnknownCommand {
				t.Fatalf("answer %d has become %+v", want, *a)
			}
		}
		s.m.Recycle()
		list = list[:0]
	}
	if len(used) == 10_000 {
		t.Errorf("no memory was used again")
	}
}

// TestToldUntilRecycle: the same for what has become of tells.
func TestToldUntilRecycle(t *testing.T) {
	s := newScenario()
	s.command(strings.Fields("open"))
	var list []*turn.UnwatchedDone
	used := map[*turn.UnwatchedDone]bool{}
	for n := range 1000 {
		env := sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "a"}, ID: sharding.CommandID(fmt.Sprint(n)), Command: "Peek", Tell: true}
		outs := s.m.Step(s.now, turn.Deliver{Request: turn.RequestID(n), Shard: shard0, Env: &env}, nil)
		for len(outs) > 0 {
			o := outs[0]
			outs = outs[1:]
			switch o := o.(type) {
			case turn.Load:
				outs = s.m.Step(s.now, turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation}, outs)
			case *turn.Run:
				done := turn.TurnDone{Incarnation: o.Incarnation, Request: o.Request, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: []byte(fmt.Sprint(n))}}
				outs = s.m.Step(s.now, done, outs)
			case turn.ReadFence:
				outs = s.m.Step(s.now, turn.FenceRead{Shard: o.Shard, Epoch: o.Epoch, Number: o.Number, Verdict: sharding.Durable}, outs)
			case *turn.UnwatchedDone:
				list, used[o] = append(list, o), true
			}
		}
		if len(list) < 250 {
			continue
		}
		for i, o := range list {
			if want := fmt.Sprint(n + 1 - len(list) + i); string(o.Reply.Payload) != want {
				t.Fatalf("the end of tell %s has become %+v", want, *o)
			}
		}
		s.m.Recycle()
		list = list[:0]
	}
	if len(used) == 0 || len(used) == 1000 {
		t.Errorf("1000 ends of tells had %d places in memory", len(used))
	}
}

// TestKeepEventsNeedsSnapshots: nothing is trimmed without what takes its place.
func TestKeepEventsNeedsSnapshots(t *testing.T) {
	for _, c := range []struct {
		keep, every int
		volatile    bool
		ok          bool
	}{
		{0, 0, false, true}, {1, 1, false, true}, {1 << 40, turn.MaxTrimmedEvery, false, true},
		{-1, 5, false, false}, {1, 0, false, false}, {1, turn.MaxTrimmedEvery + 1, false, false}, {1, 5, true, false},
	} {
		cfg := newScenario().cfg
		cfg.Types[0].KeepEvents, cfg.Types[0].SnapshotEvery, cfg.Types[0].Desc.Volatile = c.keep, c.every, c.volatile
		if err := cfg.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
