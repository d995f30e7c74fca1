package passivation

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// vectorArea is the replacement of an area in a vector.
type vectorArea struct {
	Policy       string
	Proportions  []float64
	DynamicAging bool `json:"dynamic_aging"`
}

// vectorConfig is the configuration of a policy in a vector.
type vectorConfig struct {
	Strategy     string
	Proportions  []float64
	DynamicAging bool `json:"dynamic_aging"`
	Limit        int
	IdleTimeout  int64 `json:"idle_timeout_ms"`
	Window       *struct {
		vectorArea
		Proportion   *float64
		Minimum      *float64      `json:"minimum_proportion"`
		Maximum      *float64      `json:"maximum_proportion"`
		HillClimbing *vectorClimbs `json:"hill_climbing"`
	}
	Filter          string
	ResetMultiplier *float64 `json:"reset_multiplier"`
	Main            vectorArea
}

type vectorClimbs struct {
	AdjustMultiplier float64 `json:"adjust_multiplier"`
	InitialStep      float64 `json:"initial_step"`
	RestartThreshold float64 `json:"restart_threshold"`
	StepDecay        float64 `json:"step_decay"`
}

// replacement returns the replacement of that name in the vectors.
func (a vectorArea) replacement(t *testing.T) Replacement {
	switch a.Policy {
	case "":
		return Replacement{}
	case "lru":
		return Replacement{Order: LeastRecentlyUsed, Proportions: a.Proportions}
	case "slru":
		if a.Proportions == nil {
			t.Fatal("a segmented LRU needs proportions")
		}
		return Replacement{Order: LeastRecentlyUsed, Proportions: a.Proportions}
	case "mru":
		return Replacement{Order: MostRecentlyUsed}
	case "lfu":
		return Replacement{Order: LeastFrequentlyUsed, DynamicAging: a.DynamicAging}
	case "lfu_dynamic_aging":
		return Replacement{Order: LeastFrequentlyUsed, DynamicAging: true}
	}
	t.Fatalf("there is no policy %q", a.Policy)
	return Replacement{}
}

// strategy returns the strategy with a limit for the region.
func (c *vectorConfig) strategy(t *testing.T, limit int) Strategy {
	idle := time.Duration(c.IdleTimeout) * time.Millisecond
	s := Strategy{Idle: idle, Limit: limit}
	switch c.Strategy {
	case "none", "idle":
	case "default-strategy":
		s = Composite(limit).OrIdle(idle)
	case "composite":
		s.Main = c.Main.replacement(t)
		s.Admission = &Admission{MaxProportion: 1}
		if w := c.Window; w != nil {
			a := s.Admission
			a.Window = w.replacement(t)
			a.Proportion, a.MinProportion = 0.01, 0.01
			if w.Proportion != nil {
				a.Proportion, a.MinProportion = *w.Proportion, min(*w.Proportion, 0.01)
			}
			if w.Minimum != nil {
				a.MinProportion = *w.Minimum
			}
			if w.Maximum != nil {
				a.MaxProportion = *w.Maximum
			}
			if w.HillClimbing != nil {
				a.Optimizer = new(HillClimbing(*w.HillClimbing))
			}
		}
		if c.Filter == "frequency-sketch" {
			s.Admission.Filter = new(DefaultFilter())
			if c.ResetMultiplier != nil {
				s.Admission.Filter.ResetMultiplier = *c.ResetMultiplier
			}
		} else if c.Filter != "" && c.Filter != "none" {
			t.Fatalf("there is no filter %q", c.Filter)
		}
	default:
		s.Main = vectorArea{Policy: c.Strategy, Proportions: c.Proportions, DynamicAging: c.DynamicAging}.replacement(t)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if parsed, err := Parse(s.String()); err != nil || parsed.String() != s.String() {
		t.Fatalf("%s is read as %s: %v", s, parsed, err)
	}
	return s
}

// region is one policy, with entities that have names.
type region struct {
	policy  *Policy
	numbers map[string]Entity
	names   []string       // by number
	active  map[string]int // the shards of active entities
	shards  map[int]bool
	now     time.Time
}

func newRegion(s Strategy, shards int) *region {
	return &region{
		policy: New(s, shards, &EntityTable{}), numbers: map[string]Entity{}, names: []string{""},
		active: map[string]int{}, shards: map[int]bool{}, now: start,
	}
}

func (r *region) number(name string) Entity {
	e, ok := r.numbers[name]
	if !ok {
		e = Entity(len(r.names))
		r.numbers[name], r.names = e, append(r.names, name)
	}
	return e
}

// touch opens the shard if it is new, and returns who is passivated.
func (r *region) touch(shard int, name string) []string {
	var out []Entity
	if !r.shards[shard] {
		r.shards[shard] = true
		out = r.policy.Open(shard, out)
	}
	r.active[name] = shard
	out = r.policy.Touched(shard, r.number(name), javaHash(name), out)
	r.policy.MarkIdle(r.number(name), r.now, nil)
	return r.gone(out)
}

func (r *region) gone(entities []Entity) (names []string) {
	for _, e := range entities {
		delete(r.active, r.names[e])
		names = append(names, r.names[e])
	}
	return names
}

// javaHash is the hash of java.lang.String.
func javaHash(s string) uint32 {
	var h uint32
	for _, c := range utf16.Encode([]rune(s)) {
		h = 31*h + uint32(c)
	}
	return h
}

func TestVectors(t *testing.T) {
	kinds := map[string]func(*testing.T, archtest.Vector){
		"lru": playRegion, "slru": playRegion, "mru": playRegion, "lfu": playRegion, "lfu_dynamic_aging": playRegion, "composite": playRegion,
		"idle": playIdle, "disabled": playDisabled,
		"recency_list": playRecencyList, "segmented_recency_list": playSegments, "frequency_list": playFrequencyList,
		"frequency_sketch": playSketch, "fast_sketch_index": playIndex, "hill_climbing": playClimber,
	}
	seen := map[string]bool{}
	for _, c := range archtest.Vectors(t, "passivation.json") {
		seen[c.Kind] = true
		t.Run(c.Name, func(t *testing.T) {
			play := kinds[c.Kind]
			if play == nil {
				t.Fatalf("unknown kind %q", c.Kind)
			}
			play(t, c)
		})
	}
	for kind := range kinds { // order-free: errors
		if !seen[kind] {
			t.Errorf("no vector has the kind %s", kind)
		}
	}
}

// op is one operation: its name, and its arguments as they are written.
type op []json.RawMessage

func (o op) arg(t *testing.T, i int, into any) {
	t.Helper()
	if i >= len(o) {
		t.Fatalf("%s has no argument %d", o, i)
	}
	if err := json.Unmarshal(o[i], into); err != nil {
		t.Fatalf("%s: %v", o[i], err)
	}
}

func (o op) name(t *testing.T) (s string) { o.arg(t, 0, &s); return s }

func (o op) String() string { b, _ := json.Marshal([]json.RawMessage(o)); return string(b) }

// playRegion plays the cases with one region and several shards.
func playRegion(t *testing.T, c archtest.Vector) {
	var v struct {
		Config vectorConfig
		Limit  int `json:"active_entity_limit"`
		Ops    []op
	}
	c.Decode(t, &v)
	if c.Kind == "lfu_dynamic_aging" {
		v.Config.DynamicAging = true
	}
	r := newRegion(v.Config.strategy(t, v.Limit), 100)
	for i, o := range v.Ops {
		var got, want []string
		switch name := o.name(t); name {
		case "touch", "manual_passivate":
			var shard int
			var entity json.Number
			o.arg(t, 1, &shard)
			o.arg(t, 2, &entity)
			if name == "touch" {
				got = r.touch(shard, entity.String())
				want = names(t, o, 3)
			} else {
				delete(r.active, entity.String())
				r.policy.Removed(r.number(entity.String()))
			}
		case "set_region_limit":
			var n int
			o.arg(t, 1, &n)
			got = r.gone(r.policy.SetLimit(n, nil))
			want = names(t, o, 2)
		case "state":
			var shards map[string][]json.Number
			o.arg(t, 1, &shards)
			for shard, entities := range shards { // order-free: sorted below
				for _, e := range entities {
					want = append(want, shard+"/"+e.String())
				}
			}
			for e, shard := range r.active { // order-free: sorted below
				got = append(got, strconv.Itoa(shard)+"/"+e)
			}
		default:
			t.Fatalf("unknown operation %s", o)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("op %d %s: got %v, want %v", i, o, got, want)
		}
		r.policy.check(t)
	}
}

// names returns an optional list of entities.
func names(t *testing.T, o op, i int) (list []string) {
	if i < len(o) {
		var entities []json.Number
		o.arg(t, i, &entities)
		for _, e := range entities {
			list = append(list, e.String())
		}
	}
	return list
}

// playIdle touches as the case says, and passivates whenever the policy wants to.
func playIdle(t *testing.T, c archtest.Vector) {
	var v struct {
		Config vectorConfig
		Ops    []op
		Expect struct {
			NoEarlier map[string]int64 `json:"passivated_no_earlier_than_ms"`
		}
	}
	c.Decode(t, &v)
	r := newRegion(v.Config.strategy(t, v.Config.Limit), 1)
	r.policy.Open(0, nil)
	r.shards[0] = true
	at := map[string]int64{}
	idle := func(until time.Time) {
		for {
			next := r.policy.NextExpiry()
			if next.IsZero() || next.After(until) {
				return
			}
			if early := r.policy.TakeExpired(next.Add(-1), nil); len(early) > 0 {
				t.Fatalf("%v before NextExpiry", r.gone(early))
			}
			list := r.policy.TakeExpired(next, nil)
			if len(list) == 0 {
				t.Fatalf("NextExpiry is %s, but then nothing is idle", next)
			}
			for _, name := range r.gone(list) {
				at[name] = next.Sub(start).Milliseconds()
			}
		}
	}
	for _, o := range v.Ops {
		var ms int64
		var entity json.Number
		o.arg(t, 1, &ms)
		o.arg(t, 3, &entity)
		r.now = start.Add(time.Duration(ms) * time.Millisecond)
		idle(r.now.Add(-1))
		if got := r.touch(0, entity.String()); got != nil {
			t.Fatalf("%s passivates %v", o, got)
		}
	}
	idle(start.Add(time.Hour))
	if !maps.Equal(at, v.Expect.NoEarlier) {
		t.Errorf("passivated at %v ms, want %v", at, v.Expect.NoEarlier)
	}
}

func playDisabled(t *testing.T, c archtest.Vector) {
	var v struct{ Config vectorConfig }
	c.Decode(t, &v)
	r := newRegion(v.Config.strategy(t, 0), 10)
	for i := range 1000 {
		if got := r.touch(i%10, strconv.Itoa(i)); got != nil {
			t.Fatalf("%v passivated", got)
		}
	}
	if next := r.policy.NextExpiry(); !next.IsZero() || r.policy.TakeExpired(start.Add(1e6*time.Hour), nil) != nil || r.policy.SetLimit(1, nil) != nil {
		t.Errorf("there is something to passivate, at %s", next)
	}
}

// elements are the elements of a list, by name.
type elements struct{ region }

func newElements() *elements { return &elements{*newRegion(None(), 1)} }

func (e *elements) strings(numbers ...uint32) []string {
	list := []string{}
	for _, n := range numbers {
		list = append(list, e.names[n])
	}
	return list
}

func (s links) all(l *list) (numbers []uint32) {
	for i := l.front; i != 0; i = s[i].next {
		numbers = append(numbers, i)
	}
	return numbers
}

// playRecencyList plays the list that keeps the order of touches.
func playRecencyList(t *testing.T, c archtest.Vector) {
	var v struct{ Ops []op }
	c.Decode(t, &v)
	el := newElements()
	var used list
	s := make(links, 1)
	var now int
	touched := map[uint32]int{}
	remove := func(candidates []uint32, skip, n int) (gone []uint32) {
		for _, i := range candidates[min(skip, len(candidates)):] {
			if len(gone) < n {
				s.remove(&used, i)
				delete(touched, i)
				gone = append(gone, i)
			}
		}
		return gone
	}
	backwards := func() []uint32 { all := s.all(&used); slices.Reverse(all); return all }
	for i, o := range v.Ops {
		var got, want []string
		name := o.name(t)
		if name == "at" {
			o.arg(t, 1, &now)
			o = o[2:]
			name = o.name(t)
		}
		number := func(at int) (n int) { o.arg(t, at, &n); return n }
		switch name {
		case "update", "remove":
			var list []string
			o.arg(t, 1, &list)
			for _, x := range list {
				e := uint32(el.number(x))
				s = append(s, make(links, max(0, int(e)+1-len(s)))...)
				_, isIn := touched[e]
				switch {
				case name == "remove":
					s.remove(&used, e)
					delete(touched, e)
					continue
				case isIn:
					s.moveToBack(&used, e)
				default:
					s.pushBack(&used, e)
				}
				touched[e] = now
			}
			continue
		case "least_to_most_recent":
			o.arg(t, 1, &want)
			got = el.strings(s.all(&used)...)
		case "remove_least_recent":
			got = el.strings(remove(s.all(&used), 0, number(1))...)
			o.arg(t, 2, &want)
		case "remove_most_recent":
			got = el.strings(remove(backwards(), 0, number(1))...)
			o.arg(t, 2, &want)
		case "remove_least_recent_skip":
			got = el.strings(remove(s.all(&used), number(2), number(1))...)
			o.arg(t, 3, &want)
		case "remove_most_recent_skip":
			got = el.strings(remove(backwards(), number(2), number(1))...)
			o.arg(t, 3, &want)
		case "remove_least_recent_outside_s":
			old := slices.DeleteFunc(s.all(&used), func(e uint32) bool { return touched[e] >= now-number(1) })
			got = el.strings(remove(old, 0, len(old))...)
			o.arg(t, 2, &want)
		case "remove_most_recent_within_s":
			young := slices.DeleteFunc(backwards(), func(e uint32) bool { return touched[e] <= now-number(1) })
			got = el.strings(remove(young, 0, len(young))...)
			o.arg(t, 2, &want)
		default:
			t.Fatalf("unknown operation %s", o)
		}
		if !slices.Equal(got, want) || used.size != len(touched) {
			t.Fatalf("op %d %s: got %v of %d, want %v", i, o, got, used.size, want)
		}
	}
}

func playSegments(t *testing.T, c archtest.Vector) {
	var v struct {
		Limits []int
		Ops    []op
	}
	c.Decode(t, &v)
	el := newElements()
	entities := &EntityTable{}
	r := newRecency(entities, make([]float64, len(v.Limits)))
	limits := func(list []int) {
		r.limit = 0
		for i, n := range list {
			r.segments[i].limit = n
			r.limit += n
		}
	}
	limits(v.Limits)
	for i, o := range v.Ops {
		switch o.name(t) {
		case "update":
			var list []string
			o.arg(t, 1, &list)
			// The case separates the touch from the eviction, which touch does at once.
			limit := r.limit
			r.limit = math.MaxInt
			for _, x := range list {
				entities.grow(el.number(x))
				r.touch(el.number(x), nil)
			}
			r.limit = limit
		case "update_limits":
			var list []int
			o.arg(t, 1, &list)
			limits(list)
		case "remove_over_limit":
			var want []string
			o.arg(t, 1, &want)
			if got := el.gone(r.evict(nil)); !slices.Equal(got, want) {
				t.Fatalf("op %d %s: got %v", i, o, got)
			}
		case "segments":
			var want [][]string
			o.arg(t, 1, &want)
			for j := range r.segments {
				if got := el.strings(entities.order.all(&r.segments[j].list)...); !slices.Equal(got, want[j]) {
					t.Fatalf("op %d %s: segment %d is %v", i, o, j, got)
				}
			}
		default:
			t.Fatalf("unknown operation %s", o)
		}
	}
}

func playFrequencyList(t *testing.T, c archtest.Vector) {
	var v struct {
		DynamicAging bool `json:"dynamic_aging"`
		Ops          []op
	}
	c.Decode(t, &v)
	el := newElements()
	entities := &EntityTable{}
	f := newFrequency(entities, v.DynamicAging)
	f.limit = math.MaxInt
	all := func() (list []uint32) {
		for _, b := range f.links.all(&f.byKey) {
			list = append(list, entities.order.all(&f.buckets[b].list)...)
		}
		return list
	}
	update := func(x string) {
		entities.grow(el.number(x))
		f.touch(el.number(x), nil)
	}
	// walk removes entities in an order, except one: what the vectors ask of the list, and
	// no policy does.
	walk := func(list []uint32, n int, skip string) (gone []string) {
		for _, e := range list {
			if x := el.names[e]; x != skip && len(gone) < n {
				f.remove(Entity(e))
				gone = append(gone, x)
			}
		}
		return gone
	}
	for i, o := range v.Ops {
		var got, want, list []string
		var n int
		var skip string
		switch name := o.name(t); name {
		case "update":
			o.arg(t, 1, &list)
			for _, x := range list {
				update(x)
			}
		case "update_repeat":
			o.arg(t, 1, &n)
			o.arg(t, 2, &list)
			for range n {
				for _, x := range list {
					update(x)
				}
			}
		case "remove":
			o.arg(t, 1, &list)
			for _, x := range list {
				f.remove(el.number(x))
			}
		case "least_to_most_frequent":
			o.arg(t, 1, &want)
			got = el.strings(all()...)
		case "age":
			var age uint64
			if o.arg(t, 1, &age); f.age != age {
				t.Fatalf("op %d %s: the age is %d", i, o, f.age)
			}
		case "remove_least_frequent":
			o.arg(t, 1, &n)
			o.arg(t, 2, &want)
			got = el.gone(f.setLimit(f.len()-n, nil))
			f.limit = math.MaxInt
		case "remove_most_frequent":
			o.arg(t, 1, &n)
			o.arg(t, 2, &want)
			most := all()
			slices.Reverse(most)
			got = walk(most, n, "")
		case "remove_least_frequent_skip", "remove_most_frequent_skip":
			o.arg(t, 1, &n)
			o.arg(t, 2, &skip)
			o.arg(t, 3, &want)
			order := all()
			if name == "remove_most_frequent_skip" {
				slices.Reverse(order)
			}
			got = walk(order, n, skip)
		default:
			t.Fatalf("unknown operation %s", o)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("op %d %s: got %v, want %v", i, o, got, want)
		}
		if n := len(all()); n != f.len() {
			t.Fatalf("op %d %s: the list has %d, and counts %d", i, o, n, f.len())
		}
	}
}

func playIndex(t *testing.T, c archtest.Vector) {
	var v struct {
		Value    string
		JavaHash int32 `json:"java_hash"`
		Width    int
		Rows     []uint32
	}
	c.Decode(t, &v)
	if got := javaHash(v.Value); got != uint32(v.JavaHash) {
		t.Fatalf("the hash of %q is %d", v.Value, got)
	}
	s := newSketch(DefaultFilter(), v.Width/4)
	for row, want := range v.Rows {
		if got := s.index(row, scramble(uint32(v.JavaHash))); got != want {
			t.Errorf("row %d: index %d, want %d", row, got, want)
		}
	}
}

func playClimber(t *testing.T, c archtest.Vector) {
	var v struct {
		Params struct {
			vectorClimbs
			Limit int
		}
		Windows []struct {
			Active, Passive int
			Adjustment      float64
		}
	}
	c.Decode(t, &v)
	h := newClimber(HillClimbing(v.Params.vectorClimbs))
	h.setLimit(v.Params.Limit)
	for i, w := range v.Windows {
		var got float64
		for n := range w.Active + w.Passive {
			if got != 0 {
				t.Fatalf("window %d: a step after %d touches", i, n)
			}
			got = h.touched(n < w.Active)
		}
		if math.Abs(got-w.Adjustment) > 1e-12 {
			t.Fatalf("window %d: %v, want %v", i, got, w.Adjustment)
		}
	}
}

// playSketch plays the cases of the sketch. They are sentences, some with numbers in them.
func playSketch(t *testing.T, c archtest.Vector) {
	var v struct {
		Capacity        int
		CounterBits     int      `json:"counter_bits"`
		ResetMultiplier *float64 `json:"reset_multiplier"`
		Depth           int
		Ops             []op
	}
	c.Decode(t, &v)
	f := DefaultFilter()
	if v.CounterBits > 0 {
		f.CounterBits = v.CounterBits
	}
	if v.Depth > 0 {
		f.Depth = v.Depth
	}
	if v.ResetMultiplier != nil {
		f.ResetMultiplier = *v.ResetMultiplier
	}
	s := Composite(v.Capacity)
	s.Admission.Filter = &f
	if err := s.Validate(); err != nil {
		if name := v.Ops[0].name(t); name != "error" || !strings.Contains(err.Error(), "limit is "+strconv.Itoa(v.Capacity)) {
			t.Fatal(err)
		}
		return
	}
	k := newSketch(f, v.Capacity)
	before := map[int]uint64{}
	for i, o := range v.Ops {
		if err := sketchOp(t, k, o, before); err != nil {
			t.Fatalf("op %d %s: %v", i, o, err)
		}
	}
}

var (
	rangeOf = regexp.MustCompile(`(\d+)\.\.(\d+)`)
	leading = regexp.MustCompile(`^\d+`)
	atMost  = regexp.MustCompile(`at most (\d+)`)
	zipfian = regexp.MustCompile(`^(\d+) ids, (\d+) draws`)
)

// sketchOp does one operation. before has the estimates before the last single increment,
// which triggers the halving.
func sketchOp(t *testing.T, k *sketch, o op, before map[int]uint64) error {
	whole := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", o, err)
		}
		return n
	}
	hash := func(i int) uint32 { return javaHash(strconv.Itoa(i)) }
	var text string
	switch name := o.name(t); name {
	case "increment":
		var counts map[string]int
		if json.Unmarshal(o[1], &counts) == nil {
			for _, x := range slices.Sorted(maps.Keys(counts)) {
				for range counts[x] {
					k.increment(javaHash(x))
				}
			}
			return nil
		}
		o.arg(t, 1, &text)
		for i := range 1000 {
			before[i] = k.estimate(hash(i))
		}
		k.increment(hash(whole(leading.FindString(text))))
	case "increment_range":
		o.arg(t, 1, &text)
		m := rangeOf.FindStringSubmatch(text)
		for i := whole(m[1]); i <= whole(m[2]); i++ {
			k.increment(hash(i))
		}
	case "frequency":
		var want map[string]uint64
		o.arg(t, 1, &want)
		for x, n := range want { // order-free: errors
			if got := k.estimate(javaHash(x)); got != n {
				return fmt.Errorf("%s: %d", x, got)
			}
		}
	case "size":
		var want int
		o.arg(t, 1, &want)
		if k.count != want {
			return fmt.Errorf("the size is %d", k.count)
		}
	case "size_between":
		var low, high int
		o.arg(t, 1, &low)
		o.arg(t, 2, &high)
		if k.count < low || k.count > high {
			return fmt.Errorf("the size is %d", k.count)
		}
	case "frequency_halved":
		o.arg(t, 1, &text)
		m := rangeOf.FindStringSubmatch(text)
		wrong := 0
		for i := whole(m[1]); i <= whole(m[2]); i++ {
			if k.estimate(hash(i)) != before[i]/2 {
				wrong++
			}
		}
		if wrong > whole(atMost.FindStringSubmatch(text)[1]) {
			return fmt.Errorf("%d are not halved", wrong)
		}
	case "zipfian":
		o.arg(t, 1, &text)
		m := zipfian.FindStringSubmatch(text)
		z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.01, 1, uint64(whole(m[1])-1))
		counts := make([]int, whole(m[1]))
		for range whole(m[2]) {
			i := int(z.Uint64())
			counts[i]++
			k.increment(hash(i))
		}
		return zipfAccuracy(k, counts, hash)
	case "accuracy": // checked with the draws
	default:
		return fmt.Errorf("unknown operation")
	}
	return nil
}

// zipfAccuracy compares each of the 100 most frequent ids with all that are less frequent.
func zipfAccuracy(k *sketch, counts []int, hash func(int) uint32) error {
	ids := make([]int, len(counts))
	for i := range ids {
		ids[i] = i
	}
	slices.SortFunc(ids, func(a, b int) int { return counts[b] - counts[a] })
	right, all := 0, 0
	for i, a := range ids[:100] {
		for _, b := range ids[i+1:] {
			if all++; k.estimate(hash(a)) >= k.estimate(hash(b)) {
				right++
			}
		}
	}
	if share := float64(right) / float64(all); share <= 0.95 {
		return fmt.Errorf("%v are right", share)
	}
	return nil
}
