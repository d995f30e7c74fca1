package adminclient

import (
	"context"
	"time"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// inspectSlack is the time that a coordinator may take beyond the regions' time, because it may also read
// the journal.
const inspectSlack = askTimeout

// inspect makes a call that the coordinator answers with what regions say. If timeoutMs is not 0, it is the
// time that the request allows the regions, in milliseconds. Then the client waits for this time and
// inspectSlack. Otherwise the limits of ask hold.
func inspect[T any](ctx context.Context, a *Client, timeoutMs int64, call func(context.Context, adminv1.Admin) (*T, error)) (*T, error) {
	if timeoutMs <= 0 {
		return ask(ctx, a, call)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(timeoutMs)*time.Millisecond+inspectSlack)
	defer cancel()
	return ask(ctx, a.withoutTimeout, call)
}

// Members lists the members of the cluster, as the active coordinator sees them, and the gateways.
func (a *Client) Members(ctx context.Context) (*adminv1.MembersResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.MembersResponse, error) {
		return c.Members(ctx, &adminv1.MembersRequest{})
	})
}

// Shards lists the rows of the route table, and the unreadable shards. An empty type means all types, and an
// empty region all regions.
func (a *Client) Shards(ctx context.Context, typ, region string) (*adminv1.ShardsResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.ShardsResponse, error) {
		return c.Shards(ctx, &adminv1.ShardsRequest{Type: typ, Region: region})
	})
}

// Where returns the shard of an entity, and the region that owns the shard.
func (a *Client) Where(ctx context.Context, typ, id string) (*adminv1.WhereResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.WhereResponse, error) {
		return c.Where(ctx, &adminv1.WhereRequest{Type: typ, Id: id})
	})
}

// Why returns why a shard is at its region, and what coordinators have decided about it, the newest decision
// first. An empty type means the decisions about all shards. req.Limit is the greatest number of decisions, at
// most 1,000; 0: 20.
func (a *Client) Why(ctx context.Context, req *adminv1.WhyRequest) (*adminv1.WhyResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.WhyResponse, error) { return c.Why(ctx, req) })
}

// Top lists the hot shards and entities: those that use most of their region's time now. req.Shards and
// req.Entities bound the numbers to list, at most 1,000; both 0: 10 of either.
func (a *Client) Top(ctx context.Context, req *adminv1.TopRequest) (*adminv1.TopResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.TopResponse, error) { return c.Top(ctx, req) })
}

// Entities lists a page of the entities: those that are in memory, or those that are stored.
func (a *Client) Entities(ctx context.Context, req *adminv1.EntitiesRequest) (*adminv1.EntitiesResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.EntitiesResponse, error) {
		return c.Entities(ctx, req)
	})
}

// Entity returns the whole known state of one entity: where it is, its region's data about it in memory,
// and its stored data.
func (a *Client) Entity(ctx context.Context, req *adminv1.EntityRequest) (*adminv1.EntityResponse, error) {
	return inspect(ctx, a, req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.EntityResponse, error) { return c.Entity(ctx, req) })
}

// Regions returns what regions have in memory, and which regions have not answered.
func (a *Client) Regions(ctx context.Context, req *adminv1.RegionsRequest) (*adminv1.RegionsResponse, error) {
	return inspect(ctx, a, req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.RegionsResponse, error) {
		return c.Regions(ctx, req)
	})
}

// ShardStates lists a page of the shards that have an owner, with what their owners have in memory.
func (a *Client) ShardStates(ctx context.Context, req *adminv1.ShardStatesRequest) (*adminv1.ShardStatesResponse, error) {
	return inspect(ctx, a, req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.ShardStatesResponse, error) {
		return c.ShardStates(ctx, req)
	})
}

// Slow lists the slowest commands of the last minutes, as gateways and regions have kept them.
func (a *Client) Slow(ctx context.Context, req *adminv1.SlowRequest) (*adminv1.SlowResponse, error) {
	return inspect(ctx, a, req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.SlowResponse, error) { return c.Slow(ctx, req) })
}

// Reminders lists a page of the reminders that stand. If req.Failing is set, it lists only those that keep
// failing.
func (a *Client) Reminders(ctx context.Context, req *adminv1.RemindersRequest) (*adminv1.RemindersResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.RemindersResponse, error) {
		return c.Reminders(ctx, req)
	})
}

// Sends lists a page of the dead letters and of the pending sends.
func (a *Client) Sends(ctx context.Context, req *adminv1.SendsRequest) (*adminv1.SendsResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.SendsResponse, error) {
		return c.Sends(ctx, req)
	})
}

// RetrySends asks the regions to retry failing sends at once.
func (a *Client) RetrySends(ctx context.Context, req *adminv1.RetrySendsRequest) (*adminv1.RetrySendsResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.RetrySendsResponse, error) {
		return c.RetrySends(ctx, req)
	})
}

// Remembered lists a page of the remembered entities.
func (a *Client) Remembered(ctx context.Context, req *adminv1.RememberedRequest) (*adminv1.RememberedResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.RememberedResponse, error) {
		return c.Remembered(ctx, req)
	})
}
