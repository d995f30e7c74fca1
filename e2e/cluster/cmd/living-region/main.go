// Command living-region is a region for the tests of the entities' own actions and of actions
// with each other: reminders, remembered entities, deletes, asks and sends. What an entity has
// done is an event, so that the journal shows it.
//
// # What this does not do
//
// It is not an example: its entities do nothing but what the tests look for.
package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server"
)

// Done is the event of all types: what was done, and which one of its kind it was.
type Done struct {
	What string `json:"what"`
	N    int64  `json:"n"`
	Due  int64  `json:"due,omitempty"` // of a reminder, in Unix ms
	Pad  string `json:"pad,omitempty"`
}

// Count returns the number of events of an entity.
type Count struct {
	N int64 `json:"n"`
}

// Get returns the count.
func (c *Count) Get(*entity.Ctx, struct{}) (Count, error) { return *c, nil }

func (c *Count) persist(ctx *entity.Ctx, events ...any) (Count, error) {
	ctx.Persist(events...)
	return *c, nil
}

// Alarm sets reminders. Crowd is the same with a single shard.
type Alarm struct{ Count }

// Set asks for reminders numbered from First on: the first one at a time in Unix ms, each next
// one Step ms later.
type Set struct {
	First int64 `json:"first"`
	Count int64 `json:"count"`
	At    int64 `json:"at"`
	Step  int64 `json:"step"`
}

// Ring is the input of a reminder's command.
type Ring struct {
	N int64 `json:"n"`
}

// Ring stores that a reminder has fired.
func (a *Alarm) Ring(ctx *entity.Ctx, in Ring) (Count, error) {
	r, _ := ctx.Reminder()
	return a.persist(ctx, Done{What: "rang", N: in.N, Due: r.Due.UnixMilli()})
}

func setWith(ring *entity.Handle[Ring, Count]) func(*Alarm, *entity.Ctx, Set) (Count, error) {
	return func(a *Alarm, ctx *entity.Ctx, in Set) (Count, error) {
		for i := range in.Count {
			n := in.First + i
			ring.Remind(ctx, time.UnixMilli(in.At+i*in.Step), "r"+strconv.FormatInt(n, 10), Ring{N: n})
		}
		return a.persist(ctx, Done{What: "set", N: in.First})
	}
}

// Poller is a remembered entity.
type Poller struct{ Count }

// Touch changes the poller, so that it is remembered.
func (p *Poller) Touch(ctx *entity.Ctx, _ struct{}) (Count, error) {
	return p.persist(ctx, Done{What: "touched", N: p.N + 1})
}

// Box stores padding, and can be deleted.
type Box struct{ Count }

// Put asks for events with padding of a size.
type Put struct {
	Events int `json:"events"`
	Size   int `json:"size"`
}

// Put stores events. The padding is random enough not to be compressed.
func (b *Box) Put(ctx *entity.Ctx, in Put) (Count, error) {
	events := make([]any, in.Events)
	for i := range events {
		n := b.N + int64(i) + 1
		var pad strings.Builder
		for x := uint64(n)*0x9e3779b97f4a7c15 + 1; pad.Len() < in.Size; {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			pad.WriteByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[x>>58])
		}
		events[i] = Done{What: ctx.ID(), N: n, Pad: pad.String()}
	}
	return b.persist(ctx, events...)
}

// End deletes the box, and returns how many events it had.
func (b *Box) End(ctx *entity.Ctx, _ struct{}) (Count, error) {
	ctx.Delete()
	return b.Count, nil
}

// Peer asks other peers, and sends to them.
type Peer struct{ Count }

// Visit asks for a visit of the first peer of a path, and so on.
type Visit struct {
	Path []string `json:"path"`
	// Before is the time that the peer works before it asks.
	Before int64 `json:"before"` // ms
	N      int64 `json:"n"`
	// Read asks for nothing that changes the others.
	Read bool `json:"read"`
}

// Emit sends Take to another peer, Count times, numbered from First on.
type Emit struct {
	To    string `json:"to"`
	First int64  `json:"first"`
	Count int64  `json:"count"`
}

// Take is the sent command.
type Take struct {
	From string `json:"from"`
	N    int64  `json:"n"`
}

// Take stores that it has arrived.
func (p *Peer) Take(ctx *entity.Ctx, in Take) (Count, error) {
	return p.persist(ctx, Done{What: in.From, N: in.N})
}

// Emit sends. It stores which ones.
func (p *Peer) Emit(ctx *entity.Ctx, in Emit) (Count, error) {
	for i := range in.Count {
		take.Send(ctx, in.To, Take{From: ctx.ID(), N: in.First + i})
	}
	return p.persist(ctx, Done{What: "emitted to " + in.To, N: in.First + in.Count - 1})
}

// visitWith makes the handlers of Visit and of Look, which changes nothing.
func visitWith(next func() *entity.Handle[Visit, Count], changes bool) func(*Peer, *entity.Ctx, Visit) (Count, error) {
	return func(p *Peer, ctx *entity.Ctx, in Visit) (Count, error) {
		select {
		case <-time.After(time.Duration(in.Before) * time.Millisecond):
		case <-ctx.Done():
			return Count{}, ctx.Err()
		}
		if len(in.Path) > 0 {
			rest := Visit{Path: in.Path[1:], Before: in.Before, N: in.N, Read: in.Read}
			if _, err := next().Ask(ctx, in.Path[0], rest); err != nil {
				if in.Read || entity.CodeOf(err) == entity.FailedPrecondition || entity.CodeOf(err) == entity.Aborted {
					return Count{}, entity.Errorf(entity.CodeOf(err), "asking %s: %v", in.Path[0], err)
				}
				return Count{}, err // in doubt: the command runs again
			}
		}
		if !changes {
			return p.Count, nil
		}
		return p.persist(ctx, Done{What: "visited", N: in.N})
	}
}

// Bomb ends its process. It stores its work before that.
type Bomb struct{ Count }

// Tick does no harm.
func (b *Bomb) Tick(ctx *entity.Ctx, _ struct{}) (Count, error) {
	return b.persist(ctx, Done{What: "ticked", N: b.N})
}

// Exit ends the process without a word.
func (b *Bomb) Exit(*entity.Ctx, struct{}) (Count, error) {
	os.Exit(3)
	return Count{}, nil
}

// Panic ends the process by a panic that no handler can recover from.
func (b *Bomb) Panic(*entity.Ctx, struct{}) (Count, error) {
	go panic("the bomb goes off")
	time.Sleep(time.Second) // the process ends meanwhile
	return Count{}, nil
}

// Fuse has itself exit by a reminder.
func (b *Bomb) Fuse(ctx *entity.Ctx, _ struct{}) (Count, error) {
	exit.Remind(ctx, time.Now(), "fuse", struct{}{})
	return b.persist(ctx, Done{What: "lit", N: b.N})
}

// Mail has another bomb exit.
func (b *Bomb) Mail(ctx *entity.Ctx, in Take) (Count, error) {
	exit.Send(ctx, in.From, struct{}{})
	return b.persist(ctx, Done{What: "mailed", N: b.N})
}

var exit = entity.Command[struct{}, Count]("Bomb", "Exit", entity.Stored())

var (
	take  = entity.Command[Take, Count]("Peer", "Take", entity.Stored())
	visit = entity.Command[Visit, Count]("Peer", "Visit")
	look  = entity.Command[Visit, Count]("Peer", "Look", entity.ReadOnly())
)

// alarms is a type that sets reminders.
func alarms(name string, shards uint32) entity.Type[Alarm] {
	ring := entity.Command[Ring, Count](name, "Ring", entity.Stored())
	return entity.Define(name, func(string) *Alarm { return &Alarm{} },
		entity.On(entity.Command[Set, Count](name, "Set"), setWith(ring)),
		entity.On(ring, (*Alarm).Ring),
		entity.On(entity.Command[struct{}, Count](name, "Get", entity.ReadOnly()), func(a *Alarm, ctx *entity.Ctx, in struct{}) (Count, error) { return a.Get(ctx, in) }),
		entity.Event("Done", func(s *Alarm, _ Done) { s.N++ }),
		entity.With[Alarm](entity.SnapshotEvery(100), entity.Shards(shards)),
	)
}

// orderRule keeps the orders of a customer together. A test that starts a region with another rule sets
// the variable.
func orderRule() entity.ShardRule {
	if os.Getenv("LIVING_ORDERS_PART") != "" {
		return entity.Part("/", 1)
	}
	return entity.Prefix("/")
}

func main() {
	server.AppVersion = "1"
	server.Main(
		alarms("Alarm", 16), alarms("Crowd", 1),
		entity.Define("Poller", func(string) *Poller { return &Poller{} },
			entity.On(entity.Command[struct{}, Count]("Poller", "Touch"), (*Poller).Touch),
			entity.On(entity.Command[struct{}, Count]("Poller", "Get", entity.ReadOnly()), func(p *Poller, ctx *entity.Ctx, in struct{}) (Count, error) { return p.Get(ctx, in) }),
			entity.Event("Done", func(s *Poller, _ Done) { s.N++ }),
			entity.With[Poller](entity.Remember(), entity.Shards(64)),
		),
		entity.Define("Box", func(string) *Box { return &Box{} },
			entity.On(entity.Command[Put, Count]("Box", "Put"), (*Box).Put),
			entity.On(entity.Command[struct{}, Count]("Box", "End"), (*Box).End),
			entity.On(entity.Command[struct{}, Count]("Box", "Get", entity.ReadOnly()), func(b *Box, ctx *entity.Ctx, in struct{}) (Count, error) { return b.Get(ctx, in) }),
			entity.Event("Done", func(s *Box, _ Done) { s.N++ }),
			entity.With[Box](entity.Shards(64)),
		),
		entity.Define("Order", func(string) *Count { return &Count{} },
			entity.On(entity.Command[struct{}, Count]("Order", "Change"), func(c *Count, ctx *entity.Ctx, _ struct{}) (Count, error) {
				return c.persist(ctx, Done{What: "changed", N: c.N})
			}),
			entity.Event("Done", func(c *Count, _ Done) { c.N++ }),
			entity.With[Count](entity.ShardBy(orderRule()), entity.Shards(64)),
		),
		entity.Define("Bomb", func(string) *Bomb { return &Bomb{} },
			entity.On(entity.Command[struct{}, Count]("Bomb", "Tick"), (*Bomb).Tick),
			entity.On(entity.Command[struct{}, Count]("Bomb", "Panic"), (*Bomb).Panic),
			entity.On(entity.Command[struct{}, Count]("Bomb", "Fuse"), (*Bomb).Fuse),
			entity.On(entity.Command[Take, Count]("Bomb", "Mail"), (*Bomb).Mail),
			entity.On(exit, (*Bomb).Exit),
			entity.Event("Done", func(s *Bomb, _ Done) { s.N++ }),
			entity.With[Bomb](entity.Shards(16)),
		),
		entity.Define("Peer", func(string) *Peer { return &Peer{} },
			entity.On(entity.Command[Emit, Count]("Peer", "Emit"), (*Peer).Emit),
			entity.On(take, (*Peer).Take),
			entity.On(visit, visitWith(func() *entity.Handle[Visit, Count] { return visit }, true)),
			entity.On(look, visitWith(func() *entity.Handle[Visit, Count] { return look }, false)),
			entity.Event("Done", func(s *Peer, _ Done) { s.N++ }),
			entity.With[Peer](entity.SnapshotEvery(100), entity.Shards(64)),
		),
	)
}
