package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/vclock"
	pb "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

// This file is the only one that knows both the core's messages and the wire's. Input from the wire is
// checked for shape here, and for sense by the core.

// NewPost returns the post that carries one node's messages to another.
func NewPost(cluster string, from sharding.NodeID, batch []gossip.Send) *pb.PostRequest {
	req := &pb.PostRequest{Cluster: cluster, From: toNode(from)}
	for _, m := range batch {
		req.Messages = append(req.Messages, toMessage(m.To.UID, m.Msg))
	}
	return req
}

func toMessage(to sharding.NodeUID, msg gossip.Msg) *pb.Message {
	m := &pb.Message{ToUid: uint64(to)}
	switch msg := msg.(type) {
	case gossip.InitJoin:
		m.Kind = &pb.Message_InitJoin{InitJoin: &pb.InitJoin{}}
	case gossip.InitJoinAck:
		m.Kind = &pb.Message_InitJoinAck{InitJoinAck: &pb.InitJoinAck{Seniority: toSeniority(msg.Seniority)}}
	case gossip.InitJoinNack:
		m.Kind = &pb.Message_InitJoinNack{InitJoinNack: &pb.InitJoinNack{}}
	case gossip.Join:
		m.Kind = &pb.Message_Join{Join: &pb.Join{
			Name: msg.Name, Roles: msg.Roles, Zone: msg.Zone, AppVersion: msg.Version,
			Settings: toList(msg.Settings, func(s gossip.Setting) *pb.Setting { return &pb.Setting{Name: s.Name, Value: s.Value} }),
			HeardIn:  msg.HeardIn,
		}}
	case gossip.JoinRefused:
		m.Kind = &pb.Message_JoinRefused{JoinRefused: &pb.JoinRefused{Reason: msg.Reason, Final: msg.Final}}
	case gossip.LeaveRequest:
		m.Kind = &pb.Message_LeaveRequest{LeaveRequest: &pb.LeaveRequest{}}
	case gossip.Welcome:
		m.Kind = &pb.Message_Welcome{Welcome: &pb.Welcome{State: toState(&msg.State)}}
	case gossip.GossipStatus:
		m.Kind = &pb.Message_GossipStatus{GossipStatus: &pb.GossipStatus{
			Cluster: toFounding(msg.Cluster), Era: toEra(msg.Era), Digest: msg.Digest, Seen: msg.Seen, Parts: msg.Parts,
		}}
	case gossip.Gossip:
		m.Kind = &pb.Message_Gossip{Gossip: &pb.Gossip{
			State: toState(&msg.State), Digest: msg.Digest, Parts: uint32(msg.Parts), Which: msg.Which, Answer: msg.Answer,
		}}
	case gossip.Heartbeat:
		m.Kind = &pb.Message_Heartbeat{Heartbeat: &pb.Heartbeat{
			Seq: msg.Seq, PatienceMs: uint32(msg.Patience.Milliseconds()), Answer: msg.Answer,
		}}
	case gossip.HeartbeatReply:
		m.Kind = &pb.Message_HeartbeatReply{HeartbeatReply: &pb.HeartbeatReply{Seq: msg.Seq}}
	case gossip.ExitingConfirmed:
		m.Kind = &pb.Message_ExitingConfirmed{ExitingConfirmed: &pb.ExitingConfirmed{}}
	case gossip.NotMember:
		n := &pb.NotMember{Seniority: toSeniority(msg.Seniority), Answer: msg.Answer}
		if msg.Outdated {
			n.Outdated = toEra(msg.Era)
		}
		m.Kind = &pb.Message_NotMember{NotMember: n}
	}
	return m
}

func fromMessage(m *pb.Message) (gossip.Msg, error) {
	switch k := m.GetKind().(type) {
	case *pb.Message_InitJoin:
		return gossip.InitJoin{}, nil
	case *pb.Message_InitJoinAck:
		return gossip.InitJoinAck{Seniority: fromSeniority(k.InitJoinAck.GetSeniority())}, nil
	case *pb.Message_InitJoinNack:
		return gossip.InitJoinNack{}, nil
	case *pb.Message_Join:
		return gossip.Join{
			Name: k.Join.GetName(), Roles: k.Join.GetRoles(), Zone: k.Join.GetZone(), Version: k.Join.GetAppVersion(),
			Settings: toList(k.Join.GetSettings(), func(s *pb.Setting) gossip.Setting {
				return gossip.Setting{Name: s.GetName(), Value: s.GetValue()}
			}),
			HeardIn: k.Join.GetHeardIn(),
		}, nil
	case *pb.Message_JoinRefused:
		return gossip.JoinRefused{Reason: k.JoinRefused.GetReason(), Final: k.JoinRefused.GetFinal()}, nil
	case *pb.Message_LeaveRequest:
		return gossip.LeaveRequest{}, nil
	case *pb.Message_Welcome:
		s, err := fromState(k.Welcome.GetState())
		return gossip.Welcome{State: s}, err
	case *pb.Message_GossipStatus:
		s := k.GossipStatus
		return gossip.GossipStatus{
			Cluster: fromFounding(s.GetCluster()), Era: fromEra(s.GetEra()), Digest: s.GetDigest(), Seen: fromBits(s.GetSeen()),
			Parts: s.GetParts(),
		}, nil
	case *pb.Message_Gossip:
		g := k.Gossip
		s, err := fromState(g.GetState())
		return gossip.Gossip{
			State: s, Digest: g.GetDigest(), Parts: int(g.GetParts()), Which: fromBits(g.GetWhich()), Answer: g.GetAnswer(),
		}, err
	case *pb.Message_Heartbeat:
		return gossip.Heartbeat{
			Seq: k.Heartbeat.GetSeq(), Patience: time.Duration(k.Heartbeat.GetPatienceMs()) * time.Millisecond, Answer: k.Heartbeat.GetAnswer(),
		}, nil
	case *pb.Message_HeartbeatReply:
		return gossip.HeartbeatReply{Seq: k.HeartbeatReply.GetSeq()}, nil
	case *pb.Message_ExitingConfirmed:
		return gossip.ExitingConfirmed{}, nil
	case *pb.Message_NotMember:
		n := k.NotMember
		return gossip.NotMember{
			Seniority: fromSeniority(n.GetSeniority()), Answer: n.GetAnswer(), Outdated: n.GetOutdated() != nil, Era: fromEra(n.GetOutdated()),
		}, nil
	}
	return nil, errors.New("a message is of no known kind")
}

// toList converts element by element; an empty list is nil on both sides.
func toList[A, B any](list []A, convert func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i := range list {
		out[i] = convert(list[i])
	}
	return out
}

func toNode(n sharding.NodeID) *pb.Node { return &pb.Node{Addr: n.Addr, Uid: uint64(n.UID)} }
func fromNode(n *pb.Node) sharding.NodeID {
	return sharding.NodeID{Addr: n.GetAddr(), UID: sharding.NodeUID(n.GetUid())}
}

func toFounding(c gossip.Founding) *pb.Founding {
	return &pb.Founding{FoundedUnixMs: c.Founded, FounderUid: uint64(c.Founder)}
}

func fromFounding(c *pb.Founding) gossip.Founding {
	return gossip.Founding{Founded: c.GetFoundedUnixMs(), Founder: sharding.NodeUID(c.GetFounderUid())}
}

// toEra is nil for the first era, which most clusters are in.
func toEra(e gossip.Era) *pb.Era {
	if e == (gossip.Era{}) {
		return nil
	}
	return &pb.Era{Number: e.Number, ByUid: uint64(e.By), BeforeUid: uint64(e.Before)}
}

func fromEra(e *pb.Era) gossip.Era {
	return gossip.Era{Number: e.GetNumber(), By: sharding.NodeUID(e.GetByUid()), Before: sharding.NodeUID(e.GetBeforeUid())}
}

func toSeniority(c gossip.Seniority) *pb.Seniority {
	return &pb.Seniority{Cluster: toFounding(c.Cluster), Era: toEra(c.Era), OldestUpNumber: c.OldestUp, Oldest: toNode(c.OldestNode)}
}

func fromSeniority(c *pb.Seniority) gossip.Seniority {
	return gossip.Seniority{
		Cluster: fromFounding(c.GetCluster()), Era: fromEra(c.GetEra()), OldestUp: c.GetOldestUpNumber(), OldestNode: fromNode(c.GetOldest()),
	}
}

func toClock(c gossip.Clock) []*pb.ClockEntry {
	return toList(c, func(e vclock.Entry[sharding.NodeUID]) *pb.ClockEntry {
		return &pb.ClockEntry{Uid: uint64(e.Node), Count: e.Count}
	})
}

// withoutMembers are the entries of a clock that belong to none of the members.
// Theirs travel with the record of the member, which names the node already.
func withoutMembers(c gossip.Clock, members []*gossip.Member) gossip.Clock {
	with := make(map[sharding.NodeUID]bool, len(members))
	for i := range members {
		with[members[i].Node.UID] = true
	}
	return c.Keep(func(u sharding.NodeUID) bool { return !with[u] })
}

func fromClock(s *pb.State) (gossip.Clock, error) {
	var c gossip.Clock
	for _, e := range s.GetVersion() {
		c = append(c, vclock.Entry[sharding.NodeUID]{Node: sharding.NodeUID(e.GetUid()), Count: e.GetCount()})
	}
	for _, m := range s.GetMembers() {
		if m.GetChanges() != 0 {
			c = append(c, vclock.Entry[sharding.NodeUID]{Node: sharding.NodeUID(m.GetNode().GetUid()), Count: m.GetChanges()})
		}
	}
	slices.SortFunc(c, func(a, b vclock.Entry[sharding.NodeUID]) int { return cmp.Compare(a.Node, b.Node) })
	if !c.Valid() || slices.ContainsFunc(c, func(e vclock.Entry[sharding.NodeUID]) bool { return e.Count == 0 }) {
		return nil, errors.New("the clock has a node twice, or a counter of 0")
	}
	return c, nil
}

// fromBits is nil for no bits, as the core has it.
func fromBits(b []byte) gossip.Bits {
	if len(b) == 0 {
		return nil
	}
	return b
}

func toState(s *gossip.State) *pb.State {
	return &pb.State{
		Cluster: toFounding(s.Cluster), Era: toEra(s.Era),
		Members: toList(s.Members, func(m *gossip.Member) *pb.Member {
			return &pb.Member{
				Node: toNode(m.Node), Name: m.Name, Roles: m.Roles, Status: statuses[m.Status], UpNumber: m.UpNumber,
				Zone: m.Zone, AppVersion: m.Version,
				Changes: s.Version.Count(m.Node.UID), HeardIn: m.HeardIn,
			}
		}),
		Observers: toList(s.Reach, func(r *gossip.Observer) *pb.Observer {
			return &pb.Observer{Node: toNode(r.Node), Version: r.Version, Observations: toList(r.Verdicts, toObservation)}
		}),
		Tombstones: toList(s.Tombstones, func(t gossip.Tombstone) *pb.Tombstone {
			return &pb.Tombstone{Node: toNode(t.Node), Era: t.Era}
		}),
		Version: toClock(withoutMembers(s.Version, s.Members)),
		Seen:    s.Seen,
	}
}

func toObservation(r gossip.SubjectVerdict) *pb.Observation {
	return &pb.Observation{Subject: toNode(r.Subject), Verdict: verdicts[r.Verdict], Version: r.Version}
}

func fromState(s *pb.State) (gossip.State, error) {
	clock, bad := fromClock(s)
	out := gossip.State{
		Cluster: fromFounding(s.GetCluster()), Era: fromEra(s.GetEra()),
		Members: toList(s.GetMembers(), func(m *pb.Member) *gossip.Member {
			status, ok := fromStatus(m.GetStatus())
			if !ok {
				bad = fmt.Errorf("a member has the unknown status %d", m.GetStatus())
			}
			return &gossip.Member{
				Node: fromNode(m.GetNode()), Name: m.GetName(), Roles: m.GetRoles(), Status: status, UpNumber: m.GetUpNumber(),
				Zone: m.GetZone(), Version: m.GetAppVersion(), HeardIn: m.GetHeardIn(),
			}
		}),
		Reach: toList(s.GetObservers(), func(o *pb.Observer) *gossip.Observer {
			return &gossip.Observer{Node: fromNode(o.GetNode()), Version: o.GetVersion(), Verdicts: toList(o.GetObservations(),
				func(r *pb.Observation) gossip.SubjectVerdict {
					verdict, ok := fromVerdict(r.GetVerdict())
					if !ok {
						bad = fmt.Errorf("an observation has the unknown verdict %d", r.GetVerdict())
					}
					return gossip.SubjectVerdict{Subject: fromNode(r.GetSubject()), Verdict: verdict, Version: r.GetVersion()}
				})}
		}),
		Tombstones: toList(s.GetTombstones(), func(t *pb.Tombstone) gossip.Tombstone {
			return gossip.Tombstone{Node: fromNode(t.GetNode()), Era: t.GetEra()}
		}),
		Version: clock,
		Seen:    fromBits(s.GetSeen()),
	}
	return out, bad
}

// statuses and verdicts map the core's numbers to the wire's, which never change.
var statuses = [...]pb.Status{
	gossip.Joining:  pb.Status_STATUS_JOINING,
	gossip.WeaklyUp: pb.Status_STATUS_WEAKLY_UP,
	gossip.Up:       pb.Status_STATUS_UP,
	gossip.Leaving:  pb.Status_STATUS_LEAVING,
	gossip.Exiting:  pb.Status_STATUS_EXITING,
	gossip.Down:     pb.Status_STATUS_DOWN,
}

var verdicts = [...]pb.Verdict{
	gossip.Reachable:   pb.Verdict_VERDICT_REACHABLE,
	gossip.Unreachable: pb.Verdict_VERDICT_UNREACHABLE,
	gossip.Terminated:  pb.Verdict_VERDICT_TERMINATED,
}

func fromStatus(s pb.Status) (gossip.Status, bool) {
	i := slices.Index(statuses[:], s)
	return gossip.Status(max(i, 0)), i > 0 // the first is none
}

func fromVerdict(v pb.Verdict) (gossip.Verdict, bool) {
	i := slices.Index(verdicts[:], v)
	return gossip.Verdict(max(i, 0)), i >= 0
}
