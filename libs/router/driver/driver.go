// Package driver is the driver of a router (package router): it gives the core its clock, its
// links and its inbox. Gateways and regions use it in the same way.
//
// # What this does not do
//
// It makes no decisions: the loop passes inputs to the core and performs its outputs. It
// knows neither HTTP nor entities: those who have commands submit each as a [Call].
package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Config configures a [Driver].
type Config struct {
	Core router.Config
	// Link configures the links to regions. Without a Generation, the links use the route table's.
	Link link.Config
	// Inbox is the number of messages that may wait for the loop before [Driver.Submit] refuses
	// more. 0: any number; the limits of the core still hold.
	Inbox int
	Log   *slog.Logger
	// Local, if set, is the way to the region Link.Self, which is in this process. It
	// replaces the link.
	Local Outlet
	// Send sends a one-way message to a coordinator; it must not wait. Call makes a call.
	Send func(to sharding.NodeID, msg control.Message)
	Call func(ctx context.Context, to string, msg control.Message) (control.Message, error)
	// Answered, if set, is called by the loop after the core was stepped with the answer
	// to a call.
	Answered func(router.Replied, error)
	// Ticked, if set, is called by the loop with every tick, once a second or more often.
	Ticked func()
}

// Outlet takes commands to a region: a link, or the region in this process. Its methods
// never wait.
type Outlet interface {
	// Queue takes a command, which it must copy. Its errors are the same as for [link.Link.Queue].
	Queue(shard uint32, c *link.Command) error
	// Flush sends what was queued.
	Flush()
}

// Driver runs one router.
type Driver struct {
	cfg         Config
	log         *slog.Logger
	inbox       *loop.Inbox[item]
	idPrefix    []byte // of the ids of commands without key
	lastRequest atomic.Uint64
	lastLink    atomic.Uint64
	generation  atomic.Uint64 // of the core's route table, for links that connect
	delivered   atomic.Int64  // bytes of delivered replies that the core does not know of yet
	ctx         context.Context
	cancel      context.CancelFunc
	jobs        sync.WaitGroup

	// Used by the loop only.
	core    *router.Machine
	outs    []router.Output
	calls   map[router.RequestID]*Call
	links   map[sharding.NodeID]*link.Client
	sender  *router.Sender[*openLink]
	command link.Command    // reused for each command
	finish  router.Finish   // reused for each end
	queued  []*openLink     // with queued commands
	drained chan<- struct{} // closed when nothing is outstanding, if set
}

// New returns a driver; it does nothing before [Driver.Run].
func New(cfg Config) (*Driver, error) {
	if err := errors.Join(cfg.Core.Validate(), cfg.Link.Validate()); err != nil {
		return nil, err
	}
	d := &Driver{
		cfg: cfg, log: cfg.Log,
		inbox:    loop.NewInbox[item](loop.Limits{Items: cfg.Inbox}),
		idPrefix: fmt.Appendf(nil, sharding.ReservedPrefix+"%016x-", uint64(cfg.Link.Self.UID)),
		core:     router.New(cfg.Core),
		calls:    map[router.RequestID]*Call{},
		links:    map[sharding.NodeID]*link.Client{},
		sender:   router.NewSender[*openLink](),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d, nil
}

// Call is one command on its way through the router. Between [Driver.Submit] and its end,
// the Env belongs to the loop.
type Call struct {
	// ID is set by [Driver.Number].
	ID  router.RequestID
	Env sharding.Envelope
	// ReadOnly is passed on to [router.Submit].
	ReadOnly bool
	// End is called by the loop, once per submitted call. It must not wait, and not keep its argument. The receiver
	// of the reply gives its bytes back by [Driver.Delivered].
	End func(*router.Finish)
}

// Number gives a call its ID, and a command id to a command without key.
func (d *Driver) Number(c *Call) {
	c.ID = router.RequestID(d.lastRequest.Add(1))
	if c.Env.ID == "" {
		var buf [40]byte
		c.Env.ID = sharding.CommandID(strconv.AppendUint(append(buf[:0], d.idPrefix...), uint64(c.ID), 36))
	}
}

// Submit passes numbered calls to the loop, without others between them: all or none. It
// returns [loop.ErrFull], [loop.ErrClosed] or nil.
func (d *Driver) Submit(calls ...*Call) error {
	var few [1]item // a command that comes alone takes no memory here
	items := few[:0]
	for _, c := range calls {
		items = append(items, item{call: c})
	}
	return d.inbox.Offer(0, items...)
}

// Refusal returns the reply to a call that [Driver.Submit] has not taken.
func (d *Driver) Refusal(err error) sharding.Reply {
	if errors.Is(err, loop.ErrClosed) {
		return d.cfg.Core.Stopping()
	}
	return sharding.Reject(sharding.ResourceExhausted, "not applied: too many commands wait in this "+d.cfg.Core.Process)
}

// Abandon ends a call that no caller waits for any more. If it has ended meanwhile, ended is called
// by the loop.
func (d *Driver) Abandon(c *Call, ended func()) {
	d.Do(func() {
		if d.calls[c.ID] != c {
			ended()
			return
		}
		delete(d.calls, c.ID)
		d.step(router.Cancel{Request: c.ID})
	})
}

// Delivered reports that replies have reached their receivers: bytes is the sum of their
// [router.Finish].Held.
func (d *Driver) Delivered(bytes int) { d.delivered.Add(int64(bytes)) }

// Put gives the core an input.
func (d *Driver) Put(in router.Input) { d.inbox.Put(item{in: in}) }

// Do makes the loop run f. It reports false if the loop has ended.
func (d *Driver) Do(f func()) bool { return d.inbox.Put(item{do: f}) }

// Inside runs f inside the loop and waits for it.
func (d *Driver) Inside(ctx context.Context, f func() error) error {
	return loop.Do(ctx, d.ctx.Done(), func(f func()) error { d.Do(f); return nil }, f)
}

// Core is the core, for looking at it inside the loop.
func (d *Driver) Core() *router.Machine { return d.core }

// Step steps the core. It may be called inside the loop only.
func (d *Driver) Step(in router.Input) { d.step(in) }

// OpenLinks returns how many links are up. It may be called inside the loop only.
func (d *Driver) OpenLinks() int { return d.sender.Open() }

// Calls returns how many calls have not ended. It may be called inside the loop only.
func (d *Driver) Calls() int { return len(d.calls) }

// Idle returns a channel that is closed as soon as no call is outstanding.
func (d *Driver) Idle() <-chan struct{} {
	idle := make(chan struct{})
	d.Do(func() { d.drained = idle })
	return idle
}

// Ended reports whether the loop was told to end.
func (d *Driver) Ended() bool { return d.ctx.Err() != nil }

// End makes [Driver.Run] end what is outstanding and return.
func (d *Driver) End() { d.cancel() }

// tickEvery is the shortest interval of ticks, about the core's shortest interval.
const tickEvery = 20 * time.Millisecond

// Run runs the loop until [Driver.End]. Then it ends all calls, closes the links, and waits for the
// background work.
func (d *Driver) Run() {
	loop.Run(d.ctx, d.inbox, tickEvery, d.core.Due, d.takeBatch)
	d.inbox.Close()
	for _, it := range d.inbox.Take(nil) {
		if it.call != nil {
			it.call.End(&router.Finish{Request: it.call.ID, Reply: d.cfg.Core.Stopping()})
		}
	}
	d.step(router.Stop{})
	var closing sync.WaitGroup
	for _, client := range d.links { // order-free: all at once
		closing.Go(client.Close)
	}
	closing.Wait()
	d.jobs.Wait()
}
