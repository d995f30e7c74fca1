package outbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
)

// attempts counts the attempts of sends to absent targets, by target.
type attempts map[sharding.Entity][]time.Time

// newAttempts is a model whose targets are away. An attempt is refused after a while.
func newAttempts(t testing.TB, after time.Duration, change func(*outbox.Config)) (*model, attempts) {
	m, list := newModel(t, 8, change), attempts{}
	m.behave = func(env *sharding.Envelope) behaviour {
		list[env.Entity] = append(list[env.Entity], m.now)
		if after >= env.Deadline.Sub(m.now) {
			return behaviour{lost: true, before: true, delay: env.Deadline.Sub(m.now)}
		}
		return behaviour{reply: sharding.Reject(sharding.Unavailable, "away"), delay: after}
	}
	m.own()
	m.run(time.Second)
	return m, list
}

// with returns a send with options.
func with(s sharding.Send, o sharding.SendOptions) sharding.Send {
	s.Options = o
	return s
}

// ownOptions: the time-out, the pauses and the age of a send are its own; unset ones come from the Config.
func ownOptions(t testing.TB) {
	m, list := newAttempts(t, time.Hour, func(c *outbox.Config) {
		c.AttemptTimeout, c.RetryMin, c.RetryMax, c.MaxAge = 2*time.Second, time.Second, time.Second, time.Minute
	})
	from, usual, quick := entity("A", 1), entity("C", 1), entity("C", 2)
	own := sharding.SendOptions{Timeout: 20 * time.Second, RetryMin: 10 * time.Second, RetryMax: 10 * time.Second, MaxAge: 100 * time.Second}
	m.send(from, true, command(from, usual, 1, ""), with(command(from, quick, 1, ""), own))
	m.run(125 * time.Second)
	between := func(of sharding.Entity, least, most time.Duration) {
		for i := 1; i < len(list[of]); i++ {
			if d := list[of][i].Sub(list[of][i-1]); d < least || d > most {
				t.Errorf("%s between two attempts for %s, want %s to %s", d, of, least, most)
			}
		}
	}
	between(usual, 2500*time.Millisecond, 3100*time.Millisecond)
	between(quick, 25*time.Second, 30100*time.Millisecond)
	if len(list[usual]) < 18 || len(list[quick]) < 4 {
		t.Errorf("%d attempts within a minute, and %d within 100 s", len(list[usual]), len(list[quick]))
	}
	if len(m.dead) != 2 || !strings.Contains(m.dead[0].Message, "in 1m0s;") || m.dead[0].To != usual || !strings.Contains(m.dead[1].Message, "in 1m40s;") {
		t.Errorf("dead letters: %+v, want the one of %s after a minute, then the other one", m.dead, usual)
	}
}

func TestOwnOptions(t *testing.T) { ownOptions(t) }

// endsInPause: a send is given up when it is too old, although its next attempt would be much later, and an answer that
// its sender does not take is given up likewise.
func endsInPause(t testing.TB) {
	m, _ := newAttempts(t, time.Millisecond, func(c *outbox.Config) { c.TakeGrace = 5 * time.Second })
	from := entity("A", 1)
	own := sharding.SendOptions{RetryMin: time.Hour, RetryMax: time.Hour, MaxAge: 10 * time.Second}
	m.send(from, true, with(command(from, entity("C", 1), 1, ""), own))
	m.run(9900 * time.Millisecond)
	if len(m.dead) > 0 {
		t.Errorf("dead letters before the age: %+v", m.dead)
	}
	m.run(200 * time.Millisecond)
	if len(m.dead) != 1 {
		t.Errorf("%d dead letters when the send is too old, want 1", len(m.dead))
	}
	m.behave, m.untaken = nil, true
	m.send(from, true, with(command(from, entity("C", 2), 1, "told"), own))
	m.run(15200 * time.Millisecond)
	if len(m.dead) != 2 || !strings.Contains(m.dead[1].Message, "has not taken the answer in 15s") {
		t.Errorf("dead letters: %+v, want one whose answer was not taken", m.dead)
	}
}

func TestEndsInPause(t *testing.T) { endsInPause(t) }

// ageLimit: a send is tried no longer than its target remembers keys, whatever the send says.
func ageLimit(t testing.TB) {
	m, _ := newAttempts(t, time.Millisecond, func(c *outbox.Config) { c.MaxAge, c.AgeLimit = 10*time.Second, 20*time.Second })
	from := entity("A", 1)
	m.send(from, true, with(command(from, entity("C", 1), 1, ""), sharding.SendOptions{MaxAge: 1000 * time.Hour}))
	m.run(19 * time.Second)
	if len(m.dead) > 0 {
		t.Errorf("dead letters before the limit: %+v", m.dead)
	}
	m.run(2 * time.Second)
	if len(m.dead) != 1 {
		t.Errorf("%d dead letters after the limit, want 1", len(m.dead))
	}
}

func TestAgeLimit(t *testing.T) { ageLimit(t) }

// earlySlow: an attempt that takes as long as its send allows, and was in flight when its target became ready, is followed
// by an early retry, although other attempts end much sooner.
func earlySlow(t testing.TB) {
	m, list := newAttempts(t, 55*time.Second, func(c *outbox.Config) {
		c.AttemptTimeout, c.RetryMin, c.RetryMax = 2*time.Second, 10*time.Minute, 10*time.Minute
	})
	from, to := entity("A", 1), entity("C", 1)
	m.send(from, true, with(command(from, to, 1, ""), sharding.SendOptions{Timeout: time.Minute}))
	m.run(time.Second)
	m.step(outbox.Served{Type: typeC, Shards: []uint32{0, 1, 2}})
	m.run(57 * time.Second)
	if len(list[to]) != 2 {
		t.Errorf("%d attempts, want another one when the first has failed", len(list[to]))
	}
}

func TestEarlySlow(t *testing.T) { earlySlow(t) }

// TestUntil: operators see the time at which a failing send is given up.
func TestUntil(t *testing.T) {
	m, _ := newAttempts(t, time.Millisecond, nil)
	from := entity("A", 1)
	m.send(from, true, command(from, entity("C", 1), 1, ""), with(command(from, entity("C", 2), 1, ""), sharding.SendOptions{MaxAge: time.Hour}))
	sent := m.now
	m.run(time.Second)
	for _, f := range m.d.Failing(from, 10) {
		want := m.cfg.MaxAge
		if f.To == entity("C", 2) {
			want = time.Hour
		}
		if !f.Until.Equal(sent.Add(want)) {
			t.Errorf("the send to %s is tried until %s after it was sent, want %s", f.To, f.Until.Sub(sent), want)
		}
	}
	m.behave, m.untaken = nil, true
	m.send(from, true, with(command(from, entity("C", 3), 1, "told"), sharding.SendOptions{MaxAge: time.Hour}))
	sent = m.now
	m.run(time.Second)
	if f, ok := m.d.FailingOf(shardOf(from), from, entity("C", 3)); !ok || !f.Answer || !f.Until.Equal(sent.Add(time.Hour+m.cfg.TakeGrace)) {
		t.Errorf("the answer is tried until %s after the send", f.Until.Sub(sent))
	}
}
