// Package server is the driver of the gateway service: it gives the core its clock, links
// and HTTP.
//
// # The two APIs
//
// POST /v1/{type}/{id}/{command} takes the payload as body and answers with the
// reply as body. Headers: Content-Type (application/json, also when missing, or
// application/protobuf), Idempotency-Key, Roost-Timeout (like 1500ms),
// Roost-Tell: true, traceparent. In the answer, Server-Timing shows where the
// time went, in milliseconds, and Roost-Region, with gateway.tell_region, which region
// answered. Errors are Twirp's JSON; errors.go has the list. The generic API is the Twirp
// service roost.gateway.v1.Entities.
//
// # What this does not do
//
// It makes no decisions: the loop passes inputs to the core and performs its outputs. It
// does not interpret payloads, and stores nothing.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/discovery"
	discoverytelemetry "github.com/roost-cluster/roost/libs/discovery/telemetry"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/node/security/auth"
	"github.com/roost-cluster/roost/libs/node/telemetry/slowest"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/router/driver"
	"github.com/roost-cluster/roost/libs/sharding"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
	"github.com/roost-cluster/roost/services/gateway"
)

// Main runs a gateway until it receives a signal to stop. It does not return.
func Main() {
	cfg := DefaultConfig()
	os.Exit(node.Main("gateway", &cfg, func(n *node.Node) error {
		_, err := New(n, &cfg)
		return err
	}))
}

// Server is one running gateway.
type Server struct {
	cfg       *Config
	log       *slog.Logger
	self      sharding.NodeID
	peers     *rpc.Peers
	discovery discovery.Backend
	watcher   *discovery.Watch
	telemetry telemetry
	retryHint int // ms
	stopping  atomic.Bool
	types     atomic.Pointer[types]
	auth      *auth.Authenticator  // nil: clients are not authenticated
	policy    *security.PolicyFile // nil: everything is allowed
	rates     *rates

	ctx  context.Context // done when the router ends
	stop context.CancelFunc

	client  *rpc.Client
	outbox  *rpc.Outbox
	router  *driver.Driver
	shedder shedder
	slow    slowest.Log
	// turnedAway counts the commands refused for lack of room that the router has not been told of.
	turnedAway atomic.Int64
	limits     router.Config

	active atomic.Pointer[string] // the address of the active coordinator, the last one that was known

	// Used by the router's loop only.
	complaints map[string]string // last error by address
	heard      time.Time         // when a question for the route table was answered last
}

// New sets a gateway up on a node: handlers, checks and stages.
func New(n *node.Node, cfg *Config) (*Server, error) {
	s := &Server{
		cfg: cfg, log: n.Log(), peers: n.Peers(),
		self:       n.Self(),
		complaints: map[string]string{},
		shedder:    shedder{core: gateway.NewShedder(cfg.Refusals)},
		rates:      newRates(cfg),
	}
	if err := errors.Join(n.CheckCertificate(control.Identity{Roles: control.Gateway}), s.openAuth()); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.limits = cfg.Core
	s.limits.Seed = rand.Uint64() // gateways do not send again at the same moments
	s.limits.Management, s.limits.Peers = n.AdvertiseManagement(), n.AdvertisePeers()
	s.retryHint = int(s.limits.RetryHint / time.Millisecond)
	if err := s.instrument(n); err != nil {
		return nil, err
	}
	s.client = &rpc.Client{Cluster: cfg.ClusterName, Self: s.self, Reach: s.peers.Reach, Timeout: callTimeout}
	s.outbox = rpc.NewOutbox(s.ctx, s.client.Send, s.log, s.telemetry.dropped)
	links := link.DefaultConfig()
	links.Cluster, links.Self, links.Dial, links.Lanes = cfg.ClusterName, s.self, s.peers.Of(control.Region).Dial, cfg.Lanes
	var err error
	if s.router, err = driver.New(driver.Config{
		Core: s.limits, Link: links, Inbox: cfg.Inbox, Log: s.log, Send: s.outbox.Send, Call: s.client.Call,
		Answered: s.answered, Ticked: s.ticked,
	}); err != nil {
		return nil, err
	}
	s.types.Store(&types{other: newMeasures(s.telemetry.duration, "")})
	url := bootstrap.Expand(cfg.Discovery.URL, cfg.ClusterName)
	if s.discovery, err = discovery.Open(url, cfg.ClusterName); err != nil {
		return nil, fmt.Errorf("discovery.url: %w", err)
	}
	if s.watcher, err = discovery.NewWatch(s.discovery, discovery.DefaultConfig(), s.log); err != nil {
		return nil, err
	}
	if err := discoverytelemetry.Observe(n.MeterProvider().Meter(scope), url, s.watcher, nil); err != nil {
		return nil, err
	}
	n.Handle("/", http.HandlerFunc(s.serveCommand)) // it refuses all other paths
	generic := service{s}
	n.HandleTwirp(gatewayv1.EntitiesPathPrefix, generic.before, map[protoreflect.FullName]int{itemsField: cfg.MaxItems}, gatewayv1.NewEntitiesServer(generic))
	s.serveDiagnosis(n)
	n.Ready("gateway", func(ctx context.Context) error { return s.router.Inside(ctx, s.readiness) })
	s.stages(n)
	return s, nil
}

// stages adds the stages, which start in this order and stop in reverse.
func (s *Server) stages(n *node.Node) {
	var running sync.WaitGroup
	n.Stage(node.Stage{
		Name: "loop",
		Start: func(context.Context) error {
			running.Go(s.router.Run)
			n.Loop("router loop", s.ctx.Done(), func(f func()) { s.router.Do(f) })
			return nil
		},
		Stop: func(ctx context.Context) error {
			s.drain(ctx)
			s.stop()
			s.router.End()
			running.Wait()
			return nil
		},
	})
	n.Stage(node.Stage{
		Name: "discovery",
		Run: func(ctx context.Context) error {
			s.watcher.Run(ctx, s.discovered)
			return s.discovery.Close()
		},
	})
}

// drainReserve is the part of the time to stop that is reserved for answering unfinished
// commands.
const drainReserve = time.Second

// drain admits no more commands and waits for those in progress, within the time to stop.
func (s *Server) drain(ctx context.Context) {
	s.stopping.Store(true)
	s.router.Do(func() { s.log.Info("draining", "commands", s.router.Calls()) })
	drained := s.router.Idle()
	var late <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok {
		t := time.NewTimer(time.Until(deadline) - drainReserve)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-drained:
	case <-ctx.Done():
		s.log.Warn("answering commands in progress as unknown")
	case <-late:
		s.log.Warn("answering commands in progress as unknown")
	}
}

// readiness is the readiness check; it is called inside the loop.
func (s *Server) readiness() error {
	switch {
	case s.stopping.Load():
		return errors.New("draining")
	case s.router.Core().Table().Version() == sharding.Version{}:
		return fmt.Errorf("no route table yet: %s", s.whyNoTable())
	case len(s.types.Load().byName) == 0:
		return errors.New("no region has registered yet: there are no entity types")
	case len(s.missingTypes()) > 0:
		return fmt.Errorf("no region has registered yet that has the entity types %s (gateway.required_types)", strings.Join(s.missingTypes(), ", "))
	case s.router.Core().Stats().Links > 0 && s.router.OpenLinks() == 0:
		return errors.New("no region can be reached")
	}
	return nil
}

// missingTypes returns the required types that no region has registered. A type that was registered
// once is never missing again.
func (s *Server) missingTypes() []string {
	known := s.types.Load().byName
	return slices.DeleteFunc(slices.Clone(s.cfg.Required), func(name string) bool { return known[sharding.EntityType(name)] != nil })
}

// whyNoTable returns why there is no route table.
func (s *Server) whyNoTable() string {
	switch a := s.watcher.Peers(); {
	case a.Err != nil:
		return a.Err.Error()
	case a.Known && len(a.Peers) == 0:
		return "discovery lists no peers"
	case len(s.complaints) == 0:
		return "no coordinator has answered"
	}
	const most = 3 // many addresses may have the same error
	var said []string
	for _, from := range slices.Sorted(maps.Keys(s.complaints)) {
		if len(said) == most {
			said = append(said, fmt.Sprintf("and %d more", len(s.complaints)-most))
			break
		}
		said = append(said, from+": "+s.complaints[from])
	}
	return strings.Join(said, "; ")
}
