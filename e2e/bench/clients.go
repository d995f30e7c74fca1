package bench

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/e2e/bench/entities"
)

const (
	// requestTimeout is the deadline of a request.
	requestTimeout = time.Second
	// extraWait is the additional wait of the client itself, so that it learns the reason
	// for a missing answer.
	extraWait = time.Second
	// maxConnections is the size of a connection pool: about twice the requests that
	// wait for clerks. A request waits for a free connection, and that time counts.
	maxConnections = 1000
)

// clientPool sends independent requests. A connection is used by one request at a time
// and kept for the next one.
type clientPool struct {
	addrs  []string
	header string
	slots  chan struct{} // connections in use
	made   atomic.Int64  // connections made so far

	mu   sync.Mutex
	idle [][]*httpConn // by gateway
}

// newClientPool returns a pool for gateways, given as URLs.
func newClientPool(gateways []string) *clientPool {
	c := &clientPool{slots: make(chan struct{}, maxConnections), header: "Roost-Timeout: " + requestTimeout.String() + "\r\n", idle: make([][]*httpConn, len(gateways))}
	for _, g := range gateways {
		c.addrs = append(c.addrs, strings.TrimPrefix(g, "http://"))
	}
	return c
}

// close closes all connections. No request may be in progress.
func (c *clientPool) close() {
	for _, bs := range c.idle {
		for _, b := range bs {
			b.close()
		}
	}
}

// ask sends a request to a clerk through a gateway.
func (c *clientPool) ask(gateway int, clerk string) (outcome, time.Duration) {
	gateway %= len(c.addrs)
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	b, err := c.take(gateway)
	if err != nil {
		return unknown, 0
	}
	err = b.nc.SetDeadline(time.Now().Add(requestTimeout + extraWait))
	var a reply
	if err == nil {
		a, err = b.request([]string{"/v1/", entities.ClerkType, "/", clerk, "/", entities.Serve}, jsonType, c.header, questionJSON)
	}
	if err != nil {
		b.close()
		return unknown, 0
	}
	end, took := a.outcome(), a.took()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle[gateway] = append(c.idle[gateway], b)
	return end, took
}

// take returns the connection that was used last, or a new one.
func (c *clientPool) take(gateway int) (*httpConn, error) {
	c.mu.Lock()
	bs := c.idle[gateway]
	if last := len(bs) - 1; last >= 0 {
		b := bs[last]
		c.idle[gateway] = bs[:last]
		c.mu.Unlock()
		return b, nil
	}
	c.mu.Unlock()
	c.made.Add(1)
	return dialHTTP(c.addrs[gateway])
}

// outcome reads an answer as the gateway documents it.
func (a *reply) outcome() outcome {
	if a.status == http.StatusOK {
		return answered
	}
	var e struct {
		Meta struct{ Outcome, Error string }
	}
	if json.Unmarshal(a.body, &e) == nil && e.Meta.Outcome == "not_applied" && e.Meta.Error != "" {
		return refused
	}
	return unknown
}

// took returns the time that the server reports.
func (a *reply) took() time.Duration {
	_, total, _ := strings.Cut(string(a.timing), "total;dur=")
	d, _ := time.ParseDuration(total + "ms") // 0 if there is none
	return d
}
