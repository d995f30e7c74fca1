package server

import (
	"context"
	"errors"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator/server/dashboard"
)

// servePages serves the dashboard. A standby sends browsers to the active coordinator. The pages are no secret: they
// make their requests to the management listener, with the token of the session.
func (s *Server) servePages(n *node.Node) {
	scheme := n.ManagementScheme() // of all coordinators
	n.HandleManagementOpen(dashboard.Prefix, dashboard.New(dashboard.Config{
		Admin: sampled{admin{s}}, API: n.Management(), CheckToken: n.CheckToken,
		Elsewhere: func(ctx context.Context) string {
			if addr := s.elsewhere(ctx); addr != "" {
				return scheme + "://" + addr
			}
			return ""
		},
	}))
}

// sampled is the admin API for the samples of the dashboard. Its errors are those that operators get.
type sampled struct{ admin }

func (a sampled) Members(ctx context.Context, req *adminv1.MembersRequest) (*adminv1.MembersResponse, error) {
	res, err := a.admin.Members(ctx, req)
	return res, toOperator(err)
}

func (a sampled) Shards(ctx context.Context, req *adminv1.ShardsRequest) (*adminv1.ShardsResponse, error) {
	res, err := a.admin.Shards(ctx, req)
	return res, toOperator(err)
}

func toOperator(err error) error {
	if standby := (standsBy{}); errors.As(err, &standby) {
		return twirp.NewError(twirp.FailedPrecondition, standby.Error())
	}
	return err
}

// elsewhere returns the management address of the active coordinator, if that is another one; empty: it is this one,
// or is not known.
func (s *Server) elsewhere(ctx context.Context) string {
	var active sharding.NodeID
	err := s.look(ctx, func() error {
		if s.core.ActiveTerm() == 0 && s.known.Node != s.self {
			active = s.known.Node
		}
		return nil
	})
	if err != nil || active.IsZero() {
		return ""
	}
	return s.asking.management(ctx, s, active)
}
