package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/checkup"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/node/member"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// maxDescription is the longest description that is read of a process, in bytes.
const maxDescription = 64 << 10

// examined is a process to query for its setup.
type examined struct {
	role, name, zone string
	uid              uint64
	client           inspectionv1.Observer
	outOfReach       error // why it cannot be queried
}

// Examine asks all members and all gateways how they are set up, and lists what is unsafe or unwise.
func (a admin) Examine(ctx context.Context, _ *adminv1.ExamineRequest) (*adminv1.ExamineResponse, error) {
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	var list []examined
	members := a.s.agent.Members()
	for i := range members.Members {
		m := &members.Members[i]
		if role := roleOf(m); role != "" && m.Status != gossip.Down && m.Status != gossip.Removed {
			client, url := a.s.peers.Reach(member.IdentityOf(m.Name, m.Roles).Roles, m.Node.Addr)
			list = append(list, examined{role, m.Name, m.Zone, uint64(m.Node.UID), inspectionv1.NewObserverProtobufClient(url, client), nil})
		}
	}
	plain := &http.Client{Transport: bounded.Limits{Body: maxDescription}.Transport(&http.Transport{DisableKeepAlives: true})}
	for i := range v.Gateways {
		g := &v.Gateways[i]
		client, url := a.s.peers.ReachGateway(g.Peers, g.Management, plain)
		list = append(list, examined{"gateway", g.Node.Addr, "", uint64(g.Node.UID), inspectionv1.NewObserverProtobufClient(url, client), a.s.outOfReach(g)})
	}
	ev := a.s.describeAll(ctx, list)
	ev.Active = a.s.name
	if err := a.s.look(ctx, func() error {
		if e := a.s.core.FactsMissing(); e != (sharding.Entity{}) {
			ev.FactsMissing = e.String()
		}
		ev.RowsDeleted, ev.RowsDeletedAgo = a.s.rowsDeleted()
		for _, q := range a.s.core.Quarantine() {
			if q.State == coordinator.Quarantined {
				ev.Quarantined = append(ev.Quarantined, q.Entity.String())
			} else {
				ev.Suspects = append(ev.Suspects, q.Entity.String())
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	a.s.addPlacement(ev, &v)
	if err := a.loads(ctx, ev, names(&v)); err != nil {
		return nil, err
	}
	return &adminv1.ExamineResponse{Advice: checkup.Examine(ev), Processes: uint32(len(ev.Processes))}, nil
}

// addPlacement adds what this coordinator knows of shards, of the rollout and of lost regions.
func (s *Server) addPlacement(ev *checkup.Evidence, v *coordinator.View) {
	for i := range v.Unreadable {
		u := &v.Unreadable[i]
		ev.Unreadable = append(ev.Unreadable, checkup.Unreadable{Type: string(u.Type), Shards: len(u.Shards), Reason: unreadableNow(coordinator.UnreadableNow(*u))})
	}
	ev.Homeless = v.HomelessAll
	if len(v.Homeless) > 0 {
		ev.HomelessLongest, ev.HomelessFor = v.Homeless[0].Shard.String(), v.Homeless[0].For
	}
	if v.Rollout.On {
		ev.Rollout, ev.RolloutStill = v.Rollout.Target, v.Rollout.Still
	}
	now := time.Now()
	for _, l := range s.agent.Losses() {
		if l.Member.HasRole("region") {
			ev.Lost = append(ev.Lost, checkup.Lost{Name: l.Member.Name, Ago: now.Sub(l.At), Reason: l.Reason})
		}
	}
}

// loads adds what regions have reported of their loads.
func (a admin) loads(ctx context.Context, ev *checkup.Evidence, names map[sharding.NodeID]string) error {
	weights := a.s.cfg.Allocation.Weights()
	return a.s.look(ctx, func() error {
		for _, s := range a.s.core.MostLoaded(weights, checkup.HotShard) {
			ev.Shards = append(ev.Shards, checkup.LoadedShard{Shard: s.Shard.String(), Region: cmp.Or(names[s.Owner], s.Owner.Addr), Load: s.Cost})
		}
		for _, r := range a.s.core.View().Regions {
			if r.LoadReported {
				ev.Regions++
				ev.Load += weights.Cost(r.Load)
			}
		}
		return nil
	})
}

func roleOf(m *gossip.MemberView) string {
	for _, role := range []string{"coordinator", "region"} {
		if m.HasRole(role) {
			return role
		}
	}
	return ""
}

// describeAll asks processes how they are set up, all at once, within coordinator.query_timeout.
func (s *Server) describeAll(ctx context.Context, list []examined) *checkup.Evidence {
	answers := make([]checkup.Process, len(list))
	reasons := eachWithin(ctx, s.cfg.QueryTimeout, len(list), func(ctx context.Context, i int) error {
		if list[i].outOfReach != nil {
			return list[i].outOfReach
		}
		began := time.Now()
		p, err := list[i].client.Describe(ctx, &inspectionv1.DescribeRequest{Cluster: s.cfg.ClusterName, To: list[i].uid})
		if err != nil {
			return err
		}
		p.Zone = list[i].zone
		answers[i] = checkup.Process{Process: p, Clock: clockOffset(time.UnixMilli(p.NowUnixMs), began, time.Now())}
		return nil
	})
	ev := &checkup.Evidence{}
	for i, err := range reasons {
		if err != nil {
			ev.Silent = append(ev.Silent, checkup.Silent{Role: list[i].role, Name: list[i].name, Reason: s.reason(err, s.cfg.QueryTimeout)})
			continue
		}
		ev.Processes = append(ev.Processes, answers[i])
	}
	return ev
}

// clockOffset returns by how much another clock is fast compared to this one, at least; negative: it is slow. The
// other clock was read at some time between from and to, so its reading may be right if it is between them.
func clockOffset(read, from, to time.Time) time.Duration {
	switch {
	case read.After(to):
		return read.Sub(to)
	case read.Before(from.Add(-time.Millisecond)): // the reading has whole milliseconds
		return read.Sub(from)
	}
	return 0
}
