package security

import (
	"crypto/x509"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/control"
)

// DefaultIdentity is the default of tls.identity.
const DefaultIdentity = "spiffe://{cluster}/{role}/{node}"

var roleNames = map[string]control.Role{"coordinator": control.Coordinator, "region": control.Region, "gateway": control.Gateway}

// identities finds the cluster and the process that a certificate is for.
type identities struct {
	cluster  string
	pattern  *regexp.Regexp
	text     string // of the pattern
	required bool   // a certificate without a role is refused
}

// newIdentities returns an identities for URIs that match a pattern, such as spiffe://{cluster}/{role}/{node}. If the
// pattern ends with /{node}, this part may be missing in a URI: then the certificate is for all processes of the role.
func newIdentities(cluster, pattern string, required bool) (*identities, error) {
	if strings.Count(pattern, "{role}") != 1 {
		return nil, fmt.Errorf("%q must have {role} once, such as spiffe://{cluster}/{role}/{node}", pattern)
	}
	expression := regexp.QuoteMeta(pattern)
	for _, name := range []string{"cluster", "role", "node"} {
		expression = strings.Replace(expression, `\{`+name+`\}`, `(?P<`+name+`>[^/]+)`, 1)
	}
	if shared, is := strings.CutSuffix(expression, `/(?P<node>[^/]+)`); is {
		expression = shared + `(?:/(?P<node>[^/]+))?`
	}
	if strings.Contains(expression, `\{`) || strings.Contains(expression, `\}`) {
		return nil, fmt.Errorf("%q may have {cluster}, {role} and {node}, each once, and no other braces", pattern)
	}
	compiled, err := regexp.Compile("^" + expression + "$")
	return &identities{cluster: cluster, pattern: compiled, text: pattern, required: required}, err
}

// CheckIdentity returns an error if tls.identity cannot have this value.
func CheckIdentity(pattern string) error {
	_, err := newIdentities("", pattern, false)
	return err
}

// of returns which process a certificate is for. If the certificate names no role, and need not name one, the roles are
// [control.Anybody]. The node is empty if the certificate names none.
func (i *identities) of(c *x509.Certificate) (control.Identity, error) {
	var found control.Identity
	for n, uri := range c.URIs {
		parts := i.pattern.FindStringSubmatch(uri.String())
		if parts == nil {
			continue
		}
		if at := i.pattern.SubexpIndex("cluster"); at >= 0 && parts[at] != i.cluster {
			return found, fmt.Errorf("the certificate is for cluster %.100q, this is %q (%.200s)", parts[at], i.cluster, uri)
		}
		named := control.Identity{Roles: roleNames[parts[i.pattern.SubexpIndex("role")]]}
		if at := i.pattern.SubexpIndex("node"); at >= 0 {
			named.Node = parts[at]
		}
		switch {
		case named.Roles == 0:
			return control.Identity{}, fmt.Errorf("the certificate must be for one of the roles coordinator, region and gateway (%.200s)", uri)
		case found.Roles != 0 && found != named:
			return control.Identity{}, fmt.Errorf("the certificate must be for one process, or for one role (%.200s and %.200s)", c.URIs[n-1], uri)
		}
		found = named
	}
	switch {
	case found.Roles != 0:
		return found, nil
	case i.required:
		return found, fmt.Errorf("the certificate has no URI like %s (tls.identity), and tls.roles is require", i.text)
	}
	return control.Identity{Roles: control.Anybody}, nil
}

// target is the peer that a connection is meant for.
type target struct {
	roles control.Role
	host  string   // the host that was dialled
	nodes []string // the nodes that may be there; empty: not known
}

// check refuses the certificate of any other process than the target. A certificate that names a role is judged by its
// URI, wherever its process runs: addresses change, and peers may find each other at addresses that are in no
// certificate. A certificate that names no role is judged by its host names.
func (i *identities) check(c *x509.Certificate, to target) error {
	is, err := i.of(c)
	switch {
	case err != nil:
		return err
	case is.Roles&to.roles == 0:
		return fmt.Errorf("the certificate is for %s, and this connection is meant for %s", is, to.roles)
	case is.Roles == control.Anybody:
		if err := c.VerifyHostname(to.host); err != nil {
			return fmt.Errorf("%w; it has no URI like %s (tls.identity) either", err, i.text)
		}
	case is.Node != "" && len(to.nodes) > 0 && !slices.Contains(to.nodes, is.Node):
		return fmt.Errorf("the certificate is for %s, and this connection is meant for %s", is, strings.Join(to.nodes, " or "))
	}
	return nil
}
