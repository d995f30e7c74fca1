package router_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestRepliesAreBounded: replies that are expected or not delivered yet count before a
// command is sent. One that exceeds the budget all the same is replaced by an error which
// reports that the command ran.
func TestRepliesAreBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	region := sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}
	cfg := router.DefaultConfig()
	cfg.MaxReplyBytes, cfg.UnknownReply = 10_000, 1_000
	m := router.New(cfg)
	var sent []router.Attempt
	var held []int
	var refused, ran int
	step := func(in router.Input) {
		t.Helper()
		for _, o := range m.Step(now, in, nil) {
			switch o := o.(type) {
			case router.SendCommand:
				sent = append(sent, o.Attempt)
			case router.Finish:
				switch {
				case o.Reply.Outcome == sharding.NotApplied && o.Reply.Code == sharding.ResourceExhausted && o.Held == 0 && o.RetryAfter > 0:
					refused++
				case o.Reply.Outcome == sharding.Executed && o.Reply.Code == sharding.ReplyLost && strings.HasPrefix(o.Reply.Message, "the command ran"):
					ran++
					if repeat := o.Request%2 == 0; repeat != (o.RetryAfter > 0) || !o.Region.IsZero() {
						t.Errorf("want no region, and Retry-After only with a key, which gets the lost reply: %+v", o)
					}
					fallthrough
				case o.Reply.Outcome == sharding.Executed:
					held = append(held, o.Held)
				default:
					t.Errorf("%+v", o)
				}
			}
		}
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}
	step(router.Coordinators{Addrs: []string{"127.0.0.1:2"}})
	step(router.Replied{From: "127.0.0.1:2", Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: sharding.TableDelta{
		Full: true, Version: sharding.Version{Term: 1, N: 1},
		Types: []sharding.TypeDesc{{Type: "Blob", Shards: 1, Commands: []sharding.CommandDesc{{Name: "Get"}}}},
		Rows:  []sharding.Row{{Shard: sharding.ShardID{Type: "Blob"}, Owner: region, Epoch: 1 << 32, Phase: sharding.Serving}},
	}}})
	step(router.LinkUp{Region: region, Link: 1})
	next := router.RequestID(0)
	submit := func(count int) {
		t.Helper()
		sent, refused = nil, 0
		for range count {
			next++
			step(router.Submit{Request: next, Env: &sharding.Envelope{Entity: sharding.Entity{Type: "Blob", ID: "a"}, Command: "Get", ID: sharding.CommandID(fmt.Sprint(next)), Keyed: next%2 == 0}})
		}
	}
	answer := func(size int) {
		t.Helper()
		for _, a := range sent {
			step(router.Answer{Attempt: a, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: make([]byte, size)}})
		}
		if got := m.Stats().Replies; got > int(cfg.MaxReplyBytes)+1_000 {
			t.Errorf("replies take %d bytes", got)
		}
	}
	deliver := func() {
		for _, n := range held {
			step(router.Delivered{Bytes: n})
		}
		held = nil
		if got := m.Stats().Replies; got != 0 {
			t.Errorf("%d bytes are left", got)
		}
	}
	want := func(sends, refusals int) {
		t.Helper()
		if len(sent) != sends || refused != refusals {
			t.Errorf("%d were sent and %d refused, want %d and %d", len(sent), refused, sends, refusals)
		}
	}
	submit(12)
	want(10, 2)
	answer(100)
	submit(30) // undelivered replies count
	want(18, 12)
	answer(100)
	deliver()
	submit(12)
	want(12, 0)
	answer(3_000) // much more than before
	if ran == 0 || ran == 12 {
		t.Errorf("%d replies were left out", ran)
	}
	deliver()
	submit(1)
	answer(20_000) // more than the whole budget
	deliver()
	submit(2)
	want(1, 1)
	for range 200 { // the expected size falls again
		answer(3_000)
		deliver()
		submit(1)
	}
	answer(3_000)
	deliver()
	submit(12)
	want(3, 9)
	next = 1_000_000
	for id := router.RequestID(1); id < 1_000; id++ {
		step(router.Cancel{Request: id})
	}
	deliver()
}
