package router

import (
	"errors"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

var senderRegion = sharding.NodeID{Addr: "r1:1", UID: 1}

func sendOn(link uint64, attempt Attempt, shard uint32) *SendCommand {
	return &SendCommand{Region: senderRegion, Link: link, Attempt: attempt, Shard: sharding.ShardID{Type: "T", Index: shard}}
}

func next(s *Sender[string]) (list []Input) {
	for in, ok := s.Next(); ok; in, ok = s.Next() {
		list = append(list, in)
	}
	return list
}

func written(s *Sender[string], o *SendCommand, on string) bool {
	link, ok := s.Link(o)
	return ok && link == on
}

// TestSenderKeepsShardsInOrder: commands behind a failed one of their shard fail until the
// core has stepped all failures. Other shards are not affected, and a refused command
// delays nothing.
func TestSenderKeepsShardsInOrder(t *testing.T) {
	s := NewSender[string]()
	s.Up(LinkUp{Region: senderRegion, Link: 1}, "one")
	if got := next(s); !slices.Equal(got, []Input{LinkUp{Region: senderRegion, Link: 1}}) || s.Open() != 1 {
		t.Error(got)
	}
	s.Failed(sendOn(1, 1, 1)) // its buffer was full
	if written(s, sendOn(1, 2, 1), "one") {
		t.Error("2 overtakes 1")
	}
	s.Refused(sendOn(1, 3, 2), errors.New("too large"))
	if !written(s, sendOn(1, 4, 2), "one") {
		t.Error("a refused command delays the next one")
	}
	if in, ok := s.Next(); !ok || in != (SendFailed{Attempt: 1}) {
		t.Error(in)
	}
	if written(s, sendOn(1, 5, 1), "one") {
		t.Error("5 overtakes 2, whose failure the core does not know yet")
	}
	refused := Answer{Attempt: 3, Reply: sharding.Reject(sharding.InvalidArgument, "too large")}
	got := next(s)
	if len(got) != 3 || got[0] != (SendFailed{Attempt: 2}) || got[2] != (SendFailed{Attempt: 5}) {
		t.Fatal(got)
	}
	if a, ok := got[1].(Answer); !ok || a.Attempt != 3 || a.Reply.Outcome != refused.Reply.Outcome || a.Reply.Code != refused.Reply.Code {
		t.Error(got[1])
	}
	if !written(s, sendOn(1, 6, 1), "one") {
		t.Error("not written although the core knows all failures")
	}
}

// TestSenderKnowsLinksByNumber: a command goes to the link that it names or nowhere, the
// loss of an older link does not affect the one that is up, and commands that were never
// written are reported before the loss.
func TestSenderKnowsLinksByNumber(t *testing.T) {
	s := NewSender[string]()
	if written(s, sendOn(1, 1, 1), "") {
		t.Error("written to no link")
	}
	s.Up(LinkUp{Region: senderRegion, Link: 1}, "one")
	s.Up(LinkUp{Region: senderRegion, Link: 2}, "two")
	next(s)
	if written(s, sendOn(1, 2, 1), "two") {
		t.Error("what was meant for the first link goes to the second")
	}
	next(s)
	down := LinkDown{Region: senderRegion, Link: 1}
	s.Down(down, []Attempt{7, 5})
	if got := next(s); !slices.Equal(got, []Input{SendFailed{Attempt: 7}, SendFailed{Attempt: 5}, down}) {
		t.Error(got)
	}
	if !written(s, sendOn(2, 3, 1), "two") {
		t.Error("the second link was lost with the first")
	}
	s.Down(LinkDown{Region: senderRegion, Link: 2}, nil)
	if written(s, sendOn(2, 4, 1), "two") {
		t.Error("written to a link that is down")
	}
	s.Up(LinkUp{Region: senderRegion, Link: 3}, "three")
	next(s)
	s.Close(senderRegion)
	if written(s, sendOn(3, 5, 1), "three") || s.Open() != 0 {
		t.Error("written to a link that is closed")
	}
}

// TestSenderAllocatesNothing for a command that is written.
func TestSenderAllocatesNothing(t *testing.T) {
	s := NewSender[*int]()
	s.Up(LinkUp{Region: senderRegion, Link: 1}, new(int))
	o := sendOn(1, 1, 1)
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := s.Link(o); !ok {
			t.Fatal("no link")
		}
		for _, ok := s.Next(); ok; _, ok = s.Next() {
			continue
		}
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
