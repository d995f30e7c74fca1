package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// slowDefault is the number of slow commands in an answer if the request names none.
const slowDefault = 100

// Slow asks the gateways at their management addresses for the slowest commands.
func (a admin) Slow(ctx context.Context, req *adminv1.SlowRequest) (*adminv1.SlowResponse, error) {
	timeout, err := a.s.patience(req.TimeoutMs)
	if err != nil {
		return nil, err
	}
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	limit := min(cmp.Or(req.Limit, slowDefault), listMost)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := &http.Client{Transport: bounded.Limits{Body: maxSlowAnswer}.Transport(managementTransport())}
	defer client.CloseIdleConnections()
	answers, reasons := make([]*inspectionv1.SlowResponse, len(v.Gateways)), make([]error, len(v.Gateways))
	slots := make(chan struct{}, askAtOnce)
	var all sync.WaitGroup
	for i, g := range v.Gateways {
		all.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				reasons[i] = ctx.Err()
				return
			}
			c := inspectionv1.NewGatewayInspectionProtobufClient("http://"+g.Management, client)
			answers[i], reasons[i] = c.Slow(ctx, &inspectionv1.SlowRequest{Cluster: a.s.cfg.ClusterName, To: uint64(g.Node.UID), Limit: limit})
		})
	}
	all.Wait()
	out := &adminv1.SlowResponse{}
	named := names(&v)
	for i, g := range v.Gateways {
		if reasons[i] != nil {
			out.Silent = append(out.Silent, &adminv1.Silent{Region: g.Node.Addr, Reason: fmt.Sprintf("%s (asked at its management address %s)", a.s.reason(reasons[i], timeout), g.Management)})
			continue
		}
		out.Gateways++
		for _, x := range answers[i].Commands[:min(len(answers[i].Commands), int(limit))] {
			out.Commands = append(out.Commands, toSlow(x, g, &v, named))
		}
	}
	slices.SortStableFunc(out.Commands, func(x, y *adminv1.SlowCommand) int { return cmp.Compare(y.AtUnixMs, x.AtUnixMs) })
	out.Commands = out.Commands[:min(len(out.Commands), int(limit))]
	return out, nil
}

// maxSlowAnswer is the longest answer of a gateway: 1,000 commands with the longest names.
const maxSlowAnswer = 16 << 20

// managementTransport connects to management listeners of gateways. They are asked rarely.
func managementTransport() *http.Transport {
	return &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, DisableKeepAlives: true}
}

func toSlow(x *inspectionv1.SlowCommand, g coordinator.GatewayView, v *coordinator.View, named map[sharding.NodeID]string) *adminv1.SlowCommand {
	out := &adminv1.SlowCommand{
		AtUnixMs: x.AtUnixMs, Gateway: g.Node.Addr, Region: shortText(x.Region), Type: shortText(x.Type), Id: shortText(x.Id), Command: shortText(x.Command),
		Trace: shortText(x.Trace), Attempts: x.Attempts, Code: shortText(x.Code),
		TotalUs: max(0, x.TotalUs), MailboxUs: max(0, x.MailboxUs), HandlerUs: max(0, x.HandlerUs), JournalUs: max(0, x.JournalUs),
	}
	out.RouteUs = max(0, out.TotalUs-out.MailboxUs-out.HandlerUs-out.JournalUs)
	if i := slices.IndexFunc(v.Regions, func(r coordinator.RegionView) bool { return x.Region != "" && r.Node.Addr == x.Region }); i >= 0 {
		out.Region = cmp.Or(named[v.Regions[i].Node], x.Region)
	}
	return out
}
