package agent

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	membershipv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/membership"
)

// AdminPathPrefix is the path below which [Agent.AdminHandler] serves.
const AdminPathPrefix = membershipv1.MembershipPathPrefix

// AdminReads are the methods of the service at [AdminPathPrefix] that change nothing.
var AdminReads = []string{"Events"}

// AdminHandler serves operators, at [AdminPathPrefix], with Twirp's options for servers. It does not
// authenticate them.
func (a *Agent) AdminHandler(options ...any) http.Handler {
	return membershipv1.NewMembershipServer(admin{a}, options...)
}

type admin struct{ a *Agent }

// pollHold bounds the wait of a request for events.
const pollHold = time.Second

func (s admin) Join(_ context.Context, req *membershipv1.JoinRequest) (*membershipv1.JoinResponse, error) {
	v := s.a.Members()
	if v.InCluster {
		return nil, twirp.NewErrorf(twirp.AlreadyExists, "%v is in a cluster already; to move it, let it leave and start it again", v.Self)
	}
	if host, port, ok := strings.Cut(req.Addr, ":"); !ok || host == "" || port == "" {
		return nil, twirp.NewErrorf(twirp.InvalidArgument, "%q is not the address of a member; write host:port, as in roost cluster status", req.Addr)
	}
	s.a.JoinVia(req.Addr)
	return &membershipv1.JoinResponse{Self: v.Self.String()}, nil
}

func (s admin) Leave(_ context.Context, req *membershipv1.NodeRequest) (*membershipv1.NodeResponse, error) {
	return s.withMember(req.Node, s.a.AskToLeave)
}

func (s admin) Down(_ context.Context, req *membershipv1.NodeRequest) (*membershipv1.NodeResponse, error) {
	return s.withMember(req.Node, s.a.Down)
}

func (s admin) Remove(_ context.Context, req *membershipv1.NodeRequest) (*membershipv1.NodeResponse, error) {
	return s.withMember(req.Node, s.a.Remove)
}

// withMember calls do with the member of the given name.
func (s admin) withMember(name string, do func(sharding.NodeID)) (*membershipv1.NodeResponse, error) {
	m, err := find(s.a.Members(), name)
	if err != nil {
		return nil, err
	}
	do(m.Node)
	return &membershipv1.NodeResponse{Member: toMember(m)}, nil
}

// find finds a member by name, address, or address and uid. If several have the
// same name or address, those that are not down take precedence.
func find(v gossip.View, name string) (*gossip.MemberView, error) {
	if !v.InCluster {
		return nil, twirp.NewErrorf(twirp.Unavailable, "%v is in no cluster; ask a member", v.Self)
	}
	var alive, down []*gossip.MemberView
	for i := range v.Members {
		switch m := &v.Members[i]; {
		case m.Node.String() == name:
			return m, nil
		case m.Name != name && m.Node.Addr != name:
		case m.Status == gossip.Down:
			down = append(down, m)
		default:
			alive = append(alive, m)
		}
	}
	if len(alive) == 0 {
		alive = down
	}
	switch len(alive) {
	case 0:
		return nil, twirp.NewErrorf(twirp.NotFound, "no member %q; see roost cluster status", name)
	case 1:
		return alive[0], nil
	}
	var all []sharding.NodeID
	for _, m := range alive {
		all = append(all, m.Node)
	}
	return nil, twirp.NewErrorf(twirp.InvalidArgument, "%q is the name of several members; choose one of %s", name, nodeList(all))
}

func nodeList(nodes []sharding.NodeID) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.String())
	}
	return strings.Join(all, ", ")
}

func toMember(m *gossip.MemberView) *membershipv1.ClusterMember {
	return &membershipv1.ClusterMember{
		Name: m.Name, Roles: m.Roles, Status: m.Status.String(), Reachable: m.Reachable && m.ReachableByMe,
		Addr: m.Node.Addr, Uid: fmt.Sprintf("%x", uint64(m.Node.UID)), Zone: m.Zone, AppVersion: m.Version,
	}
}

// Events answers with the events from a number on. It waits up to pollHold for
// the first one.
func (s admin) Events(ctx context.Context, req *membershipv1.EventsRequest) (*membershipv1.EventsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, pollHold)
	defer cancel()
	f := s.a.Follow()
	stream := s.a.cfg.Core.Self.String()
	if req.Stream == stream {
		f.next = req.Next
	}
	out := &membershipv1.EventsResponse{Stream: stream}
	b, err := f.Next(ctx) // an error means that there is nothing new
	if err == nil && b.Resync {
		out.Resync, out.Missed = true, b.Missed
		b.Events = s.a.events.newest()
		for i := range b.View.Members {
			out.Members = append(out.Members, toMember(&b.View.Members[i]))
		}
	}
	out.Next = f.next
	for _, r := range b.Events {
		if r.Seq < f.next { // newer ones come with the next answer
			out.Events = append(out.Events, toEvent(r, &b.View))
		}
	}
	return out, nil
}

func toEvent(r Record, v *gossip.View) *membershipv1.Event {
	out := &membershipv1.Event{Seq: r.Seq, AtUnixMs: r.At.UnixMilli()}
	about := func(kind string, n sharding.NodeID, text string) {
		out.Kind, out.Node, out.Text, out.Name = kind, n.String(), text, r.name
		if out.Name == "" {
			out.Name = nameOf(n, *v)
		}
	}
	member := func(m gossip.Member) {
		about(m.Status.String(), m.Node, "")
		out.Name = m.Name
	}
	switch e := r.Event.(type) {
	case gossip.MemberJoined:
		member(e.Member)
	case gossip.MemberWeaklyUp:
		member(e.Member)
	case gossip.MemberUp:
		member(e.Member)
	case gossip.MemberLeaving:
		member(e.Member)
	case gossip.MemberExited:
		member(e.Member)
	case gossip.MemberDowned:
		member(e.Member)
	case gossip.MemberRemoved:
		member(e.Member)
		out.Kind, out.Text = "removed", "it was "+e.Member.Status.String()
	case gossip.ReachabilityChanged:
		about(map[bool]string{true: "reachable", false: "unreachable"}[e.Reachable], e.Node, "")
		out.ByMe = e.ByMe
	case gossip.NodeGone:
		about("gone", e.Node, "connection refused")
	case gossip.NewIncarnation:
		about("replaced", e.Old, "now "+e.New.String())
	case gossip.NameShared:
		out.Kind, out.Name, out.Text = "name-shared", e.Name, nodeList(e.Nodes)
	case gossip.DowningDecided:
		out.Kind, out.Text = "downing", nodeList(e.Down)+": "+e.Reason
	case gossip.YieldLease:
		about("yields-lease", v.Self, e.Reason)
	case gossip.LeaderChanged:
		about("leader", e.Leader, "")
	case gossip.Banned:
		about("banned", e.Node, e.Reason)
	case gossip.JoinRejected:
		about("not-let-in", v.Self, "by "+e.By.String()+": "+e.Reason)
	case gossip.JoinFailed:
		about("join-failed", v.Self, e.Reason)
	case gossip.LeaveRequested:
		about("asked-to-leave", v.Self, "by "+e.By.String())
	case gossip.SelfDowned:
		about("down", v.Self, e.Reason)
	case gossip.Left:
		about("left", v.Self, "")
	default:
		out.Kind, out.Text = strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "gossip.")), fmt.Sprintf("%+v", e)
	}
	return out
}
