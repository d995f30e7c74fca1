package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// standsBy is the error for an operator who asks a coordinator that is not active. If active is zero, no active one
// is known.
type standsBy struct{ active sharding.NodeID }

// Error implements error.
func (e standsBy) Error() string { return "this coordinator stands by" }

// lookActive is look for what only the active coordinator knows. At a standby, f is not called.
func (s *Server) lookActive(ctx context.Context, f func() error) error {
	return s.look(ctx, func() error {
		if s.core.ActiveTerm() == 0 {
			return standsBy{s.known.Node}
		}
		return f()
	})
}

// showActive answers operators at a standby with the management address of the active coordinator.
func (s *Server) showActive(next twirp.Method) twirp.Method {
	return func(ctx context.Context, req any) (any, error) {
		res, err := next(ctx, req)
		var standby standsBy
		if !errors.As(err, &standby) {
			return res, err
		}
		if standby.active.IsZero() || standby.active == s.self { // this one has just lost the lease
			return nil, twirp.NewErrorf(twirp.FailedPrecondition, "%v, and no active one is known; try again in a moment", standby)
		}
		if since, over := s.leaseOver(standby.active); over {
			return nil, twirp.NewErrorf(twirp.FailedPrecondition, "%v, and no coordinator is active: the lease of %s ran out at %s, by the clock of this one, and no other coordinator has taken it over yet; try again in a moment",
				standby, s.nameOf(standby.active), since.UTC().Format(time.RFC3339))
		}
		addr := s.asking.management(ctx, s, standby.active)
		if addr == "" {
			text := fmt.Sprintf("%v; the active one is %s at %s, and has not told its management address; ask it at its management.listen", standby, s.nameOf(standby.active), standby.active.Addr)
			return nil, twirp.NewError(twirp.FailedPrecondition, text).WithMeta("active", standby.active.Addr)
		}
		return nil, twirp.NewErrorf(twirp.FailedPrecondition, "%v; ask the active one, %s, at its management address %s", standby, s.nameOf(standby.active), addr).
			WithMeta("active", standby.active.Addr).WithMeta("management", addr)
	}
}

// leaseOver reports whether the lease of the coordinator that was active last has run out, and when. If the lease cannot
// be read or written here, that is not known: it may have been renewed.
func (s *Server) leaseOver(active sharding.NodeID) (since time.Time, over bool) {
	holder, until := s.keeper.Current()
	return until, holder == active && !until.IsZero() && until.Before(time.Now()) && s.keeper.Usable() == nil
}

// nameOf returns the name of a member, or its address if it is none.
func (s *Server) nameOf(node sharding.NodeID) string {
	for _, m := range s.agent.Members().Members {
		if m.Node == node && m.Name != "" {
			return m.Name
		}
	}
	return node.Addr
}

const (
	// askActiveTimeout bounds the time that a standby waits for the address of the active coordinator: much less than
	// an operator waits for the standby.
	askActiveTimeout = 500 * time.Millisecond
	// askActivePause is the pause after an attempt without an answer.
	askActivePause = 2 * time.Second
)

// askingActive asks the active coordinator for its management address, once.
type askingActive struct {
	mu   sync.Mutex
	of   sharding.NodeID
	addr string    // of it; empty: not known
	next time.Time // when the next attempt is allowed
}

// management returns the management address of the active coordinator; empty: it is not known, or another
// call asks for it now.
func (a *askingActive) management(ctx context.Context, s *Server, active sharding.NodeID) string {
	if !a.mu.TryLock() {
		return ""
	}
	defer a.mu.Unlock()
	if a.of == active && (a.addr != "" || time.Now().Before(a.next)) {
		return a.addr
	}
	ctx, cancel := context.WithTimeout(ctx, askActiveTimeout)
	defer cancel()
	client, url := s.peers.Reach(control.Coordinator, active.Addr)
	res, err := inspectionv1.NewCoordinatorsProtobufClient(url, client).Management(ctx, &inspectionv1.ManagementRequest{Cluster: s.cfg.ClusterName, To: uint64(active.UID)})
	a.of, a.addr, a.next = active, res.GetManagement(), time.Now().Add(askActivePause)
	if err != nil {
		s.log.Debug("the active coordinator's management address is unknown", "active", active, "error", err)
	}
	return a.addr
}

// management tells other coordinators where operators reach this one.
type management struct {
	cluster string
	self    sharding.NodeID
	addr    string
}

// Management implements inspectionv1.Coordinators.
func (m management) Management(_ context.Context, req *inspectionv1.ManagementRequest) (*inspectionv1.ManagementResponse, error) {
	switch {
	case req.Cluster != m.cluster:
		return nil, twirp.NewErrorf(twirp.FailedPrecondition, "this is cluster %q, not %q; see cluster.name", m.cluster, req.Cluster)
	case sharding.NodeUID(req.To) != m.self.UID:
		return nil, twirp.NewError(twirp.FailedPrecondition, "the request is for another incarnation of this process")
	}
	return &inspectionv1.ManagementResponse{Management: m.addr}, nil
}
