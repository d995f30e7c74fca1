package stored

import (
	"context"
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/sharding"
)

// The type that has set a reminder reads its input. The type of a send's target reads the input of the send,
// and a command of the type that has sent it takes the answer.

// checkInputs reads the reminders that stand and the sends that are pending. It leaves out what was
// given up, and what is for types that are not checked.
func (c *checker) checkInputs(ctx context.Context) error {
	var own, all []sharding.ShardID
	for _, t := range c.facts.Types {
		for i := range t.Shards {
			all = append(all, sharding.ShardID{Type: t.Type, Index: i})
			if c.types[t.Type] != nil {
				own = append(own, all[len(all)-1])
			}
		}
	}
	damaged := func(id sharding.ShardID, err error) {
		c.unreadInput(id.Type, Problem{Type: id.Type, What: "stored data", Problem: journal.ErrCorrupt.Error(), Fix: fixDamaged}, Example{Detail: err.Error()})
	}
	from := retrying{c, ctx}
	err := journal.EachReminder(ctx, from, own, func(r *journal.WakeEntry) error {
		if r.Kind == sharding.ReminderWake {
			c.checkTimer(r)
		}
		return nil
	}, damaged)
	if err != nil {
		return fmt.Errorf("the reminders cannot be read: %w", err)
	}
	if err := journal.EachSend(ctx, from, all, false, func(r *journal.SendEntry) error { c.checkSends(r); return nil }, damaged); err != nil {
		return fmt.Errorf("the sends cannot be read: %w", err)
	}
	return nil
}

func (c *checker) checkTimer(r *journal.WakeEntry) {
	t := c.counts[r.Entity.Type]
	if r.Err == nil { // beyond a sample too: it costs nothing
		c.see(r.Entity, seenForm{kind: sharding.FormOfInput, name: r.Input.Command, version: r.Input.Version})
	}
	if c.enough(t) {
		return
	}
	t.Reminders++
	if r.Err != nil {
		c.unreadInput(r.Entity.Type, Problem{Type: r.Entity.Type, What: "stored data", Problem: journal.ErrCorrupt.Error(), Fix: fixDamaged}, Example{ID: r.Entity.ID, Detail: r.Err.Error()})
		return
	}
	c.noteInput(r.Entity, &r.Input, c.readInput(r.Entity, &r.Input), Example{ID: r.Entity.ID, Seq: r.Seq, Detail: fmt.Sprintf("reminder %q", r.Name)})
}

func (c *checker) checkSends(r *journal.SendEntry) {
	if r.Err != nil && c.types[r.Entity.Type] != nil {
		c.unreadInput(r.Entity.Type, Problem{Type: r.Entity.Type, What: "stored data", Problem: journal.ErrCorrupt.Error(), Fix: fixDamaged}, Example{ID: r.Entity.ID, Seq: r.Seq, Detail: r.Err.Error()})
	}
	for place := range r.Sends {
		s := &r.Sends[place]
		if r.States.Of(place) != sharding.SendPending {
			continue
		}
		if t := c.counts[s.To.Type]; t != nil && !c.enough(t) {
			t.Sends++
			c.noteInput(s.To, &s.Input, c.readInput(s.To, &s.Input), Example{ID: s.To.ID, Detail: fmt.Sprintf("sent by %s, record %d", r.Entity, r.Seq)})
		}
		t := c.counts[r.Entity.Type]
		if t == nil || s.ReplyTo == "" {
			continue
		}
		c.see(r.Entity, seenForm{kind: sharding.FormOfInput, name: s.ReplyTo, version: 1})
		if !c.enough(t) {
			t.Answers++
			answer := sharding.Input{Command: s.ReplyTo}
			c.noteInput(r.Entity, &answer, instance.CheckTakesAnswers(c.types[r.Entity.Type], r.Entity, s.ReplyTo), Example{ID: r.Entity.ID, Seq: r.Seq, Detail: fmt.Sprintf("sent to %s", s.To)})
		}
	}
}

// readInput returns an error unless the type of an entity reads an input for one of its commands.
func (c *checker) readInput(of sharding.Entity, in *sharding.Input) error {
	err := fmt.Errorf("a step of %s: %w", in.Command, instance.ErrGoexit)
	loop.Apart(func() { err = instance.CheckStored(c.types[of.Type], of, in) })
	return err
}

// enough reports whether as many inputs of a type were checked as are wanted.
func (c *checker) enough(t *TypeReport) bool { return c.cfg.Sample > 0 && t.inputs() >= c.cfg.Sample }

// noteInput reports an input that cannot be read.
func (c *checker) noteInput(of sharding.Entity, in *sharding.Input, err error, at Example) {
	if err == nil {
		return
	}
	p := Problem{Type: of.Type, What: "input", Command: in.Command, Version: int(in.Version), Problem: err.Error(), Fix: "the step must take every input that was stored; see its log for the stack"}
	var unread *instance.StoredError
	if errors.As(err, &unread) {
		p.Problem, p.Fix = unread.Err.Error(), unread.Fix
	}
	c.unreadInput(of.Type, p, at)
}

func (c *checker) unreadInput(typ sharding.EntityType, p Problem, at Example) {
	if t := c.counts[typ]; t != nil {
		t.UnreadInputs++
	}
	c.found.add(p, at)
}

// retrying reads pages, and tries again if the store does not answer.
type retrying struct {
	c   *checker
	ctx context.Context
}

func (r retrying) Wakes(_ context.Context, req journal.WakesRequest) (page journal.WakesPage, err error) {
	err = r.c.retry(r.ctx, func(ctx context.Context) (err error) {
		page, err = r.c.reader.Wakes(ctx, req)
		return err
	})
	return page, err
}

func (r retrying) Sends(_ context.Context, req journal.SendsRequest) (page journal.SendsPage, err error) {
	err = r.c.retry(r.ctx, func(ctx context.Context) (err error) {
		page, err = r.c.reader.Sends(ctx, req)
		return err
	})
	return page, err
}
