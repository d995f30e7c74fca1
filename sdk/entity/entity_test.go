package entity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

type (
	box   struct{ N int64 }
	grown struct{ By int64 }
	note  struct{ Text string }
	input struct {
		By int64 `json:"by"`
	}
)

func (b *box) Snapshot() ([]byte, error) {
	if b.N == 666 {
		panic("evil snapshot")
	}
	return []byte{byte(b.N)}, nil
}

func (b *box) Restore(s []byte) error { b.N = int64(s[0]); return nil } // panics on an empty one

func (b *box) OnStart(ctx *entity.Ctx) error {
	if b.N == 1 {
		panic("evil start")
	}
	if b.N == 2 {
		badTimer.After(ctx, time.Second, "t", make(chan int))
	}
	return nil
}

func (b *box) OnStop(*entity.Ctx, entity.StopReason) { panic("evil stop") }

func (b *box) Grow(ctx *entity.Ctx, in input) (int64, error) {
	switch in.By {
	case 13:
		return 0, errors.New("plain")
	case 14:
		return 0, entity.Errorf(entity.NotFound, "business %d", in.By)
	case 15:
		return 0, entity.Errorf("", "no code")
	case 21: // as a client of another cluster returns it
		return 0, fmt.Errorf("stock: %w", &entity.Error{Code: entity.Unavailable, Message: "closed today", Outcome: entity.NotApplied})
	case 22:
		return 0, entity.AskFailed(entity.Unavailable, "no region")
	case 16:
		ctx.Persist(grown{1})
		return 0, entity.Errorf(entity.Aborted, "after staging")
	case 17:
		ctx.Persist(nil)
		return 0, nil
	case 18:
		ctx.Persist(input{})
		return 0, nil
	case 19:
		panic("evil handler")
	case 20:
		badTimer.After(ctx, time.Second, "t", make(chan int))
		return 0, nil
	}
	ctx.Persist(grown(in), note{"grew"})
	return b.N, nil
}

func (b *box) Look(ctx *entity.Ctx, _ struct{}) (int64, error) {
	ctx.Persist(grown{1})
	return b.N, nil
}

func (b *box) Wrapped(ctx *entity.Ctx, in *wrapperspb.Int64Value) (*wrapperspb.Int64Value, error) {
	sum := wrapperspb.Int64(b.N + in.GetValue())
	ctx.Persist(in)
	return sum, nil
}

func (b *box) Tall(ctx *entity.Ctx, n int) (string, error) {
	ctx.Persist(grown{1})
	return strings.Repeat("x", n), nil
}

func (b *box) Broken(*entity.Ctx, struct{}) (chan int, error) { return make(chan int), nil }

var (
	grow     = entity.Command[input, int64]("Box", "Grow")
	look     = entity.Command[struct{}, int64]("Box", "Look", entity.ReadOnly())
	wrapped  = entity.Command[*wrapperspb.Int64Value, *wrapperspb.Int64Value]("Box", "Wrapped")
	tall     = entity.Command[int, string]("Box", "Tall")
	broken   = entity.Command[struct{}, chan int]("Box", "Broken")
	badTimer = entity.Command[chan int, int]("Box", "BadTimer")
)

func createBox(id string) *box {
	if id == "bad" {
		panic("evil create")
	}
	return &box{}
}

func boxDeclarations(options []entity.TypeOption) []entity.Declaration[box] {
	return []entity.Declaration[box]{
		entity.On(grow, (*box).Grow), entity.On(look, (*box).Look), entity.On(wrapped, (*box).Wrapped), entity.On(broken, (*box).Broken),
		entity.On(tall, (*box).Tall),
		entity.Event("grown", func(b *box, e grown) {
			if e.By == 666 {
				panic("evil event")
			}
			b.N += e.By
		}),
		entity.Event("Remark", func(*box, note) {}),
		entity.Event("Int64Value", func(b *box, e *wrapperspb.Int64Value) { b.N += e.Value }),
		entity.With[box](options...),
	}
}

func boxes(options ...entity.TypeOption) entity.Type[box] {
	return entity.Define("Box", createBox, boxDeclarations(options)...)
}

func boxMistake(options ...entity.TypeOption) error {
	return mistake(entity.New("Box", createBox, boxDeclarations(options)...))
}

func newBox(t *testing.T) *instance.Instance {
	t.Helper()
	i, err := instance.New(boxes(), "b1")
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// run runs a command. The part for the log alone follows the message.
func run(i *instance.Instance, command, payload string, enc sharding.Encoding) turn.TurnDone {
	done, failed := i.Run(context.Background(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: command, Payload: []byte(payload), Encoding: enc}, ReadOnly: command == "Look"}, nil)
	if failed != nil {
		done.Reply.Message += " | " + failed.Error()
	}
	return done
}

// TestVolatileFailures: changes of a volatile type's handler stay, and no answer denies
// that. If it returns, that is the answer, and it does not run again.
func TestVolatileFailures(t *testing.T) {
	boxes := entity.Define("Box", func(string) *counter { return &counter{} }, entity.On(add, (*counter).Add), entity.On(read, (*counter).Read), entity.With[counter](entity.Volatile()))
	i, err := instance.New(boxes, "b1")
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]struct {
		outcome sharding.Outcome
		message string
	}{
		`{"by":1,"then":"plain"}`:    {sharding.Executed, "Add failed; what it had changed in memory by then stays"},
		`{"by":1,"then":"panic"}`:    {sharding.Unknown, "Add failed, and what the entity had in memory is gone"},
		`{"by":1,"then":"business"}`: {sharding.Executed, "sold out"},
		`{"bye":1}`:                  {sharding.NotApplied, `the input of Add: `},
	} {
		done, _ := i.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Add", Payload: []byte(payload)}}, nil)
		if done.Reply.Outcome != want.outcome || !strings.HasPrefix(done.Reply.Message, want.message) || done.Spoiled != strings.Contains(payload, "panic") {
			t.Errorf("%s: %+v", payload, done)
		}
	}
	if done, _ := i.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Read"}, ReadOnly: true}, nil); done.Reply.Outcome != sharding.NotApplied {
		t.Errorf("a command that only reads: %+v", done)
	}
}

type counter struct{ n int }

type addition struct {
	By   int    `json:"by"`
	Then string `json:"then,omitempty"`
}

var (
	add  = entity.Command[addition, int]("Box", "Add")
	read = entity.Command[struct{}, int]("Box", "Read", entity.ReadOnly())
)

func (c *counter) Add(_ *entity.Ctx, in addition) (int, error) {
	c.n += in.By
	switch in.Then {
	case "panic":
		panic("evil")
	case "business":
		return 0, entity.Errorf(entity.FailedPrecondition, "sold out")
	}
	return 0, errors.New("plain")
}

func (c *counter) Read(*entity.Ctx, struct{}) (int, error) { return 0, errors.New("plain") }

// TestWhoIsTold: what went wrong inside is for the log, what the entity says and
// what is wrong with the input for the caller.
func TestWhoIsTold(t *testing.T) {
	for payload, log := range map[string]string{
		`{"by":13}`: "plain", `{"by":19}`: "panic: ", `{"by":20}`: "cannot be encoded", `{"by":14}`: "", `{"bye":1}`: "",
	} {
		env := &sharding.Envelope{Command: "Grow", Payload: []byte(payload)}
		done, failed := newBox(t).Run(context.Background(), time.Now(), &turn.Run{Env: env}, nil)
		switch {
		case log == "" && failed != nil:
			t.Errorf("%s: %v", payload, failed)
		case log != "" && (failed == nil || !strings.Contains(failed.Error(), log) || done.Reply.Message != "Grow failed and was undone"):
			t.Errorf("%s: the caller gets %q, the log %v", payload, done.Reply.Message, failed)
		}
		var p *instance.Panic
		if errors.As(failed, &p) != (payload == `{"by":19}`) || p != nil && !strings.Contains(p.Stack, "Grow") {
			t.Errorf("%s: panic %+v", payload, p)
		}
		_, refusal := instance.CheckInput(boxes(), env, nil)
		if (refusal != nil) != (payload == `{"bye":1}`) || refusal != nil && refusal.Message != done.Reply.Message {
			t.Errorf("%s: CheckInput: %+v", payload, refusal)
		}
	}
	if _, r := instance.CheckInput(boxes(), &sharding.Envelope{Command: "Nope", Payload: []byte("{")}, nil); r != nil {
		t.Errorf("an unknown command: %+v", r)
	}
}

// plainly has no start hook.
type plainly struct{}

func (*plainly) do(*entity.Ctx, input) (int64, error) { return 0, nil }

func TestDescribe(t *testing.T) {
	d := instance.Describe(boxes(entity.Shards(7), entity.SnapshotEvery(5), entity.PassivateAfter(time.Hour)))
	if d.Desc.Type != "Box" || d.Desc.Shards != 7 || d.SnapshotEvery != 5 || d.Passivation.Idle != time.Hour ||
		len(d.Desc.Commands) != 5 || d.Desc.Commands[0].Name != "Broken" || !d.Desc.Commands[2].ReadOnly {
		t.Errorf("got %+v", d)
	}
	if d := instance.Describe(boxes(entity.Passivate("lru limit=10 idle=1m"))); d.Passivation.String() != passivation.LRU(10).OrIdle(time.Minute).String() {
		t.Errorf("got %s", d.Passivation)
	}
	do := entity.On(entity.Command[input, int64]("Plain", "Do"), (*plainly).do)
	newPlain := func(string) *plainly { return nil }
	for _, c := range []struct {
		def    entity.Definition
		noLoad bool
	}{
		{entity.Define("Box", createBox, entity.On(grow, (*box).Grow), entity.With[box](entity.Volatile())), false}, // has a start hook
		{entity.Define("Plain", newPlain, do, entity.With[plainly](entity.Volatile())), true},
		{entity.Define("Plain", newPlain, do), false},
	} {
		if d := instance.Describe(c.def); d.NoLoad != c.noLoad {
			t.Errorf("%+v", d)
		}
	}
	bad := func(name string, declarations ...entity.Declaration[box]) error {
		return mistake(entity.New(name, createBox, declarations...))
	}
	twice := entity.Event("grown", func(*box, grown) {})
	for want, err := range map[string]error{
		"bound twice":         bad("Box", entity.On(grow, (*box).Grow), entity.On(grow, (*box).Grow)),
		"belongs to type Box": bad("Other", entity.On(grow, (*box).Grow)),
		"has no commands":     bad("Box"),
		"must be letters":     bad("a b"),
		"is reserved":         bad("roost.coordinator", entity.On(entity.Command[input, int64]("roost.coordinator", "Grow"), (*box).Grow)),
		"0 shards":            boxMistake(entity.Shards(0)),
		"70000 shards":        boxMistake(entity.Shards(70000)),
		"declared twice":      bad("Box", entity.On(grow, (*box).Grow), twice, twice),
		"no events":           bad("Box", entity.On(grow, (*box).Grow), twice, entity.With[box](entity.Volatile())),
		"command of entity":   bad("Box", entity.On(entity.Command[input, int64]("Box", "no way"), (*box).Grow)),
		"idle is -1s":         boxMistake(entity.PassivateAfter(-time.Second)),
		"limit is -1":         boxMistake(entity.Passivate("lru limit=-1")),
		"Passivate(\"fifo":    boxMistake(entity.Passivate("fifo limit=1")),
		"SnapshotEvery is -1": boxMistake(entity.SnapshotEvery(-1)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestDefinePanics: a mistake in a definition is reported with the place of the definition.
func TestDefinePanics(t *testing.T) {
	defer func() {
		if r := fmt.Sprint(recover()); !strings.Contains(r, "entity_test.go:") || !strings.Contains(r, "entity.Define: entity type Box: has no commands") {
			t.Errorf("panics with %q", r)
		}
	}()
	entity.Define("Box", createBox)
}

func TestTurns(t *testing.T) {
	for payload, want := range map[string]struct {
		outcome sharding.Outcome
		code    sharding.Code
		spoiled bool
		message string
	}{
		`{"by":5}`:          {outcome: sharding.Executed},
		``:                  {outcome: sharding.Executed},
		`{"bye":5}`:         {sharding.NotApplied, sharding.InvalidArgument, false, "bye"},
		`{"by":5}{}`:        {sharding.NotApplied, sharding.InvalidArgument, false, "more after"},
		`{"by":`:            {sharding.NotApplied, sharding.InvalidArgument, false, "input of Grow"},
		`{"by":13}`:         {sharding.NotApplied, sharding.Internal, false, "plain"},
		`{"by":14}`:         {sharding.Executed, sharding.NotFound, false, "business 14"},
		`{"by":15}`:         {sharding.NotApplied, sharding.Internal, false, "no code"},
		`{"by":16}`:         {sharding.Executed, sharding.Aborted, true, "after staging"},
		`{"by":21}`:         {sharding.Executed, sharding.Unavailable, false, "closed today"},
		`{"by":22}`:         {sharding.NotApplied, sharding.Unavailable, false, "Grow failed and was undone: no region"},
		`{"by":17}`:         {sharding.NotApplied, sharding.Internal, false, "unknown event"},
		`{"by":18}`:         {sharding.NotApplied, sharding.Internal, false, "declare it by entity.Event"},
		`{"by":19}`:         {sharding.NotApplied, sharding.Internal, true, "panic: "},
		`{"by":20}`:         {sharding.NotApplied, sharding.Internal, false, "cannot be encoded"},
		`{"by":666}`:        {sharding.NotApplied, sharding.Internal, true, "panic: "},
		"{\"by\":\"five\"}": {sharding.NotApplied, sharding.InvalidArgument, false, "input of Grow"},
	} {
		done := run(newBox(t), "Grow", payload, sharding.JSON)
		if done.Reply.Outcome != want.outcome || done.Reply.Code != want.code || done.Spoiled != want.spoiled || !strings.Contains(done.Reply.Message, want.message) {
			t.Errorf("%s: %+v, spoiled %t", payload, done.Reply, done.Spoiled)
		}
		if failed := done.Reply.Outcome != sharding.Executed || done.Reply.Code != ""; failed && len(done.Events) > 0 {
			t.Errorf("%s: a failed turn has events", payload)
		}
	}
	i := newBox(t)
	if done := run(i, "Look", "", sharding.JSON); done.Reply.Outcome != sharding.NotApplied || !strings.Contains(done.Reply.Message, "read-only") {
		t.Errorf("a read-only command that persists: %+v", done.Reply)
	}
	if done := run(i, "Broken", "", sharding.JSON); done.Reply.Outcome != sharding.NotApplied || !strings.Contains(done.Reply.Message, "reply cannot be encoded") {
		t.Errorf("a reply that cannot be encoded: %+v", done.Reply)
	}
	if done := run(i, "Tall", "1048574", sharding.JSON); done.Reply.Outcome != sharding.Executed || len(done.Reply.Payload) != sharding.MaxPayload {
		t.Errorf("the longest reply: %v, %s, %d bytes", done.Reply.Outcome, done.Reply.Message, len(done.Reply.Payload))
	}
	if done := run(i, "Tall", "1048575", sharding.JSON); done.Reply.Outcome != sharding.NotApplied || !done.Spoiled || len(done.Events) > 0 ||
		!strings.Contains(done.Reply.Message, "the reply has 1048577 bytes, at most 1048576") {
		t.Errorf("a reply that no link carries: %v, %s, spoiled %t", done.Reply.Outcome, done.Reply.Message, done.Spoiled)
	}
	if done := run(i, "Nope", "", sharding.JSON); done.Reply.Code != sharding.Unimplemented {
		t.Errorf("an unknown command: %+v", done.Reply)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if done, _ := i.Run(ctx, time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Grow", Payload: []byte(`{"by":13}`)}}, nil); done.Reply.Code != sharding.DeadlineExceeded {
		t.Errorf("a turn whose context is over: %+v", done.Reply)
	}
}

func TestProtobuf(t *testing.T) {
	raw, _ := proto.Marshal(wrapperspb.Int64(5))
	for _, tc := range []struct {
		payload, want string
		enc           sharding.Encoding
	}{
		{string(raw), string(raw), sharding.Protobuf}, {`"5"`, `"5"`, sharding.JSON}, {"", "", sharding.Protobuf}, {"", `"0"`, sharding.JSON},
	} {
		i := newBox(t)
		done := run(i, "Wrapped", tc.payload, tc.enc)
		if done.Reply.Outcome != sharding.Executed || string(done.Reply.Payload) != tc.want || done.Reply.Encoding != tc.enc {
			t.Errorf("%q: %+v %q", tc.payload, done.Reply, done.Reply.Payload)
		}
		again := newBox(t)
		if err := again.Replay(done.Events); err != nil || again.State().(*box).N != i.State().(*box).N {
			t.Errorf("replay of %v: %v", done.Events, err)
		}
	}
	for _, tc := range []struct {
		command, payload string
		enc              sharding.Encoding
	}{{"Wrapped", "\xff", sharding.Protobuf}, {"Wrapped", "{", sharding.JSON}, {"Grow", string(raw), sharding.Protobuf}} {
		if done := run(newBox(t), tc.command, tc.payload, tc.enc); done.Reply.Code != sharding.InvalidArgument {
			t.Errorf("%q: %+v", tc.payload, done.Reply)
		}
	}
}

func TestStoredEvents(t *testing.T) {
	i := newBox(t)
	events, err := i.Encode(grown{5}, note{"x"}, wrapperspb.Int64(2))
	if err != nil || events[1].Name != "Remark" || events[2].Encoding != sharding.Protobuf {
		t.Fatalf("encoded: %v, %v", events, err)
	}
	if err := i.Replay(events); err != nil || i.State().(*box).N != 7 {
		t.Errorf("state %+v, %v", i.State(), err)
	}
	if back, err := i.Decode(events[:2]); err != nil || back[0] != (grown{5}) || back[1] != (note{"x"}) {
		t.Errorf("decoded: %v, %v", back, err)
	}
	// A field that a later version added, or an earlier one named otherwise, is
	// not left out, and one that is missing is not zero: the state would be wrong.
	later := protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.VarintType), 1)
	for want, ev := range map[string]sharding.Event{
		`"Later"`:                {Name: "grown", Version: 1, Payload: []byte(`{"By":1,"Later":2}`)},
		`without the field "By"`: {Name: "grown", Version: 1, Payload: []byte(`{}`)},
		"field number 7":         {Name: "Int64Value", Version: 1, Encoding: sharding.Protobuf, Payload: later},
	} {
		err := i.Replay([]sharding.Event{ev})
		if !errors.Is(err, instance.ErrStored) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "event "+ev.Name+" of Box/b1") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if n := i.State().(*box).N; n != 7 {
		t.Errorf("state %d", n)
	}
	for want, ev := range map[string]sharding.Event{
		"must stay declared":                 {Name: "Gone", Version: 1},
		"event grown of":                     {Name: "grown", Version: 1, Payload: []byte("{")},
		"reducer of event grown of type Box": {Name: "grown", Version: 1, Payload: []byte(`{"By":666}`)},
	} {
		if err := i.Replay([]sharding.Event{ev}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestPanics: none of the author's code takes the process down.
func TestPanics(t *testing.T) {
	if _, err := instance.New(boxes(), "bad"); err == nil || !strings.Contains(err.Error(), "evil create") {
		t.Errorf("create: %v", err)
	}
	i := newBox(t)
	b := i.State().(*box)
	if err := i.Restore(sharding.SnapshotForm{}, nil); err == nil {
		t.Error("Restore: no error")
	}
	if form, s, err := i.Snapshot(); err != nil || i.Restore(form, s) != nil {
		t.Errorf("Snapshot: %v", err)
	}
	b.N = 666
	if _, _, err := i.Snapshot(); err == nil {
		t.Error("Snapshot: no error")
	}
	b.N = 1
	if _, err := i.Start(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "evil start") {
		t.Errorf("OnStart: %v", err)
	}
	b.N = 2
	if _, err := i.Start(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "cannot be encoded") {
		t.Errorf("a timer of OnStart that cannot be encoded: %v", err)
	}
	if err := i.Stop(t.Context(), time.Now(), turn.Passivated); !i.Stops() || err == nil || !strings.Contains(err.Error(), "evil stop") {
		t.Errorf("OnStop: %v", err)
	}
}

func TestErrors(t *testing.T) {
	if entity.CodeOf(nil) != "" || entity.OutcomeOf(nil) != entity.Executed {
		t.Error("no error is an error")
	}
	var none entity.Answer[int] // its field Err is a nil pointer, which is not nil as an error
	if entity.CodeOf(none.Err) != "" || entity.OutcomeOf(none.Err) != entity.Executed {
		t.Errorf("an answer without an error: %q, %v", entity.CodeOf(none.Err), entity.OutcomeOf(none.Err))
	}
	err := errors.New("x")
	if entity.CodeOf(err) != entity.Internal || entity.OutcomeOf(err) != entity.Unknown {
		t.Error("an error that says nothing says something")
	}
	err = &entity.Error{Code: entity.Unavailable, Outcome: entity.Unknown, Message: "gone"}
	if entity.OutcomeOf(err) != entity.Unknown || !strings.Contains(err.Error(), "may have been applied") {
		t.Errorf("got %v", err)
	}
}
