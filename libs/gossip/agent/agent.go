package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/sharding"
	pb "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

// ErrDowned is returned by [Agent.Run] when the cluster declared this node
// down. The process should stop; started again it is another incarnation.
var ErrDowned = errors.New("this node was declared down")

// ErrNotJoined is returned by [Agent.Run] when this node was refused permanently, or gave up joining; the
// text gives the reason.
var ErrNotJoined = errors.New("this node did not join the cluster")

// Agent is the membership of one process. Make one with [New], put its
// [Agent.Handler] on the service listener, then [Agent.Run] it. All methods
// are safe for concurrent use.
type Agent struct {
	cfg     Config
	inbox   *loop.Inbox[item]
	senders *senders
	streams inStreams
	stats   counters
	view    atomic.Pointer[gossip.View]
	events  *eventLog
	left    chan struct{} // closed once this node has left the cluster
	ended   chan struct{} // closed when Run returns
	running atomic.Bool

	// Owned by the loop.
	core        *gossip.Machine
	out         []gossip.Output
	subscribers []func(gossip.Event)
	viewed      time.Time // when view was last updated
	err         error     // why Run must end
}

// Stats are counters since the start.
type Stats struct {
	Received uint64 // messages accepted from other nodes
	Refused  uint64 // messages refused: malformed, or the inbox was full
	Sent     uint64 // messages that other nodes have confirmed, or that were written to a stream
	Dropped  uint64 // messages dropped from a full queue
	Failed   uint64 // messages in posts that failed
	Expired  uint64 // gossip that waited too long for the loop, and was dropped
}

// New prepares an agent.
func New(cfg Config) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	cfg = cfg.withDefaults()
	a := &Agent{
		cfg:   cfg,
		inbox: loop.NewInbox[item](loop.Limits{Items: cfg.Inbox}),
		core:  gossip.New(cfg.Core),
		left:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	a.streams.limit = cfg.Streams
	a.senders = newSenders(cfg, &a.stats, a.Evidence)
	v := a.core.View()
	a.view.Store(&v)
	a.events = newEventLog(cfg.EventLog, v)
	return a, nil
}

// PathPrefix is the path below which [Agent.Handler] serves.
func (a *Agent) PathPrefix() string { return pb.ClusterPathPrefix }

// Handler serves other nodes, at [Agent.PathPrefix].
func (a *Agent) Handler() http.Handler {
	s := service{a}
	mux := http.NewServeMux()
	mux.Handle(a.PathPrefix(), a.cfg.limits().Handler(pb.NewClusterServer(s)))
	mux.HandleFunc(a.PathPrefix()+streamMethod, s.serveStream)
	return mux
}

// Members returns the membership as this node sees it now. Fields whose changes have no
// event, such as Converged, may be up to a second old.
func (a *Agent) Members() gossip.View { return *a.view.Load() }

// Stats returns the counters.
func (a *Agent) Stats() Stats {
	return Stats{
		Received: a.stats.received.Load(), Refused: a.stats.refused.Load(), Sent: a.stats.sent.Load(),
		Dropped: a.stats.dropped.Load(), Failed: a.stats.failed.Load(),
		Expired: a.stats.expired.Load(),
	}
}

// Subscribe calls f with every event from now on, in order, beginning with events
// that describe the current membership. f is called in the loop and must not
// block. [Agent.Members] already includes all events of the same step.
func (a *Agent) Subscribe(f func(gossip.Event)) {
	a.inbox.Put(item{do: func() {
		v := a.core.View()
		for _, e := range v.Events() {
			f(e)
		}
		a.subscribers = append(a.subscribers, f)
	}})
}

// Evidence reports that a connection to a node ended and the next dial was
// refused. UID 0 means any member at that address.
func (a *Agent) Evidence(n sharding.NodeID) {
	a.inbox.Put(item{in: gossip.Evidence{Node: n}})
}

// Down declares a member gone permanently.
func (a *Agent) Down(n sharding.NodeID) {
	a.inbox.Put(item{in: gossip.DownNode{Node: n}})
}

// Lease reports which node holds the lease that downing relies on, and until when.
func (a *Agent) Lease(l gossip.Lease) {
	a.inbox.Put(item{in: l})
}

// SetSeeds names the addresses to join through, and as a member those to
// announce the cluster to, in place of the configured ones.
func (a *Agent) SetSeeds(seeds []string) {
	a.inbox.Put(item{in: gossip.SetSeeds{Seeds: slices.Clone(seeds)}})
}

// Form forms a cluster of this node alone, if this node was configured to wait and has found
// no cluster.
func (a *Agent) Form() { a.inbox.Put(item{in: gossip.Form{}}) }

// Remove removes a member at once, see [gossip.RemoveNode].
func (a *Agent) Remove(n sharding.NodeID) {
	a.inbox.Put(item{in: gossip.RemoveNode{Node: n}})
}

// AskToLeave asks a member to leave gracefully. The request may get lost: repeat
// it until the member leaves.
func (a *Agent) AskToLeave(n sharding.NodeID) {
	a.inbox.Put(item{in: gossip.LeaveNode{Node: n}})
}

// JoinVia joins the cluster of the node at an address, whatever the seeds say;
// this node's own address forms one. A node that is in a cluster stays there.
func (a *Agent) JoinVia(addr string) {
	a.inbox.Put(item{in: gossip.JoinVia{Addr: addr}})
}

// Do runs f inside the agent's loop. It does not wait.
func (a *Agent) Do(f func()) { a.inbox.Put(item{do: f}) }

// Ended is closed when [Agent.Run] has returned.
func (a *Agent) Ended() <-chan struct{} { return a.ended }

// Leave leaves the cluster and returns when this node is not a member any more.
// It returns at once if the agent is not running.
func (a *Agent) Leave(ctx context.Context) error {
	if !a.running.Load() || !a.inbox.Put(item{in: gossip.Leave{}}) {
		return nil
	}
	select {
	case <-a.left:
		return nil
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leaving the cluster: %w", ctx.Err())
	}
}

// Run joins the cluster and remains in it until ctx ends. Then this node stops without
// leaving the cluster; see [Agent.Leave]. Run returns [ErrDowned] as soon as this node is down, [ErrNotJoined] if it
// stopped joining, or nil. It must be called only once.
func (a *Agent) Run(ctx context.Context) error {
	if a.running.Swap(true) {
		return errors.New("membership: the agent ran already")
	}
	defer close(a.ended)
	defer a.events.end()
	defer a.senders.close()
	defer a.streams.close()
	defer a.inbox.Close()
	a.step(gossip.Start{})
	ctx, end := context.WithCancel(ctx)
	defer end()
	if a.err == nil {
		loop.Run(ctx, a.inbox, a.cfg.TickEvery, a.core.Due, func(batch []item, tick bool) {
			a.takeIn(batch, tick)
			if a.err != nil {
				end()
			}
		})
	}
	return a.err
}

// takeIn gives a batch to the core, and then the tick: if the tick came first, peers whose
// messages are in the batch could look silent.
func (a *Agent) takeIn(batch []item, tick bool) {
	for _, it := range batch {
		if it.do != nil {
			it.do()
		} else {
			a.step(it.withWait(time.Now()))
		}
	}
	if tick {
		a.step(gossip.Tick{})
	}
}

// What has no event, such as Converged, is as old as this at most in the view: while the members agree, and
// while they do not. A view of a thousand members takes longer than most steps do.
const (
	calmView  = time.Second
	viewEvery = 20 * time.Millisecond
)

// step gives one input to the core and performs the outputs.
func (a *Agent) step(in gossip.Input) {
	now := time.Now()
	a.out = a.core.Step(now, in, a.out[:0])
	last := a.view.Load()
	var events []gossip.Event
	for _, o := range a.out {
		if e, ok := o.(gossip.Event); ok {
			events = append(events, e)
		}
	}
	patience := calmView
	if !last.Converged {
		patience = viewEvery
	}
	if len(events) > 0 || now.Sub(a.viewed) >= patience {
		v := a.core.View()
		a.view.Store(&v)
		a.viewed = now
		// Refused messages of peers are counted and logged, but not kept: they would
		// push other events out of the log.
		events = slices.DeleteFunc(events, func(e gossip.Event) bool { _, refused := e.(gossip.Refused); return refused })
		if len(events) > 0 {
			a.events.add(now, v, events)
		}
	}
	for _, o := range a.out {
		switch o := o.(type) {
		case gossip.Send:
			a.senders.send(o)
		case gossip.Event:
			a.event(o)
		}
	}
}

func (a *Agent) event(e gossip.Event) {
	a.log(e)
	for _, f := range a.subscribers {
		f(e)
	}
	switch e := e.(type) {
	case gossip.SelfDowned:
		a.err = fmt.Errorf("%w: %s", ErrDowned, e.Reason)
	case gossip.JoinFailed:
		a.err = fmt.Errorf("%w: %s", ErrNotJoined, e.Reason)
	case gossip.LeaveRequested:
		if a.cfg.OnLeave != nil {
			a.cfg.OnLeave()
		} else {
			a.inbox.Put(item{in: gossip.Leave{}})
		}
	case gossip.Left:
		close(a.left)
	case gossip.Refused:
		a.stats.refused.Add(1)
	case gossip.Expired:
		a.stats.expired.Add(1)
	}
}

func (a *Agent) log(e gossip.Event) {
	log := a.cfg.Log
	member := func(m gossip.Member) []any {
		return []any{"member", m.Node, "name", m.Name, "status", m.Status.String()}
	}
	switch e := e.(type) {
	case gossip.MemberJoined:
		log.Info("member joined", member(e.Member)...)
	case gossip.MemberWeaklyUp:
		log.Info("member is weakly up: a member is unreachable", member(e.Member)...)
	case gossip.MemberUp:
		log.Info("member is up", member(e.Member)...)
	case gossip.MemberLeaving:
		log.Info("member is leaving", member(e.Member)...)
	case gossip.MemberExited:
		log.Info("member is exiting", member(e.Member)...)
	case gossip.MemberDowned:
		log.Warn("member is down", member(e.Member)...)
	case gossip.MemberRemoved:
		log.Info("member removed", member(e.Member)...)
	case gossip.ReachabilityChanged:
		switch {
		case !e.ByMe:
			log.Debug("reachability changed", "member", e.Node, "reachable", e.Reachable)
		case e.Reachable:
			log.Info("member is reachable again", "member", e.Node)
		default:
			log.Warn("member is unreachable", "member", e.Node)
		}
	case gossip.NodeGone:
		log.Warn("member's process is gone: connection refused", "member", e.Node)
	case gossip.NewIncarnation:
		log.Warn("member was started again", "member", e.Old, "now", e.New)
	case gossip.NameShared:
		log.Warn("several members share one node name", "hint", "give each process its own node.name, or stop the extra one", "name", e.Name, "members", e.Nodes)
	case gossip.DowningDecided:
		log.Warn("members are declared down", "members", e.Down, "reason", e.Reason)
	case gossip.YieldLease:
		log.Warn("this node gives its lease up", "reason", e.Reason)
	case gossip.JoinRejected:
		log.Warn("join rejected, asking again", "by", e.By, "reason", e.Reason)
	case gossip.JoinFailed:
		log.Error("this node does not join the cluster", "reason", e.Reason)
	case gossip.LeaveRequested:
		log.Info("this node was asked to leave", "by", e.By)
	case gossip.Banned:
		log.Warn("incarnation is refused from now on", "node", e.Node, "reason", e.Reason)
	case gossip.LeaderChanged:
		log.Info("leader changed", "leader", e.Leader)
	case gossip.Refused:
		log.Warn("message refused", "peer", e.From, "reason", e.Reason)
	case gossip.Expired:
		log.Debug("gossip is delayed, this node is overloaded", "peer", e.From, "waited", e.Waited)
	case gossip.SelfDowned:
		log.Error("this node was declared down", "reason", e.Reason)
	case gossip.Left:
		if e.Alone {
			log.Warn("stopping before all members saw the leave", "hint", "they will declare this node down")
			return
		}
		log.Info("this node left the cluster")
	}
}

// service receives the messages of other nodes.
type service struct{ a *Agent }

func (s service) Post(ctx context.Context, req *pb.PostRequest) (*pb.PostResponse, error) {
	refuse := func(err twirp.Error) (*pb.PostResponse, error) {
		s.a.stats.refused.Add(uint64(len(req.GetMessages())))
		return nil, err
	}
	if req.GetCluster() != s.a.cfg.Cluster {
		return refuse(twirp.NewError(twirp.FailedPrecondition, fmt.Sprintf("this is cluster %q", s.a.cfg.Cluster)))
	}
	from := fromNode(req.GetFrom())
	if from.UID == 0 || from.Addr == "" {
		return refuse(twirp.RequiredArgumentError("from"))
	}
	as, member := s.a.Members().Member(from)
	if err := s.a.cfg.MaySpeakAs(ctx, as.Name, as.Roles); err != nil {
		return refuse(twirp.NewError(twirp.PermissionDenied, err.Error()))
	}
	if member { // anybody could name its address otherwise
		s.a.senders.heard(from.Addr)
	}
	var bad error
	now := time.Now()
	items := make([]item, 0, len(req.GetMessages()))
	for _, m := range req.GetMessages() {
		msg, err := fromMessage(m)
		if err != nil { // of another version, perhaps: the rest of the post is good
			bad = err
			s.a.stats.refused.Add(1)
			continue
		}
		if join, is := msg.(gossip.Join); is {
			if err := s.a.cfg.MaySpeakAs(ctx, join.Name, join.Roles); err != nil {
				return refuse(twirp.NewError(twirp.PermissionDenied, err.Error()))
			}
		}
		to := sharding.NodeID{Addr: s.a.cfg.Core.Self.Addr, UID: sharding.NodeUID(m.GetToUid())}
		items = append(items, item{in: gossip.Receive{From: from, To: to, Msg: msg}, at: now})
	}
	if s.a.inbox.Offer(0, items...) != nil {
		return refuse(twirp.NewError(twirp.Unavailable, "too many messages are waiting, or this node is stopping"))
	}
	s.a.stats.received.Add(uint64(len(items)))
	if bad != nil {
		return nil, twirp.InvalidArgumentError("messages", bad.Error())
	}
	return &pb.PostResponse{Streams: streamVersion}, nil
}
