// Package server is the driver of the region service: it gives the pure core
// its clock, sockets, disk and entities. Users build their own region binary:
//
//	func main() { server.Main(Counters, Accounts) }
//
// [Run] runs a region within another program, or a test.
//
// # What this does not do
//
// It makes no decisions: the goroutine that steps a core hands it inputs and performs its
// outputs. Slow work (disk, calls, entity code) runs in the background and comes back as
// an input.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/diagnosis"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/member"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/node/security"
	nodetelemetry "github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// AppVersion is the version of the entities' code, for a region whose configuration has
// no app.version. A main sets it before it calls [Main], or the build does:
//
//	go build -ldflags "-X github.com/roost-cluster/roost/services/region/server.AppVersion=v1.4.0"
//
// Empty: the version that Go has stamped on the binary's module.
var AppVersion string

// Main runs a region that hosts the given entity types, until it is stopped: flags, environment, signals,
// health, draining and telemetry are taken care of. If its first arguments name a tool, such as "journal
// check", it runs the tool instead: see its --help. If it is the first process of a container (PID 1 on Linux),
// it starts itself again as a child, which is the region, and waits for it: see docs/running/repair.md. It does not
// return.
func Main(types ...entity.Definition) {
	if code, ok := runTool(os.Args[1:], os.Environ(), types, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	if code, ok := asParent(); ok {
		os.Exit(code)
	}
	cfg := DefaultConfig()
	os.Exit(node.Main("region", &cfg, func(n *node.Node) error {
		_, err := New(n, &cfg, types...)
		return err
	}))
}

// Run runs a region that hosts the given entity types in this process, until ctx ends: for tests, and for programs
// that do more than that. Then the region hands its shards off, as Main does when it is stopped, and Run returns
// nil. It reads no flags, environment and signals: cfg is complete, for example [DefaultConfig] with changes. One
// process may run several regions, with different ports.
func Run(ctx context.Context, cfg Config, types ...entity.Definition) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return node.Run(ctx, "region", &cfg, func(n *node.Node) error {
		_, err := New(n, &cfg, types...)
		return err
	})
}

// Server is one running region: a [Runner] with a network around it.
type Server struct {
	log    *slog.Logger
	self   sharding.NodeID
	name   string
	runner *Runner
	cfg    *Config
	hosted []entity.Definition
	peers  *rpc.Peers
	fail   func(reason string)

	member *member.Member
	agent  *agent.Agent // of member
	links  *link.Server
	// generation is the journal's generation, 0 until the journal is open.
	generation atomic.Uint64
	opened     atomic.Pointer[commit.Journal] // nil until it is open
	client     *rpc.Client
	kept       *keptClient
	outbox     *rpc.Outbox
	departed   chan struct{}

	inboxFull nodetelemetry.Repeated

	// Used in the control loop alone.
	draining    bool
	downed      bool // the cluster has declared this node down
	calls       *rpc.Calls
	callResults map[string]callResult // by kind of call
}

// New sets a region up on a node: handlers, checks and stages.
func New(n *node.Node, cfg *Config, types ...entity.Definition) (*Server, error) {
	s := &Server{
		log: n.Log(), self: n.Self(), name: n.Name(),
		cfg: cfg, peers: n.Peers(), departed: make(chan struct{}),
		fail:  func(reason string) { n.Fail(errors.New(reason)) },
		calls: rpc.NewCalls(maxCalls), callResults: map[string]callResult{},
	}
	var err error
	if s.hosted, err = hosted(types, cfg.Types); err != nil {
		return nil, err
	}
	lc := link.DefaultConfig()
	lc.Cluster, lc.Self, lc.Dial = cfg.ClusterName, s.self, s.peers.Of(control.Region).Dial
	lc.Generation = func() sharding.Generation { return sharding.Generation(s.generation.Load()) }
	strategies, err := cfg.strategies(types)
	if err != nil {
		return nil, err
	}
	routes := cfg.Routed
	routes.Seed = rand.Uint64() // regions do not send again at the same moments
	policy, err := security.OpenPolicy(cfg.Auth.Policy, func(err error) {
		s.log.Error("new policy is unusable, keeping the old", "error", err)
	})
	if err != nil {
		return nil, err
	}
	noter := newNoter()
	crash := noter.openBox(cfg, s.self, s.name, s.log)
	core := cfg.core()
	core.Version, core.Crash = appVersion(n, cfg), crash
	if core.ShardCores < cfg.Core.ShardCores {
		s.log.Info("limits are too small for region.shard_cores", "hint", "fewer shard cores are used", "shard_cores", core.ShardCores,
			"configured", cfg.Core.ShardCores, "commands", core.Turn.TotalCommands, "command_bytes", core.Turn.TotalBytes, "loads", core.Turn.TotalLoads)
	}
	if s.runner, err = NewRunner(RunnerConfig{
		Noter:  noter,
		Policy: policy,
		Self:   s.self, Name: s.name, Types: s.hosted,
		Inbox: cfg.Inbox, StopTimeout: cfg.StopTimeout, Failures: cfg.Failures, Log: s.log,
		Tracers: n.TracerProvider(), Meters: n.MeterProvider(), Histograms: n.Histograms(),
		Core: &core, Passivation: strategies,
		Router: &RouterConfig{
			Core: routes, Link: toOthers(lc),
			Send: func(to sharding.NodeID, msg control.Message) { s.outbox.Send(to, msg) },
			Call: func(ctx context.Context, to string, msg control.Message) (control.Message, error) {
				return s.client.Call(ctx, to, msg)
			},
		},
		Outside: s.performOutside,
		Fetch:   func(ctx context.Context, o region.FetchKept) ([]turn.Kept, error) { return s.kept.fetch(ctx, o) },
	}); err != nil {
		return nil, err
	}
	s.kept = newKeptClient(cfg.ClusterName, s.peers, &s.runner.cfg.Turn)
	s.client = &rpc.Client{Cluster: cfg.ClusterName, Self: s.self, Reach: s.peers.Reach, Timeout: callTimeout}
	s.outbox = rpc.NewOutbox(s.runner.ctx, s.client.Send, s.log, s.runner.telemetry.dropped)
	if s.links, err = link.NewServer(lc, s.take, s.closed); err != nil {
		return nil, err
	}
	if err := s.join(n); err != nil {
		return nil, err
	}
	n.HandlePeers(link.Path, control.Gateway|control.Region|control.Coordinator, s.links)
	n.HandlePeers(keptPath, control.Region, giver{s})
	n.HandlePeers(inspectionv1.InspectionPathPrefix, control.Coordinator, inspectionv1.NewInspectionServer(newInspection(s)))
	n.HandlePeers(inspectionv1.ObserverPathPrefix, control.Coordinator|control.Gateway, inspectionv1.NewObserverServer(diagnosis.NewObserver(cfg.ClusterName, s.self, s.observe, func() *inspectionv1.Process { return s.describe(n) })))
	n.HandlePeers(rpc.PathPrefix, control.Gateway|control.Region|control.Coordinator, rpc.Handler(cfg.ClusterName, s.self, control.Region, s.member.Identity, receiver{s}, s.log))
	s.stages(n)
	n.Reread([]string{"region.passivation"}, func() config.Configured { return new(DefaultConfig()) },
		func(c config.Configured) error { return s.reread(c.(*Config), types) })
	// When the region leaves, its entry in discovery is removed before shards are handed off.
	return s, s.member.Register(scope)
}

// toOthers configures the links of the router to other regions. They have one lane: there may
// be as many links as pairs of regions, and one processor is far from busy with one of them.
func toOthers(lc link.Config) link.Config {
	lc.Lanes = 1
	return lc
}

// take serves the commands of a link. The link's reader runs them itself; if one of them
// holds the reader up, another goroutine reads on.
func (s *Server) take(c *link.Conn, cmds []link.Command) {
	call := c.Call()
	s.runner.Serve(c, cmds, func() { c.Detach(call) })
}

// closed is called when a link's connection has ended.
func (s *Server) closed(c *link.Conn, reason error) {
	s.runner.Forget(c)
	if stalled := new(link.Stalled); errors.As(reason, &stalled) {
		s.log.Warn("closed a link whose peer stopped reading", "hint", "the commands that the peer waits for are in doubt there",
			"peer", c.Peer(), "lane", c.Lane(), "reason", stalled.Err, "pending_bytes", stalled.Pending, "silence", stalled.For)
	}
}

// hosted returns the types of this binary that this process hosts: the wanted ones, or all.
func hosted(types []entity.Definition, wanted []string) ([]entity.Definition, error) {
	if len(types) == 0 {
		return nil, errors.New("a region needs at least one entity type: server.Main(types…)")
	}
	var errs []error
	var chosen []entity.Definition
	var all []sharding.EntityType
	missing := map[string]bool{}
	for _, name := range wanted {
		missing[name] = true
	}
	for _, t := range types {
		d := instance.Describe(t)
		all = append(all, d.Desc.Type)
		if len(wanted) == 0 || missing[string(d.Desc.Type)] {
			chosen = append(chosen, t)
		}
		delete(missing, string(d.Desc.Type))
	}
	for name := range missing { // order-free: errors
		errs = append(errs, fmt.Errorf("region.types names %s; this binary has %v", name, all))
	}
	return chosen, errors.Join(errs...)
}

// performOutside performs an output of the control core that concerns the coordinator or the
// process.
func (s *Server) performOutside(o region.ControlOutput) {
	switch o := o.(type) {
	case region.Send:
		s.send(o)
	case region.Reply:
		s.calls.Answer(o.Call, rpc.Answer{Msg: o.Msg})
	case region.ReadJournalHeartbeat:
		go s.readJournalHeartbeat(o)
	case region.Registered:
		s.log.Info("registered", "coordinator", o.With, "term", o.Term)
	case region.Left:
		if o.Held > 0 {
			s.log.Warn("hand-off timed out", "hint", "other regions take the shards over when this process has ended", "shards", o.Held)
		} else {
			s.log.Info("all shards are handed off")
		}
		close(s.departed)
	case region.Fail:
		s.fail(o.Reason)
	}
}

// appVersion returns the version of the entities' code: the version of the binary if none is configured.
func appVersion(n *node.Node, cfg *Config) string {
	return cmp.Or(cfg.AppVersion, AppVersion, n.Version().Version)
}

// join prepares the membership of this region.
func (s *Server) join(n *node.Node) error {
	var err error
	s.member, err = member.Join(n, member.Options{
		Settings: &s.cfg.Settings, Cluster: s.cfg.ClusterName, Role: "region", Version: appVersion(n, s.cfg), Changed: s.findCoordinators,
	})
	if err != nil {
		return err
	}
	s.agent = s.member.Agent
	s.agent.Subscribe(func(gossip.Event) { s.findCoordinators() })
	s.findCoordinators()
	return nil
}

// findCoordinators tells the core which coordinators discovery lists, and which
// are members.
func (s *Server) findCoordinators() {
	addrs := s.member.Joiner.Coordinators()
	for _, m := range s.agent.Members().OldestFirst("coordinator") {
		addrs = append(addrs, m.Node.Addr)
	}
	s.runner.control.put(controlItem{in: region.Coordinators{Addrs: addrs}})
}

// stages start in this order and stop in reverse: a leaving region drains
// before it leaves the membership, and closes its journal last.
func (s *Server) stages(n *node.Node) {
	n.Stage(node.Stage{
		Name:  "journal",
		Start: func(ctx context.Context) error { return s.openJournal(ctx, n.Waits) },
		Run: func(ctx context.Context) error {
			select {
			case <-s.runner.journal.Broken():
				return s.runner.journal.Err()
			case <-ctx.Done():
				return nil
			}
		},
		Stop: func(context.Context) error {
			return errors.Join(s.runner.journal.Close(), s.runner.noter.box.Close())
		},
	})
	var running sync.WaitGroup
	n.Stage(node.Stage{
		Name: "loop",
		Start: func(context.Context) error {
			running.Go(s.runner.Run)
			s.runner.loops(n)
			n.Ready("region", func(ctx context.Context) error { return s.inspect(ctx, s.readiness) })
			n.Ready("journal", func(ctx context.Context) error { return s.inspect(ctx, s.journalReadiness) })
			return nil
		},
		Stop: func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if s.runner.journal.Err() != nil {
				cancel() // what still waits for the journal waits in vain
			}
			err := s.links.Close(ctx)
			s.runner.End()
			running.Wait()
			return err
		},
		StopTimeout: 5 * time.Second,
	})
	run := func(ctx context.Context) (err error) {
		s.runner.noter.stepsCore(func() { err = s.agent.Run(ctx) })
		if errors.Is(err, agent.ErrDowned) {
			s.runner.control.do(func() { s.downed = true })
		}
		return err
	}
	s.member.Stages(run, s.leave, 0)
}

func (s *Server) openJournal(ctx context.Context, waits func(error)) error {
	d := journal.Declaration{Cluster: s.cfg.ClusterName}
	for i := range s.runner.descs {
		d.Types = append(d.Types, s.runner.descs[i].Desc)
	}
	var err error
	s.runner.journal, err = journalopen.Journal(ctx, s.cfg.Journal, d, s.cfg.Stored, s.runner.journalObserver(), waits)
	if err == nil {
		// Before the first turn: reminders are set by the clock of the store.
		if unread := s.runner.journal.ReadClock(ctx); unread != nil {
			s.log.Warn("clock of the journal not read", "error", unread, "hint", "until it is, reminders are set by the clock of this machine")
		}
		waits(nil)
		s.opened.Store(s.runner.journal)
		s.generation.Store(uint64(s.runner.journal.Generation()))
	}
	return err
}

// leave hands all shards off, then leaves the membership. Without a journal
// nothing can be settled and so nothing handed off: the process ends as if it
// were killed, and the others take its shards over as soon as they notice.
func (s *Server) leave(ctx context.Context) error {
	if s.runner.journal.Err() != nil {
		return errBrokenJournal
	}
	s.runner.control.do(func() {
		s.draining = true
		if s.downed { // the others have given our shards away: there is nothing to hand off
			close(s.departed)
			return
		}
		s.log.Info("leaving: handing shards off", "shards", s.runner.control.core.Held())
		s.runner.control.step(region.Leave{})
	})
	select {
	case <-s.departed:
	case <-s.runner.journal.Broken():
		return errBrokenJournal
	case <-ctx.Done():
		return errors.New("the shards were not handed off in time")
	}
	return s.agent.Leave(ctx)
}

var errBrokenJournal = errors.New("the journal is broken: no shard can be handed off")

// inspect runs a check between two steps of the core.
func (s *Server) inspect(ctx context.Context, check func() error) error {
	return loop.Do(ctx, s.runner.ctx.Done(), func(f func()) error { s.runner.control.do(f); return nil }, check)
}

// readiness reports whether commands would be served here, and whether a platform may go
// on with the next region. A region that was ready once stays so until it leaves.
func (s *Server) readiness() error {
	addr, term, registered := s.runner.control.core.Coordinator()
	ready, due := s.runner.control.core.Ready()
	switch {
	case s.draining:
		return errors.New("draining")
	case ready:
		return nil
	case addr == "":
		return errors.New("no active coordinator is known")
	case !registered && s.callResults[control.Name(control.Register{})].err != nil:
		return fmt.Errorf("not registered with %s in term %d yet: %w", addr, term, s.callResults[control.Name(control.Register{})].err)
	case !registered:
		return fmt.Errorf("not registered with %s in term %d yet", addr, term)
	case due < 0:
		return fmt.Errorf("%s has not said yet which shards are on their way here", addr)
	}
	return fmt.Errorf("%d shards of a rollout are on their way here; roost rollout status shows it", due)
}
