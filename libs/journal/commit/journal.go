package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Journal is the type that services use; it wraps a [journal.Backend] of any backend. Group commit,
// retries, limits and error handling are implemented here once. Its methods may be called from
// any goroutine.
type Journal struct {
	backend journal.Backend
	cfg     journal.Config
	obs     Observer

	mu        sync.Mutex
	closed    bool
	brokenErr error // set once, when broken is closed

	pipelines  []*pipeline // one for each database; the first one's has the facts
	broken     chan struct{}
	stopped    chan struct{} // closed when the committing goroutines have ended
	damage     damage
	generation sharding.Generation
	upkeepErr  atomic.Pointer[error] // see Warning
	failing    sync.Mutex            // guards pipeline.failures
}

// pending is an operation that is waiting for its batch.
type pending struct {
	op        journal.Op
	size      int
	submitted time.Time
	done      func(journal.Result)
}

// Open checks that the backend holds the journal of this cluster, declares the
// types, if any, and starts to commit. From then on the Journal owns the backend, and Close
// closes it. If Open returns an error, the caller still owns the backend. Errors wrap ErrIdentity and
// ErrShardCount.
func Open(ctx context.Context, backend journal.Backend, d journal.Declaration, cfg journal.Config, obs Observer) (*Journal, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Cluster == "" {
		return nil, fmt.Errorf("%w: the name of the cluster is missing", journal.ErrIdentity)
	}
	j := &Journal{backend: backend, cfg: cfg, obs: obs, broken: make(chan struct{}), stopped: make(chan struct{})}
	j.makePipelines()
	if u, ok := backend.(journal.Upkeep); ok {
		u.NotifyUpkeep(j.noteUpkeep)
	}
	facts, err := j.Declare(ctx, d)
	if err != nil {
		return nil, err
	}
	j.generation = facts.Generation
	j.start()
	return j, nil
}

// Submit hands over an operation. It never waits. done is called exactly once, with the result, from the
// committing goroutine or, if the operation is refused at once, before Submit returns; it must not
// block. Except for operations that are refused at once, results of one database come in the order in
// which operations were submitted. The memory that op points to must not be changed before done is
// called.
//
// At most one append of an entity may be in progress: a second one in the same
// batch is refused by sequence.
func (j *Journal) Submit(op journal.Op, done func(journal.Result)) {
	p := pending{op: op, size: op.Size(), submitted: time.Now(), done: done}
	if err := j.enqueue(p); err != nil {
		r := journal.Result{Verdict: sharding.RefusedFull, Err: err}
		switch {
		case errors.Is(err, journal.ErrTooLarge):
			r.Verdict = sharding.RefusedTooLarge
		}
		j.finish(&p, p.submitted, r)
	}
}

func (j *Journal) enqueue(p pending) error {
	if err := p.op.Check(); err != nil {
		return err
	}
	if p.size > j.cfg.OpBytes {
		return fmt.Errorf("%w: the %s has %d bytes, at most %d are allowed", journal.ErrTooLarge, p.op.Kind(), p.size, j.cfg.OpBytes)
	}
	pl := j.pipeline(p.op.Type())
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.brokenErr != nil:
		return j.brokenErr
	case j.closed:
		return journal.ErrClosed
	case len(pl.queue) >= j.cfg.QueueOps || pl.bytes+p.size > j.cfg.QueueBytes && len(pl.queue) > 0:
		return fmt.Errorf("%w: %d operations of %d bytes wait already", journal.ErrFull, len(pl.queue), pl.bytes)
	}
	pl.queue = append(pl.queue, p)
	pl.bytes += p.size
	pl.signal()
	return nil
}

// Load reads one entity, as it is at some moment after the call. At most Config.Loads loads run at
// a time; the others wait. Load returns within twice Config.LoadTimeout even if the store does not
// answer. An error that wraps ErrCorrupt means that this entity is damaged. After any other error, a
// later load may succeed.
func (j *Journal) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	pl := j.pipeline(req.Entity.Type)
	tokens := []chan struct{}{pl.loadTokens}
	if req.Background { //mutant:false background-loads
		tokens = []chan struct{}{pl.backgroundTokens, pl.loadTokens}
	}
	return readWith(ctx, j, pl, tokens, "load "+req.Entity.String(), func(ctx context.Context) (journal.Loaded, error) {
		start := time.Now()
		l, err := j.backend.Load(ctx, req)
		j.noteLoad(req.Entity, err)
		if j.obs.Load != nil {
			j.obs.Load(LoadStats{Request: req, Records: len(l.Records), Took: time.Since(start), Err: err})
		}
		return l, err
	})
}

// read runs one read of the backend in the pipeline of a type, with the limits and timeouts that [Journal.Load]
// describes.
func read[T any](ctx context.Context, j *Journal, pl *pipeline, what string, f func(context.Context) (T, error)) (T, error) {
	return readWith(ctx, j, pl, []chan struct{}{pl.loadTokens}, what, f)
}

// readWith does what read does. For the time of the read it takes one token of each of tokens.
func readWith[T any](ctx context.Context, j *Journal, pl *pipeline, tokens []chan struct{}, what string, f func(context.Context) (T, error)) (T, error) {
	var none T
	for i := range tokens {
		if err := acquire(ctx, j, tokens[i]); err != nil {
			release(tokens[:i])
			return none, err
		}
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, j.cfg.LoadTimeout)
	defer cancel()
	type answer struct {
		found T
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		// A read that hangs keeps its token, so that the number of hanging reads is
		// bounded too.
		defer release(tokens)
		found, err := f(ctx)
		if errors.Is(err, journal.ErrBroken) {
			j.markBroken(err)
		}
		if err == nil || caller.Err() == nil { // otherwise the caller has given up
			j.note(pl, Reads, err)
		}
		got <- answer{found, err}
	}()
	select {
	case a := <-got:
		return a.found, a.err
	case <-ctx.Done():
	}
	err := fmt.Errorf("%w: %s: %w", journal.ErrUnreachable, what, ctx.Err())
	if why := j.failure(time.Time{}, pl); why != nil {
		err = fmt.Errorf("%w; %w", err, why)
	}
	if caller.Err() == nil {
		j.note(pl, Reads, err)
	}
	return none, err
}

// List returns one page of the stored entities, see [journal.Backend]. The limits and timeouts of
// [Journal.Load] apply.
func (j *Journal) List(ctx context.Context, req journal.ListRequest) ([]sharding.Entity, error) {
	return read(ctx, j, j.pipeline(req.Type), "list entities", func(ctx context.Context) ([]sharding.Entity, error) { return j.backend.List(ctx, req) })
}

// History returns the newest records of an entity. No command waits for it, so it takes its turn
// like a load with Background. A damaged record is an Err of its entry.
func (j *Journal) History(ctx context.Context, req journal.HistoryRequest) (journal.History, error) {
	pl := j.pipeline(req.Entity.Type)
	return readWith(ctx, j, pl, []chan struct{}{pl.backgroundTokens, pl.loadTokens}, "read the records of "+req.Entity.String(), func(ctx context.Context) (journal.History, error) {
		h, err := j.backend.History(ctx, req)
		for i := range h.Records {
			j.noteLoad(req.Entity, h.Records[i].Err)
		}
		return h, err
	})
}

// release gives tokens back.
func release(tokens []chan struct{}) {
	for _, t := range tokens {
		<-t
	}
}

// acquire takes one of tokens. It waits until there is one, for Config.LoadTimeout at most.
func acquire(ctx context.Context, j *Journal, tokens chan struct{}) error {
	timer := time.NewTimer(j.cfg.LoadTimeout)
	defer timer.Stop()
	select {
	case tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-j.stopped:
		return journal.ErrClosed
	case <-timer.C:
		return fmt.Errorf("%w: %d loads are in progress, and none has ended for %v", journal.ErrUnreachable, j.cfg.Loads, j.cfg.LoadTimeout)
	}
}

// Declare checks the facts of a declaration about the journal, stores them, and returns all facts
// about the journal. With an empty declaration it only reads the facts. It returns when ctx ends
// even if the store does not answer; the declaration may still be stored then.
func (j *Journal) Declare(ctx context.Context, d journal.Declaration) (journal.Facts, error) {
	select {
	case j.pipelines[0].writeToken <- struct{}{}:
	case <-ctx.Done():
		return journal.Facts{}, fmt.Errorf("%w: a commit is in progress: %w", journal.ErrUnreachable, ctx.Err())
	case <-j.stopped:
		return journal.Facts{}, journal.ErrClosed
	}
	type answer struct {
		facts journal.Facts
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		defer func() { <-j.pipelines[0].writeToken }() // the store takes one writer at a time, even if it hangs
		f, err := j.declareUntil(ctx, time.Now().Add(j.cfg.RetryFor), d)
		got <- answer{f, err}
	}()
	select {
	case a := <-got:
		return a.facts, a.err
	case <-ctx.Done():
		return journal.Facts{}, fmt.Errorf("%w: declare: %w", journal.ErrUnreachable, ctx.Err())
	}
}

func (j *Journal) declareUntil(ctx context.Context, until time.Time, d journal.Declaration) (journal.Facts, error) {
	for delay := j.cfg.RetryDelay; ; delay = j.nextDelay(delay) {
		f, err := j.declare(ctx, d)
		if errors.Is(err, journal.ErrBroken) {
			j.markBroken(err)
		}
		if err == nil || !errors.Is(err, journal.ErrNotCommitted) || ctx.Err() != nil || time.Now().After(until) {
			return f, err
		}
		time.Sleep(delay)
	}
}

func (j *Journal) declare(ctx context.Context, d journal.Declaration) (journal.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, j.cfg.CommitTimeout)
	defer cancel()
	return j.backend.Declare(ctx, d)
}

// Facts reads the facts about the journal, without MaxEpoch.
func (j *Journal) Facts(ctx context.Context) (journal.Facts, error) {
	return read(ctx, j, j.pipelines[0], "read the facts", j.backend.Facts)
}

// MaxEpoch returns the highest epoch of all fences. A coordinator's term must be
// above it. Like Declare it returns when ctx ends.
func (j *Journal) MaxEpoch(ctx context.Context) (sharding.Epoch, error) {
	f, err := j.Declare(ctx, journal.Declaration{})
	return f.MaxEpoch, err
}

// Heartbeat reads the last journal heartbeat, the zero one if there is none.
func (j *Journal) Heartbeat(ctx context.Context) (sharding.JournalHeartbeat, error) {
	found, err := j.Load(ctx, journal.LoadRequest{Entity: journal.HeartbeatEntity})
	if err != nil {
		return sharding.JournalHeartbeat{}, fmt.Errorf("reading the journal heartbeat: %w", err)
	}
	if found.Snapshot.Seq == 0 {
		return sharding.JournalHeartbeat{}, nil
	}
	return journal.DecodeHeartbeat(found.Snapshot.Payload)
}

// Generation returns the generation of the journal that was opened. Others are refused
// from then on.
func (j *Journal) Generation() sharding.Generation { return j.generation }

// Broken returns a channel that is closed when the store must no longer be used: the process
// must stop. Err returns the reason.
func (j *Journal) Broken() <-chan struct{} { return j.broken }

// Err returns the reason why the journal is broken, nil if it is not.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.brokenErr
}

func (j *Journal) noteUpkeep(err error) {
	j.upkeepErr.Store(&err)
	if j.obs.Upkeep != nil {
		j.obs.Upkeep(err)
	}
}

// Warning returns a problem that an operator must solve although the journal works: one of several databases does not
// answer, the last write found no room, or the work that the backend does between calls fails (see [journal.Upkeep]). It returns
// nil if there is no problem.
func (j *Journal) Warning() error {
	var warnings []error
	for _, pl := range j.pipelines {
		if down := pl.downErr.Load(); down != nil && *down != nil {
			warnings = append(warnings, *down)
		}
		if full := pl.fullErr.Load(); full != nil {
			warnings = append(warnings, fmt.Errorf("commands that store something are refused, the others are not; free or add space where the journal is kept: %w", *full))
		}
	}
	if upkeep := j.upkeepErr.Load(); upkeep != nil {
		warnings = append(warnings, *upkeep)
	}
	return errors.Join(warnings...)
}

// noteRoom notes whether the last write found room.
func (j *Journal) noteRoom(ops []journal.Op, results []journal.Result, err error) {
	pl := j.pipeline(ops[0].Type())
	if errors.Is(err, journal.ErrFull) {
		pl.fullErr.Store(&err)
		return
	}
	for i := range results {
		if ops[i].Fence == nil && results[i].Verdict == sharding.Durable {
			pl.fullErr.Store(nil)
			return
		}
	}
}

// Close commits the submitted operations, closes the backend, and refuses later
// operations.
func (j *Journal) Close() error {
	j.mu.Lock()
	again := j.closed
	j.closed = true
	for _, pl := range j.pipelines {
		pl.signal()
	}
	j.mu.Unlock()
	<-j.stopped
	if again {
		return nil
	}
	// A running load or declaration holds a token until it is done with the backend. Close takes
	// all tokens: it waits for the running ones, and no other one begins. If one of them hangs, the
	// backend stays open until the process ends.
	timer := time.NewTimer(j.cfg.LoadTimeout)
	defer timer.Stop()
	for _, pl := range j.pipelines {
		for range j.cfg.Loads {
			select {
			case pl.loadTokens <- struct{}{}:
			case <-timer.C:
				return fmt.Errorf("%w: a load does not end", journal.ErrUnreachable)
			}
		}
	}
	select {
	case j.pipelines[0].writeToken <- struct{}{}:
	case <-timer.C:
		return fmt.Errorf("%w: a declaration does not end", journal.ErrUnreachable)
	}
	return j.backend.Close()
}

// markBroken records the first error that broke the journal.
func (j *Journal) markBroken(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.brokenErr == nil {
		j.brokenErr = err
		close(j.broken)
	}
}

func (j *Journal) finish(p *pending, started time.Time, r journal.Result) {
	if j.obs.Op != nil {
		j.obs.Op(OpStats{Op: p.op, Submitted: p.submitted, Started: started, Ended: time.Now(), Result: r})
	}
	p.done(r)
}
