package entity_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

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

func (b *box) Apply(event any) {
	switch e := event.(type) {
	case grown:
		if e.By == 666 {
			panic("evil event")
		}
		b.N += e.By
	case *wrapperspb.Int64Value:
		b.N += e.Value
	}
}

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

func (b *box) OnStop(*entity.Ctx, turn.StopReason) { panic("evil stop") }

func (b *box) Grow(ctx *entity.Ctx, in input) (int64, error) {
	switch in.By {
	case 13:
		return 0, errors.New("plain")
	case 14:
		return 0, entity.Errorf(entity.NotFound, "business %d", in.By)
	case 15:
		return 0, entity.Errorf("", "no code")
	case 16:
		_ = ctx.Persist(grown{1})
		return 0, entity.Errorf(entity.Aborted, "after staging")
	case 17:
		return 0, ctx.Persist(nil)
	case 18:
		return 0, ctx.Persist(input{})
	case 19:
		panic("evil handler")
	case 20:
		badTimer.After(ctx, time.Second, "t", make(chan int))
		return 0, nil
	}
	return b.N, ctx.Persist(grown(in), note{"grew"})
}

func (b *box) Look(ctx *entity.Ctx, _ struct{}) (int64, error) { return b.N, ctx.Persist(grown{1}) }

func (b *box) Wrapped(ctx *entity.Ctx, in *wrapperspb.Int64Value) (*wrapperspb.Int64Value, error) {
	return wrapperspb.Int64(b.N + in.GetValue()), ctx.Persist(in)
}

func (b *box) Tall(ctx *entity.Ctx, n int) (string, error) {
	return strings.Repeat("x", n), ctx.Persist(grown{1})
}

func (b *box) Broken(*entity.Ctx, struct{}) (chan int, error) { return make(chan int), nil }

var (
	grow     = entity.Command[input, int64]("Box", "Grow")
	look     = entity.Command[struct{}, int64]("Box", "Look").ReadOnly()
	wrapped  = entity.Command[*wrapperspb.Int64Value, *wrapperspb.Int64Value]("Box", "Wrapped")
	tall     = entity.Command[int, string]("Box", "Tall")
	broken   = entity.Command[struct{}, chan int]("Box", "Broken")
	badTimer = entity.Command[chan int, int]("Box", "BadTimer")
)

func boxes() *entity.Type[box] {
	return entity.Define("Box", func(id string) *box {
		if id == "bad" {
			panic("evil create")
		}
		return &box{}
	}, entity.On(grow, (*box).Grow), entity.On(look, (*box).Look), entity.On(wrapped, (*box).Wrapped), entity.On(broken, (*box).Broken),
		entity.On(tall, (*box).Tall),
	).Events(grown{}, entity.Event[note]("Remark"), &wrapperspb.Int64Value{})
}

func instance(t *testing.T) *entity.Instance {
	t.Helper()
	i, err := entity.NewInstance(boxes(), "b1")
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// run runs a command. What only the log is told stands behind the message.
func run(i *entity.Instance, command, payload string, enc sharding.Encoding) turn.TurnDone {
	done, failed := i.Run(context.Background(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: command, Payload: []byte(payload), Encoding: enc}, ReadOnly: command == "Look"}, nil)
	if failed != nil {
		done.Reply.Message += " | " + failed.Error()
	}
	return done
}

// TestVolatileFailures: what a handler of a volatile type has changed stays, and nobody
// is told that it was undone. If it returns, that is the answer, and nobody runs it again.
func TestVolatileFailures(t *testing.T) {
	boxes := entity.DefineVolatile("Box", func(string) *counter { return &counter{} }, entity.On(add, (*counter).Add), entity.On(read, (*counter).Read))
	i, err := entity.NewInstance(boxes, "b1")
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]struct {
		outcome sharding.Outcome
		message string
	}{
		`{"by":1,"then":"plain"}`:    {sharding.OK, "Add failed; what it had changed in memory by then stays"},
		`{"by":1,"then":"panic"}`:    {sharding.Unknown, "Add failed, and what the entity had in memory is gone"},
		`{"by":1,"then":"business"}`: {sharding.OK, "sold out"},
		`{"bye":1}`:                  {sharding.Rejected, `the input of Add: `},
	} {
		done, _ := i.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Add", Payload: []byte(payload)}}, nil)
		if done.Reply.Outcome != want.outcome || !strings.HasPrefix(done.Reply.Message, want.message) || done.Spoiled != strings.Contains(payload, "panic") {
			t.Errorf("%s: %+v", payload, done)
		}
	}
	if done, _ := i.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Read"}, ReadOnly: true}, nil); done.Reply.Outcome != sharding.Rejected {
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
	read = entity.Command[struct{}, int]("Box", "Read").ReadOnly()
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
		done, failed := instance(t).Run(context.Background(), time.Now(), &turn.Run{Env: env}, nil)
		switch {
		case log == "" && failed != nil:
			t.Errorf("%s: %v", payload, failed)
		case log != "" && (failed == nil || !strings.Contains(failed.Error(), log) || done.Reply.Message != "Grow failed and was undone"):
			t.Errorf("%s: the caller is told %q, the log %v", payload, done.Reply.Message, failed)
		}
		var p *entity.Panic
		if errors.As(failed, &p) != (payload == `{"by":19}`) || p != nil && !strings.Contains(p.Stack, "Grow") {
			t.Errorf("%s: panic %+v", payload, p)
		}
		_, refusal := entity.CheckInput(boxes(), env, nil)
		if (refusal != nil) != (payload == `{"bye":1}`) || refusal != nil && refusal.Message != done.Reply.Message {
			t.Errorf("%s: CheckInput: %+v", payload, refusal)
		}
	}
	if _, r := entity.CheckInput(boxes(), &sharding.Envelope{Command: "Nope", Payload: []byte("{")}, nil); r != nil {
		t.Errorf("an unknown command: %+v", r)
	}
}

// plainly has no start hook.
type plainly struct{}

func (*plainly) Apply(any) {}

func (*plainly) do(*entity.Ctx, input) (int64, error) { return 0, nil }

func TestDescribe(t *testing.T) {
	d, err := entity.Describe(boxes().Shards(7).SnapshotEvery(5).PassivateAfter(time.Hour))
	if err != nil || d.Desc.Type != "Box" || d.Desc.Shards != 7 || d.SnapshotEvery != 5 || d.Passivation.Idle != time.Hour ||
		len(d.Desc.Commands) != 5 || d.Desc.Commands[0].Name != "Broken" || !d.Desc.Commands[2].ReadOnly {
		t.Errorf("got %+v, %v", d, err)
	}
	create := func(string) *box { return &box{} }
	for _, c := range []struct {
		def    entity.Definition
		noLoad bool
	}{
		{entity.DefineVolatile("Box", create, entity.On(grow, (*box).Grow)), false}, // has a start hook
		{entity.DefineVolatile("Plain", func(string) *plainly { return nil }, entity.On(entity.Command[input, int64]("Plain", "Do"), (*plainly).do)), true},
		{entity.Define("Plain", func(string) *plainly { return nil }, entity.On(entity.Command[input, int64]("Plain", "Do"), (*plainly).do)), false},
	} {
		if d, err := entity.Describe(c.def); err != nil || d.NoLoad != c.noLoad {
			t.Errorf("%+v, %v", d, err)
		}
	}
	for want, def := range map[string]entity.Definition{
		"bound twice":         entity.Define("Box", create, entity.On(grow, (*box).Grow), entity.On(grow, (*box).Grow)),
		"belongs to type Box": entity.Define("Other", create, entity.On(grow, (*box).Grow)),
		"has no commands":     entity.Define("Box", create),
		"must be letters":     entity.Define("a b", create),
		"is reserved":         entity.Define("roost.coordinator", create, entity.On(entity.Command[input, int64]("roost.coordinator", "Grow"), (*box).Grow)),
		"0 shards":            boxes().Shards(0),
		"70000 shards":        boxes().Shards(70000),
		"declared twice":      boxes().Events(grown{}),
		"has no type":         boxes().Events(nil),
		"no events":           entity.DefineVolatile("Box", create, entity.On(grow, (*box).Grow)).Events(grown{}),
		"command of entity":   entity.Define("Box", create, entity.On(entity.Command[input, int64]("Box", "no way"), (*box).Grow)),
		"idle is -1s":         boxes().PassivateAfter(-time.Second),
		"limit is -1":         boxes().Passivate(passivation.LRU(-1)),
		"SnapshotEvery is -1": boxes().SnapshotEvery(-1),
	} {
		if _, err := entity.Describe(def); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestTurns(t *testing.T) {
	for payload, want := range map[string]struct {
		outcome sharding.Outcome
		code    entity.Code
		spoiled bool
		message string
	}{
		`{"by":5}`:          {outcome: sharding.OK},
		``:                  {outcome: sharding.OK},
		`{"bye":5}`:         {sharding.Rejected, entity.InvalidArgument, false, "bye"},
		`{"by":5}{}`:        {sharding.Rejected, entity.InvalidArgument, false, "more after"},
		`{"by":`:            {sharding.Rejected, entity.InvalidArgument, false, "input of Grow"},
		`{"by":13}`:         {sharding.Rejected, entity.Internal, false, "plain"},
		`{"by":14}`:         {sharding.OK, entity.NotFound, false, "business 14"},
		`{"by":15}`:         {sharding.Rejected, entity.Internal, false, "no code"},
		`{"by":16}`:         {sharding.OK, entity.Aborted, true, "after staging"},
		`{"by":17}`:         {sharding.Rejected, entity.Internal, false, "unknown event"},
		`{"by":18}`:         {sharding.Rejected, entity.Internal, false, "add it to Events"},
		`{"by":19}`:         {sharding.Rejected, entity.Internal, true, "panic: "},
		`{"by":20}`:         {sharding.Rejected, entity.Internal, false, "cannot be encoded"},
		`{"by":666}`:        {sharding.Rejected, entity.Internal, true, "panic: "},
		"{\"by\":\"five\"}": {sharding.Rejected, entity.InvalidArgument, false, "input of Grow"},
	} {
		done := run(instance(t), "Grow", payload, sharding.JSON)
		if done.Reply.Outcome != want.outcome || done.Reply.Code != want.code || done.Spoiled != want.spoiled || !strings.Contains(done.Reply.Message, want.message) {
			t.Errorf("%s: %+v, spoiled %t", payload, done.Reply, done.Spoiled)
		}
		if failed := done.Reply.Outcome != sharding.OK || done.Reply.Code != ""; failed && len(done.Events) > 0 {
			t.Errorf("%s: a failed turn has events", payload)
		}
	}
	i := instance(t)
	if done := run(i, "Look", "", sharding.JSON); done.Reply.Outcome != sharding.Rejected || !strings.Contains(done.Reply.Message, "read-only") {
		t.Errorf("a read-only command that persists: %+v", done.Reply)
	}
	if done := run(i, "Broken", "", sharding.JSON); done.Reply.Outcome != sharding.Rejected || !strings.Contains(done.Reply.Message, "reply cannot be encoded") {
		t.Errorf("a reply that cannot be encoded: %+v", done.Reply)
	}
	if done := run(i, "Tall", "1048574", sharding.JSON); done.Reply.Outcome != sharding.OK || len(done.Reply.Payload) != sharding.MaxPayload {
		t.Errorf("the longest reply: %v, %s, %d bytes", done.Reply.Outcome, done.Reply.Message, len(done.Reply.Payload))
	}
	if done := run(i, "Tall", "1048575", sharding.JSON); done.Reply.Outcome != sharding.Rejected || !done.Spoiled || len(done.Events) > 0 ||
		!strings.Contains(done.Reply.Message, "the reply has 1048577 bytes, at most 1048576") {
		t.Errorf("a reply that no link carries: %v, %s, spoiled %t", done.Reply.Outcome, done.Reply.Message, done.Spoiled)
	}
	if done := run(i, "Nope", "", sharding.JSON); done.Reply.Code != entity.Unimplemented {
		t.Errorf("an unknown command: %+v", done.Reply)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if done, _ := i.Run(ctx, time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Grow", Payload: []byte(`{"by":13}`)}}, nil); done.Reply.Code != entity.DeadlineExceeded {
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
		i := instance(t)
		done := run(i, "Wrapped", tc.payload, tc.enc)
		if done.Reply.Outcome != sharding.OK || string(done.Reply.Payload) != tc.want || done.Reply.Encoding != tc.enc {
			t.Errorf("%q: %+v %q", tc.payload, done.Reply, done.Reply.Payload)
		}
		again := instance(t)
		if err := again.Replay(done.Events); err != nil || again.State().(*box).N != i.State().(*box).N {
			t.Errorf("replay of %v: %v", done.Events, err)
		}
	}
	for _, tc := range []struct {
		command, payload string
		enc              sharding.Encoding
	}{{"Wrapped", "\xff", sharding.Protobuf}, {"Wrapped", "{", sharding.JSON}, {"Grow", string(raw), sharding.Protobuf}} {
		if done := run(instance(t), tc.command, tc.payload, tc.enc); done.Reply.Code != entity.InvalidArgument {
			t.Errorf("%q: %+v", tc.payload, done.Reply)
		}
	}
}

func TestStoredEvents(t *testing.T) {
	i := instance(t)
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
		if !errors.Is(err, entity.ErrStored) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "event "+ev.Name+" of Box/b1") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if n := i.State().(*box).N; n != 7 {
		t.Errorf("state %d", n)
	}
	for want, ev := range map[string]sharding.Event{
		"must stay in Events": {Name: "Gone", Version: 1},
		"event grown of":      {Name: "grown", Version: 1, Payload: []byte("{")},
		"Apply of type Box":   {Name: "grown", Version: 1, Payload: []byte(`{"By":666}`)},
	} {
		if err := i.Replay([]sharding.Event{ev}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestPanics: none of the author's code takes the process down.
func TestPanics(t *testing.T) {
	if _, err := entity.NewInstance(boxes(), "bad"); err == nil || !strings.Contains(err.Error(), "evil create") {
		t.Errorf("create: %v", err)
	}
	i := instance(t)
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
	if entity.CodeOf(nil) != "" || entity.OutcomeOf(nil) != sharding.OK || entity.ReplyError(sharding.Reply{Outcome: sharding.OK}) != nil {
		t.Error("no error is an error")
	}
	err := errors.New("x")
	if entity.CodeOf(err) != entity.Internal || entity.OutcomeOf(err) != sharding.Unknown {
		t.Error("an error that says nothing says something")
	}
	err = entity.ReplyError(sharding.Doubt(entity.Unavailable, "gone"))
	if entity.OutcomeOf(err) != sharding.Unknown || !strings.Contains(err.Error(), "may have been applied") {
		t.Errorf("got %v", err)
	}
}
