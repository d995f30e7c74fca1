package agent

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Record is an event, numbered from 1 since the agent was made.
type Record struct {
	Seq   uint64
	At    time.Time
	Event gossip.Event

	name string // of the member concerned, if it was one at that time
}

// Batch is the result of [Follower.Next].
type Batch struct {
	// Resync is true if View replaces all earlier knowledge: in the first batch, and when the follower was
	// so slow that it missed Missed events.
	Resync bool
	Missed uint64
	View   gossip.View // after the last event of the batch
	Events []Record
}

// Follower reads the events of an agent at its own pace. It is for one
// goroutine at a time.
type Follower struct {
	log  *eventLog
	next uint64 // the number of the next event; 0: nothing was read yet
}

// Follow begins to read the events: first the current membership, then all events.
// The agent never waits for a follower; one that falls behind by more than
// Config.EventLog events gets the membership again, with Resync.
func (a *Agent) Follow() *Follower { return &Follower{log: a.events} }

// Next waits for new events. It returns [io.EOF] once the agent has stopped and
// all events were read.
func (f *Follower) Next(ctx context.Context) (Batch, error) {
	for {
		b, next, changed := f.log.since(f.next)
		if b.Resync || len(b.Events) > 0 {
			f.next = next
			return b, nil
		}
		if changed == nil {
			return Batch{}, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
}

// eventLog keeps the newest events for all who follow, with the view after the
// last of them.
type eventLog struct {
	limit int

	mu      sync.Mutex
	view    gossip.View
	records []Record // the newest last
	next    uint64
	changed chan struct{} // closed and replaced with every event; nil: the agent has stopped
}

func newEventLog(limit int, v gossip.View) *eventLog {
	return &eventLog{limit: limit, view: v, next: 1, changed: make(chan struct{})}
}

// add appends the events of one step.
func (l *eventLog) add(now time.Time, v gossip.View, events []gossip.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		l.records = append(l.records, Record{Seq: l.next, At: now, Event: e, name: nameOf(subject(e), l.view, v)})
		l.next++
	}
	l.view = v
	if over := len(l.records) - l.limit; over > 0 {
		l.records = append(l.records[:0:0], l.records[over:]...)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// subject is the member concerned by an event that does not include its name.
func subject(e gossip.Event) sharding.NodeID {
	switch e := e.(type) {
	case gossip.ReachabilityChanged:
		return e.Node
	case gossip.NodeGone:
		return e.Node
	case gossip.NewIncarnation:
		return e.Old
	case gossip.LeaderChanged:
		return e.Leader
	}
	return sharding.NodeID{}
}

// nameOf finds the name of a member in the views before and after an event.
func nameOf(n sharding.NodeID, views ...gossip.View) string {
	for _, v := range views {
		if m, ok := v.Member(n); ok && !n.IsZero() {
			return m.Name
		}
	}
	return ""
}

// end tells all followers that there will be no more events.
func (l *eventLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = nil
}

// since lists the events from number next on; changed is closed when there are
// more.
func (l *eventLog) since(next uint64) (b Batch, then uint64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.View = l.view
	first := l.next - uint64(len(l.records))
	switch {
	case next == 0 || next > l.next:
		b.Resync = true
	case next < first:
		b.Resync, b.Missed = true, l.next-next
	default:
		b.Events = l.records[next-first : len(l.records) : len(l.records)]
	}
	return b, l.next, l.changed
}

// Loss is a member that was removed because it was declared down.
type Loss struct {
	Member gossip.Member
	At     time.Time // when it was removed
	Reason string    // of the decision to down it, if this node has made it; else empty
}

// Losses lists the members that were removed because they were declared down, the oldest first, as far as
// the events are kept: at most [Config].EventLog of them, since this agent was made. Members whose name a
// current member has came back, and are not listed.
func (a *Agent) Losses() []Loss { return losses(a.events.newest(), a.Members().Members) }

func losses(records []Record, members []gossip.MemberView) (list []Loss) {
	reasons := map[sharding.NodeID]string{}
	for _, r := range records {
		switch e := r.Event.(type) {
		case gossip.DowningDecided:
			for _, n := range e.Down {
				reasons[n] = e.Reason
			}
		case gossip.MemberRemoved:
			if e.Member.Status == gossip.Down {
				list = append(list, Loss{e.Member, r.At, reasons[e.Member.Node]})
			}
		}
	}
	return slices.DeleteFunc(list, func(l Loss) bool {
		return slices.ContainsFunc(members, func(m gossip.MemberView) bool { return m.Name == l.Member.Name })
	})
}

// newest lists the events that are kept.
func (l *eventLog) newest() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[:len(l.records):len(l.records)]
}
