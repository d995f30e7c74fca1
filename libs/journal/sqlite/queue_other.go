//go:build !unix

package sqlite

import "context"

// writeQueue does nothing here: writers of several processes wait for SQLite's lock
// alone, which is safe but not fair.
type writeQueue struct{}

func openWriteQueue(string) (*writeQueue, error) { return &writeQueue{}, nil }
func (q *writeQueue) lock(context.Context) error { return nil }
func (q *writeQueue) unlock()                    {}
func (q *writeQueue) close() error               { return nil }
