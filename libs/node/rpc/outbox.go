package rpc

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/sharding"
)

// OutboxLimits bound what waits for one process. What finds no room is left out: the core
// that sent it repeats it.
var OutboxLimits = BatchLimits{
	// Some 40 bytes each, at most 140.
	Call: 8192,
	// With the names of the cluster and the sender less than the 4 MiB that
	// service.max_body allows by default, whatever the messages are.
	CallBytes: 3 << 20,
	// A quarter of the shards that the largest table has by default, so that a region that answers
	// learns of all of them within a few repeats.
	Messages: 65_536,
	// 8 MiB: the messages with names of 64 bytes, which are longer than most.
	Bytes: 8 << 20,
}

// size is about the memory of a message, in bytes; more than its length on the wire.
func size(m control.Message) int { return 64 + proto.Size(wire.Encode(m)) }

// Outbox sends one-way messages to many processes, in order to each of them. A message of an
// earlier term than a later message is not sent any more.
type Outbox struct {
	*Batcher[sharding.NodeID, control.Message]
	ctx     context.Context
	call    func(ctx context.Context, to sharding.NodeID, msgs []control.Message) error
	log     *slog.Logger
	dropped metric.Int64Counter
	full    telemetry.Repeated
}

// NewOutbox returns an outbox whose calls are made by call, [Client.Send] as a rule, and
// end with ctx. dropped counts the messages that found no room.
func NewOutbox(
	ctx context.Context, call func(ctx context.Context, to sharding.NodeID, msgs []control.Message) error, log *slog.Logger, dropped metric.Int64Counter,
) *Outbox {
	o := &Outbox{ctx: ctx, call: call, log: log, dropped: dropped}
	o.Batcher = NewBatcher(OutboxLimits, size, o.send)
	return o
}

// Send hands a message over. It never waits.
func (o *Outbox) Send(to sharding.NodeID, m control.Message) {
	if o.Add(to, m) {
		return
	}
	o.dropped.Add(o.ctx, 1)
	o.full.Warn(o.log, "too many messages wait for a process, the newest are left out and repeated later", "to", to)
}

func (o *Outbox) send(to sharding.NodeID, gathered []control.Message) {
	if err := o.call(o.ctx, to, newest(gathered)); err != nil {
		o.log.Debug("messages were lost; they will be repeated", "to", to, "messages", len(gathered), "error", err)
	}
}

// newest leaves out the messages of earlier terms than the highest one.
func newest(msgs []control.Message) []control.Message {
	var term sharding.Term
	for _, m := range msgs {
		term = max(term, m.About().Term)
	}
	kept := msgs[:0]
	for _, m := range msgs {
		if t := m.About().Term; t == 0 || t == term {
			kept = append(kept, m)
		}
	}
	return kept
}
