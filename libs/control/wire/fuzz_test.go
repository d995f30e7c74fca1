package wire_test

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/archtest"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

// strict are the limits of every request and answer, but for the slack, which is the
// general allowance less 16 KiB for everything else.
var strict = bounded.Limits{Body: 1 << 20, Slack: archtest.MemoryBase - 16<<10}

// read reads messages as they come over the network.
func read(raw []byte) ([]control.Message, error) {
	var w controlv1.SendRequest
	if err := strict.Check(raw, w.ProtoReflect().Descriptor()); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	msgs, _ := wire.DecodeAll(w.GetMessages())
	return msgs, nil
}

func write(msgs []control.Message) ([]byte, error) {
	return proto.Marshal(&controlv1.SendRequest{Messages: wire.EncodeAll(msgs)})
}

// FuzzMessages: no bytes panic, and whatever is accepted survives the way back.
func FuzzMessages(f *testing.F) {
	var each []control.Message
	for _, m := range all() {
		each = append(each, m, filled(m))
	}
	row := sharding.Row{Shard: sharding.ShardID{Type: "T", Index: 9}, Phase: sharding.Starting}
	for _, msgs := range [][]control.Message{
		nil, each,
		{control.TableChanged{Delta: sharding.TableDelta{Rows: []sharding.Row{row, {}}}}},
		{control.TableChanged{Delta: sharding.TableDelta{Rows: make([]sharding.Row, 3000)}}},
		{control.TableChanged{Delta: sharding.TableDelta{Types: make([]sharding.TypeDesc, 3000)}}},
	} {
		raw, err := write(msgs)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, m := range each {
		raw, err := write([]control.Message{m})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		archtest.Memory(t, archtest.MemoryFactor, len(raw), func() { _, _ = read(raw) })
		msgs, err := read(raw)
		if err != nil {
			return
		}
		back, err := write(msgs)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", msgs, err)
		}
		if again, err := read(back); err != nil || !reflect.DeepEqual(again, msgs) {
			t.Errorf("%+v comes back as %+v, error %v", msgs, again, err)
		}
	})
}
