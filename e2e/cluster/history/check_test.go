package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// generate returns a correct history: overlapping operations on two lists, each with one
// moment between call and return at which it took effect.
func generate(seed uint64) (ops []Op, final map[string][]int64) {
	r := rand.New(rand.NewPCG(seed, 0))
	final = map[string][]int64{"a": nil, "b": nil}
	state, older := map[string]Reply{}, map[string]Reply{}
	for i := range 400 {
		o := Op{Client: i % 8, List: string("ab"[r.IntN(2)]), Kind: Add, Value: int64(i + 1), Outcome: Executed}
		effect := time.Duration(i+1) * time.Millisecond
		o.Call = effect - time.Duration(r.IntN(900))*10*time.Microsecond
		o.Return = effect + time.Duration(r.IntN(900))*10*time.Microsecond
		n := r.IntN(20)
		switch {
		case n < 5:
			o.Kind, o.Value = Get, 0
		case n == 5:
			o.Outcome = NotApplied
		case n == 6:
			o.Outcome = Unknown // and had no effect
		case n == 7:
			o.Outcome, o.Return = Unknown, o.Call // and had its effect after its return
		case n == 8:
			o.Kind, o.Value = Refuse, 0
		case n == 9:
			o.Kind, o.Value = Peek, 0
		}
		if o.Kind == Add && (o.Outcome == Executed || o.Outcome == Unknown && o.Return == o.Call) {
			final[o.List] = append(final[o.List], o.Value)
			s := state[o.List]
			state[o.List] = Reply{s.Length + 1, Hash(s.Hash, o.Value)}
		}
		switch {
		case o.Kind == Peek:
			o.Reply = older[o.List]
			older[o.List] = state[o.List]
		case o.Outcome == Executed:
			o.Reply = state[o.List]
		}
		if o.Kind == Refuse {
			o.Repeats = []Reply{o.Reply} // the error that its key got, whatever has changed since
		}
		ops = append(ops, o)
	}
	return ops, final
}

func TestCorrectHistories(t *testing.T) {
	for seed := range uint64(50) {
		ops, final := generate(seed)
		if err := Check(ops, final, 10*time.Second); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestAllOverlap: operations that all overlap are checked as fast as others.
func TestAllOverlap(t *testing.T) {
	ops, final := generate(1)
	for i := range ops {
		ops[i].Call, ops[i].Return = 0, time.Second
	}
	if err := Check(ops, final, 10*time.Second); err != nil {
		t.Fatal(err)
	}
}

// rehash corrects the hashes of replies after a change of the final lists.
func rehash(ops []Op, final map[string][]int64) {
	hashes := map[string][]uint64{}
	for list, values := range final {
		h := []uint64{0}
		for i, v := range values {
			h = append(h, Hash(h[i], v))
		}
		hashes[list] = h
	}
	for i := range ops {
		if o := &ops[i]; o.Outcome == Executed && o.Reply.Length < int64(len(hashes[o.List])) {
			o.Reply.Hash = hashes[o.List][o.Reply.Length]
		}
	}
}

// pick returns the first operation from the middle on that fits.
func pick(ops []Op, fits func(*Op) bool) *Op {
	for i := len(ops) / 2; i < len(ops); i++ {
		if fits(&ops[i]) {
			return &ops[i]
		}
	}
	panic("no such operation was generated")
}

func acknowledged(o *Op) bool { return o.Kind == Add && o.Outcome == Executed && o.List == "a" }
func read(o *Op) bool {
	return o.Kind == Get && o.Outcome == Executed && o.List == "a" && o.Reply.Length > 20
}

// TestCorruptedHistories: every corruption is found, with its name.
func TestCorruptedHistories(t *testing.T) {
	corruptions := []struct {
		name, want string
		corrupt    func(ops []Op, final map[string][]int64)
	}{
		{"acknowledged and lost", "lost", func(ops []Op, final map[string][]int64) {
			o := pick(ops, acknowledged)
			final["a"] = slices.DeleteFunc(final["a"], func(v int64) bool { return v == o.Value })
		}},
		{"lost at the end", "lost", func(ops []Op, final map[string][]int64) {
			final["a"] = final["a"][:len(final["a"])-10]
		}},
		{"applied twice", "double", func(ops []Op, final map[string][]int64) {
			final["a"] = append(final["a"], pick(ops, acknowledged).Value)
		}},
		{"applied in another list", "astray", func(ops []Op, final map[string][]int64) {
			o := pick(ops, acknowledged)
			final["a"] = slices.DeleteFunc(final["a"], func(v int64) bool { return v == o.Value })
			final["b"] = append(final["b"], o.Value)
		}},
		{"refused and applied", "refused and applied", func(ops []Op, final map[string][]int64) {
			o := pick(ops, func(o *Op) bool { return o.Kind == Add && o.Outcome == NotApplied })
			final[o.List] = append(final[o.List], o.Value)
		}},
		{"never added", "invented", func(_ []Op, final map[string][]int64) {
			final["b"] = append(final["b"], 123456)
		}},
		{"two orders", "moved", func(ops []Op, final map[string][]int64) {
			a := final["a"]
			at := int(pick(ops, acknowledged).Reply.Length) - 1
			a[at], a[at-1] = a[at-1], a[at]
		}},
		{"a read of a state that never was", "another past", func(ops []Op, _ map[string][]int64) {
			pick(ops, read).Reply.Hash++
		}},
		{"a key with two answers", "two answers", func(ops []Op, _ map[string][]int64) {
			o := pick(ops, acknowledged)
			o.Repeats = []Reply{o.Reply, {o.Reply.Length + 1, o.Reply.Hash}}
		}},
		{"an unknown command, answered when repeated and lost", "lost", func(ops []Op, final map[string][]int64) {
			o := pick(ops, func(o *Op) bool {
				return o.Kind == Add && o.Outcome == Unknown && !slices.Contains(final[o.List], o.Value)
			})
			o.Repeats = []Reply{{1, Hash(0, o.Value)}}
		}},
		{"a refusal with two answers", "two answers", func(ops []Op, _ map[string][]int64) {
			o := pick(ops, func(o *Op) bool { return o.Kind == Refuse })
			o.Repeats = []Reply{{o.Reply.Length + 1, o.Reply.Hash}}
		}},
		{"a refusal with an older state", "not linearizable", func(ops []Op, final map[string][]int64) {
			o := pick(ops, func(o *Op) bool { return o.Kind == Refuse && o.Reply.Length > 20 })
			o.Reply.Length, o.Repeats = o.Reply.Length-15, nil
			rehash(ops, final)
		}},
		{"a stale read of a state that never was", "another past", func(ops []Op, _ map[string][]int64) {
			pick(ops, func(o *Op) bool { return o.Kind == Peek && o.Reply.Length > 0 }).Reply.Hash++
		}},
		{"a batch out of order", "out of order", func(ops []Op, _ map[string][]int64) {
			first := pick(ops, acknowledged)
			second := pick(ops, func(o *Op) bool { return acknowledged(o) && o.Value > first.Value })
			first.Batch, first.Index = 1, 1
			second.Batch, second.Index = 1, 0
		}},
		{"a list that was not read", "was not read", func(_ []Op, final map[string][]int64) { delete(final, "b") }},
		{"a stale read", "not linearizable", func(ops []Op, final map[string][]int64) {
			pick(ops, read).Reply.Length -= 15
			rehash(ops, final)
		}},
		{"a read of the future", "not linearizable", func(ops []Op, final map[string][]int64) {
			pick(ops, func(o *Op) bool { return read(o) && o.Reply.Length+15 < int64(len(final["a"])) }).Reply.Length += 15
			rehash(ops, final)
		}},
		{"a write before its call", "not linearizable", func(ops []Op, _ map[string][]int64) {
			o := pick(ops, acknowledged)
			o.Call += 100 * time.Millisecond
			o.Return += 100 * time.Millisecond
		}},
		{"a write after its return", "not linearizable", func(ops []Op, _ map[string][]int64) {
			o := pick(ops, acknowledged)
			o.Call -= 100 * time.Millisecond
			o.Return -= 100 * time.Millisecond
		}},
		{"an unknown write before its call", "not linearizable", func(ops []Op, final map[string][]int64) {
			pick(ops, func(o *Op) bool { return o.Outcome == Unknown && slices.Contains(final[o.List], o.Value) }).Call += 100 * time.Millisecond
		}},
	}
	for _, c := range corruptions {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(10) {
				ops, final := generate(seed)
				c.corrupt(ops, final)
				err := Check(ops, final, 10*time.Second)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("seed %d: got %v, want %q", seed, err, c.want)
				}
			}
		})
	}
}

func TestLongest(t *testing.T) {
	at := func(list string, ms int, o Outcome) Op {
		return Op{List: list, Outcome: o, Return: time.Duration(ms) * time.Millisecond}
	}
	ops := []Op{at("a", 10, Executed), at("a", 50, Unknown), at("a", 90, Executed), at("b", 20, Executed), at("b", 300, Executed), at("b", 40, Executed)}
	for _, c := range []struct{ start, end, want int }{{0, 100, 80}, {0, 45, 35}, {0, 300, 260}, {30, 100, 60}} {
		got := Longest(ops, time.Duration(c.start)*time.Millisecond, time.Duration(c.end)*time.Millisecond)
		if want := time.Duration(c.want) * time.Millisecond; got != want {
			t.Errorf("from %d to %d: %v, want %v", c.start, c.end, got, want)
		}
	}
}

func TestHash(t *testing.T) {
	seen := map[uint64]string{}
	for _, list := range [][]int64{{}, {0}, {1}, {256}, {1, 2}, {2, 1}, {-1}, {0, 0}} {
		var h uint64
		for _, v := range list {
			h = Hash(h, v)
		}
		if other, twice := seen[h]; twice {
			t.Errorf("%v and %s have the same hash", list, other)
		}
		seen[h] = fmt.Sprint(list)
	}
}
