package entity_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	oldrand "math/rand" // for package quick
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/archtest"
	"github.com/roost-cluster/roost/sdk/entity"
)

// The types that strict reading knows.
type (
	Price struct {
		Cents int
		Unit  string `json:",omitempty"`
	}
	Origin struct{ Farm, Region string }
	based  struct {
		Base   bool
		Hidden string
	}
	rich struct {
		based
		*Origin
		SKU    string `json:"sku"`
		Hidden int    // not the field of based
		Price  Price
		To     *Price
		Lines  []Price
		Pair   [2]int
		ByName map[string]Price
		ByNo   map[int8]bool
		Any    any
		Note   string `json:",omitempty"`
		Rest   []int  `json:",omitzero"`
		Quoted int    `json:",string"`
		Maybe  *bool  `json:",string"`
		None   int    `json:"-"`
	}
	own struct {
		At   time.Time
		From netip.Addr
		Sum  *big.Int
		Raw  json.RawMessage
		Data []byte
		Odd  odd
	}
	// odd may be stored as null.
	odd struct{ N int }
	// tree contains itself.
	tree struct {
		Name string
		Sub  []tree
		Up   *tree
	}
)

func (o odd) MarshalJSON() ([]byte, error) {
	if o.N%2 == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(o.N)
}

func (o *odd) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	return json.Unmarshal(b, &o.N)
}

// stored replays one event of a type.
func stored(t testing.TB, ev entity.Declaration[trace], payload string) (any, error) {
	t.Helper()
	i := instanceOf(t, entity.Define("Trace", func(string) *trace { return &trace{} }, noop[trace]("Trace"), ev))
	if err := i.Replay([]sharding.Event{{Name: "e", Version: 1, ReadableBy: 1, Payload: []byte(payload)}}); err != nil {
		return nil, err
	}
	return i.State().(*trace).Seen[0], nil
}

// richJSON is a rich event as it is stored, with some fields replaced; "": left out.
func richJSON(fields map[string]string) string {
	all := map[string]string{
		"Base": "true", "sku": `"tea"`, "Hidden": "5", "Price": `{"Cents":450}`, "To": "null", "Lines": `[{"Cents":1,"Unit":"kg"}]`,
		"Pair": "[1,2]", "ByName": `{"a":{"Cents":1},"b":{"Cents":2}}`, "ByNo": `{"-1":true,"0":false,"10":true}`, "Any": `{"x":[{"y":1}]}`,
		"Quoted": `"7"`, "Maybe": "null",
	}
	maps.Copy(all, fields)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != "" {
			parts = append(parts, fmt.Sprintf("%q: %s", name, all[name]))
		}
	}
	return "{" + strings.Join(parts, " ,\n") + "}"
}

// TestStrictShapes: stored data is read if this program could have stored it, and nothing else
// is: neither a missing field nor null is taken for zero.
func TestStrictShapes(t *testing.T) {
	if why := shapes(t); why != "" {
		t.Error(why)
	}
}

func shapes(t *testing.T) string {
	as := seen[rich]("e")
	set := func(name, value string) map[string]string { return map[string]string{name: value} }
	for _, fields := range []map[string]string{
		nil, set("To", `{"Cents":1}`), set("Lines", "null"), set("Lines", "[]"), set("ByName", "null"), set("Any", "null"), set("Any", `[null,{"a":null}]`),
		set("Note", `"x"`), set("Rest", "[]"), set("Maybe", `"true"`), {"Farm": `"f"`, "Region": `"r"`}, set("sku", `"<\u003c\ud83d\ude00\""`),
		set("ByName", `{"b":{"Cents":1},"a":{"Cents":2}}`), set("Any", `{"\u0062":1,"a":2}`),
	} {
		if _, err := stored(t, as, richJSON(fields)); err != nil {
			return fmt.Sprintf("%v: %v", fields, err)
		}
	}
	for _, c := range []struct {
		fields map[string]string
		want   string
	}{
		{set("sku", ""), `without the field "sku"`},
		{set("Price", "{}"), `without the field "Price.Cents"`},
		{set("Lines", `[{"Cents":1},{}]`), `without the field "Lines[].Cents"`},
		{set("ByName", `{"a":{}}`), `without the field "ByName[].Cents"`},
		{set("To", "{}"), `without the field "To.Cents"`},
		{set("Base", ""), `without the field "Base"`},
		{set("Farm", `"f"`), `without the field "Region"`}, // of Origin: all or none
		{set("Quoted", ""), `without the field "Quoted"`},
		{set("Maybe", ""), `without the field "Maybe"`},
		{set("sku", "null"), `field "sku" was stored as null`},
		{set("Price", "null"), `field "Price" was stored as null`},
		{set("Price", `{"Cents":null}`), `field "Price.Cents" was stored as null`},
		{set("Lines", "[null]"), `field "Lines[]" was stored as null`},
		{set("Pair", "null"), `field "Pair" was stored as null`},
		{set("Pair", "[1,null]"), `field "Pair[]" was stored as null`},
		{set("ByNo", `{"1":null}`), `field "ByNo[]" was stored as null`},
		{set("Quoted", "null"), `field "Quoted" was stored as null`},
		{set("Quoted", `"null"`), `field "Quoted" was stored as null`},
		{set("Maybe", `"null"`), `field "Maybe" was stored as null`},
		{set("Note", "null"), `field "Note" was stored as null`},
		{set("Pair", "[1]"), `field "Pair" was stored as an array with 1 elements`},
		{map[string]string{"sku": "", "SKU": `"tea"`}, `with a field "SKU", and this program has "sku"`},
		{set("Price", `{"cents":1}`), `with a field "Price.cents", and this program has "Cents"`},
		{set("SKU", `"tea"`), `with a field "SKU"`},
		{set("None", "1"), `with a field "None" that this program does not know`},
		{set("Price", `{"Cents":1,"Cents":2}`), `field "Price.Cents" is there twice: no version of the program has stored this`},
		{set("Price", `{"Cents":1,"C\u0065nts":2}`), `field "Price.Cents" is there twice`},
		{set("ByName", `{"a":{"Cents":1},"a":{"Cents":2}}`), `field "ByName" has the key "a" twice`},
		{set("ByName", `{"b":{"Cents":1},"a":{"Cents":2},"b":{"Cents":3}}`), `field "ByName" has the key "b" twice`},
		{set("ByNo", `{"1":true,"01":false}`), `field "ByNo" has the key "01"`},
		{set("ByNo", `{"-0":true}`), `field "ByNo" has the key "-0"`},
		{set("Any", `[{"a":1,"b":{"x":1,"x":1}}]`), `field "Any[][]" has the key "x" twice`},
		{set("sku", `"\ud800"`), "half of a surrogate pair"},
		{set("sku", `"\ud800\u0041"`), "half of a surrogate pair"},
		{set("sku", `"\udc00"`), "half of a surrogate pair"},
	} {
		_, err := stored(t, as, richJSON(c.fields))
		if !errors.Is(err, instance.ErrStored) || !strings.Contains(err.Error(), c.want) {
			return fmt.Sprintf("%v: %v, want %s", c.fields, err, c.want)
		}
	}
	for _, payload := range []string{"null", "{}", " ", "[]", "5"} {
		if _, err := stored(t, as, payload); !errors.Is(err, instance.ErrStored) {
			return fmt.Sprintf("%q is read: %v", payload, err)
		}
	}
	return ""
}

// TestStrictOwnForms: types that encode themselves decide about the stored data. For types of the
// standard library, only the places of null are known.
func TestStrictOwnForms(t *testing.T) {
	good := `{"At":"2026-01-02T03:04:05Z","From":"10.0.0.1","Sum":null,"Raw":null,"Data":null,"Odd":null}`
	as := seen[own]("e")
	for _, payload := range []string{good, strings.Replace(good, `"Sum":null`, `"Sum":5`, 1), strings.Replace(good, `"Raw":null`, `"Raw":{"a":1,"a":"\ud800"}`, 1),
		strings.Replace(good, `"Data":null`, `"Data":"YQ=="`, 1), strings.Replace(good, `"10.0.0.1"`, `""`, 1)} {
		if _, err := stored(t, as, payload); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	}
	for _, payload := range []string{strings.Replace(good, `"2026-01-02T03:04:05Z"`, "null", 1), strings.Replace(good, `"10.0.0.1"`, "null", 1),
		strings.Replace(good, `"Data":null`, `"Data":[97]`, 1), strings.Replace(good, `,"Odd":null`, "", 1)} {
		if _, err := stored(t, as, payload); !errors.Is(err, instance.ErrStored) {
			t.Errorf("%s: %v", payload, err)
		}
	}
	if _, err := stored(t, seen[halfEvent]("e"), `{"M":1}`); !errors.Is(err, instance.ErrStored) || !strings.Contains(err.Error(), `field "M" that this program does not know`) {
		t.Errorf("a type that only encodes itself: %v", err)
	}
	for payload, good := range map[string]bool{
		`{"Name":"a","Sub":[{"Name":"b","Sub":null,"Up":null}],"Up":null}`: true, `{"Name":"a","Sub":[{"Name":"b","Sub":null}],"Up":null}`: false,
	} {
		if _, err := stored(t, seen[tree]("e"), payload); (err == nil) != good {
			t.Errorf("%s: %v", payload, err)
		}
	}
	for payload, good := range map[string]bool{`{"A":1}`: true, `{"A":1,"a":2}`: true, `{"a":2}`: false} {
		if _, err := stored(t, seen[twinEvent]("e"), payload); (err == nil) != good {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

// TestStrictReadableBy: an older reader ignores the fields that it does not know, also in
// what a field holds, and demands its own. A name that package json would take for one of
// its own is not such a field.
func TestStrictReadableBy(t *testing.T) {
	for payload, want := range map[string]string{
		`{"item":"tea","count":2,"gift":true,"from":{"a":1,"a":2}}`: "",
		`{"item":"tea","gift":true}`:                                `without the field "count"`,
		`{"item":"tea","count":null}`:                               `field "count" was stored as null`,
		`{"item":"tea","count":2,"COUNT":9}`:                        `with a field "COUNT"`,
		`{"item":"tea","count":2,"count":9}`:                        `field "count" is there twice`,
	} {
		i, err := replay(t, carts(kind[item]("item-added")), sharding.Event{Name: "item-added", Version: 2, ReadableBy: 1, Payload: []byte(payload)})
		if want == "" && (err != nil || i.State().(*cart).Items["tea"] != 2) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", payload, err, want)
		}
	}
}

// TestOwnFormIsRead: what this program stores it reads, whatever the values.
func TestOwnFormIsRead(t *testing.T) {
	seed := rand.Uint64()
	rng := oldrand.New(oldrand.NewSource(int64(seed)))
	type Inner struct {
		A int64
		B map[string][]uint8
		C []map[uint16]*string
		D [2]struct{ F, G float32 }
	}
	type deep struct {
		Inner
		*Origin
		N  string `json:"n,omitempty"`
		Z  int64  `json:",omitzero,string"`
		Q  *int   `json:",string"`
		P  **Inner
		Ts map[int64]struct{ X *bool }
	}
	for _, s := range []sample{sampleOf(Inner{}), sampleOf(deep{}), sampleOf(tree{}), sampleOf(item{}),
		sampleOf(plainEvent{}), sampleOf(pointEvent{}), sampleOf(twinEvent{}), sampleOf(listEvent{})} {
		of := reflect.TypeOf(s.event)
		def := entity.Define("Trace", func(string) *trace { return &trace{} }, noop[trace]("Trace"), s.trace)
		for range 300 {
			v, ok := quick.Value(of, rng)
			if !ok {
				t.Fatalf("no value of %s", of)
			}
			i := instanceOf(t, def)
			events, err := i.Encode(v.Interface())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			want := reflect.New(of)
			if err := json.Unmarshal(events[0].Payload, want.Interface()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := i.Replay(events); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, events[0].Payload, err)
			}
			if got := i.State().(*trace).Seen[0]; !reflect.DeepEqual(got, want.Elem().Interface()) {
				t.Fatalf("seed %d: %s is read as %+v", seed, events[0].Payload, got)
			}
		}
	}
	for _, s := range []sample{sampleOf(rich{}), sampleOf(rich{Any: plainEvent{}, Origin: &Origin{}, Note: "n"}), sampleOf(own{}), sampleOf(own{Odd: odd{3}, Raw: json.RawMessage("[1 ]"), Sum: big.NewInt(5)}),
		sampleOf(odd{}), sampleOf(faceEvent{}), sampleOf(grades{{1, 2}, {}, nil})} {
		if err := persist(s); err != nil {
			t.Errorf("%+v: %v", s.event, err)
		}
	}
}

// grades are stored in base64: package json asks only whether elements encode themselves.
type grades [][]grade

type grade uint8

func (g *grade) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 10, 8)
	*g = grade(n)
	return err
}

// park has a type that contains itself, and is not a struct.
type (
	park   struct{ Paths forest }
	forest map[string]forest
)

// TestSnapshotOfNestedTypes: stored data of a type that contains itself is found.
func TestSnapshotOfNestedTypes(t *testing.T) {
	def := entity.Define("Park", func(string) *park { return &park{} }, noop[park]("Park"), entity.With[park](entity.SnapshotEvery(1)))
	i := instanceOf(t, def)
	i.State().(*park).Paths = forest{"a": {"b": nil}}
	form, b, err := i.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	again := instanceOf(t, def)
	if err := again.Restore(form, b); err != nil || !reflect.DeepEqual(again.State(), i.State()) {
		t.Errorf("%s is read as %+v, %v", b, again.State(), err)
	}
}

// larder is an entity whose create sets what a snapshot may say nothing of.
type larder struct {
	ID    string `json:"-"`
	Goods map[string]int
	Limit int `json:",omitempty"`
	Shelf struct{ Labels []string }
	Since time.Time
	Till  time.Time `json:",omitzero"`
	Lock  lock
}

// lock encodes itself, and has something that is not stored.
type lock struct {
	key string
	on  bool
}

func (l lock) MarshalJSON() ([]byte, error)  { return json.Marshal(l.on) }
func (l *lock) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &l.on) }

// TestSnapshotReplacesTheState: of the fields that create sets, only the unstored ones stay.
func TestSnapshotReplacesTheState(t *testing.T) {
	def := entity.Define("Larder", func(id string) *larder {
		l := &larder{ID: id, Goods: map[string]int{"salt": 1}, Limit: 5, Since: time.Unix(1, 0), Till: time.Unix(2, 0), Lock: lock{key: "k", on: true}}
		l.Shelf.Labels = []string{"a", "b"}
		return l
	}, noop[larder]("Larder"))
	i := instanceOf(t, def)
	l := i.State().(*larder)
	l.Goods, l.Limit, l.Since, l.Till, l.Lock.on, l.Shelf.Labels = map[string]int{"tea": 1}, 0, time.Time{}, time.Time{}, false, nil
	form, b, err := i.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	again := instanceOf(t, def)
	if err := again.Restore(form, b); err != nil || !reflect.DeepEqual(again.State(), l) {
		t.Errorf("%s is restored as %+v, %v", b, again.State(), err)
	}
	// Keys that are equal once they are stored would be one.
	l.Goods = map[string]int{"\xff": 1, "\xfe": 2}
	if _, _, err := i.Snapshot(); !errors.Is(err, instance.ErrLossySnapshot) {
		t.Errorf("a snapshot that cannot be read back: %v", err)
	}
}

// FuzzStrictShape: a value that is read equals the value that this program stores for it.
func FuzzStrictShape(f *testing.F) {
	f.Add([]byte(richJSON(nil)))
	f.Add([]byte(richJSON(map[string]string{"To": `{"Cents":1}`, "Farm": `"f"`, "Region": `"r"`, "Any": `{"a":1,"b":[null,{"c":"\ud800"}]}`})))
	f.Add([]byte(richJSON(map[string]string{"sku": "null", "Quoted": `"null"`, "ByNo": `{"01":true}`})))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var v any
		var err error
		archtest.Memory(t, strictMemory, len(payload), func() { v, err = stored(t, seen[rich]("e"), string(payload)) })
		if err != nil {
			if !errors.Is(err, instance.ErrStored) {
				t.Errorf("%q: %v", payload, err)
			}
			return
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if was, is := said(t, payload), said(t, b); !reflect.DeepEqual(was, is) {
			t.Errorf("%q is read as %q", payload, b)
		}
	})
}

// strictMemory is more than archtest.MemoryFactor: a list of {} is a list of values of any
// size, which is the type's choice, and an any holds a map for each {}.
const strictMemory = 64

// said is the content of JSON, without empty fields that may be left out.
func said(t *testing.T, b []byte) any {
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	prices := []any{v["Price"], v["To"]}
	for _, p := range []any{v["Lines"], v["ByName"]} {
		switch p := p.(type) {
		case []any:
			prices = append(prices, p...)
		case map[string]any:
			prices = slices.AppendSeq(prices, maps.Values(p))
		}
	}
	for _, p := range prices {
		if p, ok := p.(map[string]any); ok && p["Unit"] == "" {
			delete(p, "Unit")
		}
	}
	if v["Note"] == "" {
		delete(v, "Note")
	}
	if v["Rest"] == nil {
		delete(v, "Rest")
	}
	return v
}

// BenchmarkReplay measures how fast stored events are read.
func BenchmarkReplay(b *testing.B) {
	type line struct {
		SKU   string `json:"sku"`
		Count int    `json:"count"`
		Price float64
	}
	type order struct {
		ID    string
		At    time.Time
		Lines []line
		Notes map[string]string
	}
	var lines []line
	for i := range 20 {
		lines = append(lines, line{fmt.Sprint("sku-", i), i, 4.5})
	}
	for _, s := range []sample{sampleOf(item{"tea", 3}), sampleOf(plainEvent{N: 5, Text: "a text"}), sampleOf(order{"o1", time.Now(), lines, map[string]string{"gift": "yes", "to": "anna"}})} {
		b.Run(fmt.Sprintf("%T", s.event), func(b *testing.B) {
			def := entity.Define("Box", func(string) *sink { return &sink{} }, noop[sink]("Box"), s.sink)
			i := instanceOf(b, def)
			stored, err := i.Encode(s.event)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(stored[0].Payload)))
			b.ReportAllocs()
			for b.Loop() {
				if err := i.Replay(stored[:1:1]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
