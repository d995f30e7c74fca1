// Package member is the common part of coordinators and regions, as the members of a cluster: the
// keys of their configuration, finding and joining the cluster, their membership, and their entry
// in discovery.
//
// # What this does not do
//
// It decides nothing: packages bootstrap, gossip and splitbrain do. Gateways are not
// members and need none of it.
package member

import (
	"context"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/joiner"
	discoverytelemetry "github.com/roost-cluster/roost/libs/discovery/telemetry"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Member is the membership of one process.
type Member struct {
	Agent  *agent.Agent
	Joiner *joiner.Joiner

	node        *node.Node
	options     Options
	url         string             // of discovery
	wrongSender telemetry.Repeated // messages that the certified sender is not allowed to send
}

// Options are the settings that differ between the services.
type Options struct {
	// Settings are the configuration.
	Settings *Settings
	// Cluster is the name of the cluster, and Role what the process is for.
	Cluster string
	Role    string
	// Version is the version of the program that the process runs, for people to see.
	Version string
	// WatchRoles are the roles of the members that this process watches whatever the
	// others do, see [gossip.Config].
	WatchRoles []string
	// Changed, if set, is called when discovery lists others. It must not wait.
	Changed func()
}

// Join prepares the membership of a process on its node: handlers, checks and metrics. It sends
// nothing before the stages run.
func Join(n *node.Node, o Options) (*Member, error) {
	g, err := o.core(n.Self(), n.Name())
	if err != nil {
		return nil, err
	}
	if err := n.CheckCertificate(IdentityOf(n.Name(), []string{o.Role})); err != nil {
		return nil, err
	}
	peers := n.Peers().Of(rpc.Members)
	m := &Member{node: n, options: o, url: bootstrap.Expand(o.Settings.Discovery.URL, o.Cluster)}
	if m.Joiner, err = joiner.New(joiner.Config{
		Settings: o.Settings.Settings, URL: o.Settings.Discovery.URL, Cluster: o.Cluster, Self: g.Self, Roles: g.Roles,
		Client: peers.Client(), PeerURL: peers.URL, Log: n.Log(), Changed: o.Changed,
	}); err != nil {
		return nil, err
	}
	m.Joiner.Configure(&g)
	m.Agent, err = agent.New(agent.Config{
		Core: g, Cluster: o.Cluster, Client: peers.Client(), Dial: peers.Dial, URL: peers.URL, Log: n.Log(), OnLeave: n.Stop,
		MaySpeakAs: m.maySpeakAs,
	})
	if err != nil {
		return nil, err
	}
	n.Peers().Know(m.namesAt)
	n.HandleMembers(m.Agent.PathPrefix(), m.Agent.Handler())
	m.Joiner.Register(n, m.Agent)
	n.HandleOperations(agent.AdminPathPrefix, agent.AdminReads, m.Agent.AdminHandler)
	return m, n.ObserveMembers(m.Agent.Members)
}

// core returns the configuration of the membership.
func (o *Options) core(self sharding.NodeID, name string) (g gossip.Config, err error) {
	g = gossip.DefaultConfig()
	g.Self, g.Name, g.Roles, g.WatchRoles, g.Version = self, name, []string{o.Role}, o.WatchRoles, o.Version
	o.Settings.Joining.Apply(&g)
	o.Settings.Tuning.Apply(&g)
	g.Downing, err = o.Settings.Downing.Open()
	return g, err
}

// Identity returns the identity of a member. It returns a zero Identity for a node that is not a member.
func (m *Member) Identity(n sharding.NodeID) control.Identity {
	member, _ := m.Agent.Members().Member(n)
	return IdentityOf(member.Name, member.Roles)
}

// maySpeakAs rejects a request in the name of another member than the certified sender.
func (m *Member) maySpeakAs(ctx context.Context, name string, roles []string) error {
	err := rpc.PeerOf(ctx).MaySpeakAs(IdentityOf(name, roles))
	if err != nil {
		m.wrongSender.Warn(m.node.Log(), "membership message rejected: certificate of another process", "hint", "a process uses another's certificate, or forges messages", "reason", err)
	}
	return err
}

// namesAt returns the names of the members at an address. Those that are down are left out: another process may have
// their address.
func (m *Member) namesAt(addr string) (names []string) {
	for _, member := range m.Agent.Members().Members {
		if member.Node.Addr == addr && member.Status != gossip.Down {
			names = append(names, member.Name)
		}
	}
	return names
}

// IdentityOf returns which process the member with a name and roles is.
func IdentityOf(name string, roles []string) control.Identity {
	i := control.Identity{Node: name}
	for _, r := range roles {
		switch r {
		case "coordinator":
			i.Roles |= control.Coordinator
		case "region":
			i.Roles |= control.Region
		}
	}
	return i
}

// Stages adds the stages of the membership: run, which runs the Agent, and the search
// for the cluster. leave ends the membership gracefully when the process stops, within
// timeout; 0 is as long as the process has.
func (m *Member) Stages(run, leave func(context.Context) error, timeout time.Duration) {
	m.node.Stage(node.Stage{
		Name: "membership",
		Run: func(ctx context.Context) error {
			m.node.Loop("membership loop", m.Agent.Ended(), m.Agent.Do)
			return run(ctx)
		},
		Stop: leave, StopTimeout: timeout,
	})
	m.node.Stage(node.Stage{Name: "bootstrap", Run: m.Joiner.Run})
}

// Register adds a stage that keeps the process listed in discovery, if discovery can be
// written to. It must be the last stage: stages stop in reverse order, so the entry is
// removed before anything else stops.
func (m *Member) Register(scope string) error {
	me := discovery.Peer{Addr: m.node.Advertise(), Role: m.options.Role}
	r, err := discovery.OpenRegistration(m.url, m.options.Cluster, me, m.node.Log())
	if err != nil {
		return fmt.Errorf("discovery.url: %w", err)
	}
	if err := discoverytelemetry.Observe(m.node.MeterProvider().Meter(scope), m.url, m.Joiner.Watch(), r); err != nil {
		return err
	}
	m.node.Stage(node.Stage{
		Name: "registration",
		Run:  r.Run,
		Stop: func(ctx context.Context) error {
			_ = r.Leave(ctx) // it is logged, and the entry expires
			return r.Close()
		},
		StopTimeout: 5 * time.Second,
	})
	return nil
}
