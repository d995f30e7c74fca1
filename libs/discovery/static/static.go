// Package static is discovery by configuration: a list of peers that never
// changes.
//
// # What this does not do
//
// It reads nothing again: a new list requires a restart.
package static

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/discovery"
)

func init() { discovery.Backends.Register(discovery.Text(Open), "static") }

// Backend is a fixed list of peers.
type Backend struct{ peers []discovery.Peer }

// Open returns a Backend for a comma-separated list of "host:port" or "role@host:port".
// The list may be empty. Errors wrap discovery.ErrConfig.
func Open(list string) (*Backend, error) {
	d := &Backend{}
	if strings.TrimSpace(list) == "" {
		return d, nil
	}
	for i, s := range strings.Split(list, ",") {
		p, err := discovery.ParsePeer(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("%w: static peer %d: %w", discovery.ErrConfig, i+1, err)
		}
		d.peers = append(d.peers, p)
	}
	return d, nil
}

// Close does nothing.
func (d *Backend) Close() error { return nil }

// Peers returns the list.
func (d *Backend) Peers(ctx context.Context) ([]discovery.Peer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return slices.Clone(d.peers), nil
}

// Follow returns the list, and a function that waits for a change, which never comes.
func (d *Backend) Follow(ctx context.Context) ([]discovery.Peer, discovery.Changed, error) {
	peers, err := d.Peers(ctx)
	return peers, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}, err
}
