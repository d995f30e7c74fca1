package console

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// slowDefault is the number of slow commands in an answer if the request names none.
const slowDefault = 100

// Slow asks the gateways and the regions for the slowest commands.
func (a *API) Slow(ctx context.Context, req *adminv1.SlowRequest) (*adminv1.SlowResponse, error) {
	timeout, err := a.patience(req.TimeoutMs)
	if err != nil {
		return nil, err
	}
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	limit := min(cmp.Or(req.Limit, slowDefault), listMost)
	named := names(&v)
	regions := make([]asked, len(v.Regions))
	for i, r := range v.Regions {
		regions[i] = asked{r.Node, cmp.Or(named[r.Node], r.Node.Addr)}
	}
	out := &adminv1.SlowResponse{}
	var ofRegions []*inspectionv1.SlowResponse
	var both sync.WaitGroup
	both.Go(func() {
		ofRegions, out.SilentRegions = askWithin(ctx, a, timeout, regions, func(ctx context.Context, c inspectionv1.Inspection, i int) (*inspectionv1.SlowResponse, error) {
			return c.Slow(ctx, a.slowOf(regions[i].node, limit))
		})
	})
	ofGateways, reasons := a.slowOfGateways(ctx, timeout, v.Gateways, limit)
	both.Wait()
	for i, g := range v.Gateways {
		if reasons[i] != nil {
			reason := a.reason(reasons[i], timeout)
			if a.outOfReach(&v.Gateways[i]) == nil {
				reason += " (asked at its " + rpc.GatewayPlace(g.Peers, g.Management) + ")"
			}
			out.Silent = append(out.Silent, &adminv1.Silent{Region: g.Node.Addr, Reason: reason})
			continue
		}
		out.Gateways++
		for _, x := range ofGateways[i].Commands[:min(len(ofGateways[i].Commands), int(limit))] {
			c := toSlow(x, &v, named)
			c.Gateway = g.Node.Addr
			out.Commands = append(out.Commands, c)
		}
	}
	for i, res := range ofRegions {
		if res == nil {
			continue
		}
		out.Regions++
		for _, x := range res.Commands[:min(len(res.Commands), int(limit))] {
			c := toSlow(x, &v, named)
			c.KeptBy, c.Origin = regions[i].name, shortText(x.Origin)
			out.Commands = append(out.Commands, c)
		}
	}
	slices.SortStableFunc(out.Commands, func(x, y *adminv1.SlowCommand) int { return cmp.Compare(y.AtUnixMs, x.AtUnixMs) })
	out.Commands = out.Commands[:min(len(out.Commands), int(limit))]
	return out, nil
}

// slowOf is the question to one process.
func (a *API) slowOf(to sharding.NodeID, limit uint32) *inspectionv1.SlowRequest {
	return &inspectionv1.SlowRequest{Cluster: a.cfg.Cluster, To: uint64(to.UID), Limit: limit}
}

// slowOfGateways returns the answer of each gateway, or why there is none.
func (a *API) slowOfGateways(ctx context.Context, timeout time.Duration, gateways []coordinator.GatewayView, limit uint32) ([]*inspectionv1.SlowResponse, []error) {
	plain := &http.Client{Transport: bounded.Limits{Body: maxSlowAnswer}.Transport(managementTransport())}
	defer plain.CloseIdleConnections()
	answers := make([]*inspectionv1.SlowResponse, len(gateways))
	return answers, eachWithin(ctx, timeout, len(gateways), func(ctx context.Context, i int) (err error) {
		if err := a.outOfReach(&gateways[i]); err != nil {
			return err
		}
		client, url := a.cfg.Peers.ReachGateway(gateways[i].Peers, gateways[i].Management, plain)
		answers[i], err = inspectionv1.NewGatewayInspectionProtobufClient(url, client).Slow(ctx, a.slowOf(gateways[i].Node, limit))
		return err
	})
}

// outOfReach returns why this process cannot ask a gateway; nil if it can.
func (a *API) outOfReach(g *coordinator.GatewayView) error {
	return rpc.GatewayOutOfReach(a.cfg.Self.Addr, g.Node.Addr, g.Peers, g.Management)
}

// maxSlowAnswer is the longest answer of a gateway: 1,000 commands with the longest names.
const maxSlowAnswer = 16 << 20

// managementTransport connects to management listeners of gateways. They are queried rarely.
func managementTransport() *http.Transport {
	return &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, DisableKeepAlives: true}
}

func toSlow(x *inspectionv1.SlowCommand, v *coordinator.View, named map[sharding.NodeID]string) *adminv1.SlowCommand {
	out := &adminv1.SlowCommand{
		AtUnixMs: x.AtUnixMs, Region: shortText(x.Region), Type: shortText(x.Type), Id: shortText(x.Id), Command: shortText(x.Command),
		Trace: shortText(x.Trace), Attempts: x.Attempts, Code: shortText(x.Code), From: shortText(x.From),
		TotalUs: max(0, x.TotalUs), MailboxUs: max(0, x.MailboxUs), HandlerUs: max(0, x.HandlerUs), JournalUs: max(0, x.JournalUs),
	}
	out.RouteUs = max(0, out.TotalUs-out.MailboxUs-out.HandlerUs-out.JournalUs)
	if i := slices.IndexFunc(v.Regions, func(r coordinator.RegionView) bool { return x.Region != "" && r.Node.Addr == x.Region }); i >= 0 {
		out.Region = cmp.Or(named[v.Regions[i].Node], x.Region)
	}
	return out
}
