package server

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestCrowd: while the control loop is held up, no more messages of other processes wait
// than there is room for.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := runHanging(t)
		s := &Server{runner: r, log: slog.New(slog.DiscardHandler), calls: rpc.NewCalls(maxCalls)}
		release := make(chan struct{})
		r.control.do(func() { <-release })
		synctest.Wait()
		for range controlLimits.Items - 1 {
			r.control.do(func() {})
		}
		from, orders := sharding.NodeID{Addr: "c:1", UID: 1}, []control.Message{control.HandOff{Term: 1}}
		for _, want := range []error{nil, errOverloaded} {
			if err := (receiver{s}).Receive(t.Context(), from, orders, 30); !errors.Is(err, want) {
				t.Errorf("Receive returns %v, want %v", err, want)
			}
		}
		if _, err := (receiver{s}).Answer(t.Context(), from, control.WatchTable{}, 30); !errors.Is(err, errOverloaded) {
			t.Errorf("Answer returns %v", err)
		}
		close(release)
		synctest.Wait()
		if err := (receiver{s}).Receive(t.Context(), from, orders, 30); err != nil {
			t.Errorf("afterwards Receive returns %v", err)
		}
	})
}
