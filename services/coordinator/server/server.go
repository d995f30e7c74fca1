// Package server is the driver of the coordinator service: it gives the pure
// core its clock, lease, journal, membership and sockets. With an allocation strategy of
// their own, users build their own coordinator binary:
//
//	func main() { server.Main(server.WithStrategy("pack", pack.Strategy{PerRegion: 100})) }
//
// # What this does not do
//
// It makes no decisions, neither about shards nor about who may act: the loop passes
// inputs to the core and performs its outputs in order.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/member"
	"github.com/roost-cluster/roost/libs/node/rpc"
	nodetelemetry "github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/pace"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

// Option adds to what a coordinator can do.
type Option func(*Config)

// WithStrategy adds a custom allocation strategy, which the coordinator uses if
// allocation.strategy, or allocation.types for a type, says its name. It must be safe for
// concurrent use, because plans are made concurrently with other decisions. Its conformance
// suite is package libs/allocation/allocationtest.
//
//	func main() { server.Main(server.WithStrategy("pack", pack.Strategy{PerRegion: 100})) }
func WithStrategy(name string, s allocation.Strategy) Option {
	return func(c *Config) {
		if c.Allocation.Own == nil {
			c.Allocation.Own = map[string]allocation.Strategy{}
		}
		c.Allocation.Own[name] = s
	}
}

// Main runs a coordinator until it is stopped. It takes care of flags, environment, signals, health and telemetry. It
// does not return.
func Main(options ...Option) {
	cfg := DefaultConfig()
	for _, add := range options {
		add(&cfg)
	}
	os.Exit(node.Main("coordinator", &cfg, func(n *node.Node) error {
		_, err := New(n, &cfg)
		return err
	}))
}

// Server is one running coordinator, active or standing by.
type Server struct {
	cfg   *Config
	log   *slog.Logger
	self  sharding.NodeID
	name  string
	node  *node.Node
	peers *rpc.Peers
	fail  func(error)

	ctx context.Context // ends when the loop and its jobs do
	end context.CancelFunc

	journal *commit.Journal
	store   lease.Backend
	keeper  *lease.Keeper
	member  *member.Member
	agent   *agent.Agent // of member
	inbox   *loop.Inbox[func()]
	news    *loop.Inbox[func()] // of the lease; it goes first
	outbox  *rpc.Outbox
	console *console.API

	// reviewDue is true if the loop is about to look at the members.
	reviewDue atomic.Bool

	inboxFull, strategyFaults, strategyLate nodetelemetry.Repeated

	// Of the loop only.
	limits            coordinator.Config
	core              *coordinator.Tenure
	explanations      *coordinator.ExplanationLog
	explanationsEnded func() // called when the log of explanations has ended, after the process has resigned
	outs              []coordinator.Output
	rest              pace.Rest // when the core gets its next tick
	ticks             uint64    // how many it got
	performing        bool      // the outputs; one of them may step the core
	trouble           trouble   // with the journal
	unread            error     // why the last attempt to take over could not read the journal; nil: none has failed
	unreadAt          time.Time
	unreadLogged      time.Time // when the log said so last
	known             coordinator.Active
	asking            askingActive // has its own lock
	calls             *rpc.Calls
	asked             map[uint64]*pending // requests of operators that are being stored, by number
	asks              uint64              // requests so far
	members           map[sharding.NodeID]coordinator.Member
	moves             map[sharding.ShardID]time.Time // since when shards hand off
	lease             gossip.Lease                   // as the membership was told

	telemetry telemetry
}

// callTimeout bounds one call to a region: the core repeats what is lost.
const callTimeout = time.Second

// inboxLimits bound what waits for the loop. That is far more than a loop that runs
// leaves waiting: 16,384 calls are four for each watcher that may wait, and 16 MiB are
// four of the longest requests that service.max_body allows by default. Decoded they take
// up to eight times as much.
var inboxLimits = loop.Limits{Items: 16_384, Bytes: 16 << 20}

// maxCalls bounds the calls that may wait: the calls of all watchers, and others as many as there can be regions.
func maxCalls(core coordinator.Config) int { return 4 * core.MaxWatches }

// New sets a coordinator up on a node: handlers, checks and stages.
func New(n *node.Node, cfg *Config) (*Server, error) {
	s := &Server{
		cfg: cfg, log: n.Log(), name: n.Name(), node: n, peers: n.Peers(), fail: n.Fail,
		self:         n.Self(),
		inbox:        loop.NewInbox[func()](inboxLimits),
		news:         loop.NewInbox[func()](loop.Limits{}),
		members:      map[sharding.NodeID]coordinator.Member{},
		asked:        map[uint64]*pending{},
		moves:        map[sharding.ShardID]time.Time{},
		explanations: coordinator.NewExplanationLog(cfg.explanationLimits()),
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	cfg.Allocation.OwnFailed = func(strategy, what string) {
		s.strategyFaults.Warn(s.log, "a strategy of this coordinator has a fault: its shards go to the regions with the fewest", "strategy", strategy, "fault", what)
	}
	cfg.Allocation.Own = timeStrategies(cfg.Allocation.Own, func(strategy string, shard sharding.ShardID) {
		s.strategyLate.Warn(s.log, "a strategy of this coordinator does not end when it is to choose a region. Until it does, this coordinator decides nothing; if it never does, no coordinator with this strategy will", "strategy", strategy, "shard", shard)
	})
	core, err := cfg.core()
	if err != nil {
		return nil, err
	}
	s.limits, s.core = core, coordinator.NewTenure(core, s.self)
	s.calls = rpc.NewCalls(maxCalls(core))
	if err := s.join(n); err != nil {
		return nil, err
	}
	if err := s.instrument(n.MeterProvider(), n.Histograms()); err != nil {
		return nil, err
	}
	client := &rpc.Client{Cluster: cfg.ClusterName, Self: s.self, Reach: s.peers.Reach, Timeout: callTimeout}
	s.outbox = rpc.NewOutbox(s.ctx, client.Send, s.log, s.telemetry.dropped)
	n.HandlePeers(rpc.PathPrefix, control.Gateway|control.Region, rpc.Handler(cfg.ClusterName, s.self, control.Coordinator, s.member.Identity, service{s}, s.log))
	s.console = console.New(s.consoleConfig())
	n.HandleOperations(adminv1.AdminPathPrefix, adminReads, func(options ...any) http.Handler {
		return adminv1.NewAdminServer(admin{s.console, s}, append(options, twirp.WithServerInterceptors(s.showActive))...)
	})
	n.HandlePeers(inspectionv1.CoordinatorsPathPrefix, control.Coordinator, inspectionv1.NewCoordinatorsServer(management{cfg.ClusterName, s.self, n.AdvertiseManagement()}))
	s.serveDiagnosis(n)
	s.servePages(n)
	n.Ready("coordinator", s.ready)
	s.stages(n)
	// The entry in discovery is taken out before the lease is given up.
	return s, s.member.Register(scope)
}

// join prepares the membership of this coordinator. It watches all regions itself,
// because their shards move on its own word.
func (s *Server) join(n *node.Node) error {
	var err error
	s.member, err = member.Join(n, member.Options{
		Settings: &s.cfg.Settings, Cluster: s.cfg.ClusterName, Role: "coordinator", Version: n.Version().Version, WatchRoles: []string{"region"},
	})
	if err != nil {
		return err
	}
	s.agent = s.member.Agent
	s.agent.Subscribe(s.onMember)
	return nil
}

// stages start in this order and stop in reverse: a coordinator that stops
// gives up the lease first, so that the next one takes over at once.
func (s *Server) stages(n *node.Node) {
	n.Stage(node.Stage{
		Name: "stores",
		Start: func(ctx context.Context) error {
			if err := s.openStores(ctx); err != nil {
				return err
			}
			n.Ready("lease", func(context.Context) error { return s.keeper.Usable() })
			n.Ready("journal", func(ctx context.Context) error { return s.look(ctx, s.journalReadiness) })
			return nil
		},
		Run: func(ctx context.Context) error {
			select {
			case <-s.journal.Broken():
				return s.journal.Err()
			case <-ctx.Done():
				return nil
			}
		},
		Stop: func(context.Context) error { return errors.Join(s.journal.Close(), s.store.Close()) },
	})
	var running sync.WaitGroup
	n.Stage(node.Stage{
		Name: "loop",
		Start: func(context.Context) error {
			running.Go(s.run)
			n.Loop("coordinator loop", s.ctx.Done(), func(f func()) { s.inbox.Put(f) })
			return nil
		},
		Stop: func(context.Context) error {
			s.end()
			running.Wait()
			return nil
		},
	})
	s.member.Stages(s.agent.Run, s.agent.Leave, 10*time.Second)
	n.Stage(node.Stage{
		Name: "lease",
		Run: func(ctx context.Context) error {
			s.keeper.Run(ctx, s.onLease)
			return nil
		},
		Stop: func(ctx context.Context) error {
			done := make(chan struct{})
			s.leaseNews(func() { s.resign(func() { close(done) }) })
			select {
			case <-done:
			case <-ctx.Done():
			}
			return nil
		},
	})
}

func (s *Server) openStores(ctx context.Context) error {
	var err error
	d := journal.Declaration{Cluster: s.cfg.ClusterName}
	if s.journal, err = journalopen.Journal(ctx, s.cfg.Journal, d, journal.DefaultConfig(), s.journalObserver(), s.node.Waits); err != nil {
		return err
	}
	s.node.Waits(nil)
	if s.store, err = lease.Open(ctx, bootstrap.Expand(s.cfg.LeaseURL, s.cfg.ClusterName)); err != nil {
		err = fmt.Errorf("lease.url: %w", err)
		return errors.Join(err, s.journal.Close())
	}
	lc := s.cfg.Lease
	lc.Self, lc.Rank = s.self, -1
	s.keeper, err = lease.NewKeeper(s.store, "coordinator."+s.cfg.ClusterName, lc, s.log)
	if err != nil {
		return errors.Join(err, s.journal.Close(), s.store.Close())
	}
	return nil
}
