package server

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/node/slowest"
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
		At: c.arrived, Entity: c.Env.Entity, Command: c.Env.Command, Trace: traceID(c.Env.Trace), Attempts: attempts,
		Total: total,
	}
	if attempts > 0 { // otherwise the call may have been given up, and its end may still be written
		e.Region, e.Timing = c.finish.Region.Addr, c.finish.Reply.Timing
	}
	if f != nil {
		e.Code = string(f.code)
	}
	s.slow.Add(now, e)
}

// traceID is the id of a trace in its header.
func traceID(traceparent string) string {
	_, rest, _ := strings.Cut(traceparent, "-")
	id, _, _ := strings.Cut(rest, "-")
	return id
}

// inspection answers what coordinators ask for operators.
type inspection struct{ s *Server }

// maxSlow is the largest number of slow commands in an answer.
const maxSlow = 1000

// Slow returns the slowest commands of the last minutes.
func (i inspection) Slow(_ context.Context, req *inspectionv1.SlowRequest) (*inspectionv1.SlowResponse, error) {
	switch {
	case req.Cluster != i.s.cfg.ClusterName:
		return nil, twirp.NewErrorf(twirp.FailedPrecondition, "this is cluster %q, not %q; see cluster.name", i.s.cfg.ClusterName, req.Cluster)
	case sharding.NodeUID(req.To) != i.s.self.UID:
		return nil, twirp.NewError(twirp.FailedPrecondition, "another incarnation of this process was meant")
	}
	out := &inspectionv1.SlowResponse{}
	for _, e := range i.s.slow.List(int(min(req.Limit, maxSlow))) {
		out.Commands = append(out.Commands, &inspectionv1.SlowCommand{
			AtUnixMs: e.At.UnixMilli(), Region: e.Region, Type: validText(string(e.Entity.Type)), Id: validText(string(e.Entity.ID)), Command: validText(e.Command),
			Trace: validText(e.Trace), Attempts: uint32(min(e.Attempts, math.MaxInt32)), Code: e.Code, TotalUs: e.Total.Microseconds(),
			MailboxUs: e.Timing.Mailbox.Microseconds(), HandlerUs: e.Timing.Handler.Microseconds(), JournalUs: e.Timing.Journal.Microseconds(),
		})
	}
	return out, nil
}

// validText is a text of a client, which may be any bytes and as long as a header may be.
func validText(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), sharding.MaxIDLen)], "\ufffd")
}
