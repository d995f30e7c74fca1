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
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/discovery"
)

func init() {
	discovery.Backends.Register(discovery.Parsed(func(u *backendurl.URL, _ string) (*Driver, error) { return Open(u) }), "dns")
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
	// badVersion refuses a version of EDNS (RFC 6891, section 9).
	badVersion = dnsmessage.RCode(16)
)

// Driver queries the records of one name.
type Driver struct {
	resolvers      []string // empty: conf's
	conf           string
	name           string
	types          []dnsmessage.Type
	port           int
	role           string
	minTTL, maxTTL time.Duration
}

// Open returns a Driver; it sends no request yet. Errors wrap discovery.ErrConfig.
func Open(u *backendurl.URL) (*Driver, error) {
	d := &Driver{conf: resolvConf, name: strings.TrimSuffix(u.Path, ".") + ".", port: u.Port("port"), role: u.Text("role", "")}
	kind := "ip"
	if strings.HasPrefix(u.Path, "_") {
		kind = "srv"
	}
	kinds := map[string][]dnsmessage.Type{"ip": {dnsmessage.TypeA, dnsmessage.TypeAAAA}, "a": {dnsmessage.TypeA}, "aaaa": {dnsmessage.TypeAAAA}, "srv": {dnsmessage.TypeSRV}}
	kind = u.OneOf("type", kind, "ip", "a", "aaaa", "srv")
	d.types = kinds[kind]
	d.minTTL = u.Duration("min_ttl", time.Second, 100*time.Millisecond, time.Minute)
	d.maxTTL = u.Duration("max_ttl", time.Minute, time.Second, 5*time.Minute)
	if err := u.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", discovery.ErrConfig, err)
	}
	bad := func(format string, args ...any) (*Driver, error) {
		return nil, fmt.Errorf("%w: dns: %s", discovery.ErrConfig, fmt.Sprintf(format, args...))
	}
	if _, err := d.request(0, d.types[0], true); err != nil || u.Path == "" || strings.ContainsAny(u.Path, "/ ") {
		return bad("%.80q is no name; write for example dns:///roost.example.net?port=25521", u.Path)
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
func (d *Driver) Close() error { return nil }

// Peers queries the records now.
func (d *Driver) Peers(ctx context.Context) ([]discovery.Peer, error) {
	peers, _, err := d.lookup(ctx)
	return peers, err
}

// Follow queries the records now. The returned function waits until they expire.
func (d *Driver) Follow(ctx context.Context) ([]discovery.Peer, discovery.Changed, error) {
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
func (d *Driver) lookup(ctx context.Context) ([]discovery.Peer, time.Duration, error) {
	resolvers, err := d.servers()
	if err != nil {
		return nil, 0, err
	}
	var peers []discovery.Peer
	ttl := d.maxTTL
	for _, typ := range d.types {
		res, err := d.ask(ctx, resolvers, typ)
		if err != nil {
			return nil, 0, fmt.Errorf("dns %s %s: %w", typeName(typ), d.name, err)
		}
		found, holds, err := d.read(res, typ)
		if err != nil {
			return nil, 0, fmt.Errorf("dns %s %s: %w", typeName(typ), d.name, err)
		}
		peers = append(peers, found...)
		ttl = min(ttl, holds)
	}
	return peers, d.within(ttl), nil
}

func (d *Driver) within(ttl time.Duration) time.Duration { return min(max(ttl, d.minTTL), d.maxTTL) }

func (d *Driver) servers() ([]string, error) {
	if len(d.resolvers) > 0 {
		return d.resolvers, nil
	}
	conf, err := os.Open(d.conf)
	if err != nil {
		return nil, fmt.Errorf("dns: resolver configuration: %w", err)
	}
	defer func() { _ = conf.Close() }()
	var servers []string
	lines := bufio.NewScanner(conf)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == "nameserver" {
			servers = append(servers, net.JoinHostPort(words[1], "53"))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("dns: resolver configuration: %w", err)
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("dns: %s names no resolver; write one into the URL: dns://host/name", d.conf)
	}
	return servers, nil
}

// ask tries the resolvers in order until one answers; each gets its share of the time.
func (d *Driver) ask(ctx context.Context, resolvers []string, typ dnsmessage.Type) (*dnsmessage.Message, error) {
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
func (d *Driver) exchange(ctx context.Context, server string, typ dnsmessage.Type) (*dnsmessage.Message, error) {
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
	case err != nil || res.RCode == dnsmessage.RCodeFormatError || res.RCode == dnsmessage.RCodeNotImplemented || res.RCode == badVersion:
		if res, err = d.query(ctx, server, typ, false); err != nil {
			return nil, err
		}
	}
	switch {
	case res.RCode == dnsmessage.RCodeRefused:
		return nil, fmt.Errorf("%w: it refused the query", discovery.ErrDenied)
	case res.RCode != dnsmessage.RCodeSuccess && res.RCode != dnsmessage.RCodeNameError:
		return nil, fmt.Errorf("it answers %s", strings.TrimPrefix(res.RCode.String(), "RCode"))
	case len(res.Questions) != 1 || !strings.EqualFold(res.Questions[0].Name.String(), d.name) || res.Questions[0].Type != typ:
		return nil, errors.New("its answer is to another question")
	case res.Truncated:
		return nil, errors.New("its answer is truncated")
	}
	return res, nil
}

// timedOut reports whether nothing has answered in time.
func timedOut(err error) bool {
	var of net.Error
	return errors.As(err, &of) && of.Timeout()
}

// request returns a query, as bytes.
func (d *Driver) request(id uint16, typ dnsmessage.Type, edns bool) ([]byte, error) {
	name, err := dnsmessage.NewName(d.name)
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: typ, Class: dnsmessage.ClassINET}},
	}
	if edns {
		h := dnsmessage.ResourceHeader{}
		if err := h.SetEDNS0(udpSize, dnsmessage.RCodeSuccess, false); err != nil {
			return nil, err
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	return m.Pack()
}

// query asks by UDP, and by TCP if the answer is too long for it.
func (d *Driver) query(ctx context.Context, server string, typ dnsmessage.Type, edns bool) (*dnsmessage.Message, error) {
	id := uint16(rand.Uint32()) // unpredictable, for those who cannot see the query
	request, err := d.request(id, typ, edns)
	if err != nil {
		return nil, err
	}
	res, err := once(ctx, "udp", server, id, request)
	if err == nil && res.Truncated {
		return once(ctx, "tcp", server, id, request)
	}
	return res, err
}

func once(ctx context.Context, network, server string, id uint16, request []byte) (*dnsmessage.Message, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	converse := byDatagram
	if network == "tcp" {
		converse = byStream
	}
	answer, err := converse(conn, id, request)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	res := &dnsmessage.Message{}
	if err := res.Unpack(answer); err != nil {
		return nil, fmt.Errorf("its answer is damaged: %w", err)
	}
	if res.ID != id || !res.Response {
		return nil, errors.New("its answer is to another query")
	}
	for _, rr := range res.Additionals {
		if rr.Header.Type == dnsmessage.TypeOPT {
			res.RCode = rr.Header.ExtendedRCode(res.RCode)
		}
	}
	return res, nil
}

// byDatagram ignores answers to other queries: they are late or forged.
func byDatagram(conn net.Conn, id uint16, request []byte) ([]byte, error) {
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	answer := make([]byte, udpSize)
	for {
		n, err := conn.Read(answer)
		if err != nil {
			return nil, err
		}
		if n >= 2 && binary.BigEndian.Uint16(answer) == id {
			return answer[:n], nil
		}
	}
}

// byStream writes and reads messages after their lengths (RFC 1035, section 4.2.2).
func byStream(conn net.Conn, _ uint16, request []byte) ([]byte, error) {
	framed := binary.BigEndian.AppendUint16(nil, uint16(len(request)))
	if _, err := conn.Write(append(framed, request...)); err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

func typeName(typ dnsmessage.Type) string { return strings.TrimPrefix(typ.String(), "Type") }

// read returns the peers in an answer, and its time to live.
func (d *Driver) read(res *dnsmessage.Message, typ dnsmessage.Type) ([]discovery.Peer, time.Duration, error) {
	holds := d.maxTTL
	lives := func(seconds uint32) { holds = min(holds, time.Duration(seconds)*time.Second) }
	names := aliases(res.Answers, d.name, lives)
	var peers []discovery.Peer
	for _, rr := range res.Answers {
		h := &rr.Header
		if h.Type != typ || h.Class != dnsmessage.ClassINET || !slices.Contains(names, strings.ToLower(h.Name.String())) {
			continue
		}
		lives(h.TTL)
		host, port := "", d.port
		switch r := rr.Body.(type) {
		case *dnsmessage.AResource:
			host = net.IP(r.A[:]).String()
		case *dnsmessage.AAAAResource:
			host = net.IP(r.AAAA[:]).String()
		case *dnsmessage.SRVResource:
			host, port = r.Target.String(), int(r.Port)
			if host == "." { // RFC 2782: the service is decidedly not available
				continue
			}
			host = strings.TrimSuffix(host, ".")
		}
		p, err := discovery.ParsePeer(discovery.Peer{Addr: net.JoinHostPort(host, strconv.Itoa(port)), Role: d.role}.String())
		if err != nil {
			return nil, 0, fmt.Errorf("record %s of %.200q: %w", typeName(typ), h.Name.String(), err)
		}
		peers = append(peers, p)
	}
	if len(peers) == 0 {
		// The time to live of a negative answer (RFC 2308, section 5).
		for _, rr := range res.Authorities {
			if soa, ok := rr.Body.(*dnsmessage.SOAResource); ok {
				lives(min(rr.Header.TTL, soa.MinTTL))
			}
		}
	}
	return peers, holds, nil
}

// aliases returns the names that records may have: the queried name, and the targets of CNAME records.
func aliases(answer []dnsmessage.Resource, name string, lives func(uint32)) []string {
	names := []string{strings.ToLower(name)}
	for range maxAliases {
		last := names[len(names)-1]
		for _, rr := range answer {
			if c, ok := rr.Body.(*dnsmessage.CNAMEResource); ok && strings.EqualFold(rr.Header.Name.String(), last) {
				lives(rr.Header.TTL)
				names = append(names, strings.ToLower(c.CNAME.String()))
				break
			}
		}
		if names[len(names)-1] == last {
			break
		}
	}
	return names
}
