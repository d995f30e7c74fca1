package security

import (
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// keepExpired is the time that an expired certificate is remembered. Its process may have been declared down, and so be
	// in no list of members when an operator looks for it.
	keepExpired = time.Hour
	// mostExpired is the number of expired certificates that are remembered, the newest ones. Hardly ever do so many
	// expire at a time.
	mostExpired = 64
)

// Expired is a peer that was refused, or whose connection was closed, because its certificate had expired.
type Expired struct {
	Name string    // of the certificate: its URI, or its common name
	End  time.Time // of the certificate
	At   time.Time // when it was refused last
}

// expiredPeers remembers whose certificates had expired.
type expiredPeers struct {
	mu   sync.Mutex
	list map[string]Expired // by name
}

// note remembers the owner of a certificate if the certificate would be accepted had it not expired.
func (e *expiredPeers) note(presented []*x509.Certificate, use x509.ExtKeyUsage, roots *x509.CertPool) {
	now, end := time.Now(), presented[0].NotAfter
	for _, c := range presented[1:] {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	if now.Before(end) {
		return
	}
	if _, err := verifyChains(presented, use, roots, end); err != nil {
		return // no authority that this node trusts has signed it
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.list == nil {
		e.list = map[string]Expired{}
	}
	name := nameOf(presented[0])
	e.list[name] = Expired{Name: name, End: end, At: now}
	if len(e.list) > mostExpired {
		delete(e.list, slices.MinFunc(slices.Collect(maps.Values(e.list)), func(a, b Expired) int { return a.At.Compare(b.At) }).Name)
	}
}

// renewed forgets the owner of a certificate that is accepted.
func (e *expiredPeers) renewed(c *x509.Certificate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.list, nameOf(c))
}

// recent returns the peers of the last hour, by name.
func (e *expiredPeers) recent() []Expired {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.list, func(_ string, x Expired) bool { return time.Since(x.At) >= keepExpired })
	return slices.SortedFunc(maps.Values(e.list), func(a, b Expired) int { return strings.Compare(a.Name, b.Name) })
}
