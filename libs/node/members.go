package node

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/gossip"
)

// ObserveMembers shows the membership as this node sees it in its metrics.
func (n *Node) ObserveMembers(view func() gossip.View) error {
	meter := n.MeterProvider().Meter("github.com/roost-cluster/roost/libs/gossip")
	phi, err := meter.Float64ObservableGauge("roost.member.phi", metric.WithUnit("{phi}"),
		metric.WithDescription("how strongly this node suspects a member: log 10 of the odds against a mistake"))
	if err != nil {
		return err
	}
	reachable, err := meter.Int64ObservableGauge("roost.member.reachable", metric.WithUnit("{member}"),
		metric.WithDescription("1 if this node reaches the member, 0 if not"))
	if err != nil {
		return err
	}
	members, err := meter.Int64ObservableGauge("roost.members", metric.WithUnit("{member}"),
		metric.WithDescription("members by status"))
	if err != nil {
		return err
	}
	refused, err := meter.Int64ObservableGauge("roost.members.refused", metric.WithUnit("{node}"),
		metric.WithDescription("incarnations that are refused permanently: removed, or banned by this node"))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		v := view()
		byStatus := map[gossip.Status]int64{}
		for i := range v.Members {
			m := &v.Members[i]
			byStatus[m.Status]++
			if m.Node == v.Self {
				continue
			}
			who := metric.WithAttributes(attribute.String("roost.member", m.Name), attribute.String("roost.member.address", m.Node.Addr))
			o.ObserveFloat64(phi, m.Phi, who)
			up := int64(0)
			if m.ReachableByMe {
				up = 1
			}
			o.ObserveInt64(reachable, up, who)
		}
		for s := gossip.Joining; s <= gossip.Down; s++ {
			o.ObserveInt64(members, byStatus[s], metric.WithAttributes(attribute.String("roost.member.status", s.String())))
		}
		o.ObserveInt64(refused, int64(len(v.Removed)), metric.WithAttributes(attribute.String("roost.reason", "removed")))
		o.ObserveInt64(refused, int64(len(v.Banned)), metric.WithAttributes(attribute.String("roost.reason", "banned")))
		return nil
	}, phi, reachable, members, refused)
	return err
}
