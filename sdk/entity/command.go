package entity

import (
	"context" // pure: handed on
	"fmt"
	"reflect" // pure: of types
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Call is one command on its way to an entity, as a Caller sends it.
type Call struct {
	Entity  sharding.Entity
	Command string
	// Key is the idempotency key, or empty.
	Key string
	// NoKey: the Caller must not generate a key.
	NoKey bool
	// Step is the name that [Ctx.Cluster] derives the key from, or empty. Only that Caller knows it.
	Step     string
	Tell     bool
	ReadOnly bool
	Encoding sharding.Encoding
	Payload  []byte
}

// Caller sends calls: package client over a gateway, package entitytest in
// memory, and [Ctx.Cluster] from within a handler. The error is for failures of the transport; the reply carries the rest.
type Caller interface {
	Call(ctx context.Context, c Call) (sharding.Reply, error)
}

// Handle is the typed name of a command: bound to a method by [On], called by
// Ask and Tell.
type Handle[In, Out any] struct {
	typ  string
	desc sharding.CommandDesc
	// input describes how inputs are stored. stored is true if they may be.
	input  *EventType
	stored bool
	// options are the options of sends of the command; Timeout also bounds its turns that no caller waits
	// for.
	options sharding.SendOptions
}

// Command declares a command of an entity type. A handle must not be changed after it
// was bound.
func Command[In, Out any](typ, name string) *Handle[In, Out] {
	return &Handle[In, Out]{typ: typ, desc: sharding.CommandDesc{Name: name}, input: newEventType(sharding.FormOfInput, reflect.TypeFor[In](), name)}
}

// ReadOnly declares that the command changes nothing: it is never stored, may be sent with GET, and still
// reads the newest state.
func (h *Handle[In, Out]) ReadOnly() *Handle[In, Out] {
	h.desc.ReadOnly = true
	return h
}

// Stale makes the command read-only and able to answer without asking the journal whether its
// region still owns the entity: faster, but a deposed owner may answer for a
// while. The answer may be old but never shows what may be undone: it waits until the
// state that it shows is durable.
func (h *Handle[In, Out]) Stale() *Handle[In, Out] {
	h.desc.ReadOnly, h.desc.Stale = true, true
	return h
}

// Name returns the command's name.
func (h *Handle[In, Out]) Name() string { return h.desc.Name }

// Option changes one call.
type Option func(*Call)

// Key gives the call an idempotency key: the command takes effect at most once
// for this key and entity, and a repeat gets the first reply.
func Key(key string) Option { return func(c *Call) { c.Key = key } }

// NoKey sends the call without any key: it is not repeated when its answer is
// lost.
func NoKey() Option { return func(c *Call) { c.NoKey = true } }

// Ask sends the command and waits for its reply. Errors are of type *[Error].
func (h *Handle[In, Out]) Ask(ctx context.Context, via Caller, id string, in In, opts ...Option) (Out, error) {
	var zero Out
	reply, err := h.send(ctx, via, id, in, false, opts)
	if err != nil {
		return zero, err
	}
	out, err := decodeReply[Out](reply.Payload, reply.Encoding)
	if err != nil {
		return zero, &Error{Code: Internal, Outcome: sharding.OK,
			Message: fmt.Sprintf("the reply of %s.%s is not what its handle says: %v", h.typ, h.desc.Name, err)}
	}
	return out, nil
}

// Tell sends the command without waiting for its reply: it returns when the
// owner has accepted it, or, with a key, when it is durable.
func (h *Handle[In, Out]) Tell(ctx context.Context, via Caller, id string, in In, opts ...Option) error {
	_, err := h.send(ctx, via, id, in, true, opts)
	return err
}

func (h *Handle[In, Out]) send(ctx context.Context, via Caller, id string, in In, tell bool, opts []Option) (sharding.Reply, error) {
	payload, enc, err := h.encode(in)
	if err != nil {
		return sharding.Reply{}, &Error{Code: InvalidArgument, Outcome: sharding.Rejected,
			Message: fmt.Sprintf("the input of %s.%s cannot be encoded: %v", h.typ, h.desc.Name, err)}
	}
	c := Call{
		Entity:  h.Entity(id),
		Command: h.desc.Name, Tell: tell, ReadOnly: h.desc.ReadOnly, Encoding: enc, Payload: payload,
	}
	for _, o := range opts {
		o(&c)
	}
	reply, err := via.Call(ctx, c)
	if err != nil {
		return reply, err
	}
	return reply, ReplyError(reply)
}

// After sends the command to the entity itself when d has passed. A timer is
// identified by its name: setting it again replaces it. Timers are volatile: they
// die with the incarnation, when the entity is moved (unless its type has
// [Type.KeepOnMoves]), lost, or stopped by [Ctx.Passivate]. An entity with a pending timer is not idle and is not
// passivated. Like events, timers count only if the handler succeeds. If the
// input cannot be encoded, or the type has no such command, the turn fails.
func (h *Handle[In, Out]) After(ctx *Ctx, d time.Duration, name string, in In) {
	h.timer(ctx, turn.Timer{Name: name, After: max(d, 1)}, in)
}

// Every sends the command to the entity itself repeatedly, at intervals of d. A firing
// is skipped while the previous one is still waiting. The timer keeps the entity from
// being passivated until it is cancelled. The interval is at least 1 ms; with a shorter one the
// turn fails.
func (h *Handle[In, Out]) Every(ctx *Ctx, d time.Duration, name string, in In) {
	if d < minTimerInterval {
		ctx.breakTurn(timerText(name), misused("its interval is %s, must be at least %s", d, minTimerInterval))
		return
	}
	h.timer(ctx, turn.Timer{Name: name, After: d, Every: d}, in)
}

// minTimerInterval is the shortest interval of a repeated timer: each firing is a turn.
const minTimerInterval = time.Millisecond

func timerText(name string) string { return fmt.Sprintf("timer %q", shortName(name)) }

func (h *Handle[In, Out]) timer(ctx *Ctx, t turn.Timer, in In) {
	payload, enc, err := h.encode(in)
	switch def := ctx.inst.def; {
	case ctx.calls.ended():
		err = ErrTurnOver
	case err != nil:
		err = fmt.Errorf("the input of %s cannot be encoded: %w", h.desc.Name, err)
	case h.typ != def.name || def.commands[h.desc.Name] == nil:
		err = misused("command %s.%s is not one of type %s; a timer is for the entity itself", h.typ, h.desc.Name, def.name)
	case takesAnswers[In]():
		err = &misuse{errAnswerOnly}
	}
	if err != nil {
		ctx.breakTurn(timerText(t.Name), err)
		return
	}
	t.Command, t.Payload, t.Encoding = h.desc.Name, payload, enc
	e := ctx.change()
	e.timers = append(e.timers, t)
}

// Entity returns the address of the entity with the given id.
func (h *Handle[In, Out]) Entity(id string) sharding.Entity {
	return sharding.Entity{Type: sharding.EntityType(h.typ), ID: sharding.EntityID(id)}
}
