package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// mostCrashes is the most regions that a bomb may end: two crashes count, and the first may be over before
// any ended region reports which entities ran.
const mostCrashes = 3

// playQuarantine has entities end their regions, by a command, by a panic, by a reminder and by a send. Each
// is quarantined alone, and the others are served. The evidence of the exit is the parent's report: the launcher or,
// in a container, the region's own.
func playQuarantine(l *livingRun) {
	admin := adminclient.New(l.cluster.Admin()...)
	l.allowDeath("", l.names()...)
	stop := l.restarts()
	defer stop()
	for _, b := range []struct {
		bomb, by, path string
		in             any
	}{
		{"exits", "a command that exits", "/v1/Bomb/exits/Exit", struct{}{}},
		{"panics", "a goroutine that panics", "/v1/Bomb/panics/Panic", struct{}{}},
		{"fused", "a reminder", "/v1/Bomb/fused/Fuse", struct{}{}},
		{"mailed", "a send", "/v1/Bomb/sender/Mail", map[string]string{"from": "mailed"}},
	} {
		l.bomb(admin, b.bomb, b.by, b.path, b.in)
	}
	res, err := admin.Quarantines(l.Context(), &adminv1.QuarantinesRequest{Type: "Bomb"})
	l.must(err)
	for _, q := range res.Entities {
		if q.State == "quarantined" && !slices.Contains([]string{"exits", "panics", "fused", "mailed"}, q.Id) {
			l.Errorf("%s/%s is quarantined, and does no harm: %s", q.Type, q.Id, q.Reason)
		}
	}
	l.dropFuse(admin)
	_, err = admin.Quarantine(l.Context(), &adminv1.QuarantineRequest{Type: "Bomb", Id: "exits", Release: true, By: "the test", Reason: "it may go on"})
	l.must(err)
	_, err = l.count("/v1/Bomb/exits/Tick", "after", struct{}{})
	l.must(err)
}

// contain starts a region as the first process of a process namespace, as in a container. The launcher, which is its
// parent, does not tell the next process how it has ended.
func (l *livingRun) contain(name string, cmd *exec.Cmd) error {
	if strings.HasPrefix(name, launcher.Region) {
		if os.Geteuid() != 0 {
			l.Skip("only root can make process namespaces")
		}
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID
		cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "ROOST_REGION_LAST_EXIT=") })
	}
	return cmd.Start()
}

// dropFuse removes the reminder of a quarantined entity, none of whose code can run.
func (l *livingRun) dropFuse(admin *adminclient.Client) {
	l.Helper()
	res, err := admin.Command(l.Context(), &adminv1.CommandRequest{
		Type: "Bomb", Id: "fused", Command: sharding.ReminderDropCommand, Payload: []byte(`{"name":"fuse"}`), IdempotencyKey: "drop-fuse", Reason: "it goes off", By: "the test",
	}, waitLimit)
	l.must(err)
	if res.Outcome != sharding.Executed.String() || res.Code != "" {
		l.Errorf("the reminder is not dropped: %v", res)
	}
	left, err := admin.Reminders(l.Context(), &adminv1.RemindersRequest{Type: "Bomb", Id: "fused", Limit: 10})
	l.must(err)
	if len(left.Reminders) > 0 {
		l.Errorf("the reminder stands after it was dropped: %v", left.Reminders)
	}
}

// bomb has an entity end its region again and again until it is quarantined.
func (l *livingRun) bomb(admin *adminclient.Client, id, by, path string, in any) {
	l.Helper()
	before, began := l.died(), time.Now()
	quarantined := func() *adminv1.QuarantinedEntity {
		res, err := admin.Quarantines(l.Context(), &adminv1.QuarantinesRequest{Type: "Bomb"})
		if err != nil {
			return nil
		}
		i := slices.IndexFunc(res.Entities, func(q *adminv1.QuarantinedEntity) bool { return q.Id == id && q.State == "quarantined" })
		if i < 0 {
			return nil
		}
		return res.Entities[i]
	}
	for n := 0; quarantined() == nil; n++ {
		if time.Since(began) > 2*waitLimit {
			l.Fatalf("%s ends regions by %s, and is not quarantined after %d crashes", id, by, l.died()-before)
		}
		// A client that repeats an unanswered command, as most do.
		_, _, _ = l.post(l.Context(), path, fmt.Sprint(id, "-", n/8), in, 2*time.Second)
		l.wait(100 * time.Millisecond)
	}
	q := quarantined()
	if n := l.died() - before; n > mostCrashes {
		l.Errorf("%s ended %d regions by %s, at most %d are allowed", id, n, by, mostCrashes)
	} else {
		l.figure("%s: %d regions ended", by, n)
	}
	if len(q.Crashes) < 2 || q.By != "roost" || q.Reason == "" {
		l.Errorf("the reason for the quarantine of %s is unknown: %v", id, q)
	}
	var refused *refusal
	eventually(l.T, waitLimit, func() (err error) {
		_, refused, err = l.post(l.Context(), "/v1/Bomb/"+id+"/Tick", "", struct{}{}, 2*time.Second)
		if err == nil && (refused == nil || refused.Meta.Error != "ROOST-1019") {
			err = fmt.Errorf("a command of %s is answered by %+v", id, refused)
		}
		return err
	})
	l.noErrors(id)
}

// noErrors checks that the other entities of all shards are served without an error, once all regions are
// there again.
func (l *livingRun) noErrors(but string) {
	l.Helper()
	l.wait(time.Second)
	before := l.died()
	var failed atomic.Int64
	l.each(200, 8, func(i int) error {
		_, refused, err := l.post(l.Context(), fmt.Sprintf("/v1/Bomb/calm-%d/Tick", i), fmt.Sprint(but, "-", i), struct{}{}, 10*time.Second)
		if err != nil || refused != nil {
			failed.Add(1)
			l.Logf("calm-%d: %v %+v", i, err, refused)
		}
		return nil
	})
	if n := failed.Load(); n > 0 || l.died() != before {
		l.Errorf("after %s was quarantined, %d of 200 commands of others failed, and %d regions ended", but, n, l.died()-before)
	}
}

// died counts the processes that have ended by themselves.
func (l *livingRun) died() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.deaths)
}

// restarts starts regions that have ended again, as a platform does, until the returned function is
// called.
func (l *livingRun) restarts() (stop func()) {
	ctx, cancel := context.WithCancel(l.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			for _, p := range l.cluster.Processes() {
				if p.State == launcher.Died {
					if err := l.cluster.Restart(ctx, p.Name); err != nil && ctx.Err() == nil {
						l.Logf("%s is not started: %v", p.Name, err)
					}
				}
			}
			l.wait(100 * time.Millisecond)
		}
	})
	return func() { cancel(); group.Wait() }
}
