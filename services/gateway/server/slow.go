package server

import (
	"context"
	"net/netip"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/node/telemetry/slowest"
	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// keepSlow keeps a command that has ended, if it is one of the slowest.
func (s *Server) keepSlow(c *call, f *failure, attempts int) {
	now := time.Now()
	total := now.Sub(c.arrived)
	if !s.slow.Wants(now, total) {
		return
	}
	e := slowest.Entry{
		At: c.arrived, Entity: c.Env.Entity, Command: c.Env.Command, Trace: slowest.TraceID(c.Env.Trace), Attempts: attempts,
		Total: total,
	}
	if at, err := netip.ParseAddrPort(c.from); err == nil {
		e.From = at.Addr().Unmap().String()
	}
	if attempts > 0 { // otherwise the call may have been given up, and its end may still be written
		e.Region, e.Timing = c.finish.Region.Addr, c.finish.Reply.Timing
	}
	if f != nil {
		e.Code = string(f.code)
	}
	s.slow.Add(now, e)
}

// inspection answers what coordinators ask for operators.
type inspection struct{ s *Server }

// Slow returns the slowest commands of the last minutes.
func (i inspection) Slow(_ context.Context, req *inspectionv1.SlowRequest) (*inspectionv1.SlowResponse, error) {
	switch {
	case req.Cluster != i.s.cfg.ClusterName:
		return nil, twirp.NewErrorf(twirp.FailedPrecondition, "this is cluster %q, not %q; see cluster.name", i.s.cfg.ClusterName, req.Cluster)
	case sharding.NodeUID(req.To) != i.s.self.UID:
		return nil, twirp.NewError(twirp.FailedPrecondition, "the request is for another incarnation of this process")
	}
	return i.s.slow.Answer(req.Limit), nil
}
