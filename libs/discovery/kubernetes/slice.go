package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/roost-cluster/roost/libs/discovery"
)

// Labels of a slice, which it has from its Service.
const (
	roleLabel    = "roost-role"
	clusterLabel = "roost-cluster"
)

// sliceList is the part of an EndpointSliceList of discovery.k8s.io/v1 that is read.
type sliceList struct {
	Kind     string
	Metadata struct{ ResourceVersion, Continue string }
	Items    []slice
}

type slice struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	AddressType string // IPv4, IPv6 or FQDN
	Endpoints   []struct {
		Addresses  []string
		Conditions struct{ Ready *bool }
	}
	Ports []struct {
		Name     *string
		Port     *int32
		Protocol *string
	}
}

// read returns the peers in a slice.
func (d *Backend) read(s slice) ([]discovery.Peer, error) {
	if d.family != "any" && !strings.EqualFold(s.AddressType, d.family) || len(s.Endpoints) == 0 {
		return nil, nil
	}
	if other := s.Metadata.Labels[clusterLabel]; d.cluster != "" && other != "" && other != d.cluster {
		return nil, fmt.Errorf("its label %s says cluster %.80q, this process belongs to %q", clusterLabel, other, d.cluster)
	}
	port, err := d.choose(s)
	if err != nil {
		return nil, err
	}
	var peers []discovery.Peer
	for i, e := range s.Endpoints {
		// According to the API, no value means ready.
		if ready := e.Conditions.Ready; ready != nil && !*ready && !d.unready {
			continue
		}
		if len(e.Addresses) == 0 {
			return nil, fmt.Errorf("endpoint %d has no address", i)
		}
		// According to the API, all addresses are equivalent.
		addr := net.JoinHostPort(e.Addresses[0], strconv.Itoa(port))
		p, err := discovery.ParsePeer(discovery.Peer{Addr: addr, Role: cmp.Or(s.Metadata.Labels[roleLabel], d.role)}.String())
		if err != nil {
			return nil, fmt.Errorf("endpoint %d: %w", i, err)
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// choose returns the port that is configured, or the only one.
func (d *Backend) choose(s slice) (int, error) {
	if n, err := strconv.ParseUint(d.port, 10, 16); err == nil {
		return int(n), nil
	}
	var names []string
	found := -1
	for i, p := range s.Ports {
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		names = append(names, strconv.Quote(name))
		if d.port == name || d.port == "" && len(s.Ports) == 1 {
			found = i
		}
	}
	switch {
	case found < 0 && d.port == "" && len(names) > 1:
		return 0, fmt.Errorf("it has the ports %s; choose one with the parameter port", strings.Join(names, ", "))
	case found < 0:
		return 0, fmt.Errorf("it has no port %q, only %s", d.port, cmp.Or(strings.Join(names, ", "), "none"))
	case s.Ports[found].Port == nil:
		return 0, errors.New("its port has no number")
	}
	return int(*s.Ports[found].Port), nil
}
