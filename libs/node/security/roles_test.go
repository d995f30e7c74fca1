package security

import (
	"crypto/x509"
	"net/url"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/control"
)

// TestRoleInCertificate: what a certificate is for is read from its URI, in the form that is configured.
func TestRoleInCertificate(t *testing.T) {
	for _, c := range []struct {
		pattern string
		require bool
		uris    string
		want    control.Role
		err     string
	}{
		{"", true, "spiffe://shop/region/r1", control.Region, ""},
		{"", true, "spiffe://shop/coordinator/c1", control.Coordinator, ""},
		{"", true, "spiffe://shop/gateway/g1", control.Gateway, ""},
		{"", true, "https://other.example/x spiffe://shop/region/r1", control.Region, ""},
		{"", true, "spiffe://shop/region/r1 spiffe://shop/gateway/r1", 0, "for one process"},
		{"", false, "spiffe://shop/admin/r1", 0, "one of the roles"},
		{"", false, "spiffe://other/region/r1", 0, `cluster "other"`},
		{"", true, "spiffe://shop/region", control.Region, ""},
		{"", true, "spiffe://shop/region/", 0, "tls.roles is require"},
		{"", true, "spiffe://shop/region/r1 spiffe://shop/region/r2", 0, "for one process"},
		{"", true, "spiffe://shop/region/r1/more", 0, "tls.roles is require"},
		{"", true, "", 0, "tls.roles is require"},
		{"", false, "", control.Anybody, ""},
		{"", false, "https://other.example/x", control.Anybody, ""},
		{"spiffe://cluster.local/ns/roost/sa/{role}", true, "spiffe://cluster.local/ns/roost/sa/gateway", control.Gateway, ""},
		{"spiffe://cluster.local/ns/roost/sa/{role}", true, "spiffe://cluster.local/ns/other/sa/gateway", 0, "tls.roles is require"},
		{"spiffe://cluster.local/ns/roost/sa/{role}", true, "spiffe://cluster-local/ns/roost/sa/gateway", 0, "tls.roles is require"},
	} {
		if c.pattern == "" {
			c.pattern = DefaultIdentity
		}
		ids, err := newIdentities("shop", c.pattern, c.require)
		if err != nil {
			t.Fatal(err)
		}
		cert := &x509.Certificate{}
		for _, text := range strings.Fields(c.uris) {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			cert.URIs = append(cert.URIs, u)
		}
		is, err := ids.of(cert)
		role := is.Roles
		if role != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %v %q: %v, %v; want %v, %q", c.pattern, c.require, c.uris, role, err, c.want, c.err)
		}
	}
	for _, wrong := range []string{"", "spiffe://{cluster}/{node}", "{role}/{role}", "{role}/{zone}", "{role}/{node}/{node}"} {
		if _, err := newIdentities("shop", wrong, false); err == nil {
			t.Errorf("the pattern %q is accepted", wrong)
		}
	}
}
