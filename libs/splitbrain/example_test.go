package splitbrain_test

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
	"github.com/roost-cluster/roost/libs/splitbrain"
)

// Three of five nodes are cut off from two. The three declare the two gone, and
// the two end by themselves.
func Example() {
	downing, err := splitbrain.DefaultConfig().Open() // keep-majority
	if err != nil {
		fmt.Println(err)
		return
	}
	net := gossiptest.New(1)
	var addrs []string
	for i := range 5 {
		cfg := gossip.DefaultConfig()
		cfg.Downing, cfg.Seeds = downing, []string{"n1:1"}
		addrs = append(addrs, fmt.Sprintf("n%d:1", i+1))
		net.Start(net.Add(addrs[i], cfg))
	}
	net.Run(10 * time.Second)
	net.Split(addrs[:3], addrs[3:])
	net.Run(time.Minute)
	for _, node := range net.Nodes {
		if node.M == nil {
			fmt.Println(node.Addr, "is down")
			continue
		}
		fmt.Println(node.Addr, "knows", len(node.M.View().Members), "members")
	}
	// Output:
	// n1:1 knows 3 members
	// n2:1 knows 3 members
	// n3:1 knows 3 members
	// n4:1 is down
	// n5:1 is down
}
