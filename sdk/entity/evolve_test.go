package entity_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// cart is an entity whose event has had three forms.
type cart struct{ Items map[string]int }

type (
	itemV1 struct{ SKU string }
	itemV2 struct {
		SKU   string
		Count int
	}
	item struct {
		Item  string `json:"item"`
		Count int    `json:"count"`
	}
)

func (c *cart) apply(event any) {
	if e, ok := event.(item); ok {
		if c.Items == nil {
			c.Items = map[string]int{}
		}
		c.Items[e.Item] += e.Count
	}
}

func newCart(string) *cart { return &cart{} }

func carts(declarations ...entity.Declaration[cart]) entity.Type[cart] {
	return entity.Define("Cart", newCart, append(declarations, noop[cart]("Cart"))...)
}

func cartMistake(declarations ...entity.Declaration[cart]) error {
	return mistake(entity.New("Cart", newCart, append(declarations, noop[cart]("Cart"))...))
}

var withCart = entity.With[cart]

var (
	fromV1  = entity.From(1, func(old itemV1) item { return item{Item: old.SKU, Count: 1} })
	fromV2  = entity.From(2, func(old itemV2) item { return item{Item: old.SKU, Count: old.Count} })
	current = kind[item]("item-added", entity.V(3, fromV1, fromV2), entity.Alias("itemV1"))
)

func replay(t *testing.T, def entity.Definition, events ...sharding.Event) (*instance.Instance, error) {
	t.Helper()
	i, err := instance.New(def, "c")
	if err != nil {
		t.Fatal(err)
	}
	return i, i.Replay(events)
}

// TestOldVersions: every form that was ever stored is read, under every name.
func TestOldVersions(t *testing.T) {
	i, err := replay(t, carts(current),
		sharding.Event{Name: "itemV1", Version: 1, Payload: []byte(`{"SKU":"tea"}`)},
		sharding.Event{Name: "item-added", Version: 1, Payload: []byte(`{"SKU":"tea"}`)},
		sharding.Event{Name: "item-added", Version: 2, Payload: []byte(`{"SKU":"tea","Count":2}`)},
		sharding.Event{Name: "item-added", Version: 3, Payload: []byte(`{"item":"tea","count":3}`)})
	if n := i.State().(*cart).Items["tea"]; err != nil || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
	stored, err := i.Encode(item{"tea", 1})
	if err != nil || stored[0].Name != "item-added" || stored[0].Version != 3 || stored[0].ReadableBy != 3 {
		t.Errorf("stored as %+v, %v", stored, err)
	}
	type gift struct {
		SKU   string
		Count int
		Gift  bool
	}
	fromV2 := entity.From(2, func(old itemV2) gift { return gift{SKU: old.SKU, Count: old.Count} })
	stored, _ = instanceOf(t, carts(kind[gift]("item-added", entity.V(3, fromV2), entity.ReadableBy(2)))).Encode(gift{})
	if stored[0].ReadableBy != 2 {
		t.Errorf("stored as %+v", stored)
	}
}

// TestForms: a region reads a stored event if and only if the forms that it registers say so.
func TestForms(t *testing.T) {
	v1 := carts(kind[itemV1]("item-added"))
	v2 := carts(kind[itemV2]("item-added", entity.V(2, entity.From(1, func(itemV1) itemV2 { return itemV2{} })), entity.ReadableBy(1)))
	v3 := carts(kind[item]("item-added", entity.V(3, fromV1, fromV2)))
	renamed := carts(kind[item]("put", entity.V(3, fromV1, fromV2), entity.Alias("item-added")))
	changed := carts(kind[itemV2]("item-added")) // without a version
	types := map[string]entity.Definition{"v1": v1, "v2": v2, "v3": v3, "renamed": renamed, "changed": changed}
	values := map[string]any{"v1": itemV1{"tea"}, "v2": itemV2{"tea", 2}, "v3": item{"tea", 2}, "renamed": item{"tea", 2}, "changed": itemV2{"tea", 2}}
	forms := func(def entity.Definition) sharding.TypeDesc {
		d := instance.Describe(def)
		return d.Desc
	}
	for writer, value := range values { // order-free
		stored, err := instanceOf(t, types[writer]).Encode(value)
		if err != nil {
			t.Fatal(err)
		}
		writes := forms(types[writer]).Writes
		if len(writes) != 1 || writes[0].Name != stored[0].Name || writes[0].Version != stored[0].Version {
			t.Errorf("%s stores %+v and registers %v", writer, stored[0], writes)
		}
		for reader, def := range types { // order-free
			_, err := replay(t, def, stored...)
			if reads := sharding.Reads(forms(def).Reads, writes[0]); reads != (err == nil) {
				t.Errorf("%s reads what %s stores: %t by its forms, and then: %v", reader, writer, reads, err)
			}
		}
	}
	volatile := instance.Describe(entity.Define("V", newCart, noop[cart]("V"), withCart(entity.Volatile())))
	if len(volatile.Desc.Writes)+len(volatile.Desc.Reads) > 0 {
		t.Errorf("a volatile type registers %+v", volatile.Desc)
	}
}

func instanceOf(t testing.TB, def entity.Definition) *instance.Instance {
	t.Helper()
	i, err := instance.New(def, "c")
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestWrongShapes: a stored event that this version does not read is an error that names
// the fault, and nothing of it is applied.
func TestWrongShapes(t *testing.T) {
	if why := wrong(t); why != "" {
		t.Error(why)
	}
}

func wrong(t *testing.T) string {
	plain := kind[item]("item-added", entity.V(3, fromV2))
	for name, c := range map[string]struct {
		ev   sharding.Event
		want string
	}{
		"no step":       {sharding.Event{Name: "item-added", Version: 1, Payload: []byte(`{"SKU":"a"}`)}, "no step leads from there: give V(3, …) an entity.From(1, …)"},
		"renamed":       {sharding.Event{Name: "item-added", Version: 3, Payload: []byte(`{"thing":"a","count":1}`)}, `with a field "thing" that this program does not know`},
		"renamed once":  {sharding.Event{Name: "item-added", Version: 2, Payload: []byte(`{"item":"a","count":1}`)}, `with a field "item" that this program does not know`},
		"later":         {sharding.Event{Name: "item-added", Version: 4, ReadableBy: 4, Payload: []byte(`{"item":"a"}`)}, "of version 4, and this program knows version 3"},
		"later, unsaid": {sharding.Event{Name: "item-added", Version: 4, Payload: []byte(`{"item":"a"}`)}, "of version 4"},
		"another type":  {sharding.Event{Name: "item-added", Version: 3, Payload: []byte(`{"item":5}`)}, `field "item" is`},
		"cut off":       {sharding.Event{Name: "item-added", Version: 3, Payload: []byte(`{"item":`)}, "it ends too early"},
		"empty":         {sharding.Event{Name: "item-added", Version: 3}, "it is empty"},
		"no version":    {sharding.Event{Name: "item-added", Payload: []byte(`{"item":"a","count":1}`)}, "it has no version"},
		"encoding":      {sharding.Event{Name: "item-added", Version: 3, Encoding: 7, Payload: []byte(`{"item":"a","count":1}`)}, "it has the encoding 7"},
		"protobuf":      {sharding.Event{Name: "item-added", Version: 3, Encoding: sharding.Protobuf, Payload: []byte(`{"item":"a","count":1}`)}, "was stored as protobuf"},
		"lacks a field": {sharding.Event{Name: "item-added", Version: 4, ReadableBy: 3, Payload: []byte(`{"item":"a","gift":true}`)}, "without the field \"count\""},
		"unknown name":  {sharding.Event{Name: "item-gone", Version: 3, Payload: []byte(`{}`)}, "must stay declared"},
	} {
		i, err := replay(t, carts(plain), c.ev)
		if !errors.Is(err, instance.ErrStored) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Cart/c") {
			return fmt.Sprintf("%s: %v", name, err)
		}
		if len(i.State().(*cart).Items) > 0 {
			return name + ": it was applied"
		}
	}
	return ""
}

// TestLaterVersion: fields of a later version are ignored only if that version allows it,
// and no snapshot makes the loss permanent.
func TestLaterVersion(t *testing.T) {
	if why := later(t); why != "" {
		t.Error(why)
	}
}

func later(t *testing.T) string {
	def := carts(kind[item]("item-added"))
	ev := sharding.Event{Name: "item-added", Version: 2, ReadableBy: 1, Payload: []byte(`{"item":"tea","count":2,"gift":true}`)}
	i, err := replay(t, def, ev)
	if err != nil || i.State().(*cart).Items["tea"] != 2 {
		return fmt.Sprintf("an event that may be read by version 1: %v, %+v", err, i.State())
	}
	if _, _, err := i.Snapshot(); !errors.Is(err, instance.ErrPartlyRead) {
		return "a snapshot is taken of a state that lacks something"
	}
	pb := kind[*wrapperspb.Int64Value]("n")
	if _, err := replay(t, carts(pb), sharding.Event{Name: "n", Version: 2, ReadableBy: 1, Encoding: sharding.Protobuf, Payload: []byte{8, 5, 56, 1}}); err != nil {
		return "protobuf: " + err.Error()
	}
	return ""
}

// TestSnapshotForms: a snapshot of another form is read by its step or not at all.
func TestSnapshotForms(t *testing.T) {
	if why := snapshots(t); why != "" {
		t.Error(why)
	}
}

type cartV1 struct{ Things map[string]int }

func snapshots(t *testing.T) string {
	now := carts(current)
	i, err := replay(t, now, sharding.Event{Name: "item-added", Version: 3, Payload: []byte(`{"item":"tea","count":3}`)})
	if err != nil {
		t.Fatal(err)
	}
	form, b, err := i.Snapshot()
	if err != nil || form.Version != 1 || form.Shape == 0 || !instance.ReadsSnapshot(now, form) {
		t.Fatalf("%+v, %v", form, err)
	}
	again := instanceOf(t, now)
	if err := again.Restore(form, b); err != nil || again.State().(*cart).Items["tea"] != 3 {
		t.Errorf("restored %+v, %v", again.State(), err)
	}
	other := form
	other.Shape++
	if instance.ReadsSnapshot(now, other) {
		return "a snapshot with other fields is read"
	}
	if instance.ReadsSnapshot(carts(current, withCart(entity.SnapshotV(2))), form) {
		return "a snapshot of an older version is read without a step"
	}
	return ""
}

// TestSnapshotSteps: an older snapshot is read by the step from its form.
func TestSnapshotSteps(t *testing.T) {
	old := entity.Define("Cart", func(string) *oldCart { return &oldCart{} },
		entity.On(entity.Command[int, int]("Cart", "Noop"), func(*oldCart, *entity.Ctx, int) (int, error) { return 0, nil }))
	i := instanceOf(t, old)
	i.State().(*oldCart).Things = map[string]int{"tea": 4}
	form, b, err := i.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	now := carts(current, withCart(entity.SnapshotV(2, entity.FromSnapshot(1, func(old cartV1, c *cart) { c.Items = old.Things }))))
	again := instanceOf(t, now)
	if !instance.ReadsSnapshot(now, form) {
		t.Fatal("there is a step, and the snapshot is not read")
	}
	if err := again.Restore(form, b); err != nil || again.State().(*cart).Items["tea"] != 4 {
		t.Errorf("restored %+v, %v", again.State(), err)
	}
	if err := again.Restore(form, []byte(`{"Things":{},"More":1}`)); !errors.Is(err, instance.ErrStored) {
		t.Errorf("a snapshot that says more than its form: %v", err)
	}
}

// twoCases has a field more than itemV1, which differs from a field of itemV1 in case only.
type twoCases struct {
	SKU   string
	Other string `json:"sku"`
}

type oldCart struct{ Things map[string]int }

// purse is an entity with state that no snapshot has.
type purse struct {
	ID     string `json:"-"`
	Coins  int
	secret int
}

type halved struct{ Secret int }

// TestLossySnapshots: no snapshot is taken that lacks a part of the state. The fields that
// create sets are not such a part.
func TestLossySnapshots(t *testing.T) {
	if why := lossy(t); why != "" {
		t.Error(why)
	}
}

func lossy(t *testing.T) string {
	def := entity.Define("Purse", func(id string) *purse { return &purse{ID: id} },
		entity.On(entity.Command[int, int]("Purse", "Noop"), func(*purse, *entity.Ctx, int) (int, error) { return 0, nil }),
		entity.Event("halved", func(p *purse, event halved) { p.Coins++; p.secret += event.Secret }),
		entity.With[purse](entity.SnapshotEvery(1)),
	)
	i, err := replay(t, def, sharding.Event{Name: "halved", Version: 1, Payload: []byte(`{"Secret":0}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Snapshot(); err != nil {
		return "a snapshot that has all of the state: " + err.Error()
	}
	if err := i.Replay([]sharding.Event{{Name: "halved", Version: 1, Payload: []byte(`{"Secret":7}`)}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Snapshot(); !errors.Is(err, instance.ErrLossySnapshot) || !strings.Contains(err.Error(), "such as ID") {
		return fmt.Sprintf("a snapshot that lacks a part of the state: %v", err)
	}
	return ""
}

// TestBadDeclarations: mistakes are named before anything is stored.
func TestBadDeclarations(t *testing.T) {
	for want, err := range map[string]error{
		"event \"a\" is declared twice":                                         cartMistake(kind[item]("a"), kind[itemV1]("a")),
		"event \"b\" is declared twice":                                         cartMistake(kind[item]("a", entity.Alias("b")), kind[itemV1]("b")),
		"events of type entity_test.item are declared twice":                    cartMistake(kind[item]("a"), kind[item]("b")),
		"event a: version 0, must be 1 to 65535":                                cartMistake(kind[item]("a", entity.V(0))),
		"event a: version 65536":                                                cartMistake(kind[item]("a", entity.V(65536))),
		"event a: a step from version 3, must be 1 to 2":                        cartMistake(kind[item]("a", entity.V(3, entity.From(3, func(itemV1) item { return item{} })))),
		"event a: two steps from version 1":                                     cartMistake(kind[item]("a", entity.V(3, fromV1, fromV1))),
		"the step from version 1 returns entity_test.item, must return":         cartMistake(kind[itemV2]("a", entity.V(3, fromV1))),
		"event a: ReadableBy(2), must be 1 to its version 1":                    cartMistake(kind[item]("a", entity.ReadableBy(2))),
		"event a: ReadableBy(1) needs a step from version 1":                    cartMistake(kind[item]("a", entity.V(2), entity.ReadableBy(1))),
		"event a: ReadableBy(1): version 1 would not find its field SKU:string": cartMistake(kind[item]("a", entity.V(2, fromV1), entity.ReadableBy(1))),
		"version 1 would take the field sku for its own":                        cartMistake(kind[twoCases]("a", entity.V(2, entity.From(1, func(itemV1) twoCases { return twoCases{} })), entity.ReadableBy(1))),
		"fills a entity_test.oldCart, must fill a entity_test.cart":             cartMistake(withCart(entity.SnapshotV(2, entity.FromSnapshot(1, func(cartV1, *oldCart) {})))),
		"two steps from snapshots of version 1":                                 cartMistake(withCart(entity.SnapshotV(2, entity.FromSnapshot(1, func(cartV1, *cart) {}), entity.FromSnapshot(1, func(cartV1, *cart) {})))),
		"event name is empty":                                                   cartMistake(kind[item]("")),
		"event a has no reducer":                                                cartMistake(entity.Event[cart, item]("a", nil)),
		"is a pointer; declare and persist the value":                           cartMistake(kind[*item]("a")),
		"is an interface":                                                       cartMistake(kind[any]("a")),
		"a step for snapshots, from version 1; use entity.From":                 cartMistake(kind[item]("a", entity.V(2, entity.FromSnapshot(1, func(cartV1, *cart) {})))),
		"SnapshotV(0), must be 1 to 65535":                                      cartMistake(withCart(entity.SnapshotV(0))),
		"SnapshotV(1) has a step from version 2: use entity.FromSnapshot":       cartMistake(withCart(entity.SnapshotV(1, entity.FromSnapshot(2, func(cartV1, *cart) {})))),
		"SnapshotV(2) has a step from version 1: use entity.FromSnapshot, fr":   cartMistake(withCart(entity.SnapshotV(2, fromV1))),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestShapes: a shape changes when stored values can no longer be exchanged, and not
// otherwise.
func TestShapes(t *testing.T) {
	type inner struct{ A int }
	type list struct{ Next *list }
	shape := func(s sample) string { return instance.SchemaOf(carts(s.cart)).Events[0].Shape }
	for want, s := range map[string]sample{
		"{SKU:string}":                  sampleOf(itemV1{}),
		"{count:int64,item:string}":     sampleOf(item{}),
		"{At:time}":                     sampleOf(timedEvent{}),
		"{Open:int64}":                  sampleOf(hiddenEvent{}),
		"{Items:[string]}":              sampleOf(listEvent{}),
		"{To:?int64}":                   sampleOf(pointEvent{}),
		"{Kept:int64}":                  sampleOf(tagEvent{}),
		"{F:any}":                       sampleOf(faceEvent{}),
		"custom(entity_test.halfEvent)": sampleOf(halfEvent{}),
		"{Next:?^list}":                 sampleOf(list{}),
		"{B:bytes,M:map[string]{A:int64},Q:quoted int64}": sampleOf(struct {
			B []byte
			M map[string]inner
			Q int `json:",string"`
		}{}),
		"{A?:string,B?:?int64,C:time,D?:time}": sampleOf(struct {
			A string    `json:",omitempty"`
			B *int      `json:",omitempty"`
			C time.Time `json:",omitempty"` // it is never left out
			D time.Time `json:",omitzero"`
		}{}),
		"{Z:uint8,…{A:int64}}": sampleOf(struct {
			inner
			Z uint8
		}{}),
		"google.protobuf.Int64Value{1:int64}": sampleOf(wrapperspb.Int64(1)),
	} {
		if got := shape(s); got != want {
			t.Errorf("%T: %s, want %s", s.event, got, want)
		}
	}
	if a, b := shape(sampleOf(struct{ At time.Time }{})), shape(sampleOf(timedEvent{})); a != b {
		t.Errorf("the name of the Go type counts: %s, %s", a, b)
	}
}

// TestArrays: an array of another length is another form, and is not cut off or filled up.
func TestArrays(t *testing.T) {
	type four struct {
		Deltas [4]int
		Nested []struct{ Pair map[string][2]int }
	}
	type two struct {
		Deltas [2]int
	}
	def := carts(kind[four]("changed"))
	for payload, good := range map[string]bool{
		`{"Deltas":[1,2,3,4],"Nested":null}`: true, `{"Deltas":[1,2,3,4],"Nested":[{"Pair":{"a":[1,2]}}]}`: true,
		`{"Deltas":[1,2,3],"Nested":null}`: false, `{"Deltas":[1,2,3,4,5],"Nested":null}`: false, `{"Deltas":[],"Nested":null}`: false,
		`{"Deltas":[1,2,3,4],"Nested":[{"Pair":{"a":[1,2]}},{"Pair":{"a":[1]}}]}`: false,
	} {
		if _, err := replay(t, def, sharding.Event{Name: "changed", Version: 1, Payload: []byte(payload)}); (err == nil) != good {
			t.Errorf("%s: %v", payload, err)
		}
	}
	if a, b := instance.SchemaOf(def).Events[0].Shape, instance.SchemaOf(carts(kind[two]("changed"))).Events[0].Shape; a == b || !strings.Contains(a, "Deltas:[4 int64]") {
		t.Errorf("shapes %s and %s", a, b)
	}
}

// TestReadableBy: an older version may read a newer one that has all of its fields.
func TestReadableBy(t *testing.T) {
	type grownItem struct {
		SKU  string
		Gift bool
	}
	err := cartMistake(kind[grownItem]("a", entity.V(2, entity.From(1, func(old itemV1) grownItem { return grownItem{SKU: old.SKU} })), entity.ReadableBy(1)))
	if err != nil {
		t.Error(err)
	}
}

type (
	inner  struct{ A int32 }
	tagged struct {
		inner
		*Beside
		B     int64 `json:"b,string"`
		Lines []struct {
			SKU *string
			At  time.Time
		}
		Sums  map[string][2]float64
		Raw   []byte
		Again *tagged
		Any   any
		None  int `json:"-"`
	}
	Beside struct{ C bool }
)

// TestInputOfCommands: a schema has a line for each field that callers may send, and a
// description has the fingerprint of all of them.
func TestInputOfCommands(t *testing.T) {
	typ := func(on ...entity.Declaration[cart]) entity.Type[cart] {
		return entity.Define("Box", func(string) *cart { return &cart{} }, on...)
	}
	take := func(name string) entity.Declaration[cart] {
		return entity.On(entity.Command[tagged, int]("Box", name), func(*cart, *entity.Ctx, tagged) (int, error) { return 0, nil })
	}
	mail := entity.On(entity.Command[*descriptorpb.FileOptions, int]("Box", "Mail", entity.ReadOnly()), func(*cart, *entity.Ctx, *descriptorpb.FileOptions) (int, error) { return 0, nil })
	def := typ(take("Take"), mail, take("Again"))
	s := instance.SchemaOf(def)
	if len(s.Commands) != 3 || s.Commands[0].Name != "Again" || !s.Commands[1].ReadOnly || s.Commands[2].GoType != "tagged" {
		t.Fatalf("%+v", s.Commands)
	}
	want := []string{
		"input object", "input.A int32", "input.Again ^tagged", "input.Any any", "input.C bool",
		"input.Lines list", "input.Lines[] object", "input.Lines[].At time", "input.Lines[].SKU string",
		"input.Raw bytes", "input.Sums map by string", "input.Sums[] list of 2", "input.Sums[][] float64", "input.b quoted int64",
	}
	if got := s.Commands[2].Input; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, line := range []string{
		"input google.protobuf.FileOptions", "input.java_package(1) string", "input.uninterpreted_option(999) list",
		"input.uninterpreted_option(999)[] google.protobuf.UninterpretedOption", "input.uninterpreted_option(999)[].name(2)[].is_extension(2) bool",
	} {
		if !slices.Contains(s.Commands[1].Input, line) {
			t.Errorf("%q lacks %q", s.Commands[1].Input, line)
		}
	}
	d := instance.Describe(def)
	c := d.Desc.Commands
	if c[0].Input == 0 || c[0].Input != c[2].Input || c[1].Input == 0 || c[1].Input == c[0].Input {
		t.Errorf("fingerprints %+v", c)
	}
}
