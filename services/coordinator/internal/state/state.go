// Package state writes the state of a core in a canonical form, for those who compare states.
package state

import (
	"encoding/binary"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// State appends values.
type State struct {
	Bytes  []byte
	Now    time.Time
	Stored uint64 // the number of stored facts
}

// Uint appends a number.
func (s *State) Uint(v uint64) { s.Bytes = binary.AppendUvarint(s.Bytes, v) }

// Bool appends a truth value.
func (s *State) Bool(v bool) {
	if v {
		s.Uint(1)
	} else {
		s.Uint(0)
	}
}

// Text appends a text.
func (s *State) Text(v string) {
	s.Uint(uint64(len(v)))
	s.Bytes = append(s.Bytes, v...)
}

// Node appends the name of a process.
func (s *State) Node(n sharding.NodeID) {
	s.Text(n.Addr)
	s.Uint(uint64(n.UID))
}

// Time appends a time relative to now: states that differ only in when they were reached behave the same.
func (s *State) Time(t time.Time) {
	s.Bool(t.IsZero())
	if !t.IsZero() {
		s.Bytes = binary.AppendVarint(s.Bytes, int64(s.Now.Sub(t)))
	}
}

// Fact appends the number of a fact relative to the number of stored facts, so only pending facts have a number.
func (s *State) Fact(n uint64) { s.Uint(max(n, s.Stored) - s.Stored) }
