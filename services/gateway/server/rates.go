package server

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/sharding"
)

// rates bounds how many commands each principal sends. It is safe for concurrent use.
type rates struct {
	rate  rate.Limit // commands per second; 0: no limit
	burst int
	most  int // principals in each of two generations

	mu       sync.Mutex
	now, old map[string]*rate.Limiter
}

func newRates(c *Config) *rates {
	r := &rates{rate: rate.Limit(c.PrincipalRate), burst: c.PrincipalBurst, most: c.Principals/2 + 1, now: map[string]*rate.Limiter{}}
	if r.burst == 0 {
		r.burst = int(math.Ceil(c.PrincipalRate)) // a second's worth
	}
	return r
}

// wait returns how long a sender must wait until it may send a command. If it returns 0, the sender may send one now,
// which is counted.
func (r *rates) wait(sender string, now time.Time) time.Duration {
	if r.rate == 0 {
		return 0
	}
	reservation := r.of(sender).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// of returns the limiter of a sender. When the younger generation is full, the older one is forgotten: a sender that has
// sent nothing for so long would have nearly its whole burst anyway.
func (r *rates) of(sender string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.now[sender]
	if l != nil {
		return l
	}
	if l = r.old[sender]; l == nil {
		l = rate.NewLimiter(r.rate, r.burst)
	}
	if len(r.now) >= r.most {
		r.now, r.old = make(map[string]*rate.Limiter, r.most), r.now
	}
	r.now[sender] = l
	return l
}

// senderOf returns the name under which the commands of a sender are counted: the principal, or the address if there is
// no principal.
func senderOf(principal string, r *http.Request) string {
	if principal != "" {
		return principal
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "address"
	}
	addr, bits := at.Addr().Unmap(), 32
	if addr.Is6() { // a network of this size belongs to one customer
		bits = 64
	}
	network, _ := addr.Prefix(bits) // the sizes fit
	return "address " + network.String()
}

// counted returns the name under which the commands of a sender are counted; empty if they are not counted.
func (r *rates) counted(principal string, from *http.Request) string {
	if r.rate == 0 {
		return ""
	}
	return senderOf(principal, from)
}

// tooFast refuses a command of a sender that is over its limit.
func (s *Server) tooFast(sender string, now time.Time) *failure {
	wait := s.rates.wait(sender, now)
	if wait == 0 {
		return nil
	}
	f := refusal(sharding.ResourceExhausted, fmt.Sprintf("the sender sends more than %v commands per second (gateway.principal_rate)", s.cfg.PrincipalRate))
	f.number = errornumber.RateLimited
	f.retryAfter = int((wait + time.Millisecond - 1) / time.Millisecond)
	return f
}
