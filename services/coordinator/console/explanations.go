package console

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// ExplanationEvents returns the events of a record of explanations.
func ExplanationEvents(q coordinator.AppendExplanations) []sharding.Event {
	var events []sharding.Event
	if q.Dropped > 0 {
		events = append(events, sharding.Event{Name: wire.DroppedName, Encoding: sharding.Protobuf, Payload: marshal(&coordinatorv1.DroppedDecisions{N: q.Dropped})})
	}
	for _, d := range q.Explanations {
		events = append(events, sharding.Event{Name: wire.ExplanationName, Encoding: sharding.Protobuf, Payload: d})
	}
	return events
}

func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be written: %v", m, err)) // names are checked UTF-8
	}
	return b
}

// EncodeExplanation returns an explanation as it is stored.
func EncodeExplanation(d *coordinator.Explanation) []byte {
	w := &coordinatorv1.Decision{
		Term: uint32(d.Term), N: d.N, AtUnixMs: unixMs(d.At), Kind: uint32(d.Kind), From: d.From, To: d.To, Epoch: uint64(d.Epoch),
		Cause: uint32(d.Cause), Strategy: d.Strategy, Request: d.Request, By: d.By, Reason: d.Reason,
		Moves: uint32(d.Moves), Begun: uint32(d.Begun), Unlisted: uint32(d.Unlisted), Unweighed: d.Unweighed,
	}
	if d.Shard.Type != "" {
		w.Shard = wire.ToShard(d.Shard)
	}
	if d.Chosen.Region != "" {
		w.Chosen = toWeighed(d.Chosen)
	}
	if d.Loads != (coordinator.WeighedLoads{}) {
		l := d.Loads
		w.Loads = &coordinatorv1.Loads{
			Shard: l.Shard.Cost, From: l.From.Cost, To: l.To.Cost,
			ShardWaiting: l.Shard.Waiting, FromWaiting: l.From.Waiting, ToWaiting: l.To.Waiting,
			FromProcessors: l.From.Of, ToProcessors: l.To.Of,
		}
	}
	for _, o := range d.Alternatives() {
		w.Others = append(w.Others, toWeighed(o))
	}
	return marshal(w)
}

func toWeighed(w coordinator.Weighed) *coordinatorv1.Weighed {
	return &coordinatorv1.Weighed{Region: w.Region, Shards: uint32(w.Shards), Total: uint32(w.Total), Against: uint32(w.Against)}
}

// StoredExplanation is an explanation as it is stored, and the number of explanations that were dropped before it.
type StoredExplanation struct {
	*coordinatorv1.Decision
	Dropped uint64
}

// DecodeExplanations reads records of the log, and then explanations that wait to be stored. It returns the newest
// ones that match, the oldest of them first, and none twice. What cannot be read is left out: a later release wrote
// it.
func DecodeExplanations(records []sharding.Record, waiting [][]byte, newest int, match func(*coordinatorv1.Decision) bool) (list []StoredExplanation) {
	type id struct {
		term uint32
		n    uint64
	}
	seen := map[id]bool{}
	dropped := uint64(0)
	add := func(b []byte) {
		d := &coordinatorv1.Decision{}
		if proto.Unmarshal(b, d) != nil || !match(d) || seen[id{d.Term, d.N}] {
			return
		}
		seen[id{d.Term, d.N}] = true
		list = append(list, StoredExplanation{d, dropped})
		dropped = 0
		if len(list) >= 2*newest {
			list = slices.Delete(list, 0, len(list)-newest)
		}
	}
	for i := range records {
		for _, e := range records[i].Events {
			switch e.Name {
			case wire.ExplanationName:
				add(e.Payload)
			case wire.DroppedName:
				var n coordinatorv1.DroppedDecisions
				if proto.Unmarshal(e.Payload, &n) == nil {
					dropped += n.N
				}
			}
		}
	}
	for _, b := range waiting {
		add(b)
	}
	return list[max(0, len(list)-newest):]
}
