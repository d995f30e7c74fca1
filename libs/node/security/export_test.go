package security

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/roost-cluster/roost/libs/control"
)

// ClientConfig returns the configuration of a connection to a peer at addr, as if there was no tls.ca unless withCA.
func (f *Files) ClientConfig(addr string, roles control.Role, withCA bool) (*tls.Config, error) {
	if !withCA {
		f.loaded.ca = nil
	}
	return f.client(addr, target{roles: roles}, nil)
}

// denies reports which certificates a deny-list denies.
func Denies(list string, certificates ...*x509.Certificate) (denied []bool, err error) {
	d, err := parseDenyList([]byte(list))
	if err != nil {
		return nil, err
	}
	for _, c := range certificates {
		denied = append(denied, d.denies(c))
	}
	return denied, nil
}
