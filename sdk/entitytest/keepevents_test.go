package entitytest

import (
	"errors"
	"testing"

	"github.com/roost-cluster/roost/sdk/entity"
)

type (
	meter   struct{ Sum int }
	meterV2 struct{ Total int }
	counted struct{ N int }
)

var count = entity.Command[int, int]("Meter", "Count")

func meters() entity.Type[meter] {
	return entity.Define("Meter", func(string) *meter { return &meter{} }, entity.On(count, func(m *meter, c *entity.Ctx, n int) (int, error) {
		c.Persist(counted{n})
		return m.Sum, nil
	}),
		entity.Event("counted", func(m *meter, e counted) { m.Sum += e.N }),
		entity.With[meter](entity.SnapshotEvery(3), entity.KeepEvents(2)),
	)
}

func metersV2(steps ...entity.Step) entity.Type[meterV2] {
	return entity.Define("Meter", func(string) *meterV2 { return &meterV2{} }, entity.On(count, func(m *meterV2, c *entity.Ctx, n int) (int, error) {
		c.Persist(counted{n})
		return m.Total, nil
	}),
		entity.Event("counted", func(m *meterV2, e counted) { m.Total += e.N }),
		entity.With[meterV2](entity.SnapshotEvery(3), entity.KeepEvents(2), entity.SnapshotV(2, steps...)),
	)
}

// TestKeepEvents: what was trimmed is gone, and the next version must read the snapshot.
func TestKeepEvents(t *testing.T) {
	k := New(t, meters())
	add := func(n int) (int, error) { return count.Call(t.Context(), k, "m", n) }
	for range 10 {
		if _, err := add(1); err != nil {
			t.Fatal(err)
		}
	}
	if got := k.Entity(meters(), "m").Events(); len(got) != 3 {
		t.Errorf("%d events are left: %v", len(got), got)
	}
	k.Restart()
	if sum, err := add(1); err != nil || sum != 11 {
		t.Errorf("after a restart %d, %v", sum, err)
	}
	k.Restart(metersV2())
	var failed *entity.Error
	if _, err := add(1); !errors.As(err, &failed) || failed.Code != entity.DataLoss {
		t.Errorf("the snapshot cannot be read: %v", err)
	}
	k.Restart(metersV2(entity.FromSnapshot(1, func(old meter, m *meterV2) { m.Total = old.Sum })))
	if sum, err := add(1); err != nil || sum != 12 {
		t.Errorf("by a step %d, %v", sum, err)
	}
}
