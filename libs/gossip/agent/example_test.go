package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/sharding"
)

// member is a process with a listener of its own and the membership on it.
type member struct {
	*agent.Agent
	server *http.Server
	ended  chan error
}

// join starts a member that joins through seeds; the first one of them forms the
// cluster.
func join(ctx context.Context, l net.Listener, uid sharding.NodeUID, seeds ...string) (*member, error) {
	core := gossip.DefaultConfig()
	core.Self = sharding.NodeID{Addr: l.Addr().String(), UID: uid} // in earnest a random uid at every start
	core.Name, core.Seeds = fmt.Sprint("node-", uid), seeds
	a, err := agent.New(agent.Config{Core: core, Cluster: "example"}) // Log: slog.Default() logs the events
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(a.PathPrefix(), a.Handler()) // behind your own TLS and authentication
	m := &member{Agent: a, server: &http.Server{Handler: mux}, ended: make(chan error, 1)}
	go func() { _ = m.server.Serve(l) }()
	go func() { m.ended <- a.Run(ctx) }() // ErrDowned: stop the process
	return m, nil
}

// Two members on this machine. One follows what happens, the other one leaves.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var listeners []net.Listener
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Println(err)
			return
		}
		listeners = append(listeners, l)
	}
	var members []*member
	for i, l := range listeners {
		m, err := join(ctx, l, sharding.NodeUID(i+1), listeners[0].Addr().String())
		if err != nil {
			fmt.Println(err)
			return
		}
		members = append(members, m)
	}
	isUp := func(m gossip.Member) {
		fmt.Println(m.Name, "is up")
		if m.Name == "node-2" {
			go func() { _ = members[1].Leave(ctx) }()
		}
	}
	events := members[0].Follow()
	for gone := false; !gone; {
		batch, err := events.Next(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		if batch.Resync { // all that is; after that all that happens
			for _, m := range batch.View.OldestFirst("") {
				isUp(m.Member)
			}
		}
		for _, r := range batch.Events {
			switch e := r.Event.(type) {
			case gossip.MemberUp:
				isUp(e.Member)
			case gossip.MemberRemoved:
				fmt.Println(e.Member.Name, "has left")
				gone = true
			}
		}
	}
	cancel()
	for _, m := range members {
		if err := <-m.ended; err != nil && !errors.Is(err, context.Canceled) {
			fmt.Println(err)
		}
		_ = m.server.Close()
	}
	// Output:
	// node-1 is up
	// node-2 is up
	// node-2 has left
}
