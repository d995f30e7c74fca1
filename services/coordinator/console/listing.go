package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

const (
	// listDefault is the number of rows in an answer if the request names no limit: a few screenfuls.
	listDefault = 100
	// listMost is the largest number of rows in an answer. A row has names but no inputs, so an
	// answer is at most a MiB or two.
	listMost = 1000
	// listShards is the number of shards that are read at a time while shards have few rows. If they were read one by
	// one, the round trips would take most of the time. The journal bounds the size of a read (PageBytes).
	listShards = 64
	// listTime bounds how long a listing reads rows. After that time, the rows found so far are
	// answered. The command line waits twice as long for an answer.
	listTime = time.Second
)

// cursor is the position at which a listing continues. Clients get it as opaque text.
type cursor struct {
	Shard sharding.ShardID
	ID    sharding.EntityID `json:",omitempty"` // the entity of the last row; empty: no row of the shard is listed
	// Due, Kind and Name are the position of a wake-up. Name may be any bytes.
	Due  int64             `json:",omitempty"`
	Kind sharding.WakeKind `json:",omitempty"`
	Name []byte            `json:",omitempty"`
	Seq  uint64            `json:",omitempty"` // the number of a record with sends
	// Place is the place of the first send of record Seq that is not listed yet; 0: all of the
	// record's sends are listed.
	Place int `json:",omitempty"`
	// Pending is true if all dead letters are listed, and the listing continues with pending sends.
	Pending bool `json:",omitempty"`
	// Stored is true if the listing is one of stored entities, which is in another order.
	Stored bool `json:",omitempty"`
}

func (c *cursor) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // a cursor has only values that can be encoded
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseCursor(text string) (c cursor, err error) {
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err == nil && c.Shard.Type != "" { // otherwise the position is before all shards
		err = (sharding.Entity{Type: c.Shard.Type, ID: cmp.Or(c.ID, "-")}).Check()
	}
	if err != nil {
		return c, errors.New(`the field "after" must be the "next" of an earlier answer; leave it out to begin anew`)
	}
	return c, nil
}

// wanted holds the parameters of a request for a listing.
type wanted struct {
	typ   sharding.EntityType // empty: all
	id    sharding.EntityID   // empty: all
	limit int
	after cursor
	view  coordinator.View // what the coordinator knows
	// shards are the shards that may have wanted rows.
	shards []sharding.ShardID
}

func toWanted(typ, id, after string, limit uint32) (w wanted, err error) {
	w = wanted{typ: sharding.EntityType(typ), id: sharding.EntityID(id), limit: min(int(cmp.Or(limit, listDefault)), listMost)}
	switch {
	case id != "":
		err = (sharding.Entity{Type: w.typ, ID: w.id}).Check()
	case typ != "":
		err = sharding.CheckEntityType("type", w.typ)
	}
	if err == nil {
		w.after, err = parseCursor(after)
	}
	if err != nil {
		return w, twirp.NewError(twirp.InvalidArgument, err.Error())
	}
	return w, nil
}

// shardsOf returns those shards of the given types that may have wanted rows, sorted. Volatile types
// have no rows.
func (w *wanted) shardsOf(types []sharding.TypeDesc) (all []sharding.ShardID) {
	for _, t := range types {
		switch {
		case w.typ != "" && w.typ != t.Type || t.Volatile:
		case w.id != "":
			all = append(all, t.ShardOf(w.id))
		default:
			for i := range t.Shards {
				all = append(all, sharding.ShardID{Type: t.Type, Index: i})
			}
		}
	}
	slices.SortFunc(all, sharding.ShardID.Compare)
	return all
}

// listing reads rows (of type R) of shards. In each shard it begins at a position (of type P).
type listing[P, R any] struct {
	read            func(ctx context.Context, from []P, limit int) (journal.Page[R], error)
	shardOfPosition func(*P) sharding.ShardID
	shardOfRow      func(*R) sharding.ShardID
	after           func(*R) P
	// take lists a row if the row is wanted. It returns false if the answer is full. Then the next
	// listing must begin with this row.
	take    func(*R) (taken bool)
	left    func() int // returns how many more rows the answer may have
	damaged func(string)
}

// run reads rows, beginning at the given positions. It returns the position at which the next listing
// must begin; nil: all rows are listed. run reads at least one page, so every call makes progress. If
// the rows of a shard do not fit into one page, that shard is read alone. Otherwise every page would
// read the rows of the other shards again.
func (l *listing[P, R]) run(ctx context.Context, from []P, until time.Time) (rest *P, err error) {
	n := 1
	for first := true; len(from) > 0; first = false {
		if !first && (l.left() <= 0 || time.Now().After(until)) {
			return &from[0], nil
		}
		n = min(n, len(from))
		page, err := l.read(ctx, from[:n], max(l.left(), 1))
		if err != nil {
			return nil, fmt.Errorf("the journal cannot be read; try again: %w", err)
		}
		done, rows := 0, page.Entries
		for more := false; done < n && !more; {
			shard := l.shardOfPosition(&from[done])
			for len(rows) > 0 && l.shardOfRow(&rows[0]) == shard {
				if !l.take(&rows[0]) {
					return &from[done], nil
				}
				from[done], rows = l.after(&rows[0]), rows[1:]
			}
			if more = slices.Contains(page.More, shard); !more {
				done++
			}
			if i := slices.IndexFunc(page.Damaged, func(d journal.Damaged) bool { return d.Shard == shard }); i >= 0 {
				l.damaged(fmt.Sprintf("shard %s: %v", shard, page.Damaged[i].Err))
			}
		}
		from, n = from[done:], min(2*n, listShards)
		if len(page.More) > 0 {
			n = 1
		}
	}
	return nil, nil
}

// beginningWith returns the shards from first on.
func beginningWith(shards []sharding.ShardID, first sharding.ShardID) []sharding.ShardID {
	i, _ := slices.BinarySearchFunc(shards, first, sharding.ShardID.Compare)
	return shards[i:]
}

// beginListing checks a request for a listing, and finds the shards to read.
func (a *API) beginListing(ctx context.Context, typ, id, after string, limit uint32) (w wanted, err error) {
	if w, err = toWanted(typ, id, after, limit); err != nil {
		return w, err
	}
	if w.view, err = a.view(ctx); err != nil {
		return w, err
	}
	if w.typ != "" {
		if _, err := typeOf(&w.view, w.typ); err != nil {
			return w, err
		}
	}
	w.shards = w.shardsOf(w.view.Types)
	return w, nil
}

// Reminders lists the reminders that the journal has, or only those that fail.
func (a *API) Reminders(ctx context.Context, req *adminv1.RemindersRequest) (*adminv1.RemindersResponse, error) {
	w, err := a.beginListing(ctx, req.Type, req.Id, req.After, req.Limit)
	if err != nil {
		return nil, err
	}
	f := a.failing(inspectionv1.Kind_KIND_REMINDERS, &w)
	out := &adminv1.RemindersResponse{}
	switch {
	case req.DueBeforeUnixMs < 0:
		return nil, twirp.NewError(twirp.InvalidArgument, "due_before_unix_ms is negative; 0 stands for all")
	case req.Failing && (req.DueBeforeUnixMs > 0 || req.After != ""):
		return nil, twirp.NewError(twirp.InvalidArgument, `"failing" cannot be combined with "due_before_unix_ms" or "after": it lists the reminders that have failed for longest`)
	case req.Failing:
		var found []*inspectionv1.Failing
		found, out.More, out.Silent = f.longest(ctx, &w)
		for _, x := range found {
			out.Reminders = append(out.Reminders, &adminv1.Reminder{
				Type: x.Subject.Type, Id: x.Subject.Id, Name: strings.ToValidUTF8(string(x.Subject.Name), "\ufffd"), DueUnixMs: x.DueUnixMs, PeriodMs: x.PeriodMs,
				Command: x.Command, Failure: f.failure(x),
			})
		}
		return out, nil
	}
	var subjects []*inspectionv1.Subject
	// A wake-up that is due at PurgeFrom or later belongs to a deleted entity, and is not a reminder.
	next, err := a.wakes(ctx, &w, journal.WakesRequest{Until: min(req.DueBeforeUnixMs, journal.PurgeFrom)}, 0, &out.Damaged, func(r *journal.WakeEntry) {
		out.Reminders = append(out.Reminders, &adminv1.Reminder{
			Type: string(r.Entity.Type), Id: string(r.Entity.ID), Name: strings.ToValidUTF8(r.Name, "\ufffd"), DueUnixMs: r.Due, PeriodMs: r.Period, Command: r.Input.Command,
		})
		subjects = append(subjects, &inspectionv1.Subject{Type: string(r.Entity.Type), Id: string(r.Entity.ID), Name: []byte(r.Name)})
	})
	if err != nil {
		return nil, err
	}
	out.Next = next
	found, silent := f.lookup(ctx, subjects)
	for i, x := range found {
		out.Reminders[i].Failure = f.failure(x)
	}
	out.Silent = silent
	return out, nil
}

// Remembered lists the remembered entities that the journal has, or only those that cannot be started.
func (a *API) Remembered(ctx context.Context, req *adminv1.RememberedRequest) (*adminv1.RememberedResponse, error) {
	w, err := a.beginListing(ctx, req.Type, req.Id, req.After, req.Limit)
	if err != nil {
		return nil, err
	}
	f := a.failing(inspectionv1.Kind_KIND_REMEMBERED, &w)
	out := &adminv1.RememberedResponse{}
	switch {
	case req.Failing && req.After != "":
		return nil, twirp.NewError(twirp.InvalidArgument, `"failing" cannot be combined with "after": it lists the entities that have failed for longest`)
	case req.Failing:
		var found []*inspectionv1.Failing
		found, out.More, out.Silent = f.longest(ctx, &w)
		for _, x := range found {
			out.Remembered = append(out.Remembered, &adminv1.Remembered{Type: x.Subject.Type, Id: x.Subject.Id, Failure: f.failure(x)})
		}
		return out, nil
	}
	var subjects []*inspectionv1.Subject
	// The wake-up of a remembered entity is due at minus the time of the entity's last activity.
	next, err := a.wakes(ctx, &w, journal.WakesRequest{Until: 1}, math.MinInt64, &out.Damaged, func(r *journal.WakeEntry) {
		if r.Kind == sharding.RememberWake {
			out.Remembered = append(out.Remembered, &adminv1.Remembered{Type: string(r.Entity.Type), Id: string(r.Entity.ID), ActiveUnixMs: -r.Due})
			subjects = append(subjects, &inspectionv1.Subject{Type: string(r.Entity.Type), Id: string(r.Entity.ID)})
		}
	})
	if err != nil {
		return nil, err
	}
	out.Next = next
	found, silent := f.lookup(ctx, subjects)
	for i, x := range found {
		out.Remembered[i].Failure = f.failure(x)
	}
	out.Silent = silent
	return out, nil
}

// wakes calls add for each wanted wake-up. In each shard it begins with the wake-ups that are due at
// the time from. It returns the position at which the next listing must begin; "": all wake-ups are
// listed.
func (a *API) wakes(ctx context.Context, w *wanted, req journal.WakesRequest, from int64, damaged *[]string, add func(*journal.WakeEntry)) (next string, err error) {
	broken := func(text string) { *damaged = append(*damaged, strings.ToValidUTF8(text, "\ufffd")) }
	n := 0
	l := listing[journal.ShardPosition, journal.WakeEntry]{
		read: func(ctx context.Context, at []journal.ShardPosition, limit int) (journal.WakesPage, error) {
			req.Shards, req.Limit = at, limit
			return a.cfg.Journal().Wakes(ctx, req)
		},
		shardOfPosition: func(p *journal.ShardPosition) sharding.ShardID { return p.Shard },
		shardOfRow:      func(r *journal.WakeEntry) sharding.ShardID { return r.Shard },
		after: func(r *journal.WakeEntry) journal.ShardPosition {
			return journal.ShardPosition{Shard: r.Shard, After: r.Position()}
		},
		take: func(r *journal.WakeEntry) bool {
			switch {
			case w.id != "" && r.Entity.ID != w.id:
				return true
			case n == w.limit:
				return false
			}
			n++
			add(r)
			if r.Err != nil {
				broken(fmt.Sprintf("reminder %q of %s: %v", r.Name, r.Entity, r.Err))
			}
			return true
		},
		left:    func() int { return w.limit - n },
		damaged: broken,
	}
	var positions []journal.ShardPosition
	for _, s := range beginningWith(w.shards, w.after.Shard) {
		p := journal.ShardPosition{Shard: s, After: journal.WakePosition{Due: from}}
		if s == w.after.Shard && w.after.ID != "" {
			p.After = journal.WakePosition{Due: w.after.Due, Entity: sharding.Entity{Type: s.Type, ID: w.after.ID}, Kind: w.after.Kind, Name: string(w.after.Name)}
		}
		positions = append(positions, p)
	}
	at, err := l.run(ctx, positions, time.Now().Add(listTime))
	if err != nil {
		return "", twirp.NewError(twirp.Internal, err.Error())
	}
	if at == nil {
		return "", nil
	}
	c := cursor{Shard: at.Shard, ID: at.After.Entity.ID, Due: at.After.Due, Kind: at.After.Kind, Name: []byte(at.After.Name)}
	return c.String(), nil
}

// Sends lists the sends that the journal has: dead letters first, then pending sends. Or it lists
// only those that fail.
func (a *API) Sends(ctx context.Context, req *adminv1.SendsRequest) (*adminv1.SendsResponse, error) {
	w, err := a.beginListing(ctx, req.Type, req.Id, req.After, req.Limit)
	if err != nil {
		return nil, err
	}
	f := a.failing(inspectionv1.Kind_KIND_SENDS, &w)
	out := &adminv1.SendsResponse{}
	switch {
	case req.Failing && (req.Dead || req.After != ""):
		return nil, twirp.NewError(twirp.InvalidArgument, `"failing" cannot be combined with "dead" or "after": it lists the sends that have failed for longest and are tried again`)
	case req.Failing:
		var found []*inspectionv1.Failing
		found, out.More, out.Silent = f.longest(ctx, &w)
		for _, x := range found {
			s := &adminv1.Send{
				Type: x.Subject.Type, Id: x.Subject.Id, Record: x.Subject.Record, Place: x.Subject.Place, State: sharding.SendPending.String(),
				TargetType: x.Subject.TargetType, TargetId: x.Subject.TargetId, Command: x.Command, ReplyTo: x.ReplyTo, SentUnixMs: x.SentUnixMs,
			}
			f.addFailure(s, x)
			out.Sends = append(out.Sends, s)
		}
		return out, nil
	}
	until := time.Now().Add(listTime)
	next := &w.after
	if !next.Pending {
		if next, err = a.sendsFrom(ctx, &w, *next, until, out); err == nil && next == nil && !req.Dead {
			next = &cursor{Pending: true}
		}
	}
	if err == nil && next != nil && next.Pending && len(out.Sends) < w.limit {
		next, err = a.sendsFrom(ctx, &w, *next, until, out)
	}
	if err != nil {
		return nil, twirp.NewError(twirp.Internal, err.Error())
	}
	if next != nil {
		out.Next = next.String()
	}
	subjects := make([]*inspectionv1.Subject, len(out.Sends))
	for i, s := range out.Sends {
		subjects[i] = &inspectionv1.Subject{Type: s.Type, Id: s.Id, Record: s.Record, Place: s.Place, TargetType: s.TargetType, TargetId: s.TargetId}
	}
	found, silent := f.lookup(ctx, subjects)
	for i, x := range found {
		if s := out.Sends[i]; x != nil && x.Died == (s.State != sharding.SendPending.String()) { // otherwise the state has changed since the row was read
			f.addFailure(s, x)
		}
	}
	out.Silent = silent
	return out, nil
}

// RetrySends has the regions retry failing sends at once. It sends the request to all regions with shards of the
// senders' types: only they know which sends fail.
func (a *API) RetrySends(ctx context.Context, req *adminv1.RetrySendsRequest) (*adminv1.RetrySendsResponse, error) {
	w, err := a.beginListing(ctx, req.Type, req.Id, "", 1)
	if err != nil {
		return nil, err
	}
	if req.TargetType != "" || req.TargetId != "" {
		if _, err := toWanted(req.TargetType, req.TargetId, "", 1); err != nil {
			return nil, err
		}
	}
	f := a.failing(inspectionv1.Kind_KIND_SENDS, &w)
	out := &adminv1.RetrySendsResponse{}
	regions := f.regions()
	answers, silent := ask(ctx, a, regions, func(ctx context.Context, c inspectionv1.Inspection, i int) (*inspectionv1.RetrySendsResponse, error) {
		return c.RetrySends(ctx, &inspectionv1.RetrySendsRequest{
			Cluster: a.cfg.Cluster, To: uint64(regions[i].node.UID), Type: req.Type, Id: req.Id, TargetType: req.TargetType, TargetId: req.TargetId,
		})
	})
	for _, res := range answers {
		out.Retried += res.GetRetried()
	}
	out.Silent = append(silent, f.nobody(f.away)...)
	a.cfg.Log.Info("operator request", "what", "failing sends are retried", "entity.type", req.Type, "entity.id", req.Id, "target.type", req.TargetType, "target.id", req.TargetId, "retried", out.Retried)
	return out, nil
}

// addFailure adds to a listed send how it fails, or why it is a dead letter.
func (f *failing) addFailure(s *adminv1.Send, x *inspectionv1.Failing) {
	s.Failure, s.Behind, s.Answer, s.Waiting, s.UntilUnixMs = f.failure(x), x.Behind, x.Answer, x.Waiting, x.UntilUnixMs
}

// sendsFrom lists sends, beginning at the cursor. If at.Pending is set, it lists pending sends,
// otherwise dead letters.
func (a *API) sendsFrom(ctx context.Context, w *wanted, at cursor, until time.Time, out *adminv1.SendsResponse) (*cursor, error) {
	pastEntity := false // all rows of the wanted entity are listed
	var partial *cursor // the position in a record that is listed in part; nil: there is none
	l := listing[journal.SendPosition, journal.SendEntry]{
		read: func(ctx context.Context, from []journal.SendPosition, limit int) (journal.SendsPage, error) {
			return a.cfg.Journal().Sends(ctx, journal.SendsRequest{Shards: from, Dead: !at.Pending, Limit: limit})
		},
		shardOfPosition: func(p *journal.SendPosition) sharding.ShardID { return p.Shard },
		shardOfRow:      func(r *journal.SendEntry) sharding.ShardID { return r.Shard },
		after:           (*journal.SendEntry).Position,
		take: func(r *journal.SendEntry) bool {
			// Rows are sorted by entity. So after a row of a later entity, no row of the wanted entity
			// follows.
			if pastEntity = w.id != "" && r.Entity.ID != w.id; pastEntity || len(out.Sends) >= w.limit {
				return false
			}
			from := 0
			if r.Entity.Type == at.Shard.Type && r.Entity.ID == at.ID && r.Seq == at.Seq {
				from = at.Place
			}
			place := toSends(r, at.Pending, from, w.limit, out)
			if place > 0 {
				partial = &cursor{Shard: r.Shard, ID: r.Entity.ID, Seq: r.Seq, Place: place, Pending: at.Pending}
			}
			return place == 0
		},
		left:    func() int { return w.limit - len(out.Sends) },
		damaged: func(text string) { out.Damaged = append(out.Damaged, strings.ToValidUTF8(text, "\ufffd")) },
	}
	var from []journal.SendPosition
	for _, s := range beginningWith(w.shards, at.Shard) {
		p := journal.SendPosition{Shard: s}
		switch {
		case s == at.Shard && at.ID != "":
			p.Entity, p.Seq = sharding.Entity{Type: s.Type, ID: at.ID}, at.Seq
			if at.Place > 0 && at.Seq > 0 {
				p.Seq-- // the record is read again
			}
		case w.id != "":
			p.Entity = sharding.Entity{Type: s.Type, ID: w.id}
		}
		from = append(from, p)
	}
	next, err := l.run(ctx, from, until)
	if err != nil || next == nil || pastEntity {
		return nil, err
	}
	if partial != nil {
		return partial, nil
	}
	return &cursor{Shard: next.Shard, ID: next.Entity.ID, Seq: next.Seq, Pending: at.Pending}, nil
}

// toSends lists sends of one record, beginning at the place from: the pending ones or the dead letters.
// It returns the place of the first send that does not fit into the answer; 0: all are listed.
func toSends(r *journal.SendEntry, pending bool, from, limit int, out *adminv1.SendsResponse) (next int) {
	if r.Err != nil {
		out.Damaged = append(out.Damaged, strings.ToValidUTF8(fmt.Sprintf("sends of record %d of %s: %v", r.Seq, r.Entity, r.Err), "\ufffd"))
	}
	for place := range r.Sends {
		s, state := &r.Sends[place], r.States.Of(place)
		if place >= from && (pending && state == sharding.SendPending || !pending && state.Dead()) {
			if len(out.Sends) >= limit {
				return place // never 0: before each record, the caller checks that one more send fits
			}
			out.Sends = append(out.Sends, &adminv1.Send{
				Type: string(r.Entity.Type), Id: string(r.Entity.ID), Record: r.Seq, Place: uint32(place), State: state.String(),
				TargetType: string(s.To.Type), TargetId: string(s.To.ID), Command: s.Input.Command, ReplyTo: s.ReplyTo, SentUnixMs: r.At.UnixMilli(),
			})
		}
	}
	return 0
}
