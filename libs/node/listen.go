package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/conn"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/security"
)

// closeTimeout bounds what remains after all stages have stopped: answers that are being
// sent, and the last telemetry.
const closeTimeout = 3 * time.Second

// listener is a bound address and its server.
type listener struct {
	net.Listener
	bound   net.Listener // the system's listener
	name    string       // service or management
	server  *http.Server
	mux     *http.ServeMux
	config  *config.Config
	guard   security.Guard
	proxies security.Proxies
	clients connections
	bodies  *bounded.Budget
	leaving atomic.Bool // every answer closes its connection
	closing atomic.Bool
	// settleTimeout is the constant of that name, but in tests.
	settleTimeout time.Duration
	serving       atomic.Bool     // serve was called
	served        chan struct{}   // closed when it has returned
	files         *security.Files // nil: plain TCP
}

// bind opens a listener at addr, the value of the configuration key.
func bind(ctx context.Context, key, addr string, most int, config *config.Config, log *slog.Logger) (*listener, error) {
	var settings net.ListenConfig
	bound, err := settings.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	name, _, _ := strings.Cut(key, ".")
	l := &listener{
		Listener: wrapping{bound}, bound: bound, served: make(chan struct{}), settleTimeout: settleTimeout, name: name, mux: http.NewServeMux(), config: config,
		clients: connections{limit: int64(most), log: log, key: name + ".connections", idleGrace: idleGrace},
		bodies:  newBodies(config),
	}
	l.guard.Log = log
	if loopback(bound.Addr()) {
		l.guard.Hosts = hostNames(config)
	}
	l.guard.Origins, _ = security.NewOrigins(nil)
	if l.proxies, err = security.ParseProxies(config.TrustedProxies); err != nil {
		return nil, errors.Join(err, bound.Close())
	}
	l.server = &http.Server{
		Handler:           l,
		MaxHeaderBytes:    int(config.MaxHeader),
		ReadHeaderTimeout: config.HeaderTimeout,
		ReadTimeout:       config.ReadTimeout,
		// For short answers; exchange extends it while a longer one is written.
		WriteTimeout: config.ReadTimeout + config.WriteTimeout,
		IdleTimeout:  config.IdleTimeout,
		ConnContext:  l.clients.enter,
		ConnState:    l.clients.changed,
		// Errors of clients are frequent.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return l, nil
}

// bodyShare is the part of the memory limit that the bodies of requests may take. A heap grows to twice what lives before
// garbage is collected, and further while a busy machine collects: the bodies of clients that are sent away at once are such
// garbage. So a process without limits of its own survives them.
const bodyShare = 4

// bodyBytes is service.body_bytes, or as much of it as the memory limit of the process allows. The longest body always fits.
func bodyBytes(config *config.Config, memoryLimit int64) int64 {
	return max(min(int64(config.BodyBytes), memoryLimit/bodyShare), int64(config.MaxBody))
}

// newBodies returns the budget of the bodies of requests.
func newBodies(config *config.Config) *bounded.Budget {
	limit := debug.SetMemoryLimit(-1) // it changes nothing
	bytes := bodyBytes(config, limit)
	return bounded.NewBudget(bytes, func() bool { return memoryUsed() > uint64(limit-bytes) })
}

// innerConnections is the most connections to the listener for peers of a node that has one apart from the service
// listener. Only coordinators and gateways ask there, each by a connection or two.
const innerConnections = 256

// bindInner opens the listener for peers of a node whose service listener is for clients, if peers can be
// distinguished from others. For other nodes it is the service listener.
func bindInner(ctx context.Context, service *listener, config *config.Config, files *security.Files, log *slog.Logger) (*listener, error) {
	if !config.PublicClients {
		return service, nil
	}
	if files == nil || config.PeerListen == "" || config.TLS.CA == "" || config.TLS.ClientAuth == "none" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(config.PeerListen)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host, _, _ = net.SplitHostPort(config.Listen) // it is an address
	}
	l, err := bind(ctx, "peers", net.JoinHostPort(host, port), innerConnections, config, log)
	if err != nil {
		return nil, err
	}
	l.secure(files)
	return l, nil
}

// noStore is the value of Cache-Control of each answer. It is shared, and never changed.
var noStore = []string{"no-store"}

// ServeHTTP serves a request that the guard accepts.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A proxy may cache an answer that has no Cache-Control, so a GET would return the state before a write.
	w.Header()["Cache-Control"] = noStore
	if !l.clients.asks(r) {
		panic(http.ErrAbortHandler) // returning would send an empty answer
	}
	if l.clients.refuses(w, r) {
		return
	}
	if lastOfConnection(w, r) {
		return
	}
	r.RemoteAddr = l.proxies.Client(r)
	if l.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	e := newExchange(w, r, l.config, l.bodies)
	defer e.end()
	if l.guard.Refuses(e, r) {
		return
	}
	l.mux.ServeHTTP(e, r)
}

// limited is a handler behind the limits of requests to Twirp services. What may refuse a request because of its
// sender comes before it: then the body is not read.
func (l *listener) limited(handler http.Handler, lists map[protoreflect.FullName]int) http.Handler {
	return bounded.Limits{Body: int64(l.config.MaxBody), Lists: lists, KnownFields: true}.Handler(handler)
}

// secure adds TLS to the listener.
func (l *listener) secure(files *security.Files) {
	l.files = files
	l.Listener = files.Listener(l.Listener)
}

// wrapping is a listener whose connections do not wake the monitor of the runtime.
type wrapping struct{ net.Listener }

// Accept implements [net.Listener].
func (w wrapping) Accept() (net.Conn, error) {
	nc, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn.Wrap(nc), nil
}

// serve serves until the listener is closed; failed is called if it ends for another
// reason.
func (l *listener) serve(failed func(error)) {
	l.serving.Store(true)
	defer close(l.served)
	if err := l.server.Serve(l.Listener); !errors.Is(err, http.ErrServerClosed) && !l.closing.Load() {
		failed(fmt.Errorf("listener %s: %w", l.Addr(), err))
	}
}

// leave closes each connection with its next answer. If an idle connection was closed at
// the moment of a client's request, the client would not know whether the request was
// read.
func (l *listener) leave() { l.leaving.Store(true) }

const (
	// settleTimeout bounds how long close waits until all connections are accepted and have had a request.
	settleTimeout = 500 * time.Millisecond
	// settlePoll is the time between two looks.
	settlePoll = 200 * time.Microsecond
)

// close closes the listener, waits for requests in progress for a while, and then closes all connections. A client
// whose connection is closed instead of answered does not know whether its request was read. So close waits until all
// connections are accepted that the system has taken, because the system would reset the others; and until they have
// had a request, because a server that shuts down answers no request that it reads afterwards.
func (l *listener) close() {
	settled := time.Now().Add(l.settleTimeout)
	waitWhile := func(unsettled func() bool) {
		for unsettled() && time.Now().Before(settled) {
			time.Sleep(settlePoll)
		}
	}
	waitWhile(func() bool { return pending(l.bound) })
	l.closing.Store(true)
	l.Listener.Close()
	if l.serving.Load() {
		<-l.served // what was accepted is counted now
	}
	waitWhile(func() bool { return l.clients.silent.Load() > 0 })
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		l.server.Close()
	}
}

// advertised returns the address for peers, from the configured one and the one that the
// listener is bound to.
func advertised(configured string, bound net.Addr) (string, error) {
	host, port, err := net.SplitHostPort(bound.String())
	if err != nil {
		return "", err
	}
	if configured != "" {
		if _, p, err := net.SplitHostPort(configured); err == nil && p != "" && p != "0" {
			return configured, nil
		} else if err == nil {
			configured, _, _ = net.SplitHostPort(configured)
		}
		return net.JoinHostPort(configured, port), nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ownAddress()
	}
	return net.JoinHostPort(host, port), nil
}

// ownAddress returns this host's address on the route to other networks. If there is no
// such route, as in an isolated container network, it returns an address of an interface,
// and loopback only if there is no other.
func ownAddress() string {
	// Connecting a UDP socket selects a route and sends nothing. The address is reserved
	// for documentation (RFC 5737).
	if conn, err := net.Dial("udp", "192.0.2.1:9"); err == nil {
		defer conn.Close()
		if host, _, err := net.SplitHostPort(conn.LocalAddr().String()); err == nil {
			return host
		}
	}
	all, _ := net.InterfaceAddrs() // without addresses the result is loopback
	return firstGlobal(all)
}

// firstGlobal returns the first address that other hosts may reach, IPv4 if there is one,
// otherwise loopback.
func firstGlobal(all []net.Addr) string {
	found := "127.0.0.1"
	for _, a := range all {
		network, ok := a.(*net.IPNet)
		if !ok || !network.IP.IsGlobalUnicast() {
			continue
		}
		if network.IP.To4() != nil {
			return network.IP.String()
		}
		if found == "127.0.0.1" {
			found = network.IP.String()
		}
	}
	return found
}

// loopback reports whether the address can be reached from this machine only.
func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
