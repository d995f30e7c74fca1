package journaltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const racers = 4

// race lets every handle do f at the same time and returns what they got.
func (e *env) race(handles []journal.Backend, f func(i int) journal.Op) []journal.Result {
	e.Helper()
	results, errs := make([]journal.Result, len(handles)), make([]error, len(handles))
	var start, end sync.WaitGroup
	start.Add(1)
	for i, b := range handles {
		end.Go(func() {
			start.Wait()
			r, err := b.Commit(context.Background(), []journal.Op{f(i)})
			for errors.Is(err, journal.ErrNotCommitted) {
				r, err = b.Commit(context.Background(), []journal.Op{f(i)})
			}
			if errs[i] = err; err == nil {
				results[i] = r[0]
			}
		})
	}
	start.Done()
	end.Wait()
	if err := errors.Join(errs...); err != nil {
		e.Fatal(err)
	}
	return results
}

func (e *env) handles() []journal.Backend {
	handles := []journal.Backend{e.b}
	for range racers - 1 {
		handles = append(handles, e.open())
	}
	return handles
}

func testRacingClaims(e *env) {
	handles := e.handles()
	var last sharding.Fence
	for round := range sharding.Epoch(15) {
		results := e.race(handles, func(i int) journal.Op { return claim(shard, epoch+round, sharding.NodeUID(i+1)) })
		won := slices.IndexFunc(results, func(r journal.Result) bool { return r.Verdict == durable })
		for i, r := range results {
			switch {
			case i == won:
				e.equal("the fence before the claim that won", r.Fence, last)
			case r.Verdict == durable:
				e.Fatalf("round %d: racers %d and %d own the shard at one epoch", round, won, i)
			default:
				e.equal("the fence that a racer has lost to", r.Fence, sharding.Fence{Epoch: epoch + round, Owner: sharding.NodeUID(won + 1)})
			}
		}
		if won < 0 {
			e.Fatalf("round %d: no writer owns the shard", round)
		}
		last = sharding.Fence{Epoch: epoch + round, Owner: sharding.NodeUID(won + 1)}
	}
}

func testRacingAppends(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	handles := e.handles()
	for seq := uint64(1); seq <= 15; seq++ {
		var winner sharding.CommandID
		id := func(i int) sharding.CommandID { return sharding.CommandID(fmt.Sprint("c", seq, "-", i)) }
		for i, r := range e.race(handles, func(i int) journal.Op { return add(alice, record(seq, id(i))) }) {
			switch {
			case r.Verdict == durable && winner == "":
				winner = id(i)
			case r.Verdict != bySeq:
				e.Fatalf("seq %d: racer %d is %v, and %q has won", seq, i, r.Verdict, winner)
			}
		}
		l := e.load(alice)
		if l.LastSeq != seq || l.Records[seq-1].Command != winner {
			e.Fatalf("seq %d: %q has won, %q is stored", seq, winner, l.Records[len(l.Records)-1].Command)
		}
	}
	// The same command under different sequence numbers of two incarnations:
	// once.
	stored := 0
	for i, r := range e.race(handles, func(i int) journal.Op { return add(alice, record(16, "same")) }) {
		if r.Verdict == durable {
			stored++
		} else if r.Verdict != bySeq && r.Verdict != byID {
			e.Fatalf("racer %d is %v", i, r.Verdict)
		}
	}
	if stored != 1 {
		e.Fatalf("one command is stored %d times", stored)
	}
}

// errLost is the error of a client whose connection breaks at commit.
var errLost = errors.New("connection lost at commit")

// doubtful loses connections: a batch whose reply is lost has been committed,
// or was not, or will be later, when its sender has long given up.
type doubtful struct {
	journal.Backend
	rng  *rand.Rand
	late [][]journal.Op
}

func (d *doubtful) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	for len(d.late) > 0 && d.rng.IntN(2) == 0 {
		if err := d.arrive(ctx); err != nil {
			return nil, err
		}
	}
	switch d.rng.IntN(6) {
	case 0: // before it was sent
		return nil, errLost
	case 1: // after it was committed
		if _, err := d.Backend.Commit(ctx, ops); err != nil {
			return nil, err
		}
		return nil, errLost
	case 2: // still on its way
		d.late = append(d.late, ops)
		return nil, errLost
	}
	return d.Backend.Commit(ctx, ops)
}

// arrive commits what was on its way, in any order.
func (d *doubtful) arrive(ctx context.Context) error {
	i := d.rng.IntN(len(d.late))
	ops := d.late[i]
	d.late = append(d.late[:i:i], d.late[i+1:]...)
	_, err := d.Backend.Commit(ctx, ops)
	return err
}

// testUnknown shows that an empty append at the same sequence number settles an
// unknown outcome, and that reading does not.
func testUnknown(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	misread := 0
	for seed := range uint64(60) {
		d := &doubtful{Backend: e.b, rng: rand.New(rand.NewPCG(seed, 7))}
		who := sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprint("seed", seed))}
		l := journal.Loaded{}
		effects := map[sharding.CommandID]bool{}
		for n := range 4 {
			c := sharding.CommandID(fmt.Sprint("c", n))
			op := add(who, record(l.LastSeq+1, c))
			r, err := d.Commit(e.Context(), []journal.Op{op})
			if err == nil && r[0].Verdict != durable {
				e.Fatalf("seed %d: %s is %v", seed, c, r[0].Verdict)
			}
			_, read := e.load(who, c).Stored[c]
			if err != nil {
				e.settle(seed, d, who, l.LastSeq+1)
			}
			l = e.load(who, c)
			_, effects[c] = l.Stored[c]
			if read != effects[c] {
				misread++
			}
		}
		for len(d.late) > 0 {
			if err := d.arrive(e.Context()); err != nil {
				e.Fatal(err)
			}
		}
		for n := range 4 {
			c := sharding.CommandID(fmt.Sprint("c", n))
			if _, ok := e.load(who, c).Stored[c]; ok != effects[c] {
				e.Fatalf("seed %d: %s was settled as %v and is %v now", seed, c, effects[c], ok)
			}
		}
		e.equal(fmt.Sprint("last sequence number, seed ", seed), e.load(who).LastSeq, l.LastSeq)
	}
	if misread == 0 {
		e.Fatal("no reading was ever wrong: the weather is too mild to prove anything")
	}
}

// settle repeats an empty append until its outcome is known.
func (e *env) settle(seed uint64, b journal.Backend, who sharding.Entity, seq uint64) {
	for {
		r, err := b.Commit(e.Context(), []journal.Op{add(who, blank(seq))})
		switch {
		case errors.Is(err, errLost):
		case err != nil:
			e.Fatalf("seed %d: %v", seed, err)
		case r[0].Verdict == durable || r[0].Verdict == bySeq:
			return
		default:
			e.Fatalf("seed %d: settling is %v", seed, r[0].Verdict)
		}
	}
}
