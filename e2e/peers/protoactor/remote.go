package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/cluster/clusterproviders/automanaged"
	"github.com/asynkron/protoactor-go/cluster/identitylookup/disthash"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/e2e/bench/measure/peer"
)

const (
	loopback    = "127.0.0.1"
	clusterName = "bench"
	kind        = "echo"
	counter     = "counter"
	// What a child serves.
	plain  = "actors"
	member = "member"
	// refresh is the interval at which members check each other; the provider's default.
	refresh = 2 * time.Second
	// ready looks every poll, for so long.
	poll, patience = 20 * time.Millisecond, 30 * time.Second
)

// serveAny serves what the arguments say.
func serveAny(_ context.Context, args []string) error {
	switch args[0] {
	case plain:
		return serveActors(args[1])
	case member:
		return serveMember(args[1], args[2])
	}
	return fmt.Errorf("nothing is called %q", args[0])
}

// serveActors serves so many actors by proto.actor's remote, and one that answers how many tells they have received.
func serveActors(count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	s := newSystem()
	remote.NewRemote(s, remote.Configure(loopback, 0)).Start()
	for i := range n {
		if _, err := s.Root.SpawnNamed(props(), entityName(i)); err != nil {
			return err
		}
	}
	counting := actor.PropsFromFunc(func(c actor.Context) {
		if _, ok := c.Message().(*wrapperspb.BytesValue); ok {
			c.Respond(&wrapperspb.Int64Value{Value: told.Load()})
		}
	})
	if _, err := s.Root.SpawnNamed(counting, counter); err != nil {
		return err
	}
	return peer.Serving(s.Address())
}

// openRemote reaches actors of another process by their names.
func openRemote(_ context.Context, o peer.Options) (peer.System, error) {
	child, err := peer.Start(plain, strconv.Itoa(o.Entities))
	if err != nil {
		return nil, err
	}
	s := newSystem()
	r := remote.NewRemote(s, remote.Configure(loopback, 0))
	r.Start()
	a := &actors{system: s, pids: make([]*actor.PID, o.Entities), children: []*peer.Child{child}}
	a.close = func() error { r.Shutdown(false); return nil }
	for i := range a.pids {
		a.pids[i] = actor.NewPID(child.Address, entityName(i))
	}
	count := actor.NewPID(child.Address, counter)
	a.received = func() (int64, error) {
		got, err := s.Root.RequestFuture(count, question(), timeout).Result()
		if err != nil {
			return 0, err
		}
		return got.(*wrapperspb.Int64Value).Value, nil
	}
	return a, nil
}

// newCluster configures a member or a client of a cluster. The provider of each member listens at a port, and ports has all of them.
func newCluster(port int, ports []string) *cluster.Cluster {
	hosts := make([]string, len(ports))
	for i, p := range ports {
		hosts[i] = net.JoinHostPort(loopback, p)
	}
	return cluster.New(newSystem(), cluster.Configure(clusterName, automanaged.NewWithConfig(refresh, port, hosts...), disthash.New(),
		remote.Configure(loopback, 0), cluster.WithKinds(cluster.NewKind(kind, props()))))
}

// serveMember serves entities as a member of a cluster.
func serveMember(port, ports string) error {
	at, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	c := newCluster(at, strings.Split(ports, ","))
	c.StartMember()
	return peer.Serving(c.ActorSystem.Address())
}

// virtual are virtual actors.
type virtual struct {
	cluster  *cluster.Cluster
	children []*peer.Child
	entities int
}

// openLocalCluster starts a cluster whose only member is this process.
func openLocalCluster(_ context.Context, o peer.Options) (peer.System, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	at, _ := strconv.Atoi(ports[0])
	v := &virtual{cluster: newCluster(at, ports), entities: o.Entities}
	v.cluster.StartMember()
	return v, v.ready(1)
}

// openCluster starts members; this process is their client.
func openCluster(members int) func(context.Context, peer.Options) (peer.System, error) {
	return func(_ context.Context, o peer.Options) (peer.System, error) {
		ports, err := freePorts(members)
		if err != nil {
			return nil, err
		}
		v := &virtual{entities: o.Entities}
		for _, port := range ports {
			child, err := peer.Start(member, port, strings.Join(ports, ","))
			if err != nil {
				return nil, errors.Join(err, peer.Close(v.children...))
			}
			v.children = append(v.children, child)
		}
		v.cluster = newCluster(0, ports)
		v.cluster.StartClient()
		return v, v.ready(members)
	}
}

// freePorts returns ports without listeners. The provider takes no listener, and cannot say which port it has found.
func freePorts(n int) (ports []string, err error) {
	var open []net.Listener
	for range n {
		ln, err := net.Listen("tcp", loopback+":0")
		if err != nil {
			return nil, err
		}
		open = append(open, ln)
		_, port, err := net.SplitHostPort(ln.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	for _, ln := range open {
		_ = ln.Close()
	}
	return ports, nil
}

// Ask asks a virtual actor by its identity.
func (v *virtual) Ask(_, entity int) error {
	return answer(v.cluster.Request(entityName(entity), kind, question()))
}

// Call is Ask: a request of proto.actor takes no context, and ends after its own time-out.
func (v *virtual) Call(_ context.Context, entity int) error { return v.Ask(0, entity) }

// Owners asks the cluster where entities are.
func (v *virtual) Owners() ([]int, error) {
	owners := make([]int, v.entities)
	for e := range owners {
		pid := v.cluster.Get(entityName(e), kind)
		if pid == nil {
			return nil, fmt.Errorf("%s is nowhere", entityName(e))
		}
		if owners[e] = slices.IndexFunc(v.children, func(c *peer.Child) bool { return c.Address == pid.Address }); owners[e] < 0 {
			return nil, fmt.Errorf("%s is at %s, where no member is", entityName(e), pid.Address)
		}
	}
	return owners, nil
}

// Kill kills a member.
func (v *virtual) Kill(i int) error { return v.children[i].Kill() }

func (v *virtual) Processes() []int { return peer.Pids(v.children...) }

func (v *virtual) Close() error { return peer.Close(v.children...) }

// ready waits until this process knows all members.
func (v *virtual) ready(members int) error {
	for began := time.Now(); v.cluster.MemberList.Length() < members; time.Sleep(poll) {
		if time.Since(began) > patience {
			return errors.Join(fmt.Errorf("only %d of %d members are there", v.cluster.MemberList.Length(), members), v.Close())
		}
	}
	return nil
}
