package gossip

import (
	"bytes"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// patient is a provider with a memory: it decides at the third question.
type patient struct {
	asked int
	last  View
}

func (p *patient) Decide(_ time.Time, v View) Decision {
	p.asked, p.last = p.asked+1, v
	if p.asked == 3 {
		return Decision{Down: []sharding.NodeID{other}, Reason: "asked three times"}
	}
	return Decision{}
}

func (p *patient) Clone() Downing                           { c := *p; return &c }
func (p *patient) AppendState(b []byte, _ time.Time) []byte { return append(b, byte(p.asked)) }

// A provider of the user's own: the machine shows it the observations, keeps
// its memory apart in clones, and reports why it downed a member.
func TestDowningWithMemory(t *testing.T) {
	l := newPair(t)
	p := &patient{}
	l.m.cfg.Downing, l.m.downing = p, p.Clone()
	l.m.cfg.DowningInterval = 0 // asked at every tick
	l.step(Tick{})
	mine := func(m *Machine) *patient { return m.downing.(*patient) }
	if mine(l.m).asked != 0 {
		t.Error("asked while all is well")
	}
	held := Lease{Holder: other, Until: l.now.Add(time.Second)}
	l.step(held)
	l.step(Evidence{other})
	l.now = l.now.Add(time.Minute) // a pause
	l.step(Tick{})
	v := mine(l.m).last
	if len(v.Observations) != 1 || v.Observations[0] != (Observation{self, other}) || v.Lease != held || v.Paused < time.Minute {
		t.Errorf("it was shown %+v", v)
	}
	if me, _ := v.Member(self); !me.Seen {
		t.Error("this node has not seen its own state")
	}
	c := l.m.Clone()
	if !bytes.Equal(c.AppendState(nil), l.m.AppendState(nil)) {
		t.Error("a clone differs")
	}
	l.step(Tick{})
	if mine(c).asked != 1 || mine(l.m).asked != 2 || p.asked != 0 {
		t.Error("clones share the memory of the provider")
	}
	if bytes.Equal(c.AppendState(nil), l.m.AppendState(nil)) {
		t.Error("the memory of the provider is not a part of the state")
	}
	l.step(Tick{})
	if !happened[DowningDecided](l) || !happened[MemberRemoved](l) {
		t.Errorf("no member is downed: %v", l.out)
	}
}

// A member that becomes unreachable while another one already is, is shown as
// unreachable since then: otherwise it would be down at once.
func TestSecondUnreachable(t *testing.T) {
	l := newPair(t)
	third := sharding.NodeID{Addr: "third:1", UID: 3}
	l.receive(third, Join{Name: "third"})
	for _, n := range []sharding.NodeID{other, third} {
		l.receive(n, GossipStatus{Cluster: l.m.state.Cluster, Digest: l.m.digest, Seen: l.m.state.seenBy(n)})
	}
	l.pass(100 * time.Millisecond)
	if mem, _ := l.m.state.Member(third); mem == nil || mem.Status != Up {
		t.Fatalf("%v is not up: %+v", third, l.m.state)
	}
	silent := func(n sharding.NodeID) bool { m, _ := l.m.View().Member(n); return !m.Reachable }
	for !silent(other) || !silent(third) {
		l.pass(100 * time.Millisecond)
		if !silent(other) { // it falls silent later
			l.receive(third, HeartbeatReply{l.m.seq})
		}
		if happened[DowningDecided](l) {
			t.Fatalf("a member is down as soon as unreachable: %v", l.out)
		}
		for _, m := range l.m.View().Members {
			if !m.Reachable && m.UnreachableSince.IsZero() {
				t.Fatalf("it is unknown since when %v is unreachable", m.Node)
			}
		}
	}
}
