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
	"github.com/roost-cluster/roost/libs/adminclient"
	membershipv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/membership"
)

// views has what each member itself reports about the membership.
type views struct {
	mu           sync.Mutex
	incarnations []*incarnation // in the order in which they first answered
}

// incarnation is one incarnation of a process, by its last answer.
type incarnation struct {
	name, self string // self is host:port#uid
	asked      time.Time
	members    []*membershipv1.ClusterMember
	events     []*membershipv1.Event // all that it has seen
	missed     uint64                // events that it no longer keeps
}

// follow polls processes for their views until ctx ends. Events have the time at which the
// process saw them, not the answer's.
func (v *views) follow(ctx context.Context, processes []launcher.Process) (wait func()) {
	var group sync.WaitGroup
	for _, p := range processes {
		m := adminclient.NewMembership("http://" + p.Management)
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

func (v *views) note(name string, asked time.Time, res *membershipv1.EventsResponse) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.incarnations, func(l *incarnation) bool { return l.self == res.Stream })
	if i < 0 {
		i = len(v.incarnations)
		v.incarnations = append(v.incarnations, &incarnation{name: name, self: res.Stream})
	}
	l := v.incarnations[i]
	l.asked, l.members, l.events = asked, res.Members, res.Events
	if len(l.events) > 0 {
		l.missed = l.events[0].Seq - 1
	}
}

// latest returns the last incarnation of each process, without those that have not answered
// a question asked since then.
func (v *views) latest(since time.Time) map[string]incarnation {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := map[string]incarnation{}
	for _, l := range v.incarnations {
		all[l.name] = *l
	}
	maps.DeleteFunc(all, func(_ string, l incarnation) bool { return l.asked.Before(since) })
	return all
}

// uids returns the latest incarnations of processes, as host:port#uid.
func (v *views) uids(names ...string) (selves []string) {
	all := v.latest(time.Time{})
	for _, name := range names {
		selves = append(selves, all[name].self)
	}
	return selves
}

// disagreement returns why these processes do not all see exactly themselves, up and
// reachable.
func (v *views) disagreement(since time.Time, names []string) error {
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
			return fmt.Errorf("%s sees the members\n  %s\ninstead of\n  %s", name, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
	return nil
}

// view returns the members with their status, in order.
func (l incarnation) view() (list []string) {
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

// took returns how long it took until an event of one of these kinds happened to all of
// selves: until the first of names saw it, and until all of them did.
func (v *views) took(from time.Time, selves, names []string, kinds ...string) (first, last time.Duration, err error) {
	all := v.latest(time.Time{})
	for _, self := range selves {
		early := time.Duration(math.MaxInt64)
		for _, name := range names {
			events := all[name].events
			at := slices.IndexFunc(events, func(e *membershipv1.Event) bool {
				return e.Node == self && slices.Contains(kinds, e.Kind) && e.AtUnixMs >= from.UnixMilli()
			})
			if at < 0 {
				return 0, 0, fmt.Errorf("%s never saw %s become one of %v", name, self, kinds)
			}
			d := time.Duration(events[at].AtUnixMs-from.UnixMilli()) * time.Millisecond
			early, last = min(early, d), max(last, d)
		}
		first = max(first, early)
	}
	return first, last, nil
}

// check returns incarnations that came back: in the events of a process after it had removed
// them, or in the last view of a living process after another living one had removed them.
func (v *views) check(living []string) (errs []error) {
	v.mu.Lock()
	all := slices.Clone(v.incarnations)
	v.mu.Unlock()
	gone := map[string]string{} // by whom
	for _, l := range all {
		if l.missed > 0 {
			errs = append(errs, fmt.Errorf("%s has kept too few events, %d are missing", l.self, l.missed))
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
