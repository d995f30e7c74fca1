package server

import (
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// The messages of this service alone; those that services share are in
// package wire.

func toNotActive(n coordinator.NotActive) *coordinatorv1.WatchTableResponse {
	out := &coordinatorv1.NotActive{Term: uint32(n.Term)}
	if !n.Active.IsZero() {
		out.Active = wire.ToNode(n.Active)
	}
	return &coordinatorv1.WatchTableResponse{NotActive: out}
}
