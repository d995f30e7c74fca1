// Package memory keeps lease records in this process: for tests, simulation
// and clusters of one process.
//
// # What this does not do
//
// It excludes nobody outside of the process, and forgets everything when the
// process ends.
package memory

import (
	"context"
	"sync"

	"github.com/roost-cluster/roost/libs/lease"
)

// Store is a [lease.Store] in memory. The zero Store is empty and ready.
type Store struct {
	mu      sync.Mutex
	records map[string]lease.Record
}

// New returns an empty Store.
func New() *Store { return &Store{} }

// Get reads the record.
func (s *Store) Get(ctx context.Context, name string) (lease.Record, error) {
	if err := ctx.Err(); err != nil {
		return lease.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[name], nil
}

// Swap replaces the record if it yields.
func (s *Store) Swap(ctx context.Context, name string, old, next lease.Record) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.records[name].Yields(old, next) {
		return false, nil
	}
	if s.records == nil {
		s.records = make(map[string]lease.Record)
	}
	next.Version = old.Version + 1
	s.records[name] = next
	return true, nil
}

// Close does nothing; the records stay.
func (s *Store) Close() error { return nil }
