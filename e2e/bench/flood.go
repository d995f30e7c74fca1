package bench

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
)

// flood sends commands from one goroutine, in batches, and counts answers.
type flood struct {
	to   func(n uint64) *addressee // of the n-th command
	tell bool
	send func([]addressed) error
	// flush is called before the flood waits: send may keep commands until then.
	flush func()

	n         uint64
	mu        sync.Mutex
	answers   sync.Cond // answers have arrived
	inFlight  int       // commands sent and not answered
	succeeded int64     // without those that a full region refused
}

// addressed is a command with the shard it goes to.
type addressed struct {
	link.Command
	shard uint32
}

const (
	// floodWindow is the number of commands that may be unanswered.
	floodWindow = 16384
	// floodBatch is the number of commands that are sent at a time.
	floodBatch = 64
)

func newFlood(to func(n uint64) *addressee) *flood {
	f := &flood{to: to, flush: func() {}}
	f.answers.L = &f.mu
	return f
}

// answered counts answers.
func (f *flood) answered(as []link.Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range as {
		if as[i].Reply.Outcome == sharding.Executed {
			f.succeeded++
		}
	}
	f.inFlight -= len(as)
	f.answers.Signal()
}

// SendBatch takes answers of a runner in this process.
func (f *flood) SendBatch(as []link.Answer) error {
	f.answered(as)
	return nil
}

// Unsent is 0: answers are taken at once.
func (*flood) Unsent() int { return 0 }
func (*flood) Ended() bool { return false }

// Waiting does nothing: answers are not batched.
func (*flood) Waiting() {}

// reserve waits until a batch may be sent.
func (f *flood) reserve() {
	f.wait(floodWindow - floodBatch)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inFlight += floodBatch
}

// wait waits until at most limit commands are in flight.
func (f *flood) wait(limit int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inFlight > limit {
		f.mu.Unlock()
		f.flush()
		f.mu.Lock()
	}
	for f.inFlight > limit {
		f.answers.Wait()
	}
}

func (f *flood) batch(batch []addressed) error {
	f.reserve()
	payload, err := proto.Marshal(question())
	if err != nil {
		return err
	}
	for i := range batch {
		f.n++
		to := f.to(f.n)
		batch[i] = addressed{to.command(f.n, f.n, payload), to.shard}
		batch[i].Envelope.Tell = f.tell
	}
	return f.send(batch)
}

// run sends for a time.
func (f *flood) run(length time.Duration) (measure.Sample, error) {
	end := time.Now().Add(length)
	return f.until(func() bool { return !time.Now().Before(end) })
}

// count sends n commands, rounded up to whole batches.
func (f *flood) count(n int) (measure.Sample, error) {
	sent := 0
	return f.until(func() bool { sent += floodBatch; return sent-floodBatch >= n })
}

func (f *flood) until(done func() bool) (measure.Sample, error) {
	f.succeeded = 0
	began := time.Now()
	batch := make([]addressed, floodBatch)
	for !done() {
		if err := f.batch(batch); err != nil {
			return measure.Sample{}, err
		}
	}
	f.wait(0)
	f.mu.Lock()
	defer f.mu.Unlock()
	return measure.Sample{Ops: f.succeeded, Elapsed: time.Since(began)}, nil
}
