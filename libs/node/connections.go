package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/sorted"
)

// connections bounds the connections of a listener. A connection above the limit closes those that have been idle
// longest. If none is idle, it is a surplus one: up to a few of them get an answer that there are too many, and
// probes are answered on them.
type connections struct {
	limit   int64
	open    atomic.Int64
	refused atomic.Int64
	full    atomic.Bool  // a warning was logged
	known   sync.Map     // of net.Conn to *connection: those that are open
	silent  atomic.Int64 // how many of them have had no request yet
	log     *slog.Logger
	key     string
	// probes reports whether a request is served on a surplus connection, too; nil: none is.
	probes func(*http.Request) bool
	// idleGrace is the constant of that name, but in tests.
	idleGrace time.Duration
	nextScan  time.Time // used by enter only, which the server calls for one connection at a time

	mu      sync.Mutex
	surplus []net.Conn // open ones, the oldest first
}

const (
	// spare divides the limit: the number of connections may exceed the limit by limit/spare.
	spare = 8
	// idleGrace is the time that a connection must have been without a request before it is closed to make room.
	// The next request of a client that is in use would otherwise often meet a closed connection.
	idleGrace = time.Second
	// scanCost is the pause after a search for idle connections, for each connection that was looked at. It bounds
	// the work that a flood of connections causes.
	scanCost = 5 * time.Microsecond
)

// surplus is a key in the context of connections above the limit.
type surplus struct{}

// connection is the state of one connection.
type connection struct {
	asked   atomic.Bool // it has had a request
	chunked atomic.Bool // it has had a chunked request
	// idle is the time since which it has had no request, in nanoseconds of Unix time; 0: it has one; evicted: it was closed.
	idle atomic.Int64
}

// evicted is the value of connection.idle after it was closed to make room. A request that arrives at that moment is
// not executed, because its answer could not be sent.
const evicted = -1

// connectionKey is the key of the [connection] in the context of a connection.
type connectionKey struct{}

// lastOfConnection refuses a request that follows a chunked one on its connection, and reports whether it did. The
// chunked one may also have had a Content-Length, which the server has dropped and a proxy may have believed: then
// what follows is another request for each of them.
func lastOfConnection(w http.ResponseWriter, r *http.Request) bool {
	of, known := r.Context().Value(connectionKey{}).(*connection)
	if !known {
		return false
	}
	if of.chunked.Load() {
		w.Header().Set("Connection", "close")
		bounded.Refuse(w, http.StatusServiceUnavailable, "unavailable", errornumber.Unavailable, "nothing is served on a connection after a chunked request; send it again on another connection")
		return true
	}
	of.chunked.Store(len(r.TransferEncoding) > 0)
	return false
}

// asks notes that a connection has a request. It reports whether the request can be answered.
func (c *connections) asks(r *http.Request) bool {
	of, known := r.Context().Value(connectionKey{}).(*connection)
	if !known {
		return true
	}
	if !of.asked.Load() && !of.asked.Swap(true) {
		c.silent.Add(-1)
	}
	since := of.idle.Load()
	return since != evicted && of.idle.CompareAndSwap(since, 0)
}

// enter counts a new connection; it is the server's http.Server.ConnContext.
func (c *connections) enter(ctx context.Context, conn net.Conn) context.Context {
	of, now := &connection{}, time.Now()
	of.idle.Store(now.UnixNano())
	ctx = context.WithValue(ctx, connectionKey{}, of)
	c.known.Store(conn, of)
	c.silent.Add(1)
	if c.open.Add(1) > c.limit {
		c.makeRoom(now)
	}
	if c.open.Load() <= c.limit {
		return ctx
	}
	c.refused.Add(1)
	if !c.full.Swap(true) {
		c.log.Warn("too many connections, more are refused", "limit", c.limit, "key", c.key)
	}
	c.enterSurplus(conn)
	return context.WithValue(ctx, surplus{}, true)
}

// makeRoom closes connections that have been idle for idleGrace, the longest first. Those that are closed at a time
// are a fraction of the limit, so that the search is worth its work.
func (c *connections) makeRoom(now time.Time) {
	if now.Before(c.nextScan) {
		return
	}
	type candidate struct {
		conn  net.Conn
		of    *connection
		since int64
	}
	var idle []candidate
	looked := 0
	for key, value := range c.known.Range {
		looked++
		of := value.(*connection)
		if since := of.idle.Load(); since > 0 && since <= now.Add(-c.idleGrace).UnixNano() {
			idle = append(idle, candidate{key.(net.Conn), of, since})
		}
	}
	sorted.By(idle, func(a, b candidate) int { return cmp.Compare(a.since, b.since) })
	for _, i := range idle[:min(len(idle), int(c.limit/spare+1))] {
		if c.evict(i.conn, i.of, i.since) {
			c.refused.Add(1)
		}
	}
	c.nextScan = now.Add(time.Duration(looked) * scanCost)
}

// evict closes a connection that has had no request since the given time. It reports whether it did: false if there
// is a request now.
func (c *connections) evict(conn net.Conn, of *connection, since int64) bool {
	if since <= 0 || !of.idle.CompareAndSwap(since, evicted) {
		return false
	}
	c.leave(conn)
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn() // TLS would write first, which takes up to 5 s if the client does not read
	}
	_ = conn.Close() // the server notices when it reads
	return true
}

// enterSurplus adds a connection above the limit. If there are too many of them, it closes the oldest one without a
// request. So a client that sends its request at once gets its answer, such as a probe.
func (c *connections) enterSurplus(conn net.Conn) {
	c.mu.Lock()
	c.surplus = append(c.surplus, conn)
	var all []net.Conn
	if int64(len(c.surplus)) > c.limit/spare+1 {
		all = slices.Clone(c.surplus)
	}
	c.mu.Unlock()
	for _, old := range all {
		of, known := c.known.Load(old)
		if known && c.evict(old, of.(*connection), of.(*connection).idle.Load()) {
			return
		}
	}
}

// leave stops counting a connection. Hijacked ones are not counted any more either: they are links of peers.
func (c *connections) leave(conn net.Conn) {
	of, known := c.known.LoadAndDelete(conn)
	if !known {
		return // it has left
	}
	if !of.(*connection).asked.Swap(true) {
		c.silent.Add(-1)
	}
	c.mu.Lock()
	if i := slices.Index(c.surplus, conn); i >= 0 {
		c.surplus = slices.Delete(c.surplus, i, i+1)
	}
	c.mu.Unlock()
	if c.open.Add(-1) < c.limit/2 {
		c.full.Store(false)
	}
}

// changed is the server's http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateIdle:
		if of, known := c.known.Load(conn); known {
			of.(*connection).idle.CompareAndSwap(0, time.Now().UnixNano())
		}
	case http.StateClosed, http.StateHijacked:
		c.leave(conn)
	}
}

// refuses answers a request on a connection above the limit. It reports whether it did.
func (c *connections) refuses(w http.ResponseWriter, r *http.Request) bool {
	if c.open.Load() <= c.limit || r.Context().Value(surplus{}) == nil || c.probes != nil && c.probes(r) {
		return false
	}
	// The server would wait for the rest of the body, and meanwhile the connection has the place of a probe.
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	h := w.Header()
	h.Set("Connection", "close")
	h.Set("Retry-After", "1")
	bounded.Refuse(w, http.StatusServiceUnavailable, "unavailable", errornumber.Unavailable, fmt.Sprintf("too many connections, at most %d are served (%s)", c.limit, c.key))
	return true
}

// observeListeners publishes what the listeners hold.
func (n *Node) observeListeners() error {
	meter := n.MeterProvider().Meter("github.com/roost-cluster/roost/libs/node")
	open, err1 := meter.Int64ObservableGauge("roost.http.connections", metric.WithUnit("{connection}"),
		metric.WithDescription("open connections, links of peers left out"))
	refused, err2 := meter.Int64ObservableCounter("roost.http.connections.refused", metric.WithUnit("{connection}"),
		metric.WithDescription("connections that were too many: refused, or closed because they had been idle longest"))
	bodies, err3 := meter.Int64ObservableGauge("roost.http.bodies", metric.WithUnit("By"),
		metric.WithDescription("size of the request bodies that have arrived and are not answered"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		all := []*listener{n.service, n.management}
		if n.inner != nil && n.inner != n.service {
			all = append(all, n.inner)
		}
		for _, l := range all {
			name := metric.WithAttributes(attribute.String("roost.listener", l.name))
			o.ObserveInt64(open, l.clients.open.Load(), name)
			o.ObserveInt64(refused, l.clients.refused.Load(), name)
			o.ObserveInt64(bodies, l.bodies.Used(), name)
		}
		return nil
	}, open, refused, bodies)
	return err
}
