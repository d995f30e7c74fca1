package server

import (
	"cmp"
	"context"
	"errors"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/console"
	"github.com/roost-cluster/roost/services/coordinator/console/dashboard"
)

// admin answers operators: the console looks, and the server carries out what changes something. Only the active
// coordinator knows the shards; a standby names the active one.
type admin struct {
	*console.API
	s *Server
}

// adminReads are the methods that change nothing. All others need a management token, if there are
// tokens, and are in the audit.
var adminReads = []string{
	"Members", "Shards", "Where", "Steering", "Quarantines", "Why", "Plan", "Top", "Entities", "Entity", "Regions", "ShardStates", "Slow", "Examine", "Rollout", "Reminders", "Sends", "Remembered",
}

// consoleConfig returns what the console looks at. The stores are opened, and the loop runs, only later.
func (s *Server) consoleConfig() console.Config {
	return console.Config{
		Cluster: s.cfg.ClusterName, Self: s.self, Name: s.name, Weights: s.cfg.Allocation.Weights(), QueryTimeout: s.cfg.QueryTimeout,
		ShowPayloads: s.cfg.ShowPayloads, TryCommands: s.cfg.TryCommands, Strategy: s.cfg.strategyOf,
		Log: s.log, Members: s.agent, Peers: s.peers,
		Journal: func() console.Journal { return s.journal },
		Look: func(ctx context.Context, f func(console.Core) error) error {
			return s.look(ctx, func() error { return f(s.core) })
		},
		LookActive: func(ctx context.Context, f func(console.Core) error) error {
			return s.lookActive(ctx, func() error { return f(s.core) })
		},
		Waiting:     func() ([][]byte, uint64) { return s.explanations.Waiting() },
		ActiveAddr:  s.activeAddr,
		LeaseUsable: func() error { return s.keeper.Usable() },
	}
}

// activeAddr returns the address of the coordinator that is active as far as this standby knows; empty: none is.
func (s *Server) activeAddr() string {
	if _, over := s.leaseOver(s.known.Node); over || s.known.Node == s.self { // it has stepped down
		return ""
	}
	return s.known.Node.Addr
}

// Drain hands all shards of a region off, or ends that.
func (a admin) Drain(ctx context.Context, req *adminv1.DrainRequest) (*adminv1.DrainResponse, error) {
	e, err := a.request(ctx, coordinator.DrainRegion{Region: req.Region, Resume: req.Resume, By: req.By, Reason: req.Reason}, req.DryRun, req.TimeoutMs, nil)
	if err != nil {
		return nil, err
	}
	return &adminv1.DrainResponse{
		Remaining: uint32(e.Remaining), Stays: console.Unreadable(e.Stays, ""), Already: e.Already, Region: e.Region, Node: e.Node.String(),
	}, nil
}

// Look has the shards that no region reads looked at.
func (a admin) Look(ctx context.Context, _ *adminv1.LookRequest) (*adminv1.LookResponse, error) {
	out := &adminv1.LookResponse{}
	err := a.s.lookActive(ctx, func() error {
		a.s.step(coordinator.LookAtShards{})
		v := a.s.core.View()
		out.Unreadable = console.Unreadable(v.Unreadable, "")
		return nil
	})
	return out, err
}

// SetTarget makes a version the target of rollouts.
func (a admin) SetTarget(ctx context.Context, req *adminv1.SetTargetRequest) (*adminv1.SetTargetResponse, error) {
	out := &adminv1.SetTargetResponse{Target: req.Version}
	e, err := a.request(ctx, coordinator.SetTarget{Version: req.Version, By: req.By}, false, req.TimeoutMs, func() {
		v := a.s.core.View()
		for _, r := range v.Regions {
			if r.Version == req.Version {
				out.Regions = append(out.Regions, cmp.Or(r.Name, r.Node.Addr))
			}
		}
		out.Unread, out.NextTarget, out.NextTargetMs = uint32(v.Rollout.Unread), v.Rollout.Next, v.Rollout.NextIn.Milliseconds()
	})
	if err != nil {
		return nil, err
	}
	out.Before = e.Before
	return out, nil
}

// servePages serves the dashboard. A standby sends browsers to the active coordinator. The pages are no secret: they
// make their requests to the management listener, with the token of the session.
func (s *Server) servePages(n *node.Node) {
	scheme := n.ManagementScheme() // of all coordinators
	n.HandleManagementOpen(dashboard.Prefix, dashboard.New(dashboard.Config{
		Admin: sampled{s.console}, API: n.Management(), CheckToken: n.CheckToken,
		Elsewhere: func(ctx context.Context) string {
			if addr := s.elsewhere(ctx); addr != "" {
				return scheme + "://" + addr
			}
			return ""
		},
	}))
}

// sampled is the console for the samples of the dashboard. Its errors are those that operators get.
type sampled struct{ *console.API }

func (a sampled) Members(ctx context.Context, req *adminv1.MembersRequest) (*adminv1.MembersResponse, error) {
	res, err := a.API.Members(ctx, req)
	return res, toOperator(err)
}

func (a sampled) Shards(ctx context.Context, req *adminv1.ShardsRequest) (*adminv1.ShardsResponse, error) {
	res, err := a.API.Shards(ctx, req)
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
