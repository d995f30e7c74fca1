package bounded_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/test/archtest"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	clusterv1 "github.com/roost-cluster/roost/proto/roost/cluster/v1"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// strict leaves 16 KiB of the memory that archtest allows for everything else.
var strict = bounded.Limits{Body: 64 << 20, Slack: archtest.MemoryBase - 16<<10}

// kinds are messages with lists and nested lists.
var kinds = []proto.Message{
	&clusterv1.PostRequest{}, &controlv1.CallResponse{}, &controlv1.TableChanged{}, &controlv1.SendRequest{},
	&controlv1.Register{}, &gatewayv1.AskManyRequest{}, &adminv1.MembersResponse{},
}

// dense returns messages that take far more memory than they have bytes: long lists of the
// shortest elements, and unknown fields.
func dense(kind protoreflect.MessageDescriptor) [][]byte {
	out := [][]byte{
		bytes.Repeat(protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1), 5000),
		bytes.Repeat(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1), 5000),
	}
	for i := range kind.Fields().Len() {
		f := kind.Fields().Get(i)
		if f.Message() == nil && !f.IsList() {
			continue
		}
		elements := [][]byte{nil}
		if f.Message() != nil {
			elements = append(elements, dense(f.Message())...)
			for j := range f.Message().Fields().Len() { // a message in each element
				elements = append(elements, protowire.AppendBytes(protowire.AppendTag(nil, f.Message().Fields().Get(j).Number(), protowire.BytesType), nil))
			}
		}
		for _, e := range elements {
			one := protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), e)
			out = append(out, bytes.Repeat(one, 1+20_000/len(one)))
		}
	}
	return out
}

// TestDense: whatever passes takes no more memory than allowed, and of each kind some
// messages are refused.
func TestDense(t *testing.T) {
	for _, m := range kinds {
		refused := 0
		for _, raw := range dense(m.ProtoReflect().Descriptor()) {
			if errors.Is(strict.Check(raw, m.ProtoReflect().Descriptor()), bounded.ErrTooLarge) {
				refused++
			}
			decode(t, m, raw)
		}
		if refused == 0 {
			t.Errorf("nothing dense of %s is refused", m.ProtoReflect().Descriptor().FullName())
		}
	}
}

// decode checks and decodes as all of Roost does, within archtest's limit.
func decode(t *testing.T, m proto.Message, raw []byte) {
	t.Helper()
	kind := m.ProtoReflect().Descriptor()
	archtest.Memory(t, archtest.MemoryFactor, len(raw), func() {
		if strict.Check(raw, kind) == nil {
			_ = proto.Unmarshal(raw, proto.Clone(m))
		}
	})
	if n := testing.AllocsPerRun(1, func() { _ = strict.Check(raw, kind) }); n > 20 {
		t.Errorf("checking %d bytes allocates %v times", len(raw), n)
	}
}

// FuzzCheck: whatever passes is decoded within archtest's limit, and nothing that can be
// decoded is refused as malformed.
func FuzzCheck(f *testing.F) {
	for i, m := range kinds {
		for _, raw := range dense(m.ProtoReflect().Descriptor()) {
			f.Add(uint8(i), raw[:min(len(raw), 4096)])
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, raw []byte) {
		m := kinds[int(kind)%len(kinds)]
		decode(t, m, raw)
		err := strict.Check(raw, m.ProtoReflect().Descriptor())
		if unmarshalled := proto.Unmarshal(raw, proto.Clone(m)); unmarshalled == nil && err != nil && !errors.Is(err, bounded.ErrTooLarge) {
			t.Errorf("%x is refused: %v", raw, err)
		}
	})
}

// TestHonest: the largest messages that services send pass with the default slack, even
// with short names.
func TestHonest(t *testing.T) {
	node := &controlv1.Node{Addr: "10.0.0.1:25520", Uid: 1 << 63}
	row := &controlv1.Row{Type: "T", Index: 7, Epoch: 1<<32 | 1, Phase: 2, Owner: node}
	shard := &controlv1.Shard{Type: "Cart", Index: 700}
	started := &controlv1.Message{Kind: &controlv1.Message_ShardStarted{ShardStarted: &controlv1.ShardStarted{Shard: shard, Epoch: 1<<32 | 1}}}
	host := &controlv1.Message{Kind: &controlv1.Message_HostShard{HostShard: &controlv1.HostShard{Term: 1, Shard: shard, Epoch: 1<<32 | 1}}}
	commands := make([]*controlv1.Command, 1024)
	for i := range commands {
		commands[i] = &controlv1.Command{Name: "Add", ReadOnly: true}
	}
	member := &clusterv1.Node{Addr: "10.0.0.1:25520", Uid: 1 << 63}
	seen := bytes.Repeat([]byte{0xff}, 125)
	clock := slices.Repeat([]*clusterv1.ClockEntry{{Uid: 1 << 63, Count: 300}}, 1000)
	state := &clusterv1.State{Version: clock, Seen: seen}
	for range 1000 {
		state.Members = append(state.Members, &clusterv1.Member{Node: member, Name: "r-1", Roles: []string{"region"}, Status: 2, UpNumber: 3})
		state.Observers = append(state.Observers, &clusterv1.Observer{Node: member, Version: 7, Observations: slices.Repeat(
			[]*clusterv1.Observation{{Subject: member, Verdict: 1, Version: 9}}, 30)})
	}
	for range 10_000 {
		state.Tombstones = append(state.Tombstones, &clusterv1.Tombstone{Node: member, Era: 1 << 40})
	}
	for name, m := range map[string]proto.Message{
		"a full table":         &controlv1.TableChanged{Rows: slices.Repeat([]*controlv1.Row{row}, 262_144)},
		"reports":              &controlv1.SendRequest{Messages: slices.Repeat([]*controlv1.Message{started}, 8192)},
		"orders":               &controlv1.SendRequest{Messages: slices.Repeat([]*controlv1.Message{host}, 8192)},
		"a type's commands":    &controlv1.Register{Types: []*controlv1.Type{{Name: "T", Shards: 1024, Commands: commands}}},
		"a status":             &clusterv1.GossipStatus{Seen: seen, Parts: slices.Repeat([]uint32{1 << 31}, 256)},
		"a state":              state,
		"many short questions": &gatewayv1.AskManyRequest{Items: slices.Repeat([]*gatewayv1.AskRequest{{Type: "T", Id: "a", Command: "Get"}}, 3000)},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		limits := bounded.Limits{Body: 64 << 20}
		if err := limits.Check(raw, m.ProtoReflect().Descriptor()); err != nil {
			t.Errorf("%s is refused: %v", name, err)
		}
	}
}

func TestLists(t *testing.T) {
	limits := bounded.Limits{Body: 1 << 20, Lists: map[protoreflect.FullName]int{"roost.cluster.v1.State.members": 3}}
	for n, want := range map[int]bool{0: true, 3: true, 4: false} {
		state := &clusterv1.State{Members: slices.Repeat([]*clusterv1.Member{{}}, n), Tombstones: make([]*clusterv1.Tombstone, 9)}
		req := &clusterv1.PostRequest{Messages: []*clusterv1.Message{
			{Kind: &clusterv1.Message_Heartbeat{Heartbeat: &clusterv1.Heartbeat{}}},
			{Kind: &clusterv1.Message_Welcome{Welcome: &clusterv1.Welcome{State: state}}},
		}}
		raw, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		err = limits.Check(raw, req.ProtoReflect().Descriptor())
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "more than 3 elements") {
			t.Errorf("%d members: %v", n, err)
		}
	}
}
