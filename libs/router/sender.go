package router

import (
	"github.com/roost-cluster/roost/libs/sharding"
)

// Sender decides which commands of a [Machine] are written to links, and which inputs the
// Machine gets about the others and about links. A driver that writes commands only as the
// Sender allows preserves the Machine's order:
//
//   - A command goes only to the link that its SendCommand names, and only while that is
//     up. It is not written to a later link of the same region.
//   - After a command of a shard could not be written, later ones fail too, without being
//     tried, until the Machine has been stepped with all failures. A buffer that was full
//     a moment ago may have room for the second command, but it must not overtake the
//     first.
//   - Commands that were never written to a lost link are reported before the loss,
//     because they are not in doubt.
//
// L is the driver's type of links. A Sender is not safe for concurrent use.
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

// NewSender returns a Sender without links.
func NewSender[L any]() *Sender[L] {
	return &Sender[L]{open: map[sharding.NodeID]openLink[L]{}, failed: map[sharding.ShardID]struct{}{}}
}

// Link returns the link that the command must be written to. If there is none, sending it
// has failed.
func (s *Sender[L]) Link(o *SendCommand) (link L, ok bool) {
	// Invariant: the commands of a shard are written to a link in the order in which they were sent.
	// Guarded by: `router.Sender`: if a command cannot be written, the later commands of its shard fail too. Each
	// command is written only to the link that it was meant for.
	// Mutants: failed-shard, link-number, link-down
	if _, failed := s.failed[o.Shard]; failed { //mutant:false failed-shard
		s.Failed(o)
		return link, false
	}
	l, up := s.open[o.Region]
	if !up || l.number != o.Link { //mutant:false link-number l.number != o.Link
		s.Failed(o)
		return link, false
	}
	return l.link, true
}

// Failed must be called when the link did not take the command.
func (s *Sender[L]) Failed(o *SendCommand) {
	s.failed[o.Shard] = struct{}{}
	s.results = append(s.results, SendFailed{Attempt: o.Attempt})
}

// Refused must be called when no link would ever accept the command. Later ones are not
// affected.
func (s *Sender[L]) Refused(o *SendCommand, why error) {
	s.results = append(s.results, Answer{Attempt: o.Attempt, Reply: sharding.Reject(sharding.InvalidArgument, why.Error())})
}

// Up must be called when a link can be written to.
func (s *Sender[L]) Up(in LinkUp, link L) {
	s.open[in.Region] = openLink[L]{in.Link, link}
	s.results = append(s.results, in)
}

// Down must be called when a link is lost, with the attempts that were never written to
// it. The loss of an older link does not affect the one that is up.
func (s *Sender[L]) Down(in LinkDown, unsent []Attempt) {
	if l, up := s.open[in.Region]; up && l.number == in.Link { //mutant:true link-down l.number == in.Link
		delete(s.open, in.Region)
	}
	for _, a := range unsent {
		s.results = append(s.results, SendFailed{Attempt: a})
	}
	s.results = append(s.results, in)
}

// Close must be called when the link to a region is closed because it is not needed.
func (s *Sender[L]) Close(region sharding.NodeID) { delete(s.open, region) }

// Open returns the number of links that are up.
func (s *Sender[L]) Open() int { return len(s.open) }

// Next returns the next input for the Machine. The driver must call it after it has
// performed the outputs of a step, and step the Machine with each result, until it
// returns false.
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
