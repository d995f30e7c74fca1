package entity_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/archtest"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// FuzzStoredEvent: whatever is stored under the name of an event is applied or refused as
// unreadable, and takes memory in proportion to its length.
func FuzzStoredEvent(f *testing.F) {
	for version, payload := range []string{`{}`, `{"SKU":"tea"}`, `{"SKU":"tea","Count":2}`, `{"item":"tea","count":3}`, `{"item":"tea","gift":true}`} {
		f.Add(uint16(version), uint16(1), false, []byte(payload))
	}
	f.Add(uint16(3), uint16(3), true, []byte{8, 5})
	f.Fuzz(func(t *testing.T, version, readableBy uint16, protobuf bool, payload []byte) {
		ev := sharding.Event{Name: "item-added", Version: version, ReadableBy: readableBy, Payload: payload}
		if protobuf {
			ev.Encoding = sharding.Protobuf
		}
		i := instanceOf(t, carts(current))
		var err error
		archtest.Memory(t, archtest.MemoryFactor, len(payload), func() { err = i.Replay([]sharding.Event{ev}) })
		if err != nil && !errors.Is(err, instance.ErrStored) {
			t.Errorf("version %d, %q: %v", version, payload, err)
		}
		if err != nil && len(i.State().(*cart).Items) > 0 {
			t.Errorf("version %d, %q is refused and applied", version, payload)
		}
	})
}

// FuzzStoredSnapshot is FuzzStoredEvent for snapshots, of the current form and of one with a
// step to it.
func FuzzStoredSnapshot(f *testing.F) {
	now := carts(current, withCart(entity.SnapshotV(2, entity.FromSnapshot(1, func(old cartV1, c *cart) { c.Items = old.Things }))))
	form, b, err := instanceOf(f, now).Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	old, _, err := instanceOf(f, entity.Define("Cart", func(string) *oldCart { return &oldCart{} }, noop[oldCart]("Cart"))).Snapshot()
	if err != nil || !instance.ReadsSnapshot(now, old) {
		f.Fatal("there is no step from the old form", err)
	}
	f.Add(false, b)
	f.Add(true, []byte(`{"Things":{"tea":4}}`))
	f.Fuzz(func(t *testing.T, older bool, payload []byte) {
		i, of := instanceOf(t, now), form
		if older {
			of = old
		}
		archtest.Memory(t, archtest.MemoryFactor, len(payload), func() { err = i.Restore(of, payload) })
		if err != nil && !errors.Is(err, instance.ErrStored) {
			t.Errorf("%q: %v", payload, err)
		}
	})
}

// FuzzInput sends any bytes as an input of a type with every kind of field: no input makes the turn panic.
func FuzzInput(f *testing.F) {
	type embedded struct{ E1, E2 *int }
	type input struct {
		asked
		*embedded
		Depts  map[dept]*line   `json:"depts"`
		Rank   rank             `json:",string"`
		Maybe  *status          `json:"maybe,string"`
		Quoted string           `json:"quoted,string"`
		Float  *float64         `json:"float,string"`
		Levels []level          `json:"levels"`
		Marks  []mark           `json:"marks"`
		Six    [2]mark          `json:"six"`
		Bytes  [][]byte         `json:"bytes"`
		Array  [2][3]byte       `json:"array"`
		At     time.Time        `json:"at"`
		Number json.Number      `json:"number"`
		ByMark map[mark][]any   `json:"byMark"`
		Deep   []map[uint8]line `json:"deep"`
	}
	typ := entity.Define("Askable", func(string) *struct{} { return &struct{}{} },
		entity.On(entity.Command[input, int]("Askable", "Ask"), func(*struct{}, *entity.Ctx, input) (int, error) { return 0, nil }),
		entity.With[struct{}](entity.Volatile()),
	)
	f.Add([]byte(`{"delta":5,"text":"\ud83d\ude00","inner":[{"cents":1}],"by":{"b":1,"B":2},"byNo":{"-1":true},"any":{"x":1},"raw":{"x":[1]},"pair":[1,2],"Loose":1,"E1":2}`))
	f.Add([]byte(`{"depts":{"R&D":{"cents":2},"\"staff\"":null},"Rank":"1","maybe":"\"open\"","quoted":"\"x\"","float":"1e3","levels":"AQI=","marks":["a"],"six":["a","b"]}`))
	f.Add([]byte(`{"bytes":["YQ==",[1,2],null],"array":[[1,2,3],[4,5,6]],"at":"2026-01-02T03:04:05Z","number":1e400,"byMark":{"a":[1,{"x":[]}]},"deep":[{"7":{"cents":3}}],"marks":"YWI="}`))
	f.Add([]byte(`{"maybe":"null","quoted":"null","Rank":"null","number":"12","levels":[1,null],"six":null}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		_, failed := instanceOf(t, typ).Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Ask", Payload: payload}}, nil)
		if _, panicked := errors.AsType[*instance.Panic](failed); panicked {
			t.Errorf("%q: %v", payload, failed)
		}
	})
}
