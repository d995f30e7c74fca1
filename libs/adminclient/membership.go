package adminclient

import (
	"context"
	"errors"
	"fmt"

	membershipv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/membership"
)

// Membership is a client of the membership: it changes the status of members, and reads the membership's events.
// Every member, a coordinator or a region, can answer. A Membership asks the member that has answered last, and
// then the others. It is not safe for concurrent use.
//
// If no member has answered, the error wraps [ErrUnreachable]. If a URL leads to something other than a member, it
// may wrap [ErrWrongAddress].
type Membership struct {
	urls    []string
	options Options
	clients []membershipv1.Membership
	last    int // index of the member that has answered last
}

// NewMembership makes a client of the members with these management URLs.
func NewMembership(addresses ...string) *Membership {
	return NewMembershipWith(Options{}, addresses...)
}

// NewMembershipWith is [NewMembership] with options.
func NewMembershipWith(o Options, addresses ...string) *Membership {
	m, client := &Membership{urls: addresses, options: o}, NewHTTP(o, askTimeout)
	for _, u := range addresses {
		m.clients = append(m.clients, membershipv1.NewMembershipProtobufClient(u, client))
	}
	return m
}

// Join makes the process at the first URL join the cluster of another node, whatever is configured. The process
// must not be in a cluster yet. addr is the host:port of the other node's service listener. Join returns the
// name of the process.
func (m *Membership) Join(ctx context.Context, addr string) (self string, err error) {
	res, err := anyOf(ctx, &Membership{urls: m.urls[:min(1, len(m.urls))], options: m.options, clients: m.clients[:min(1, len(m.clients))]},
		func(ctx context.Context, c membershipv1.Membership) (*membershipv1.JoinResponse, error) {
			return c.Join(ctx, &membershipv1.JoinRequest{Addr: addr})
		})
	return res.GetSelf(), err
}

// Leave asks a node to stop gracefully: a region first hands off its shards. A node is given by its name, its
// host:port, or host:port#uid. Leave returns the node as it was before. The request may be lost: repeat it until
// the node is no longer a member.
func (m *Membership) Leave(ctx context.Context, node string) (*membershipv1.ClusterMember, error) {
	res, err := anyOf(ctx, m, func(ctx context.Context, c membershipv1.Membership) (*membershipv1.NodeResponse, error) {
		return c.Leave(ctx, &membershipv1.NodeRequest{Node: node})
	})
	return res.GetMember(), err
}

// Down declares a node gone permanently. The node is given as in [Membership.Leave].
func (m *Membership) Down(ctx context.Context, node string) (*membershipv1.ClusterMember, error) {
	res, err := anyOf(ctx, m, func(ctx context.Context, c membershipv1.Membership) (*membershipv1.NodeResponse, error) {
		return c.Down(ctx, &membershipv1.NodeRequest{Node: node})
	})
	return res.GetMember(), err
}

// Remove removes a node at once, without waiting until all members have seen that it is down. The node is given
// as in [Membership.Leave].
func (m *Membership) Remove(ctx context.Context, node string) (*membershipv1.ClusterMember, error) {
	res, err := anyOf(ctx, m, func(ctx context.Context, c membershipv1.Membership) (*membershipv1.NodeResponse, error) {
		return c.Remove(ctx, &membershipv1.NodeRequest{Node: node})
	})
	return res.GetMember(), err
}

// Events returns the events after the last answer (nil: there is none yet) as soon as there are some, and after a
// second in any case. The first answer, and the first one of another member, has Resync set: it lists all
// members, and events before it are missing.
func (m *Membership) Events(ctx context.Context, last *membershipv1.EventsResponse) (*membershipv1.EventsResponse, error) {
	return anyOf(ctx, m, func(ctx context.Context, c membershipv1.Membership) (*membershipv1.EventsResponse, error) {
		return c.Events(ctx, &membershipv1.EventsRequest{Stream: last.GetStream(), Next: last.GetNext()})
	})
}

// anyOf asks the member that has answered last, and then the others, until one answers.
func anyOf[T any](ctx context.Context, m *Membership, call func(context.Context, membershipv1.Membership) (*T, error)) (*T, error) {
	var last error
	for i := range m.clients {
		at := (m.last + i) % len(m.clients)
		answer, err := call(ctx, m.clients[at])
		if err == nil || classify(err) == activeAnswered {
			m.last = at
			return answer, err
		}
		if classify(err) == foreignAnswered {
			last = wrongAddress(ctx, m.options, m.urls[at], "the management listener of a coordinator or a region")
			continue
		}
		last = fmt.Errorf("%s: %w", m.urls[at], withoutURL(err))
	}
	if errors.Is(last, ErrWrongAddress) {
		return nil, last
	}
	if last == nil {
		last = errors.New("no member is known")
	}
	return nil, fmt.Errorf("%w: %w", ErrUnreachable, last)
}
