package adminclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// Membership asks and steers the membership, through any of the members whose
// management URLs it has.
type Membership struct {
	urls    []string
	clients []adminv1.Membership
	last    int // who answered last
}

// NewMembership makes a client of these members. It is for one goroutine.
func NewMembership(addresses ...string) *Membership {
	m := &Membership{urls: addresses}
	for _, u := range addresses {
		m.clients = append(m.clients, adminv1.NewMembershipProtobufClient(u, &http.Client{Timeout: askTimeout}))
	}
	return m
}

// Join makes the process at the first address join the cluster of the node at
// addr.
func (m *Membership) Join(ctx context.Context, addr string) (self string, err error) {
	res, err := anyOf(ctx, &Membership{urls: m.urls[:min(1, len(m.urls))], clients: m.clients[:min(1, len(m.clients))]},
		func(ctx context.Context, c adminv1.Membership) (*adminv1.JoinResponse, error) {
			return c.Join(ctx, &adminv1.JoinRequest{Addr: addr})
		})
	return res.GetSelf(), err
}

// Leave asks a node to stop gracefully.
func (m *Membership) Leave(ctx context.Context, node string) (*adminv1.Member, error) {
	res, err := anyOf(ctx, m, func(ctx context.Context, c adminv1.Membership) (*adminv1.NodeResponse, error) {
		return c.Leave(ctx, &adminv1.NodeRequest{Node: node})
	})
	return res.GetMember(), err
}

// Down declares a node gone for good.
func (m *Membership) Down(ctx context.Context, node string) (*adminv1.Member, error) {
	res, err := anyOf(ctx, m, func(ctx context.Context, c adminv1.Membership) (*adminv1.NodeResponse, error) {
		return c.Down(ctx, &adminv1.NodeRequest{Node: node})
	})
	return res.GetMember(), err
}

// Remove removes a node at once.
func (m *Membership) Remove(ctx context.Context, node string) (*adminv1.Member, error) {
	res, err := anyOf(ctx, m, func(ctx context.Context, c adminv1.Membership) (*adminv1.NodeResponse, error) {
		return c.Remove(ctx, &adminv1.NodeRequest{Node: node})
	})
	return res.GetMember(), err
}

// Events waits a second for what came after the last answer. The first answer,
// and one of another member, is a resync.
func (m *Membership) Events(ctx context.Context, last *adminv1.EventsResponse) (*adminv1.EventsResponse, error) {
	return anyOf(ctx, m, func(ctx context.Context, c adminv1.Membership) (*adminv1.EventsResponse, error) {
		return c.Events(ctx, &adminv1.EventsRequest{Stream: last.GetStream(), Next: last.GetNext()})
	})
}

// anyOf asks the member that answered last, then the others.
func anyOf[T any](ctx context.Context, m *Membership, call func(context.Context, adminv1.Membership) (*T, error)) (*T, error) {
	var last error
	for i := range m.clients {
		at := (m.last + i) % len(m.clients)
		answer, err := call(ctx, m.clients[at])
		if err == nil || wayward(err) == isAnswer {
			m.last = at
			return answer, err
		}
		if wayward(err) == isStranger {
			last = stranger(ctx, m.urls[at], "the management listener of a coordinator or a region")
			continue
		}
		var network *url.Error
		if errors.As(err, &network) {
			err = network.Err // Without the path, which says nothing.
		}
		last = fmt.Errorf("%s: %w", m.urls[at], err)
	}
	if errors.Is(last, ErrStranger) {
		return nil, last
	}
	if last == nil {
		last = errors.New("no member is known")
	}
	return nil, fmt.Errorf("%w: %w", ErrUnreachable, last)
}
