package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

// storedWait bounds the time that the answer to a request waits until the request is stored. It is shorter than the
// timeout of clients. A journal stores it in some milliseconds.
const storedWait = time.Second

// request carries out a request, or with dryRun only reports what it would do. Then it calls after, if that
// is not nil, in the loop. A change is answered when it is stored, or after storedWait. If the answer came
// sooner, clients would repeat the request until it is stored, and two clients that want different things
// would keep undoing each other's change.
func (a admin) request(ctx context.Context, r coordinator.Request, dryRun bool, after func()) (e coordinator.Effect, err error) {
	var stored chan bool // nil: nothing has changed
	err = a.s.lookActive(ctx, func() (err error) {
		if e, err = a.s.core.Preview(r); err != nil {
			return console.Refusal(err)
		}
		if e.Stored = e.Stored && !dryRun; !dryRun && !e.Already {
			by, reason := r.Origin()
			a.s.log.Info("an operator has asked for something", "request", requestName(r), "region", e.Region, "changes", e.Changes, "by", by, "reason", reason)
			a.s.step(r)
			stored = a.s.awaitStored(a.s.core.ActiveTerm(), r)
		}
		if after != nil {
			after()
		}
		return nil
	})
	if err != nil || stored == nil {
		return e, err
	}
	timeout := time.NewTimer(storedWait)
	defer timeout.Stop()
	select {
	case e.Stored = <-stored:
	case <-timeout.C:
	case <-ctx.Done():
	case <-a.s.ctx.Done():
	}
	a.s.inbox.Put(func() { a.s.forgetStored(stored) })
	return e, nil
}

// unstored is a call that waits until a fact of a term is stored, and the request obeyed.
type unstored struct {
	term    sharding.Term
	fact    uint64
	request coordinator.Request
	told    chan bool // receives true when it is so, or false when the term ends before
}

// awaitStored returns a channel that receives true once the facts of the term so far are stored, and the request is
// obeyed, or false if the term ends before. It must be called in the loop.
func (s *Server) awaitStored(term sharding.Term, r coordinator.Request) chan bool {
	u := unstored{term: term, fact: s.core.LastFact(), request: r, told: make(chan bool, 1)}
	s.unstored = append(s.unstored, u)
	return u.told
}

func (s *Server) forgetStored(told chan bool) {
	s.unstored = slices.DeleteFunc(s.unstored, func(u unstored) bool { return u.told == told })
}

// tellStored ends the waits for facts that are stored by now, and the waits of terms that have ended.
func (s *Server) tellStored() {
	s.unstored = slices.DeleteFunc(s.unstored, func(u unstored) bool {
		over := s.core.ActiveTerm() != u.term
		if !over && !(s.core.IsStored(u.fact) && s.core.Obeyed(u.request)) {
			return false
		}
		u.told <- !over
		return true
	})
}

// requestName says in the log what a request asks for. Of very many pins it names the first.
func requestName(r coordinator.Request) string {
	switch r := r.(type) {
	case coordinator.CordonRegion:
		return map[bool]string{false: "cordon", true: "uncordon"}[r.Lift]
	case coordinator.DrainRegion:
		return map[bool]string{false: "drain", true: "end the drain"}[r.Resume]
	case coordinator.FreezeMoves:
		return map[bool]string{false: "freeze", true: "thaw"}[r.Thaw]
	case coordinator.MoveShard:
		return fmt.Sprintf("move %v", r.Shard)
	case coordinator.PinShards:
		text := "pin"
		if r.Pins[0].Region == "" {
			text = "unpin"
		}
		text += fmt.Sprintf(" %v", r.Pins[0].Shard)
		if more := len(r.Pins) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return text
	case coordinator.SetTarget:
		return "target " + r.Version
	}
	return fmt.Sprintf("%T", r)
}

// steer answers a request that has no answer of its own.
func (a admin) steer(ctx context.Context, r coordinator.Request, dryRun bool) (*adminv1.SteerResponse, error) {
	e, err := a.request(ctx, r, dryRun, nil)
	if err != nil {
		return nil, err
	}
	return &adminv1.SteerResponse{
		Already: e.Already, Stored: e.Stored, Changes: uint32(e.Changes), Region: e.Region, UntilUnixMs: unixMs(e.Until), Remarks: e.Remarks,
	}, nil
}

// Cordon has the regions with a name get no more shards, or ends that.
func (a admin) Cordon(ctx context.Context, req *adminv1.CordonRequest) (*adminv1.SteerResponse, error) {
	return a.steer(ctx, coordinator.CordonRegion{Region: req.Region, Lift: req.Lift, Ahead: req.Ahead, By: req.By, Reason: req.Reason}, req.DryRun)
}

// Freeze stops every move of a shard that can stay where it is, or ends that.
func (a admin) Freeze(ctx context.Context, req *adminv1.FreezeRequest) (*adminv1.SteerResponse, error) {
	// The core refuses what is longer than MaxFreeze, or negative. So many milliseconds may be no Duration.
	forMs := max(-1, min(req.ForMs, 2*coordinator.MaxFreeze.Milliseconds()))
	return a.steer(ctx, coordinator.FreezeMoves{
		Thaw: req.Thaw, For: time.Duration(forMs) * time.Millisecond, Until: fromUnixMs(req.UntilUnixMs), By: req.By, Reason: req.Reason,
	}, req.DryRun)
}

// Pin has shards be at certain regions, or ends that.
func (a admin) Pin(ctx context.Context, req *adminv1.PinRequest) (*adminv1.SteerResponse, error) {
	in := coordinator.PinShards{Ahead: req.Ahead, By: req.By, Reason: req.Reason}
	for _, p := range req.Pins {
		in.Pins = append(in.Pins, coordinator.Pin{Shard: sharding.ShardID{Type: sharding.EntityType(p.GetType()), Index: p.GetIndex()}, Region: p.GetRegion()})
	}
	return a.steer(ctx, in, req.DryRun)
}

// Move moves a shard to a region once.
func (a admin) Move(ctx context.Context, req *adminv1.MoveRequest) (*adminv1.SteerResponse, error) {
	return a.steer(ctx, coordinator.MoveShard{
		Shard: sharding.ShardID{Type: sharding.EntityType(req.Type), Index: req.Index}, Region: req.Region, By: req.By, Reason: req.Reason,
	}, req.DryRun)
}
