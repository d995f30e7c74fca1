// Command zone is a DNS server for tests, whose zone is changed by HTTP: PUT
// /zone replaces it by the lines of the body, each a record as in a zone file.
// The zone is kept in a file.
//
// # What this does not do
//
// It does not resolve other names, has no zone transfers and no DNSSEC, and lets everybody
// change the zone.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// maxZone bounds a zone, in bytes.
const maxZone = 1 << 20

func main() {
	listen := flag.String("listen", ":5353", "host:port for DNS by UDP and TCP")
	control := flag.String("control", ":8053", "host:port for HTTP")
	file := flag.String("file", "/data/zone", "where the zone is kept")
	flag.Parse()
	z := &zone{file: *file}
	text, err := os.ReadFile(*file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Fatal(err)
	}
	if err := z.set(string(text)); err != nil {
		log.Fatal(err)
	}
	for _, network := range []string{"udp", "tcp"} {
		go func() { log.Fatal((&dns.Server{Addr: *listen, Net: network, Handler: z}).ListenAndServe()) }()
	}
	http.HandleFunc("PUT /zone", z.put)
	log.Fatal(http.ListenAndServe(*control, nil))
}

// zone is a set of records.
type zone struct {
	file string

	mu      sync.Mutex
	records []dns.RR
}

func (z *zone) put(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxZone))
	if err == nil {
		err = z.set(string(text))
	}
	if err == nil {
		err = os.WriteFile(z.file, text, 0o600)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (z *zone) set(text string) error {
	var records []dns.RR
	for line := range strings.Lines(text) {
		rr, err := dns.NewRR(line)
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		if rr != nil { // an empty line
			records = append(records, rr)
		}
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records = records
	return nil
}

// ServeDNS answers with the records of the name and type asked for.
func (z *zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg).SetReply(q)
	m.Authoritative, m.Rcode = true, dns.RcodeNameError
	z.mu.Lock()
	for _, rr := range z.records {
		if !strings.EqualFold(rr.Header().Name, q.Question[0].Name) {
			continue
		}
		m.Rcode = dns.RcodeSuccess
		if rr.Header().Rrtype == q.Question[0].Qtype {
			m.Answer = append(m.Answer, rr)
		}
	}
	z.mu.Unlock()
	if udp := w.RemoteAddr().Network() == "udp"; udp {
		size := dns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = int(o.UDPSize())
		}
		m.Truncate(size)
	}
	if err := w.WriteMsg(m); err != nil {
		log.Print(err)
	}
}
