package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

const (
	// entityRows bounds the listed reminders and sends of an entity, and its timers.
	entityRows = 20
	// maxShownPayload is the longest payload of an event that is shown, and maxShownRecords bounds the bytes of
	// records that are read for an answer. People read the answer, and cannot read much more.
	maxShownPayload, maxShownRecords = 64 << 10, 2 << 20
	// maxShownState is the longest state that is passed on.
	maxShownState = 1 << 20
)

// Entity returns everything known about one entity. It queries the entity's region and the journal concurrently. If
// one of them does not answer, the response reports so, and has the data of the other.
func (a *API) Entity(ctx context.Context, req *adminv1.EntityRequest) (*adminv1.EntityResponse, error) {
	timeout, err := a.patience(req.TimeoutMs)
	if err != nil {
		return nil, err
	}
	of := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	switch err := of.Check(); {
	case err != nil:
		return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
	case req.Records > listMost:
		return nil, twirp.NewErrorf(twirp.InvalidArgument, "records is %d, must be at most %d; go on with before", req.Records, listMost)
	case (req.Payloads || req.State) && !a.cfg.ShowPayloads:
		return nil, twirp.NewError(twirp.PermissionDenied, "this cluster does not show what entities store; set coordinator.show_payloads to allow it, and region.show_payloads for the state")
	}
	w, err := a.beginListing(ctx, req.Type, req.Id, "", entityRows)
	if err != nil {
		return nil, err
	}
	q := &entityQuestion{API: a, of: of, req: req, w: &w, o: ownedOf(w.view), timeout: timeout, out: &adminv1.EntityResponse{MayShowPayloads: a.cfg.ShowPayloads, MayTryCommands: a.cfg.TryCommands}}
	q.place()
	parts := []func(context.Context){q.askMemory}
	if req.State {
		parts = append(parts, q.askState)
	}
	if !q.out.Volatile {
		parts = append(parts, q.readRecords, q.readReminders, q.readSends, q.readRemembered)
	}
	var all sync.WaitGroup
	for _, part := range parts {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
	if slices.SortFunc(q.out.Silent, func(x, y *adminv1.Silent) int { return strings.Compare(x.Reason, y.Reason) }); ctx.Err() != nil {
		return nil, twirp.NewError(twirp.Canceled, ctx.Err().Error())
	}
	return q.out, nil
}

// entityQuestion collects the data about an entity.
type entityQuestion struct {
	*API
	of      sharding.Entity
	req     *adminv1.EntityRequest
	w       *wanted
	o       *owned
	timeout time.Duration
	shard   sharding.ShardID
	owner   *sharding.Row // nil: none
	mu      sync.Mutex    // of out, whose parts are read concurrently
	out     *adminv1.EntityResponse
}

// place fills in where the entity is.
func (q *entityQuestion) place() {
	i := slices.IndexFunc(q.w.view.Types, func(t sharding.TypeDesc) bool { return t.Type == q.of.Type })
	desc := &q.w.view.Types[i]
	q.shard = desc.ShardOf(q.of.ID)
	q.out.Where, q.out.Volatile = toWhere(&q.w.view, desc, q.of.ID), desc.Volatile
	if i := slices.IndexFunc(desc.Quarantined, func(x sharding.Quarantined) bool { return x.ID == q.of.ID && !x.Suspect }); i >= 0 {
		q.out.Quarantined = desc.Quarantined[i].Why
	}
	q.owner = q.o.owners[q.shard]
	if q.owner == nil {
		q.out.Silent = append(q.out.Silent, &adminv1.Silent{Reason: "no region owns the shard, so the entity is in no memory"})
	}
}

// set changes the answer.
func (q *entityQuestion) set(change func(*adminv1.EntityResponse)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(q.out)
}

// silence adds the reason why something is missing in the answer.
func (q *entityQuestion) silence(reason string) {
	q.set(func(out *adminv1.EntityResponse) { out.Silent = append(out.Silent, &adminv1.Silent{Reason: reason}) })
}

// broken reports that something stored cannot be read.
func (q *entityQuestion) broken(what string, err error) {
	q.set(func(out *adminv1.EntityResponse) {
		out.Damaged = append(out.Damaged, strings.ToValidUTF8(fmt.Sprintf("%s: %v", what, err), "\ufffd"))
	})
}

// askMemory asks the region that owns the shard.
func (q *entityQuestion) askMemory(ctx context.Context) {
	if q.owner == nil {
		return
	}
	regions := []asked{{q.owner.Owner, q.o.name(q.owner.Owner)}}
	answers, silent := askWithin(ctx, q.API, q.timeout, regions, func(ctx context.Context, c inspectionv1.Inspection, _ int) (*inspectionv1.EntityResponse, error) {
		return c.Entity(ctx, &inspectionv1.EntityRequest{Cluster: q.cfg.Cluster, To: uint64(regions[0].node.UID), Type: q.req.Type, Id: q.req.Id})
	})
	q.set(func(out *adminv1.EntityResponse) {
		out.Silent = append(out.Silent, silent...)
		res := answers[0]
		if res.GetEntity() == nil {
			return
		}
		if out.Memory = q.o.believe(regions[0], res.Entity, q.w); out.Memory == nil || out.Memory.Id != q.req.Id {
			out.Memory = nil
			out.Silent = append(out.Silent, &adminv1.Silent{Region: regions[0].name, Reason: "its answer is about another entity"})
			return
		}
		out.UnlistedTimers = res.UnlistedTimers
		for i, t := range res.Timers {
			if i == entityRows {
				out.UnlistedTimers += uint32(len(res.Timers) - i)
				break
			}
			out.Timers = append(out.Timers, &adminv1.Timer{
				Name: shortText(t.Name), Command: shortText(t.Command), DueMs: t.DueMs, PeriodMs: t.PeriodMs,
			})
		}
	})
}

// shortText is a text of a region, as long as a name may be.
func shortText(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), sharding.MaxIDLen)], "\ufffd")
}

// askState asks the owner for the state, or any other region that hosts the type.
func (q *entityQuestion) askState(ctx context.Context) {
	if q.out.Quarantined != "" { // its state may end the region as its commands have done
		q.silence("state: it is quarantined, so none of its code runs")
		return
	}
	var from asked
	switch i := slices.IndexFunc(q.w.view.Regions, func(r coordinator.RegionView) bool { return r.Registered && slices.Contains(r.Types, q.of.Type) }); {
	case q.owner != nil:
		from = asked{q.owner.Owner, q.o.name(q.owner.Owner)}
	case i >= 0:
		from = asked{q.w.view.Regions[i].Node, q.o.name(q.w.view.Regions[i].Node)}
	default:
		q.silence("no region hosts the type, and only its code knows the state")
		return
	}
	answers, silent := askWithin(ctx, q.API, q.timeout, []asked{from}, func(ctx context.Context, c inspectionv1.Inspection, _ int) (*inspectionv1.StateResponse, error) {
		return c.State(ctx, &inspectionv1.StateRequest{Cluster: q.cfg.Cluster, To: uint64(from.node.UID), Type: q.req.Type, Id: q.req.Id, Index: q.shard.Index})
	})
	q.set(func(out *adminv1.EntityResponse) {
		for _, s := range silent {
			s.Reason = "state: " + s.Reason
		}
		out.Silent = append(out.Silent, silent...)
		if res := answers[0]; res != nil && len(res.State) <= maxShownState {
			out.State = &adminv1.EntityState{Record: res.Record, State: res.State, Bytes: res.Bytes, Json: res.Json}
		}
	})
}

// readRecords reads the newest records.
func (q *entityQuestion) readRecords(ctx context.Context) {
	// Without records the head is wanted all the same.
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	h, err := q.cfg.Journal().History(ctx, journal.HistoryRequest{Entity: q.of, Before: q.req.Before, Limit: max(1, int(q.req.Records)), Bytes: maxShownRecords})
	if err != nil {
		q.broken("its records cannot be read", err)
		return
	}
	out := &adminv1.StoredEntity{
		Last: h.LastSeq, Life: h.Life, Trimmed: h.Cut, Snapshot: h.SnapshotSeq, SnapshotBytes: uint64(h.SnapshotBytes), More: h.More,
	}
	if q.req.Records == 0 {
		h.Records, out.More = nil, h.More || len(h.Records) > 0
	}
	for i := range h.Records {
		out.Records = append(out.Records, toRecord(&h.Records[i], q.req.Payloads))
	}
	q.set(func(all *adminv1.EntityResponse) { all.Stored = out })
}

func toRecord(h *journal.HistoryRecord, payloads bool) *adminv1.Record {
	out := &adminv1.Record{Number: h.Seq, Bytes: uint64(h.Bytes)}
	if h.Err != nil {
		out.Damaged = strings.ToValidUTF8(h.Err.Error(), "\ufffd")
		return out
	}
	r := &h.Record
	out.AtUnixMs, out.Epoch, out.CommandId = unixMs(h.At), h.Epoch.String(), strings.ToValidUTF8(string(r.Command), "\ufffd")
	out.Wakes, out.Delete, out.Operator = uint32(len(r.Wakes)), r.Delete, r.Operator
	for _, e := range r.Events {
		x := &adminv1.StoredEvent{Name: strings.ToValidUTF8(e.Name, "\ufffd"), Version: uint32(e.Version), Bytes: uint64(len(e.Payload))}
		if payloads && len(e.Payload) <= maxShownPayload {
			x.Payload, x.Json = e.Payload, json.Valid(e.Payload)
		}
		out.Events = append(out.Events, x)
	}
	for i := range r.Sends {
		s := &r.Sends[i]
		out.Sends = append(out.Sends, &adminv1.StoredSend{TargetType: string(s.To.Type), TargetId: string(s.To.ID), Command: s.Input.Command})
	}
	return out
}

func (q *entityQuestion) readReminders(ctx context.Context) {
	res, err := q.Reminders(ctx, &adminv1.RemindersRequest{Type: q.req.Type, Id: q.req.Id, Limit: entityRows})
	if err != nil {
		q.broken("its reminders cannot be read", err)
		return
	}
	q.set(func(out *adminv1.EntityResponse) {
		out.Reminders, out.MoreReminders, out.Damaged = res.Reminders, res.Next != "", append(out.Damaged, res.Damaged...)
	})
}

func (q *entityQuestion) readSends(ctx context.Context) {
	res, err := q.Sends(ctx, &adminv1.SendsRequest{Type: q.req.Type, Id: q.req.Id, Limit: entityRows})
	if err != nil {
		q.broken("its sends cannot be read", err)
		return
	}
	q.set(func(out *adminv1.EntityResponse) {
		out.Sends, out.MoreSends, out.Damaged = res.Sends, res.Next != "", append(out.Damaged, res.Damaged...)
	})
}

func (q *entityQuestion) readRemembered(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	l, err := q.cfg.Journal().Load(ctx, journal.LoadRequest{Entity: q.of, Shard: q.shard, LookupOnly: true, Wakes: true, Background: true})
	if err != nil {
		q.broken("whether it is remembered cannot be read", err)
		return
	}
	q.set(func(out *adminv1.EntityResponse) { out.RememberedUnixMs = l.Remembered })
}
