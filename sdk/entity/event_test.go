package entity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// trace keeps what its reducers were given.
type trace struct{ Seen []any }

type (
	plainEvent struct {
		N     int64
		Text  string `json:"text"`
		Flag  bool
		Parts [2]struct{ F float64 }
	}
	timedEvent  struct{ At time.Time }
	hiddenEvent struct{ Open, secret int }
	listEvent   struct{ Items []string }
	pointEvent  struct{ To *int }
	tagEvent    struct {
		Kept    int
		Dropped int `json:"-"`
	}
	twinEvent struct {
		A int
		B int `json:"a,omitempty"`
	}
	face         interface{ Face() }
	faceEvent    struct{ F face }
	halfEvent    struct{ N int }
	refusedEvent struct{ N float64 }
)

type smile struct{}

func (smile) Face() {}

// MarshalJSON writes a field that reading does not know.
func (e halfEvent) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"M":%d}`, e.N), nil }

var record = entity.Command[int, int]("Trace", "Record")

func traces(next func() any) entity.Type[trace] {
	return entity.Define("Trace", func(string) *trace { return &trace{} },
		entity.On(record, func(_ *trace, ctx *entity.Ctx, _ int) (int, error) {
			ctx.Persist(next())
			return 0, nil
		}),
		seen[plainEvent]("plainEvent"),
		seen[timedEvent]("timedEvent"),
		seen[hiddenEvent]("hiddenEvent"),
		seen[listEvent]("listEvent"),
		seen[pointEvent]("pointEvent"),
		seen[tagEvent]("tagEvent"),
		seen[twinEvent]("twinEvent"),
		seen[faceEvent]("faceEvent"),
		seen[halfEvent]("halfEvent"),
		seen[refusedEvent]("refusedEvent"),
		seen[*wrapperspb.StringValue]("StringValue"),
	)
}

// TestLiveIsWhatReplaySees: a reducer gets the same values live and in replay,
// whatever an event holds.
func TestLiveIsWhatReplaySees(t *testing.T) {
	items, n := []string{"a"}, 5
	for _, ev := range []any{
		plainEvent{N: 1 << 60, Text: "ä \ufffd", Flag: true, Parts: [2]struct{ F float64 }{{0.1}, {-1e300}}},
		plainEvent{Text: "not UTF-8: \xff"},
		timedEvent{time.Now()}, timedEvent{time.Now().In(time.FixedZone("here", 7200))},
		hiddenEvent{1, 2}, listEvent{items}, listEvent{[]string{}}, pointEvent{&n}, tagEvent{1, 2}, twinEvent{1, 2},
		wrapperspb.String("x"), faceEvent{},
	} {
		i, err := instance.New(traces(func() any { return ev }), "t")
		if err != nil {
			t.Fatal(err)
		}
		done := run(i, "Record", "1", sharding.JSON)
		if done.Reply.Outcome != sharding.Executed {
			t.Errorf("%T: %+v", ev, done.Reply)
			continue
		}
		items[0], n = "changed by the author", 6
		again, _ := instance.New(traces(nil), "t")
		if err := again.Replay(done.Events); err != nil {
			t.Errorf("%T: %v", ev, err)
		}
		if live, replayed := i.State(), again.State(); !reflect.DeepEqual(live, replayed) && fmt.Sprint(live) != fmt.Sprint(replayed) {
			t.Errorf("%T: live %+v, replayed %+v", ev, live, replayed)
		}
		items[0], n = "a", 5
	}
}

// TestNotReplayable: an event that could not be replayed is refused when it is
// persisted, and nothing of it is applied.
func TestNotReplayable(t *testing.T) {
	zero := 0.0
	for want, ev := range map[string]any{
		"event faceEvent cannot be read back":         faceEvent{smile{}},
		`event halfEvent cannot be read back from "{`: halfEvent{1},
		"event refusedEvent cannot be encoded":        refusedEvent{zero / zero},
	} {
		i, err := instance.New(traces(func() any { return ev }), "t")
		if err != nil {
			t.Fatal(err)
		}
		done := run(i, "Record", "1", sharding.JSON)
		if done.Reply.Outcome != sharding.NotApplied || len(done.Events) > 0 || len(i.State().(*trace).Seen) > 0 {
			t.Errorf("%T: %+v", ev, done)
		}
		_, err = i.Encode(ev)
		if _, persisted := i.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Record", Payload: []byte("1")}}, nil); persisted == nil || !strings.Contains(persisted.Error(), want) {
			t.Errorf("%T: %v (encoded: %v)", ev, persisted, err)
		}
	}
}

// persist returns the reason why an event cannot be persisted, which callers are not told.
func persist(s sample) error {
	i, err := instance.New(entity.Define("Trace", func(string) *trace { return &trace{} },
		entity.On(record, func(_ *trace, ctx *entity.Ctx, _ int) (int, error) { ctx.Persist(s.event); return 0, nil }), s.trace), "t")
	if err != nil {
		return err
	}
	_, failed := i.Run(context.Background(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Record", Payload: []byte("1")}}, nil)
	return failed
}

// TestStrictSnapshots: a state that says more than the type knows is not restored.
func TestStrictSnapshots(t *testing.T) {
	i, _ := instance.New(traces(nil), "t")
	err := restore(i, `{"Seen":[],"Renamed":1}`)
	if !errors.Is(err, instance.ErrStored) || !strings.Contains(err.Error(), `snapshot of Trace/t`) || !strings.Contains(err.Error(), `"Renamed"`) {
		t.Errorf("got %v", err)
	}
	if err := restore(i, `{}`); !errors.Is(err, instance.ErrStored) {
		t.Errorf("a field that is missing: %v", err)
	}
	if err := restore(i, `{"Seen":null}`); err != nil {
		t.Errorf("the empty state: %v", err)
	}
}

// restore restores a snapshot of the current form.
func restore(i *instance.Instance, b string) error {
	form, _, err := i.Snapshot()
	if err != nil {
		return err
	}
	return i.Restore(form, []byte(b))
}

// answering is a caller that always gets the same reply.
type answering struct{ reply entity.Reply }

func (a answering) Call(context.Context, entity.Call) (entity.Reply, error) { return a.reply, nil }

// TestLenientReplies: an entity may be newer than those who call it.
func TestLenientReplies(t *testing.T) {
	type told struct{ N int }
	ask := entity.Command[struct{}, told]("Trace", "Ask")
	got, err := ask.Call(t.Context(), answering{entity.Reply{Payload: []byte(`{"N":5,"More":{"a":1}}`)}}, "t", struct{}{})
	if err != nil || got.N != 5 {
		t.Errorf("got %+v, %v", got, err)
	}
	askProto := entity.Command[struct{}, *wrapperspb.Int64Value]("Trace", "AskProto")
	if _, err := askProto.Call(t.Context(), answering{entity.Reply{Protobuf: true, Payload: []byte{8, 5, 56, 1}}}, "t", struct{}{}); err != nil {
		t.Errorf("protobuf: %v", err)
	}
	if _, err := ask.Call(t.Context(), answering{entity.Reply{Payload: []byte(`{"N":"five"}`)}}, "t", struct{}{}); entity.CodeOf(err) != entity.Internal {
		t.Errorf("another type: %v", err)
	}
}

// TestNow: the time of a turn is the runtime's, and can be stored.
func TestNow(t *testing.T) {
	var told time.Time
	def := entity.Define("Trace", func(string) *trace { return &trace{} },
		entity.On(record, func(_ *trace, ctx *entity.Ctx, _ int) (int, error) { told = ctx.Now(); return 0, nil }))
	i, err := instance.New(def, "t")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	i.Run(t.Context(), now, &turn.Run{Env: &sharding.Envelope{Command: "Record", Payload: []byte("1")}}, nil)
	b, _ := json.Marshal(told)
	var back time.Time
	if err := json.Unmarshal(b, &back); err != nil || back != told || !told.Equal(now) {
		t.Errorf("got %v, back %v (%v), at %v", told, back, err, now)
	}
}

// BenchmarkPersist compares events that are applied as they are with those that
// are read back first.
func BenchmarkPersist(b *testing.B) {
	for _, s := range []sample{sampleOf(grown{5}), sampleOf(plainEvent{N: 5, Text: "a text"}), sampleOf(timedEvent{time.Now()}), sampleOf(listEvent{[]string{"a", "b"}})} {
		b.Run(fmt.Sprintf("%T", s.event), func(b *testing.B) {
			def := entity.Define("Box", func(string) *sink { return &sink{} },
				entity.On(grow, func(_ *sink, ctx *entity.Ctx, _ input) (int64, error) {
					ctx.Persist(s.event)
					return 0, nil
				}), s.sink)
			i, err := instance.New(def, "b")
			if err != nil {
				b.Fatal(err)
			}
			env, now := &sharding.Envelope{Command: "Grow", Payload: []byte(`{"by":5}`)}, time.Now()
			b.ReportAllocs()
			var done turn.TurnDone
			for b.Loop() {
				done, _ = i.Run(b.Context(), now, &turn.Run{Env: env}, nil)
			}
			if len(done.Events) != 1 {
				b.Fatal(done.Reply)
			}
		})
	}
}

type sink struct{}
