package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestHomeless: shards that have no region any more are counted and the longest named; and a rollout says for how long
// no region has come or gone.
func TestHomeless(t *testing.T) {
	const shards = MaxHomeless + 2
	w := newFormsWorld(t, shards)
	w.do(Elected{Term: 1})
	join := func(name, version string) sharding.NodeID {
		n := node(t, name)
		w.do(Member{Node: n, Reachable: true})
		w.do(calls(n, control.Register{Version: version, Types: []sharding.TypeDesc{program(1, shards)}}))
		return n
	}
	r1 := join("r1", "1")
	for i := range uint32(shards) {
		w.serve(i)
	}
	if v := w.m.View(); v.HomelessAll != 0 || len(v.Homeless) != 0 || v.Rollout.On || v.Rollout.Still != 0 {
		t.Errorf("while all are served: %+v, rollout %+v", v.Homeless, v.Rollout)
	}
	w.do(MemberGone{Node: r1})
	w.pass(5 * time.Second)
	if v := w.m.View(); v.HomelessAll != shards || len(v.Homeless) != MaxHomeless || v.Homeless[0].For < 4*time.Second {
		t.Errorf("without a region: %d, %+v, %+v", v.HomelessAll, v.Homeless, v.Rows[:3])
	}
	for i := range 2 {
		join(fmt.Sprint("r", i+2), fmt.Sprint(i+2))
	}
	w.pass(10 * time.Second)
	if r := w.m.View().Rollout; !r.On || r.Still < 10*time.Second {
		t.Errorf("a rollout that stands still: %+v", r)
	}
}
