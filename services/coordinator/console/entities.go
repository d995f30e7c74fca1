package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/entitylist"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// owned is the route table for questions about entities.
type owned struct {
	view   coordinator.View
	names  map[sharding.NodeID]string
	owners map[sharding.ShardID]*sharding.Row // only shards that have a region
}

func ownedOf(v coordinator.View) *owned {
	o := &owned{view: v, names: names(&v), owners: map[sharding.ShardID]*sharding.Row{}}
	for i := range v.Rows {
		if r := &v.Rows[i]; !r.Owner.IsZero() {
			o.owners[r.Shard] = r
		}
	}
	return o
}

// name returns the name of a region, or its address while it is not registered.
func (o *owned) name(n sharding.NodeID) string { return cmp.Or(o.names[n], n.Addr) }

func (o *owned) is(n sharding.NodeID, region string) bool {
	return region == "" || region == o.name(n) || region == n.Addr
}

// regions returns the regions that own shards of a type, or of all, sorted by name. A region that is not registered
// is among them: its memory still has its entities.
func (o *owned) regions(typ sharding.EntityType, shard *uint32, region string) (all []asked) {
	for id, r := range o.owners { // order-free: sorted below
		if (typ == "" || typ == id.Type) && (shard == nil || *shard == id.Index) && o.is(r.Owner, region) {
			all = append(all, asked{r.Owner, o.name(r.Owner)})
		}
	}
	return sortAsked(all)
}

// checkRegion returns an error for a region that is not a member, and owns nothing either.
func (o *owned) checkRegion(region string) error {
	if region == "" || slices.ContainsFunc(o.view.Regions, func(r coordinator.RegionView) bool { return o.is(r.Node, region) }) ||
		slices.ContainsFunc(o.view.Rows, func(r sharding.Row) bool { return !r.Owner.IsZero() && o.is(r.Owner, region) }) {
		return nil
	}
	return twirp.NewErrorf(twirp.NotFound, "no region %s; see roost cluster status", region)
}

// checkEntities returns an error for a request that cannot be answered.
func checkEntities(req *adminv1.EntitiesRequest) error {
	switch {
	case req.Index != nil && req.Type == "":
		return twirp.NewError(twirp.InvalidArgument, `"index" is given without "type"`)
	case req.Stored && req.RunningMs != 0:
		return twirp.NewError(twirp.InvalidArgument, `"stored" cannot be combined with "running_ms": turns run in memory`)
	case req.RunningMs < 0:
		return twirp.NewErrorf(twirp.InvalidArgument, "running_ms is %d, must not be negative", req.RunningMs)
	case req.Prefix == "":
		return nil
	}
	if err := sharding.CheckID("prefix", req.Prefix, sharding.MaxIDLen); err != nil {
		return twirp.NewError(twirp.InvalidArgument, err.Error())
	}
	return nil
}

// Entities lists entities: those that the regions have in memory, or those that the journal has.
func (a *API) Entities(ctx context.Context, req *adminv1.EntitiesRequest) (*adminv1.EntitiesResponse, error) {
	if err := checkEntities(req); err != nil {
		return nil, err
	}
	w, err := a.beginListing(ctx, req.Type, "", req.After, req.Limit)
	if err != nil {
		return nil, err
	}
	if req.After != "" && w.after.Stored != req.Stored {
		return nil, twirp.NewError(twirp.InvalidArgument, `the field "after" belongs to a list of the other kind (stored entities or entities in memory); begin the list without it`)
	}
	o := ownedOf(w.view)
	if err := o.checkRegion(req.Region); err != nil {
		return nil, err
	}
	if req.Index != nil {
		i := slices.IndexFunc(w.view.Types, func(t sharding.TypeDesc) bool { return t.Type == w.typ })
		if n := w.view.Types[i].Shards; *req.Index >= n {
			return nil, twirp.NewErrorf(twirp.NotFound, "%s has no shard %d; the last one is %d", w.typ, *req.Index, n-1)
		}
	}
	if req.Stored {
		return a.storedEntities(ctx, req, &w, o)
	}
	return a.activeEntities(ctx, req, &w, o)
}

// activeEntities lists what the owners of the shards have in memory.
func (a *API) activeEntities(ctx context.Context, req *adminv1.EntitiesRequest, w *wanted, o *owned) (*adminv1.EntitiesResponse, error) {
	regions := o.regions(w.typ, req.Index, req.Region)
	answers, silent := ask(ctx, a, regions, func(ctx context.Context, c inspectionv1.Inspection, region int) (*inspectionv1.EntitiesResponse, error) {
		q := &inspectionv1.EntitiesRequest{
			Cluster: a.cfg.Cluster, To: uint64(regions[region].node.UID), Type: req.Type, Prefix: req.Prefix, Index: req.Index,
			RunningMs: req.RunningMs, Limit: uint32(w.limit),
		}
		if at := w.after; at.Shard.Type != "" {
			q.After = &inspectionv1.EntityPosition{Type: string(at.Shard.Type), Index: at.Shard.Index, Id: string(at.ID)}
		}
		return c.Entities(ctx, q)
	})
	out := &adminv1.EntitiesResponse{Silent: silent}
	after := entitylist.Position{Shard: w.after.Shard, ID: w.after.ID}
	var pages []entitylist.Page[*adminv1.Entity]
	for i, res := range answers {
		if res == nil {
			continue
		}
		out.Regions++
		page := entitylist.Page[*adminv1.Entity]{}
		for _, x := range res.Entities[:min(len(res.Entities), w.limit)] {
			if e := o.believe(regions[i], x, w); e != nil && after.Compare(positionOf(e)) < 0 {
				page.Rows = append(page.Rows, e)
			}
		}
		if n := res.Next; n != nil {
			page.Next = &entitylist.Position{Shard: sharding.ShardID{Type: sharding.EntityType(n.Type), Index: n.Index}, ID: sharding.EntityID(n.Id)}
			if page.Next.Compare(after) < 0 { // otherwise the list would never end
				out.Regions--
				out.Silent = append(out.Silent, &adminv1.Silent{Region: regions[i].name, Reason: "its answer goes back to where the list was before"})
				continue
			}
		}
		pages = append(pages, page)
	}
	all := entitylist.Merge(pages, w.limit, positionOf)
	out.Entities = all.Rows
	if all.Next != nil {
		out.Next = (&cursor{Shard: all.Next.Shard, ID: all.Next.ID}).String()
	}
	return out, nil
}

func positionOf(e *adminv1.Entity) entitylist.Position {
	return entitylist.Position{Shard: sharding.ShardID{Type: sharding.EntityType(e.Type), Index: e.Index}, ID: sharding.EntityID(e.Id)}
}

// believe returns a region's report about an entity, and nil if the region cannot know: the entity is in a shard that
// the region does not own (any more).
func (o *owned) believe(r asked, x *inspectionv1.ActiveEntity, w *wanted) *adminv1.Entity {
	e := sharding.Entity{Type: sharding.EntityType(x.GetType()), ID: sharding.EntityID(x.GetId())}
	i := slices.IndexFunc(o.view.Types, func(t sharding.TypeDesc) bool { return t.Type == e.Type })
	if i < 0 || e.Check() != nil || w.typ != "" && w.typ != e.Type {
		return nil
	}
	id := o.view.Types[i].ShardOf(e.ID)
	if row := o.owners[id]; row == nil || row.Owner != r.node || x.Index != id.Index {
		return nil
	}
	text := func(s string) string { return strings.ToValidUTF8(s[:min(len(s), sharding.MaxIDLen)], "\ufffd") }
	return &adminv1.Entity{
		Type: x.Type, Id: x.Id, Index: id.Index, Region: r.name, Epoch: sharding.Epoch(x.Epoch).String(), State: text(x.State),
		Mailbox: x.Mailbox, OldestMs: x.OldestMs, Running: text(x.Running), RunningMs: x.RunningMs, RunningSinceUnixMs: x.RunningSinceUnixMs,
		WaitsForType: text(x.WaitsForType), WaitsForId: text(x.WaitsForId), IdleMs: x.IdleMs, Record: x.Record, Staged: x.Staged, Bytes: x.Bytes,
	}
}

// storedPage is the number of entities that are listed at a time if few of them are wanted: some milliseconds of the
// journal.
const storedPage = 1000

// storedEntities lists what the journal has, for at most listTime.
func (a *API) storedEntities(ctx context.Context, req *adminv1.EntitiesRequest, w *wanted, o *owned) (*adminv1.EntitiesResponse, error) {
	until := time.Now().Add(listTime)
	out := &adminv1.EntitiesResponse{}
	for i := range o.view.Types {
		t := &o.view.Types[i]
		if t.Volatile || w.typ != "" && w.typ != t.Type || t.Type < w.after.Shard.Type {
			continue
		}
		from := journal.ListRequest{Type: t.Type, After: sharding.Entity{Type: t.Type, ID: before(req.Prefix)}, Limit: storedPage}
		if t.Type == w.after.Shard.Type {
			from.After.ID = max(from.After.ID, w.after.ID)
		}
		for more := true; more; {
			if len(out.Entities) >= w.limit || time.Now().After(until) {
				next := cursor{Shard: sharding.ShardID{Type: t.Type}, Stored: true}
				if from.After.ID != before(req.Prefix) { // that is not valid text
					next.ID = from.After.ID
				}
				out.Next = next.String()
				return out, nil
			}
			page, err := a.cfg.Journal().List(ctx, from)
			if err != nil {
				return nil, twirp.NewError(twirp.Internal, fmt.Sprintf("the journal cannot be read; try again: %v", err))
			}
			more = len(page) == from.Limit
			for _, e := range page {
				if !strings.HasPrefix(string(e.ID), req.Prefix) {
					more = false // what follows has a higher id
					break
				}
				if len(out.Entities) >= w.limit {
					more = true
					break
				}
				from.After = e
				id := t.ShardOf(e.ID)
				row := o.owners[id]
				if req.Index != nil && *req.Index != id.Index || req.Region != "" && (row == nil || !o.is(row.Owner, req.Region)) {
					continue
				}
				x := &adminv1.Entity{Type: string(e.Type), Id: string(e.ID), Index: id.Index}
				if row != nil {
					x.Region = o.name(row.Owner)
				}
				out.Entities = append(out.Entities, x)
			}
		}
	}
	return out, nil
}

// before is less than a prefix and all ids with it, and above all ids before them: no id has the byte
// 0xff, which is in no text.
func before(prefix string) sharding.EntityID {
	if prefix == "" {
		return ""
	}
	last := len(prefix) - 1
	return sharding.EntityID(prefix[:last] + string([]byte{prefix[last] - 1, 0xff}))
}
