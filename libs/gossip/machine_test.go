package gossip

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// lab steps one machine and keeps what came out of the last step.
type lab struct {
	*testing.T
	m   *Machine
	now time.Time
	out []Output
}

var (
	self  = sharding.NodeID{Addr: "a:1", UID: 1}
	other = sharding.NodeID{Addr: "b:1", UID: 2}
)

func newLab(t *testing.T, seeds ...string) *lab {
	cfg := DefaultConfig()
	cfg.Self, cfg.Seeds = self, seeds
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, m: New(cfg), now: time.Unix(1_000_000, 0)}
	l.step(Start{})
	return l
}

// newPair is a cluster of this node and other, both up.
func newPair(t *testing.T) *lab {
	l := newLab(t)
	l.m.seq = 10 // as if others had been here before
	l.receive(other, Join{Name: "other"})
	if _, ok := sent[Welcome](l, other); !ok {
		t.Fatal("not welcomed")
	}
	l.receive(other, GossipStatus{Cluster: l.m.state.Cluster, Digest: l.m.digest})
	l.pass(100 * time.Millisecond)
	if mem, _ := l.m.state.Member(other); mem == nil || mem.Status != Up {
		t.Fatalf("%v is not up: %+v", other, l.m.state)
	}
	return l
}

func (l *lab) step(in Input) {
	l.Helper()
	l.out = l.m.Step(l.now, in, nil)
	if err := l.m.Check(); err != nil {
		l.Fatalf("after %T: %v", in, err)
	}
}

func (l *lab) receive(from sharding.NodeID, msg Msg) {
	l.Helper()
	l.step(Receive{From: from, To: self, Msg: msg})
}

// pass lets time pass in ticks, and keeps all that comes out.
func (l *lab) pass(d time.Duration) {
	l.Helper()
	var all []Output
	for end := l.now.Add(d); l.now.Before(end); {
		l.now = l.now.Add(100 * time.Millisecond)
		l.step(Tick{})
		all = append(all, l.out...)
	}
	l.out = all
}

// sent is the last message of a type to a node in the outputs.
func sent[M Msg](l *lab, to sharding.NodeID) (M, bool) {
	var last M
	found := false
	for _, o := range l.out {
		if s, ok := o.(Send); ok && s.To == to {
			if m, ok := s.Msg.(M); ok {
				last, found = m, true
			}
		}
	}
	return last, found
}

func happened[E Event](l *lab) bool {
	for _, o := range l.out {
		if _, ok := o.(E); ok {
			return true
		}
	}
	return false
}

func (l *lab) reachable(n sharding.NodeID) bool { return l.m.state.Reach.Of(self, n) == Reachable }

func TestRepliesFromBeforeTheEvidenceProveNothing(t *testing.T) {
	l := newPair(t)
	l.pass(time.Second)
	beat, ok := sent[Heartbeat](l, other)
	if !ok {
		t.Fatal("no heartbeat")
	}
	l.step(Evidence{Node: other})
	l.receive(other, HeartbeatReply{beat.Seq}) // was in progress
	l.pass(100 * time.Millisecond)
	if l.reachable(other) {
		t.Error("a reply from before the evidence outweighs it")
	}
	l.pass(time.Second)
	beat, _ = sent[Heartbeat](l, other)
	l.receive(other, HeartbeatReply{beat.Seq})
	l.pass(100 * time.Millisecond)
	if !l.reachable(other) {
		t.Error("a newer reply does not outweigh it")
	}
}

func TestOnlyFreshRepliesReplaceAnIncarnation(t *testing.T) {
	earlier := sharding.NodeID{Addr: other.Addr, UID: 77}
	l := newPair(t)
	l.pass(time.Second)
	beat, _ := sent[Heartbeat](l, other)
	l.receive(earlier, HeartbeatReply{Seq: 1})
	if happened[NewIncarnation](l) {
		t.Error("a reply to a heartbeat from before the member was known replaces it")
	}
	l.receive(other, HeartbeatReply{beat.Seq})
	l.receive(earlier, HeartbeatReply{beat.Seq})
	if happened[NewIncarnation](l) {
		t.Error("a member that answered the same heartbeat is replaced")
	}
	l.pass(time.Second)
	beat, _ = sent[Heartbeat](l, other)
	l.receive(earlier, HeartbeatReply{beat.Seq})
	if !happened[NewIncarnation](l) || !happened[MemberDowned](l) {
		t.Error("a fresh reply of another incarnation does not replace the member")
	}
}

func TestRepeatedRepliesAreNoSignsOfLife(t *testing.T) {
	l := newPair(t)
	l.pass(time.Second)
	beat, _ := sent[Heartbeat](l, other)
	for range 100 {
		l.receive(other, HeartbeatReply{beat.Seq})
		l.pass(100 * time.Millisecond)
	}
	if l.reachable(other) {
		t.Error("one reply, repeated for 10 s, keeps a node reachable")
	}
}

// TestAnswersOfHeartbeats: a patient heartbeat is answered with the next one in the other direction. Such an answer
// counts twice at most, and what comes at the same moment counts once.
func TestAnswersOfHeartbeats(t *testing.T) {
	l := newPair(t)
	every := l.m.cfg.Watch.Interval
	l.pass(every)
	beat, _ := sent[Heartbeat](l, other)
	if beat.Patience != every || beat.Answer != 0 {
		t.Errorf("the first heartbeat is %+v", beat)
	}
	answers := func(h Heartbeat) bool {
		l.receive(other, h)
		_, ok := sent[HeartbeatReply](l, other)
		return ok
	}
	if !answers(Heartbeat{Seq: 5}) || !answers(Heartbeat{Seq: 6, Patience: every - 1}) {
		t.Error("a heartbeat that needs its answer sooner is not answered at once")
	}
	if answers(Heartbeat{Seq: 8, Patience: every}) || answers(Heartbeat{Seq: 7, Patience: every}) {
		t.Error("a patient heartbeat is answered at once")
	}
	l.pass(every)
	if beat, _ = sent[Heartbeat](l, other); beat.Answer != 8 {
		t.Errorf("the heartbeat is %+v, want the answer to 8", beat)
	}
	answers(Heartbeat{Seq: 9})
	l.pass(every)
	if beat, _ = sent[Heartbeat](l, other); beat.Answer != 0 {
		t.Errorf("9 was answered at once, and is answered again: %+v", beat)
	}

	p := l.m.peer(other)
	counts := func(seq uint64) bool {
		l.now = l.now.Add(time.Nanosecond)
		l.receive(other, Heartbeat{Seq: 20, Patience: every, Answer: seq})
		return p.detector.Last().Equal(l.now)
	}
	if !counts(beat.Seq) {
		t.Error("an answer does not count")
	}
	if counts(beat.Seq) {
		t.Error("an answer counts a second time at the same moment")
	}
	l.pass(every / 2)
	if !counts(beat.Seq) {
		t.Error("an answer does not count a second time")
	}
	l.pass(every / 2)
	if counts(beat.Seq) {
		t.Error("an answer counts a third time")
	}
	if counts(1 << 40) {
		t.Error("the answer to a heartbeat that was not sent counts")
	}
	l.step(Evidence{Node: other})
	if !answers(Heartbeat{Seq: 30, Patience: every}) {
		t.Error("a node that seems gone waits for its answer")
	}
	l.pass(every)
	if beat, _ = sent[Heartbeat](l, other); beat.Patience != 0 {
		t.Error("a node that seems gone may wait with its answer")
	}
}

// TestSuspectsAreAnsweredAtOnce: a member that is suspected may be back, and the sooner it shows on both sides, the better.
func TestSuspectsAreAnsweredAtOnce(t *testing.T) {
	l := newPair(t)
	l.pass(8 * time.Second)
	if l.reachable(other) {
		t.Fatal("a silent member is not suspected")
	}
	l.receive(other, Heartbeat{Seq: 5, Patience: l.m.cfg.Watch.Interval})
	if _, ok := sent[HeartbeatReply](l, other); !ok {
		t.Error("the heartbeat of a suspected member waits for its answer")
	}
}

// TestLocalHealth: a node suspects itself when all its peers fall silent at once, and not while each answers in every
// interval.
func TestLocalHealth(t *testing.T) {
	l := newPair(t)
	peers := []sharding.NodeID{other, {Addr: "c:1", UID: 3}, {Addr: "d:1", UID: 4}}
	for _, p := range peers[1:] {
		l.receive(p, Join{})
	}
	every := l.m.cfg.Watch.Interval
	for range 60 {
		l.pass(every / 10)
		out := l.out
		for _, p := range peers {
			l.out = out
			if beat, ok := sent[Heartbeat](l, p); ok {
				l.receive(p, Heartbeat{Seq: beat.Seq, Patience: every, Answer: beat.Seq})
			}
		}
	}
	if l.m.localHealth != 0 {
		t.Errorf("local health %d while all answer", l.m.localHealth)
	}
	l.pass(3 * every)
	if l.m.localHealth == 0 {
		t.Error("all peers are silent, and this node does not suspect itself")
	}
}

func TestJoinerThatNeverAnswersIsRemoved(t *testing.T) {
	l := newLab(t)
	l.receive(other, Join{})
	l.pass(30 * time.Second)
	if _, ok := l.m.state.Member(other); ok || !l.m.state.IsRemoved(other) {
		t.Errorf("members are %v", l.m.state.Members)
	}
	l.receive(other, Join{})
	if _, ok := sent[NotMember](l, other); !ok {
		t.Error("a removed node is not told so when it asks again")
	}
}

func TestJoinerWaitsForItsOldIncarnation(t *testing.T) {
	l := newPair(t)
	joiner := sharding.NodeID{Addr: other.Addr, UID: 77}
	l.receive(joiner, Join{})
	if _, ok := l.m.state.Member(joiner); ok {
		t.Error("two incarnations are members at one address")
	}
	beat, ok := sent[Heartbeat](l, other)
	if !ok {
		t.Fatal("no member asks who lives there")
	}
	l.receive(joiner, HeartbeatReply{beat.Seq})
	l.pass(200 * time.Millisecond)
	l.receive(joiner, Join{})
	if _, ok := sent[Welcome](l, joiner); !ok {
		t.Error("not let in although the old incarnation is gone")
	}
}

// While a member is unreachable, none is removed, so that a node which starts
// again and again leaves several incarnations behind. Each is replaced.
func TestJoinerReplacesEveryOldIncarnation(t *testing.T) {
	l := newPair(t)
	l.receive(sharding.NodeID{Addr: "silent:1", UID: 99}, Join{})
	old := other
	for uid := other.UID + 1; uid < other.UID+4; uid++ {
		joiner := sharding.NodeID{Addr: other.Addr, UID: uid}
		l.receive(joiner, Join{})
		beat, ok := sent[Heartbeat](l, old)
		if !ok {
			t.Fatalf("no member asks whether %v still lives there", old)
		}
		l.receive(joiner, HeartbeatReply{beat.Seq})
		if mem, ok := l.m.state.Member(old); !ok || mem.Status != Down {
			t.Fatalf("%v is %+v, and another one answers at its address", old, mem)
		}
		l.pass(200 * time.Millisecond)
		l.receive(joiner, Join{})
		if _, ok := sent[Welcome](l, joiner); !ok {
			t.Fatalf("%v is not let in although %v is gone", joiner, old)
		}
		l.pass(time.Second)
		old = joiner
	}
}

func TestSignOfAClusterDelaysFormingOne(t *testing.T) {
	l := newLab(t, self.Addr, other.Addr)
	l.pass(4 * time.Second)
	l.receive(other, InitJoinAck{})
	l.pass(4500 * time.Millisecond)
	if l.m.View().InCluster {
		t.Error("formed a cluster less than 5 s after a sign of one")
	}
	l.pass(time.Second)
	if !l.m.View().InCluster {
		t.Error("formed none although all signs ended")
	}
}

func TestNacksMustComeFromAllSeeds(t *testing.T) {
	l := newLab(t, self.Addr, other.Addr, "c:1")
	l.receive(other, InitJoinNack{})
	l.receive(other, InitJoinNack{})
	l.receive(sharding.NodeID{Addr: "stranger:1", UID: 9}, InitJoinNack{})
	l.pass(2 * time.Second)
	if l.m.View().InCluster {
		t.Fatal("formed a cluster without the answer of a seed")
	}
	l.receive(sharding.NodeID{Addr: "c:1", UID: 3}, InitJoinNack{})
	l.pass(200 * time.Millisecond)
	if !l.m.View().InCluster {
		t.Error("did not form a cluster although no node knows one")
	}
}

// A restarted node hears from members that still mean the one before it.
func TestMessagesToTheOldIncarnationShowTheCluster(t *testing.T) {
	l := newLab(t, self.Addr, other.Addr)
	l.step(Receive{From: other, To: sharding.NodeID{Addr: self.Addr, UID: 99}, Msg: Heartbeat{Seq: 5}})
	if r, ok := sent[HeartbeatReply](l, other); !ok || r.Seq != 5 {
		t.Error("the sender does not learn who lives here")
	}
	if _, ok := sent[InitJoin](l, other); !ok {
		t.Error("does not ask for the cluster")
	}
	l.receive(other, InitJoinAck{})
	if _, ok := sent[Join](l, other); !ok {
		t.Error("does not ask to be let in")
	}
}

func TestUnknownMemberOfTheSameClusterIsLearned(t *testing.T) {
	l := newLab(t)
	l.receive(other, InitJoinAck{l.m.state.seniority()})
	if _, ok := sent[GossipStatus](l, other); !ok {
		t.Error("no exchange with a member that was let in elsewhere")
	}
}

func TestExcludedNodesAreIgnored(t *testing.T) {
	l := newPair(t)
	theirs := l.m.state
	l.step(DownNode{other})
	was := l.m.digest
	theirs = theirs.with(Member{Node: sharding.NodeID{Addr: "c:1", UID: 3}, Status: Joining})
	for _, msg := range []Msg{theirs.whole(), GossipStatus{Cluster: theirs.Cluster}, Heartbeat{Seq: 1}, Join{}, ExitingConfirmed{}} {
		l.receive(other, msg)
		if _, ok := sent[NotMember](l, other); !ok || len(l.out) != 1 {
			t.Errorf("%T is answered %v", msg, l.out)
		}
	}
	if l.m.digest != was {
		t.Error("an outcast changed the state")
	}
}

func TestOtherClustersAreNotMixed(t *testing.T) {
	l := newPair(t)
	was := l.m.digest
	foreign := l.m.state
	foreign.Cluster.Founded++
	l.receive(other, foreign.whole())
	if _, ok := sent[NotMember](l, other); !ok || l.m.digest != was {
		t.Error("gossip of another cluster is taken")
	}
}

func TestConvergenceIgnoresDownWhenNobodyIsUp(t *testing.T) {
	s := State{}
	s = s.with(Member{Node: self, Status: Joining})
	s = s.with(Member{Node: other, Status: Down})
	s.Seen = s.seenBy(self)
	if !s.converged(self, nil, s.suspects(self)) {
		t.Error("a joining node waits for a down one forever")
	}
	s = s.with(Member{Node: other, Status: Joining})
	if s.converged(self, nil, s.suspects(self)) {
		t.Error("a joining node does not wait for another one")
	}
}

func TestRemovedWhileExitingHasLeft(t *testing.T) {
	l := newPair(t)
	me, _ := l.m.state.Member(self)
	exiting := *me
	exiting.Status = Exiting
	theirs := l.m.state.with(exiting)
	l.receive(other, theirs.whole())
	if l.m.status() != Exiting {
		t.Fatalf("status is %v", l.m.status())
	}
	gone := theirs.without(self)
	l.receive(other, gone.whole())
	if !happened[Left](l) || happened[SelfDowned](l) {
		t.Errorf("removed while exiting: %v", l.out)
	}
}

// The pause of this process does not count against others.
func TestPauseDoesNotBringDowningForward(t *testing.T) {
	l := newPair(t)
	l.step(Evidence{other})
	l.pass(5 * time.Second)
	l.now = l.now.Add(time.Minute)
	l.step(Tick{})
	l.pass(4 * time.Second)
	if mem, _ := l.m.state.Member(other); mem == nil || mem.Status == Down {
		t.Error("downed early because of an own pause")
	}
	l.pass(2 * time.Second)
	if mem, _ := l.m.state.Member(other); mem != nil && mem.Status != Down {
		t.Error("never downed")
	}
}

func TestExitingIsRemovedWhenConfirmed(t *testing.T) {
	l := newPair(t)
	theirs := *must(l.m.state.Member(other))
	theirs.Status = Exiting
	state := l.m.state.with(theirs)
	state.Version = state.Version.Tick(other.UID)
	l.receive(other, state.whole())
	l.pass(300 * time.Millisecond)
	if _, ok := l.m.state.Member(other); !ok {
		t.Fatal("removed before it confirmed")
	}
	l.receive(other, ExitingConfirmed{})
	l.pass(200 * time.Millisecond)
	if _, ok := l.m.state.Member(other); ok {
		t.Error("not removed although it confirmed its exit")
	}
	if !happened[MemberRemoved](l) {
		t.Error("no event")
	}
}

func must[T any](v T, ok bool) T {
	if !ok {
		panic(fmt.Sprintf("no %T", v))
	}
	return v
}

func TestViewEventsDescribeTheMembership(t *testing.T) {
	l := newPair(t)
	l.step(Evidence{other})
	var kinds []string
	for _, e := range l.m.View().Events() {
		kinds = append(kinds, fmt.Sprintf("%T", e))
	}
	want := "[gossip.MemberUp gossip.MemberUp gossip.ReachabilityChanged gossip.ReachabilityChanged gossip.LeaderChanged]"
	if fmt.Sprint(kinds) != want {
		t.Errorf("got %v, want %s", kinds, want)
	}
}

func TestNothingHappensBeforeStartOrAfterTheEnd(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Self = self
	m := New(cfg)
	quiet := func(when string) {
		for _, in := range []Input{
			Tick{}, Receive{From: other, To: self, Msg: Heartbeat{Seq: 1}}, Receive{From: other, To: self, Msg: InitJoin{}},
			Evidence{other}, DownNode{self}, nil,
		} {
			if out := m.Step(time.Unix(1, 0), in, nil); len(out) != 0 {
				t.Errorf("%s, %T gives %v", when, in, out)
			}
		}
	}
	quiet("before the start")
	m.Step(time.Unix(1, 0), Start{}, nil)
	m.Step(time.Unix(1, 0), DownNode{self}, nil)
	quiet("after the end")
}

// Two nodes with the same state stop talking about it once both know that the
// other has seen it.
func TestAgreementIsSilent(t *testing.T) {
	l := newPair(t)
	s := l.m.state
	s.Seen = s.seenBy(self, other)
	l.receive(other, GossipStatus{Cluster: s.Cluster, Digest: l.m.digest, Seen: s.seenBy(other)})
	if st, ok := sent[GossipStatus](l, other); !ok || !st.Seen.Includes(s.Seen) {
		t.Errorf("the other does not learn that this node has seen it: %v", l.out)
	}
	for _, msg := range []Msg{s.whole(), GossipStatus{Cluster: s.Cluster, Digest: l.m.digest, Seen: s.Seen}} {
		if l.receive(other, msg); len(l.out) != 0 {
			t.Errorf("%T is answered %v", msg, l.out)
		}
	}
}

// Gossip that waited too long is dropped, heartbeats never are.
func TestGossipExpires(t *testing.T) {
	l := newPair(t)
	theirs := l.m.state.with(Member{Node: sharding.NodeID{Addr: "c:1", UID: 3}, Status: Joining})
	late := l.m.cfg.GossipTTL + time.Millisecond
	was := l.m.digest
	l.step(Receive{From: other, To: self, Msg: theirs.whole(), Waited: late})
	if l.m.digest != was || !happened[Expired](l) {
		t.Error("late gossip is taken")
	}
	l.step(Receive{From: other, To: self, Msg: Heartbeat{Seq: 1}, Waited: late})
	if _, ok := sent[HeartbeatReply](l, other); !ok {
		t.Error("a late heartbeat is not answered")
	}
	l.step(Receive{From: other, To: self, Msg: theirs.whole(), Waited: late - time.Millisecond})
	if l.m.digest == was {
		t.Error("gossip in time is not taken")
	}
}
