package server

import (
	"time"

	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/services/region"
)

// controlLoop is the driver of the control core. [Runner.Run] steps it with what has come.
// Nothing waits in it.
type controlLoop struct {
	runner  *Runner
	outside func(region.ControlOutput)
	inbox   *loop.Inbox[controlItem]

	// Of the loop.
	core *region.ControlCore
	outs []region.ControlOutput
}

// controlItem is a thing to take in.
type controlItem struct {
	in region.ControlInput
	do func() // instead of in: look at the core from inside
}

// controlLimits bound what waits for the control core: eight of the largest sets of messages
// that are sent at once, and four of the longest requests that service.max_body allows by
// default. It is far more than a loop that runs leaves waiting.
var controlLimits = loop.Limits{Items: 65_536, Bytes: 16 << 20}

func newControlLoop(r *Runner, outside func(region.ControlOutput)) *controlLoop {
	return &controlLoop{
		runner: r, outside: outside, inbox: loop.NewInbox[controlItem](controlLimits), core: region.NewControlCore(r.cfg),
	}
}

// put gives the control core something to take in, in order. It does not wait.
func (l *controlLoop) put(items ...controlItem) { l.inbox.Put(items...) }

// do runs f between two steps of the core.
func (l *controlLoop) do(f func()) { l.put(controlItem{do: f}) }

// tell puts the events of a shard core.
func (l *controlLoop) tell(core int, events []region.Event) {
	l.inbox.Fill(func(items []controlItem) []controlItem {
		for _, e := range events {
			items = append(items, controlItem{in: region.FromCore{Core: core, Event: e}})
		}
		return items
	})
}

// takeIn steps the core with what has come.
func (l *controlLoop) takeIn(batch []controlItem) {
	for i := range batch {
		if it := &batch[i]; it.do != nil {
			it.do()
		} else {
			l.step(it.in)
		}
	}
}

// step steps the core and performs its outputs. Only the loop may call it, and the do of
// an item.
func (l *controlLoop) step(in region.ControlInput) {
	l.outs = l.core.Step(time.Now(), in, l.outs[:0])
	if region.Stirs(in, l.outs) {
		l.runner.rest.stirred.Store(true)
	}
	for _, o := range l.outs {
		switch o := o.(type) {
		case region.ToCore:
			l.runner.shards[o.Core].put(item{in: o.Order})
		case region.TestJournal:
			l.testJournal(o)
		case region.Feed:
			l.runner.routing.feed(o)
		case region.JournalChanged:
			l.runner.journalChanged(o)
		default:
			l.outside(o)
		}
	}
	clear(l.outs)
}
