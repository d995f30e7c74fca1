package vectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	plane "github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// The singleton is the active coordinator, which is the holder of the lease. The oldest
// member is the first candidate for it.
var singletonCases = map[string]runner{
	"fsm-001":      firstAcquires,
	"fsm-003":      secondWaits,
	"fsm-005":      newFirstAcquires,
	"fsm-007":      secondKeepsWaiting,
	"fsm-011":      acquiresWhatWasReleased,
	"fsm-013":      acquiresWhatIsOver,
	"fsm-021":      retryInterval,
	"fsm-025":      stopsWithTheLease,
	"fsm-041":      endsReleased,
	"fsm-043":      releasesWhatComesLate,
	"e2e-001":      func([]byte) error { return playSingleton(6, leaves, 0) },
	"e2e-003":      func([]byte) error { return playSingleton(3, crashes, 0, 1) },
	"e2e-005":      func([]byte) error { return playSingleton(6, crashes, 0, 1, 2) },
	"e2e-007":      func([]byte) error { return playSingleton(6, leaves, 0, 1, 2, 3, 4) },
	"e2e-009":      func([]byte) error { return playSingleton(3, crashes, 0) },
	"proxy_buffer": proxyBuffer,
}

// candidate is one holder and the time that it lives in.
type candidate struct {
	h    *lease.Holder
	self sharding.NodeID
	now  time.Time
	out  []lease.Output
}

func newCandidate(n int, change func(*lease.Config)) *candidate {
	cfg := lease.DefaultConfig()
	cfg.Self = sharding.NodeID{Addr: fmt.Sprintf("c%d:1", n), UID: sharding.NodeUID(n)}
	cfg.Seed, cfg.Rank = uint64(n), n-1
	if change != nil {
		change(&cfg)
	}
	h, err := lease.NewHolder(cfg)
	if err != nil {
		panic(err)
	}
	return &candidate{h: h, self: cfg.Self, now: time.Unix(1_000_000, 0)}
}

func (c *candidate) step(in lease.Input) { c.out = c.h.Step(c.now, in, nil) }

// pass lets time pass until an output of a kind comes, at most so long; reads
// meanwhile return the record.
func pass[O lease.Output](c *candidate, most time.Duration, record lease.Record) (O, bool) {
	for end := c.now.Add(most); ; {
		if o, ok := last[O](c); ok {
			return o, true
		}
		if get, ok := last[lease.Get](c); ok {
			c.step(lease.Got{Request: get.Request, Record: record})
			continue
		}
		if !c.now.Before(end) {
			var none O
			return none, false
		}
		c.now = c.now.Add(20 * time.Millisecond)
		c.step(lease.Tick{})
	}
}

func last[O lease.Output](c *candidate) (O, bool) {
	for _, o := range slices.Backward(c.out) {
		if x, ok := o.(O); ok {
			return x, true
		}
	}
	var none O
	return none, false
}

// held is a record that another process holds.
func held() lease.Record {
	return lease.Record{Version: 3, Term: 2, Holder: sharding.NodeID{Addr: "other:1", UID: 99}, TTL: 2 * time.Second, Nonce: 5}
}

// acquire makes the first in line the holder.
func acquire(c *candidate) error {
	swap, ok := pass[lease.Swap](c, time.Second, lease.Record{})
	if !ok || swap.New.Holder != c.self {
		return errors.New("the first in line does not ask for a free lease")
	}
	c.step(lease.Swapped{Request: swap.Request, Outcome: lease.Done})
	if _, ok := last[lease.Acquired](c); !ok {
		return fmt.Errorf("a granted lease gives %v", c.out)
	}
	return nil
}

func firstAcquires([]byte) error { return acquire(newCandidate(1, nil)) }

func secondWaits([]byte) error {
	if swap, ok := pass[lease.Swap](newCandidate(2, nil), time.Second, held()); ok {
		return fmt.Errorf("asks for the lease of another one: %v", swap)
	}
	return nil
}

func newFirstAcquires([]byte) error {
	c := newCandidate(2, nil)
	pass[lease.Swap](c, time.Second, held())
	c.step(lease.SetRank{Rank: 0})
	if _, ok := pass[lease.Swap](c, 5*time.Second, held()); !ok {
		return errors.New("never asks for the lease of who is gone")
	}
	return nil
}

func secondKeepsWaiting([]byte) error {
	c, r := newCandidate(2, nil), held()
	for range 10 {
		if swap, ok := pass[lease.Swap](c, time.Second, r); ok {
			return fmt.Errorf("asks for the lease of another one: %v", swap)
		}
		r.Version, r.Term, r.Nonce = r.Version+1, r.Term+1, r.Nonce+1
		r.Holder.UID++
	}
	return nil
}

// acquiresWhatWasReleased: that the holder has stopped shows in the record.
func acquiresWhatWasReleased([]byte) error {
	c, r := newCandidate(1, nil), held()
	if _, ok := pass[lease.Swap](c, time.Second, r); ok {
		return errors.New("does not wait for who holds the lease")
	}
	r.Version, r.Holder = r.Version+1, sharding.NodeID{}
	swap, ok := pass[lease.Swap](c, time.Second, r)
	if !ok {
		return errors.New("does not ask for a released lease")
	}
	c.step(lease.Swapped{Request: swap.Request, Outcome: lease.Done})
	if a, ok := last[lease.Acquired](c); !ok || a.Term <= r.Term {
		return fmt.Errorf("a released lease gives %v", c.out)
	}
	return nil
}

func acquiresWhatIsOver([]byte) error {
	c, r := newCandidate(1, nil), held()
	began := c.now
	if _, ok := pass[lease.Swap](c, 10*time.Second, r); !ok || c.now.Sub(began) < r.TTL {
		return fmt.Errorf("asks after %v for a lease that ends after %v", c.now.Sub(began), r.TTL)
	}
	return nil
}

func retryInterval([]byte) error {
	c := newCandidate(1, nil)
	swap, _ := pass[lease.Swap](c, time.Second, lease.Record{})
	denied := c.now
	c.step(lease.Swapped{Request: swap.Request, Outcome: lease.Conflict})
	for end := c.now.Add(10 * time.Second); c.now.Before(end); {
		c.now = c.now.Add(20 * time.Millisecond)
		if c.step(lease.Tick{}); len(c.out) > 0 {
			break
		}
	}
	if d := c.now.Sub(denied); d < 4900*time.Millisecond {
		return fmt.Errorf("asks again after %v, want 5s", d)
	}
	return nil
}

// stopsWithTheLease: the loss comes before the next request, and what was decided
// under the lease ends with it.
func stopsWithTheLease([]byte) error {
	c := newCandidate(1, nil)
	if err := acquire(c); err != nil {
		return err
	}
	c.now = c.now.Add(time.Minute)
	c.step(lease.Tick{})
	if _, ok := c.out[0].(lease.Lost); !ok {
		return fmt.Errorf("after its time the lease gives %v", c.out)
	}
	if _, ok := c.h.Valid(c.now); ok {
		return errors.New("a lost lease is valid")
	}
	active, err := owned()
	if err != nil {
		return err
	}
	active.step(coordinator.Deposed{})
	if out := active.told(sharding.NodeID{}, plane.GetShardHome{Shard: shard("s2")}); len(out) > 0 || active.m.View().Active {
		return fmt.Errorf("a deposed coordinator gives %v", out)
	}
	return nil
}

func endsReleased([]byte) error {
	c := newCandidate(1, nil)
	if err := acquire(c); err != nil {
		return err
	}
	c.step(lease.Release{})
	swap, ok := last[lease.Swap](c)
	if !ok || !swap.New.Holder.IsZero() {
		return fmt.Errorf("a release gives %v", c.out)
	}
	c.step(lease.Swapped{Request: swap.Request, Outcome: lease.Done})
	if _, ok := last[lease.Released](c); !ok {
		return fmt.Errorf("the end of a release gives %v", c.out)
	}
	c.now = c.now.Add(time.Minute)
	if c.step(lease.Tick{}); len(c.out) > 0 {
		return fmt.Errorf("after the end comes %v", c.out)
	}
	return nil
}

// releasesWhatComesLate: who leaves while it asks for the lease frees it.
func releasesWhatComesLate([]byte) error {
	c := newCandidate(1, nil)
	swap, _ := pass[lease.Swap](c, time.Second, lease.Record{})
	c.step(lease.Release{})
	c.step(lease.Swapped{Request: swap.Request, Outcome: lease.Done})
	free, ok := pass[lease.Swap](c, time.Second, swap.New)
	if !ok || !free.New.Holder.IsZero() {
		return fmt.Errorf("a lease that was granted too late is kept: %v", c.out)
	}
	return nil
}

// leaves and crashes are ends of the one that holds the lease.
func leaves(c *candidate)  { c.step(lease.Release{}) }
func crashes(c *candidate) { c.out = nil }

// playSingleton lets candidates end one after the other, the first in line first.
// Never are two of them active, and one always is in the end.
func playSingleton(n int, end func(*candidate), ends ...int) error {
	var record lease.Record
	all := make([]*candidate, n)
	for i := range all {
		all[i] = newCandidate(i+1, nil)
	}
	gone := map[*candidate]bool{}
	run := func(d time.Duration) (*candidate, error) {
		var active *candidate
		for range d / (20 * time.Millisecond) {
			active = nil
			for _, c := range all {
				if c == nil {
					continue
				}
				c.now = c.now.Add(20 * time.Millisecond)
				c.step(lease.Tick{})
				record = answer(c, record)
				if _, ok := c.h.Valid(c.now); ok && active != nil {
					return nil, fmt.Errorf("%v and %v are active", active.self, c.self)
				} else if ok {
					active = c
				}
			}
		}
		if active == nil || gone[active] {
			return nil, errors.New("no coordinator is active")
		}
		return active, nil
	}
	active, err := run(5 * time.Second)
	for _, i := range ends {
		if err != nil {
			return err
		}
		if active != all[i] {
			return fmt.Errorf("%v is active, want %v", active.self, all[i].self)
		}
		end(all[i])
		record = answer(all[i], record)
		gone[all[i]], all[i] = true, nil
		for rank, at := 0, i+1; at < n; at++ {
			all[at].step(lease.SetRank{Rank: rank})
			record = answer(all[at], record)
			rank++
		}
		active, err = run(5 * time.Second)
	}
	return err
}

// answer answers a candidate from the record, and returns the record that is stored then.
func answer(c *candidate, record lease.Record) lease.Record {
	for {
		out := c.out
		c.out = nil
		asked := false
		for _, o := range out {
			switch o := o.(type) {
			case lease.Get:
				c.step(lease.Got{Request: o.Request, Record: record})
				asked = true
			case lease.Swap:
				outcome := lease.Conflict
				if o.Old == record {
					record, outcome = o.New, lease.Done
				}
				c.step(lease.Swapped{Request: o.Request, Outcome: outcome})
				asked = true
			}
		}
		if !asked {
			return record
		}
	}
}

// leaseInterval: the time between two renewals.
func leaseInterval(raw []byte) error {
	var v struct {
		Name string
		Want int64 `json:"expect_ms"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	number := func(name string) (time.Duration, bool) {
		m := regexp.MustCompile(name + ` (\d+) s`).FindStringSubmatch(v.Name)
		if m == nil {
			return 0, false
		}
		n, _ := strconv.Atoi(m[1])
		return time.Duration(n) * time.Second, true
	}
	c := newCandidate(1, func(cfg *lease.Config) {
		cfg.Jitter = 0
		if d, ok := number("timeout"); ok {
			cfg.TTL, cfg.Margin = d, d/100
		}
		if d, ok := number("interval"); ok {
			cfg.RenewEvery = d
		}
	})
	if err := acquire(c); err != nil {
		return err
	}
	began := c.now
	pass[lease.Swap](c, time.Minute, lease.Record{})
	if got := c.now.Sub(began).Milliseconds(); got != v.Want {
		return fmt.Errorf("renews after %d ms, want %d", got, v.Want)
	}
	return nil
}

// proxyBuffer: which commands are dropped while no receiver is known.
func proxyBuffer(raw []byte) error {
	var v struct {
		Size     int `json:"buffer_size"`
		Messages int `json:"messages_before_identified"`
		Expect   string
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	var want []int
	switch dropped, _, _ := strings.Cut(v.Expect, " dropped"); dropped {
	case "first message":
		want = []int{1}
	default:
		for _, text := range strings.Split(strings.TrimPrefix(dropped, "messages "), ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			want = append(want, n)
		}
	}
	if got := rejected(v.Size, v.Messages); !slices.Equal(got, want) {
		return fmt.Errorf("turned away: %v, want %v", got, want)
	}
	return nil
}
