package lease

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// maxOps bounds the requests to a store that have not returned, even if they were
// given up. Further ones fail as "unknown" without being sent.
const maxOps = 8

// minWait bounds the rate of a Holder's ticks, even if it should be due all the time.
const minWait = 5 * time.Millisecond

// Keeper gives a Holder a clock and a Backend: one loop, started by Run.
type Keeper struct {
	store  Backend
	name   string
	cfg    Config
	holder *Holder
	log    *slog.Logger

	answers  chan answer
	inFlight int // requests that have not returned
	health   health
	version  uint64 // of the newest record that is known

	wake   chan struct{}
	mu     sync.Mutex
	inputs []Input // SetRank, RaiseTerm and Yield, not stepped yet

	held    atomic.Pointer[Acquired] // nil: none
	current atomic.Pointer[current]  // nil: nothing known
}

// NewKeeper makes a Keeper for the lease of that name. A zero Config.Seed is
// drawn at random, a nil log is silent. Errors wrap ErrConfig.
func NewKeeper(store Backend, name string, c Config, log *slog.Logger) (*Keeper, error) {
	if err := sharding.CheckType("lease name", name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h, err := NewHolder(c)
	if err != nil {
		return nil, err
	}
	return &Keeper{
		store: store, name: name, cfg: c, holder: h, log: log,
		answers: make(chan answer, maxOps),
		wake:    make(chan struct{}, 1),
		health:  health{untested: true, tolerance: c.TTL},
	}, nil
}

// Valid reports whether the lease is held at this moment, by the monotonic clock,
// and in which term. It is cheap, safe for concurrent use, and does not depend on
// the loop having noticed that the lease expired.
func (k *Keeper) Valid() (sharding.Term, bool) {
	t := k.held.Load()
	if t == nil || !time.Now().Before(t.Until) {
		return 0, false
	}
	return t.Term, true
}

// current is the last result of Holder.Current.
type current struct {
	holder sharding.NodeID
	until  time.Time
}

// Current is the holder of the lease, as far as this Keeper knows, and until when,
// by the monotonic clock. A time in the past means that the holder is unknown. It
// is cheap, and safe for concurrent use.
func (k *Keeper) Current() (sharding.NodeID, time.Time) {
	if c := k.current.Load(); c != nil {
		return c.holder, c.until
	}
	return sharding.NodeID{}, time.Time{}
}

// SetRank sets the place in line: 0 is first, negative is not a candidate.
func (k *Keeper) SetRank(rank int) { k.enqueue(SetRank{Rank: rank}) }

// RaiseTerm declares terms up to above spent. If the term held is not above it, Acquired comes again with a
// higher one.
func (k *Keeper) RaiseTerm(above sharding.Term) { k.enqueue(RaiseTerm{Above: above}) }

// Yield gives the lease up, if it is held, and remains in line for it.
func (k *Keeper) Yield() { k.enqueue(Yield{}) }

func (k *Keeper) enqueue(in Input) {
	k.mu.Lock()
	k.inputs = append(k.inputs, in)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default: // it is awake already
	}
}

func (k *Keeper) takeInputs() []Input {
	k.mu.Lock()
	defer k.mu.Unlock()
	ins := k.inputs
	k.inputs = nil
	return ins
}

// Run competes for the lease and keeps it until ctx ends; then it releases the
// lease, for at most a TTL, and returns. It calls notify in order with Acquired,
// Renewed, Lost, Observed and Released. notify must not block: nothing is renewed
// meanwhile. The caller must stop acting before it ends ctx, because the next
// holder may follow at once. Run may be called once.
func (k *Keeper) Run(ctx context.Context, notify func(Output)) {
	ops, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer k.held.Store(nil)
	defer k.current.Store(nil)
	testing, endTests := context.WithCancel(ctx)
	var tests sync.WaitGroup
	tests.Go(func() { k.selfTests(testing) })
	defer func() { endTests(); tests.Wait() }()
	due := time.NewTimer(0)
	defer due.Stop()
	done := ctx.Done()
	ins := []Input{Tick{}}
	for !k.step(ops, ins, notify) {
		ins = ins[:0]
		select { // answers are stepped before the tick that may be due as well
		case a := <-k.answers:
			ins = append(ins, k.receive(a))
			continue
		default:
		}
		due.Reset(max(minWait, time.Until(k.holder.Due())))
		select {
		case a := <-k.answers:
			ins = append(ins, k.receive(a))
		case <-k.wake:
			ins = append(ins, k.takeInputs()...)
		case <-due.C:
			ins = append(ins, Tick{})
		case <-done:
			done = nil
			ins = append(ins, Release{})
		}
	}
}

// step steps inputs and performs the outputs; true is the end.
func (k *Keeper) step(ctx context.Context, ins []Input, notify func(Output)) bool {
	var out []Output
	for len(ins) > 0 {
		out = k.holder.Step(time.Now(), ins[0], out[:0])
		var c current
		c.holder, c.until = k.holder.Current()
		k.current.Store(&c)
		ins = ins[1:]
		for _, o := range out {
			switch o := o.(type) {
			case Get:
				if !k.start(func() answer { return k.get(ctx, o) }) {
					ins = append(ins, Got{Request: o.Request, Failed: true})
				}
				continue
			case Swap:
				if !k.start(func() answer { return k.swap(ctx, o) }) {
					ins = append(ins, Swapped{Request: o.Request, Outcome: Unknown})
				}
				continue
			case Acquired:
				k.held.Store(&o)
			case Renewed:
				k.held.Store(&Acquired{Term: o.Term, Until: o.Until})
			case Lost:
				k.held.Store(nil)
			}
			notify(o)
			if _, end := o.(Released); end {
				return true
			}
		}
	}
	return false
}

// start runs a request in a goroutine; false if too many are in flight. The buffer
// of answers has space for all of them, so none of the goroutines blocks.
func (k *Keeper) start(op func() answer) bool {
	if k.inFlight == maxOps {
		return false
	}
	k.inFlight++
	go func() { k.answers <- op() }()
	return true
}

// answer is the result of a request, the version of the record that it shows, and
// the error if it failed.
type answer struct {
	in      Input
	version uint64
	err     error
}

// receive counts an answer, and logs the first of several failures and the
// recovery.
func (k *Keeper) receive(a answer) Input {
	k.inFlight--
	_, read := a.in.(Got)
	wrote := !read || a.version > k.version
	k.version = max(k.version, a.version)
	if k.health.request(a.err, wrote, time.Now()) {
		if a.err != nil {
			k.log.Warn("lease store fails", "lease", k.name, "error", a.err)
		} else {
			k.log.Info("lease store answers again", "lease", k.name)
		}
	}
	return a.in
}

// get reads the record. The Holder stops waiting for a request after OpTimeout, but the
// request itself may take a TTL: a late write is better than one that is aborted half-way.
func (k *Keeper) get(ctx context.Context, o Get) answer {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.TTL)
	defer cancel()
	r, err := k.store.Get(ctx, k.name)
	return answer{Got{Request: o.Request, Record: r, Failed: err != nil}, r.Version, err}
}

func (k *Keeper) swap(ctx context.Context, o Swap) answer {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.TTL)
	defer cancel()
	ok, err := k.store.Swap(ctx, k.name, o.Old, o.New)
	s, version := Swapped{Request: o.Request, Outcome: Conflict}, o.Old.Version
	switch {
	case err != nil:
		s.Outcome = Unknown
	case ok:
		s.Outcome = Done
		version++
	}
	return answer{s, version, err}
}
