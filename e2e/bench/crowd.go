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
	// patience is the deadline of a request of a crowd: that of somebody who
	// waits for a page.
	patience = time.Second
	// grace is how much longer the client itself waits, so that it hears why
	// there is no answer.
	grace = time.Second
	// mostConnections is how many connections a crowd has: about twice what waits for
	// clerks. A request that finds none waits for one, and its time counts.
	mostConnections = 1000
)

// crowd is clients that send a request each, whatever becomes of others. A
// connection is used by one request at a time and kept for the next one.
type crowd struct {
	addrs  []string
	header string
	room   chan struct{} // for connections in use
	made   atomic.Int64  // connections, ever

	mu   sync.Mutex
	free [][]*browser // by gateway
}

// newCrowd is a crowd at gateways, given as URLs.
func newCrowd(gateways []string) *crowd {
	c := &crowd{room: make(chan struct{}, mostConnections), header: "Roost-Timeout: " + patience.String() + "\r\n", free: make([][]*browser, len(gateways))}
	for _, g := range gateways {
		c.addrs = append(c.addrs, strings.TrimPrefix(g, "http://"))
	}
	return c
}

// close ends all connections, when no request is under way.
func (c *crowd) close() {
	for _, bs := range c.free {
		for _, b := range bs {
			b.close()
		}
	}
}

// ask sends a clerk a request by a gateway.
func (c *crowd) ask(gateway int, clerk string) (outcome, time.Duration) {
	gateway %= len(c.addrs)
	c.room <- struct{}{}
	defer func() { <-c.room }()
	b, err := c.take(gateway)
	if err != nil {
		return silence, 0
	}
	err = b.nc.SetDeadline(time.Now().Add(patience + grace))
	var a reply
	if err == nil {
		a, err = b.request([]string{"/v1/", entities.ClerkType, "/", clerk, "/", entities.Serve}, jsonType, c.header, questionJSON)
	}
	if err != nil {
		b.close()
		return silence, 0
	}
	end, took := a.outcome(), a.took()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free[gateway] = append(c.free[gateway], b)
	return end, took
}

// take is a connection that was used last, or a new one.
func (c *crowd) take(gateway int) (*browser, error) {
	c.mu.Lock()
	bs := c.free[gateway]
	if last := len(bs) - 1; last >= 0 {
		b := bs[last]
		c.free[gateway] = bs[:last]
		c.mu.Unlock()
		return b, nil
	}
	c.mu.Unlock()
	c.made.Add(1)
	return browse(c.addrs[gateway])
}

// outcome reads an answer as the gateway documents it.
func (a *reply) outcome() outcome {
	if a.status == http.StatusOK {
		return answered
	}
	var e struct {
		Meta struct{ Executed, Error string }
	}
	if json.Unmarshal(a.body, &e) == nil && e.Meta.Executed == "false" && e.Meta.Error != "" {
		return refused
	}
	return silence
}

// took is the time that the server says it took.
func (a *reply) took() time.Duration {
	_, total, _ := strings.Cut(string(a.timing), "total;dur=")
	d, _ := time.ParseDuration(total + "ms") // 0 if it says nothing
	return d
}
