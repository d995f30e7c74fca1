package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/diagnosis"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/rpc"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// serveDiagnosis answers the questions of other processes, and explains entities for operators.
func (s *Server) serveDiagnosis(n *node.Node) {
	n.HandlePeers(inspectionv1.ObserverPathPrefix, control.Coordinator|control.Gateway, inspectionv1.NewObserverServer(diagnosis.NewObserver(s.cfg.ClusterName, s.self, s.console.Observe, s.describe)))
	n.HandleManagementRead(diagnosisv1.DiagnosisPathPrefix, http.Handler(diagnosisv1.NewDiagnosisServer(diagnosis.Explainer{
		Cluster: s.cfg.ClusterName, Name: s.name, Self: s.self, Role: diagnosis.Coordinator, Peers: s.peers, OutOfReach: rpc.GatewayOutOfReach, Observe: s.console.Observe, Coordinators: s.otherCoordinators,
	}.Ready())))
}

// describe returns how this coordinator is set up. It may be called before the stores are open.
func (s *Server) describe() *inspectionv1.Process {
	p := s.node.Describe("coordinator")
	var warning, unusable error
	ctx, cancel := context.WithTimeout(s.ctx, diagnosis.Patience)
	defer cancel()
	if err := s.look(ctx, func() error { // the loop runs when the stores are open
		warning, unusable = errors.Join(s.journal.Warning(), s.journal.Failure()), s.keeper.Usable()
		return nil
	}); err != nil {
		warning, unusable = nil, nil
	}
	p.ShowPayloads, p.TryCommands = s.cfg.ShowPayloads, s.cfg.TryCommands
	diagnosis.DescribeJournal(p, s.cfg.Journal.URL, warning, node.Disk)
	diagnosis.DescribeLease(p, s.cfg.LeaseURL, unusable)
	return p
}

// otherCoordinators returns the addresses of the members that may be the active coordinator. A standby that
// does not know the active coordinator asks all of them.
func (s *Server) otherCoordinators() (addrs []string) {
	for _, m := range s.agent.Members().OldestFirst("coordinator") {
		if m.Node != s.self {
			addrs = append(addrs, m.Node.Addr)
		}
	}
	return addrs
}
