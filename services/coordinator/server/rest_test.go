package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestRest: while nothing happens, ticks come rarely, although the lease is renewed and the journal is queried; when something
// happens, they come often at once.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		rest := coordinator.NewRest()
		ticks := func(length time.Duration) (n int) {
			r.in(func() { n = -int(r.ticks) })
			time.Sleep(length)
			r.in(func() { n += int(r.ticks) })
			return n
		}
		time.Sleep(10 * time.Second) // until nothing happens any more
		const length = 10 * time.Second
		if n, want := ticks(length), int(length/rest.Every); n < want-1 || n > want+want/5 { // something small may happen
			t.Errorf("%d ticks in %v in which nothing happens, want about %d", n, length, want)
		}
		r.in(func() {
			r.step(coordinator.Received{From: sharding.NodeID{Addr: "127.0.0.1:2", UID: 2}, Msg: control.GracefulShutdown{}})
		})
		if n, want := ticks(rest.After), int(rest.After/tickEvery); n < want-1 {
			t.Errorf("%d ticks in %v after a message, want %d", n, rest.After, want)
		}
	})
}
