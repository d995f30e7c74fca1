package agent

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/archtest"
	"github.com/roost-cluster/roost/libs/vclock"
	pb "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

func samples() []gossip.Msg {
	a, b := sharding.NodeID{Addr: "a:1", UID: 1}, sharding.NodeID{Addr: "b:2", UID: 1 << 63}
	cluster := gossip.Founding{Founded: 1_700_000_000_000, Founder: 1}
	era := gossip.Era{Number: 3, By: 1 << 63, Before: 7}
	seniority := gossip.Seniority{Cluster: cluster, Era: era, OldestUp: 3, OldestNode: b}
	clock := gossip.Clock{vclock.Entry[sharding.NodeUID]{Node: 1, Count: 9}, {Node: 1 << 63, Count: 1 << 40}}
	state := gossip.State{
		Cluster: cluster, Era: era,
		Members: []*gossip.Member{
			{Node: a, Name: "coordinator-1", Roles: []string{"coordinator", "region"}, Status: gossip.Up, UpNumber: 3, HeardIn: 2},
			{Node: b, Status: gossip.Joining, Zone: "eu-1", Version: "1.2.3"},
			{Node: sharding.NodeID{Addr: "bb:2", UID: 6}, Status: gossip.WeaklyUp},
			{Node: sharding.NodeID{Addr: "c:3", UID: 3}, Status: gossip.Leaving, UpNumber: 4},
			{Node: sharding.NodeID{Addr: "d:3", UID: 4}, Status: gossip.Exiting, UpNumber: 5},
			{Node: sharding.NodeID{Addr: "e:3", UID: 5}, Status: gossip.Down, UpNumber: 6},
		},
		Reach: gossip.Reachability{
			{Node: a, Version: 7, Verdicts: []gossip.SubjectVerdict{
				{Subject: a, Verdict: gossip.Reachable, Version: 5},
				{Subject: b, Verdict: gossip.Terminated, Version: 7},
			}},
			{Node: b, Version: 2},
		},
		Tombstones: []gossip.Tombstone{{Node: sharding.NodeID{Addr: "z:1", UID: 8}, Era: 2}},
		Version:    clock,
		Seen:       gossip.Bits{3},
	}
	return []gossip.Msg{
		gossip.InitJoin{}, gossip.InitJoinAck{Seniority: seniority}, gossip.InitJoinNack{},
		gossip.Join{Name: "n", Roles: []string{"region"}, Zone: "z", Version: "2", Settings: []gossip.Setting{{Name: "a", Value: "b"}}, HeardIn: 1 << 40}, gossip.Welcome{State: state},
		gossip.GossipStatus{Cluster: cluster, Era: era, Digest: 1 << 63, Seen: gossip.Bits{1}, Parts: []uint32{1, 1 << 31}},
		gossip.Gossip{State: state, Digest: 7, Parts: 8, Which: gossip.Bits{0x81}, Answer: true}, gossip.Heartbeat{Seq: 5, Patience: 200 * time.Millisecond, Answer: 4}, gossip.HeartbeatReply{Seq: 6},
		gossip.JoinRefused{Reason: "full", Final: true}, gossip.LeaveRequest{}, gossip.ExitingConfirmed{}, gossip.NotMember{Seniority: seniority, Answer: true, Outdated: true, Era: seniority.Era},
	}
}

func TestMessagesSurviveTheWire(t *testing.T) {
	kinds := (&pb.Message{}).ProtoReflect().Descriptor().Oneofs().Get(0).Fields().Len()
	if got := len(samples()); got != kinds {
		t.Fatalf("%d samples for %d kinds of messages", got, kinds)
	}
	for _, msg := range samples() {
		raw, err := proto.Marshal(toMessage(42, msg))
		if err != nil {
			t.Fatal(err)
		}
		var m pb.Message
		if err := proto.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		back, err := fromMessage(&m)
		if err != nil || m.ToUid != 42 || !reflect.DeepEqual(back, msg) {
			t.Errorf("sent %+v, got %+v, error %v", msg, back, err)
		}
	}
}

// strict are the limits of a post, but for the slack, which is the general
// allowance less 16 KiB for everything else.
var strict = bounded.Limits{Body: 1 << 20, Slack: archtest.MemoryBase - 16<<10}

// read reads a message as it comes over the network.
func read(raw []byte) (gossip.Msg, error) {
	var m pb.Message
	if err := strict.Check(raw, m.ProtoReflect().Descriptor()); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	return fromMessage(&m)
}

// FuzzMessage: whatever comes from the wire is taken or refused, never a panic,
// and what is taken survives the way back.
func FuzzMessage(f *testing.F) {
	for _, msg := range append(samples(),
		gossip.GossipStatus{Parts: make([]uint32, 3000)},
		gossip.Gossip{State: gossip.State{Reach: slices.Repeat(gossip.Reachability{{}}, 3000)}},
		gossip.Welcome{State: gossip.State{Members: slices.Repeat([]*gossip.Member{{Status: gossip.Up}}, 3000)}},
	) {
		raw, err := proto.Marshal(toMessage(1, msg))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		archtest.Memory(t, archtest.MemoryFactor, len(raw), func() { _, _ = read(raw) })
		msg, err := read(raw)
		if err != nil {
			return
		}
		back, err := proto.Marshal(toMessage(1, msg))
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", msg, err)
		}
		if again, err := read(back); err != nil || !reflect.DeepEqual(again, msg) {
			t.Errorf("%+v comes back as %+v, error %v", msg, again, err)
		}
	})
}
