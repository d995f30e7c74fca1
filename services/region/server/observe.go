package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/diagnosis"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wakeup"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/server/stored"
)

// observe collects this region's data about an entity. Its parts come from the loops of the region and from the
// journal, all at once: one that hangs must not hide the others.
func (s *Server) observe(ctx context.Context, req *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
	id := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	out := &inspectionv1.Observation{Name: s.name, Region: &inspectionv1.RegionObservation{}}
	shard, hosted := s.runner.shardOf(id)
	if !hosted {
		return out, nil
	}
	var parts sync.WaitGroup
	parts.Go(func() { s.runner.observeEntity(ctx, id, shard, req.Stack, out.Region) })
	parts.Go(func() {
		open := s.opened.Load()
		if open == nil {
			return
		}
		j := diagnosis.JournalReport(open.Report(ctx, shard)).Observation()
		var state sharding.JournalState
		var heard time.Time
		if s.inspect(ctx, func() error { state, _, heard = s.runner.control.core.Journal(); return nil }) == nil {
			j.State, j.HeardMs = state.String(), diagnosis.Heard(time.Now(), heard)
		}
		out.Journal = j
	})
	parts.Wait()
	return out, nil
}

// describe returns the setup of this region.
func (s *Server) describe(n *node.Node) *inspectionv1.Process {
	p := n.Describe("region")
	var warning error
	if open := s.opened.Load(); open != nil {
		warning = errors.Join(open.Warning(), open.Failure())
	}
	diagnosis.DescribeJournal(p, s.cfg.Journal.URL, warning, node.Disk)
	if open := s.opened.Load(); open != nil {
		diagnosis.DescribeClock(s.runner.ctx, p, open)
	}
	p.ShowPayloads = s.cfg.ShowPayloads
	p.CommandsLimit = uint32(s.cfg.Core.Turn.TotalCommands)
	damaged, newest := s.runner.damage.list(time.Now())
	if p.Damaged = uint32(damaged); damaged > 0 {
		p.DamagedLast = newest[0]
	}
	notAlive, newest := s.runner.notAlive.list(time.Now())
	p.NotAlive, p.NotAliveNewest = uint32(notAlive), newest
	ctx, cancel := context.WithTimeout(s.runner.ctx, diagnosis.Patience)
	defer cancel()
	counts, err := inspect(ctx, s.runner, func(l *shardLoop) []int { return []int{l.core.Stats().Commands} })
	for _, n := range counts {
		if err == nil {
			p.Commands += uint32(n)
		}
	}
	return p
}

// shardOf is the shard of an entity, and false if its type is not hosted.
func (s *Runner) shardOf(e sharding.Entity) (sharding.ShardID, bool) {
	for i := range s.descs {
		if d := &s.descs[i].Desc; d.Type == e.Type {
			return d.ShardOf(e.ID), true
		}
	}
	return sharding.ShardID{}, false
}

func (s *Runner) volatile(t sharding.EntityType) bool {
	for i := range s.descs {
		if s.descs[i].Desc.Type == t {
			return s.descs[i].Desc.Volatile
		}
	}
	return false
}

// seen holds a shard core's data about an entity.
type seen struct {
	shard  region.ShardStatus
	entity *inspectionv1.ActiveEntity
	why    string       // the entity is quarantined; "": it is not
	turn   *turnContext // the last one; nil: there was none
	start  string       // why it could not be started, with its start hook; "": no start failed
}

// observeEntity asks the shard core, and if the entity is not in memory, the journal.
func (s *Runner) observeEntity(ctx context.Context, id sharding.Entity, shard sharding.ShardID, stack bool, out *inspectionv1.RegionObservation) {
	out.TypeHosted, out.Volatile = true, s.volatile(id.Type)
	l := s.shards[s.cfg.CoreOf(shard)]
	got, err := inspectCore(ctx, s, l, func() (v seen) {
		v.shard = l.core.Shard(shard)
		v.why, _ = l.core.Quarantined(id)
		if f, failing := l.core.FailingStart(id); failing && f.Message != wakeup.DiedMessage {
			v.start = cut(f.Message, maxFailureText)
		}
		if e, ok := l.core.Entity(id); ok {
			v.entity = toActiveEntity(&e, time.Now())
			if sl := l.slot(e.Incarnation); sl != nil {
				v.turn = sl.ctx
			}
		}
		return v
	})
	if err != nil {
		return
	}
	st := &got.shard
	out.Core, out.Shard, out.Epoch, out.MinEpoch = true, st.Phase, uint64(st.Epoch), uint64(st.MinEpoch)
	out.Buffered, out.Damaged, out.ClaimRepeated = uint32(st.Buffered), st.Damaged, st.Repeated
	out.Commands, out.CommandsLimit = uint32(st.Stats.Commands), uint32(s.cfg.Turn.TotalCommands)
	out.Quarantined = got.why
	out.Entity, out.MailboxLimit = got.entity, uint32(s.cfg.Turn.MailboxCommands)
	switch {
	case got.entity != nil && got.entity.State != "loading":
		if stack && got.entity.Running != "" && got.turn != nil {
			out.Stack = stackOf(got.turn)
		}
	case out.Quarantined != "": // none of its code runs, so it is not brought to life to look at it either
	case out.Volatile:
		out.Stored = "none"
	default:
		s.observeStored(ctx, id, shard, out)
		if out.Stored == "stored" && got.start != "" { // observeStored runs no start hook
			out.Stored, out.Failure = "failed", got.start
		}
	}
}

// readStored is the state of an entity that is not in memory, according to the journal and the author's code.
type readStored struct {
	stored, failure string
	record          uint64
}

// observeStored tries to bring an entity to life, without its start hook and without any effect, one entity at a
// time: reading it may take long.
func (s *Runner) observeStored(ctx context.Context, id sharding.Entity, shard sharding.ShardID, out *inspectionv1.RegionObservation) {
	if !s.trying.CompareAndSwap(false, true) {
		return
	}
	began, got := time.Now(), make(chan readStored, 1)
	go func() {
		defer s.trying.Store(false)
		r := readStored{stored: "failed", failure: entity.ErrGoexit.Error()}
		defer func() { got <- r }()
		r = s.tryStored(id, shard)
	}()
	select {
	case r := <-got:
		out.Stored, out.Failure, out.Record = r.stored, r.failure, r.record
	case <-ctx.Done():
	}
	out.ReadMs = diagnosis.Since(time.Now(), began)
}

func (s *Runner) tryStored(id sharding.Entity, shard sharding.ShardID) (r readStored) {
	ctx, cancel := context.WithTimeout(s.ctx, s.loadTimeout)
	defer cancel()
	found, _, err := stored.Load(ctx, s.journal, s.types[id.Type], journal.LoadRequest{Entity: id, Shard: shard, Background: true})
	r.record = found.LastSeq
	if err == nil && found.Fresh() {
		return readStored{stored: "none"}
	}
	if err == nil {
		_, err = stored.Rebuild(s.types[id.Type], id.ID, &found)
	}
	switch {
	case err == nil:
		r.stored = "stored"
	case errors.Is(err, journal.ErrCorrupt), errors.Is(err, entity.ErrStored):
		r.stored, r.failure = "damaged", bounded(err)
	case errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
	case s.journal.Err() == nil && found.LastSeq == 0: // the journal did not answer
	default:
		r.stored, r.failure = "failed", bounded(err)
	}
	return r
}

// maxFailureText bounds the text of an error in an answer for operators: more is in the log.
const maxFailureText = 300

func bounded(err error) string { return cut(err.Error(), maxFailureText) }

// maxStacks bounds the size of the stacks of all goroutines, and maxStack the size of one stack in an answer.
const maxStacks, maxStack = 16 << 20, 16 << 10

// stackOf returns the stack of the goroutine that runs a turn; empty: none does any more. All goroutines stop
// for a moment meanwhile, so it is done only on request.
func stackOf(turn *turnContext) string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= maxStacks {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	mark := fmt.Appendf(nil, "server.(*turnContext).execute(%p,", turn)
	for block := range bytes.SplitSeq(buf, []byte("\n\n")) {
		if bytes.Contains(block, mark) {
			return string(block[:min(len(block), maxStack)])
		}
	}
	return ""
}
