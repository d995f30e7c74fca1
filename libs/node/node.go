package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roost-cluster/roost/libs/atomicfile"
	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Node is one running service process. Its methods may be called from the setup function
// that [Run] calls, and later from any goroutine; handlers, checks and stages must be
// registered in setup.
type Node struct {
	config     *config.Config
	version    Version
	log        *slog.Logger
	name       string
	advertise  string
	self       sharding.NodeID
	service    *listener
	management *listener
	inner      *listener // where peers are served; nil: nowhere
	peers      *rpc.Peers
	telemetry  *telemetry.Providers
	live       health // of loops
	ready      health
	phase      phase
	life       lifecycle
	sources    *config.Sources     // of the configuration; nil unless started by Main
	strangers  telemetry.Repeated  // peers that were refused
	intruders  telemetry.Repeated  // requests of operators that were refused
	operators  *security.Operators // nil: no token is needed
	audit      *security.Audit
}

// Log returns the node's logger.
func (n *Node) Log() *slog.Logger { return n.log }

// Name returns node.name, or the host's name if that is empty.
func (n *Node) Name() string { return n.name }

// Advertise returns the host:port at which peers reach the service listener.
func (n *Node) Advertise() string { return n.advertise }

// Self returns the identity of this process towards its peers: the address that it
// advertises, and the number of this incarnation, which is another one at every start.
func (n *Node) Self() sharding.NodeID { return n.self }

// ServiceAddr returns the address of the service listener.
func (n *Node) ServiceAddr() string { return n.service.Addr().String() }

// ManagementAddr returns the address of the management listener.
func (n *Node) ManagementAddr() string { return n.management.Addr().String() }

// AdvertiseManagement returns the host:port at which operators reach the management listener. If the
// listener is bound to all addresses of this host, the host is the one that peers use.
func (n *Node) AdvertiseManagement() string {
	return managementAt(n.advertise, n.ManagementAddr())
}

// AdvertisePeers returns the host:port at which peers are served. Empty: they are not.
func (n *Node) AdvertisePeers() string {
	if n.inner == nil {
		return ""
	}
	return managementAt(n.advertise, n.inner.Addr().String())
}

func managementAt(advertise, bound string) string {
	host, port, err := net.SplitHostPort(bound)
	peers, _, bad := net.SplitHostPort(advertise)
	if ip := net.ParseIP(host); err != nil || bad != nil || ip == nil || !ip.IsUnspecified() {
		return bound
	}
	return net.JoinHostPort(peers, port)
}

// Version returns the known facts about the binary.
func (n *Node) Version() Version { return n.version }

// Waits logs why the start of a stage is blocked, and reports it at /readyz until the stage
// calls Waits with nil or the node is ready.
func (n *Node) Waits(err error) {
	if err != nil {
		n.log.Warn("the start waits", "error", err)
	}
	n.phase.setBlockedOn(err)
}

// Peers returns the node's connections to other nodes.
func (n *Node) Peers() *rpc.Peers { return n.peers }

// TracerProvider returns the provider of the node's tracers. They record nothing unless
// the environment configures an exporter, but propagate a caller's trace.
func (n *Node) TracerProvider() trace.TracerProvider { return n.telemetry.Tracers }

// MeterProvider returns the provider of the node's meters, which /metrics shows.
func (n *Node) MeterProvider() metric.MeterProvider { return n.telemetry.Meters }

// Histograms returns the registry for what is measured too often for a meter; /metrics
// shows it too.
func (n *Node) Histograms() *histogram.Registry { return &n.telemetry.Histograms }

// Handle serves a pattern, as of [http.ServeMux], on the service listener.
// Bodies are bounded by service.max_body, all of them together by service.body_bytes,
// and the memory of requests to Twirp services by package bounded. Reading a body can
// fail with bounded.ErrFull and with [os.ErrDeadlineExceeded]. Connections can be
// hijacked. Paths are never cleaned: requests that the multiplexer would redirect are
// refused.
func (n *Node) Handle(pattern string, handler http.Handler) {
	n.service.mux.Handle(pattern, n.service.limited(handler, nil))
}

// HandleTwirp is Handle for a Twirp service that refuses some requests without reading their bodies: before wraps the
// handler that reads and decodes them. lists bounds the elements of lists in requests, see [bounded.Limits].
func (n *Node) HandleTwirp(pattern string, before func(http.Handler) http.Handler, lists map[protoreflect.FullName]int, service http.Handler) {
	n.service.mux.Handle(pattern, before(n.service.limited(service, lists)))
}

// Ready adds a check to /readyz, which reports whether traffic should be sent to this node.
// It is called at every probe and must return within a second.
func (n *Node) Ready(name string, check func(context.Context) error) { n.ready.add(name, check) }

// Stage adds a stage, to be started after those that were added before.
func (n *Node) Stage(stage Stage) { n.life.stages = append(n.life.stages, &stage) }

// Stop stops the node gracefully, as SIGTERM does. It does not wait.
func (n *Node) Stop() { n.life.fail(nil) }

// Fail stops the node gracefully, and makes [Run] return err. It does not wait.
func (n *Node) Fail(err error) { n.life.fail(err) }

// Run runs a service until ctx is done or something fails. The configuration must be
// valid, for example filled by [config.Load]. It returns nil after an orderly stop; an error is
// also logged.
func Run(ctx context.Context, service string, config config.Configured, setup func(*Node) error) error {
	common := config.Common()
	log := telemetry.NewLogger(telemetry.Stderr, common.LogLevel, common.LogFormat)
	n, err := open(ctx, service, common, log)
	if err == nil {
		err = n.run(ctx, setup)
	}
	if err != nil {
		log.Error("stopped", "error", err)
	} else {
		log.Info("stopped")
	}
	return err
}

// open binds the listeners and sets up everything that needs no service.
func open(ctx context.Context, service string, config *config.Config, log *slog.Logger) (n *Node, err error) {
	n = &Node{config: config, version: BuildVersion("roost-" + service), name: config.Name}
	if n.name == "" {
		if n.name, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("node.name is empty and the host has no name: %w", err)
		}
	}
	n.log = log.With("service", service, "node", n.name)
	n.life = lifecycle{log: n.log, timeout: config.ShutdownTimeout + config.ShutdownDelay}
	n.live.timeout, n.ready.timeout, n.ready.excluded = config.HealthTimeout, config.HealthTimeout, config.HealthExclude
	n.phase.set("starting")
	n.Ready("node", n.phase.check)

	badTLS := func(err error) { n.log.Error("changed TLS files are unusable, keeping the old", "error", err) }
	if n.peers, err = rpc.NewPeers(config, badTLS); err != nil {
		return nil, err
	}
	if n.service, err = bind(ctx, "service.listen", config.Listen, config.Connections, config, n.log); err != nil {
		return nil, err
	}
	if n.management, err = bind(ctx, "management.listen", config.Management.Listen, config.Management.Connections, config, n.log); err != nil {
		n.service.close()
		return nil, err
	}
	closeBoth := func(err error) (*Node, error) {
		n.service.close()
		n.management.close()
		if n.inner != nil {
			n.inner.close()
		}
		return nil, err
	}
	if n.inner, err = bindInner(ctx, n.service, config, n.peers.Files, n.log); err != nil {
		return closeBoth(err)
	}
	// Allowed origins apply to the service listener only, never to the management
	// listener.
	if n.service.guard.Origins, err = security.NewOrigins(config.AllowedOrigins); err != nil {
		return closeBoth(fmt.Errorf("http.allowed_origins: %w", err))
	}
	if n.advertise, err = advertised(config.Advertise, n.service.Addr()); err != nil {
		return closeBoth(fmt.Errorf("node.advertise: %w", err))
	}
	n.self = sharding.NodeID{Addr: n.advertise, UID: newUID()}
	badFile := func(err error) { n.log.Error("changed file is unusable, keeping the old contents", "error", err) }
	if err := errors.Join(n.secureService(badTLS), n.protectManagement(badFile)); err != nil {
		return closeBoth(err)
	}
	if n.telemetry, err = telemetry.New(ctx, telemetry.Process{
		Service: n.version.Service, Version: n.version.Version, Revision: n.version.Revision, Instance: n.advertise, Cluster: config.ClusterName,
	}, n.log); err != nil {
		return closeBoth(err)
	}
	if err = errors.Join(n.observeListeners(), n.observeCertificate()); err != nil {
		return closeBoth(err)
	}
	return n, nil
}

// secureService adds TLS to the service listener, if it is configured.
func (n *Node) secureService(badTLS func(error)) (err error) {
	files, cfg := n.peers.Files, n.config
	switch public := cfg.Public; {
	case public != nil:
		files, err = security.LoadFiles("public", security.TLS(public.PublicTLS), badTLS)
	case cfg.PublicClients && files != nil: // clients have the certificates of peers, but are none
		files, err = security.LoadFiles("tls", cfg.TLS, badTLS)
	case files != nil && cfg.TLS.CA != "" && cfg.Roles != config.RequireRoles:
		n.log.Warn("accepting peers whose certificate names no role", "hint", "such a peer can act in any role; set tls.roles to require when all certificates name a role")
	}
	if files != nil {
		n.service.secure(files)
	}
	return err
}

// run runs a node whose listeners are bound until its end.
func (n *Node) run(ctx context.Context, setup func(*Node) error) error {
	reviewing, reviewed := context.WithCancel(context.WithoutCancel(ctx))
	defer reviewed()
	go n.peers.Files.Review(reviewing, n.log)
	if n.service.files != n.peers.Files {
		go n.service.files.Review(reviewing, n.log)
	}
	go n.management.files.Review(reviewing, n.log)
	inner := n.inner != nil && n.inner != n.service
	n.serveManagement()
	started := func() {
		n.phase.set("")
		if unknown := n.ready.unknown(); len(unknown) > 0 {
			n.log.Warn("health.exclude names unknown checks", "unknown", unknown, "checks", n.ready.all())
		}
		n.log.Info("ready", "addr", n.advertise)
	}
	stopping := func(ctx context.Context) {
		n.phase.set("stopping")
		n.service.leave()
		if inner {
			n.inner.leave()
		}
		n.log.Info("stopping", "within", n.config.ShutdownTimeout)
		wait := time.NewTimer(n.config.ShutdownDelay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	err := safely(func() error { return setup(n) })
	if err == nil {
		err = n.writeAddresses()
	}
	if err == nil {
		go n.service.serve(n.Fail)
		if inner {
			go n.inner.serve(n.Fail)
		}
		at := []any{"version", n.version.Version, "service", n.ServiceAddr(), "advertise", n.advertise, "management", n.ManagementAddr()}
		if inner {
			at = append(at, "peers", n.AdvertisePeers())
		}
		n.log.Info("listening", at...)
		err = n.life.run(ctx, started, stopping)
	} else {
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.config.ShutdownTimeout)
		err = errors.Join(err, n.life.stop(down))
		cancel()
	}
	n.service.close()
	if inner {
		n.inner.close()
	}
	n.peers.Close()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	// Undelivered telemetry is not a failure of the service.
	if problem := n.telemetry.Shutdown(flush); problem != nil {
		n.log.Warn("last telemetry lost", "error", problem)
	}
	n.management.close()
	n.audit.Close()
	return err
}

// newUID returns a random UID, which is not 0.
func newUID() sharding.NodeUID {
	for {
		if u := rand.Uint64(); u != 0 {
			return sharding.NodeUID(u)
		}
	}
}

func (n *Node) serveManagement() {
	n.HandleManagementOpen("GET /livez", &n.live)
	// Connections that fill the listener must not look like a process that has to be restarted.
	n.management.clients.probes = func(r *http.Request) bool { return r.URL.Path == "/livez" || r.URL.Path == "/readyz" }
	n.HandleManagementOpen("GET /readyz", &n.ready)
	n.HandleManagementRead("GET /metrics", n.telemetry.Metrics)
	n.HandleManagementOpen("GET /version", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(n.version)
	}))
	if n.config.Management.Pprof { // profiles cost time, and show what is in memory
		for path, handler := range map[string]http.HandlerFunc{ // order-free: each has its own path
			"": pprof.Index, "cmdline": serveCommandLine, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
		} {
			n.handleManagement("/debug/pprof/"+path, needs(write), handler)
		}
	}
	go n.management.serve(n.Fail)
}

// serveCommandLine is like pprof.Cmdline, without the secrets that flags may contain.
func serveCommandLine(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	shown := make([]string, len(os.Args))
	for i, arg := range os.Args {
		flag, value, hasValue := strings.Cut(arg, "=")
		if shown[i] = backendurl.Redact(arg); strings.HasPrefix(arg, "-") && hasValue {
			shown[i] = flag + "=" + backendurl.Redact(value)
		}
	}
	fmt.Fprint(w, strings.Join(shown, "\x00"))
}

// Addresses is the content of node.address_file.
type Addresses struct {
	Service    string `json:"service"` // such as "roost-region"
	Name       string `json:"name"`
	PID        int    `json:"pid"`
	Listen     string `json:"listen"`
	Advertise  string `json:"advertise"`
	Management string `json:"management"`
}

// writeAddresses writes node.address_file, for the program that started the node. The
// file appears atomically.
func (n *Node) writeAddresses() error {
	file := n.config.AddressFile
	if file == "" {
		return nil
	}
	content, err := json.Marshal(Addresses{
		Service: n.version.Service, Name: n.name, PID: os.Getpid(),
		Listen: n.ServiceAddr(), Advertise: n.advertise, Management: n.ManagementAddr(),
	})
	if err != nil {
		return err
	}
	if err := atomicfile.Write(file, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("node.address_file: %w", err)
	}
	return nil
}
