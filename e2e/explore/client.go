package explore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

// call is one command of the client, sent up to left more times.
type call struct {
	cmd   string
	x     string // the number it adds
	left  int
	open  []attempt
	since int  // numbers committed when it was called first
	begun bool // it was called
	doubt bool // an attempt ended without an answer
	acked bool
}

// attempt is an unanswered sending.
type attempt struct {
	to      sharding.NodeID
	request turn.RequestID
}

// lost: the process that had attempts is gone.
func (c *call) lost(to sharding.NodeID) {
	var open []attempt
	for _, a := range c.open {
		if a.to == to {
			c.doubt = true
		} else {
			open = append(open, a)
		}
	}
	c.open = open
}

// client is the sender of the commands.
type client struct{ calls []call }

func (c *client) clone() part { return &client{slices.Clone(c.calls)} }

func (c *client) appendState(b []byte) []byte { return fmt.Appendf(b, "%+v", c.calls) }

// sending is a command on its way by a row.
type sending struct {
	call int
	row  sharding.Row
}

// callMoves: a command may be sent by any row that ever served.
func (w *cluster) callMoves(e *engine, s *state, list []*move) []*move {
	c := e.parts[clientPart][s.parts[clientPart]].(*client)
	for k := range c.calls {
		if c.calls[k].left == 0 || c.calls[k].acked {
			continue
		}
		for _, row := range e.parts[storePart][s.parts[storePart]].(*store).served {
			m := w.sendings[sending{k, row}]
			if m == nil {
				name := fmt.Sprintf("%s %s is sent to %v at %v", c.calls[k].cmd, c.calls[k].x, row.Owner, row.Epoch)
				m = &move{name: name, uses: ofHost(indexOf(row.Owner)), do: func() { w.call(k, row) }}
				w.sendings[sending{k, row}] = m
			}
			list = append(list, m)
		}
	}
	return list
}

func (w *cluster) call(k int, row sharding.Row) {
	c := &w.calls[k]
	c.left--
	if !c.begun {
		c.begun, c.since = true, len(w.numbers())
	}
	i := indexOf(row.Owner)
	h := w.hosts[i]
	if h.id != row.Owner {
		return
	}
	h.next++
	c.open = append(slices.Clip(c.open), attempt{h.id, h.next})
	w.shardStep(i, region.Command{Request: h.next, Epoch: row.Epoch, Env: &sharding.Envelope{
		Entity: theEntity, Command: c.cmd, ID: sharding.CommandID("k" + c.x), Keyed: true, Payload: []byte(c.x),
	}})
}

// end takes the attempt out of the call that made it.
func (w *cluster) end(id sharding.NodeID, r turn.RequestID) *call {
	for k := range w.calls {
		c := &w.calls[k]
		if i := slices.Index(c.open, attempt{id, r}); i >= 0 {
			c.open = slices.Delete(slices.Clone(c.open), i, i+1)
			return c
		}
	}
	w.fail("%v answers command %d twice, or it never came", id, r)
	return &call{}
}

func (w *cluster) refused(id sharding.NodeID, r turn.RequestID) { w.end(id, r) }

func (w *cluster) answered(id sharding.NodeID, r turn.RequestID, reply sharding.Reply) {
	c := w.end(id, r)
	switch reply.Outcome {
	case sharding.Executed:
	case sharding.Unknown:
		c.doubt = true
		return
	default:
		return
	}
	c.acked = true
	durable, list := w.numbers(), string(reply.Payload)
	switch {
	case !strings.HasPrefix(durable, list):
		w.fail("%s %s is answered with %q, committed are %q", c.cmd, c.x, list, durable)
	case len(list) < c.since:
		w.fail("%s %s is answered with %q, %d numbers were committed before it was called", c.cmd, c.x, list, c.since)
	case c.cmd == cmdAdd && !strings.HasSuffix(list, c.x):
		w.fail("%s %s is answered with %q", c.cmd, c.x, list)
	}
}

// numbers are the committed values of the entity.
func (w *cluster) numbers() string {
	list := ""
	for _, c := range w.ledger.Log() {
		if c.Append.Entity != theEntity {
			continue
		}
		for _, r := range c.Append.Records {
			for _, e := range r.Events {
				list += string(e.Payload)
			}
		}
	}
	return list
}

// check compares what the client knows with what is committed.
func (w *cluster) check() {
	list := w.numbers()
	for i := range w.calls {
		c := &w.calls[i]
		n := strings.Count(list, c.x)
		switch {
		case n > 1:
			w.fail("%s took effect %d times: %q", c.x, n, list)
		case n == 0 && c.acked && c.cmd == cmdAdd:
			w.fail("%s was acknowledged and is not committed", c.x)
		case n == 1 && !c.acked && !c.doubt && len(c.open) == 0:
			w.fail("%s was refused and took effect", c.x)
		}
	}
}

// checkJournal looks at the log of commits.
func (w *cluster) checkJournal() {
	epochs := map[sharding.ShardID]sharding.Epoch{}
	seqs := map[sharding.Entity]uint64{}
	for i, c := range w.ledger.Log() {
		a := &c.Append
		if c.Epoch < epochs[a.Shard] {
			w.fail("%v: an effect of epoch %v after one of %v", a.Entity, c.Epoch, epochs[a.Shard])
		}
		epochs[a.Shard] = c.Epoch
		if f := w.ledger.Fence(a.Shard); i >= w.read && c.Epoch != f.Epoch {
			w.fail("%v: an effect of epoch %v, the shard is claimed at %v", a.Entity, c.Epoch, f.Epoch)
		}
		for _, r := range a.Records {
			if r.Seq != seqs[a.Entity]+1 {
				w.fail("%v: record %d after %d", a.Entity, r.Seq, seqs[a.Entity])
			}
			seqs[a.Entity] = r.Seq
			if a.Entity == theEntity {
				w.last = r.Seq
			}
			if a.Entity == factEntity && i >= w.read {
				for _, e := range r.Events {
					w.fact(e.Payload)
				}
			}
		}
	}
	w.read = len(w.ledger.Log())
}

func (w *cluster) fact(b []byte) {
	f, ok := decodeFact(b).(coordinator.RowFact)
	if !ok {
		return
	}
	w.facts = append(w.facts, f.Row)
	if f.Next != 0 {
		w.reserved = append(w.reserved, sharding.Row{Shard: f.Row.Shard, Owner: f.Successor, Epoch: f.Next, Phase: sharding.Starting})
	}
	if f.Row.Phase == sharding.Serving {
		w.served = append(w.served, f.Row)
		if w.ledger.Fence(theShard).Epoch < f.Row.Epoch {
			w.fail("%+v serves and was never claimed", f.Row)
		}
	}
}

// stored is a fact as the journal keeps it.
type stored struct {
	Row *sharding.Row `json:",omitempty"`
	// Successor, Next and the forms belong to the row.
	Successor            sharding.NodeID
	Next                 sharding.Epoch
	Before, May, NextMay []byte                 `json:",omitempty"`
	Desc                 *sharding.TypeDesc     `json:",omitempty"`
	Forms                []sharding.Form        `json:",omitempty"`
	Drain                *coordinator.DrainFact `json:",omitempty"`
}

func encodeFact(f coordinator.Fact) []byte {
	var s stored
	switch f := f.(type) {
	case coordinator.RowFact:
		s.Row, s.Successor, s.Next = &f.Row, f.Successor, f.Next
		s.Before, s.May, s.NextMay = []byte(f.Before), []byte(f.May), []byte(f.NextMay)
	case coordinator.TypeFact:
		s.Desc, s.Forms = &f.Desc, f.Forms
	case coordinator.DrainFact:
		s.Drain = &f
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

func decodeFact(b []byte) coordinator.Fact {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		panic(err)
	}
	switch {
	case s.Row != nil:
		return coordinator.RowFact{
			Row: *s.Row, Successor: s.Successor, Next: s.Next,
			Before: sharding.FormSet(s.Before), May: sharding.FormSet(s.May), NextMay: sharding.FormSet(s.NextMay),
		}
	case s.Drain != nil:
		return *s.Drain
	}
	return coordinator.TypeFact{Desc: *s.Desc, Forms: s.Forms}
}
