package entity_test

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

func TestKeepEvents(t *testing.T) {
	if d := instance.Describe(boxes(entity.SnapshotEvery(2500), entity.KeepEvents(3))); d.KeepEvents != 3 {
		t.Errorf("%+v", d)
	}
	volatile := entity.With[notebook](entity.Volatile(), entity.KeepEvents(3))
	for want, err := range map[string]error{
		"a volatile type stores no events":          mistake(entity.New("Notebook", func(string) *notebook { return nil }, entity.On(actNow, (*notebook).act), volatile)),
		"KeepEvents(0), must be at least 1":         boxMistake(entity.SnapshotEvery(5), entity.KeepEvents(0)),
		"KeepEvents(-1), must be at least 1":        boxMistake(entity.SnapshotEvery(5), entity.KeepEvents(-1)),
		"KeepEvents needs snapshots":                boxMistake(entity.KeepEvents(3)),
		"SnapshotEvery is 2501, at most 2500 with ": boxMistake(entity.SnapshotEvery(2501), entity.KeepEvents(3)),
	} { // order-free
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestFormsOfSnapshots: a type whose events may be gone says in which form it stores snapshots, and
// every type which ones it reads. The result is ReadsSnapshot's.
func TestFormsOfSnapshots(t *testing.T) {
	of := func(def entity.Definition) (writes, reads []sharding.Form) {
		d := instance.Describe(def)
		for _, f := range d.Desc.Writes {
			if f.Kind == sharding.FormOfSnapshot {
				writes = append(writes, f)
			}
		}
		return writes, d.Desc.Reads
	}
	old := func(options ...entity.TypeOption) entity.Type[oldCart] {
		return entity.Define("Cart", func(string) *oldCart { return &oldCart{} },
			entity.On(entity.Command[int, int]("Cart", "Noop"), func(*oldCart, *entity.Ctx, int) (int, error) { return 0, nil }),
			entity.With[oldCart](entity.SnapshotEvery(5)), entity.With[oldCart](options...),
		)
	}
	now := func(options ...entity.TypeOption) entity.Type[cart] {
		return carts(withCart(entity.SnapshotEvery(5), entity.SnapshotV(2)), withCart(options...))
	}
	step := entity.FromSnapshot(1, func(old cartV1, c *cart) { c.Items = old.Things })
	types := map[string]entity.Definition{
		"old": old(), "old that trims": old(entity.KeepEvents(1)), "now": now(), "now that trims": now(entity.KeepEvents(1)),
		"now with a step": carts(withCart(entity.SnapshotEvery(5), entity.SnapshotV(2, step), entity.KeepEvents(1))),
		"own":             boxes(entity.SnapshotEvery(5), entity.KeepEvents(1)),
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
			if by, is := sharding.Reads(reads, f), instance.ReadsSnapshot(def, sharding.SnapshotForm{Version: f.Version, Shape: f.Shape}); by != is {
				t.Errorf("%s reads snapshots of %s: %t by its forms, else %t", name, other, by, is)
			}
		}
	}
}
