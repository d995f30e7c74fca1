package sim

import (
	"encoding/json"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Operators look at the dead letters of the journal, and send them again or drop them, and drop what
// is pending. Two may deal with the same one at the same time, and what one sees may be old when
// the command comes.

// dealWithDeadLetter makes a command of a client an operator's, from time to time.
func (c *client) dealWithDeadLetter(o *op) {
	w, d := c.w, c.w.dice("dead letters")
	if w.weather.Harsh.Send == 0 || !d.chance(0.05) {
		return
	}
	pending := d.chance(0.2)
	rows := w.allSends(!pending)
	if len(rows) == 0 {
		return
	}
	row := &rows[d.IntN(len(rows))]
	if row.Err != nil || len(row.Sends) == 0 {
		return
	}
	o.entity, o.cmd, o.tell = row.Entity, sharding.SendAgainCommand, false
	if d.chance(0.3) {
		o.cmd = sharding.SendDropCommand
	}
	o.letter = &sharding.DeadLetterInput{Record: row.Seq, Place: uint16(d.IntN(len(row.Sends))), MayRepeat: d.chance(0.5)}
	if pending && d.chance(0.7) { // else it is refused, unless the send dies meanwhile
		o.cmd, o.letter.MayHaveRun = sharding.SendDropCommand, true
	}
}

// secondOperator has another operator deal with the same dead letter at about the same time, from time to time. The
// turn of the second command may read the dead letter before the record of the first one is durable.
func (c *client) secondOperator(first *op, patience time.Duration) {
	w, d := c.w, c.w.dice("second operators")
	if !d.chance(0.5) {
		return
	}
	w.mark("dead letter: two operators")
	o := &op{id: len(w.ops) + 1, client: c.id, entity: first.entity, cmd: first.cmd, keyed: true}
	o.x, o.letter = uint64(o.id), first.letter
	c.issue(o)
	c.openCommands++
	w.after(d.exp(10*ms), func() {
		o.called = w.now
		c.send(o, c.gateway, patience)
	})
}

// payload is the input of the command.
func (o *op) payload() []byte {
	if o.letter == nil {
		return number(o.x)
	}
	b, err := json.Marshal(o.letter)
	if err != nil {
		panic(err)
	}
	return b
}

// readSend reads one send, as the driver of a region does.
func (s *shardNode) readSend(o turn.ReadSend) {
	s.findSend(o, false)
}

// findSend looks for a send among those that are pending, and then among the dead letters.
func (s *shardNode) findSend(o turn.ReadSend, dead bool) {
	var page journal.SendsPage
	incarnation := s.p.incarnation
	s.w.journal.read(s.p.host, func() { page = s.w.journal.ledger.Sends(s.w.clock(), o.Query(dead)) }, func(ok bool) {
		if s.p.incarnation != incarnation {
			return
		}
		out, last := o.Answer(dead, page, lost(ok))
		if !last {
			s.findSend(o, true)
			return
		}
		s.p.post(func() { s.stepShard(out) })
	})
}

// letterName is one place of one record of one numbering of an entity's records.
type letterName struct {
	from     sharding.Entity
	numbered int
	seq      uint64
	place    int
}

// deadLetters checks what operators were told: what was acknowledged is in the log, what was
// refused is not, and a dead letter is dealt with once. The sends that take the place of others
// are in the log like all sends; see [checker.sends].
func (c *checker) deadLetters(log []commit) {
	w := c.w
	stored := map[sharding.CommandID]int{}
	begun := map[sharding.Entity]int{}
	for _, commit := range log {
		from := commit.Append.Entity
		for _, r := range commit.Append.Records {
			if r.Seq == 1 {
				begun[from]++
			}
			o := w.letters[r.Command]
			if o == nil || o.entity != from {
				continue
			}
			stored[r.Command]++
			name := letterName{from, begun[from] - 1, o.letter.Record, int(o.letter.Place)}
			if before := c.dealt[name]; before != nil {
				w.violate("a dead letter is dealt with once", "%v: record %d, place %d of %v was ended before by %v", o, o.letter.Record, o.letter.Place, from, before)
			}
			c.dealt[name] = o
			if again := o.cmd == sharding.SendAgainCommand; again != (len(r.Sends) == 1) {
				w.violate("a dead letter is sent again", "%v: its record has %d sends", o, len(r.Sends))
			}
			if o.letter.MayHaveRun {
				w.mark("dead letter: a send that was pending is dropped")
			}
			w.mark("dead letter: " + o.cmd)
		}
	}
	for _, o := range w.ops {
		if o.letter == nil {
			continue
		}
		switch n := stored[o.key]; {
		case o.acknowledged() && n == 0:
			w.violate("acknowledged is durable", "%v was acknowledged, and no record deals with the dead letter", o)
		case o.refused() && n > 0:
			w.violate("not applied has no effect", "%v was refused and has dealt with the dead letter", o)
		}
	}
}
