package entity_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

type visits struct {
	Count int
	Seen  map[string]int
}

type visitsV1 struct{ N int }

type secretVisits struct {
	Shown  int
	hidden int
}

type noVisits struct{ hidden int }

var hit = entity.Command[int, int]("Visits", "Hit")

func keeps[E any](state E, options ...entity.TypeOption) entity.Type[E] {
	t, err := tryKeep(state, options...)
	if err != nil {
		panic(err)
	}
	return t
}

func tryKeep[E any](state E, options ...entity.TypeOption) (entity.Type[E], error) {
	return entity.New("Visits", func(string) *E { s := state; return &s }, entity.On(hit, func(*E, *entity.Ctx, int) (int, error) { return 0, nil }), entity.With[E](entity.Volatile(), entity.KeepOnMoves()), entity.With[E](options...))
}

func resume[E any](t *testing.T, typ entity.Type[E], k *turn.Kept) (*E, error) {
	t.Helper()
	inst, unread, err := instance.Resume(typ, "x", k)
	if err != nil {
		t.Fatal(err)
	}
	return inst.State().(*E), unread
}

// TestKeepOnMoves: the next owner has the state as it was; one that it cannot read leaves the
// entity empty.
func TestKeepOnMoves(t *testing.T) {
	typ := keeps(visits{})
	if d := instance.Describe(typ); !d.KeepOnMoves || !d.Desc.Volatile {
		t.Fatalf("%+v", d)
	}
	inst, err := instance.New(typ, "x")
	if err != nil {
		t.Fatal(err)
	}
	*inst.State().(*visits) = visits{Count: 3, Seen: map[string]int{"a": 1}}
	kept, err := inst.Keep()
	if err != nil {
		t.Fatal(err)
	}
	if got, unread := resume(t, typ, kept); unread != nil || got.Count != 3 || got.Seen["a"] != 1 {
		t.Errorf("resumed %+v, %v", got, unread)
	}
	for name, change := range map[string]func(k *turn.Kept){
		"other version": func(k *turn.Kept) { k.Form.Version++ },
		"other fields":  func(k *turn.Kept) { k.Form.Shape++ },
		"damaged":       func(k *turn.Kept) { k.Payload = []byte(`{"Count":3,`) },
		"half":          func(k *turn.Kept) { k.Payload = []byte(`{"Count":3,"Seen":{"a":"b"}}`) },
	} {
		bad := *kept
		change(&bad)
		if got, unread := resume(t, typ, &bad); unread == nil || got.Count != 0 || got.Seen != nil {
			t.Errorf("%s: resumed %+v, %v", name, got, unread)
		}
	}
	old := &turn.Kept{Form: sharding.SnapshotForm{Version: 1}, Payload: []byte(`{"N":5}`)}
	newer := keeps(visits{}, entity.SnapshotV(2, entity.FromSnapshot(1, func(v visitsV1, s *visits) { s.Count = v.N })))
	if got, unread := resume(t, newer, old); unread != nil || got.Count != 5 {
		t.Errorf("a step: resumed %+v, %v", got, unread)
	}
}

// TestKeepNeedsFields: a type that can keep nothing is refused, and a state that would not
// be kept as a whole is not kept.
func TestKeepNeedsFields(t *testing.T) {
	if _, err := tryKeep(noVisits{hidden: 1}); err == nil || !strings.Contains(err.Error(), "no exported field") {
		t.Errorf("a type without exported fields: %v", err)
	}
	typ := keeps(secretVisits{})
	inst, err := instance.New(typ, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inst.Keep(); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	inst.State().(*secretVisits).hidden = 2
	if _, err := inst.Keep(); !errors.Is(err, instance.ErrLossySnapshot) {
		t.Errorf("a hidden field has changed: %v", err)
	}
}
