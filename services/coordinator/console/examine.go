package console

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/diagnosis"
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
func (a *API) Examine(ctx context.Context, _ *adminv1.ExamineRequest) (*adminv1.ExamineResponse, error) {
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	var list []examined
	members := a.cfg.Members.Members()
	for i := range members.Members {
		m := &members.Members[i]
		if role := roleOf(m); role != "" && m.Status != gossip.Down && m.Status != gossip.Removed {
			client, url := a.cfg.Peers.Reach(member.IdentityOf(m.Name, m.Roles).Roles, m.Node.Addr)
			list = append(list, examined{role, m.Name, m.Zone, uint64(m.Node.UID), inspectionv1.NewObserverProtobufClient(url, client), nil})
		}
	}
	plain := &http.Client{Transport: bounded.Limits{Body: maxDescription}.Transport(&http.Transport{DisableKeepAlives: true})}
	for i := range v.Gateways {
		g := &v.Gateways[i]
		client, url := a.cfg.Peers.ReachGateway(g.Peers, g.Management, plain)
		list = append(list, examined{"gateway", g.Node.Addr, "", uint64(g.Node.UID), inspectionv1.NewObserverProtobufClient(url, client), a.outOfReach(g)})
	}
	ev := a.describeAll(ctx, list)
	ev.Active = a.cfg.Name
	if err := a.cfg.Look(ctx, func(core Core) error {
		if e := core.FactsMissing(); e != (sharding.Entity{}) {
			ev.FactsMissing = e.String()
		}
		ev.RowsDeleted, ev.RowsDeletedAgo = RowsDeleted(core)
		for _, q := range core.Quarantine() {
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
	a.addPlacement(ev, &v)
	if err := a.loads(ctx, ev, names(&v)); err != nil {
		return nil, err
	}
	out := &adminv1.ExamineResponse{Processes: uint32(len(ev.Processes))}
	for _, x := range diagnosis.Examine(ev) {
		out.Advice = append(out.Advice, &adminv1.Advice{Name: x.Name, Severity: x.Severity, Text: x.Text, Next: x.Next, Processes: x.Processes})
	}
	return out, nil
}

// addPlacement adds what this coordinator knows of shards, of the rollout and of lost regions.
func (a *API) addPlacement(ev *diagnosis.Cluster, v *coordinator.View) {
	for i := range v.Unreadable {
		u := &v.Unreadable[i]
		ev.Unreadable = append(ev.Unreadable, diagnosis.UnreadableShards{Type: string(u.Type), Shards: len(u.Shards), Reason: UnreadableNow(coordinator.UnreadableNow(*u))})
	}
	ev.Homeless = v.HomelessAll
	if len(v.Homeless) > 0 {
		ev.HomelessLongest, ev.HomelessFor = v.Homeless[0].Shard.String(), v.Homeless[0].For
	}
	if v.Rollout.On {
		ev.Rollout, ev.RolloutStill = v.Rollout.Target, v.Rollout.Still
	}
	now := time.Now()
	for _, l := range a.cfg.Members.Losses() {
		if l.Member.HasRole("region") {
			ev.Lost = append(ev.Lost, diagnosis.LostRegion{Name: l.Member.Name, Ago: now.Sub(l.At), Reason: l.Reason})
		}
	}
}

// loads adds what regions have reported of their loads.
func (a *API) loads(ctx context.Context, ev *diagnosis.Cluster, names map[sharding.NodeID]string) error {
	weights := a.cfg.Weights
	return a.cfg.Look(ctx, func(core Core) error {
		for _, s := range core.MostLoaded(weights, diagnosis.HotShard) {
			ev.Shards = append(ev.Shards, diagnosis.LoadedShard{Shard: s.Shard.String(), Region: cmp.Or(names[s.Owner], s.Owner.Addr), Load: s.Cost})
		}
		for _, r := range core.View().Regions {
			if r.LoadReported {
				ev.Regions++
				ev.Load += weights.Work(r.Load)
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
func (a *API) describeAll(ctx context.Context, list []examined) *diagnosis.Cluster {
	answers := make([]diagnosis.Setup, len(list))
	reasons := eachWithin(ctx, a.cfg.QueryTimeout, len(list), func(ctx context.Context, i int) error {
		if list[i].outOfReach != nil {
			return list[i].outOfReach
		}
		began := time.Now()
		p, err := list[i].client.Describe(ctx, &inspectionv1.DescribeRequest{Cluster: a.cfg.Cluster, To: list[i].uid})
		if err != nil {
			return err
		}
		p.Zone = list[i].zone
		answers[i] = diagnosis.Setup{Process: p, Clock: clockOffset(time.UnixMilli(p.NowUnixMs), began, time.Now())}
		return nil
	})
	ev := &diagnosis.Cluster{}
	for i, err := range reasons {
		if err != nil {
			ev.Silent = append(ev.Silent, diagnosis.SilentProcess{Role: list[i].role, Name: list[i].name, Reason: a.reason(err, a.cfg.QueryTimeout)})
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

// deletedShown bounds the time that readiness and "roost cluster doctor" report deleted rows: long enough for an operator to
// see it after the take-over, which takes seconds.
const deletedShown = time.Hour

// RowsDeleted describes rows of the coordinators that were deleted from the journal lately; "": none.
func RowsDeleted(core Core) (what string, ago time.Duration) {
	what, at := core.Deleted()
	if ago = time.Since(at); what == "" || ago > deletedShown {
		return "", 0
	}
	return what, ago
}
