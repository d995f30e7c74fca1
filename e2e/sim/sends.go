package sim

import (
	"cmp"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// In the harsh climate entities send commands to others: the turn of a Send, and of a Delete,
// stages two numbers for one other entity, to be added in order, and sometimes a command that its
// target refuses. Where sends are given up soon, some are to a type that does not exist, or are an
// unknown command.
// The answer of some is taken by a Told, which adds a number to the sender that encodes the answer.

// sent is a number that another entity adds, toldBit marks those that senders add.
func sent(x uint64, place int) uint64 { return x | 1<<59 | uint64(place)<<50 }

const toldBit = 1 << 58

// told is the number that a sender adds when it takes an answer to a send.
func told(seq, place uint64, as answer) uint64 { return toldBit | seq<<8 | uint64(as)<<4 | place }

// answer is the result of a send for its sender.
type answer uint8

const (
	toldNothing  answer = iota
	toldDone            // it has had its effect
	toldRefused         // the target has refused it, or it was given up and had no effect
	toldDoubtful        // it is unknown
)

// String is a word for the answer, such as "done".
func (a answer) String() string { return [...]string{"nothing", "done", "refused", "doubtful"}[a%4] }

func answerOf(r *sharding.Reply) answer {
	switch {
	case r.Outcome == sharding.Unknown:
		return toldDoubtful
	case r.Outcome == sharding.Executed && r.Code == "":
		return toldDone
	}
	return toldRefused
}

// sendsOf are the sends of a turn.
func (w *World) sendsOf(x uint64) []sharding.Send {
	var targets []sharding.Entity
	for _, e := range w.entities {
		if !w.volatile(e) {
			targets = append(targets, e)
		}
	}
	to, first := targets[x*5%uint64(len(targets))], cmdAdd
	if w.weather.Harsh.SendAge > 0 {
		switch x % 7 {
		case 0:
			to.Type = "Nothing"
		case 1:
			first = "Nothing"
		}
	}
	send := func(place int, command, replyTo string) sharding.Send {
		return sharding.Send{
			To: to, Input: sharding.Input{Command: command, Version: 1, ReadableBy: 1, Payload: number(sent(x, place))}, ReplyTo: replyTo, Options: w.sendOptions(sent(x, place)),
		}
	}
	reply := []string{"", cmdTold}[x%2]
	list := []sharding.Send{send(0, first, reply), send(1, cmdAdd, "")}
	if x%3 == 0 {
		list = append(list, send(2, cmdFail, []string{"", cmdTold}[x/3%2]))
	}
	return list
}

// sendOptions are the options of the send of a number, in whole milliseconds, as they are stored. Some sends have none.
func (w *World) sendOptions(x uint64) (o sharding.SendOptions) {
	d := newDice(x, "options of a send")
	between := func(least, most int64) time.Duration { return nanos(d.between(least, most)).Truncate(time.Millisecond) }
	if d.chance(0.3) {
		o.Timeout = between(500*ms, 6*sec)
	}
	if d.chance(0.3) && w.weather.SendPause == 0 {
		o.RetryMin = between(20*ms, 500*ms)
		o.RetryMax = o.RetryMin + between(0, 2*sec)
	}
	if age := w.weather.Harsh.SendAge; age > 0 && d.chance(0.3) {
		o.MaxAge = between(age/4, 2*age)
	}
	return o
}

// attempt checks that an attempt has the time of its send, and, if the clock of the store was never set, that a send that
// is too old is not tried.
func (s *shardNode) attempt(env *sharding.Envelope) {
	cfg, o := &s.cfg.Sends, s.w.sendOptions(decodeNumber(env.Payload))
	late := 300 * time.Millisecond // the driver performs an output a little later
	if nanos(s.w.now-s.p.resumed) < late {
		late += nanos(s.p.resumed-s.p.pausedAt) * 11 / 10 // or after a pause, by a clock that may drift
	}
	if left, want := env.Deadline.Sub(s.p.now()), cmp.Or(o.Timeout, cfg.AttemptTimeout); left > want || left < want-late {
		s.w.violate("an attempt has the time of its send", "%v has %v, with the options %+v", env.ID, left, o)
	}
	if at, ok := sharding.KeyTime(env.ID); !ok || len(s.w.storeSteps) == 0 && s.w.storeClock().Sub(at) > cmp.Or(o.MaxAge, cfg.MaxAge)+time.Second {
		s.w.violate("a send that is too old is not tried", "%v is tried %v after it was stored, with the options %+v", env.ID, s.w.storeClock().Sub(at), o)
	}
	s.w.mark(fmt.Sprintf("send: attempt with options %t %t %t", o.Timeout > 0, o.RetryMax > 0, o.MaxAge > 0))
}

// takeAnswer is the turn that takes an answer.
func takeAnswer(l *list, w *turn.Wakeup) turn.TurnDone {
	x := told(w.Seq, w.Number, answerOf(&w.Answer.Reply))
	l.add(x)
	return turn.TurnDone{
		Events: []sharding.Event{{Name: "Added", Payload: number(x)}}, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: l.encode()},
	}
}

// performSends does what a shard core wants done about sends, as the driver of a region does.
func (s *shardNode) performSends(o region.ShardOutput) {
	switch o := o.(type) {
	case region.ReadSends:
		s.readSends(o.Read)
	case region.StoreEnds:
		a := o.Ack.Append
		s.group.add(journal.Op{Append: &a}, func(r journal.Result) {
			if r.Verdict == sharding.UnknownOutcome {
				s.w.mark("send: whether its end is stored is not known")
			}
			s.stepShard(outbox.Acked{Number: o.Ack.Number, Verdict: r.Verdict})
		})
	case region.Route:
		s.startRouter()
		env := o.Deliver.Env
		s.attempt(&env)
		f := &op{client: forwarderID, entity: env.Entity, cmd: env.Command, x: decodeNumber(env.Payload), key: env.ID, keyed: true, called: s.w.now}
		s.router.route(env, &call{op: f, reply: func(answer router.Finish) {
			s.w.mark("send: attempt is " + answer.Reply.Outcome.String())
			s.stepShard(outbox.Answered{Number: o.Deliver.Number, Reply: answer.Reply})
		}})
	case region.SendDied:
		s.w.mark("send: " + o.Letter.State.String())
	}
}

// readSends reads a page of sends.
func (s *shardNode) readSends(o outbox.Read) {
	var page journal.SendsPage
	incarnation := s.p.incarnation
	s.w.journal.read(s.p.host, func() {
		page = s.w.journal.ledger.Sends(s.w.clock(), o.SendsRequest)
		shorten(s.w, &page, func(r *journal.SendEntry) sharding.ShardID { return r.Shard })
	}, func(ok bool) {
		if s.p.incarnation != incarnation {
			return
		}
		s.p.post(func() {
			s.stepShard(outbox.Page{Number: o.Number, SendsPage: page, Err: lost(ok)})
		})
	})
}

// pair is a sender and a target.
type pair struct{ from, to sharding.Entity }

// sends checks the log: what an entity sends has its effect at most once, after it was sent, and
// in order; what is refused has none; and what a sender was told is true. In the end each has ended,
// and the journal says so. Deletes change nothing of that: what comes after one is an effect of the
// next life. A dead letter that an operator has sent again is another send of the same number.
func (c *checker) sends(log []commit) {
	list := c.readSends(log)
	states, same := c.w.sendStates(), map[uint64][]*oneSend{}
	for _, s := range list {
		x := decodeNumber(s.Input.Payload)
		same[x] = append(same[x], s)
		if purged := s.numbered < len(c.pasts[s.from].lives[0])-1; !purged && states.of(s.from, s.seq, s.place) != s.state {
			c.w.violate("the end of a send is stored", "%v is %v by the log, and %v in the journal", s, s.state, states.of(s.from, s.seq, s.place))
		}
		c.toldOnce(s)
	}
	last := map[pair]int{}
	for _, s := range list {
		x := decodeNumber(s.Input.Payload)
		if of := same[x]; of[0] == s {
			c.effectsOf(of, c.where[x])
			if len(of) == 1 {
				c.oneEffect(s, last)
			}
		}
	}
}

// readSends reads what was sent from the log, and how it has ended.
func (c *checker) readSends(log []commit) (list []*oneSend) {
	begun := map[sharding.Entity]int{}
	byName := map[letterName]*oneSend{}
	for _, commit := range log {
		from := commit.Append.Entity
		for _, r := range commit.Append.Records {
			if r.Seq == 1 {
				begun[from]++
			}
			for place := range r.Sends {
				name := letterName{from, begun[from] - 1, r.Seq, place}
				s := &oneSend{Send: &r.Sends[place], from: from, seq: r.Seq, place: place, at: commit.at, numbered: name.numbered, dealt: c.dealt[name]}
				list, byName[name] = append(list, s), s
			}
		}
		for _, d := range commit.Append.Delivered {
			for _, place := range d.Sends {
				if s := byName[letterName{from, begun[from] - 1, d.Seq, int(place)}]; s != nil {
					s.end(d.As)
				}
			}
		}
	}
	return list
}

// end notes the end of a send. A send ends once, but an operator may then make a dead letter done.
func (s *oneSend) end(as sharding.SendState) {
	if s.state == sharding.SendPending {
		s.ended = as
	}
	if s.state == sharding.SendPending || as == sharding.SendDone {
		s.state = as
	}
}

// oneSend is a send in the log.
type oneSend struct {
	*sharding.Send
	from     sharding.Entity
	seq      uint64
	place    int
	at       int64
	numbered int                // how often the records of the sender were numbered anew before, after purges
	ended    sharding.SendState // how it has ended without an operator
	state    sharding.SendState // how it is in the end
	told     answer             // the result for its sender
	dealt    *op                // by an operator, when it was a dead letter
}

func (s *oneSend) String() string {
	return fmt.Sprintf("%s of %v, record %d, place %d to %v", s.Input.Command, s.from, s.seq, s.place, s.To)
}

// dropped reports whether an operator has ended the send while it was pending.
func (s *oneSend) dropped() bool {
	return s.dealt != nil && s.dealt.letter.MayHaveRun && !s.ended.Dead()
}

// effects are the numbers of effects that a send must have and may have had.
func (s *oneSend) effects() (least, most int) {
	switch {
	case s.dropped() && s.Input.Command == cmdAdd:
		return 0, 1
	case s.ended == sharding.SendRefused, s.told == toldRefused, s.Input.Command != cmdAdd:
		return 0, 0
	case s.told == toldDone, s.ended == sharding.SendDone && s.ReplyTo == "":
		return 1, 1
	}
	return 0, 1 // it is in doubt, or its sender was deleted before the result
}

// effectsOf checks the effects of a send, and of operators' sends in its place.
func (c *checker) effectsOf(same []*oneSend, at []int) {
	w, least, most := c.w, 0, 0
	for _, s := range same {
		l, m := s.effects()
		least, most = least+l, most+m
		switch {
		case s.dealt != nil && (!s.ended.Dead() && !s.dropped() || s.state != sharding.SendDone):
			w.violate("a dead letter is dealt with once", "%v was %v and is %v after %v", s, s.ended, s.state, s.dealt)
		case s.dealt != nil && s.ended == sharding.SendInDoubt && s.dealt.cmd == sharding.SendAgainCommand && !s.dealt.letter.MayRepeat:
			w.violate("what is in doubt is not repeated", "%v was %v, and %v sends it again", s, s.ended, s.dealt)
		case s.ended == sharding.SendDone && s.ReplyTo == "" && !s.dropped() && s.Input.Command != cmdAdd:
			w.violate("a refusal is not silent", "%v was refused, and its sender is not notified", s)
		}
	}
	switch s := same[0]; {
	case len(at) > most:
		w.violate("a send has one effect", "%v, which has ended as %v, took effect at positions %v; its sender was told: %v", s, s.ended, at, s.told)
	case len(at) < least:
		w.violate("a send is not lost", "%v has ended without an effect; its sender was told: %v", s, s.told)
	}
}

// oneEffect checks when a send had its effect.
func (c *checker) oneEffect(s *oneSend, last map[pair]int) {
	w, at := c.w, c.where[decodeNumber(s.Input.Payload)]
	if len(at) != 1 {
		return
	}
	to := c.pasts[s.To]
	e := &to.elements[at[0]-1]
	if e.at < s.at {
		w.violate("a send follows its record", "%v took effect before it was stored", s)
	}
	if to.deletedBetween(s.at, e.at) {
		w.mark("send: its target was deleted meanwhile")
	}
	if least, most := s.effects(); least < most {
		return // it has ended in doubt, or was dropped: an attempt may come late (the exception to G4)
	}
	k := pair{s.from, s.To}
	if at[0] < last[k] {
		w.violate("sends are in order", "%v took effect at position %d, behind %d", s, at[0], last[k])
	}
	last[k] = max(last[k], at[0])
}

// toldOnce checks that a sender has taken an answer once.
func (c *checker) toldOnce(s *oneSend) {
	p, n := c.pasts[s.from], 0
	begins, end := p.lives[0], len(p.elements)
	if s.numbered+1 < len(begins) {
		end = begins[s.numbered+1]
	}
	ended := false // the life that has sent it
	for i, e := range p.elements[begins[s.numbered]:end] {
		ended = ended || p.hashes[begins[s.numbered]+i+1].life >= s.seq
		as := answer(e.x >> 4 & 15)
		if e.x != told(s.seq, uint64(s.place), as) {
			continue
		}
		s.told = as
		c.w.mark("send: its sender was told: " + as.String())
		if n++; ended {
			c.w.violate("an answer is for the life that has asked", "%v was answered in life %d", s, p.hashes[begins[s.numbered]+i+1].life)
		}
	}
	if want := s.ReplyTo != "" && s.ended == sharding.SendDone && !s.dropped(); want && n == 0 && ended {
		c.w.mark("send: its sender was deleted meanwhile")
	} else if n > 1 || (n == 1) != want {
		c.w.violate("an answer is taken once", "%v, which is %v, was answered %d times", s, s.state, n)
	}
}

// ended are the states of all sends that are not done.
type ended map[string]sharding.SendState

func sendName(e sharding.Entity, seq uint64, place int) string { return fmt.Sprint(e, seq, place) }

func (e ended) of(from sharding.Entity, seq uint64, place int) sharding.SendState {
	if s, ok := e[sendName(from, seq, place)]; ok {
		return s
	}
	return sharding.SendDone
}

// allSends reads all records with sends that are not done.
func (w *World) allSends(dead bool) []journal.SendEntry {
	req := journal.SendsRequest{Dead: dead, Limit: 1 << 20}
	for _, t := range types {
		for i := range t.Shards {
			req.Shards = append(req.Shards, journal.SendPosition{Shard: sharding.ShardID{Type: t.Type, Index: i}})
		}
	}
	return w.journal.ledger.Sends(w.clock(), req).Entries
}

func (w *World) sendStates() ended {
	states := ended{}
	for _, dead := range []bool{false, true} {
		for _, row := range w.allSends(dead) {
			for place := range 4 * len(row.States) {
				if s := row.States.Of(place); s != sharding.SendDone {
					states[sendName(row.Entity, row.Seq, place)] = s
				}
			}
		}
	}
	return states
}

// unsent names a send that is pending though nothing in its way is damaged, or returns "".
func (w *World) unsent() string {
	for _, row := range w.allSends(false) {
		if row.Err != nil || !w.intact(row.Entity) {
			continue
		}
		for place, s := range row.Pending() {
			if w.intact(s.To) {
				return fmt.Sprintf("%s of %v, record %d, place %d to %v is pending", s.Input.Command, row.Entity, row.Seq, place, s.To)
			}
		}
	}
	return ""
}
