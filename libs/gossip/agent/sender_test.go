package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	pb "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

// TestInTheNameOfAMember: a sender is compared with the member in whose name it posts, and with the member that it wants
// to join as.
func TestInTheNameOfAMember(t *testing.T) {
	core := gossip.DefaultConfig()
	core.Self, core.Name, core.Roles = sharding.NodeID{Addr: "c:1", UID: 1}, "coordinator-1", []string{"coordinator"}
	core.Seeds = []string{"c:1"}
	regionA := func(_ context.Context, name string, roles []string) error {
		if name != "" && name != "region-a" || slices.Contains(roles, "coordinator") {
			return errors.New("the certificate is for region-a")
		}
		return nil
	}
	a, err := New(Config{Core: core, Cluster: "dev", MaySpeakAs: regionA})
	if err != nil {
		t.Fatal(err)
	}
	a.step(gossip.Start{}) // it forms a cluster of itself
	stranger := &pb.Node{Addr: "r:1", Uid: 2}
	post := func(from *pb.Node, messages ...*pb.Message) error {
		_, err := service{a}.Post(t.Context(), &pb.PostRequest{Cluster: "dev", From: from, Messages: messages})
		return err
	}
	heartbeat := &pb.Message{ToUid: 1, Kind: &pb.Message_Heartbeat{Heartbeat: &pb.Heartbeat{Seq: 1}}}
	join := func(name string, roles ...string) *pb.Message {
		return &pb.Message{ToUid: 1, Kind: &pb.Message_Join{Join: &pb.Join{Name: name, Roles: roles}}}
	}
	for _, c := range []struct {
		name     string
		from     *pb.Node
		messages []*pb.Message
		fine     bool
	}{
		{"a stranger", stranger, []*pb.Message{heartbeat}, true},
		{"the coordinator", toNode(core.Self), []*pb.Message{heartbeat}, false},
		{"joins as itself", stranger, []*pb.Message{join("region-a", "region")}, true},
		{"joins as another region", stranger, []*pb.Message{heartbeat, join("region-b", "region")}, false},
		{"joins as another region without role", stranger, []*pb.Message{join("region-b")}, false},
		{"joins as a coordinator", stranger, []*pb.Message{join("region-a", "coordinator", "region")}, false},
	} {
		err := post(c.from, c.messages...)
		if (err == nil) != c.fine || err != nil && !strings.Contains(err.Error(), "permission_denied") {
			t.Errorf("%s: %v", c.name, err)
		}
	}

	to := &sender{addr: core.Self.Addr}
	a.senders.byAddr[to.addr] = to
	to.unheard.Store(1)
	if err := post(&pb.Node{Addr: to.addr, Uid: 2}, heartbeat); err != nil || to.unheard.Load() != 1 {
		t.Errorf("a stranger with the address of a member counts as the member: %v", err)
	}
	a.cfg.MaySpeakAs = func(context.Context, string, []string) error { return nil }
	if err := post(toNode(core.Self), heartbeat); err != nil || to.unheard.Load() != 0 {
		t.Errorf("a member was not heard: %v", err)
	}
}
