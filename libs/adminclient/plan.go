package adminclient

import (
	"context"
	"time"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// planTimeout bounds a Plan whose request sets no time. It is longer than the 30 s that a coordinator then
// takes at most.
const planTimeout = 35 * time.Second

// Plan returns which shards would move, and why, if certain regions left or if another strategy were used.
// Nothing moves. The request may set how long the coordinator works at the plan (TimeoutMs, in milliseconds; 0:
// 30 s). Plan waits some seconds longer than that.
func (a *Client) Plan(ctx context.Context, req *adminv1.PlanRequest) (*adminv1.PlanResponse, error) {
	timeout := planTimeout
	if req.TimeoutMs > 0 {
		timeout = time.Duration(req.TimeoutMs)*time.Millisecond + electionTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return ask(ctx, a.withoutTimeout, func(ctx context.Context, c adminv1.Admin) (*adminv1.PlanResponse, error) { return c.Plan(ctx, req) })
}
