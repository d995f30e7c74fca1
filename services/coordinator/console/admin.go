package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// view is the core's view at the active coordinator.
func (a *API) view(ctx context.Context) (v coordinator.View, err error) {
	err = a.cfg.LookActive(ctx, func(core Core) error {
		v = core.View()
		return nil
	})
	return v, err
}

// Members lists the members as this node sees them.
func (a *API) Members(ctx context.Context, _ *adminv1.MembersRequest) (*adminv1.MembersResponse, error) {
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	out := &adminv1.MembersResponse{Self: a.cfg.Name, Active: a.cfg.Self.Addr, Term: uint32(v.Term), Freeze: toFreeze(v.Freeze), Brake: toBrake(v.Brake), P99Us: v.Brake.P99.Microseconds(), UsualP99Us: v.Brake.Baseline.Microseconds()}
	for _, g := range v.Gateways {
		out.Gateways = append(out.Gateways, toGateway(g))
	}
	members := a.cfg.Members.Members()
	for i := range members.Members {
		out.Members = append(out.Members, toMember(&members.Members[i], &v, a.cfg.Self, a.cfg.Weights))
	}
	for _, q := range members.Banned {
		out.Quarantined = append(out.Quarantined, &adminv1.Quarantined{Node: q.Node.String(), Reason: q.Reason})
	}
	slices.SortFunc(out.Members, func(x, y *adminv1.Member) int {
		return cmp.Or(slices.Compare(x.Roles, y.Roles), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Addr, y.Addr))
	})
	return out, nil
}

func toMember(m *gossip.MemberView, v *coordinator.View, self sharding.NodeID, weights allocation.Weights) *adminv1.Member {
	out := &adminv1.Member{
		Name: m.Name, Roles: m.Roles, Status: m.Status.String(), Reachable: m.Reachable && m.ReachableByMe, Active: m.Node == self,
		Addr: m.Node.Addr, Uid: fmt.Sprintf("%x", uint64(m.Node.UID)), Zone: m.Zone, AppVersion: m.Version,
	}
	for i := range v.Regions {
		if r := &v.Regions[i]; r.Node == m.Node {
			out.Shards, out.Draining, out.Capacity, out.Cordoned = uint32(r.Shards), r.Draining, r.Capacity, r.Cordoned
			out.Labels = map[string]string{}
			for _, l := range r.Labels {
				out.Labels[l.Name] = l.Value
			}
			if r.LoadReported {
				out.Load = toLoad(r, weights)
			}
		}
	}
	return out
}

// toLoad is the load of a region that has reported it.
func toLoad(r *coordinator.RegionView, weights allocation.Weights) *adminv1.Load {
	return &adminv1.Load{
		Cost: weights.Cost(r.Load), Handlers: r.Load.Processors, Commands: r.Load.Commands, Waiting: r.Load.Waiting,
		JournalBytes: r.Load.JournalBytes, Entities: r.Load.Entities, Bytes: r.Load.Bytes,
		Processors: r.Process.Processors, Gc: float64(r.Process.MilliGC) / 1000,
		MemoryUsed: r.Process.MemoryUsed, MemoryLimit: r.Process.MemoryLimit, Complete: r.LoadComplete,
	}
}

// viewOf is view for a request about one type, or about all if typ is empty. It refuses a type that is not
// declared.
func (a *API) viewOf(ctx context.Context, typ string) (coordinator.View, error) {
	if typ != "" {
		if err := sharding.CheckEntityType("type", sharding.EntityType(typ)); err != nil {
			return coordinator.View{}, twirp.NewError(twirp.InvalidArgument, err.Error())
		}
	}
	v, err := a.view(ctx)
	if err == nil && typ != "" {
		_, err = typeOf(&v, sharding.EntityType(typ))
	}
	return v, err
}

// typeOf returns a declared type. The error for another one names those that are declared.
func typeOf(v *coordinator.View, typ sharding.EntityType) (*sharding.TypeDesc, error) {
	i := slices.IndexFunc(v.Types, func(t sharding.TypeDesc) bool { return t.Type == typ })
	if i < 0 {
		return nil, twirp.NewErrorf(twirp.NotFound, "no entity type %s; declared are %s", typ, typeNames(v))
	}
	return &v.Types[i], nil
}

// names finds region names by node.
func names(v *coordinator.View) map[sharding.NodeID]string {
	out := map[sharding.NodeID]string{}
	for _, r := range v.Regions {
		out[r.Node] = r.Name
	}
	return out
}

func toShard(r sharding.Row, why sharding.Cause, names map[sharding.NodeID]string) *adminv1.Shard {
	s := &adminv1.Shard{
		Type: string(r.Shard.Type), Index: r.Shard.Index, Addr: r.Owner.Addr,
		Epoch: r.Epoch.String(), Phase: r.Phase.String(), Region: names[r.Owner], Reason: r.Reason.String(), Cause: why.String(),
	}
	if s.Region == "" {
		s.Region = r.Owner.Addr
	}
	return s
}

// Shards lists the route table.
func (a *API) Shards(ctx context.Context, req *adminv1.ShardsRequest) (*adminv1.ShardsResponse, error) {
	v, err := a.viewOf(ctx, req.Type)
	if err != nil {
		return nil, err
	}
	out := &adminv1.ShardsResponse{}
	named := names(&v)
	sums := map[sharding.EntityType]*adminv1.TypeSummary{}
	for _, t := range v.Types {
		if req.Type != "" && req.Type != string(t.Type) {
			continue
		}
		sum := &adminv1.TypeSummary{Type: string(t.Type), Shards: t.Shards, Volatile: t.Volatile}
		if t.Rule != (sharding.ShardRule{}) {
			sum.ShardedBy = t.Rule.String()
		}
		for _, c := range t.Commands {
			sum.Commands = append(sum.Commands, &adminv1.TypeCommand{Name: c.Name, ReadOnly: c.ReadOnly})
		}
		sums[t.Type] = sum
		out.Types = append(out.Types, sum)
	}
	for i, r := range v.Rows {
		sum := sums[r.Shard.Type]
		if sum == nil {
			continue
		}
		sum.Allocated++
		if r.Phase != sharding.Serving && r.Reason == 0 {
			sum.Moving++
		}
		if s := toShard(r, v.Causes[i], named); req.Region == "" || s.Region == req.Region || s.Addr == req.Region {
			out.Shards = append(out.Shards, s)
		}
	}
	if req.Region == "" {
		out.Unreadable = Unreadable(v.Unreadable, req.Type)
	}
	return out, nil
}

// Unreadable lists the shards that no region reads, of one type or of all.
func Unreadable(list []coordinator.UnreadableShards, typ string) (out []*adminv1.Unreadable) {
	for _, u := range list {
		if typ == "" || typ == string(u.Type) {
			out = append(out, &adminv1.Unreadable{
				Type: string(u.Type), Shards: u.Shards, Forms: formTexts(u.Forms), Region: u.Closest, Version: u.Version, By: u.By, Looked: u.Looked,
			})
		}
	}
	return out
}

// DrainStays returns the reason why a drain does not end, and the remedy.
func DrainStays(u *coordinator.UnreadableShards) string {
	if u.Closest == "" {
		return "there is no other region that could be given them; start one"
	}
	return fmt.Sprintf("%s (version %s) does not read %s; start a region of %s",
		u.Closest, cmp.Or(u.Version, "-"), strings.Join(formTexts(u.Forms), "; "), readers(u.By, u.Version))
}

// readers names the versions that read what is missing. A region of version lacks it: if that
// name is among them, two builds have it.
func readers(by []string, version string) string {
	if len(by) == 0 {
		return "a version that reads it"
	}
	by = slices.Clone(by)
	for i := range by {
		if by[i] == version {
			by[i] = "another build of " + by[i]
		}
	}
	return strings.Join(by, " or ") + ", or of another version that reads it"
}

// UnreadableNow returns the reason why shards are unreadable, and the remedy.
func UnreadableNow(o coordinator.UnreadableNow) string {
	if o.Closest == "" {
		return "no registered region can read their stored data; start a region of the version that stored it"
	}
	return fmt.Sprintf("no region reads all that may be stored of them. %s (version %s) does not read %s. Start a region of %s; if the region that had them crashed, roost rollout look finds out which forms it stored",
		o.Closest, cmp.Or(o.Version, "-"), strings.Join(formTexts(o.Forms), "; "), readers(o.By, o.Version))
}

func typeNames(v *coordinator.View) string {
	var out []string
	for _, t := range v.Types {
		out = append(out, string(t.Type))
	}
	if len(out) == 0 {
		return "none yet: no region has registered"
	}
	return strings.Join(out, ", ")
}

// Where returns the region that owns an entity.
func (a *API) Where(ctx context.Context, req *adminv1.WhereRequest) (*adminv1.WhereResponse, error) {
	entity := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	if err := entity.Check(); err != nil {
		return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
	}
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	t, err := typeOf(&v, entity.Type)
	if err != nil {
		return nil, err
	}
	return toWhere(&v, t, entity.ID), nil
}

// toWhere returns where an entity of a type is.
func toWhere(v *coordinator.View, t *sharding.TypeDesc, of sharding.EntityID) *adminv1.WhereResponse {
	id := t.ShardOf(of)
	row, why := sharding.Row{Shard: id}, sharding.Cause(0)
	if j := slices.IndexFunc(v.Rows, func(r sharding.Row) bool { return r.Shard == id }); j >= 0 {
		row, why = v.Rows[j], v.Causes[j]
	}
	out := &adminv1.WhereResponse{Shard: toShard(row, why, names(v))}
	if key := t.Rule.Key(of); key != string(of) {
		out.ShardKey = key
	}
	return out
}

// Rollout lists the versions that run, and counts the shards that are left to move.
func (a *API) Rollout(ctx context.Context, _ *adminv1.RolloutRequest) (*adminv1.RolloutResponse, error) {
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	return toRollout(&v), nil
}

func toRollout(v *coordinator.View) *adminv1.RolloutResponse {
	r := &v.Rollout
	out := &adminv1.RolloutResponse{
		Target: r.Target, On: r.On, FrozenMs: r.FrozenFor.Milliseconds(), Seen: r.Seen,
		Unread: uint32(r.Unread), NextTarget: r.Next, NextTargetMs: r.NextIn.Milliseconds(),
	}
	versions := map[string]*adminv1.RolloutVersion{}
	of := map[sharding.NodeID]*adminv1.RolloutVersion{}
	for _, region := range v.Regions {
		if !region.Registered {
			continue
		}
		known := versions[region.Version]
		if known == nil {
			known = &adminv1.RolloutVersion{Version: region.Version, Target: r.Target != "" && region.Version == r.Target}
			versions[region.Version], out.Versions = known, append(out.Versions, known)
		}
		known.Regions = append(known.Regions, cmp.Or(region.Name, region.Node.Addr))
		of[region.Node] = known
	}
	for _, row := range v.Rows {
		owner := of[row.Owner]
		if owner == nil || !owner.Target {
			out.Left++
		}
		if owner != nil {
			owner.Shards++
			if row.Phase != sharding.Serving {
				owner.Moving++
			}
		}
	}
	for _, version := range out.Versions {
		slices.Sort(version.Regions)
	}
	slices.SortFunc(out.Versions, func(x, y *adminv1.RolloutVersion) int {
		return cmp.Or(-compareBool(x.Target, y.Target), cmp.Compare(x.Version, y.Version))
	})
	for _, c := range r.CannotRead {
		out.CannotRead = append(out.CannotRead, &adminv1.CannotRead{Reader: c.Reader, Writer: c.Writer, Type: string(c.Type), Forms: formTexts(c.Forms)})
	}
	out.Unreadable = Unreadable(v.Unreadable, "")
	return out
}

func formTexts(forms []sharding.Form) []string {
	var out []string
	for _, f := range forms {
		out = append(out, f.String())
	}
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func toBrake(b coordinator.BrakeView) *adminv1.Brake {
	if b.Since.IsZero() {
		return nil
	}
	return &adminv1.Brake{
		State: b.State.String(), Part: uint32(b.Part), SinceUnixMs: unixMs(b.Since), NextUnixMs: unixMs(b.Next), Probes: uint32(b.Trials),
		SlowUs: b.Slow.Microseconds(), UsualUs: b.Usual.Microseconds(), P99Us: b.P99.Microseconds(), BaselineUs: b.Baseline.Microseconds(), Why: b.Why(),
	}
}

func toGateway(g coordinator.GatewayView) *adminv1.Gateway {
	return &adminv1.Gateway{
		Addr: g.Node.Addr, Uid: fmt.Sprintf("%x", uint64(g.Node.UID)), Management: g.Management, Commands: g.Commands, Refused: g.Refused,
		P50Us: g.P50.Microseconds(), P99Us: g.P99.Microseconds(), HeardUnixMs: unixMs(g.HeardAt),
	}
}
