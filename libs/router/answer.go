package router

import (
	"cmp"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// answer handles the reply to an attempt. The first answer that settles the command
// counts, whichever attempt it belongs to.
func (m *Machine) answer(in *Answer) {
	a := m.attempts[in.Attempt]
	if a == nil {
		return
	}
	r, reply := a.r, in.Reply
	if reply.Outcome == sharding.Executed {
		m.finish(r, reply, a.region)
		return
	}
	m.drop(a)
	unknown := reply.Outcome == sharding.NotApplied && reply.Code == sharding.UnknownCommand
	if unknown {
		m.learnLacking(a, reply.Message)
		reply = otherVersion(reply.Message)
	}
	switch reply.Outcome {
	case sharding.NotApplied:
	case sharding.Unknown:
		r.lost = true
	default:
		r.lost = true
		reply = sharding.Doubt(sharding.Internal, "the region said neither success nor failure")
	}
	if r.sent && !a.newest() {
		return
	}
	// A request that already waits is sent again, unless that would change the order.
	again := !r.sent || reply.Code == sharding.Unavailable
	switch {
	//mutant:false expired-again
	case reply.Outcome == sharding.Unknown && reply.Code == sharding.KeyExpired:
		again = false // a repeat would get the same answer until the deadline passes, and that error says less
	case reply.Outcome == sharding.Unknown:
		again = r.resend
	case unknown:
		again = m.mayDefer(r.shard, r)
	}
	if !again || overtaken(r) { //mutant:false overtaken overtaken(r)
		m.finish(r, reply, a.region)
		return
	}
	if r.failure == "" || reply.Code != sharding.DeadlineExceeded { // DeadlineExceeded says less than an earlier failure
		r.failure = failureText(&reply)
	}
	//mutant:do failure-kept r.failure = ""
	if unknown {
		m.deferRequest(r)
	} else if r.sent {
		m.rest(r)
	}
	if r.sent {
		m.requeue(r)
	}
}

// failureText returns the text of a failure, which is needed if the command is given up later. The text is
// shortened if it is very long, because commands that are sent again and again keep it in memory. The end of
// the message is kept, because it points to the place in the log that has more.
func failureText(reply *sharding.Reply) string {
	const first, last = 400, 100
	text := reply.Message
	if len(text) > first+last {
		text = strings.ToValidUTF8(text[:first], "") + "…" + strings.ToValidUTF8(text[len(text)-last:], "")
	}
	return string(reply.Code) + ": " + text
}

// rest makes a request wait before it is sent again, longer each time: a command that has failed several
// times will probably fail again, and each attempt costs its region a turn.
func (m *Machine) rest(r *request) {
	r.refusals++
	pause := m.jitter.Pause(r.refusals, m.cfg.Backoff, m.cfg.BackoffMax)
	//mutant:do resend-back-off pause = m.cfg.Backoff
	r.restsUntil = m.now.Add(pause)
}

// overtaken reports whether a later command for the same entity may have taken effect, or may take effect
// before r. In this case, r is not sent again, because that could reverse their order. If the later command
// has ended already, only its shard is known, so it counts for all entities of the shard.
func overtaken(r *request) bool {
	if r.shard.departed > r.order {
		return true
	}
	for q := r.next; q != nil; q = q.next {
		if q.inDoubt() && q.env.Entity == r.env.Entity {
			return true
		}
	}
	return false
}

// notMine handles the definite refusal of an attempt by its region.
func (m *Machine) notMine(in NotMine) {
	a := m.attempts[in.Attempt]
	if a == nil {
		m.refusedLate(in)
		return
	}
	s := a.r.shard
	m.drop(a)
	m.refuseEpoch(s, a.epoch)
	if a.newest() {
		m.requeue(a.r)
	}
	if in.Row.Shard == s.id {
		m.merge(in.Row)
	}
}

// refuseEpoch notes that no command of the shard may be sent at the epoch again.
func (m *Machine) refuseEpoch(s *shard, epoch sharding.Epoch) {
	if epoch > s.refused {
		s.refused = epoch
		s.askAt = m.now
	}
	m.touch(s)
}

// refusedLate handles the refusal of an attempt whose command has ended already: another attempt was answered,
// or the command was given up. No attempt is ever made at an epoch above the row's, so a refusal of such an
// epoch is ignored.
func (m *Machine) refusedLate(in NotMine) {
	row, ok := m.table.Row(in.Row.Shard)
	if !ok {
		return
	}
	if in.Refused == row.Epoch { //mutant:false late-refusal
		m.refuseEpoch(m.shard(row.Shard), in.Refused)
	}
	m.merge(in.Row)
}

// sendFailed removes an attempt that was never made.
func (m *Machine) sendFailed(in SendFailed) {
	a := m.attempts[in.Attempt]
	if a == nil {
		return
	}
	m.drop(a)
	a.r.attempts--
	a.r.shard.pausedUntil = m.now.Add(m.cfg.SendRetry)
	m.touch(a.r.shard)
	if a.newest() {
		m.requeue(a.r)
	}
}

// doubtAll puts all unanswered attempts on a lost link in doubt, in order of admission. Commands that may be
// repeated wait again; the others end.
func (m *Machine) doubtAll(l *link) {
	var lost []*attempt
	for _, a := range m.attempts { // sorted below
		if a.region == l.region && a.link == l.number {
			lost = append(lost, a)
		}
	}
	slices.SortFunc(lost, func(a, b *attempt) int {
		return cmp.Or(cmp.Compare(a.r.order, b.r.order), cmp.Compare(a.id, b.id))
	})
	for _, a := range lost {
		r := a.r
		m.drop(a)
		r.lost = true
		switch {
		case !a.newest():
		case r.resend:
			m.requeue(r)
		default:
			m.finish(r, sharding.Doubt(sharding.Unavailable,
				"the link to the region was lost; the command may or may not have been applied"), a.region)
		}
	}
}
