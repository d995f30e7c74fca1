package dns

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/roost-cluster/roost/libs/backendurl"
)

// The shortest time to live of the answer's parts counts, including aliases and
// the zone's negative answer, within limits.
func TestTimeToLive(t *testing.T) {
	u, err := backendurl.ParseURL("dns:///a.example?port=1&type=a&min_ttl=500ms&max_ttl=20s")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(u)
	if err != nil {
		t.Fatal(err)
	}
	const soa = "example. 9 IN SOA ns.example. root.example. 1 2 3 4 5"
	for _, c := range []struct {
		answer []string
		ns     string
		want   time.Duration
	}{
		{[]string{"a.example. 0 IN A 10.0.0.1"}, "", 500 * time.Millisecond},
		{[]string{"a.example. 7 IN A 10.0.0.1", "a.example. 6 IN A 10.0.0.2"}, soa, 6 * time.Second},
		{[]string{"a.example. 3 IN CNAME b.example.", "b.example. 7 IN A 10.0.0.1"}, "", 3 * time.Second},
		{[]string{"a.example. 3600 IN A 10.0.0.1", "b.example. 1 IN A 10.0.0.2"}, "", 20 * time.Second},
		{nil, soa, 5 * time.Second},
		{nil, "", 20 * time.Second},
	} {
		res := new(dns.Msg)
		for _, text := range c.answer {
			res.Answer = append(res.Answer, parse(t, text))
		}
		if c.ns != "" {
			res.Ns = append(res.Ns, parse(t, c.ns))
		}
		_, holds, err := b.read(res, dns.TypeA)
		if err != nil || b.within(holds) != c.want {
			t.Errorf("%v, %q: %v, %v; want %v", c.answer, c.ns, b.within(holds), err, c.want)
		}
	}
}

func TestNobodyIsAskedBeforeTheAnswerExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		time.Sleep(2 * time.Second) // the lookup took long
		if err := expiry(began, 7*time.Second)(t.Context()); err != nil || time.Since(began) != 7*time.Second {
			t.Errorf("waited %v, %v", time.Since(began), err)
		}
	})
}

func parse(t *testing.T, text string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}
