package sim

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/reads"
)

// In the harsh climate entities send commands to others: the turn of a Send, and of a Delete,
// stages two numbers for one other entity, to be added in order, and sometimes a command that its
// target refuses.
// Of some of them the answer is taken by a Told, which adds a number to the sender.

// sent is a number that another entity adds, toldBit marks those that senders add.
func sent(x uint64, place int) uint64 { return x | 1<<59 | uint64(place)<<50 }

const toldBit = 1 << 58

// told is the number that a sender adds when it takes the answer to a send.
func told(seq, place uint64) uint64 { return toldBit | seq<<8 | place }

// sendsOf are the sends of a turn.
func (w *World) sendsOf(x uint64) []sharding.Send {
	var targets []sharding.Entity
	for _, e := range w.entities {
		if !w.volatile(e) {
			targets = append(targets, e)
		}
	}
	to := targets[x*5%uint64(len(targets))]
	send := func(place int, command, replyTo string) sharding.Send {
		return sharding.Send{To: to, Input: sharding.Input{Command: command, Version: 1, ReadableBy: 1, Payload: number(sent(x, place))}, ReplyTo: replyTo}
	}
	reply := []string{"", cmdTold}[x%2]
	list := []sharding.Send{send(0, cmdAdd, reply), send(1, cmdAdd, "")}
	if x%3 == 0 {
		list = append(list, send(2, cmdFail, []string{"", cmdTold}[x/3%2]))
	}
	return list
}

// takeAnswer is the turn that takes an answer.
func takeAnswer(l *list, w *turn.Wakeup) turn.TurnDone {
	x := told(w.Seq, w.Number)
	l.add(x)
	return turn.TurnDone{
		Events: []sharding.Event{{Name: "Added", Payload: number(x)}}, Reply: sharding.Reply{Outcome: sharding.OK, Payload: l.encode()},
	}
}

// performSends does what a shard core wants done about sends, as the driver of a region does.
func (n *shardNode) performSends(o region.ShardOutput) {
	switch o := o.(type) {
	case region.ReadSends:
		n.readSends(o.Read)
	case region.StoreEnds:
		a := o.Ack.Append
		n.group.add(journal.Op{Append: &a}, func(r journal.Result) {
			n.stepShard(region.EndsStored{Acked: outbox.Acked{Number: o.Ack.Number, Verdict: r.Verdict}})
		})
	case region.Route:
		n.startRouter()
		env := o.Deliver.Env
		f := &op{client: forwarderID, entity: env.Entity, cmd: env.Command, x: decodeNumber(env.Payload), key: env.ID, keyed: true, called: n.w.now}
		n.router.route(env, &call{op: f, reply: func(answer router.Finish) {
			n.w.mark("send: attempt is " + answer.Reply.Outcome.String())
			n.stepShard(region.Routed{Answer: outbox.Answered{Number: o.Deliver.Number, Reply: answer.Reply}})
		}})
	case region.SendDied:
		n.w.mark("send: " + o.Letter.State.String())
	}
}

// readSends reads a page of sends.
func (n *shardNode) readSends(o outbox.Read) {
	var page journal.SendsPage
	gen := n.p.gen
	n.w.journal.read(n.p.host, func() { page = n.w.journal.ledger.Sends(n.w.clock(), reads.Sends(o)) }, func(ok bool) {
		if n.p.gen != gen {
			return
		}
		n.p.post(func() { n.stepShard(region.SendsRead{Page: reads.SendsPage(o, page, lost(ok))}) })
	})
}

// pair is a sender and a target.
type pair struct{ from, to sharding.Entity }

// sends checks the log: what an entity sends has its effect at most once, after it was sent, and
// in order; what is refused has none. In the end each has had its effect, unless it is a dead
// letter, and each sender has taken the answer once that wanted it. Deletes change nothing of
// that: what comes after one is an effect of the next life. A dead letter that an operator has sent
// again is another send of the same number.
func (c *checker) sends(log []commit) {
	begun := map[sharding.Entity]int{}
	states := c.w.sendStates()
	var list []*oneSend
	same := map[uint64][]*oneSend{}
	for _, commit := range log {
		from := commit.Append.Entity
		for _, r := range commit.Append.Records {
			if r.Seq == 1 {
				begun[from]++
			}
			for place := range r.Sends {
				s := &oneSend{Send: &r.Sends[place], from: from, seq: r.Seq, place: place, at: commit.at, numbered: begun[from] - 1}
				if s.state = sharding.SendDone; s.numbered == len(c.pasts[from].lives[0])-1 { // else it was purged: all have ended
					s.state = states.of(from, r.Seq, place)
				}
				s.dealt = c.dealt[letterName{from, s.numbered, r.Seq, place}]
				x := decodeNumber(s.Input.Payload)
				list, same[x] = append(list, s), append(same[x], s)
			}
		}
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
		c.toldOnce(s)
	}
}

// oneSend is a send in the log.
type oneSend struct {
	*sharding.Send
	from     sharding.Entity
	seq      uint64
	place    int
	at       int64
	numbered int // how often the records of the sender were numbered anew before, after purges
	state    sharding.SendState
	dealt    *op // by an operator, when it was a dead letter
}

func (s *oneSend) String() string {
	return fmt.Sprintf("%s of %v, record %d, place %d to %v", s.Input.Command, s.from, s.seq, s.place, s.To)
}

// effectsOf checks the effects of a send, and of what operators have sent in its place: those
// that have ended by themselves have one each. A dead letter in doubt may have had its own.
func (c *checker) effectsOf(same []*oneSend, at []int) {
	w, s := c.w, same[0]
	least, most := 0, 1
	for _, s := range same {
		switch ended := s.state == sharding.SendDone; {
		case s.dealt != nil && s.dealt.letter.MayRepeat && s.dealt.cmd == sharding.SendAgainCommand:
			most++
		case s.dealt != nil:
			if !ended {
				w.violate("a dead letter is dealt with once", "%v is %v after %v", s, s.state, s.dealt)
			}
		case ended && s.Input.Command == cmdAdd:
			least++
		case ended && s.ReplyTo == "":
			w.violate("a refusal is not silent", "%v was refused, and nobody is told", s)
		}
	}
	if len(at) > most || s.Input.Command == cmdFail && len(at) > 0 {
		w.violate("a send has one effect", "%v took effect at positions %v", s, at)
	}
	if len(at) < least {
		w.violate("a send is not lost", "%v has ended without an effect", s)
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
	if s.dealt != nil && s.dealt.cmd == sharding.SendDropCommand {
		return // an attempt that was lost may come late
	}
	k := pair{s.from, s.To}
	if at[0] < last[k] {
		w.violate("sends are in order", "%v took effect at position %d, behind %d", s, at[0], last[k])
	}
	last[k] = max(last[k], at[0])
}

// toldOnce checks that a sender has taken an answer once, in the append that ends the send.
func (c *checker) toldOnce(s *oneSend) {
	p, n := c.pasts[s.from], 0
	begins, end := p.lives[0], len(p.elements)
	if s.numbered+1 < len(begins) {
		end = begins[s.numbered+1]
	}
	ended := false // the life that has sent it
	for i, e := range p.elements[begins[s.numbered]:end] {
		ended = ended || p.hashes[begins[s.numbered]+i+1].life >= s.seq
		if e.x != told(s.seq, uint64(s.place)) {
			continue
		}
		if n++; ended {
			c.w.violate("an answer is for the life that has asked", "%v was answered in life %d", s, p.hashes[begins[s.numbered]+i+1].life)
		}
	}
	if want := s.ReplyTo != "" && s.state == sharding.SendDone && s.dealt == nil; want && n == 0 && ended {
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
func (w *World) allSends(dead bool) []journal.SendRow {
	req := journal.SendsRequest{Dead: dead, Limit: 1 << 20}
	for _, t := range types {
		for i := range t.Shards {
			req.Shards = append(req.Shards, journal.SendPosition{Shard: sharding.ShardID{Type: t.Type, Index: i}})
		}
	}
	return w.journal.ledger.Sends(w.clock(), req).Rows
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
	intact := func(e sharding.Entity) bool {
		s := w.journal
		for i := range types {
			if types[i].Type == e.Type && s.fenceDamaged(sharding.ShardID{Type: e.Type, Index: sharding.ShardOf(e.ID, types[i].Shards)}) {
				return false
			}
		}
		return !s.loadDamaged(e) && !s.writeDamaged(e)
	}
	for _, row := range w.allSends(false) {
		if row.Err != nil || !intact(row.Entity) {
			continue
		}
		for place, s := range row.Pending() {
			if intact(s.To) {
				return fmt.Sprintf("%s of %v, record %d, place %d to %v is pending", s.Input.Command, row.Entity, row.Seq, place, s.To)
			}
		}
	}
	return ""
}
