// Package memory keeps lease records in this process: for tests, simulation
// and clusters of one process.
//
// # What this does not do
//
// It does not exclude other processes, and everything is lost when the process ends.
package memory

import (
	"context"
	"fmt"
	"sync"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/lease"
)

func init() {
	lease.Backends.Register(func(_ context.Context, rawURL string) (lease.Backend, error) {
		if rawURL != "memory:" {
			return nil, fmt.Errorf("%w: %s: memory: takes no path and no parameters", lease.ErrConfig, backendurl.Redact(rawURL))
		}
		return New(), nil
	}, "memory")
}

// Backend is a [lease.Backend] in memory. The zero Backend is empty and ready.
type Backend struct {
	mu      sync.Mutex
	records map[string]lease.Record
}

// New returns an empty Backend.
func New() *Backend { return &Backend{} }

// Get reads the record.
func (d *Backend) Get(ctx context.Context, name string) (lease.Record, error) {
	if err := ctx.Err(); err != nil {
		return lease.Record{}, fmt.Errorf("%w: get %s: %w", lease.ErrStore, name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records[name], nil
}

// Swap replaces the record if it yields.
func (d *Backend) Swap(ctx context.Context, name string, old, next lease.Record) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("%w: swap %s: %w", lease.ErrStore, name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.records[name].Replaceable(old, next) {
		return false, nil
	}
	if d.records == nil {
		d.records = make(map[string]lease.Record)
	}
	next.Version = old.Version + 1
	d.records[name] = next
	return true, nil
}

// Close does nothing; the records stay.
func (d *Backend) Close() error { return nil }
