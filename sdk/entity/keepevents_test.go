package entity_test

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

func TestKeepEvents(t *testing.T) {
	if d, err := entity.Describe(boxes().SnapshotEvery(2500).KeepEvents(3)); err != nil || d.KeepEvents != 3 {
		t.Errorf("%+v, %v", d, err)
	}
	volatile := entity.DefineVolatile("Notebook", func(string) *notebook { return nil }, entity.On(actNow, (*notebook).act))
	for want, def := range map[string]entity.Definition{
		"a volatile type stores no events":          volatile.KeepEvents(3),
		"KeepEvents(0), must be at least 1":         boxes().SnapshotEvery(5).KeepEvents(0),
		"KeepEvents(-1), must be at least 1":        boxes().SnapshotEvery(5).KeepEvents(-1),
		"KeepEvents needs snapshots":                boxes().KeepEvents(3),
		"SnapshotEvery is 2501, at most 2500 with ": boxes().SnapshotEvery(2501).KeepEvents(3),
	} { // order-free
		if _, err := entity.Describe(def); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestFormsOfSnapshots: a type whose events may be gone says in which form it stores snapshots, and
// every type which ones it reads. What is said is what ReadsSnapshot says.
func TestFormsOfSnapshots(t *testing.T) {
	of := func(def entity.Definition) (writes, reads []sharding.Form) {
		d, err := entity.Describe(def)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range d.Desc.Writes {
			if f.Kind == sharding.FormOfSnapshot {
				writes = append(writes, f)
			}
		}
		return writes, d.Desc.Reads
	}
	old := func() *entity.Type[oldCart] {
		return entity.Define("Cart", func(string) *oldCart { return &oldCart{} },
			entity.On(entity.Command[int, int]("Cart", "Noop"), func(*oldCart, *entity.Ctx, int) (int, error) { return 0, nil })).SnapshotEvery(5)
	}
	now := func() *entity.Type[cart] { return carts().SnapshotEvery(5).SnapshotV(2) }
	step := entity.FromSnapshot(1, func(old cartV1, c *cart) { c.Items = old.Things })
	types := map[string]entity.Definition{
		"old": old(), "old that trims": old().KeepEvents(1), "now": now(), "now that trims": now().KeepEvents(1),
		"now with a step": carts().SnapshotEvery(5).SnapshotV(2, step).KeepEvents(1),
		"own":             boxes().SnapshotEvery(5).KeepEvents(1),
	}
	for name, def := range types { // order-free
		writes, reads := of(def)
		if trims := !(name == "old" || name == "now"); trims != (len(writes) == 1) {
			t.Errorf("%s stores snapshots in %v", name, writes)
		}
		for i, f := range reads {
			if i > 0 && reads[i-1].Compare(f) >= 0 {
				t.Errorf("%s: %v are out of order, or twice", name, reads)
			}
		}
		for other, writer := range types { // order-free
			stored, _ := of(writer)
			if len(stored) == 0 || (other == "own") != (name == "own") {
				continue
			}
			f := stored[0]
			if by, is := sharding.Reads(reads, f), entity.ReadsSnapshot(def, sharding.SnapshotForm{Version: f.Version, Shape: f.Shape}); by != is {
				t.Errorf("%s reads snapshots of %s: %t by its forms, else %t", name, other, by, is)
			}
		}
	}
}
