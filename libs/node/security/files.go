package security

import (
	"errors"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/setting"
)

// TLS names the files that secure the service listener and the connections to
// peers. All are PEM. They are read again when they change.
type TLS struct {
	Cert       string `key:"cert" help:"file with the certificate chain of this node. Empty: the node uses plain TCP"`
	Key        string `key:"key" help:"file with the private key of the certificate"`
	CA         string `key:"ca" help:"file with the authorities that must have signed the certificates of peers. Empty: the authorities of the system"`
	ClientAuth string `key:"client_auth" help:"whether clients must present a certificate. require: if tls.ca is set, a client must present a certificate signed by one of its authorities. none: a client need not present a certificate"`
	Deny       string `key:"deny" help:"file with certificates that are refused although an authority in tls.ca has signed them. Each line has the URI of a certificate, or serial: or sha256: and hexadecimal digits. The file is read again when it changes, and open connections with such certificates are closed. Empty: none" expert:"true"`
}

// PublicTLS is [TLS] for a listener whose clients are no peers.
type PublicTLS struct {
	Cert       string `key:"cert" help:"file with the certificate chain that clients see. Empty: the chain of tls.cert, and then tls.client_auth determines whether clients must present certificates"`
	Key        string `key:"key" help:"file with the private key of the certificate of {.cert}"`
	CA         string `key:"ca" help:"file with the authorities that must have signed the certificates of clients"`
	ClientAuth string `key:"client_auth" help:"whether clients must present a certificate. require: each client must, if {.ca} is set. request: a client may, so that others can use tokens. none: clients are not asked"`
	Deny       string `key:"deny" help:"file with certificates of clients that are refused, as for tls.deny" expert:"true"`
}

// ManagementTLS is [TLS] for a management listener. With an authority, each client needs a certificate, so ClientAuth
// is always require and has no key. Deny has none either.
type ManagementTLS struct {
	Cert       string `key:"cert" help:"file with the certificate chain of the management listener. Empty: plain TCP"`
	Key        string `key:"key" help:"file with the private key of the certificate of {.cert}"`
	CA         string `key:"ca" help:"file with authorities. One of them must have signed the certificate of each client of the management listener, probes included. Empty: clients need no certificate"`
	ClientAuth string
	Deny       string
}

// Public configures a service listener whose clients are no peers, such as a gateway's. So it can
// have another certificate, and other authorities, than the connections to peers.
type Public struct {
	Plain bool `key:"plain" help:"whether clients reach the gateway over plain TCP although tls.cert is set. For gateways behind a proxy on a private network"`
	PublicTLS
}

// Own reports whether the listener is plain or has files of its own. Otherwise it has the files of tls.
func (p *Public) Own() bool { return p.Plain || p.files() }

func (p *Public) files() bool { return p.Cert != "" || p.Key != "" || p.CA != "" }

// Validate returns an error that names every key with an unusable value.
func (c *TLS) Validate() error { return c.check("require", "none") }

// Validate returns an error that names every key with an unusable value.
func (c *ManagementTLS) Validate() error { return (*TLS)(c).check("require") }

// Validate returns an error that names every key with an unusable value.
func (p *Public) Validate() error {
	err := (*TLS)(&p.PublicTLS).check("require", "request", "none")
	if p.Plain && p.files() {
		err = errors.Join(err, setting.Errorf("plain", "is set, and so are %s, %s or %s; set either", setting.Key("cert"), setting.Key("key"), setting.Key("ca")))
	}
	return err
}

func (c *TLS) check(choices ...string) error {
	var errs []error
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if (c.Cert == "") != (c.Key == "") {
		bad("cert", "and %s come together: set both or neither", setting.Key("key"))
	}
	if c.CA != "" && c.Cert == "" {
		bad("ca", "without %s: peers could not trust this node; set %s and %s too", setting.Key("cert"), setting.Key("cert"), setting.Key("key"))
	}
	if c.Deny != "" && c.CA == "" {
		bad("deny", "is set, but certificates are not verified: set %s too", setting.Key("ca"))
	}
	if !slices.Contains(choices, c.ClientAuth) {
		bad("client_auth", "is %q: write %s", c.ClientAuth, strings.Join(choices, " or "))
	}
	return errors.Join(errs...)
}
