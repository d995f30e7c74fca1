package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/errornumber"
)

// connections bounds the connections of a listener. Up to a few connections above the
// limit get an answer that there are too many; further ones are closed without an answer.
type connections struct {
	limit   int64
	open    atomic.Int64
	refused atomic.Int64
	full    atomic.Bool  // a warning was logged
	known   sync.Map     // of net.Conn to *connection: those that are open
	silent  atomic.Int64 // how many of them have had no request yet
	log     *slog.Logger
	key     string
}

// spare is the fraction of the limit by which the number of connections may exceed it.
const spare = 8

// surplus is a key in the context of connections above the limit.
type surplus struct{}

// connection is what is known of one connection.
type connection struct {
	asked   atomic.Bool // it has had a request
	chunked atomic.Bool // it has had a chunked request
}

// connectionKey is where the context of a connection has its [connection].
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

// asks notes that a connection has a request.
func (c *connections) asks(r *http.Request) {
	if of, known := r.Context().Value(connectionKey{}).(*connection); known && !of.asked.Load() && !of.asked.Swap(true) {
		c.silent.Add(-1)
	}
}

// enter counts a new connection; it is the server's http.Server.ConnContext.
func (c *connections) enter(ctx context.Context, conn net.Conn) context.Context {
	of := &connection{}
	ctx = context.WithValue(ctx, connectionKey{}, of)
	c.known.Store(conn, of)
	c.silent.Add(1)
	n := c.open.Add(1)
	if n <= c.limit {
		return ctx
	}
	c.refused.Add(1)
	if !c.full.Swap(true) {
		c.log.Warn("too many connections, more are refused", "limit", c.limit, "key", c.key)
	}
	if n > c.limit+c.limit/spare+1 {
		_ = conn.Close() // the server notices when it reads
	}
	return context.WithValue(ctx, surplus{}, true)
}

// changed counts closed connections; it is the server's http.Server.ConnState. Hijacked
// connections are not counted any more: they are links of peers.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	if of, known := c.known.LoadAndDelete(conn); known && !of.(*connection).asked.Swap(true) {
		c.silent.Add(-1)
	}
	if c.open.Add(-1) < c.limit/2 {
		c.full.Store(false)
	}
}

// refuses answers a request on a connection above the limit. It reports whether it did.
func (c *connections) refuses(w http.ResponseWriter, r *http.Request) bool {
	if c.open.Load() <= c.limit || r.Context().Value(surplus{}) == nil {
		return false
	}
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
		metric.WithDescription("connections that were too many"))
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
