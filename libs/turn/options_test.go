package turn_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// commandOptions returns an error unless the commands of a timer, of a reminder and of an answer have their own
// time-outs, or else the usual one, and sends that would be tried for too long are refused.
func commandOptions() error {
	cfg := turn.DefaultConfig(turn.Type{
		Desc:     sharding.TypeDesc{Type: "T", Shards: 1, Commands: []sharding.CommandDesc{{Name: "Do"}, {Name: "Slow"}}},
		Timeouts: map[string]time.Duration{"Slow": 2 * time.Minute},
	})
	cfg.TimerTimeout, cfg.KeyAge = 30*time.Second, 23*time.Hour
	m, now, shard, id := turn.New(cfg), time.Unix(0, 0), sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "x"}
	var run *turn.Run
	var answer sharding.Reply
	var step func(in turn.Input)
	step = func(in turn.Input) {
		run = nil
		run = nil
		for _, o := range m.Step(now, in, nil) {
			switch o := o.(type) {
			case *turn.Run:
				run = o
			case *turn.Answer:
				answer = o.Reply
			case turn.ReadFence:
				defer step(turn.FenceRead{Shard: o.Shard, Epoch: o.Epoch, Number: o.Number, Verdict: sharding.Durable, Fence: sharding.Fence{Epoch: o.Epoch}})
			}
		}
	}
	done := func(d turn.TurnDone) {
		d.Incarnation, d.Request = run.Incarnation, run.Request
		if d.Reply.Outcome == 0 {
			d.Reply.Outcome = sharding.Executed
		}
		step(d)
	}
	step(turn.Open{Shard: shard, Epoch: 1})
	for _, o := range m.Step(now, turn.Deliver{Request: 1, Shard: shard, Env: &sharding.Envelope{Entity: id, Command: "Do", ID: "a"}}, nil) {
		if load, ok := o.(turn.Load); ok {
			step(turn.Loaded{Entity: id, Incarnation: load.Incarnation})
		}
	}
	done(turn.TurnDone{Timers: []turn.Timer{{Name: "a", Command: "Slow", After: time.Second}, {Name: "b", Command: "Do", After: 2 * time.Second}}})
	var errs []error
	want := func(what string, timeout time.Duration) {
		if run == nil || run.Env.Deadline.Sub(now) != timeout {
			errs = append(errs, fmt.Errorf("%s: %+v, want %s", what, run, timeout))
		}
	}
	for _, c := range []struct {
		name    string
		timeout time.Duration
	}{{"Slow", 2 * time.Minute}, {"Do", 30 * time.Second}} {
		now = now.Add(time.Second)
		step(turn.Tick{})
		want("timer for "+c.name, c.timeout)
		done(turn.TurnDone{})
	}
	fire := turn.Fire{Shard: shard, Epoch: 1, Entity: id, Wakeup: turn.Wakeup{WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake, Name: "r", Seq: 1}, Input: sharding.Input{Command: "Slow"}}}
	step(fire)
	want("reminder", 2*time.Minute)
	done(turn.TurnDone{Reply: sharding.Reject(sharding.Internal, "no")})
	fire.Wakeup.Kind, fire.Wakeup.Answer = sharding.SendWake, &turn.SendResult{}
	step(fire)
	want("answer", 2*time.Minute)
	done(turn.TurnDone{Reply: sharding.Reject(sharding.Internal, "no")})
	step(turn.Deliver{Request: 2, Shard: shard, Env: &sharding.Envelope{Entity: id, Command: "Do", ID: "b"}})
	done(turn.TurnDone{Sends: []sharding.Send{{To: id}, {To: id, Input: sharding.Input{Command: "Slow"}, Options: sharding.SendOptions{MaxAge: 24 * time.Hour}}}})
	if answer.Outcome != sharding.NotApplied || answer.Code != sharding.FailedPrecondition || !strings.Contains(answer.Message, "sends Slow with MaxAge 24h0m0s, at most 23h0m0s is allowed") || !strings.Contains(answer.Message, "region.dedupe_age") {
		errs = append(errs, fmt.Errorf("a send that is tried for too long: %+v", answer))
	}
	return errors.Join(errs...)
}

func TestCommandOptions(t *testing.T) {
	if err := commandOptions(); err != nil {
		t.Error(err)
	}
}
