// Package authority makes a private certificate authority and certificates for the processes of a cluster:
// for roost dev --tls, for roost auth cert, and for tests.
//
// # What this does not do
//
// It renews nothing, keeps no list of signed certificates, and protects its key only by file permissions. A
// company that has an authority uses that.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/roost-cluster/roost/libs/atomicfile"
)

// Names of the files of an authority in its directory.
const (
	CertFile = "ca.pem"
	KeyFile  = "ca.key"
)

// backdated is subtracted from the time at which a certificate begins, because clocks differ.
const backdated = 5 * time.Minute

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority that is valid for a while.
func New(name string, valid time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-backdated), NotAfter: time.Now().Add(valid),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{cert, key}, err
}

// newSerial returns a random serial number of 127 bits.
func newSerial() *big.Int {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // never fails
	return serial
}

// Load reads the files of an authority.
func Load(dir string) (*Authority, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, fmt.Errorf("the authority in %s cannot be read: %w", dir, err)
	}
	key, is := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !is || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s is not an authority made by roost auth cert authority", dir)
	}
	return &Authority{pair.Leaf, key}, nil
}

// Save writes the files of the authority into a directory. It overwrites none.
func (a *Authority) Save(dir string) error {
	der, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(writeNew(filepath.Join(dir, CertFile), a.PEM(), 0o644),
		writeNew(filepath.Join(dir, KeyFile), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
}

// PEM returns the certificate of the authority.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Pool returns a pool with the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Request describes a certificate to issue.
type Request struct {
	// Name is the common name, for people.
	Name string
	// URIs are its URIs, such as spiffe://prod/region/region-1.
	URIs []string
	// Hosts are the DNS names and IP addresses at which others reach the process.
	Hosts []string
	// Begin and End bound its validity; Begin is some minutes ago if it is zero.
	Begin, End time.Time
	// Uses are its extended key usages; nil: to serve and to connect.
	Uses []x509.ExtKeyUsage
}

// Issue signs a certificate with a new key, and returns both as PEM.
func (a *Authority) Issue(r Request) (cert, key []byte, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{CommonName: r.Name}, NotBefore: r.Begin, NotAfter: r.End,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: r.Uses,
	}
	if r.Begin.IsZero() {
		template.NotBefore = time.Now().Add(-backdated)
	}
	if r.Uses == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	for _, text := range r.URIs {
		u, err := url.Parse(text)
		if err != nil {
			return nil, nil, err
		}
		template.URIs = append(template.URIs, u)
	}
	for _, host := range r.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &own.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(own)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), err
}

// IssueFiles signs a certificate and writes NAME.pem and NAME.key into a directory. Files that are there are
// replaced at once, the key first.
func (a *Authority) IssueFiles(dir, name string, r Request) (certFile, keyFile string, err error) {
	cert, key, err := a.Issue(r)
	if err != nil {
		return "", "", err
	}
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	return certFile, keyFile, errors.Join(atomicfile.Write(keyFile, key, 0o600), atomicfile.Write(certFile, cert, 0o644))
}

func writeNew(path string, content []byte, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// RoleURI is [URI] for a certificate that all processes of a role share.
func RoleURI(cluster, role string) string { return "spiffe://" + cluster + "/" + role }

// URI returns the URI that names a process in its certificate, in the default form of tls.identity.
func URI(cluster, role, node string) string { return "spiffe://" + cluster + "/" + role + "/" + node }
