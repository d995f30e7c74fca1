package replies

import (
	"math/rand/v2"
	"testing"

	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

func testConfig() Config {
	return Config{Total: 64_000, Connection: 16_000, Largest: 4_000, Unknown: 2_000, EntityShare: 1, Waiting: 20, WaitingBytes: 1_000, WaitingShare: 0.5}
}

// TestSizeEstimate: what is expected rises at once, and falls slowly.
func TestSizeEstimate(t *testing.T) {
	var k SizeEstimate
	if got := k.Expect(1000); got != 1000 {
		t.Errorf("%d of an unknown kind", got)
	}
	k.Learn(300)
	if got := k.Expect(1000); got != 300 {
		t.Errorf("%d after a reply of 300", got)
	}
	k.Learn(5000)
	k.Learn(300)
	if got := k.Expect(1000); got < 4000 || got >= 5000 {
		t.Errorf("%d after replies of 5000 and 300", got)
	}
	for range 200 {
		k.Learn(300)
	}
	if got := k.Expect(1000); got != 300 {
		t.Errorf("%d after many of 300", got)
	}
}

// TestAConnectionIsBounded: what it owes counts before it is there and until it
// is taken, and then there is room again.
func TestAConnectionIsBounded(t *testing.T) {
	b := NewBudget(testConfig())
	var a, other Account
	var k SizeEstimate
	var tickets []Ticket
	admit := func(want int) {
		t.Helper()
		n := 0
		for {
			ticket, ok := b.Reserve(&a, &k)
			if !ok {
				break
			}
			tickets = append(tickets, ticket)
			n++
		}
		if n != want {
			t.Errorf("%d were admitted, want %d", n, want)
		}
	}
	admit(7) // of an unknown kind: the last eighth is for small ones
	for _, ticket := range tickets {
		b.Answered(ticket, 1_000)
	}
	tickets = nil
	b.SetUnsent(&a, 7_000)
	admit(7) // of one that is known
	if _, ok := b.Reserve(&other, &k); !ok {
		t.Error("another connection has to wait")
	}
	b.SetUnsent(&a, 0)
	admit(7)
	if a.Used() != 14_000 || b.Used() != 15_000 {
		t.Errorf("%d and %d are used", a.Used(), b.Used())
	}
}

// TestSilentConnectionsShare: however many connections do not read, all of them
// stay within the total, and one that reads still finds room for small replies.
func TestSilentConnectionsShare(t *testing.T) {
	b := NewBudget(testConfig())
	large, small := SizeEstimate{size: 4_000}, SizeEstimate{size: 300}
	for range 1000 {
		silent := &Account{}
		for {
			if _, ok := b.Reserve(silent, &large); !ok {
				break
			}
		}
	}
	if b.Used() > 64_000 {
		t.Errorf("%d are used", b.Used())
	}
	var reader Account
	for range 100 {
		ticket, ok := b.Reserve(&reader, &small)
		if !ok {
			t.Fatal("one that reads has to wait")
		}
		b.Answered(ticket, 300)
	}
}

// TestTheTotalHolds whatever was expected: replies that would break it do not fit.
func TestTheTotalHolds(t *testing.T) {
	for seed := uint64(1); seed <= 200; seed++ {
		d := rand.New(rand.NewPCG(seed, 1))
		b := NewBudget(testConfig())
		accounts, estimates := make([]Account, 1+d.IntN(20)), make([]SizeEstimate, 3)
		var tickets []Ticket
		for range 2000 {
			switch a := &accounts[d.IntN(len(accounts))]; {
			case d.IntN(2) == 0:
				if ticket, ok := b.Reserve(a, &estimates[d.IntN(len(estimates))]); ok {
					tickets = append(tickets, ticket)
				}
			case d.IntN(3) == 0:
				b.SetUnsent(a, d.IntN(a.unsent+1))
			case len(tickets) > 0:
				i := d.IntN(len(tickets))
				ticket := tickets[i]
				tickets[i] = tickets[len(tickets)-1]
				tickets = tickets[:len(tickets)-1]
				size := Overhead + d.IntN(4_000-Overhead)
				if d.IntN(4) > 0 {
					size = Overhead + d.IntN(100)
				}
				kept := size
				if size > ticket.Expected() && !b.Grow(&ticket, size) {
					kept = 0
				}
				b.Answered(ticket, size)
				b.SetUnsent(ticket.account, ticket.account.unsent+kept)
			}
			if b.Used() > 64_000 || b.owed < 0 || b.unsent < 0 {
				t.Fatalf("seed %d: %+v", seed, b)
			}
		}
		for _, ticket := range tickets {
			b.Answered(ticket, 0)
		}
		for i := range accounts {
			b.SetUnsent(&accounts[i], 0)
		}
		if b.Used() != 0 {
			t.Fatalf("seed %d: %+v is left", seed, b)
		}
	}
}

func TestValidate(t *testing.T) {
	good := DefaultConfig()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for i, change := range []func(*Config){
		func(c *Config) { *c = Config{} },
		func(c *Config) { c.Connection = setting.Bytes(2*c.Largest - 1) },
		func(c *Config) { c.Total = 2*c.Connection - 1 },
		func(c *Config) { c.Unknown = Overhead - 1 },
		func(c *Config) { c.Unknown = c.Largest + 1 },
		func(c *Config) { c.EntityShare = 0 },
		func(c *Config) { c.EntityShare = 1.1 },
		func(c *Config) { c.Waiting = 0 },
		func(c *Config) { c.WaitingBytes = 0 },
		func(c *Config) { c.WaitingShare = 0 },
		func(c *Config) { c.WaitingShare = 1.1 },
	} {
		bad := DefaultConfig()
		if change(&bad); bad.Validate() == nil {
			t.Errorf("change %d: %+v is accepted", i, bad)
		}
	}
}

func TestSize(t *testing.T) {
	r := sharding.Reply{Code: "a", Message: "bc", Payload: []byte("def")}
	if got := Size(&r); got != Overhead+6 {
		t.Error(got)
	}
}

func BenchmarkAdmit(b *testing.B) {
	budget := NewBudget(DefaultConfig())
	var a Account
	k := SizeEstimate{size: 300}
	b.ReportAllocs()
	for range b.N {
		t, _ := budget.Reserve(&a, &k)
		budget.Answered(t, 300)
	}
}
