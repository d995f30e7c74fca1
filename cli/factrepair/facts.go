package factrepair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/factstream"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
)

// ErrActive: a coordinator is active, or became active during the repair. Nothing was repaired.
var ErrActive = errors.New("a coordinator is active")

const (
	// Watch is the time that a repair spends watching the journal heartbeat. An active coordinator writes one every second.
	Watch = 5 * time.Second
	// look is the pause between two looks at the heartbeat, and between two attempts to commit.
	look = 250 * time.Millisecond
	// tries bounds the retries of an operation that was definitely not committed.
	tries = 20
	// recordFacts and recordBytes bound a record; coordinators bound their records, too.
	recordFacts, recordBytes = 1000, 1 << 20
	// requested is the stored number of coordinator.Requested: a decision by an operator.
	requested = 4
)

var factsShard = sharding.ShardID{Type: wire.FactsEntity.Type}

// Options configure a repair.
type Options struct {
	// DryRun changes nothing.
	DryRun bool
	// All, Without, By and Reason are documented in factstream.Options.
	All        bool
	Without    []sharding.EntityType
	By, Reason string
}

// Report is the result of a repair, or of a dry run.
type Report struct {
	*Checked
	// Active is the active coordinator; "": none is active. It is set in dry runs only.
	Active string
	// Nothing is true if nothing is damaged, so that nothing is done.
	Nothing bool
	// Term is the repair's term. The next coordinator has a higher one.
	Term      sharding.Term
	Remainder factstream.Remainder
}

// Facts repairs the coordinators' facts. If nothing is damaged, it does so only with Options.All. The error wraps
// ErrActive or factstream.ErrRefused if the repair is refused.
func Facts(ctx context.Context, d journal.Backend, o Options) (Report, error) {
	f := &repairing{d: d, o: o, patience: Watch}
	return f.run(ctx)
}

type repairing struct {
	patience time.Duration // how long the journal heartbeat is watched
	d        journal.Backend
	o        Options
	epoch    sharding.Epoch // at which the stream is claimed
	highest  sharding.Epoch // of all fences
	known    bool           // all fences could be read
	fence    sharding.Epoch // of the stream
}

func (f *repairing) run(ctx context.Context) (r Report, err error) {
	if err := f.readEpochs(ctx); err != nil {
		return r, err
	}
	if r.Active, err = f.watch(ctx); err != nil {
		return r, err
	}
	if r.Active != "" && !f.o.DryRun {
		return r, fmt.Errorf("%w: %s; stop all coordinators first, and repeat this command", ErrActive, r.Active)
	}
	if r.Checked, err = Check(ctx, f.d, f.fence); err != nil {
		return r, err
	}
	if r.Nothing = !r.Damaged() && !f.o.All; r.Nothing {
		return r, nil
	}
	if r.Term, err = r.NextTerm(f.highest, r.heartbeat.Term, f.known, journal.RestoreTerms); err != nil {
		return r, err
	}
	options := factstream.Options{Term: r.Term, All: f.o.All, Without: f.o.Without, By: f.o.By, Reason: f.o.Reason, At: time.Now()}
	if r.Remainder, err = r.Repair(options); err != nil || f.o.DryRun {
		return r, err
	}
	if err := f.claim(ctx, r.Term); err != nil {
		return r, err
	}
	// From now on no other process can change the facts. This check sees what a coordinator stored since the first one.
	if r.Checked, err = Check(ctx, f.d, sharding.MakeEpoch(r.Term-1, 0)); err != nil {
		return r, err
	}
	if r.Remainder, err = r.Repair(options); err != nil {
		return r, err
	}
	if err := f.declare(ctx, r.Checked); err != nil {
		return r, err
	}
	if err := f.store(ctx, r.last, r.Remainder.Facts); err != nil {
		return r, err
	}
	if err := f.mark(ctx, wire.FactsEntity, r.last); err != nil {
		return r, err
	}
	if err := f.mark(ctx, wire.DecisionsEntity, r.decisions); err != nil {
		return r, err
	}
	f.explain(ctx, r)
	after, err := Check(ctx, f.d, f.epoch)
	if err == nil && after.Damaged() {
		err = fmt.Errorf("%w: what was stored is damaged again (%s); the store itself seems to be broken: restore a backup to another one", journal.ErrCorrupt, after.Findings[0])
	}
	return r, err
}

// readEpochs reads the fence of the stream, and the highest one.
func (f *repairing) readEpochs(ctx context.Context) error {
	facts, err := f.d.Declare(ctx, journal.Declaration{})
	switch {
	case err == nil:
		f.known, f.highest = true, facts.MaxEpoch
	case !errors.Is(err, journal.ErrCorrupt):
		return err
	}
	result, err := f.commit(ctx, journal.Op{Fence: &sharding.ReadFence{Shard: factsShard}})
	if errors.Is(err, journal.ErrCorrupt) {
		f.known, f.fence = false, 0
		return nil
	}
	f.fence = result.Fence.Epoch
	return err
}

// watch returns which coordinator is active, if one is.
func (f *repairing) watch(ctx context.Context) (active string, err error) {
	first, err := heartbeat(ctx, f.d)
	known := err == nil
	for until := time.Now().Add(f.patience); time.Now().Before(until); {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		h, err := heartbeat(ctx, f.d)
		switch {
		case err != nil && !damage(err):
			return "", err
		case err == nil && !known: // a damaged one was replaced
			first, known = h, true
			return of(h), nil
		case err == nil && h != first:
			return of(h), nil
		}
	}
	return "", nil
}

func of(h sharding.JournalHeartbeat) string {
	return fmt.Sprintf("the coordinator at %s in term %d, whose journal heartbeat continues", h.Coordinator.Addr, h.Term)
}

// commit runs one operation. Its error is the reason why it is not durable.
func (f *repairing) commit(ctx context.Context, op journal.Op) (journal.Result, error) {
	if err := op.Check(); err != nil {
		return journal.Result{}, err
	}
	for try := 0; ; try++ {
		results, err := f.d.Commit(ctx, []journal.Op{op})
		switch {
		case err == nil:
			return results[0], nil
		case !errors.Is(err, journal.ErrNotCommitted) || try == tries || ctx.Err() != nil:
			return journal.Result{}, err
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
		}
	}
}

// write runs an operation that must be durable.
func (f *repairing) write(ctx context.Context, op journal.Op) error {
	r, err := f.commit(ctx, op)
	switch {
	case err != nil:
		return err
	case r.Verdict == sharding.RefusedEpoch:
		return fmt.Errorf("%w: it has claimed the facts in term %d meanwhile; stop all coordinators, and repeat this command", ErrActive, r.Fence.Epoch.Term())
	case r.Verdict != sharding.Durable:
		return errors.Join(r.Err, fmt.Errorf("the %s was not stored: %s", op.Kind(), r.Verdict))
	}
	return nil
}

// claim fences all coordinators.
func (f *repairing) claim(ctx context.Context, term sharding.Term) error {
	f.epoch = sharding.MakeEpoch(term, 0)
	return f.write(ctx, journal.Op{Claim: &sharding.Claim{Shard: factsShard, Epoch: f.epoch, Owner: sharding.NodeUID(rand.Uint64() | 1)}})
}

// declare stores the numbers of shards that the journal has lost.
func (f *repairing) declare(ctx context.Context, c *Checked) error {
	if len(c.undeclared) == 0 {
		return nil
	}
	_, err := f.d.Declare(ctx, journal.Declaration{Cluster: c.cluster, Types: c.undeclared})
	return err
}

// store stores facts behind the last record.
func (f *repairing) store(ctx context.Context, last uint64, facts []sharding.Event) error {
	for len(facts) > 0 {
		n, size := 0, 0
		for n < len(facts) && n < recordFacts && size < recordBytes {
			size += len(facts[n].Payload)
			n++
		}
		last++
		if err := f.write(ctx, journal.Op{Append: &sharding.Append{
			Shard: factsShard, Epoch: f.epoch, Entity: wire.FactsEntity, Records: []sharding.Record{{Seq: last, Events: facts[:n]}},
		}}); err != nil {
			return err
		}
		facts = facts[n:]
	}
	return nil
}

// mark stores an empty snapshot so that reading begins after the record seq. It is a no-op if seq is 0.
func (f *repairing) mark(ctx context.Context, e sharding.Entity, seq uint64) error {
	if seq == 0 {
		return nil
	}
	s := journal.WriteSnapshot{Shard: factsShard, Epoch: f.epoch, Entity: e, Snapshot: journal.Snapshot{Seq: seq, Encoding: sharding.Protobuf}, Cut: seq}
	return f.write(ctx, journal.Op{Snapshot: &s})
}

// explain writes a decision for roost shard show. The facts have it already, so it may fail.
func (f *repairing) explain(ctx context.Context, r Report) {
	l, err := f.d.Load(ctx, journal.LoadRequest{Entity: wire.DecisionsEntity, LookupOnly: true})
	if err != nil {
		return
	}
	what := "repair the facts"
	if f.o.All {
		what += ", and drop all that can be made anew"
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&coordinatorv1.Decision{
		Term: uint32(r.Term), N: 1, AtUnixMs: time.Now().UnixMilli(), Kind: requested, Request: what, By: f.o.By, Reason: f.o.Reason,
	})
	if err != nil {
		return
	}
	_, _ = f.commit(ctx, journal.Op{Append: &sharding.Append{
		Shard: factsShard, Epoch: f.epoch, Entity: wire.DecisionsEntity,
		Records: []sharding.Record{{Seq: l.LastSeq + 1, Events: []sharding.Event{{Name: wire.ExplanationName, Encoding: sharding.Protobuf, Payload: b}}}},
	}})
}
