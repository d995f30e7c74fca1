//go:build !unix

package sqlite

import "context"

// fileLock does nothing here: writers of several processes wait for SQLite's lock
// alone, which is safe but not fair.
type fileLock struct{}

func openLock(string) (*fileLock, error)       { return &fileLock{}, nil }
func (l *fileLock) lock(context.Context) error { return nil }
func (l *fileLock) waits() bool                { return false }
func (l *fileLock) unlock()                    {}
func (l *fileLock) close() error               { return nil }
