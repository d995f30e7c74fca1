package server

import (
	"context"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/diagnosis"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// serveDiagnosis answers the questions of other processes, at the management listener and, by TLS, at the one for peers.
// It explains entities for operators, at the management listener. The service listener is for clients.
func (s *Server) serveDiagnosis(n *node.Node) {
	observer := inspectionv1.NewObserverServer(diagnosis.NewObserver(s.cfg.ClusterName, s.self, s.observation, func() *inspectionv1.Process { return s.describe(n) }))
	slow := inspectionv1.NewGatewayInspectionServer(inspection{s})
	n.HandleManagementRead(inspectionv1.ObserverPathPrefix, observer)
	n.HandleManagementRead(inspectionv1.GatewayInspectionPathPrefix, slow)
	n.HandlePeers(inspectionv1.ObserverPathPrefix, control.Coordinator|control.Gateway, observer)
	n.HandlePeers(inspectionv1.GatewayInspectionPathPrefix, control.Coordinator, slow)
	n.HandleManagementRead(diagnosisv1.DiagnosisPathPrefix, diagnosisv1.NewDiagnosisServer(diagnosis.Explainer{
		Cluster: s.cfg.ClusterName, Name: n.Name(), Self: s.self, Role: diagnosis.Gateway, Peers: s.peers, OutOfReach: rpc.GatewayOutOfReach, Observe: s.observation, Coordinators: s.coordinators,
	}.Ready()))
}

// describe returns the setup of this gateway.
func (s *Server) describe(n *node.Node) *inspectionv1.Process {
	p := n.Describe("gateway")
	p.Name, p.Authenticates, p.Policy = s.self.Addr, s.auth != nil, s.policy != nil
	return p
}

// coordinators are those that discovery lists, and the one that was active last: it need not be listed.
func (s *Server) coordinators() (addrs []string) {
	if active := s.active.Load(); active != nil {
		addrs = append(addrs, *active)
	}
	for _, p := range s.watcher.Peers().Peers {
		if p.Role != "region" {
			addrs = append(addrs, p.Addr)
		}
	}
	return addrs
}

// observation returns this gateway's view of an entity's shard.
func (s *Server) observation(ctx context.Context, req *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
	entity := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	g := &inspectionv1.GatewayObservation{}
	err := s.router.Inside(ctx, func() error {
		now := time.Now()
		core := s.router.Core()
		st := core.Status(entity)
		g.Table, g.TypeKnown, g.Coordinator = core.Table().Version() != sharding.Version{}, st.Known, st.Coordinator
		if g.HeardMs = diagnosis.Heard(now, s.heard); len(s.complaints) > 0 {
			g.Complaint = s.whyNoTable()
		}
		if st.Known {
			g.Row = diagnosis.Row(st.Row)
		}
		g.Waiting, g.Sent, g.Room, g.OldestMs = uint32(st.Waiting), uint32(st.Sent), uint32(max(0, st.Room)), diagnosis.Since(now, st.Oldest)
		g.Link, g.Refusal = st.Linked, st.Refusal
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &inspectionv1.Observation{Name: s.self.Addr, Gateway: g}, nil
}
