// Package observe finds out why a command for an entity waits or fails now: it has the processes on the way of the
// command say what they know, all at once, and gives that to package diagnosis.
//
// # What this does not do
//
// It judges nothing, see package diagnosis. It repeats no question: who wants to know more asks again.
package observe

import (
	"context"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

const (
	// Patience is how long a party has to answer. A process that runs answers in a few milliseconds, and
	// whoever looks at a cluster that stalls wants to know more while it does.
	Patience = 60 * time.Millisecond
	// reserve is the part of Patience that is left for the way back: what a process has not found out by
	// then is missing in its answer.
	reserve = 15 * time.Millisecond
	// maxObservations is how many questions a process answers at a time. More are refused.
	maxObservations = 8
)

// Observe tells what this process knows of an entity. When the context ends, it returns what it has by then.
type Observe func(ctx context.Context, req *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error)

// Observer serves the questions of other processes.
type Observer struct {
	cluster  string
	self     sharding.NodeID
	observe  Observe
	describe func() *inspectionv1.Process
	slots    chan struct{}
}

// NewObserver returns what serves the questions to one process.
func NewObserver(cluster string, self sharding.NodeID, o Observe, describe func() *inspectionv1.Process) Observer {
	return Observer{cluster, self, o, describe, make(chan struct{}, maxObservations)}
}

// meant returns an error unless a question is for this process.
func (o Observer) meant(cluster string, to uint64) error {
	switch {
	case cluster != o.cluster:
		return twirp.NewErrorf(twirp.FailedPrecondition, "this is cluster %q, not %q; see cluster.name", o.cluster, cluster)
	case to != 0 && sharding.NodeUID(to) != o.self.UID:
		return twirp.NewError(twirp.FailedPrecondition, "another incarnation of this process was meant: it has ended")
	}
	return nil
}

// Describe tells how this process is set up.
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

// Since is how long ago a time was, in milliseconds, at least one; 0: there is none.
func Since(now, t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(1, now.Sub(t).Milliseconds())
}

// Heard is how long ago something was heard, in milliseconds; -1: never.
func Heard(now, t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return max(0, now.Sub(t).Milliseconds())
}

// Row is a row for an answer.
func Row(r sharding.Row) *inspectionv1.ObservedRow {
	return &inspectionv1.ObservedRow{
		Index: r.Shard.Index, Owner: r.Owner.Addr, Uid: uint64(r.Owner.UID), Epoch: uint64(r.Epoch), Phase: r.Phase.String(),
		Unreadable: r.Reason == sharding.Unreadable,
	}
}

// JournalReport is a report of package journal, which processes without a journal do not import.
type JournalReport struct {
	Queued                       int
	OldestSince, CommittingSince time.Time
	Slowest                      time.Duration
	EndedAt                      time.Time
	Warning                      error
	FenceRead                    bool
	Fence                        sharding.Fence
	FenceErr                     error
}

// Observation is a report for an answer.
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
	if r.FenceErr != nil {
		out.FenceError = text(r.FenceErr)
	}
	return out
}
