package entity_test

import (
	"errors"
	"testing"

	"github.com/roost-cluster/roost/libs/archtest"
	"github.com/roost-cluster/roost/libs/sharding"
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
		if err != nil && !errors.Is(err, entity.ErrStored) {
			t.Errorf("version %d, %q: %v", version, payload, err)
		}
		if err != nil && len(i.State().(*cart).Items) > 0 {
			t.Errorf("version %d, %q is refused and applied", version, payload)
		}
	})
}

// FuzzStoredSnapshot is FuzzStoredEvent for snapshots, of the current form and of one from
// which there is a step.
func FuzzStoredSnapshot(f *testing.F) {
	now := carts(current).SnapshotV(2, entity.FromSnapshot(1, func(old cartV1, c *cart) { c.Items = old.Things }))
	form, b, err := instanceOf(f, now).Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	old, _, err := instanceOf(f, entity.Define("Cart", func(string) *oldCart { return &oldCart{} })).Snapshot()
	if err != nil || !entity.ReadsSnapshot(now, old) {
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
		if err != nil && !errors.Is(err, entity.ErrStored) {
			t.Errorf("%q: %v", payload, err)
		}
	})
}
