// Command protoactor does the work of the benchmarks with proto.actor for Go: with plain actors, which the caller addresses in
// their process, and with virtual actors of its cluster, which are placed by a hash of their identity. The cluster's members find
// each other by its own provider, which needs no other server.
//
// # What this does not do
//
// It stores nothing: proto.actor's persistence is left to providers; its repository has none for SQLite.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/e2e/bench/measure/peer"
)

// timeout is the timeout of an ask; the default of proto.actor's cluster.
const timeout = 5 * time.Second

func main() {
	peer.Main(peer.Program{
		Local:      []peer.Way{{Name: "proto.actor, actors", Open: openLocal}, {Name: "proto.actor, virtual actors", Open: openLocalCluster}},
		Remote:     []peer.Way{{Name: "proto.actor, actors", Open: openRemote, Fixed: true}, {Name: "proto.actor, virtual actors", Open: openCluster(1)}},
		Replicated: []peer.Way{{Name: "proto.actor, virtual actors", Open: openCluster(3)}},
		Serve:      serveAny,
	})
}

// told counts the tells that have reached entities of this process.
var told atomic.Int64

// echo is an entity: it counts, and answers who asks.
type echo struct{ n uint64 }

// Receive takes 64 bytes of protobuf and answers with 16.
func (e *echo) Receive(c actor.Context) {
	if _, ok := c.Message().(*wrapperspb.BytesValue); !ok {
		return // of its life
	}
	e.n++
	if c.Sender() == nil {
		told.Add(1)
		return
	}
	c.Respond(&wrapperspb.BytesValue{Value: binary.BigEndian.AppendUint64(make([]byte, 6, 14), e.n)})
}

// props make entities.
func props() *actor.Props { return actor.PropsFromProducer(func() actor.Actor { return &echo{} }) }

// newSystem returns an actor system that logs nothing.
func newSystem() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))
	}))
}

func question() *wrapperspb.BytesValue { return &wrapperspb.BytesValue{Value: make([]byte, 62)} }

func entityName(e int) string { return "entity-" + strconv.Itoa(e) }

// actors are plain actors.
type actors struct {
	system   *actor.ActorSystem
	pids     []*actor.PID
	spawn    func(int) *actor.PID
	received func() (int64, error)
	close    func() error
	children []*peer.Child
}

// openLocal spawns entities in this process.
func openLocal(_ context.Context, o peer.Options) (peer.System, error) {
	s := newSystem()
	a := &actors{system: s, pids: make([]*actor.PID, o.Entities)}
	a.spawn = func(int) *actor.PID { return s.Root.Spawn(props()) }
	a.received = func() (int64, error) { return told.Load(), nil }
	a.close = func() error { s.Shutdown(); return nil }
	for i := range a.pids {
		a.pids[i] = a.spawn(i)
	}
	return a, nil
}

// Ask asks an actor, and spawns it before if it is a new one.
func (a *actors) Ask(_, entity int) error {
	var pid *actor.PID
	if entity < len(a.pids) {
		pid = a.pids[entity]
	} else {
		pid = a.spawn(entity)
	}
	return answer(a.system.Root.RequestFuture(pid, question(), timeout).Result())
}

// answer checks an answer.
func answer(got any, err error) error {
	if err != nil {
		return err
	}
	if b, ok := got.(*wrapperspb.BytesValue); !ok || len(b.Value) != 14 {
		return fmt.Errorf("answer %v", got)
	}
	return nil
}

// Tell sends a message without a sender.
func (a *actors) Tell(entity int) error {
	a.system.Root.Send(a.pids[entity], question())
	return nil
}

func (a *actors) Received() (int64, error) { return a.received() }
func (a *actors) Processes() []int         { return peer.Pids(a.children...) }
func (a *actors) Close() error             { return errors.Join(peer.Close(a.children...), a.close()) }
