package server

import (
	"context"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/discovery"
	discoveryopen "github.com/roost-cluster/roost/libs/discovery/open"
	discoverytelemetry "github.com/roost-cluster/roost/libs/discovery/telemetry"
	"github.com/roost-cluster/roost/libs/node"
)

// enterDiscovery keeps this coordinator listed in a discovery that can be written to. It
// is the last stage: the entry is taken out before the lease is given up.
func (s *Server) enterDiscovery(n *node.Node) error {
	url, me := bootstrap.Expand(s.cfg.Discovery, s.cfg.ClusterName), discovery.Peer{Addr: s.self.Addr, Role: "coordinator"}
	r, err := discoveryopen.Registration(context.Background(), url, s.cfg.ClusterName, me, s.log)
	if err != nil {
		return fmt.Errorf("discovery.url: %w", err)
	}
	if err := discoverytelemetry.Observe(n.MeterProvider().Meter(scope), url, s.joiner.Watch(), r); err != nil {
		return err
	}
	n.Stage(node.Stage{
		Name: "registration",
		Run:  r.Run,
		Stop: func(ctx context.Context) error {
			_ = r.Leave(ctx) // it is logged, and the entry ends by itself
			return nil
		},
		StopTimeout: 5 * time.Second,
	})
	return nil
}
