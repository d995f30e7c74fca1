package instance

import (
	"cmp"
	"context" // pure: handed on
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"      // pure: handed on
	"reflect"       // pure: of types
	"runtime/debug" // pure: the stack of a panic, for the log
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/foreign"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Instance is one live entity, as a runtime holds it (a region's driver, package
// entitytest). It is not safe for concurrent use.
type Instance struct {
	typ   *Type
	id    sharding.EntityID
	state any
	// partly is true if the state lacks data of events, in fields that this version does not know.
	partly bool
}

func (i *Instance) entity() sharding.Entity {
	return sharding.Entity{Type: sharding.EntityType(i.typ.Name), ID: i.id}
}

// New returns the empty entity with an id.
func New(d Definition, id sharding.EntityID) (*Instance, error) { return newInstance(d.defined(), id) }

func newInstance(t *Type, id sharding.EntityID) (*Instance, error) {
	i := &Instance{}
	if err := i.init(t, id); err != nil {
		return nil, err
	}
	return i, nil
}

// Init makes i the empty entity with an id, as [New] does. It is for a runtime that keeps an instance
// in something larger.
func (i *Instance) Init(d Definition, id sharding.EntityID) error { return i.init(d.defined(), id) }

func (i *Instance) init(t *Type, id sharding.EntityID) (err error) {
	*i = Instance{typ: t, id: id}
	defer i.recovered("create", &err)
	i.state = t.create(string(id))
	return nil
}

// State returns the author's value, for tests.
func (i *Instance) State() any { return i.state }

// Size returns the entity's own size, 0 if it does not report any.
func (i *Instance) Size() int {
	if s, ok := i.state.(interface{ Size() int }); ok {
		return s.Size()
	}
	return 0
}

// Restore sets the state from a snapshot, of a form that [ReadsSnapshot] accepts.
func (i *Instance) Restore(form sharding.SnapshotForm, snapshot []byte) (err error) {
	defer i.recovered("Restore", &err)
	if form != i.typ.state.current() {
		if step, ok := i.typ.state.step(form); ok {
			err = step.snapshot(snapshot, i.state)
			return i.unreadable("snapshot", err, fixSnapshot)
		}
	}
	if s, ok := i.state.(Snapshotter); ok {
		if err := s.Restore(snapshot); err != nil {
			return i.unreadable("snapshot", fmt.Errorf("Restore: %w; a changed form needs another version, see SnapshotV", settled(err)), fixSnapshot)
		}
		return nil
	}
	clearStored(reflect.ValueOf(i.state).Elem(), false)
	return i.unreadable("snapshot", i.typ.state.layout.read(snapshot, i.state, false), fixSnapshot)
}

// unreadable wraps an error about something stored. fix is the advice for its author.
func (i *Instance) unreadable(what string, err error, fix string) error {
	if err == nil {
		return nil
	}
	err = settled(err) // a decoder or a step may be the author's
	if damaged(err) {
		fix = fixDamage
	}
	return &StoredError{Entity: i.entity(), What: what, Err: err, Fix: fix}
}

// Snapshot returns the state as Restore accepts it. The error wraps [ErrPartlyRead] if a
// snapshot would make permanent what this version has ignored, and [ErrLossySnapshot] if it
// would lack a part of the state.
func (i *Instance) Snapshot() (form sharding.SnapshotForm, b []byte, err error) {
	defer i.recovered("Snapshot", &err)
	if i.partly { //mutant:false partly-read
		return form, nil, fmt.Errorf("%w: %s", ErrPartlyRead, i.entity())
	}
	form = i.typ.state.current()
	if s, ok := i.state.(Snapshotter); ok {
		b, err = s.Snapshot()
		return form, b, err
	}
	if b, err = json.Marshal(i.state); err != nil {
		return form, nil, err
	}
	if err = i.typ.state.layout.check(b, false); err != nil { // such as keys that differ in memory only
		return form, nil, fmt.Errorf("%w of %s: %w", ErrLossySnapshot, i.entity(), err)
	}
	return form, b, i.checkSnapshot(form, b)
}

// checkSnapshot returns an error if a snapshot lacks a part of the state: fields that are
// not exported are not in it, and may be set by reducers.
func (i *Instance) checkSnapshot(form sharding.SnapshotForm, b []byte) error {
	hidden := i.typ.state.hidden
	if hidden == "" { //mutant:true lossy-snapshot
		return nil
	}
	again, err := newInstance(i.typ, i.id)
	if err != nil {
		return err
	}
	if err := again.Restore(form, b); err != nil {
		return err
	}
	if !reflect.DeepEqual(again.state, i.state) {
		return fmt.Errorf("%w of %s: a field that is not stored, such as %s, would be lost; export it, or give the type Snapshot and Restore", ErrLossySnapshot, i.entity(), hidden)
	}
	return nil
}

// Replay applies stored events, in order.
func (i *Instance) Replay(events []sharding.Event) (err error) {
	name := ""
	defer func() { i.panicked(recover(), "reducer of event "+name, &err) }()
	for _, ev := range events {
		e, v, err := i.decode(ev)
		if err != nil {
			return err
		}
		name = e.name
		e.apply(i.state, v)
	}
	return nil
}

func (i *Instance) decode(ev sharding.Event) (*event, any, error) {
	e, ok := i.typ.events[ev.Name]
	if !ok {
		return nil, nil, i.unreadable("event "+ev.Name, fmt.Errorf("%w %s: an event that was stored once must stay declared, and one that was renamed needs an Alias", ErrUnknownEvent, ev.Name),
			fmt.Sprintf("if a later version of the program has stored it, run that version; otherwise declare the event %s again, or give the event that it has become an Alias(%q)", ev.Name, ev.Name))
	}
	v, partly, err := e.decode(ev)
	i.partly = i.partly || partly
	if err != nil {
		return nil, nil, i.unreadable("event "+ev.Name, err, e.fix(ev))
	}
	return e, v, nil
}

// Decode decodes stored events, for tests.
func (i *Instance) Decode(events []sharding.Event) ([]any, error) {
	out := make([]any, 0, len(events))
	for _, ev := range events {
		_, v, err := i.decode(ev)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// Encode encodes events as they are stored. An error names the event that is unknown
// or cannot be encoded.
func (i *Instance) Encode(events ...any) ([]sharding.Event, error) {
	out := make([]sharding.Event, 0, len(events))
	for _, ev := range events {
		t := i.typ.byType[reflect.TypeOf(ev)]
		if t == nil {
			return nil, i.undeclared(ev)
		}
		payload, enc, err := encode(ev, preferred(ev))
		if err != nil {
			return nil, fmt.Errorf("event %s cannot be encoded: %w", t.name, err)
		}
		out = append(out, t.stored(payload, enc))
	}
	return out, nil
}

// undeclared is the error about an event that the type does not declare.
func (i *Instance) undeclared(ev any) error {
	if typ := reflect.TypeOf(ev); typ != nil && typ.Kind() == reflect.Pointer && i.typ.byType[typ.Elem()] != nil {
		return fmt.Errorf("%w %T: persist the value, not a pointer to it", ErrUnknownEvent, ev)
	}
	return fmt.Errorf("%w %T: declare it by entity.Event in type %s", ErrUnknownEvent, ev, i.typ.Name)
}

// Start runs the start hook, at time now.
func (i *Instance) Start(ctx context.Context, now time.Time) (timers []turn.Timer, err error) {
	if i.typ.OnStart == nil {
		return nil, nil
	}
	defer i.recovered("OnStart", &err)
	c, t := i.hook(ctx, now, "OnStart")
	defer t.calls.close()
	if err = i.typ.OnStart(i.state, c); err == nil {
		err = t.wants().broken
	}
	return t.wants().timers, err
}

// hook returns the context of a hook.
func (i *Instance) hook(ctx context.Context, now time.Time, name string) (Context, *Turn) {
	c := i.typ.NewContext()
	t := c.held()
	t.context, t.inst, t.now, t.readOnly, t.command = ctx, i, now, true, name
	return c, t
}

// Stops reports whether the entity has a stop hook.
func (i *Instance) Stops() bool { return i.typ.OnStop != nil }

// Stop runs the stop hook, at time now.
func (i *Instance) Stop(ctx context.Context, now time.Time, why turn.StopReason) (err error) {
	if !i.Stops() {
		return nil
	}
	defer i.recovered("OnStop", &err)
	c, t := i.hook(ctx, now, "OnStop")
	defer t.calls.close()
	i.typ.OnStop(i.state, c, why)
	return nil
}

// Run executes one turn, at time now: the command in run.Env. What it asks of other entities
// goes through asker. The caller must fill in incarnation and request of the result. failed is the reason of a failure that only the author of the
// type should see: the reply, which goes to clients, does not contain it. It wraps
// [*Panic] if the handler panicked.
func (i *Instance) Run(ctx context.Context, now time.Time, run *turn.Run, asker Asker) (done turn.TurnDone, failed error) {
	return i.RunIn(ctx, i.typ.NewContext(), now, run, Decoded{}, asker)
}

// RunIn is Run with memory for the context, which may be a part of something larger. c is empty, and is never
// used again: a goroutine that the handler has left behind may still hold it. in is the result of
// [CheckInput] for the command, or empty. If the handler ends its goroutine (runtime.Goexit), RunIn does
// not return, and nothing can make it: [Instance.Exited] then returns the result, in a deferred function of
// the caller.
func (i *Instance) RunIn(ctx context.Context, c Context, now time.Time, run *turn.Run, in Decoded, asker Asker) (done turn.TurnDone, failed error) {
	env, readOnly := run.Env, run.ReadOnly
	b := i.typ.commands[env.Command]
	if b == nil {
		return turn.TurnDone{Reply: sharding.Reject(sharding.Unimplemented, "type "+i.typ.Name+" has no command "+env.Command)}, nil
	}
	t := c.held()
	t.context, t.inst, t.now, t.readOnly, t.decoded, t.asker = ctx, i, now, readOnly, in, asker
	t.command, t.subject, t.wakeup, t.fresh = b.Desc.Name, env.Principal, run.Wakeup, run.Fresh && !i.typ.Volatile
	returned, over := false, false
	defer func() {
		if !returned {
			t.calls.close()
		}
		if over {
			return
		}
		r, stack, first := recover(), string(debug.Stack()), t.wants().broken
		// For Exited: this goroutine ends by now, or a method of r ends it.
		t.change().broken = &Panic{Value: ErrGoexit.Error(), Stack: stack}
		if r == nil {
			return
		}
		done, failed = i.brokenOff(run), &Panic{Value: foreign.Text(r), Stack: stack}
		if first != nil { // the handler went on without an effect that it relied on
			failed = settled(first)
			if !i.typ.Volatile {
				done.Reply, _ = failure(ctx, env, failed)
			}
		}
	}()
	payload, enc, err := b.Run(i.state, c, env)
	t.calls.close()
	returned = true
	wants := t.wants()
	if err == nil {
		err = wants.broken
	}
	if err != nil {
		done.Reply, failed = failure(ctx, env, settled(err))
		done.Spoiled = len(wants.staged) > 0
		if i.typ.Volatile && !readOnly && failed != nil {
			// Nothing undoes it, and the entity lives on: to run it again would do it again.
			done.Reply = sharding.Reply{Outcome: sharding.Executed, Code: done.Reply.Code, Message: env.Command + " failed; what it had changed in memory by then stays" + misuseText(failed)}
		}
		over = true
		return done, failed
	}
	done = turn.TurnDone{
		Events: wants.staged, Wakes: wants.wakes, Sends: wants.sends, Timers: wants.timers,
		Passivate: wants.quit, Deleted: wants.deleted, Forgotten: wants.forgotten,
		Size:  i.Size(),
		Reply: sharding.Reply{Outcome: sharding.Executed, Encoding: enc, Payload: payload},
	}
	over = true
	return done, nil
}

// Exited returns the result of a turn whose [Instance.RunIn] did not return, because the author's code
// ended its goroutine. c is the context that RunIn got. The result is the same as after a panic.
func (i *Instance) Exited(c Context, run *turn.Run) (done turn.TurnDone, failed error) {
	return i.brokenOff(run), cmp.Or(c.held().wants().broken, ErrGoexit)
}

// brokenOff is the result of a turn whose handler did not return.
func (i *Instance) brokenOff(run *turn.Run) turn.TurnDone {
	done := turn.TurnDone{Spoiled: true, Reply: sharding.Reject(sharding.Internal, undone(run.Env))}
	if i.typ.Volatile && !run.ReadOnly {
		done.Reply = sharding.Doubt(sharding.Internal, run.Env.Command+" failed, and what the entity had in memory is gone")
	}
	return done
}

// Panic is a panic of a handler, or the end of its goroutine: then Value is the text of [ErrGoexit].
type Panic struct {
	Value string // the text of the value that it panicked with
	Stack string
}

// Error returns the value without the stack.
func (p *Panic) Error() string { return "panic: " + p.Value }

func undone(env *sharding.Envelope) string { return env.Command + undoneText }

const undoneText = " failed and was undone"

// cause returns the reason of a failed ask. The turns of a chain would each report in turn that they were
// undone: only the reason of the innermost one counts.
func cause(f *Failure) string {
	if i := strings.LastIndex(f.Message, undoneText+": "); i >= 0 {
		return f.Message[i+len(undoneText+": "):]
	}
	return f.Message
}

// misuseText describes the misuse, empty if there is none.
func misuseText(err error) string {
	var m *misuse
	if !errors.As(err, &m) {
		return ""
	}
	return ": " + err.Error()
}

// askCodes are the codes of failed asks that the caller of the turn gets too, to know whether a retry may
// help.
var askCodes = []sharding.Code{
	sharding.Unavailable, sharding.ResourceExhausted, sharding.DeadlineExceeded, sharding.Aborted,
	sharding.FailedPrecondition, sharding.AlreadyExists, sharding.PermissionDenied, sharding.OutOfRange,
}

// failure returns the reply of a turn that ended with an error, and the error if it is to be
// logged. Only a business error is an answer; after all others the command was not applied.
func failure(ctx context.Context, env *sharding.Envelope, err error) (sharding.Reply, error) {
	var f *Failure
	var m *misuse
	var bad *BadInput
	switch errors.As(err, &bad); {
	case bad != nil && errors.Is(err, ErrStored) && damaged(err):
		return sharding.Reject(sharding.DataLoss, err.Error()), nil
	case bad != nil && errors.Is(err, ErrStored): // nothing is lost: another version reads the input, and it is kept until one has run
		return sharding.Reject(sharding.Unimplemented, err.Error()), nil
	case bad != nil:
		return sharding.Reject(sharding.InvalidArgument, badInput(env, err)), nil
	case errors.As(err, &f) && f.Outcome == sharding.Executed && f.Code != "": // without a code it would look like success
		return sharding.Reply{Outcome: sharding.Executed, Code: f.Code, Message: f.Message}, nil
	case errors.As(err, &m):
		return sharding.Reject(sharding.FailedPrecondition, undone(env)+misuseText(err)), err
	case ctx.Err() != nil:
		return sharding.Reject(sharding.DeadlineExceeded, env.Command+" was undone: its time was over"), err
	case f != nil && f.Outcome == sharding.NotApplied && f.Code == sharding.InvalidArgument: // of an ask: not the input of this command is wrong
		return sharding.Reject(sharding.FailedPrecondition, undone(env)+": "+cause(f)), err
	case f != nil && slices.Contains(askCodes, f.Code):
		return sharding.Reject(f.Code, undone(env)+": "+cause(f)), err
	}
	return sharding.Reject(sharding.Internal, undone(env)), err
}

func badInput(env *sharding.Envelope, err error) string {
	return fmt.Sprintf("the input of %s: %v", env.Command, err)
}

// Decoded is the decoded input of a command. It is for one turn, whose handler may change it. With the zero
// value, the turn itself decodes the input.
type Decoded struct{ value any }

// CheckInput returns the refusal of a command whose input cannot be decoded, otherwise nil and the decoded
// input. It ignores commands that the type does not have, and decoders that panic or end their goroutine:
// these are refused when the command has its turn. A decoder of the author runs in apart, which calls a
// function on another goroutine and waits until that goroutine has ended.
func CheckInput(d Definition, env *sharding.Envelope, apart func(func())) (in Decoded, refusal *sharding.Reply) {
	c := d.defined().commands[env.Command]
	if c == nil {
		return Decoded{}, nil
	}
	var value any
	var err error
	check := func() {
		defer func() { _ = recover() }()
		v, bad := c.Check(env)
		value, err = v, settled(bad)
	}
	if c.Input.layout.ownDecoder {
		apart(check)
	} else {
		check()
	}
	if err != nil {
		reply := sharding.Reject(sharding.InvalidArgument, badInput(env, err))
		return Decoded{}, &reply
	}
	return Decoded{value}, nil
}

// recovered turns a panic of user code into an error, and leaves nothing of user code in the error.
func (i *Instance) recovered(where string, err *error) { i.panicked(recover(), where, err) }

func (i *Instance) panicked(r any, where string, err *error) {
	if r != nil {
		why := foreign.Text(r)
		slog.Error("an entity panicked", "entity.type", i.typ.Name, "entity.id", i.id, "in", where, "panic", why, "stack", string(debug.Stack()))
		*err = fmt.Errorf("%s of type %s panicked: %s", where, i.typ.Name, why)
	}
	*err = settled(*err)
}
