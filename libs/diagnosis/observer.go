package diagnosis

import (
	"context"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

const (
	// Patience is the time that a party has to answer. A healthy process answers within a few milliseconds,
	// and an explanation must be ready while the trouble lasts.
	Patience = 60 * time.Millisecond
	// reserve is the part of Patience that is kept for the way back. What a process has not found out before, is missing
	// in its answer.
	reserve = 15 * time.Millisecond
	// maxObservations is the number of questions that a process answers concurrently. Further ones are
	// refused.
	maxObservations = 8
)

// Observe returns the knowledge of this process about an entity. When the context ends, it returns the part found by
// then.
type Observe func(ctx context.Context, req *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error)

// Observer serves the questions of other processes.
type Observer struct {
	cluster  string
	self     sharding.NodeID
	observe  Observe
	describe func() *inspectionv1.Process
	slots    chan struct{}
}

// NewObserver returns an Observer for one process.
func NewObserver(cluster string, self sharding.NodeID, o Observe, describe func() *inspectionv1.Process) Observer {
	return Observer{cluster, self, o, describe, make(chan struct{}, maxObservations)}
}

// meant returns an error unless a question is for this process.
func (o Observer) meant(cluster string, to uint64) error {
	switch {
	case cluster != o.cluster:
		return twirp.NewErrorf(twirp.FailedPrecondition, "this is cluster %q, not %q; see cluster.name", o.cluster, cluster)
	case to != 0 && sharding.NodeUID(to) != o.self.UID:
		return twirp.NewError(twirp.FailedPrecondition, "the request is for another incarnation of this process: it has ended")
	}
	return nil
}

// Describe returns how this process is set up.
func (o Observer) Describe(_ context.Context, req *inspectionv1.DescribeRequest) (*inspectionv1.Process, error) {
	if err := o.meant(req.Cluster, req.To); err != nil {
		return nil, err
	}
	return o.describe(), nil
}

// Observe answers a question that is meant for this process.
func (o Observer) Observe(ctx context.Context, req *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
	if err := o.meant(req.Cluster, req.To); err != nil {
		return nil, err
	}
	entity := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	if err := entity.Check(); err != nil {
		return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
	}
	select {
	case o.slots <- struct{}{}:
		defer func() { <-o.slots }()
	default:
		return nil, twirp.NewErrorf(twirp.ResourceExhausted, "%d such questions are being answered already; try again", maxObservations)
	}
	ctx, cancel := context.WithTimeout(ctx, Patience-reserve)
	defer cancel()
	return o.observe(ctx, req)
}

// Since returns how long ago t was, in milliseconds, and at least 1. For the zero time it returns 0.
func Since(now, t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(1, now.Sub(t).Milliseconds())
}

// Heard returns how long ago t was, in milliseconds. For the zero time, which means never, it returns -1.
func Heard(now, t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return max(0, now.Sub(t).Milliseconds())
}

// Row returns a row as it is sent in an answer.
func Row(r sharding.Row) *inspectionv1.ObservedRow {
	return &inspectionv1.ObservedRow{
		Index: r.Shard.Index, Owner: r.Owner.Addr, Uid: uint64(r.Owner.UID), Epoch: uint64(r.Epoch), Phase: r.Phase.String(),
		Unreadable: r.Reason == sharding.Unreadable,
	}
}

// JournalReport is a copy of the report of package journal. Gateways have no journal, and do not import the package.
type JournalReport struct {
	Queued                       int
	OldestSince, CommittingSince time.Time
	Slowest                      time.Duration
	EndedAt                      time.Time
	Warning                      error
	Failure                      error
	FenceRead                    bool
	Fence                        sharding.Fence
	FenceErr                     error
}

// Observation returns a report as it is sent in an answer.
func (r JournalReport) Observation() *inspectionv1.JournalObservation {
	now := time.Now()
	out := &inspectionv1.JournalObservation{
		Queued: uint32(r.Queued), OldestMs: Since(now, r.OldestSince), CommittingMs: Since(now, r.CommittingSince),
		SlowestMs: r.Slowest.Milliseconds(), HeardMs: Heard(now, r.EndedAt),
		FenceRead: r.FenceRead, FenceEpoch: uint64(r.Fence.Epoch), FenceOwner: uint64(r.Fence.Owner),
	}
	if r.Warning != nil {
		out.Warning = text(r.Warning)
	}
	if r.Failure != nil {
		out.Failure = text(r.Failure)
	}
	if r.FenceErr != nil {
		out.FenceError = text(r.FenceErr)
	}
	return out
}
