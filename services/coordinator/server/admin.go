package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// admin answers operators. Only the active coordinator knows the shards; a
// standby says who is active.
type admin struct{ s *Server }

// view is the core's view at the active coordinator.
func (a admin) view(ctx context.Context) (v coordinator.View, err error) {
	err = a.s.look(ctx, func() error {
		if a.s.core.Active() == 0 {
			return a.s.errStandby()
		}
		v = a.s.core.View()
		return nil
	})
	return v, err
}

// Members lists the members as this node sees them.
func (a admin) Members(ctx context.Context, _ *adminv1.MembersRequest) (*adminv1.MembersResponse, error) {
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	out := &adminv1.MembersResponse{Self: a.s.name, Active: a.s.self.Addr, Term: uint32(v.Term), Freeze: toFreeze(v.Freeze), Brake: toBrake(v.Brake), P99Us: v.Brake.P99.Microseconds(), UsualP99Us: v.Brake.Baseline.Microseconds()}
	for _, g := range v.Gateways {
		out.Gateways = append(out.Gateways, toGateway(g))
	}
	members := a.s.agent.Members()
	for i := range members.Members {
		out.Members = append(out.Members, toMember(&members.Members[i], &v, a.s.self, a.s.cfg.Allocation.Weights()))
	}
	for _, q := range members.Quarantined {
		out.Quarantined = append(out.Quarantined, &adminv1.Quarantined{Node: q.Node.String(), Reason: q.Reason})
	}
	slices.SortFunc(out.Members, func(x, y *adminv1.Member) int {
		return cmp.Or(slices.Compare(x.Roles, y.Roles), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Addr, y.Addr))
	})
	return out, nil
}

func toMember(m *gossip.MemberView, v *coordinator.View, self sharding.NodeID, weights allocation.Weights) *adminv1.Member {
	out := agent.ToAdmin(m)
	out.Active = m.Node == self
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

// names finds region names by node.
func names(v *coordinator.View) map[sharding.NodeID]string {
	out := map[sharding.NodeID]string{}
	for _, r := range v.Regions {
		out[r.Node] = r.Name
	}
	return out
}

func toShard(r sharding.Row, names map[sharding.NodeID]string) *adminv1.Shard {
	s := &adminv1.Shard{
		Type: string(r.Shard.Type), Index: r.Shard.Index, Addr: r.Owner.Addr,
		Epoch: r.Epoch.String(), Phase: r.Phase.String(), Region: names[r.Owner], Reason: r.Reason.String(),
	}
	if s.Region == "" {
		s.Region = r.Owner.Addr
	}
	return s
}

// Shards lists the route table.
func (a admin) Shards(ctx context.Context, req *adminv1.ShardsRequest) (*adminv1.ShardsResponse, error) {
	if req.Type != "" {
		if err := sharding.CheckEntityType("type", sharding.EntityType(req.Type)); err != nil {
			return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
		}
	}
	v, err := a.view(ctx)
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
		sums[t.Type] = sum
		out.Types = append(out.Types, sum)
	}
	for _, r := range v.Rows {
		sum := sums[r.Shard.Type]
		if sum == nil {
			continue
		}
		sum.Allocated++
		if r.Phase != sharding.Serving && r.Reason == 0 {
			sum.Moving++
		}
		if s := toShard(r, named); req.Region == "" || s.Region == req.Region || s.Addr == req.Region {
			out.Shards = append(out.Shards, s)
		}
	}
	if req.Region == "" {
		out.Unreadable = unreadable(v.Unreadable, req.Type)
	}
	if req.Type != "" && len(out.Types) == 0 {
		return nil, twirp.NewErrorf(twirp.NotFound, "no entity type %s; declared are %s", req.Type, typeNames(&v))
	}
	return out, nil
}

// unreadable lists the shards that no region reads, of one type or of all.
func unreadable(list []coordinator.UnreadableShards, typ string) (out []*adminv1.Unreadable) {
	for _, u := range list {
		if typ == "" || typ == string(u.Type) {
			out = append(out, &adminv1.Unreadable{
				Type: string(u.Type), Shards: u.Shards, Forms: formTexts(u.Forms), Region: u.Closest, Version: u.Version, By: u.By, Looked: u.Looked,
			})
		}
	}
	return out
}

// drainStays says why a drain does not end, and what to do.
func drainStays(u *coordinator.UnreadableShards) string {
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

// unreadableNow says why shards are unreadable, and what to do.
func unreadableNow(o coordinator.UnreadableNow) string {
	if o.Closest == "" {
		return "no region is here that could read what is stored of them; start one of the version that stored it"
	}
	return fmt.Sprintf("no region reads all that may be stored of them. %s (version %s) does not read %s. Start a region of %s; if the region that had them crashed, roost rollout look finds out what it has stored",
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
	return fmt.Sprint(out)
}

// Where returns the region that owns an entity.
func (a admin) Where(ctx context.Context, req *adminv1.WhereRequest) (*adminv1.WhereResponse, error) {
	entity := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	if err := entity.Check(); err != nil {
		return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
	}
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(v.Types, func(t sharding.TypeDesc) bool { return t.Type == entity.Type })
	if i < 0 {
		return nil, twirp.NewErrorf(twirp.NotFound, "no entity type %s; declared are %s", req.Type, typeNames(&v))
	}
	id := v.Types[i].ShardOf(entity.ID)
	row := sharding.Row{Shard: id}
	if j := slices.IndexFunc(v.Rows, func(r sharding.Row) bool { return r.Shard == id }); j >= 0 {
		row = v.Rows[j]
	}
	out := &adminv1.WhereResponse{Shard: toShard(row, names(&v))}
	if key := v.Types[i].Rule.Key(entity.ID); key != req.Id {
		out.ShardKey = key
	}
	return out, nil
}

// Drain hands all shards of a region off, or ends that.
func (a admin) Drain(ctx context.Context, req *adminv1.DrainRequest) (*adminv1.DrainResponse, error) {
	var out adminv1.DrainResponse
	err := a.s.look(ctx, func() error {
		if a.s.core.Active() == 0 {
			return a.s.errStandby()
		}
		r, err := findRegion(a.s.core.View().Regions, req.Region)
		if err != nil {
			return err
		}
		out.Remaining, out.Stays = uint32(r.Shards), unreadable(r.Stays, "")
		if !req.DryRun {
			a.s.step(coordinator.DrainRegion{Region: r.Node, Resume: req.Resume})
		}
		return nil
	})
	return &out, err
}

// findRegion finds a region by name, address, or address and uid.
func findRegion(regions []coordinator.RegionView, name string) (found coordinator.RegionView, err error) {
	var all []string
	for _, r := range regions {
		if r.Node.String() == name {
			return r, nil
		}
		if r.Name == name || r.Node.Addr == name {
			found, all = r, append(all, r.Node.String())
		}
	}
	switch len(all) {
	case 0:
		return found, twirp.NewErrorf(twirp.NotFound, "no region %s; see roost members", name)
	case 1:
		return found, nil
	}
	return found, twirp.NewErrorf(twirp.InvalidArgument, "%q is the name of several regions; choose one of %s", name, strings.Join(all, ", "))
}

// Rollout tells which versions run, and what is left to move.
func (a admin) Rollout(ctx context.Context, _ *adminv1.RolloutRequest) (*adminv1.RolloutResponse, error) {
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
	out.Unreadable = unreadable(v.Unreadable, "")
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

// Look has the shards that no region reads looked at.
func (a admin) Look(ctx context.Context, _ *adminv1.LookRequest) (*adminv1.LookResponse, error) {
	out := &adminv1.LookResponse{}
	err := a.s.look(ctx, func() error {
		if a.s.core.Active() == 0 {
			return a.s.errStandby()
		}
		a.s.step(coordinator.LookAtShards{})
		v := a.s.core.View()
		out.Unreadable = unreadable(v.Unreadable, "")
		return nil
	})
	return out, err
}

// SetTarget makes a version the target of rollouts. One that no region has now or had
// before is refused: a region of a new version makes it the target by itself.
func (a admin) SetTarget(ctx context.Context, req *adminv1.SetTargetRequest) (*adminv1.SetTargetResponse, error) {
	if err := sharding.CheckText("version", req.Version, sharding.MaxTypeLen); err != nil {
		return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
	}
	if req.By != "" {
		if err := sharding.CheckText("by", req.By, sharding.MaxTypeLen); err != nil {
			return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
		}
	}
	out := &adminv1.SetTargetResponse{Target: req.Version}
	err := a.s.look(ctx, func() error {
		if a.s.core.Active() == 0 {
			return a.s.errStandby()
		}
		v := a.s.core.View()
		known := append(slices.Clone(v.Rollout.Seen), v.Rollout.Target)
		for _, r := range v.Regions {
			known = append(known, r.Version)
			if r.Version == req.Version {
				out.Regions = append(out.Regions, cmp.Or(r.Name, r.Node.Addr))
			}
		}
		if !slices.Contains(known, req.Version) {
			slices.Sort(known)
			known = slices.DeleteFunc(slices.Compact(known), func(v string) bool { return v == "" })
			return twirp.NewErrorf(twirp.NotFound, "no region has or had version %q; known are %q. A region of a new version makes it the target when it registers", req.Version, known)
		}
		if out.Before = v.Rollout.Target; out.Before != req.Version {
			a.s.step(coordinator.SetTarget{Version: req.Version, By: req.By})
		}
		r := a.s.core.View().Rollout
		out.Stored, out.Unread, out.NextTarget, out.NextTargetMs = r.Stored, uint32(r.Unread), r.Next, r.NextIn.Milliseconds()
		return nil
	})
	return out, err
}
