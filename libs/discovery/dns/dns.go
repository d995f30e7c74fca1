// Package dns is discovery by the domain name system:
//
//	dns:///roost.example.net?port=25521          addresses, each with this port
//	dns:///_roost._tcp.example.net               SRV records: names and ports
//	dns://10.0.0.2,10.0.0.3:5353/roost.example.net?port=25521
//	                                             these resolvers, in order
//
// Parameters: type (ip, a, aaaa or srv; default srv for a name that begins with "_",
// otherwise ip, which is a and aaaa), port (for A and AAAA records, which have none), role
// (of all peers), min_ttl and max_ttl (default 1s and 1m; bounds of an answer's time to
// live). Without a resolver in the URL, those in /etc/resolv.conf are used, which is read at
// every lookup. Names are absolute; search domains are not used.
//
// # What this does not do
//
// A name that does not exist yields an empty list, because that is how a service without
// instances looks. Processes do not register themselves. The target of an SRV record is
// not resolved: it is the peer's address. Answers are not authenticated (DNSSEC); peers
// must be authenticated when they are contacted.
package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/discovery"
)

func init() {
	discovery.Backends.Register(discovery.Parsed(func(u *backendurl.URL, _ string) (*Backend, error) { return Open(u) }), "dns")
}

const (
	resolvConf = "/etc/resolv.conf"
	// udpSize is the largest answer by UDP, small enough not to be fragmented (DNS flag
	// day 2020); longer ones are requested again by TCP.
	udpSize = 1232
	// maxAliases bounds a chain of CNAME records.
	maxAliases = 8
	// ednsWait bounds the wait for an answer to a query with EDNS: some firewalls drop these. A resolver
	// that needs longer gets the query again without it.
	ednsWait = time.Second
)

// Backend queries the records of one name.
type Backend struct {
	resolvers      []string // empty: conf's
	conf           string
	name           string
	types          []uint16
	port           int
	role           string
	minTTL, maxTTL time.Duration
}

// Open returns a Backend; it sends no request yet. Errors wrap discovery.ErrConfig.
func Open(u *backendurl.URL) (*Backend, error) {
	d := &Backend{conf: resolvConf, name: dns.Fqdn(u.Path), port: u.Port("port"), role: u.Text("role", "")}
	kind := "ip"
	if strings.HasPrefix(u.Path, "_") {
		kind = "srv"
	}
	kinds := map[string][]uint16{"ip": {dns.TypeA, dns.TypeAAAA}, "a": {dns.TypeA}, "aaaa": {dns.TypeAAAA}, "srv": {dns.TypeSRV}}
	kind = u.OneOf("type", kind, "ip", "a", "aaaa", "srv")
	d.types = kinds[kind]
	d.minTTL = u.Duration("min_ttl", time.Second, 100*time.Millisecond, time.Minute)
	d.maxTTL = u.Duration("max_ttl", time.Minute, time.Second, 5*time.Minute)
	if err := u.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", discovery.ErrConfig, err)
	}
	bad := func(format string, args ...any) (*Backend, error) {
		return nil, fmt.Errorf("%w: dns: %s", discovery.ErrConfig, fmt.Sprintf(format, args...))
	}
	if _, ok := dns.IsDomainName(d.name); !ok || u.Path == "" || strings.ContainsAny(u.Path, "/ ") {
		return bad("%.80q is not a name; write for example dns:///roost.example.net?port=25521", u.Path)
	}
	switch {
	case kind == "srv" && d.port != 0:
		return bad("SRV records have ports; leave the parameter port out")
	case kind != "srv" && d.port == 0:
		return bad("addresses have no port; add for example ?port=25521")
	case d.minTTL > d.maxTTL:
		return bad("min_ttl %v is above max_ttl %v", d.minTTL, d.maxTTL)
	}
	if _, err := discovery.ParsePeer(discovery.Peer{Addr: "a:1", Role: d.role}.String()); err != nil {
		return bad("parameter role: %v", err)
	}
	for _, s := range strings.Split(u.Hosts, ",") {
		if u.Hosts == "" {
			break
		}
		addr, err := resolver(s)
		if err != nil {
			return bad("%v", err)
		}
		d.resolvers = append(d.resolvers, addr)
	}
	return d, nil
}

// resolver adds the default port to the address of a resolver.
func resolver(s string) (string, error) {
	addr := s
	if _, _, err := net.SplitHostPort(s); err != nil {
		addr = net.JoinHostPort(strings.Trim(s, "[]"), "53")
	}
	if _, err := discovery.ParsePeer(addr); err != nil {
		return "", fmt.Errorf("resolver %.80q is not a host or host:port", s)
	}
	return addr, nil
}

// Close does nothing.
func (d *Backend) Close() error { return nil }

// Peers queries the records now.
func (d *Backend) Peers(ctx context.Context) ([]discovery.Peer, error) {
	peers, _, err := d.lookup(ctx)
	return peers, err
}

// Follow queries the records now. The returned function waits until they expire.
func (d *Backend) Follow(ctx context.Context) ([]discovery.Peer, discovery.Changed, error) {
	began := time.Now()
	peers, ttl, err := d.lookup(ctx)
	if err != nil {
		return nil, nil, err
	}
	return peers, expiry(began, ttl), nil
}

// expiry returns a function that waits for the end of an answer's time to live, counted
// from the request.
func expiry(began time.Time, ttl time.Duration) discovery.Changed {
	return func(ctx context.Context) error {
		timer := time.NewTimer(time.Until(began.Add(ttl)))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookup queries all record types, and returns the peers and the time to live.
func (d *Backend) lookup(ctx context.Context) ([]discovery.Peer, time.Duration, error) {
	resolvers, err := d.servers()
	if err != nil {
		return nil, 0, err
	}
	var peers []discovery.Peer
	ttl := d.maxTTL
	for _, typ := range d.types {
		res, err := d.ask(ctx, resolvers, typ)
		if err != nil {
			return nil, 0, fmt.Errorf("dns %s %s: %w", dns.TypeToString[typ], d.name, err)
		}
		found, holds, err := d.read(res, typ)
		if err != nil {
			return nil, 0, fmt.Errorf("dns %s %s: %w", dns.TypeToString[typ], d.name, err)
		}
		peers = append(peers, found...)
		ttl = min(ttl, holds)
	}
	return peers, d.within(ttl), nil
}

func (d *Backend) within(ttl time.Duration) time.Duration { return min(max(ttl, d.minTTL), d.maxTTL) }

func (d *Backend) servers() ([]string, error) {
	if len(d.resolvers) > 0 {
		return d.resolvers, nil
	}
	conf, err := dns.ClientConfigFromFile(d.conf)
	if err != nil {
		return nil, fmt.Errorf("dns: resolver configuration: %w", err)
	}
	var servers []string
	for _, s := range conf.Servers {
		servers = append(servers, net.JoinHostPort(s, conf.Port))
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("dns: %s names no resolver; write one into the URL: dns://host/name", d.conf)
	}
	return servers, nil
}

// ask tries the resolvers in order until one answers; each gets its share of the time.
func (d *Backend) ask(ctx context.Context, resolvers []string, typ uint16) (*dns.Msg, error) {
	var errs []error
	for i, server := range resolvers {
		share, cancel := ctx, context.CancelFunc(func() {})
		if deadline, ok := ctx.Deadline(); ok {
			left := time.Until(deadline)
			share, cancel = context.WithTimeout(ctx, left/time.Duration(len(resolvers)-i))
		}
		res, err := d.exchange(share, server, typ)
		cancel()
		if err == nil {
			return res, nil
		}
		errs = append(errs, fmt.Errorf("resolver %s: %w", server, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// exchange asks a resolver, and asks again without EDNS if it does not know EDNS or does not answer (RFC 6891,
// section 6.2.2).
func (d *Backend) exchange(ctx context.Context, server string, typ uint16) (*dns.Msg, error) {
	wait := ednsWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	first, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	res, err := d.query(first, server, typ, true)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && !timedOut(err):
		return nil, err
	case err != nil || res.Rcode == dns.RcodeFormatError || res.Rcode == dns.RcodeNotImplemented || res.Rcode == dns.RcodeBadVers:
		if res, err = d.query(ctx, server, typ, false); err != nil {
			return nil, err
		}
	}
	switch {
	case res.Rcode == dns.RcodeRefused:
		return nil, fmt.Errorf("%w: it refused the query", discovery.ErrDenied)
	case res.Rcode != dns.RcodeSuccess && res.Rcode != dns.RcodeNameError:
		return nil, fmt.Errorf("it answers %s", dns.RcodeToString[res.Rcode])
	case len(res.Question) != 1 || !strings.EqualFold(res.Question[0].Name, d.name) || res.Question[0].Qtype != typ:
		return nil, errors.New("its answer is to another question")
	case res.Truncated:
		return nil, errors.New("its answer is truncated")
	}
	return res, nil
}

// timedOut reports whether nothing has answered in time. The connection has the deadline of its context, and may say so
// a moment before the context does.
func timedOut(err error) bool {
	var of net.Error
	return errors.As(err, &of) && of.Timeout()
}

// query asks by UDP, and by TCP if the answer is too long for it.
func (d *Backend) query(ctx context.Context, server string, typ uint16, edns bool) (*dns.Msg, error) {
	req := new(dns.Msg)
	req.SetQuestion(d.name, typ)
	if edns {
		req.SetEdns0(udpSize, false)
	}
	res, err := d.once(ctx, "udp", server, req)
	if err == nil && res.Truncated {
		return d.once(ctx, "tcp", server, req)
	}
	return res, err
}

func (d *Backend) once(ctx context.Context, network, server string, req *dns.Msg) (*dns.Msg, error) {
	client := dns.Client{Net: network, UDPSize: udpSize, Timeout: time.Hour} // ctx bounds it
	conn, err := client.DialContext(ctx, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	// The client respects only the deadline of ctx, not its cancellation.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	res, _, err := client.ExchangeWithConnContext(ctx, req, conn)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return res, err
}

// read returns the peers in an answer, and its time to live.
func (d *Backend) read(res *dns.Msg, typ uint16) ([]discovery.Peer, time.Duration, error) {
	holds := d.maxTTL
	lives := func(seconds uint32) { holds = min(holds, time.Duration(seconds)*time.Second) }
	names := aliases(res.Answer, d.name, lives)
	var peers []discovery.Peer
	for _, rr := range res.Answer {
		h := rr.Header()
		if h.Rrtype != typ || h.Class != dns.ClassINET || !slices.Contains(names, strings.ToLower(h.Name)) {
			continue
		}
		lives(h.Ttl)
		host, port := "", d.port
		switch r := rr.(type) {
		case *dns.A:
			host = r.A.String()
		case *dns.AAAA:
			host = r.AAAA.String()
		case *dns.SRV:
			if r.Target == "." { // RFC 2782: the service is decidedly not available
				continue
			}
			host, port = strings.TrimSuffix(r.Target, "."), int(r.Port)
		}
		p, err := discovery.ParsePeer(discovery.Peer{Addr: net.JoinHostPort(host, strconv.Itoa(port)), Role: d.role}.String())
		if err != nil {
			return nil, 0, fmt.Errorf("record %.200q: %w", rr.String(), err)
		}
		peers = append(peers, p)
	}
	if len(peers) == 0 {
		// The time to live of a negative answer (RFC 2308, section 5).
		for _, rr := range res.Ns {
			if soa, ok := rr.(*dns.SOA); ok {
				lives(min(soa.Hdr.Ttl, soa.Minttl))
			}
		}
	}
	return peers, holds, nil
}

// aliases returns the names that records may have: the queried name, and the targets of CNAME records.
func aliases(answer []dns.RR, name string, lives func(uint32)) []string {
	names := []string{strings.ToLower(name)}
	for range maxAliases {
		last := names[len(names)-1]
		for _, rr := range answer {
			if c, ok := rr.(*dns.CNAME); ok && strings.EqualFold(c.Hdr.Name, last) {
				lives(c.Hdr.Ttl)
				names = append(names, strings.ToLower(c.Target))
				break
			}
		}
		if names[len(names)-1] == last {
			break
		}
	}
	return names
}
