package security

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/node/security/watchfile"
)

// denyList lists certificates that are refused although a trusted authority has signed them.
type denyList struct {
	uris         map[string]bool
	serials      map[string]bool // lower-case hexadecimal digits without leading zeros
	fingerprints map[[sha256.Size]byte]bool
}

// parseDenyList reads a deny-list: in each line a URI, serial:HEX or sha256:HEX.
func parseDenyList(text []byte) (*denyList, error) {
	d := &denyList{uris: map[string]bool{}, serials: map[string]bool{}, fingerprints: map[[sha256.Size]byte]bool{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		kind, value, _ := strings.Cut(line, ":")
		digits := strings.ToLower(strings.ReplaceAll(value, ":", ""))
		switch kind {
		case "sha256":
			var print [sha256.Size]byte
			raw, err := hex.DecodeString(digits)
			if err != nil || len(raw) != len(print) {
				return nil, fmt.Errorf("line %d: sha256: must be followed by %d hexadecimal digits", n, 2*len(print))
			}
			copy(print[:], raw)
			d.fingerprints[print] = true
		case "serial":
			if digits = strings.TrimLeft(digits, "0"); digits == "" || strings.Trim(digits, "0123456789abcdef") != "" {
				return nil, fmt.Errorf("line %d: serial: must be followed by hexadecimal digits", n)
			}
			d.serials[digits] = true
		default:
			if u, err := url.Parse(line); err != nil || u.Scheme == "" || u.Host == "" {
				return nil, fmt.Errorf("line %d: write the URI of a certificate, or serial: or sha256: and hexadecimal digits", n)
			}
			d.uris[line] = true
		}
	}
	return d, lines.Err()
}

// denies reports whether a certificate is on the list.
func (d *denyList) denies(c *x509.Certificate) bool {
	for _, uri := range c.URIs {
		if d.uris[uri.String()] {
			return true
		}
	}
	return d.serials[fmt.Sprintf("%x", c.SerialNumber)] || len(d.fingerprints) > 0 && d.fingerprints[sha256.Sum256(c.Raw)]
}

// openDenyList opens the file that the section's key deny names; nil for an empty path.
func openDenyList(section, path string, bad func(error)) (*watchfile.File[*denyList], error) {
	if path == "" {
		return nil, nil
	}
	return watchfile.Open(section+".deny", path, bad, parseDenyList)
}

// denied returns an error if one of the certificates is on the deny-list.
func (f *Files) denied(chain []*x509.Certificate) error {
	if f.deny == nil {
		return nil
	}
	list := f.deny.Get(time.Now())
	for _, c := range chain {
		if list.denies(c) {
			return fmt.Errorf("the certificate of %s with serial number %x is denied by %s.deny", nameOf(c), c.SerialNumber, f.section)
		}
	}
	return nil
}

// nameOf returns the first URI of a certificate, or its common name.
func nameOf(c *x509.Certificate) string {
	if len(c.URIs) > 0 {
		return c.URIs[0].String()
	}
	return c.Subject.CommonName
}
