package sim

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	minute = 60 * sec
	hour   = 60 * minute
	// sampleEvery is the time between two measurements of the sizes of the cores and the journal.
	sampleEvery = 5 * minute
	// filled is the least number of hours of a run so that all bounded memories are full in its second quarter: the
	// coordinator's explanations fill up for more than an hour.
	filled = 6
)

// immortal are the processes that never crash in a long run, so that they show what grows with their age.
var immortal = []int{0, firstRegion, firstGateway}

// dayWeather is the weather of a cluster that runs for long: each kind of fault is rare, and too short for a
// process to be removed from the cluster.
func dayWeather(seed uint64, hours int64) weather {
	w := drawClassic(seed).calm()
	w.Warm, w.Storm = 10*sec, hours*hour
	w.Think, w.Patience = 5*sec, 3*sec
	w.Loss, w.Dup, w.LinkBreak, w.LeaseLoss, w.Unknown = 0.001, 0.001, 0.0005, 0.002, 0.001
	w.Cut, w.OneWay, w.Isolate, w.JournalCut, w.CutFor = 20*minute, 20*minute, 20*minute, 30*minute, 2*sec
	w.Pause, w.PauseFor, w.DownFor = 20*minute, 2*sec, 5*sec
	w.Join, w.LateSecond, w.Rollout, w.Evidence = false, false, false, true
	w.Newer, w.KeepEvents = 0, 8
	w.Harsh = harshWeather{Expires: true, Retention: minute, Timed: 0.5, SendAge: 30 * sec, Send: 0.02}
	return w
}

// newDay returns a world that runs for many hours. Every ten minutes or so, a process that is not immortal
// crashes and starts again, and every half an hour an operator drains a region.
func newDay(seed uint64, hours int64) *World {
	w := newWorld(harsh, seed, nil)
	w.weather = dayWeather(seed, hours)
	w.journal = newStore(w)
	// The history of the entities of this type is kept forever.
	w.entities = slices.DeleteFunc(w.entities, func(e sharding.Entity) bool { return e.Type == types[0].Type })
	w.every("crash", 10*minute, func() {
		if host := w.dice("nemesis").IntN(firstGateway + gateways); !slices.Contains(immortal, host) {
			w.crashOne(host)
		}
	})
	w.every("drain", 30*minute, func() {
		w.drain(w.processes[firstRegion+w.dice("nemesis").IntN(regions)].id())
		w.after(10*sec, w.resumeRegions)
	})
	w.every("dead letters", 10*minute, w.dropDeadLetters)
	return w
}

// dropDeadLetters has an operator drop all dead letters: the journal keeps them until then.
func (w *World) dropDeadLetters() {
	operator := w.idleClient(len(w.clients))
	for _, row := range w.allSends(true) {
		for place := range row.Sends {
			o := &op{id: len(w.ops) + 1, client: operator.id, entity: row.Entity, cmd: sharding.SendDropCommand, keyed: true, called: w.now}
			o.x, o.letter = uint64(o.id), &sharding.DeadLetterInput{Record: row.Seq, Place: uint16(place)}
			operator.issue(o)
			operator.send(o, 0, nanos(3*sec))
		}
	}
}

// TestDay runs one cluster for some hours of virtual time, as many as SIM_HOURS says: no core may hold more and
// more, nor may the journal. The promises are checked as in other runs.
func TestDay(t *testing.T) {
	if os.Getenv("SIM_SEED") != "" && os.Getenv("SIM_HOURS") == "" {
		t.Skip("SIM_SEED names one seed of another test")
	}
	hours, seed := int64(number64(t, "SIM_HOURS", 1)), number64(t, "SIM_SEED", 1)
	again := fmt.Sprintf("make sim-day HOURS=%d SEED=%d", hours, seed)
	w := newDay(seed, hours)
	sizes := map[string][]int{}
	var sample func()
	sample = func() {
		if w.calm {
			return
		}
		for name, part := range w.longLived() {
			sizes[name] = append(sizes[name], sizeOf(part))
		}
		if os.Getenv("SIM_HOURS") != "" && w.now%hour < sampleEvery {
			fmt.Printf("hour %d of %d: %d commands\n", w.now/hour, hours, len(w.ops))
		}
		w.after(sampleEvery, sample)
	}
	w.after(w.weather.Warm+sampleEvery, sample)
	began := time.Now()
	w.Run()
	if w.broken != nil {
		t.Fatalf("seed %d breaks %q: %s\n\t%s", seed, w.broken.property, w.broken.text, again)
	}
	t.Logf("seed %d: %d virtual hours in %v, %d commands, %d crashes, %d pauses, %d moves of shards", seed, hours,
		time.Since(began).Round(time.Second), len(w.ops), w.marks["crash"], w.marks["fault: pause"], len(w.journal.begun))
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		early, late := medians(sizes[name])
		t.Logf("%-36s %9d bytes in the second quarter, %9d in the last one", name, early, late)
		if hours >= filled && grows(sizes[name]) {
			t.Errorf("%s grows: %v\n\t%s", name, sizes[name], again)
		}
	}
}

// longLived are the cores of the immortal processes and the journal, by name.
func (w *World) longLived() map[string]any {
	parts := map[string]any{"journal": w.journal.ledger}
	for _, host := range immortal {
		p := w.processes[host]
		switch b := p.body.(type) {
		case *coordNode:
			parts[p.name+": coordinator"], parts[p.name+": explanations"] = b.core, b.explanations
			parts[p.name+": lease"], parts[p.name+": membership"] = b.holder, b.member.core
		case *regionNode:
			parts[p.name+": control core"], parts[p.name+": membership"] = b.control, b.member.core
			for i, s := range b.shards {
				parts[fmt.Sprintf("%s: shard core %d", p.name, i)] = s.core
			}
			if b.router != nil {
				parts[p.name+": router"] = b.router.core
			}
		case *gatewayNode:
			parts[p.name+": router"], parts[p.name+": shedder"] = b.core, b.shedder
		}
	}
	return parts
}

// medians returns the medians of the second and of the last quarter of a series. The first quarter is for
// filling up.
func medians(sizes []int) (early, late int) {
	median := func(list []int) int {
		if len(list) == 0 {
			return 0
		}
		list = slices.Clone(list)
		slices.Sort(list)
		return list[len(list)/2]
	}
	n := len(sizes)
	return median(sizes[n/4 : n/2]), median(sizes[n-n/4:])
}

// grows reports whether a series has a slope: a quarter and 4 KiB more in the last quarter than in the second.
func grows(sizes []int) bool {
	early, late := medians(sizes)
	return late > early+early/4+4<<10
}

func TestGrows(t *testing.T) {
	flat, steady, step := make([]int, 40), make([]int, 40), make([]int, 40)
	for i := range 40 {
		flat[i], steady[i] = 10_000+i%3*1000, 10_000+i*600
		if step[i] = 10_000; i < 10 {
			step[i] = i * 1000
		}
	}
	if grows(flat) || grows(step) || !grows(steady) || grows(nil) {
		t.Error(grows(flat), grows(step), grows(steady), grows(nil))
	}
}

// sizeOf returns the bytes that can be reached from a value. Functions and channels count nothing, nor does the
// log of the memory journal, which exists for the checks. A map counts its entries, and not its free room.
func sizeOf(v any) int {
	m := measure{seen: map[seenPointer]bool{}}
	m.add(reflect.ValueOf(v))
	return m.bytes
}

type seenPointer struct {
	at unsafe.Pointer
	of reflect.Type
}

type measure struct {
	seen  map[seenPointer]bool
	bytes int
}

var logType = reflect.TypeFor[[]memory.Committed]()

// first reports whether what a pointer points to has not been counted yet.
func (m *measure) first(at unsafe.Pointer, of reflect.Type) bool {
	p := seenPointer{at, of}
	if at == nil || m.seen[p] {
		return false
	}
	m.seen[p] = true
	return true
}

// add counts what is reached from a value. The value itself is a part of the count.
func (m *measure) add(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if m.first(v.UnsafePointer(), v.Type()) {
			m.bytes += int(v.Type().Elem().Size())
			m.add(v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() {
			m.bytes += int(v.Elem().Type().Size())
			m.add(v.Elem())
		}
	case reflect.String:
		m.bytes += v.Len()
	case reflect.Slice:
		if v.Type() == logType || !m.first(v.UnsafePointer(), v.Type()) {
			return
		}
		m.bytes += v.Cap() * int(v.Type().Elem().Size())
		m.elements(v)
	case reflect.Array:
		m.elements(v)
	case reflect.Map:
		if !m.first(v.UnsafePointer(), v.Type()) {
			return
		}
		m.bytes += v.Len() * int(v.Type().Key().Size()+v.Type().Elem().Size())
		for it := v.MapRange(); it.Next(); {
			m.add(it.Key())
			m.add(it.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			m.add(v.Field(i))
		}
	}
}

func (m *measure) elements(v reflect.Value) {
	switch v.Type().Elem().Kind() {
	case reflect.Uint8, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Uint32, reflect.Float64:
		return // nothing is reached from these
	}
	for i := range v.Len() {
		m.add(v.Index(i))
	}
}

func TestSizeOf(t *testing.T) {
	type node struct {
		next *node
		list []uint64
		by   map[uint32]string
	}
	n := &node{list: make([]uint64, 2, 4), by: map[uint32]string{1: "four", 2: "fives"}}
	n.next = n // counted once
	if got, want := sizeOf(n), int(unsafe.Sizeof(*n))+4*8+2*(4+16)+9; got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}
