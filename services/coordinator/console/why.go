package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

const (
	// whyExplanations is the default of WhyRequest.limit, and maxWhyExplanations its maximum.
	whyExplanations, maxWhyExplanations = 20, 1000
	// whyTimeout bounds reading the stored explanations. It is shorter than the timeout of the command line.
	whyTimeout = 1500 * time.Millisecond
)

// Why explains the placement of a shard, or of all shards if the request names no type.
func (a *API) Why(ctx context.Context, req *adminv1.WhyRequest) (*adminv1.WhyResponse, error) {
	limit := int(req.Limit)
	if limit == 0 {
		limit = whyExplanations
	}
	if limit > maxWhyExplanations {
		return nil, twirp.NewErrorf(twirp.InvalidArgument, "limit is %d, must be at most %d", limit, maxWhyExplanations)
	}
	out := &adminv1.WhyResponse{}
	var id sharding.ShardID
	var waiting [][]byte
	err := a.cfg.LookActive(ctx, func(core Core) (err error) {
		out.Term = uint32(core.ActiveTerm())
		waiting, out.Dropped = a.cfg.Waiting()
		if req.Type != "" {
			id, err = describeShard(core, req, out)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	records, err := a.explanationRecords(ctx)
	if err != nil {
		out.Unread = a.reason(err, a.cfg.QueryTimeout) // the response then has only the explanations not stored yet
	}
	kept := DecodeExplanations(records, waiting, limit+1, func(d *coordinatorv1.Decision) bool { return req.Type == "" || wireShard(d) == id })
	if out.More = len(kept) > limit; out.More {
		kept = kept[1:]
	}
	for _, d := range slices.Backward(kept) {
		out.Decisions = append(out.Decisions, toDecision(d))
		if out.Shard != nil && d.Kind == uint32(coordinator.Given) && sharding.Epoch(d.Epoch).String() == out.Shard.Epoch {
			out.SinceUnixMs = d.AtUnixMs
		}
	}
	return out, nil
}

// describeShard adds the placement of the requested shard to the response, and returns the shard's id.
func describeShard(core Core, req *adminv1.WhyRequest, out *adminv1.WhyResponse) (sharding.ShardID, error) {
	id := sharding.ShardID{Type: sharding.EntityType(req.Type), Index: req.Index}
	v, desc := core.Shard(id)
	shards := desc.Shards
	if shards == 0 {
		view := core.View()
		_, err := typeOf(&view, id.Type)
		return id, err
	}
	if req.Id != "" {
		entity := sharding.Entity{Type: id.Type, ID: sharding.EntityID(req.Id)}
		if err := entity.Check(); err != nil {
			return id, twirp.NewError(twirp.InvalidArgument, err.Error())
		}
		id = desc.ShardOf(entity.ID)
		if key := desc.Rule.Key(entity.ID); key != string(entity.ID) {
			out.ShardKey = key
		}
		v, _ = core.Shard(id)
	}
	if id.Index >= shards {
		return id, twirp.NewErrorf(twirp.NotFound, "type %s has %d shards, 0 to %d; roost shard show finds the shard of an entity", req.Type, shards, shards-1)
	}
	out.Shard = toShard(sharding.Row{Shard: id, Owner: v.Owner, Epoch: v.Epoch, Phase: v.Phase, Reason: v.Reason}, v.Cause, map[sharding.NodeID]string{v.Owner: v.Region})
	out.Cause, out.Next = v.Cause.String(), v.Next
	if v.Pin.Region != "" {
		out.Pin = &adminv1.PinnedShard{
			Type: req.Type, Index: id.Index, Region: v.Pin.Region, Owner: v.Region, By: v.Pin.By, Reason: v.Pin.Reason, SinceUnixMs: unixMs(v.Pin.At),
		}
	}
	return id, nil
}

// explanationRecords reads the stored explanations. It runs outside the loop. Only one request reads at a time, which
// bounds the memory that they take.
func (a *API) explanationRecords(ctx context.Context) ([]sharding.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, whyTimeout)
	defer cancel()
	select {
	case a.readingExplanations <- struct{}{}:
		defer func() { <-a.readingExplanations }()
	case <-ctx.Done():
		return nil, errors.New("another request is reading the explanations; try again shortly")
	}
	l, err := a.cfg.Journal().Load(ctx, journal.LoadRequest{Entity: wire.DecisionsEntity, Shard: sharding.ShardID{Type: wire.FactsEntity.Type}, Background: true})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("reading them took longer than %v", whyTimeout)
	}
	return l.Records, err
}

func wireShard(d *coordinatorv1.Decision) sharding.ShardID {
	return sharding.ShardID{Type: sharding.EntityType(d.GetShard().GetType()), Index: d.GetShard().GetIndex()}
}

func toDecision(d StoredExplanation) *adminv1.Decision {
	of := wireShard(d.Decision)
	out := &adminv1.Decision{
		Term: d.Term, N: d.N, AtUnixMs: d.AtUnixMs, Kind: coordinator.ExplanationKind(min(d.Kind, 255)).String(), Type: string(of.Type), Index: of.Index,
		From: d.From, To: d.To, Cause: sharding.Cause(min(d.Cause, 255)).String(), Strategy: d.Strategy, Request: d.Request, By: d.By, Reason: d.Reason,
		Moves: d.Moves, Begun: d.Begun, Chosen: toWeighedRegion(d.Chosen), Unlisted: d.Unlisted, Unweighed: d.Unweighed, Dropped: d.Dropped,
	}
	if d.Epoch != 0 {
		out.Epoch = sharding.Epoch(d.Epoch).String()
	}
	if l := d.Loads; l != nil {
		out.Loads = &adminv1.DecisionLoads{
			Shard: l.Shard, From: l.From, To: l.To,
			ShardWaiting: l.ShardWaiting, FromWaiting: l.FromWaiting, ToWaiting: l.ToWaiting,
			FromProcessors: l.FromProcessors, ToProcessors: l.ToProcessors,
		}
	}
	for _, o := range d.Others {
		out.Others = append(out.Others, toWeighedRegion(o))
	}
	return out
}

func toWeighedRegion(w *coordinatorv1.Weighed) *adminv1.WeighedRegion {
	if w == nil {
		return nil
	}
	return &adminv1.WeighedRegion{Region: w.Region, Shards: w.Shards, Total: w.Total, Against: coordinator.Against(min(w.Against, 255)).String()}
}
