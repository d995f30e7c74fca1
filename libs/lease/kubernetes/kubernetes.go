// Package kubernetes keeps lease records in Lease objects of Kubernetes
// (coordination.k8s.io/v1), through the plain REST API:
//
//	kubernetes:        in a pod: in its own namespace
//	kubernetes://prod  in another one
//
// The record is an annotation of the object. The fields of its spec have the same
// information in Kubernetes' form, for people and dashboards, and are never read. Writes
// compare the resource version. For parameters see [kubeapi.New]. The service account
// needs get, create and update on leases.
//
// # What this does not do
//
// It is not compatible with client-go's leader election, which uses the times in the
// object (see [casstore]). A Lease of such a program has no record, and is refused with a
// clear error.
package kubernetes

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/kubeapi"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/casstore"
)

func init() { lease.Backends.Register(lease.Server(Open), "kubernetes") }

const (
	group = "coordination.k8s.io/v1"
	// annotation holds the record.
	annotation = "roost-cluster.github.io/lease"
)

// Open returns a store; it connects at the first request. Errors wrap
// lease.ErrConfig.
func Open(u *backendurl.URL) (*casstore.Backend, error) {
	c, err := kubeapi.New(u)
	if err == nil && u.Path != "" {
		err = fmt.Errorf("there is a path, %.40q; write for example kubernetes://prod", u.Path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: kubernetes: %w", lease.ErrConfig, err)
	}
	return casstore.New(register{c}, c.Close), nil
}

// object is the part of a Lease that is used.
type object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

type spec struct {
	HolderIdentity       string `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds int64  `json:"leaseDurationSeconds,omitempty"`
	LeaseTransitions     int64  `json:"leaseTransitions,omitempty"`
	RenewTime            string `json:"renewTime,omitempty"`
}

type register struct{ api *kubeapi.Client }

// plain matches the lease names that are valid object names.
var plain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// objectName returns a distinct object name for every lease name. Names that are not
// valid object names are written in hexadecimal, with a prefix that no other has.
func objectName(name string) string {
	const escaped = "hex-"
	if plain.MatchString(name) && len(name) <= 253 && (len(name) < len(escaped) || name[:len(escaped)] != escaped) {
		return name
	}
	return escaped + hex.EncodeToString([]byte(name))
}

// Key implements [casstore.Register].
func (r register) Key(name string) string { return r.api.Where() + " lease " + objectName(name) }

// Read implements [casstore.Register].
func (r register) Read(ctx context.Context, name string) ([]byte, string, error) {
	var o object
	err := r.api.Do(ctx, http.MethodGet, group, "leases/"+objectName(name), nil, &o)
	if kubeapi.Is(err, http.StatusNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if o.Metadata.ResourceVersion == "" {
		return nil, "", fmt.Errorf("the answer is not a Lease: it has no resourceVersion")
	}
	return []byte(o.Metadata.Annotations[annotation]), o.Metadata.ResourceVersion, nil
}

// Write implements [casstore.Register].
func (r register) Write(ctx context.Context, name string, value []byte, revision string) (bool, error) {
	o := object{
		APIVersion: group, Kind: "Lease",
		Metadata: metadata{
			Name: objectName(name), Namespace: r.api.Namespace(), ResourceVersion: revision,
			Annotations: map[string]string{annotation: string(value)},
		},
		Spec: describe(value, time.Now()),
	}
	method, path := http.MethodPut, "leases/"+o.Metadata.Name
	if revision == "" {
		method, path = http.MethodPost, "leases"
	}
	err := r.api.Do(ctx, method, group, path, o, nil)
	// 404: the object that was read has been deleted.
	if kubeapi.Is(err, http.StatusConflict) || kubeapi.Is(err, http.StatusNotFound) && revision != "" {
		return false, nil
	}
	return err == nil, err
}

// describe returns the spec for a record.
func describe(value []byte, now time.Time) spec {
	var r struct {
		Addr, TTL string
		Term      int64
	}
	_ = json.Unmarshal(value, &r)       // our own text, and here only for people
	ttl, _ := time.ParseDuration(r.TTL) // the same
	return spec{
		HolderIdentity: r.Addr, LeaseDurationSeconds: max(1, int64(ttl.Round(time.Second)/time.Second)),
		LeaseTransitions: r.Term & 0x7fffffff, // Kubernetes has 31 bits
		RenewTime:        now.UTC().Format("2006-01-02T15:04:05.000000Z"),
	}
}
