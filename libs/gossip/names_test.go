package gossip_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// All report a process that was started twice, and its second run.
// One that was started again elsewhere is not.
func TestNamesThatSeveralHave(t *testing.T) {
	net := gossiptest.New(1)
	add := func(addr, name string) *gossiptest.Node {
		cfg := gossip.DefaultConfig()
		cfg.Seeds, cfg.Name = []string{"n1:1"}, name
		node := net.Add(addr, cfg)
		net.Start(node)
		return node
	}
	for i := range 3 {
		add(fmt.Sprintf("n%d:1", i+1), fmt.Sprint("node-", i+1))
	}
	for _, addr := range []string{"x1:1", "x2:1"} {
		add(addr, "") // no name, so none is added
	}
	agree(t, net, 10*time.Second)
	net.Crash(net.Node("n3:1"))
	moved := add("n4:1", "node-3")
	agree(t, net, time.Minute)
	for _, node := range net.Nodes {
		if e, ok := event[gossip.NameShared](node); ok {
			t.Fatalf("%v tells %+v about one that was started again elsewhere", node.ID, e)
		}
	}
	double := add("n5:1", "node-3")
	agree(t, net, 10*time.Second)
	for _, node := range net.Nodes {
		if node.M == nil {
			continue
		}
		told := 0
		for _, e := range node.Events {
			if e, ok := e.(gossip.NameShared); ok {
				told++
				if e.Name != "node-3" || len(e.Nodes) != 2 || e.Nodes[0] != moved.ID || e.Nodes[1] != double.ID {
					t.Errorf("%v tells %+v", node.ID, e)
				}
			}
		}
		if told != 1 {
			t.Errorf("%v tells it %d times", node.ID, told)
		}
	}
}
