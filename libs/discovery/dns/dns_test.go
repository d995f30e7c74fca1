package dns_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/discoverytest"
	discoverydns "github.com/roost-cluster/roost/libs/discovery/dns"
)

const (
	name = "roost.example."
	srv  = "_roost._tcp.roost.example."
)

// resolver is a server whose zone the test changes.
type resolver struct {
	addr string

	mu      sync.Mutex
	records []dns.RR
	rcode   int
	mangle  func(*dns.Msg)
	silent  bool
	edns    func(dns.ResponseWriter, *dns.Msg) // answers queries with EDNS
	asked   map[string]int                     // by network
	servers []*dns.Server
}

func newResolver(t *testing.T) *resolver {
	t.Helper()
	r := &resolver{asked: map[string]int{}}
	r.start(t)
	t.Cleanup(r.stop)
	return r
}

// start listens on UDP and TCP of one port, the one of its previous life if any.
func (r *resolver) start(t *testing.T) {
	t.Helper()
	addr := r.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	var packets net.PacketConn
	var listener net.Listener
	var err error
	for range 50 { // until a port is free for both
		if packets, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		if listener, err = net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			break
		}
		_ = packets.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.addr = packets.LocalAddr().String()
	for _, s := range []*dns.Server{{PacketConn: packets}, {Listener: listener}} {
		network := "udp"
		if s.Listener != nil {
			network = "tcp"
		}
		s.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) { r.answer(network, w, req) })
		up := make(chan struct{})
		s.NotifyStartedFunc = func() { close(up) }
		go func() { _ = s.ActivateAndServe() }()
		<-up
		r.servers = append(r.servers, s)
	}
}

func (r *resolver) stop() {
	for _, s := range r.servers {
		_ = s.Shutdown()
	}
	r.servers = nil
}

func (r *resolver) answer(network string, w dns.ResponseWriter, req *dns.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[network]++
	if r.silent {
		return
	}
	if r.edns != nil && req.IsEdns0() != nil {
		r.edns(w, req)
		return
	}
	res := new(dns.Msg)
	res.SetReply(req)
	res.Rcode = r.rcode
	known := false
	for _, rr := range r.records {
		if strings.EqualFold(rr.Header().Name, req.Question[0].Name) {
			known = true
		}
		if rr.Header().Rrtype == req.Question[0].Qtype || rr.Header().Rrtype == dns.TypeCNAME {
			res.Answer = append(res.Answer, rr)
		}
	}
	if !known && r.rcode == dns.RcodeSuccess {
		res.Rcode = dns.RcodeNameError
	}
	if r.mangle != nil {
		r.mangle(res)
	}
	if network == "udp" {
		res.Truncate(1232)
	}
	_ = w.WriteMsg(res)
}

func (r *resolver) set(t *testing.T, change func()) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rcode, r.mangle, r.silent = dns.RcodeSuccess, nil, false
	change()
}

func record(t *testing.T, format string, args ...any) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(fmt.Sprintf(format, args...))
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

func open(t *testing.T, url string) *discoverydns.Backend {
	t.Helper()
	u, err := backendurl.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := discoverydns.Open(u)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *resolver) harness(t *testing.T, query string, records func(*testing.T, []discovery.Peer) []dns.RR, peers []discovery.Peer) discoverytest.Harness {
	change := func(t *testing.T, peers []discovery.Peer) {
		rrs := records(t, peers)
		r.set(t, func() { r.records = rrs })
	}
	change(t, peers)
	url := "dns://" + r.addr + "/" + query
	return discoverytest.Harness{
		Backend: open(t, url),
		Change:  change,
		Break:   func(t *testing.T) { r.set(t, func() { r.rcode = dns.RcodeServerFailure }) },
		Garbage: func(t *testing.T) string {
			r.set(t, func() { r.mangle = func(m *dns.Msg) { m.Question[0].Name = "other.example." } })
			return name
		},
		Deny: func(t *testing.T) string {
			r.set(t, func() { r.rcode = dns.RcodeRefused })
			return name
		},
		Allow: func(t *testing.T) { r.set(t, func() {}) },
		Down:  func(*testing.T) { r.stop() },
		Up: func(t *testing.T) {
			r.set(t, func() {})
			if r.servers == nil {
				r.start(t)
			}
		},
		Pause:  func(t *testing.T) { r.set(t, func() { r.silent = true }) },
		Second: func(t *testing.T) discovery.Backend { return open(t, url) },
	}
}

func TestConformanceOfAddresses(t *testing.T) {
	t.Parallel()
	discoverytest.Suite{
		Name: "dns",
		Express: func(p discovery.Peer) discovery.Peer {
			h := fnv.New32a()
			h.Write([]byte(p.Addr))
			ip := binary.BigEndian.AppendUint32(nil, h.Sum32())
			if strings.HasPrefix(p.Addr, "[") {
				ip = append(net.ParseIP("2001:db8::")[:12], ip...)
			}
			return discovery.Peer{Addr: net.JoinHostPort(net.IP(ip).String(), "7000"), Role: "region"}
		},
		With: func(t *testing.T, peers []discovery.Peer) discoverytest.Harness {
			r := newResolver(t)
			return r.harness(t, "roost.example?port=7000&role=region", func(t *testing.T, peers []discovery.Peer) []dns.RR {
				var rrs []dns.RR
				for _, p := range peers {
					host, _, _ := net.SplitHostPort(p.Addr)
					typ := "A"
					if strings.Contains(host, ":") {
						typ = "AAAA"
					}
					rrs = append(rrs, record(t, "%s 1 IN %s %s", name, typ, host))
				}
				return rrs
			}, peers)
		},
	}.Run(t)
}

func TestConformanceOfServices(t *testing.T) {
	t.Parallel()
	discoverytest.Suite{
		Name: "dns",
		Express: func(p discovery.Peer) discovery.Peer {
			host, port, _ := net.SplitHostPort(p.Addr)
			host = strings.NewReplacer(":", "-").Replace(host)
			return discovery.Peer{Addr: "host-" + host + ".example:" + port}
		},
		With: func(t *testing.T, peers []discovery.Peer) discoverytest.Harness {
			r := newResolver(t)
			h := r.harness(t, strings.TrimSuffix(srv, "."), func(t *testing.T, peers []discovery.Peer) []dns.RR {
				var rrs []dns.RR
				for _, p := range peers {
					host, port, _ := net.SplitHostPort(p.Addr)
					rrs = append(rrs, record(t, "%s 1 IN SRV 0 0 %s %s.", srv, port, host))
				}
				return rrs
			}, peers)
			h.WrongPort = func(t *testing.T) string {
				rr := record(t, "%s 1 IN SRV 0 0 0 a.example.", srv)
				r.set(t, func() { r.records = append(r.records, rr) })
				return srv
			}
			return h
		},
	}.Run(t)
}

func TestLongAnswersComeByTCP(t *testing.T) {
	r := newResolver(t)
	for i := range 300 {
		r.records = append(r.records, record(t, "%s 1 IN A 10.0.%d.%d", name, i/200, i%200))
	}
	b := open(t, "dns://"+r.addr+"/roost.example?port=1&type=a")
	if got, err := b.Peers(t.Context()); err != nil || len(got) != 300 || r.asked["udp"] != 1 || r.asked["tcp"] != 1 {
		t.Errorf("%d peers, %v, asked %v", len(got), err, r.asked)
	}
}

// Only records about the name count, and what aliases lead to.
func TestAliases(t *testing.T) {
	r := newResolver(t)
	r.records = []dns.RR{
		record(t, "%s 5 IN CNAME b.example.", name), record(t, "B.example. 5 IN CNAME c.example."),
		record(t, "c.example. 5 IN A 10.0.0.1"), record(t, "evil.example. 5 IN A 10.6.6.6"),
		record(t, "loop.example. 5 IN CNAME loop.example."),
	}
	b := open(t, "dns://"+r.addr+"/ROOST.example?port=1&type=a")
	if got, err := b.Peers(t.Context()); err != nil || !slices.Equal(got, []discovery.Peer{{Addr: "10.0.0.1:1"}}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestNoSuchServiceAndNextResolver(t *testing.T) {
	r, dead := newResolver(t), newResolver(t)
	dead.stop()
	r.records = []dns.RR{record(t, "%s 1 IN SRV 0 0 0 .", srv)}
	b := open(t, "dns://"+dead.addr+","+r.addr+"/"+srv)
	if got, err := b.Peers(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	r.stop()
	if got, err := b.Peers(t.Context()); err == nil || !strings.Contains(err.Error(), dead.addr) || !strings.Contains(err.Error(), r.addr) {
		t.Errorf("got %v, %v; want an error that names both", got, err)
	}
}

// TestResolversWithoutEDNS: a resolver that refuses or drops queries with EDNS gets a second query without it.
func TestResolversWithoutEDNS(t *testing.T) {
	r := newResolver(t)
	r.records = []dns.RR{record(t, "%s 5 IN A 10.0.0.1", name)}
	b := open(t, "dns://"+r.addr+"/roost.example?port=1&type=a")
	for what, refuse := range map[string]func(w dns.ResponseWriter, req *dns.Msg){
		"FORMERR with the header alone": func(w dns.ResponseWriter, req *dns.Msg) {
			res := new(dns.Msg)
			res.Id, res.Response, res.Rcode = req.Id, true, dns.RcodeFormatError
			_ = w.WriteMsg(res)
		},
		"NOTIMP": func(w dns.ResponseWriter, req *dns.Msg) {
			_ = w.WriteMsg(new(dns.Msg).SetRcode(req, dns.RcodeNotImplemented))
		},
		"nothing": func(dns.ResponseWriter, *dns.Msg) {},
	} {
		r.set(t, func() { r.edns = refuse })
		if got, err := b.Peers(t.Context()); err != nil || !slices.Equal(got, []discovery.Peer{{Addr: "10.0.0.1:1"}}) {
			t.Errorf("%s: got %v, %v", what, got, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, url := range []string{
		"dns:///", "dns:///a", "dns:///a?port=0", "dns:///a?port=x", "dns:///_a._tcp.b?port=1", "dns:///a?type=mx&port=1", "dns://x:y/a?port=1",
		"dns:///a?port=1&min_ttl=30s&max_ttl=10s", "dns:///a/b?port=1", "dns:///a?port=1&role=a@b", "dns:///a..b?port=1", "dns:///a?port=1&colour=red",
	} {
		u, err := backendurl.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := discoverydns.Open(u); !errors.Is(err, discovery.ErrConfig) {
			t.Errorf("%s gives %v", url, err)
		}
	}
}
