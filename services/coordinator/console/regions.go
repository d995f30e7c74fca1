package console

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// Regions queries all regions about the contents of their memory. It decides nothing.
func (a *API) Regions(ctx context.Context, req *adminv1.RegionsRequest) (*adminv1.RegionsResponse, error) {
	timeout, err := a.patience(req.TimeoutMs)
	if err != nil {
		return nil, err
	}
	v, err := a.viewOf(ctx, req.Type)
	if err != nil {
		return nil, err
	}
	o := ownedOf(v)
	if err := o.checkRegion(req.Region); err != nil {
		return nil, err
	}
	regions := o.regions(sharding.EntityType(req.Type), nil, req.Region)
	for _, r := range v.Regions { // a region without shards has an answer too
		if r.Registered && o.is(r.Node, req.Region) && (req.Type == "" || slices.Contains(r.Types, sharding.EntityType(req.Type))) {
			regions = append(regions, asked{r.Node, o.name(r.Node)})
		}
	}
	regions = sortAsked(regions)
	answers, silent := askWithin(ctx, a, timeout, regions, func(ctx context.Context, c inspectionv1.Inspection, region int) (*inspectionv1.ShardsResponse, error) {
		return c.Shards(ctx, &inspectionv1.ShardsRequest{Cluster: a.cfg.Cluster, To: uint64(regions[region].node.UID), Type: req.Type})
	})
	out := &adminv1.RegionsResponse{Silent: silent}
	for i, res := range answers {
		if res != nil {
			out.Regions = append(out.Regions, toRegionState(regions[i], res, v.Types))
		}
	}
	return out, nil
}

// toRegionState turns a region's report about itself into an answer. The report counts only for existing types.
func toRegionState(r asked, res *inspectionv1.ShardsResponse, types []sharding.TypeDesc) *adminv1.RegionState {
	out := &adminv1.RegionState{Region: r.name, Addr: r.node.Addr, Buffered: res.Buffered, BufferedBytes: res.BufferedBytes}
	var all sharding.Load
	sum := uint32(0)
	for _, t := range res.Types {
		if !slices.ContainsFunc(types, func(d sharding.TypeDesc) bool { return string(d.Type) == t.GetType() }) ||
			slices.ContainsFunc(out.Types, func(h *adminv1.Holdings) bool { return h.Type == t.Type }) {
			continue
		}
		load := sharding.Load{
			HandlerMicros: t.HandlerMicros, MilliCommands: t.MilliCommands, MilliWaiting: t.MilliWaiting, JournalBytes: t.JournalBytes, Entities: t.Entities, Bytes: t.Bytes,
		}.Bounded()
		out.Types = append(out.Types, toHoldings(t.Type, t.Shards, load))
		all, sum = all.Plus(load), sum+t.Shards
	}
	out.All = toHoldings("", sum, all)
	return out
}

func toHoldings(typ string, shards uint32, l sharding.Load) *adminv1.Holdings {
	return &adminv1.Holdings{
		Type: typ, Shards: shards, Entities: l.Entities, Bytes: l.Bytes, Waiting: float64(l.MilliWaiting) / 1e3,
		Commands: float64(l.MilliCommands) / 1e3, Handlers: float64(l.HandlerMicros) / 1e6, JournalBytes: float64(l.JournalBytes),
	}
}

// sortAsked sorts regions by name, each once.
func sortAsked(all []asked) []asked {
	slices.SortFunc(all, func(a, b asked) int { return cmp.Or(cmp.Compare(a.name, b.name), a.node.Compare(b.node)) })
	return slices.Compact(all)
}

// ShardStates lists shards with what their owners have in memory.
func (a *API) ShardStates(ctx context.Context, req *adminv1.ShardStatesRequest) (*adminv1.ShardStatesResponse, error) {
	timeout, err := a.patience(req.TimeoutMs)
	if err != nil {
		return nil, err
	}
	w, err := a.beginListing(ctx, req.Type, "", req.After, req.Limit)
	if err != nil {
		return nil, err
	}
	o := ownedOf(w.view)
	if err := o.checkRegion(req.Region); err != nil {
		return nil, err
	}
	rows, more := o.page(&w, req.Region)
	var regions []asked
	for _, i := range rows {
		n := w.view.Rows[i].Owner
		regions = append(regions, asked{n, o.name(n)})
	}
	regions = sortAsked(regions)
	answers, silent := askWithin(ctx, a, timeout, regions, func(ctx context.Context, c inspectionv1.Inspection, region int) (*inspectionv1.ShardsResponse, error) {
		q := &inspectionv1.ShardsRequest{Cluster: a.cfg.Cluster, To: uint64(regions[region].node.UID), Type: req.Type, Limit: listMost}
		if at := w.after.Shard; at.Type != "" {
			q.After = &inspectionv1.ShardPosition{Type: string(at.Type), Index: at.Index}
		}
		return c.Shards(ctx, q)
	})
	out := &adminv1.ShardStatesResponse{Silent: silent}
	held := map[sharding.ShardID]*inspectionv1.HeldShard{}
	var end sharding.ShardID // later shards are in another page; zero: none are
	for i, res := range answers {
		if res == nil {
			continue
		}
		out.Regions++
		last := w.after.Shard
		for _, x := range res.Shards[:min(len(res.Shards), listMost)] {
			id := sharding.ShardID{Type: sharding.EntityType(x.GetType()), Index: x.GetIndex()}
			if row := o.owners[id]; row != nil && row.Owner == regions[i].node {
				held[id] = x
			}
			last = id
		}
		if res.More && w.after.Shard.Compare(last) < 0 && (end == sharding.ShardID{} || last.Compare(end) < 0) {
			end = last
		}
	}
	named := names(&w.view)
	for _, i := range rows {
		r := w.view.Rows[i]
		if end.Type != "" && end.Compare(r.Shard) < 0 && len(out.Shards) > 0 {
			more = true
			break
		}
		out.Shards = append(out.Shards, toShardState(toShard(r, w.view.Causes[i], named), held[r.Shard]))
	}
	if more {
		last := out.Shards[len(out.Shards)-1].Shard
		out.Next = (&cursor{Shard: sharding.ShardID{Type: sharding.EntityType(last.Type), Index: last.Index}}).String()
	}
	return out, nil
}

// page returns the places in the view of the rows of the next page: those that have an owner.
func (o *owned) page(w *wanted, region string) (rows []int, more bool) {
	for i := range o.view.Rows {
		r := &o.view.Rows[i]
		switch {
		case r.Owner.IsZero() || w.typ != "" && w.typ != r.Shard.Type || !o.is(r.Owner, region):
		case w.after.Shard.Type != "" && r.Shard.Compare(w.after.Shard) <= 0:
		case len(rows) == w.limit:
			return rows, true
		default:
			rows = append(rows, i)
		}
	}
	return rows, false
}

func toShardState(s *adminv1.Shard, x *inspectionv1.HeldShard) *adminv1.ShardState {
	out := &adminv1.ShardState{Shard: s, Unknown: x == nil}
	if x == nil {
		return out
	}
	load := sharding.Load{
		HandlerMicros: x.HandlerMicros, MilliCommands: x.MilliCommands, MilliWaiting: x.MilliWaiting, JournalBytes: x.JournalBytes, Entities: x.Entities, Bytes: x.Bytes,
	}.Bounded()
	out.Holdings = toHoldings(s.Type, 1, load)
	out.Held, out.Buffered = strings.ToValidUTF8(x.Phase[:min(len(x.Phase), sharding.MaxTypeLen)], "\ufffd"), x.Buffered
	return out
}
