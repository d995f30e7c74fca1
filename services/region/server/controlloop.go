package server

import (
	"sync"
	"time"

	"github.com/roost-cluster/roost/services/region"
)

// controlLoop is the driver of the control core. A goroutine steps it with what has come,
// as long as there is something. Nothing waits in it.
type controlLoop struct {
	runner  *Runner
	outside func(region.ControlOutput)

	mu      sync.Mutex
	next    []controlItem
	running bool // the goroutine is there, and will look at next
	over    bool
	active  sync.WaitGroup

	// Of the goroutine.
	core  *region.ControlCore
	batch []controlItem
	outs  []region.ControlOutput
}

// controlItem is a thing to take in.
type controlItem struct {
	in region.ControlInput
	do func() // instead of in: look at the core from inside
}

func newControlLoop(r *Runner, outside func(region.ControlOutput)) *controlLoop {
	return &controlLoop{runner: r, outside: outside, core: region.NewControlCore(r.cfg)}
}

// put gives the control core something to take in, in order. It does not wait.
func (l *controlLoop) put(items ...controlItem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = append(l.next, items...)
	if !l.running && !l.over {
		l.running = true
		l.active.Go(l.run)
	}
}

// tell puts the events of a shard core.
func (l *controlLoop) tell(core int, events []region.Event) {
	items := make([]controlItem, len(events))
	for i, e := range events {
		items[i].in = region.FromCore{Core: core, Event: e}
	}
	l.put(items...)
}

// run steps the core until there is nothing to take in.
func (l *controlLoop) run() {
	for l.take() {
		for i := range l.batch {
			if it := &l.batch[i]; it.do != nil {
				it.do()
			} else {
				l.step(it.in)
			}
		}
	}
}

// take takes what has come into the batch. It reports whether there is anything.
func (l *controlLoop) take() bool {
	clear(l.batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = len(l.next) > 0 && !l.over
	l.batch, l.next = l.next, l.batch[:0]
	return l.running
}

// stop waits for the last step.
func (l *controlLoop) stop() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.active.Wait()
}

// step steps the core and performs its outputs. Only the goroutine of the loop may call
// it, from the do of an item.
func (l *controlLoop) step(in region.ControlInput) {
	l.outs = l.core.Step(time.Now(), in, l.outs[:0])
	for _, o := range l.outs {
		switch o := o.(type) {
		case region.ToCore:
			l.runner.shards[o.Core].put(item{in: o.Order})
		case region.ProbeJournal:
			l.probeJournal(o)
		case region.JournalChanged:
			l.runner.journalChanged(o)
		default:
			l.outside(o)
		}
	}
	clear(l.outs)
}
