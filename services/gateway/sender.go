package gateway

import (
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Sender decides which of the Sends that a [Machine] has put out are written, and
// what the Machine is told of the others and of links. A driver that performs Sends
// only as the Sender allows keeps the order that the Machine made:
//
//   - A Send goes to the very link that it names: one that is up. What was meant for
//     a link that is gone is not written to the next one.
//   - Once a Send of a shard has failed, those after it fail too, without being tried,
//     until the Machine has stepped all that failed. A buffer that was full a moment
//     ago may have room for the second command, but not ahead of the first.
//   - What was never written to a lost link is reported before the loss: it is not in
//     doubt.
//
// L is what the driver writes to. A Sender is not safe for concurrent use.
type Sender[L any] struct {
	open    map[sharding.NodeID]openLink[L]
	failed  map[sharding.ShardID]struct{}
	results []Input
	stepped int // of the results
}

// openLink is a link that is up.
type openLink[L any] struct {
	number uint64
	link   L
}

// NewSender is a Sender without links.
func NewSender[L any]() *Sender[L] {
	return &Sender[L]{open: map[sharding.NodeID]openLink[L]{}, failed: map[sharding.ShardID]struct{}{}}
}

// Link returns the link that a Send is to be written to; if there is none, the Send
// has failed.
func (s *Sender[L]) Link(o *Send) (link L, ok bool) {
	if _, failed := s.failed[o.Shard]; failed && !mutant.On("failed-shard") {
		s.Failed(o)
		return link, false
	}
	l, up := s.open[o.Region]
	if !up || l.number != o.Link && !mutant.On("link-number") {
		s.Failed(o)
		return link, false
	}
	return l.link, true
}

// Failed takes in that the link did not take a Send.
func (s *Sender[L]) Failed(o *Send) {
	s.failed[o.Shard] = struct{}{}
	s.results = append(s.results, SendFailed{Attempt: o.Attempt})
}

// Refused takes in that no link would ever take a Send. It holds up nothing.
func (s *Sender[L]) Refused(o *Send, why error) {
	s.results = append(s.results, Answer{Attempt: o.Attempt, Reply: sharding.Reject(sharding.InvalidArgument, why.Error())})
}

// Up takes in that a link can be written to.
func (s *Sender[L]) Up(in LinkUp, link L) {
	s.open[in.Region] = openLink[L]{in.Link, link}
	s.results = append(s.results, in)
}

// Down takes in that a link is lost, and what was never written to it. That of an
// older link says nothing of the one that is up.
func (s *Sender[L]) Down(in LinkDown, unsent []Attempt) {
	if l, up := s.open[in.Region]; up && (l.number == in.Link || mutant.On("link-down")) {
		delete(s.open, in.Region)
	}
	for _, a := range unsent {
		s.results = append(s.results, SendFailed{Attempt: a})
	}
	s.results = append(s.results, in)
}

// Close takes in that the link to a region is closed, for nobody wants it any more.
func (s *Sender[L]) Close(region sharding.NodeID) { delete(s.open, region) }

// Open is how many links are up.
func (s *Sender[L]) Open() int { return len(s.open) }

// Next returns what the Machine is to be stepped with next. The driver calls it when
// it has performed the outputs of all steps, and again after it has performed those
// of this one, until there is nothing more.
func (s *Sender[L]) Next() (in Input, ok bool) {
	if s.stepped < len(s.results) {
		in, s.results[s.stepped] = s.results[s.stepped], nil
		s.stepped++
		return in, true
	}
	if s.stepped > 0 {
		s.results, s.stepped = s.results[:0], 0
		clear(s.failed)
	}
	return nil, false
}
