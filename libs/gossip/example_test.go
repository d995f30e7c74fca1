package gossip_test

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Two machines that are driven by hand: the driver passes time and messages on. In a
// process, package agent is the driver.
func Example() {
	now := time.Unix(0, 0)
	machines := map[string]*gossip.Machine{}
	type letter struct {
		from sharding.NodeID
		gossip.Send
	}
	var post []letter
	step := func(addr string, in gossip.Input) {
		m := machines[addr]
		for _, o := range m.Step(now, in, nil) {
			switch o := o.(type) {
			case gossip.Send:
				post = append(post, letter{m.View().Self, o})
			case gossip.MemberUp:
				fmt.Printf("%s: %s is up\n", addr, o.Member.Name)
			case gossip.MemberRemoved:
				fmt.Printf("%s: %s is gone\n", addr, o.Member.Name)
			case gossip.Left:
				fmt.Printf("%s: left\n", addr)
			}
		}
	}
	pass := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); now = now.Add(50 * time.Millisecond) {
			for _, addr := range []string{"a:1", "b:1"} {
				step(addr, gossip.Tick{})
			}
			for len(post) > 0 {
				l := post[0]
				post = post[1:]
				step(l.To.Addr, gossip.Receive{From: l.from, To: l.To, Msg: l.Msg})
			}
		}
	}
	for i, addr := range []string{"a:1", "b:1"} {
		cfg := gossip.DefaultConfig()
		cfg.Self = sharding.NodeID{Addr: addr, UID: sharding.NodeUID(i + 1)} // a new uid at every start
		cfg.Name, cfg.Seeds = fmt.Sprint("node-", i+1), []string{"a:1"}
		if err := cfg.Validate(); err != nil {
			fmt.Println(err)
			return
		}
		machines[addr] = gossip.New(cfg)
		step(addr, gossip.Start{})
	}
	pass(5 * time.Second)
	v := machines["b:1"].View()
	fmt.Println("leader:", v.Leader.Addr, "converged:", v.Converged)
	step("b:1", gossip.Leave{})
	pass(5 * time.Second)
	// Output:
	// a:1: node-1 is up
	// b:1: node-1 is up
	// a:1: node-2 is up
	// b:1: node-2 is up
	// leader: a:1 converged: true
	// a:1: node-2 is gone
	// b:1: left
}

// patient downs the unreachable only while a majority of at least three is there,
// and never more than one at a time.
type patient struct{ after time.Duration }

func (p patient) Decide(now time.Time, v gossip.View) gossip.Decision {
	if v.Leader != v.Self { // every node decides: one of a side decides for it
		return gossip.Decision{}
	}
	reachable := 0
	var longest *gossip.MemberView
	for i := range v.Members {
		switch m := &v.Members[i]; {
		case m.Reachable:
			reachable++
		case m.Status != gossip.Down && now.Sub(m.UnreachableSince) >= p.after &&
			(longest == nil || m.UnreachableSince.Before(longest.UnreachableSince)):
			longest = m
		}
	}
	if longest == nil || reachable < 3 || 2*reachable <= len(v.Members) {
		return gossip.Decision{}
	}
	return gossip.Decision{Down: []sharding.NodeID{longest.Node}, Reason: "in a minority for " + p.after.String()}
}

func (p patient) String() string                           { return "patient for " + p.after.String() }
func (p patient) Clone() gossip.Downing                    { return p }
func (p patient) AppendState(b []byte, _ time.Time) []byte { return b }

// One's own rule for who is gone. All nodes need the same: its String is among
// the settings that are compared when a node joins.
func ExampleDowning() {
	net := gossiptest.New(1) // an in-memory network, in virtual time
	for i := range 5 {
		cfg := gossip.DefaultConfig()
		cfg.Name, cfg.Seeds = fmt.Sprint("node-", i+1), []string{"n1:1"}
		cfg.Downing = patient{after: 20 * time.Second}
		net.Start(net.Add(fmt.Sprintf("n%d:1", i+1), cfg))
	}
	net.Run(10 * time.Second)
	net.Crash(net.Node("n5:1"))
	net.Run(time.Minute)
	fmt.Println(len(net.Node("n1:1").M.View().Members), "members")
	// Output: 4 members
}
