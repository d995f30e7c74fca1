package replies

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// testQueue is the queue of a connection on which nothing more of the large ones
// finds room.
func testQueue(t *testing.T) (b *Budget, q *Queue[string], ask func(id string, k *SizeEstimate, command string) Verdict) {
	t.Helper()
	b, q = NewBudget(testConfig()), &Queue[string]{}
	b.SetUnsent(&q.Account, 13_000)
	return b, q, func(id string, k *SizeEstimate, command string) Verdict {
		_, v := q.Admit(b, time.Time{}, &Request{Entity: entityOf(id), Estimate: k, Size: 10}, &command)
		return v
	}
}

func entityOf(id string) sharding.Entity {
	return sharding.Entity{Type: "T", ID: sharding.EntityID(id)}
}

// TestSmallOnesPass: who has a small reply does not wait behind who has a large one,
// unless it is for the same entity.
func TestSmallOnesPass(t *testing.T) {
	b, q, ask := testQueue(t)
	large, small := &SizeEstimate{size: 4_000}, &SizeEstimate{size: 300}
	for _, c := range []struct {
		id       string
		estimate *SizeEstimate
		want     Verdict
	}{
		{"a", large, Waits}, {"b", small, Admitted}, {"a", small, Waits}, {"b", small, Admitted},
		{"c", &SizeEstimate{size: 1_000}, Waits}, // else the first one would be passed forever
	} {
		if got := ask(c.id, c.estimate, c.id); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if _, _, ok := q.Next(b); ok {
		t.Error("there is no room yet")
	}
	b.SetUnsent(&q.Account, 0)
	for _, want := range []string{"a", "a", "c"} {
		if got, _, ok := q.Next(b); !ok || got != want {
			t.Errorf("%q is next, want %q", got, want)
		}
	}
	if q.Len() != 0 || b.Waiting() != 0 || b.bytes != 0 {
		t.Errorf("%+v is left", b)
	}
}

// TestEstimatesGrow: a command that was small when it came and has grown holds up no
// small ones, and keeps its place before its entity's later ones.
func TestEstimatesGrow(t *testing.T) {
	b, q, ask := testQueue(t)
	b.SetUnsent(&q.Account, 16_000)
	grows, small := &SizeEstimate{size: 300}, &SizeEstimate{size: 300}
	for i, c := range []struct {
		id       string
		estimate *SizeEstimate
	}{{"a", grows}, {"b", small}, {"a", small}, {"a", &SizeEstimate{size: 4_000}}} {
		if got := ask(c.id, c.estimate, fmt.Sprint(c.id, i)); got != Waits {
			t.Errorf("%+v: %v", c, got)
		}
	}
	grows.Learn(4_000)
	b.SetUnsent(&q.Account, 13_000)
	if got, _, ok := q.Next(b); !ok || got != "b1" {
		t.Errorf("%q is next", got)
	}
	b.SetUnsent(&q.Account, 0)
	for _, want := range []string{"a0", "a2", "a3"} {
		if got, _, ok := q.Next(b); !ok || got != want {
			t.Errorf("%q is next, want %q", got, want)
		}
	}
}

// TestGrownKeepTheirOrder: commands whose replies have become large while they waited
// keep their order among each other, and go before later ones.
func TestGrownKeepTheirOrder(t *testing.T) {
	b, q, ask := testQueue(t)
	b.SetUnsent(&q.Account, 16_000)
	grows, large := &SizeEstimate{size: 300}, &SizeEstimate{size: 4_000}
	for _, c := range []struct {
		command  string
		estimate *SizeEstimate
	}{{"a0", grows}, {"b1", grows}, {"c2", &SizeEstimate{size: 300}}, {"c3", grows}, {"d4", large}, {"a5", large}} {
		if got := ask(c.command[:1], c.estimate, c.command); got != Waits {
			t.Errorf("%+v: %v", c, got)
		}
	}
	grows.Learn(4_000)
	b.SetUnsent(&q.Account, 0)
	for _, want := range []string{"c2", "a0", "b1"} {
		if got, ticket, ok := q.Next(b); !ok || got != want {
			t.Errorf("%q is next, want %q", got, want)
		} else {
			b.Answered(ticket, 0)
		}
	}
	for _, want := range []string{"c3", "d4", "a5"} {
		if got, ticket, ok := q.Next(b); !ok || got != want {
			t.Errorf("%q is next, want %q", got, want)
		} else {
			b.Answered(ticket, 0)
		}
	}
	if q.Len() != 0 || b.Used() != 0 {
		t.Errorf("%+v is left", b)
	}
}

// TestLate: who has waited for half of its time is given back, if there is room to
// say so.
func TestLate(t *testing.T) {
	b, q, _ := testQueue(t)
	b.SetUnsent(&q.Account, 16_000)
	var short SizeEstimate
	short.Learn(Overhead)
	at := time.Unix(1000, 0)
	for i, left := range []time.Duration{0, 10 * time.Second, 2 * time.Second, 10 * time.Second, 0} {
		r := Request{Entity: entityOf("a"), Estimate: &SizeEstimate{size: 4_000}, Size: 10}
		if left > 0 {
			r.Deadline = at.Add(left)
		}
		if _, v := q.Admit(b, at, &r, new(fmt.Sprint(i))); v != Waits {
			t.Error(v)
		}
	}
	late := func(after time.Duration, want ...string) {
		t.Helper()
		var got []string
		for _, l := range q.Late(b, at.Add(after), &short) {
			got = append(got, l.Command)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q are late after %s, want %q", got, after, want)
		}
	}
	late(time.Second) // there is no room to say so
	b.SetUnsent(&q.Account, 16_000-3*Overhead/2)
	late(999 * time.Millisecond)
	late(time.Second, "2")
	late(5 * time.Second) // there was room for one
	b.SetUnsent(&q.Account, 15_000)
	late(5*time.Second, "1", "3")
	late(time.Hour)
	if got, _, ok := q.Next(b); ok || q.Len() != 2 {
		t.Errorf("%q was taken, %d wait: there is no room", got, q.Len())
	}
	b.SetUnsent(&q.Account, 0)
	for _, want := range []string{"0", "4"} {
		if got, _, ok := q.Next(b); !ok || got != want {
			t.Errorf("%q is next, want %q: those without a deadline wait on, in order", got, want)
		}
	}
	if b.Waiting() != 0 || b.bytes != 0 {
		t.Errorf("%+v is left", b)
	}
}

// TestWhatWaitsIsBounded, in number and bytes, and a connection that ends gives back
// all that it had.
func TestWhatWaitsIsBounded(t *testing.T) {
	b, q, ask := testQueue(t)
	large := &SizeEstimate{size: 4_000}
	for range 20 {
		if v := ask("a", large, ""); v != Waits {
			t.Fatal(v)
		}
	}
	if v := ask("a", large, ""); v != Full {
		t.Error(v)
	}
	q.Drop(b)
	if b.Used() != 0 || b.Waiting() != 0 || b.bytes != 0 || q.Len() != 0 {
		t.Errorf("%+v is left", b)
	}
	if v := ask("a", large, ""); v != Dropped {
		t.Errorf("%v, after what came before it was dropped", v)
	}
	q = &Queue[string]{}
	b.SetUnsent(&q.Account, 13_000)
	for _, size := range []int{600, 400, 1} {
		_, v := q.Admit(b, time.Time{}, &Request{Entity: entityOf("a"), Estimate: large, Size: size}, new(""))
		if (v == Full) != (size == 1) {
			t.Errorf("%d: %v", size, v)
		}
	}
}

// sharedConfig leaves an entity a quarter of a connection, 4,000 bytes, and 5 commands that
// wait.
func sharedConfig() Config {
	c := testConfig()
	c.EntityShare = 0.25
	return c
}

// TestAHungEntityLeavesTheRest: an entity whose turns do not end has its share of the
// connection, and its waiting commands hold up no others. When it is answered its commands
// go on in their order.
func TestAHungEntityLeavesTheRest(t *testing.T) {
	b, q := NewBudget(sharedConfig()), &Queue[string]{}
	estimate := &SizeEstimate{size: 500}
	ask := func(id, command string, want Verdict) (ticket Ticket) {
		t.Helper()
		ticket, v := q.Admit(b, time.Time{}, &Request{Entity: entityOf(id), Estimate: estimate, Size: 10}, &command)
		if v != want {
			t.Errorf("%s: %v, want %v", command, v, want)
		}
		return ticket
	}
	var hung []Ticket
	for i := range 8 {
		hung = append(hung, ask("hung", fmt.Sprint("h", i), Admitted))
	}
	for i := range 5 {
		ask("hung", fmt.Sprint("w", i), Waits)
	}
	ask("hung", "too many", Full)
	for i := range 20 {
		ask(fmt.Sprint("other", i), "", Admitted)
	}
	if c, _, ok := q.Next(b); ok {
		t.Errorf("%q passes, and nothing was answered", c)
	}
	for i := range 5 {
		b.Answered(hung[i], 0)
		if c, _, ok := q.Next(b); !ok || c != fmt.Sprint("w", i) {
			t.Errorf("%q is next, want w%d", c, i)
		}
	}
	if b.Waiting() != 0 || q.Len() != 0 || len(q.held) != 0 {
		t.Errorf("%+v is left", q)
	}
}

// TestALargeReplyHasAShare: what is larger than the rest of a share, or has grown beyond
// all of it, is admitted when its entity owes nothing.
func TestALargeReplyHasAShare(t *testing.T) {
	b, q := NewBudget(sharedConfig()), &Queue[string]{}
	large, small := &SizeEstimate{size: 4_000}, &SizeEstimate{size: 300}
	first, _ := q.Admit(b, time.Time{}, &Request{Entity: entityOf("a"), Estimate: small}, new("1"))
	for _, k := range []*SizeEstimate{large, small} {
		if _, v := q.Admit(b, time.Time{}, &Request{Entity: entityOf("a"), Estimate: k}, new("")); v != Waits {
			t.Errorf("%v", v)
		}
	}
	if !b.Grow(&first, 6_000) {
		t.Error("the reply finds no room")
	}
	b.Answered(first, 0)
	large1, _ := q.Admit(b, time.Time{}, &Request{Entity: entityOf("b"), Estimate: large}, new(""))
	_, ticket, ok := q.Next(b)
	if !ok || ticket.Expected() != 4_000 {
		t.Errorf("%+v", ticket)
	}
	if _, _, ok := q.Next(b); ok {
		t.Error("the last one passes beyond the share")
	}
	b.Answered(ticket, 0)
	b.Answered(large1, 0)
	if _, ticket, ok = q.Next(b); !ok {
		t.Error("the last one still waits")
	}
	b.Answered(ticket, 0)
	if b.Used() != 0 || q.entities.count != 0 {
		t.Errorf("%+v is left", q)
	}
}

// TestEntitiesKeepTheirOrder, whatever is small, large, late or sent meanwhile, and
// all is taken on or given back in the end.
func TestEntitiesKeepTheirOrder(t *testing.T) {
	for seed := uint64(1); seed <= 300; seed++ {
		d := rand.New(rand.NewPCG(seed, 2))
		cfg := testConfig()
		if seed%2 == 0 {
			cfg = sharedConfig()
		}
		b, q := NewBudget(cfg), &Queue[[2]int]{}
		estimates := []SizeEstimate{{size: 300}, {size: 4_000}, {size: 400}, {}}
		var short SizeEstimate
		short.Learn(Overhead)
		var tickets []Ticket
		last := map[int]int{}
		took := func(c [2]int, ticket Ticket) {
			if last[c[0]] > c[1] {
				t.Fatalf("seed %d: %v after %d", seed, c, last[c[0]])
			}
			last[c[0]] = c[1]
			tickets = append(tickets, ticket)
		}
		at, came, gone := time.Unix(1000, 0), 0, 0
		for n := range 3000 {
			at = at.Add(time.Duration(d.IntN(20)) * time.Millisecond)
			switch d.IntN(5) {
			case 0, 1:
				c := [2]int{d.IntN(5), n}
				r := Request{Entity: entityOf(fmt.Sprint(c[0])), Estimate: &estimates[d.IntN(4)], Size: d.IntN(50), Deadline: at.Add(time.Second)}
				switch ticket, v := q.Admit(b, at, &r, &c); v {
				case Admitted:
					took(c, ticket)
					fallthrough
				case Waits:
					came++
				}
			case 2:
				if c, ticket, ok := q.Next(b); ok {
					took(c, ticket)
				}
			case 3:
				for _, l := range q.Late(b, at, &short) {
					b.Answered(l.Ticket, 0)
					gone++
				}
			default:
				if len(tickets) > 0 {
					ticket := tickets[0]
					tickets = tickets[1:]
					gone++
					b.Answered(ticket, []int{300, 4_000}[d.IntN(2)])
				}
			}
			if b.Used() > 64_000 || b.waiting > 20 || b.bytes > 1_000 || b.waiting != q.Len() {
				t.Fatalf("seed %d: %+v", seed, b)
			}
		}
		for q.Len() > 0 {
			c, ticket, ok := q.Next(b)
			if !ok && len(tickets) == 0 {
				t.Fatalf("seed %d: %d wait forever", seed, q.Len())
			}
			if ok {
				took(c, ticket)
				continue
			}
			for _, ticket := range tickets {
				gone++
				b.Answered(ticket, 0)
			}
			tickets = nil
		}
		for _, ticket := range tickets {
			gone++
			b.Answered(ticket, 0)
		}
		q.Next(b) // forgets the rest
		if q.entities.count+len(q.held)+len(q.freed) > 0 || b.Used() != 0 {
			t.Fatalf("seed %d: %+v is left", seed, q)
		}
		if came != gone {
			t.Fatalf("seed %d: %d came and %d went", seed, came, gone)
		}
	}
}

// BenchmarkAsk has 256 commands in flight, forever other entities.
func BenchmarkAsk(b *testing.B) {
	budget, q := NewBudget(DefaultConfig()), &Queue[string]{}
	estimate, command := &SizeEstimate{size: 300}, ""
	var entities [10_000]sharding.Entity
	for i := range entities {
		entities[i] = entityOf(fmt.Sprint("entity-", i))
	}
	var inFlight [256]Ticket
	b.ReportAllocs()
	for n := range b.N {
		t := &inFlight[n%len(inFlight)]
		if n >= len(inFlight) {
			budget.Answered(*t, 300)
		}
		r := Request{Entity: entities[n%len(entities)], Estimate: estimate, Size: 10}
		*t, _ = q.Admit(budget, time.Time{}, &r, &command)
	}
}
