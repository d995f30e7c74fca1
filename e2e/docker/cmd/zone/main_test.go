package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// answer records what the server writes.
type answer struct {
	dns.ResponseWriter
	msg *dns.Msg
}

func (*answer) RemoteAddr() net.Addr            { return &net.UDPAddr{} }
func (a *answer) WriteMsg(m *dns.Msg) (_ error) { a.msg = m; return }

func TestZone(t *testing.T) {
	z := &zone{file: filepath.Join(t.TempDir(), "zone")}
	put := func(text string) int {
		w := httptest.NewRecorder()
		z.put(w, httptest.NewRequest(http.MethodPut, "/zone", strings.NewReader(text)))
		return w.Code
	}
	ask := func(name string, kind uint16) *dns.Msg {
		a := &answer{}
		z.ServeDNS(a, new(dns.Msg).SetQuestion(name, kind))
		return a.msg
	}
	if code := put("c.test. 1 IN A 10.0.0.1\n\nc.test. 1 IN A 10.0.0.2\n"); code != http.StatusOK {
		t.Fatal(code)
	}
	if m := ask("C.test.", dns.TypeA); len(m.Answer) != 2 || m.Rcode != dns.RcodeSuccess {
		t.Errorf("two addresses: %v", m)
	}
	if m := ask("c.test.", dns.TypeAAAA); len(m.Answer) != 0 || m.Rcode != dns.RcodeSuccess {
		t.Errorf("a name without such records: %v", m)
	}
	if m := ask("d.test.", dns.TypeA); m.Rcode != dns.RcodeNameError {
		t.Errorf("no such name: %v", m)
	}
	if code := put("no record"); code != http.StatusBadRequest {
		t.Errorf("nonsense is answered %d", code)
	}
	if m := ask("c.test.", dns.TypeA); len(m.Answer) != 2 {
		t.Errorf("nonsense has changed the zone: %v", m)
	}
}
