package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/node/histogram"
)

// A Node is one running service process. Its methods may be called from the
// setup that [Run] calls, and later from any goroutine; handlers, checks and
// stages are registered in setup only.
type Node struct {
	config     *Config
	version    Version
	log        *slog.Logger
	name       string
	advertise  string
	service    *listener
	management *listener
	peers      *Peers
	telemetry  *telemetry
	ready      health
	phase      phase
	life       lifecycle
}

// Log is the node's logger.
func (n *Node) Log() *slog.Logger { return n.log }

// Name is node.name, or the host's name without one.
func (n *Node) Name() string { return n.name }

// Advertise is the host:port at which peers reach the service listener.
func (n *Node) Advertise() string { return n.advertise }

// ServiceAddr is where the service listener is bound.
func (n *Node) ServiceAddr() string { return n.service.Addr().String() }

// ManagementAddr is where the management listener is bound.
func (n *Node) ManagementAddr() string { return n.management.Addr().String() }

// Version is what is known about the binary.
func (n *Node) Version() Version { return n.version }

// Peers connects to other nodes.
func (n *Node) Peers() *Peers { return n.peers }

// TracerProvider makes the node's tracers. They record nothing unless the
// environment asks for an exporter, but still pass a caller's trace on.
func (n *Node) TracerProvider() trace.TracerProvider { return n.telemetry.tracers }

// MeterProvider makes the node's meters, which /metrics shows.
func (n *Node) MeterProvider() metric.MeterProvider { return n.telemetry.meters }

// Histograms are for what is measured too often for a meter; /metrics shows them
// too.
func (n *Node) Histograms() *histogram.Registry { return &n.telemetry.histograms }

// Handle serves a pattern, as of [http.ServeMux], on the service listener.
// Bodies are bounded by service.max_body, all of them together by
// service.body_bytes, and what requests of Twirp services take in memory as
// package bounded tells. Reading a body can fail with bounded.ErrFull and with
// [os.ErrDeadlineExceeded]. A connection can be hijacked. Paths are never cleaned:
// what the multiplexer would redirect is refused.
func (n *Node) Handle(pattern string, handler http.Handler) { n.service.mux.Handle(pattern, handler) }

// HandleManagement serves a pattern on the management listener.
func (n *Node) HandleManagement(pattern string, handler http.Handler) {
	n.management.mux.Handle(pattern, handler)
}

// Ready adds a check to /readyz, the question whether to send traffic here. It
// runs at every probe and has a second.
func (n *Node) Ready(name string, check func(context.Context) error) { n.ready.add(name, check) }

// Stage adds a part with a beginning and an end, after those added before.
func (n *Node) Stage(stage Stage) { n.life.stages = append(n.life.stages, &stage) }

// Stop stops the node in order, as SIGTERM does. It does not wait.
func (n *Node) Stop() { n.life.fail(nil) }

// Fail stops the node in order, and makes [Run] return err. It does not wait.
func (n *Node) Fail(err error) { n.life.fail(err) }

// Run runs a service until ctx ends or something fails. The config is one that
// [Load] has filled, or any that is valid. A stop that was asked for and went
// well returns nil; an error is logged too.
func Run(ctx context.Context, service string, config Configured, setup func(*Node) error) error {
	log := newLogger(os.Stderr, config.Common())
	n, err := open(ctx, service, config.Common(), log)
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
func open(ctx context.Context, service string, config *Config, log *slog.Logger) (n *Node, err error) {
	n = &Node{config: config, version: BuildVersion("roost-" + service), name: config.Name}
	if n.name == "" {
		if n.name, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("node.name is empty and the host has no name: %w", err)
		}
	}
	n.log = log.With("service", service, "node", n.name)
	n.life = lifecycle{log: n.log, timeout: config.ShutdownTimeout + config.ShutdownDelay}
	n.phase.set("starting")
	n.Ready("node", n.phase.check)

	badTLS := func(err error) { n.log.Error("changed TLS files are unusable, the old ones stay", "error", err) }
	if n.peers, err = NewPeers(config.TLS, config.DialTimeout, config.MaxAnswer, badTLS); err != nil {
		return nil, err
	}
	if n.service, err = bind(ctx, "service.listen", config.Listen, config.Connections, config, n.log); err != nil {
		return nil, err
	}
	if n.management, err = bind(ctx, "management.listen", config.Management, config.Managing, config, n.log); err != nil {
		n.service.close()
		return nil, err
	}
	closeBoth := func(err error) (*Node, error) {
		n.service.close()
		n.management.close()
		return nil, err
	}
	// Pages of other origins may have something to do with entities, but never
	// with the management.
	if n.service.guard.origins, err = newOrigins(config.AllowedOrigins); err != nil {
		return closeBoth(fmt.Errorf("http.allowed_origins: %w", err))
	}
	if n.advertise, err = advertised(config.Advertise, n.service.Addr()); err != nil {
		return closeBoth(fmt.Errorf("node.advertise: %w", err))
	}
	if n.peers.files != nil {
		n.service.secure(n.peers.files)
	}
	if !loopback(n.management.Addr()) {
		n.log.Warn("whoever reaches the management listener is obeyed; keep it on loopback or a private network", "addr", n.ManagementAddr())
	}
	if n.telemetry, err = newTelemetry(ctx, n.version, n.advertise); err != nil {
		return closeBoth(err)
	}
	if err = n.observeListeners(); err != nil {
		return closeBoth(err)
	}
	return n, nil
}

// run is the life of a node from its bound listeners to its end.
func (n *Node) run(ctx context.Context, setup func(*Node) error) error {
	n.serveManagement()
	started := func() {
		n.phase.set("")
		n.log.Info("ready", "addr", n.advertise)
	}
	stopping := func(ctx context.Context) {
		n.phase.set("stopping")
		n.service.leave()
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
		n.log.Info("listening", "version", n.version.Version, "service", n.ServiceAddr(),
			"advertise", n.advertise, "management", n.ManagementAddr())
		err = n.life.run(ctx, started, stopping)
	} else {
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.config.ShutdownTimeout)
		err = errors.Join(err, n.life.stop(down))
		cancel()
	}
	n.service.close()
	n.peers.Close()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	// Telemetry that cannot be delivered is no reason to have failed.
	if problem := n.telemetry.shutdown(flush); problem != nil {
		n.log.Warn("last telemetry lost", "error", problem)
	}
	n.management.close()
	return err
}

func (n *Node) serveManagement() {
	// A process that answers is not to be restarted: what it waits for is another's.
	n.HandleManagement("GET /livez", &health{})
	n.HandleManagement("GET /readyz", &n.ready)
	n.HandleManagement("GET /metrics", n.telemetry.metrics)
	n.HandleManagement("GET /version", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(n.version)
	}))
	if n.config.Pprof {
		n.HandleManagement("/debug/pprof/", http.HandlerFunc(pprof.Index))
		n.HandleManagement("/debug/pprof/cmdline", http.HandlerFunc(serveCommandLine))
		n.HandleManagement("/debug/pprof/profile", http.HandlerFunc(pprof.Profile))
		n.HandleManagement("/debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
		n.HandleManagement("/debug/pprof/trace", http.HandlerFunc(pprof.Trace))
	}
	go n.management.serve(n.Fail)
}

// serveCommandLine is pprof.Cmdline without the secrets that flags may hold.
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
	Service    string `json:"service"` // Such as "roost-region".
	Name       string `json:"name"`
	PID        int    `json:"pid"`
	Listen     string `json:"listen"`
	Advertise  string `json:"advertise"`
	Management string `json:"management"`
}

// writeAddresses tells whoever started the node where it is. The file appears
// at once and whole.
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
	if err := os.WriteFile(file+".new", append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("node.address_file: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("node.address_file: %w", err)
	}
	return nil
}
