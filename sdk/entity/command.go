package entity

import (
	"reflect" // pure: of types
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Handle is the typed name of a command: bound to a method by [On], and the way to call it: by [Handle.Call] and
// [Handle.Tell] from outside, and in handlers by [Handle.Ask], [Handle.Send], [Handle.Remind] and [Handle.After].
// It never changes.
type Handle[In, Out any] struct{ cmd instance.Command }

// Command declares a command of an entity type. A handle is only a name with options: a second handle for the
// same command may have others, for sends that are more urgent.
func Command[In, Out any](typ, name string, options ...CommandOption) *Handle[In, Out] {
	h := &Handle[In, Out]{instance.Command{
		Type: typ, Desc: sharding.CommandDesc{Name: name}, Answers: takesAnswers[In](),
		Input: instance.NewCodec(sharding.FormOfInput, reflect.TypeFor[In](), name),
	}}
	for _, o := range options {
		o.setCommand(&h.cmd)
	}
	return h
}

// Name returns the command's name.
func (h *Handle[In, Out]) Name() string { return h.cmd.Desc.Name }

// On binds a command to a method, which handles it. An entity handles one command at a time.
func On[E, In, Out any](h *Handle[In, Out], method func(*E, *Ctx, In) (Out, error)) Declaration[E] {
	return Declaration[E]{add: func(t *instance.Type) {
		c := new(h.cmd)
		c.Check = func(env *sharding.Envelope) (any, error) { return instance.CheckInputOf[In](c, env) }
		c.Run = func(state any, ic instance.Context, env *sharding.Envelope) ([]byte, sharding.Encoding, error) {
			ctx := enter(ic)
			in, err := inputOf[In](c, ctx, env)
			if err != nil {
				return nil, 0, err
			}
			out, err := method(state.(*E), ctx, in)
			if err != nil {
				return nil, 0, failure(err)
			}
			return instance.EncodeReply(out, env.Encoding)
		}
		t.AddCommand(c)
	}}
}

// CommandOption is an option of [Command]: [ReadOnly], [Stale], [Stored], [Timeout], [Retry], [MaxAge], and, for
// stored inputs, [V], [Alias] and [ReadableBy].
type CommandOption interface{ setCommand(*instance.Command) }

type commandOption func(*instance.Command)

func (o commandOption) setCommand(c *instance.Command) { o(c) }

// ReadOnly declares that the command changes nothing: it is never stored, may be sent with GET, and still
// reads the newest state.
func ReadOnly() CommandOption {
	return commandOption(func(c *instance.Command) { c.Desc.ReadOnly = true })
}

// Stale makes the command read-only and able to answer without asking the journal whether its
// region still owns the entity: faster, but a deposed owner may answer for a
// while. The answer may be old but never shows what may be undone: it waits until the
// state that it shows is durable.
func Stale() CommandOption {
	return commandOption(func(c *instance.Command) { c.Desc.ReadOnly, c.Desc.Stale = true, true })
}

// Stored allows storing inputs of the command: by [Handle.Remind], [Handle.RemindEvery] and [Handle.Send],
// which fail without it. Then the input's fields are in the schema of the type, like an event's, and each
// change of them needs [V]. A send is read by the program of its target. If that program and the
// sender's declare the command each for itself, both do so with Stored.
func Stored() CommandOption {
	return commandOption(func(c *instance.Command) { c.Stored = true })
}

// Timeout sets how long the command may take if no caller waits for it: one attempt of a [Handle.Send], from its
// beginning; and the command of a timer, of a reminder, or one that takes an answer ([ReplyTo]), from the moment at which
// it is due. Then the context of the handler ends. A send is tried again. 20 ms to 1 min; without it, region.sends.timeout
// (10 s) is for sends, and region.firing_timeout (30 s) for the others.
//
// An attempt of a send has the Timeout of the sender's handle. A program that sends commands to entities of
// another program declares it for itself.
func Timeout(d time.Duration) CommandOption {
	return commandOption(func(c *instance.Command) { c.Options.Timeout = d })
}

// Retry sets the pauses between two attempts of a [Handle.Send] of the command, and between two attempts to have its answer
// taken: least after the first failure, and doubled with each further one up to most. A random part of at most half is
// subtracted. 20 ms to 24 h; without it, region.sends.retry_min (1 s) and region.sends.retry_max (1 min).
func Retry(least, most time.Duration) CommandOption {
	return commandOption(func(c *instance.Command) { c.Options.RetryMin, c.Options.RetryMax = least, most })
}

// MaxAge bounds the time that a [Handle.Send] of the command is retried, from the time at which it was
// stored. Then it is a dead letter, or its sender gets an answer by [ReplyTo]. At least 20 ms; without it,
// region.sends.max_age (23 h). A turn that sends with a MaxAge of more than region.dedupe_age (24 h) less
// an hour is undone and refused as failed_precondition: the target might have forgotten that it has
// executed the command.
func MaxAge(d time.Duration) CommandOption {
	return commandOption(func(c *instance.Command) { c.Options.MaxAge = d })
}
