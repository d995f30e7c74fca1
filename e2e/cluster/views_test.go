package cluster

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// views is what the members themselves say about the membership, each of them,
// whatever the others say.
type views struct {
	mu    sync.Mutex
	lives []*life // of all incarnations, in the order in which they first answered
}

// life is one incarnation of a process, as it told of itself when it answered
// last.
type life struct {
	name, self string // self is host:port#uid
	asked      time.Time
	members    []*adminv1.Member
	events     []*adminv1.Event // all that happened in its eyes
	missed     uint64           // events that it does not keep any more
}

// follow asks processes for their views, again and again, until ctx ends. The
// moments of what happens are those of the process, not of the answer.
func (v *views) follow(ctx context.Context, processes []launcher.Process) (wait func()) {
	var group sync.WaitGroup
	for _, p := range processes {
		m := launcher.NewMembership("http://" + p.Management)
		group.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				asked := time.Now()
				if res, err := m.Events(ctx, nil); err == nil && res.Resync {
					v.note(p.Name, asked, res)
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return group.Wait
}

func (v *views) note(name string, asked time.Time, res *adminv1.EventsResponse) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.lives, func(l *life) bool { return l.self == res.Stream })
	if i < 0 {
		i = len(v.lives)
		v.lives = append(v.lives, &life{name: name, self: res.Stream})
	}
	l := v.lives[i]
	l.asked, l.members, l.events = asked, res.Members, res.Events
	if len(l.events) > 0 {
		l.missed = l.events[0].Seq - 1
	}
}

// latest is the last incarnation of each process; those that have not answered
// a question asked since then are left out.
func (v *views) latest(since time.Time) map[string]life {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := map[string]life{}
	for _, l := range v.lives {
		all[l.name] = *l
	}
	maps.DeleteFunc(all, func(_ string, l life) bool { return l.asked.Before(since) })
	return all
}

// uids are the incarnations of processes as they are now.
func (v *views) uids(names ...string) (selves []string) {
	all := v.latest(time.Time{})
	for _, name := range names {
		selves = append(selves, all[name].self)
	}
	return selves
}

// one tells why processes do not hold one view, in which they are up and
// reachable, and nobody else is.
func (v *views) one(since time.Time, names []string) error {
	all := v.latest(since)
	var want []string
	for _, name := range names {
		l, ok := all[name]
		if !ok {
			return fmt.Errorf("%s does not answer", name)
		}
		want = append(want, l.self+" up")
	}
	slices.Sort(want)
	for _, name := range names {
		if got := all[name].view(); !slices.Equal(got, want) {
			return fmt.Errorf("in the eyes of %s the members are\n  %s\ninstead of\n  %s", name, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
	return nil
}

// view lists members with their status, in order.
func (l life) view() (list []string) {
	for _, m := range l.members {
		s := fmt.Sprintf("%s#%s %s", m.Addr, m.Uid, m.Status)
		if !m.Reachable {
			s += " unreachable"
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// took is how long it took from a moment until something happened to all of some
// nodes: as seen by the first that noticed it, and by all that are named.
func (v *views) took(from time.Time, selves, names []string, kinds ...string) (first, last time.Duration, err error) {
	all := v.latest(time.Time{})
	for _, self := range selves {
		early := time.Duration(math.MaxInt64)
		for _, name := range names {
			events := all[name].events
			at := slices.IndexFunc(events, func(e *adminv1.Event) bool {
				return e.Node == self && slices.Contains(kinds, e.Kind) && e.AtUnixMs >= from.UnixMilli()
			})
			if at < 0 {
				return 0, 0, fmt.Errorf("in the eyes of %s, %s was never one of %v", name, self, kinds)
			}
			d := time.Duration(events[at].AtUnixMs-from.UnixMilli()) * time.Millisecond
			early, last = min(early, d), max(last, d)
		}
		first = max(first, early)
	}
	return first, last, nil
}

// check looks for incarnations that came back: in the eyes of one process after
// it had removed them, or in the last view of any process that lives after any
// other of these had.
func (v *views) check(living []string) (errs []error) {
	v.mu.Lock()
	lives := slices.Clone(v.lives)
	v.mu.Unlock()
	gone := map[string]string{} // and who removed them
	for _, l := range lives {
		if l.missed > 0 {
			errs = append(errs, fmt.Errorf("%s has kept too few events: %d are missing", l.self, l.missed))
		}
		removed := map[string]bool{}
		for _, e := range l.events {
			switch e.Kind {
			case "removed":
				removed[e.Node] = true
			case "joining", "weakly-up", "up":
				if removed[e.Node] {
					errs = append(errs, fmt.Errorf("%s (%s): %s was removed and is %s again", l.name, l.self, e.Node, e.Kind))
				}
			}
		}
		for node := range removed {
			gone[node] = l.self
		}
	}
	now := v.latest(time.Time{})
	for _, name := range living {
		l := now[name]
		for _, m := range l.members {
			node := m.Addr + "#" + m.Uid
			if by, ok := gone[node]; ok && slices.Contains(v.uids(living...), by) {
				errs = append(errs, fmt.Errorf("%s: %s is %s, and was removed by %s", name, node, m.Status, by))
			}
		}
	}
	return errs
}
