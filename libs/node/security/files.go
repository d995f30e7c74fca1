package security

import (
	"fmt"
	"slices"
	"strings"
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

// ServiceTLS names the files that secure a service listener whose clients are no peers.
type ServiceTLS struct {
	// Section is the name of the section in the configuration, for errors.
	Section string
	TLS
}

// check returns every error in the files of a section.
func (c *TLS) Check(section string, choices ...string) (problems []error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if (c.Cert == "") != (c.Key == "") {
		bad("%s.cert and %s.key come together: set both or neither", section, section)
	}
	if c.CA != "" && c.Cert == "" {
		bad("%s.ca without %s.cert: peers could not trust this node; set %s.cert and %s.key too", section, section, section, section)
	}
	if c.Deny != "" && c.CA == "" {
		bad("%s.deny is set, but certificates are not verified: set %s.ca too", section, section)
	}
	if !slices.Contains(choices, c.ClientAuth) {
		bad("%s.client_auth %q: write %s", section, c.ClientAuth, strings.Join(choices, " or "))
	}
	return problems
}
