package stored

import (
	"context"
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Submit hands an operation to a journal, as Submit of a journal does.
type Submit func(op journal.Op, done func(journal.Result))

// DropReport is the result of [DropSnapshots].
type DropReport struct {
	Cluster string              `json:"cluster"`
	Type    sharding.EntityType `json:"type"`
	ID      sharding.EntityID   `json:"id,omitempty"`
	DryRun  bool                `json:"dry_run"`
	// Complete is true if everything was done that was to be.
	Complete bool `json:"complete"`
	Entities int  `json:"entities"` // that were looked at
	// Dropped is the number of snapshots that were dropped or, in a dry run, would be.
	Dropped int `json:"dropped"`
	// Kept is the number of snapshots that were not dropped, because the entity could not be rebuilt without.
	Kept int `json:"kept"`
	// Newer is the number of snapshots that were not dropped, because the entity has a newer one by now.
	Newer    int       `json:"newer,omitempty"`
	Problems []Problem `json:"problems,omitempty"` // of the entities that were kept
	Others   int       `json:"others,omitempty"`   // entities with problems that are not listed
}

// DropSnapshots drops the snapshots of all entities of a type, or of one if an id is given, so that each is
// rebuilt from its events when it is loaded next. A snapshot is kept if this program could not rebuild the
// entity, or if no program could, because events were trimmed. Without submit it is a dry run. It may run while
// a cluster runs: a snapshot is a copy. An entity that is live in a region keeps its state until it is loaded
// again, and its region may store a new snapshot of that state.
func DropSnapshots(ctx context.Context, r journal.Reader, types []entity.Definition, of sharding.Entity, submit Submit, cfg Config) (DropReport, error) {
	cfg.Types, cfg.Sample = []sharding.EntityType{of.Type}, 0
	d := &dropper{checker: newChecker(r, cfg), submit: submit, report: DropReport{Type: of.Type, ID: of.ID, DryRun: submit == nil}}
	err := d.drop(ctx, types, of)
	d.report.Cluster, d.report.Complete = d.checker.report.Cluster, err == nil
	d.report.Problems, d.report.Others = d.checker.found.sorted(), d.checker.found.others
	return d.report, err
}

type dropper struct {
	checker *checker
	submit  Submit
	desc    sharding.TypeDesc
	report  DropReport // under the checker's mutex
}

func (d *dropper) drop(ctx context.Context, types []entity.Definition, of sharding.Entity) error {
	c := d.checker
	others, err := c.choose(ctx, types)
	if err != nil {
		return err
	}
	desc, err := entity.Describe(c.types[of.Type])
	if err != nil {
		return err
	}
	d.desc = desc.Desc
	if of.ID != "" {
		c.total = 1
		return d.entity(ctx, of)
	}
	if _, err := c.survey(ctx, others); err != nil {
		return err
	}
	c.total = c.counts[of.Type].Entities
	return c.forAll(ctx, nil, d.entity)
}

// entity drops the snapshot of one entity, if it has one.
func (d *dropper) entity(ctx context.Context, e sharding.Entity) error {
	c := d.checker
	var found journal.Loaded
	load := func(without bool) error {
		err := c.retry(ctx, func(ctx context.Context) (err error) {
			found, err = c.reader.Load(ctx, journal.LoadRequest{Entity: e, WithoutSnapshot: without})
			return err
		})
		if err != nil && !errors.Is(err, journal.ErrCorrupt) && !errors.Is(err, journal.ErrTrimmed) {
			return fmt.Errorf("%s cannot be loaded: %w", e, err)
		}
		return err
	}
	err := load(false)
	switch {
	case err != nil && !errors.Is(err, journal.ErrCorrupt) && !errors.Is(err, journal.ErrTrimmed):
		return err
	case err == nil && found.LastSeq == 0 && d.report.ID != "":
		return fmt.Errorf("%w: nothing is stored of %s", ErrUsage, e)
	case err == nil && found.Snapshot.Seq == 0:
		d.count(&d.report.Entities)
		return nil
	}
	snapshot := found.Snapshot.Seq
	if err = load(true); err == nil {
		_, err = Rebuild(c.types[e.Type], e.ID, &found)
	} else if !errors.Is(err, journal.ErrCorrupt) && !errors.Is(err, journal.ErrTrimmed) {
		return err
	}
	if err != nil {
		c.mu.Lock()
		c.found.add(problem(e, snapshot, err))
		c.mu.Unlock()
		d.count(&d.report.Entities, &d.report.Kept)
		return nil
	}
	dropped := true
	if d.submit != nil {
		if dropped, err = d.commit(ctx, e, found.LastSeq); err != nil {
			return err
		}
	}
	if dropped {
		d.count(&d.report.Entities, &d.report.Dropped)
	} else {
		d.count(&d.report.Entities, &d.report.Newer)
	}
	return nil
}

// commit drops the snapshot of an entity whose records were read up to seq. It reports
// whether there was one that is not newer.
func (d *dropper) commit(ctx context.Context, e sharding.Entity, seq uint64) (dropped bool, err error) {
	shard := d.desc.ShardOf(e.ID)
	result := make(chan journal.Result, 1)
	d.submit(journal.Op{Drop: &journal.DropSnapshot{Shard: shard, Entity: e, Seq: seq}}, func(r journal.Result) { result <- r })
	select {
	case r := <-result:
		switch r.Verdict {
		case sharding.Durable:
			return true, nil
		case sharding.RefusedSeq:
			return false, nil
		}
		return false, fmt.Errorf("the snapshot of %s was not dropped: %v: %w", e, r.Verdict, r.Err)
	case <-ctx.Done():
		return false, fmt.Errorf("the snapshot of %s may have been dropped: %w", e, ctx.Err())
	}
}

// count counts an entity that is done.
func (d *dropper) count(counters ...*int) {
	d.checker.mu.Lock()
	defer d.checker.mu.Unlock()
	for _, n := range counters {
		*n++
	}
	d.checker.countDone()
}
