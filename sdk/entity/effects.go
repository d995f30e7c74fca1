package entity

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// After sends the command to the entity itself when d has passed. A timer is
// identified by its name: setting it again replaces it. Timers are volatile: they
// die with the incarnation, when the entity is moved (unless its type has
// [KeepOnMoves]), lost, or stopped by [Ctx.Passivate]. An entity with a pending timer is not idle and is not
// passivated. Like events, timers count only if the handler succeeds. If the
// input cannot be encoded, or the type has no such command, the turn fails.
func (h *Handle[In, Out]) After(ctx *Ctx, d time.Duration, name string, in In) {
	instance.Of(ctx).After(&h.cmd, d, name, in)
}

// Every sends the command to the entity itself repeatedly, at intervals of d. A firing
// is skipped while the previous one is still waiting. The timer keeps the entity from
// being passivated until it is cancelled. The interval is at least [MinTimerInterval]; with a shorter one the
// turn fails.
func (h *Handle[In, Out]) Every(ctx *Ctx, d time.Duration, name string, in In) {
	instance.Of(ctx).Every(&h.cmd, d, name, in)
}

// Remind sends the command to the entity itself at a time, for example the end of a month, by the clock of the
// journal's store, even if it was passivated or moved by then, or its region has failed. A reminder is
// identified by its name: setting it again replaces it, and [Ctx.CancelReminder] removes it. It becomes
// durable together with the events of the turn, and counts only if the handler succeeds.
//
// The command takes effect at most once: what it stages becomes durable together with the end of the
// reminder. It runs late if no region could run it in time, never early by the journal's clock. If it fails
// with anything but an error made by [Errorf], it is undone and retried after a pause of 0.5 to 1 s, which
// grows up to 1 min. The region's log, "roost entity reminders --failing" and the metric roost.region.reminders.failing
// show it.
//
// The input is stored until the command runs, perhaps by a later version of the program: see
// [Stored], without which the turn fails. So it does if the input cannot be stored, the time
// is zero or after the year [MaxReminderYear], in a read-only command, and for a volatile type, which keeps
// nothing: use After there. A name has 1 to [MaxReminderNameLen] bytes of UTF-8, and no control or format
// characters: operators see it in lists.
func (h *Handle[In, Out]) Remind(ctx *Ctx, at time.Time, name string, in In) {
	instance.Of(ctx).Remind(&h.cmd, at, name, in)
}

// RemindAfter does the same as [Handle.Remind] when a duration has passed. Use it rather than Remind with
// ctx.Now().Add(d): reminders are due by the clock of the journal's store, and [Ctx.Now] uses the region's
// machine. If the two clocks differ, only RemindAfter waits for d. The duration must not be negative.
func (h *Handle[In, Out]) RemindAfter(ctx *Ctx, d time.Duration, name string, in In) {
	instance.Of(ctx).RemindAfter(&h.cmd, d, name, in)
}

// RemindEvery sends the command to the entity itself repeatedly, for the first time when the period has
// passed by the journal's clock, as with [Handle.RemindAfter]. The period is at least [MinReminderPeriod]. The
// next time is counted from the time at which the command was due, not from the time at which it ran. If
// several times have passed by then, it runs once for all of them, and [Ctx.Reminder] returns the number of
// missed ones. The rest is as for [Handle.Remind].
func (h *Handle[In, Out]) RemindEvery(ctx *Ctx, period time.Duration, name string, in In) {
	instance.Of(ctx).RemindEvery(&h.cmd, period, name, in)
}

// Send sends the command to another entity, whose type may belong to another program, when the
// events of this turn are durable. It is staged like an event, and counts only if the handler
// succeeds.
//
// The command takes effect at most once, and is retried until its target has answered: for 23 h as a
// rule ([MaxAge]; see also [Timeout] and [Retry]). What an entity sends to one
// target arrives in order: each waits until the one before it has been answered. With [ReplyTo] a
// command of this entity receives the answer. Without it, the answer is dropped if it is success. A
// refusal, or a target that has not answered in time, then becomes a *dead letter*, which the region
// logs and counts, and the journal keeps. A volatile target keeps no keys: there the command may take
// effect more than once, or be forgotten.
//
// The input is stored until it is delivered, perhaps by a later version of the program: see
// [Stored], without which the turn fails. A turn may send at most [MaxSends] commands: one that
// sends more is undone and refused as failed_precondition. An entity may have at most 10,000 that
// are pending: beyond that the turn is undone and refused as resource_exhausted. If the input
// cannot be stored, or the command is read-only, the turn fails. So it does in a read-only
// command, and for a volatile type, which keeps nothing: use Ask there.
func (h *Handle[In, Out]) Send(ctx *Ctx, id string, in In, options ...SendOption[Out]) {
	var replyTo *instance.Command
	for _, o := range options {
		replyTo = o.replyTo
	}
	instance.Of(ctx).Send(&h.cmd, h.entity(id), in, replyTo)
}

// SendOption is an option of one [Handle.Send] of a command with replies of type Out.
type SendOption[Out any] struct{ replyTo *instance.Command }

// ReplyTo passes the answer to a Send to a command of the sender, whose input is an [Answer]: the reply, a
// refusal, or that there was no answer in time. The command takes effect once, like a reminder's: what it
// stages becomes durable together with the end of the send. Until then nothing else is sent to the same
// target. If it fails with anything but an error made by [Errorf], it is undone and retried.
func ReplyTo[Out, X any](h *Handle[Answer[Out], X]) SendOption[Out] { return SendOption[Out]{&h.cmd} }

// Answer is the input of the command of a [ReplyTo]: the result of a send. [Handle.Sent] identifies the
// send.
type Answer[Out any] struct {
	// Type and ID are the address of the target.
	Type, ID string
	Command  string // what was sent to it
	// Value is the reply, if Err is nil.
	Value Out
	// Err is the reason why there is none. Its Outcome is Executed if the target itself has refused the command,
	// by an error made by [Errorf]; NotApplied if the command had no effect for another reason, for example an
	// input that the target does not understand; and Unknown if it is in doubt: the target has not answered
	// in time, and may have applied it.
	Err *Error

	sent sharding.Input
}

// Sent returns the input of the send that an answer belongs to, as it was passed to [Handle.Send]. An
// author who has several sends in progress names each in its input, and keeps them by that name: the input
// stays the same if an operator has a dead letter sent again. Neither the order of the answers nor their
// number identifies the send, because an answer that the sender could not take in time never comes.
//
// If an older version of the program has sent the input, the steps of [V] read it. If it cannot be
// read, or the answer is one to another command, there is an error; a handler that returns it is undone and
// gets the answer again.
func (h *Handle[In, Out]) Sent(a Answer[Out]) (In, error) {
	var none In
	if a.Type != h.cmd.Type || a.Command != h.Name() && !slices.Contains(h.cmd.Input.Aliases, a.Command) {
		return none, fmt.Errorf("the answer is one to %s.%s, not to %s.%s", a.Type, a.Command, h.cmd.Type, h.Name())
	}
	v, err := h.cmd.SentInput(h.entity(a.ID), &a.sent)
	if err != nil {
		return none, err
	}
	got, _ := v.(In) // the zero value of an interface is none
	return got, nil
}

// answerTaker is *Answer of any type.
type answerTaker interface {
	takeAnswer(a *turn.SendResult) error
}

func (a *Answer[Out]) takeAnswer(in *turn.SendResult) (err error) {
	a.Type, a.ID, a.Command, a.sent = string(in.Target.Type), string(in.Target.ID), in.Sent.Command, in.Sent
	if a.Err = errorOf(&in.Reply); a.Err == nil {
		a.Value, err = instance.DecodeReply[Out](in.Reply.Payload, in.Reply.Encoding)
	}
	return err
}

// takesAnswers reports whether inputs of the type are answers.
func takesAnswers[In any]() bool {
	_, ok := any(new(In)).(answerTaker)
	return ok
}

// inputOf decodes the input of a command: from a caller, from a stored reminder or send, or an answer.
func inputOf[In any](c *instance.Command, ctx *Ctx, env *sharding.Envelope) (In, error) {
	t := instance.Of(ctx)
	if !c.Answers {
		return instance.InputOf[In](c, t, env)
	}
	var in In
	err := instance.ErrAnswerOnly
	if w := t.Wakeup(); w != nil && w.Answer != nil {
		err = any(&in).(answerTaker).takeAnswer(w.Answer)
	}
	if err != nil {
		err = &instance.BadInput{Err: err}
	}
	return in, err
}
