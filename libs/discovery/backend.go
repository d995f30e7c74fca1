package discovery

import (
	"context"
	"time"
)

// Backend knows where peers may be. [Watch] does the rest for all of them.
//
// The duties of a backend:
//
//  1. Peers returns what is listed now, in any order; duplicates are allowed. The
//     caller owns the slice.
//  2. An empty list is an answer: no peer is listed. An error means that the peers are unknown, never that
//     there are none. It names the place; if the credentials are refused it wraps ErrDenied.
//  3. What is listed and makes no sense, or belongs to another cluster, is an error
//     and is not left out.
//  4. It does not cache, retry or wait: that is left to Watch.
//  5. Every call returns soon after ctx ends.
//  6. Close releases resources; requests in progress may fail. Afterwards only Close may
//     be called, and does nothing. Who has opened a backend closes it.
//
// The races it has to stand: Peers is called concurrently, also with the methods of
// Follower and Registrar.
//
// Package discoverytest checks all of this.
type Backend interface {
	Peers(ctx context.Context) ([]Peer, error)
	Close() error
}

// Follower is a Backend that notices changes.
type Follower interface {
	Backend
	// Follow is Peers, and also returns a function that waits for a change. No
	// change is lost between the two.
	Follow(ctx context.Context) ([]Peer, Changed, error)
}

// Changed waits until another lookup may give a different answer, at most until
// the answer that it came with should be confirmed, and then returns nil. An error
// means that it cannot notice changes. It is called once and returns soon after
// ctx ends.
type Changed func(ctx context.Context) error

// Recheck is the time after which the answer of a Follower is confirmed by
// another lookup, even without a change.
const Recheck = 10 * time.Second

// Registrar is a Backend in which processes register themselves. [Registration]
// calls its methods, one at a time.
type Registrar interface {
	Backend
	// Enter adds the entry of self, or renews it, in whatever state it is.
	Enter(ctx context.Context, self Peer) error
	// Remove removes the entry that this Registrar has added. It is not an error
	// if there is none.
	Remove(ctx context.Context, self Peer) error
	// TTL returns the lifetime of an entry without renewal.
	TTL() time.Duration
}
