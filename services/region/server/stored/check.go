package stored

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Config selects the entities to check, and holds the limits of a check.
type Config struct {
	// Types are the types to check; empty: all of the program's.
	Types []sharding.EntityType
	// Sample is the number of entities of each type to check, chosen at random; 0: all.
	Sample int
	// Seed chooses the sample. The same seed chooses the same entities as long as none is
	// added.
	Seed uint64
	// Page is the number of entities that are listed at a time. Default 1000: a few milliseconds of the store.
	Page int
	// Loads is the number of entities that are loaded at a time. Default 2: half as many as a region, which
	// they must not hold up.
	Loads int
	// LoadTimeout bounds the duration of one load. Default 30 s: longer than in a region, so that no entity is
	// reported as unreadable that a region could load.
	LoadTimeout time.Duration
	// Attempts is the number of attempts to load if the store does not answer. Default 3.
	Attempts int
	// AttemptDelay is the delay between two attempts. Default 1 s.
	AttemptDelay time.Duration
	// Kinds is the number of kinds of problems that are reported; further kinds are only counted. Default 100:
	// about as many as a person reads.
	Kinds int
	// Examples is the number of entities that are named for each kind of problem. Default 5.
	Examples int
	// Progress, if it is set, is called after each entity with the number of entities that are done, and with
	// their total. It must not block.
	Progress func(done, total int)
}

// MaxSample is the largest Config.Sample: its ids are kept in memory.
const MaxSample = 1_000_000

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{
		Page: 1000, Loads: 2, LoadTimeout: 30 * time.Second, Attempts: 3, AttemptDelay: time.Second,
		Kinds: 100, Examples: 5,
	}
}

// ErrUsage is wrapped by errors about what was asked for.
var ErrUsage = errors.New("wrong usage")

// ErrShardRule is wrapped if a type of the program has another shard rule than it was first declared
// with. The coordinator refuses a region of such a program.
var ErrShardRule = errors.New("another shard rule")

// Check reads the stored data of all entities, or of a sample of them. Of each entity it reads the
// snapshot, as a region would, and all events. It does not read the events before the snapshot if
// some of them were trimmed, because no version reads the rest of these. It also reads the inputs of
// standing reminders and pending sends; with a sample, only the first ones of each type.
//
// It keeps a page of ids in memory, and the entities that it is loading. An error means that the
// check could not go on; the report then covers what was checked before. Entities that are added
// during the check may or may not be checked.
func Check(ctx context.Context, r journal.Reader, types []entity.Definition, cfg Config) (Report, error) {
	c := newChecker(r, cfg)
	c.report.Sample = cfg.Sample
	if cfg.Sample > 0 {
		c.report.Seed = cfg.Seed
	}
	err := c.check(ctx, types)
	c.report.Complete = err == nil
	for _, typ := range slices.Sorted(maps.Keys(c.counts)) {
		c.report.Types = append(c.report.Types, *c.counts[typ])
	}
	c.report.Problems, c.report.Others = c.found.sorted(), c.found.others
	return c.report, err
}

func newChecker(r journal.Reader, cfg Config) *checker {
	return &checker{
		cfg: cfg, reader: r, types: map[sharding.EntityType]entity.Definition{}, descs: map[sharding.EntityType]sharding.TypeDesc{},
		counts: map[sharding.EntityType]*TypeReport{}, seen: map[seenForm]bool{},
		found: findings{kinds: cfg.Kinds, examples: cfg.Examples, by: map[kind]*Problem{}},
	}
}

type checker struct {
	cfg    Config
	reader journal.Reader
	types  map[sharding.EntityType]entity.Definition // that are checked
	descs  map[sharding.EntityType]sharding.TypeDesc // of these

	mu     sync.Mutex
	counts map[sharding.EntityType]*TypeReport
	seen   map[seenForm]bool
	found  findings
	report Report
	done   int
	total  int
	facts  journal.Facts
}

func (c *checker) check(ctx context.Context, types []entity.Definition) error {
	all, err := c.choose(ctx, types)
	if err != nil {
		return err
	}
	sample, err := c.survey(ctx, all)
	if err != nil {
		return err
	}
	for typ, t := range c.counts {
		n := t.Entities
		if c.cfg.Sample > 0 {
			n = len(sample[typ])
		}
		c.total += n
	}
	if err := c.forAll(ctx, sample, c.entity); err != nil {
		return err
	}
	if err := c.checkInputs(ctx); err != nil {
		return err
	}
	// The declared forms are read last: by then the forms of all that was stored meanwhile are among
	// them.
	noted, err := c.readForms(ctx)
	if err == nil {
		c.compareForms(noted)
	}
	return err
}

// forAll calls a function for every entity that was chosen, for Config.Loads of them at a
// time. The first error ends it.
func (c *checker) forAll(ctx context.Context, sample map[sharding.EntityType][]sharding.EntityID, do func(context.Context, sharding.Entity) error) error {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan sharding.Entity)
	var workers sync.WaitGroup
	for range c.cfg.Loads {
		workers.Go(func() {
			for e := range queue {
				err := fmt.Errorf("%s cannot be checked: %w", e, instance.ErrGoexit)
				loop.Apart(func() { err = do(work, e) })
				if err != nil {
					stop(err)
					return
				}
			}
		})
	}
	err := c.feed(work, sample, queue)
	close(queue)
	workers.Wait()
	if cause := context.Cause(work); cause != nil {
		return cause
	}
	return err
}

// choose decides which types are checked. For each type of the program that is not checked, it returns a text
// with the reason. It refuses a program that could not use the journal at all.
func (c *checker) choose(ctx context.Context, types []entity.Definition) (others map[sharding.EntityType]string, err error) {
	facts, err := c.reader.Facts(ctx)
	if err != nil {
		return nil, err
	}
	c.report.Cluster, c.facts = facts.Cluster, facts
	others = map[sharding.EntityType]string{}
	declared := journal.Declaration{Cluster: facts.Cluster}
	for _, t := range types {
		desc := instance.Describe(t)
		switch typ := desc.Desc.Type; {
		case desc.Desc.Volatile:
			others[typ] = "it is volatile in this program, which reads nothing of it"
			if len(c.cfg.Types) == 0 { // its number of shards is fixed too
				declared.Types = append(declared.Types, desc.Desc)
			}
		case len(c.cfg.Types) > 0 && !slices.Contains(c.cfg.Types, typ):
			others[typ] = "it was not asked for"
		default:
			c.types[typ], c.descs[typ] = t, desc.Desc
			c.counts[typ] = &TypeReport{Type: typ}
			declared.Types = append(declared.Types, desc.Desc)
		}
	}
	for _, typ := range c.cfg.Types {
		if c.types[typ] != nil {
			continue
		}
		if why := others[typ]; why != "" {
			return nil, fmt.Errorf("%w: type %s cannot be checked: %s", ErrUsage, typ, why)
		}
		all := append(slices.Collect(maps.Keys(c.types)), slices.Collect(maps.Keys(others))...)
		slices.Sort(all)
		return nil, fmt.Errorf("%w: this program has no type %q; it has %v", ErrUsage, typ, all)
	}
	if facts.Cluster != "" { // else nothing was declared yet
		if _, err = facts.Merge(declared); err == nil {
			err = c.checkRules(ctx, declared.Types)
		}
	}
	return others, err
}

// survey counts the stored entities, and draws the sample, if there is to be one.
func (c *checker) survey(ctx context.Context, others map[sharding.EntityType]string) (sample map[sharding.EntityType][]sharding.EntityID, err error) {
	sample = map[sharding.EntityType][]sharding.EntityID{}
	random := rand.New(rand.NewPCG(c.cfg.Seed, c.cfg.Seed))
	skipped := map[sharding.EntityType]int{}
	visit := func(e sharding.Entity) error {
		t := c.counts[e.Type]
		if t == nil {
			skipped[e.Type]++
			return nil
		}
		t.Entities++
		// Every entity ends up in the sample with the same probability, however many there
		// are: reservoir sampling.
		if len(sample[e.Type]) < c.cfg.Sample {
			sample[e.Type] = append(sample[e.Type], e.ID)
		} else if c.cfg.Sample > 0 {
			if n := random.IntN(t.Entities); n < c.cfg.Sample {
				sample[e.Type][n] = e.ID
			}
		}
		return nil
	}
	if len(c.cfg.Types) == 0 {
		err = c.each(ctx, "", visit)
	} else {
		for _, typ := range slices.Sorted(maps.Keys(c.types)) {
			if err = c.each(ctx, typ, visit); err != nil {
				break
			}
		}
	}
	for _, typ := range slices.Sorted(maps.Keys(skipped)) {
		if sharding.CheckEntityType("type", typ) != nil {
			continue // Roost's own
		}
		why := others[typ]
		if why == "" {
			why = "this program has no such type"
		}
		c.report.Skipped = append(c.report.Skipped, Skipped{Type: typ, Entities: skipped[typ], Reason: why})
	}
	return sample, err
}

// each visits the stored entities, of one type if it is given.
func (c *checker) each(ctx context.Context, typ sharding.EntityType, visit func(sharding.Entity) error) error {
	for req := (journal.ListRequest{Type: typ, Limit: c.cfg.Page}); ; {
		var page []sharding.Entity
		err := c.retry(ctx, func(ctx context.Context) (err error) {
			page, err = c.reader.List(ctx, req)
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := visit(e); err != nil {
				return err
			}
		}
		if len(page) < req.Limit {
			return nil
		}
		req.After = page[len(page)-1]
	}
}

// feed hands out the entities that are to be checked.
func (c *checker) feed(ctx context.Context, sample map[sharding.EntityType][]sharding.EntityID, queue chan<- sharding.Entity) error {
	give := func(e sharding.Entity) error {
		select {
		case queue <- e:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, typ := range slices.Sorted(maps.Keys(c.types)) {
		if c.cfg.Sample == 0 {
			if err := c.each(ctx, typ, give); err != nil {
				return err
			}
			continue
		}
		for _, id := range slices.Sorted(slices.Values(sample[typ])) {
			if err := give(sharding.Entity{Type: typ, ID: id}); err != nil {
				return err
			}
		}
	}
	return nil
}

// retry calls a function of the store until it answers.
func (c *checker) retry(ctx context.Context, f func(context.Context) error) error {
	for n := 1; ; n++ {
		once, cancel := context.WithTimeout(ctx, c.cfg.LoadTimeout)
		err := f(once)
		cancel()
		if err == nil || errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrTrimmed) || ctx.Err() != nil || n >= c.cfg.Attempts {
			return err
		}
		select {
		case <-time.After(c.cfg.AttemptDelay):
		case <-ctx.Done():
			return err
		}
	}
}

// entity checks one entity. It returns an error if the entity could not be checked.
func (c *checker) entity(ctx context.Context, e sharding.Entity) error {
	x, err := c.examine(ctx, e)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.counts[e.Type]
	t.Checked++
	t.Events += x.events
	for form := range x.seen { // order-free: a set
		c.see(e, form)
	}
	if x.snapshot {
		t.Snapshots++
	}
	if x.ignored {
		t.Ignored++
	}
	if x.trimmed {
		t.Trimmed++
	}
	if len(x.problems) > 0 {
		t.Unreadable++
	}
	for i := range x.problems {
		c.found.add(x.problems[i], x.examples[i])
	}
	c.countDone()
	return nil
}

// countDone is called under the mutex.
func (c *checker) countDone() {
	c.done++
	if c.cfg.Progress != nil {
		c.cfg.Progress(c.done, max(c.done, c.total))
	}
}

// examined holds the results for one entity.
type examined struct {
	events            int
	seen              map[seenForm]bool // without the shard
	snapshot, ignored bool
	trimmed           bool // only the snapshot and what follows it was read
	problems          []Problem
	examples          []Example
}

func (x *examined) complain(p Problem, at Example) {
	x.problems, x.examples = append(x.problems, p), append(x.examples, at)
}

// examine reads an entity as a region would. After that it reads all events from the first one on,
// unless the first read had all of them, or events were trimmed.
func (c *checker) examine(ctx context.Context, e sharding.Entity) (x examined, err error) {
	req := journal.LoadRequest{Entity: e}
	var found journal.Loaded
	var ignored bool
	load := func() error {
		return c.retry(ctx, func(ctx context.Context) (err error) {
			found, ignored, err = Load(ctx, c.reader, c.types[e.Type], req)
			return err
		})
	}
	err = load()
	x.ignored, x.snapshot = ignored, ignored || found.Snapshot.Seq > 0
	wanted, snapshot := err, found.Snapshot.Seq
	if err == nil {
		_, wanted = Rebuild(c.types[e.Type], e.ID, &found)
	} else if !errors.Is(err, journal.ErrCorrupt) && !errors.Is(err, journal.ErrTrimmed) {
		return x, fmt.Errorf("%s cannot be loaded: %w", e, err)
	}
	if x.trimmed = found.Cut > 0; x.trimmed {
		if err == nil {
			x.read(&found)
		}
		if wanted != nil {
			x.complain(problem(e, snapshot, wanted))
		}
		return x, nil
	}
	if snapshot == 0 && err == nil { // that was all of it
		x.read(&found)
		if wanted != nil {
			x.complain(problem(e, 0, wanted))
		}
		return x, nil
	}
	req.WithoutSnapshot = true
	if err = load(); errors.Is(err, journal.ErrTrimmed) {
		return c.examine(ctx, e) // events were trimmed since the first read
	} else if err != nil && !errors.Is(err, journal.ErrCorrupt) {
		return x, fmt.Errorf("%s cannot be loaded: %w", e, err)
	}
	if err == nil {
		x.read(&found)
		_, err = Rebuild(c.types[e.Type], e.ID, &found)
	}
	switch {
	case wanted == nil && err != nil: // before the snapshot
		p, at := problem(e, 0, err)
		p.Loads = true
		x.complain(p, at)
	case wanted != nil && err == nil: // the snapshot
		p, at := problem(e, snapshot, wanted)
		p.Fix += "; or drop it: all events of the entity can be read"
		x.complain(p, at)
		x.snapshot = true
	case wanted != nil:
		x.complain(problem(e, snapshot, wanted))
	}
	return x, nil
}

func (x *examined) read(found *journal.Loaded) {
	x.seen = map[seenForm]bool{}
	for i := range found.Records {
		x.events += len(found.Records[i].Events)
		for _, e := range found.Records[i].Events {
			x.seen[seenForm{kind: sharding.FormOfEvent, name: e.Name, version: e.Version}] = true
		}
	}
}
