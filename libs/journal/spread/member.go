package spread

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
)

const (
	// probeTimeout bounds the time that a database may take to return its facts before it is down: as long as a busy
	// server needs.
	probeTimeout = 3 * time.Second
	// openTimeout bounds the opening of a database that did not answer when the process started: many round trips.
	openTimeout = 10 * time.Second
	// probePause is the time between two probes of a database that is down.
	probePause = time.Second
)

// member is one of the databases.
type member struct {
	number int
	// open opens the database and checks that it is the right one. It is not called for the first one.
	open func(context.Context) (journal.Reader, error)
	// writing holds a token while a commit or a declaration is in progress: a backend takes one at a time.
	writing chan struct{}

	mu      sync.Mutex
	handle  journal.Reader // nil: it could not be opened so far. A journal.Backend, unless all only read
	down    error          // why it is down; nil: it is not
	refused error          // why it must not be used, although it answers
	probing bool
	notify  func(error) // see NotifyDown; may be nil
}

// name adds the number of the database to an error.
func (m *member) name(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("database %d of the journal: %w", m.number, err)
}

// use returns the handle, or why there is none.
func (m *member) use() (journal.Reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.refused != nil:
		return nil, m.name(fmt.Errorf("%w: %w", journal.ErrBroken, m.refused))
	case m.down != nil:
		return nil, m.name(fmt.Errorf("%w: %w: its types are not served until it answers again: %w", journal.ErrNotCommitted, journal.ErrUnreachable, m.down))
	}
	return m.handle, nil
}

// passes reports whether an error says nothing about whether the database answers.
func passes(err error) bool {
	return err == nil || errors.Is(err, journal.ErrFull) || errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrBroken) ||
		errors.Is(err, journal.ErrIdentity) || errors.Is(err, journal.ErrTrimmed) || errors.Is(err, journal.ErrShardCount) ||
		errors.Is(err, journal.ErrRepair) || errors.Is(err, journal.ErrTooLarge)
}

// read runs one read of a database.
func read[T any](ctx context.Context, s *set, m *member, f func(journal.Reader) (T, error)) (T, error) {
	r, err := m.use()
	if err != nil {
		var none T
		return none, err
	}
	v, err := f(r)
	if !passes(err) {
		s.suspect(m)
	}
	return v, m.name(err)
}

// write runs one commit or declaration, when no other one is in progress.
func write[T any](ctx context.Context, s *set, m *member, f func(journal.Backend) (T, error)) (T, error) {
	var none T
	select {
	case m.writing <- struct{}{}:
	case <-ctx.Done():
		return none, m.name(fmt.Errorf("%w: another write is in progress: %w", journal.ErrNotCommitted, ctx.Err()))
	}
	defer func() { <-m.writing }()
	return read(ctx, s, m, func(r journal.Reader) (T, error) { return f(r.(journal.Backend)) })
}

// suspect has a probe find out whether a database answers.
func (s *set) suspect(m *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.probing || m.refused != nil || s.life.Err() != nil { //mutant:true spread-probe
		return
	}
	m.probing = true
	s.probes.Go(func() { s.probe(m) })
}

// probe asks a database until it answers.
func (s *set) probe(m *member) {
	for {
		err := s.ask(m)
		if s.life.Err() != nil {
			return
		}
		if m.probed(err) {
			return
		}
		select {
		case <-time.After(probePause):
		case <-s.life.Done():
			return
		}
	}
}

// ask asks a database for its facts, and opens it before if that was not possible so far.
func (s *set) ask(m *member) error {
	m.mu.Lock()
	handle := m.handle
	m.mu.Unlock()
	timeout := probeTimeout
	if handle == nil {
		timeout = openTimeout
	}
	ctx, cancel := context.WithTimeout(s.life, timeout)
	defer cancel()
	if handle != nil {
		_, err := handle.Facts(ctx)
		return err
	}
	handle, err := m.open(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.handle = handle
	m.mu.Unlock()
	return nil
}

// probed notes what a probe has found, and reports whether it was the last one.
func (m *member) probed(err error) (last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.down
	switch {
	case err == nil:
		m.down = nil
	case passes(err) && m.handle == nil:
		m.refused = err
	case passes(err): // it answers
		m.down = nil
	default:
		m.down = err
	}
	m.probing = m.down != nil && m.refused == nil
	if m.notify != nil && (was == nil) != (m.down == nil) {
		m.notify(m.name(m.down))
	}
	return !m.probing
}
