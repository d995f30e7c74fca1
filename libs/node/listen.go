package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
)

// closeTimeout bounds what is left when all stages have stopped: answers on
// their way, and the last telemetry.
const closeTimeout = 3 * time.Second

// A listener is a bound address and the server behind it.
type listener struct {
	net.Listener
	name    string // service or management
	server  *http.Server
	mux     *http.ServeMux
	served  http.Handler // mux behind its limits
	config  *Config
	guard   guard
	clients connections
	bodies  *bounded.Budget
	leaving atomic.Bool // every answer closes its connection
}

// bind opens a listener whose address the configuration has under key.
func bind(ctx context.Context, key, addr string, most int, config *Config, log *slog.Logger) (*listener, error) {
	var settings net.ListenConfig
	bound, err := settings.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	name, _, _ := strings.Cut(key, ".")
	l := &listener{
		Listener: bound, name: name, mux: http.NewServeMux(), config: config,
		clients: connections{limit: int64(most), log: log, key: name + ".connections"},
		bodies:  bounded.NewBudget(int64(config.BodyBytes)),
	}
	l.served = bounded.Limits{Body: int64(config.MaxBody)}.Handler(l.mux)
	if loopback(bound.Addr()) {
		l.guard.hosts = hostNames(config)
	}
	l.guard.origins, _ = newOrigins(nil)
	l.server = &http.Server{
		Handler:           l,
		MaxHeaderBytes:    int(config.MaxHeader),
		ReadHeaderTimeout: config.HeaderTimeout,
		ReadTimeout:       config.ReadTimeout,
		// For answers in one piece; longer ones get more as they go.
		WriteTimeout: config.ReadTimeout + config.WriteTimeout,
		IdleTimeout:  config.IdleTimeout,
		ConnContext:  l.clients.enter,
		ConnState:    l.clients.changed,
		// A broken client is a daily matter.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return l, nil
}

// ServeHTTP serves a request that the guard lets through.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.clients.refuses(w, r) {
		return
	}
	if l.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	e := newExchange(w, r, l.config, l.bodies)
	defer e.end()
	if l.guard.refuses(e, r) {
		return
	}
	l.served.ServeHTTP(e, r)
}

// secure puts TLS on the listener.
func (l *listener) secure(files *tlsFiles) { l.Listener = tls.NewListener(l.Listener, files.server()) }

// serve serves until the listener is closed; another end is reported.
func (l *listener) serve(failed func(error)) {
	if err := l.server.Serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
		failed(fmt.Errorf("listener %s: %w", l.Addr(), err))
	}
}

// leave sends clients away, each with its next answer: an idle connection that
// is closed under a client's request leaves it in doubt whether that was read.
func (l *listener) leave() { l.leaving.Store(true) }

// close lets the requests at work finish for a while, then cuts them.
func (l *listener) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		l.server.Close()
	}
	l.Listener.Close() // For a server that never began.
}

// advertised derives the address that peers use from what is configured and
// where the listener is bound.
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

// ownAddress is this host's address on the way to other networks. Where there
// is no such way, as in a network of containers that is closed, it is an address
// that the host has there, and loopback only when it has no other.
func ownAddress() string {
	// Connecting UDP chooses a route and sends nothing. The address is reserved
	// for documentation (RFC 5737).
	if conn, err := net.Dial("udp", "192.0.2.1:9"); err == nil {
		defer conn.Close()
		if host, _, err := net.SplitHostPort(conn.LocalAddr().String()); err == nil {
			return host
		}
	}
	all, _ := net.InterfaceAddrs() // none is no different from loopback
	return firstGlobal(all)
}

// firstGlobal is the first address that other hosts may reach, one of IPv4 if
// there is any, or loopback.
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

// loopback tells whether only this machine reaches the address.
func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
