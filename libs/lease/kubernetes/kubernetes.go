// Package kubernetes keeps lease records in Lease objects of Kubernetes
// (coordination.k8s.io/v1), through the plain REST API:
//
//	kubernetes:        in a pod: in its own namespace
//	kubernetes://prod  in another one
//
// The record is an annotation of the object; the fields of its spec say the
// same in Kubernetes' words, for people and dashboards, and are never read. A
// write compares the resource version. For parameters see [kubeapi.New]. The
// service account needs get, create and update on leases.
//
// # What this does not do
//
// It does not follow client-go's way of counting time in the object (see
// [casstore]): a program that takes part in the same Lease that way is refused
// with a clear error, since its object has no record.
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

const (
	group = "coordination.k8s.io/v1"
	// annotation holds the record.
	annotation = "roost-cluster.github.io/lease"
)

// Open makes a store; it connects when it is first asked. Errors wrap
// lease.ErrConfig.
func Open(u *backendurl.URL) (*casstore.Driver, error) {
	c, err := kubeapi.New(u)
	if err == nil && u.Path != "" {
		err = fmt.Errorf("there is a path, %.40q; write for example kubernetes://prod", u.Path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: kubernetes: %w", lease.ErrConfig, err)
	}
	return casstore.New(register{c}, c.Close), nil
}

// object is a Lease, as far as we know it.
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

// plain are the names that an object may have as they are.
var plain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// objectName is one name of an object for every name of a lease: those that may
// not be one in hexadecimal, behind a prefix that the others do not have.
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
		return nil, "", fmt.Errorf("the answer is no Lease: it has no resourceVersion")
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

// describe says the record in the words of Kubernetes.
func describe(value []byte, now time.Time) spec {
	var r struct {
		Addr, TTL string
		Term      int64
	}
	_ = json.Unmarshal(value, &r)       // it is our own text, and only for people here
	ttl, _ := time.ParseDuration(r.TTL) // the same
	return spec{
		HolderIdentity: r.Addr, LeaseDurationSeconds: max(1, int64(ttl.Round(time.Second)/time.Second)),
		LeaseTransitions: r.Term & 0x7fffffff, // Kubernetes has 31 bits for it
		RenewTime:        now.UTC().Format("2006-01-02T15:04:05.000000Z"),
	}
}
