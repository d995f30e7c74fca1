package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wakeup"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// inspection answers coordinators' questions for operators, one question at a time: however many callers ask,
// and however often, the shard cores spend little of their time on answers.
type inspection struct {
	s    *Server
	slot chan struct{}
	// copying is the slot of questions that copy an entity.
	copying chan struct{}
}

func newInspection(s *Server) inspection {
	return inspection{s, make(chan struct{}, 1), make(chan struct{}, 1)}
}

// admit checks that this region is meant, and waits for the turn of a question. If there is no error,
// the caller must call done when the question is answered.
func (i inspection) admit(ctx context.Context, cluster string, to uint64) (done func(), err error) {
	return i.admitTo(ctx, i.slot, cluster, to)
}

// admitTo does what admit does, for a question that takes another slot.
func (i inspection) admitTo(ctx context.Context, slot chan struct{}, cluster string, to uint64) (done func(), err error) {
	s := i.s
	switch {
	case cluster != s.cfg.ClusterName:
		return nil, twirp.NewErrorf(twirp.FailedPrecondition, "this is cluster %q, not %q; see cluster.name", s.cfg.ClusterName, cluster)
	case sharding.NodeUID(to) != s.self.UID:
		return nil, twirp.NewError(twirp.FailedPrecondition, "the request is for another incarnation of this process")
	}
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, errBusy
	case <-s.runner.ctx.Done():
		return nil, errStopping
	}
}

// Failing lists the work that keeps failing.
func (i inspection) Failing(ctx context.Context, req *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error) {
	done, err := i.admit(ctx, req.Cluster, req.To)
	if err != nil {
		return nil, err
	}
	defer done()
	return i.s.runner.failing(ctx, req)
}

// RetrySends retries failing sends at once.
func (i inspection) RetrySends(ctx context.Context, req *inspectionv1.RetrySendsRequest) (*inspectionv1.RetrySendsResponse, error) {
	done, err := i.admit(ctx, req.Cluster, req.To)
	if err != nil {
		return nil, err
	}
	defer done()
	return i.s.runner.retrySends(ctx, req)
}

// retrySends retries failing sends of all shard cores.
func (s *Runner) retrySends(ctx context.Context, req *inspectionv1.RetrySendsRequest) (*inspectionv1.RetrySendsResponse, error) {
	of := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	to := sharding.Entity{Type: sharding.EntityType(req.TargetType), ID: sharding.EntityID(req.TargetId)}
	if of.Type == "" && of.ID != "" || to.Type == "" && to.ID != "" {
		return nil, twirp.NewError(twirp.InvalidArgument, "an id is given without its type")
	}
	counts, err := inspect(ctx, s, func(l *shardLoop) []int { return []int{l.retrySends(of, to)} })
	if err != nil {
		return nil, err
	}
	out := &inspectionv1.RetrySendsResponse{}
	for _, n := range counts {
		out.Retried += uint32(n)
	}
	return out, nil
}

// retrySends retries failing sends of one shard core.
func (s *shardLoop) retrySends(of, to sharding.Entity) int {
	s.now = time.Now()
	n := s.core.RetrySends(s.now, of, to, &s.outputs)
	s.perform()
	return n
}

// failing asks the shard cores what keeps failing.
func (s *Runner) failing(ctx context.Context, req *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error) {
	if err := checkFailing(req, s.cfg.InspectRows); err != nil {
		return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
	}
	limit := min(int(req.Limit), s.cfg.InspectRows)
	all, err := inspect(ctx, s, func(l *shardLoop) []*inspectionv1.Failing { return l.failing(req, limit+1) })
	if err != nil {
		return nil, err
	}
	out := &inspectionv1.FailingResponse{}
	if len(req.Of) > 0 {
		limit = len(all)
	} else {
		slices.SortStableFunc(all, func(a, b *inspectionv1.Failing) int { return cmp.Compare(a.SinceUnixMs, b.SinceUnixMs) })
	}
	left := s.cfg.InspectBytes
	for _, f := range all {
		f.Message = strings.ToValidUTF8(f.Message[:min(len(f.Message), s.cfg.InspectText)], "")
		f.Code = strings.ToValidUTF8(f.Code[:min(len(f.Code), s.cfg.InspectText)], "")
		if left -= proto.Size(f); left < 0 || len(out.Failing) == limit {
			out.More = true
			break
		}
		out.Failing = append(out.Failing, f)
	}
	return out, nil
}

// inspect asks every shard core, and returns their answers one after the other, in no order of the cores.
func inspect[A any](ctx context.Context, s *Runner, question func(*shardLoop) []A) (all []A, err error) {
	got := make(chan []A, len(s.shards))
	for _, l := range s.shards {
		l.put(item{do: func() { got <- question(l) }})
	}
	for range s.shards {
		select {
		case some := <-got:
			all = append(all, some...)
		case <-ctx.Done():
			return nil, errBusy
		case <-s.ctx.Done():
			return nil, errStopping
		}
	}
	return all, nil
}

// inspectCore asks one shard core.
func inspectCore[A any](ctx context.Context, s *Runner, l *shardLoop, question func() A) (answer A, err error) {
	got := make(chan A, 1)
	l.put(item{do: func() { got <- question() }})
	select {
	case answer = <-got:
		return answer, nil
	case <-ctx.Done():
		return answer, errBusy
	case <-s.ctx.Done():
		return answer, errStopping
	}
}

// checkFailing returns an error unless a question can be answered.
func checkFailing(req *inspectionv1.FailingRequest, most int) error {
	switch {
	case req.Kind < inspectionv1.Kind_KIND_REMINDERS || req.Kind > inspectionv1.Kind_KIND_REMEMBERED:
		return fmt.Errorf("this version does not know kind %d; it knows up to %d", req.Kind, inspectionv1.Kind_KIND_REMEMBERED)
	case len(req.Of) > most:
		return fmt.Errorf("the request names %d, at most %d are answered; ask in parts", len(req.Of), most)
	case req.Id != "" && req.Type == "":
		return errors.New("id is given without type")
	}
	return nil
}

// failing lists the work that keeps failing in one shard core. It looks at the core, and changes nothing.
func (s *shardLoop) failing(req *inspectionv1.FailingRequest, limit int) (out []*inspectionv1.Failing) {
	of := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	all := len(req.Of) == 0
	add := func(f *inspectionv1.Failing) { out = append(out, f) }
	switch req.Kind {
	case inspectionv1.Kind_KIND_REMINDERS:
		for _, x := range req.Of {
			if f, ok := s.core.FailingReminder(subjectEntity(x), string(x.Name)); ok {
				add(toFailing(&f))
			}
		}
		if all {
			for _, f := range s.core.FailingReminders(of, limit) {
				add(toFailing(&f))
			}
		}
	case inspectionv1.Kind_KIND_REMEMBERED:
		for _, x := range req.Of {
			if f, ok := s.core.FailingStart(subjectEntity(x)); ok {
				add(toFailing(&f))
			}
		}
		if all {
			for _, f := range s.core.FailingStarts(of, limit) {
				add(toFailing(&f))
			}
		}
	case inspectionv1.Kind_KIND_SENDS:
		for _, x := range req.Of {
			if f := s.failingSend(x); f != nil {
				add(f)
			}
		}
		if all {
			for _, f := range s.core.FailingSends(of, limit) {
				add(toFailingSend(&f))
			}
		}
	}
	return out
}

// failingSend reports whether one send is failing or waits for one that is, or why it is a dead letter; nil:
// nothing is known.
func (s *shardLoop) failingSend(x *inspectionv1.Subject) *inspectionv1.Failing {
	from, place := subjectEntity(x), uint16(min(x.Place, math.MaxUint16))
	if d, ok := s.core.DiedSend(from, x.Record, place); ok {
		return &inspectionv1.Failing{
			Subject: x, SinceUnixMs: d.At.UnixMilli(), Times: uint32(d.Times), Code: string(d.Code), Message: d.Message, Died: true,
		}
	}
	f, ok := s.core.FailingSend(from, sharding.Entity{Type: sharding.EntityType(x.TargetType), ID: sharding.EntityID(x.TargetId)})
	if !ok || cmp.Or(cmp.Compare(x.Record, f.Seq), cmp.Compare(place, f.Place)) < 0 {
		return nil // it has ended meanwhile
	}
	out := toFailingSend(&f)
	if x.Record != f.Seq || place != f.Place {
		out.Behind, out.Command, out.ReplyTo, out.SentUnixMs, out.Answer, out.Waiting, out.UntilUnixMs = true, "", "", 0, false, 0, 0
	}
	out.Subject = x
	return out
}

func subjectEntity(x *inspectionv1.Subject) sharding.Entity {
	return sharding.Entity{Type: sharding.EntityType(x.Type), ID: sharding.EntityID(x.Id)}
}

func toFailing(f *wakeup.Failing) *inspectionv1.Failing {
	return &inspectionv1.Failing{
		Subject:     &inspectionv1.Subject{Type: string(f.Entity.Type), Id: string(f.Entity.ID), Name: []byte(f.Name)},
		SinceUnixMs: f.Since.UnixMilli(), Times: uint32(f.Times), NextUnixMs: unixMs(f.RetryAt), Code: string(f.Code), Message: f.Message,
		Command: f.Command, DueUnixMs: unixMs(f.Due), PeriodMs: f.Period.Milliseconds(),
	}
}

func toFailingSend(f *outbox.Failing) *inspectionv1.Failing {
	return &inspectionv1.Failing{
		Subject: &inspectionv1.Subject{
			Type: string(f.From.Type), Id: string(f.From.ID), Record: f.Seq, Place: uint32(f.Place), TargetType: string(f.To.Type), TargetId: string(f.To.ID),
		},
		SinceUnixMs: f.Since.UnixMilli(), Times: uint32(f.Times), NextUnixMs: unixMs(f.RetryAt), Code: string(f.Code), Message: f.Message,
		Command: f.Command, SentUnixMs: unixMs(f.SentAt), ReplyTo: f.ReplyTo, Answer: f.Answer, Waiting: uint32(f.Waiting), UntilUnixMs: unixMs(f.Until),
	}
}

// unixMs is a time in Unix milliseconds, 0 if there is none.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
