package node

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/node/config"
)

// TestLoopStandsStill: a loop that does not run fails only after the configured time, whether it is
// queried often or seldom, and not for longer than it stands still.
func TestLoopStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{config: &config.Config{StalledAfter: 30 * time.Second}}
		n.live.timeout = time.Second
		work, ended := make(chan func(), 100), make(chan struct{})
		n.Loop("main loop", ended, func(f func()) { work <- f })
		live := func(want string) {
			t.Helper()
			r := n.live.run(context.Background(), nil)
			switch err := r[0].err; {
			case r[0].name != "main loop":
				t.Fatalf("the check is %q", r[0].name)
			case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Fatalf("the check says %v, want %q", err, want)
			}
		}
		live("") // the loop does not run yet
		time.Sleep(29 * time.Second)
		live("")
		time.Sleep(time.Second)
		live("stood still for 31s; health.stalled_after is 30s")
		if len(work) != 1 {
			t.Errorf("%d questions are on their way, want 1", len(work))
		}
		(<-work)() // it runs again
		synctest.Wait()
		go func() { (<-work)() }()
		live("")
		time.Sleep(time.Hour) // no query comes
		live("")
		close(ended) // a loop that has ended does not stand still
		synctest.Wait()
		time.Sleep(time.Hour)
		live("")
		synctest.Wait()
	})
}
