package outbox_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

var typeC = outbox.Type{Type: "C", Shards: shards}

// away is a model whose targets are away, with the number of attempts for each of them.
type away struct {
	*model
	on       bool
	attempts map[sharding.Entity]int
	delay    time.Duration // of refusals
}

// newAway lets an entity send to 50 targets, and waits until all have failed and are retried in minutes.
func newAway(t testing.TB, change func(*outbox.Config)) *away {
	m := &away{newModel(t, 3, func(c *outbox.Config) {
		c.RetryMin, c.RetryMax = 10*time.Minute, 20*time.Minute
		if change != nil {
			change(c)
		}
	}), true, map[sharding.Entity]int{}, 0}
	m.behave = func(env *sharding.Envelope) (b behaviour) {
		m.attempts[env.Entity]++
		if m.on {
			b.reply, b.delay = sharding.Reject(sharding.Unavailable, "away"), m.delay
		}
		return b
	}
	m.own()
	m.run(time.Second)
	for n := range 50 {
		m.send(entity("A", 1), true, command(entity("A", 1), entity("C", n), 1, ""))
	}
	m.run(2 * time.Second)
	return m
}

// since returns the number of attempts for entities of a shard, and for others, since they were counted last.
func (m *away) since(shard uint32) (of, others int) {
	for e, n := range m.attempts { // order-free: sums
		if shardingtest.ShardOf(e.ID, shards) == shard {
			of += n
		} else {
			others += n
		}
	}
	clear(m.attempts)
	return of, others
}

// servedAnew: what fails is retried at once when the shard of its target is served anew, and nothing else is.
func servedAnew(t testing.TB) {
	m := newAway(t, nil)
	m.since(1)
	m.on = false
	pending := m.unended()
	m.step(outbox.Served{Type: typeC, Shards: []uint32{1}})
	m.run(200 * time.Millisecond)
	if of, others := m.since(1); of == 0 || others > 0 || m.unended() != pending-of {
		t.Errorf("%d attempts for the shard, %d others; %d sends have not ended, %d before", of, others, m.unended(), pending)
	}
	checkEffects(t, m.model, 3)
}

func TestServedAnew(t *testing.T) { servedAnew(t) }

// earlyBounds: of a pair there is one early retry per second, however often its shard is served anew, and the pause
// is not reset.
func earlyBounds(t testing.TB) {
	m := newAway(t, func(c *outbox.Config) { c.Deliveries = 4 })
	m.since(1)
	for range 30 {
		m.step(outbox.Served{Type: typeC, Shards: []uint32{0, 1, 2}})
		m.run(100 * time.Millisecond)
	}
	of, others := m.since(1)
	if n := of + others; n < 100 || n > 50*4 {
		t.Errorf("%d attempts for 50 targets in 3 s, want one for each and second", n)
	}
	if m.most > 4 {
		t.Errorf("%d deliveries at a time", m.most)
	}
	m.run(2 * time.Second) // attempts that began within a second after the last event count as well
	m.since(1)
	m.run(20 * time.Second)
	if of, others := m.since(1); of+others > 0 {
		t.Errorf("%d attempts in the pauses", of+others)
	}
}

func TestEarlyBounds(t *testing.T) { earlyBounds(t) }

// inFlight: the answer to an attempt that began before the event, or shortly after it, may come from a process that does
// not know of the event. The pair is retried.
func inFlight(t testing.TB) {
	m := newAway(t, nil)
	m.delay = 3 * time.Second
	m.step(outbox.Served{Type: typeC, Shards: []uint32{0, 1, 2}})
	m.run(2 * time.Second)
	m.on = false
	m.step(outbox.Served{Type: typeC, Shards: []uint32{0, 1, 2}})
	m.run(1500 * time.Millisecond)
	if n := m.unended(); n > 0 {
		t.Errorf("%d sends have not ended", n)
	}
	m = newAway(t, nil)
	m.step(outbox.Served{Type: typeC, Shards: []uint32{0, 1, 2}})
	m.run(500 * time.Millisecond)
	m.on = false
	m.run(800 * time.Millisecond)
	if n := m.unended(); n > 0 {
		t.Errorf("%d sends to targets that are ready half a second after the event have not ended", n)
	}
}

func TestEarlyInFlight(t *testing.T) { inFlight(t) }

// released: sends to an entity are retried at once when it is no longer quarantined.
func released(t testing.TB) {
	m := newAway(t, nil)
	m.since(1)
	m.on = false
	pending := m.unended()
	m.step(outbox.Released{Type: typeC, IDs: []sharding.EntityID{"e7", "e9"}})
	m.run(200 * time.Millisecond)
	if m.attempts[entity("C", 7)] != 1 || m.attempts[entity("C", 9)] != 1 || len(m.attempts) != 2 || m.unended() != pending-2 {
		t.Errorf("attempts: %v; %d sends have not ended, %d before", m.attempts, m.unended(), pending)
	}
}

func TestReleased(t *testing.T) { released(t) }

// TestRetry: an operator retries sends, all of a sender, or to a target or its type.
func TestRetry(t *testing.T) {
	for _, x := range []struct {
		of, to sharding.Entity
		want   int
	}{
		{sharding.Entity{}, sharding.Entity{}, 50}, {entity("A", 1), sharding.Entity{}, 50}, {entity("A", 2), sharding.Entity{}, 0},
		{sharding.Entity{Type: "A"}, sharding.Entity{Type: "C"}, 50}, {sharding.Entity{}, sharding.Entity{Type: "B"}, 0}, {sharding.Entity{}, entity("C", 4), 1},
	} {
		m := newAway(t, nil)
		m.on = false
		pending := m.unended()
		var out outbox.Outputs
		n := m.d.Retry(m.now, x.of, x.to, &out)
		m.did(&out)
		m.run(200 * time.Millisecond)
		if n != x.want || m.unended() != pending-n {
			t.Errorf("of %q to %q: %d retried, want %d; %d sends have not ended, %d before", x.of, x.to, n, x.want, m.unended(), pending)
		}
	}
}
