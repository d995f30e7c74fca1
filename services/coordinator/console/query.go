package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// askAtOnce is the number of regions that are queried at a time: enough for most clusters, and few connections.
const askAtOnce = 64

// asked is a region that is queried for an operator.
type asked struct {
	node sharding.NodeID
	name string
}

// longestQuery is the longest time that a request may give regions to answer.
const longestQuery = 30 * time.Second

// patience returns how long regions may take to answer, as a request says it.
func (a *API) patience(ms int64) (time.Duration, error) {
	if ms < 0 || ms > longestQuery.Milliseconds() {
		return 0, twirp.NewErrorf(twirp.InvalidArgument, "timeout_ms is %d, must be 0 (coordinator.query_timeout) to %d", ms, longestQuery.Milliseconds())
	}
	return cmp.Or(time.Duration(ms)*time.Millisecond, a.cfg.QueryTimeout), nil
}

// ask asks regions within coordinator.query_timeout, see askWithin.
func ask[A any](ctx context.Context, a *API, regions []asked, question func(context.Context, inspectionv1.Inspection, int) (*A, error)) (answers []*A, silent []*adminv1.Silent) {
	return askWithin(ctx, a, a.cfg.QueryTimeout, regions, question)
}

// askWithin puts one question to several regions, which together have the given time. It returns the answers
// in the order of the regions, nil where there is none, and names the regions that have not answered, with the
// reason. No question is repeated: the operator can ask again.
func askWithin[A any](ctx context.Context, a *API, timeout time.Duration, regions []asked, question func(context.Context, inspectionv1.Inspection, int) (*A, error)) (answers []*A, silent []*adminv1.Silent) {
	answers = make([]*A, len(regions))
	reasons := eachWithin(ctx, timeout, len(regions), func(ctx context.Context, i int) (err error) {
		client, url := a.cfg.Peers.Reach(control.Region, regions[i].node.Addr)
		answers[i], err = question(ctx, inspectionv1.NewInspectionProtobufClient(url, client), i)
		return err
	})
	for i, err := range reasons {
		if err != nil {
			answers[i] = nil
			silent = append(silent, &adminv1.Silent{Region: regions[i].name, Reason: a.reason(err, timeout)})
		}
	}
	return answers, silent
}

// eachWithin puts questions to n processes, at most askAtOnce at a time. All of them together have the
// given time. It returns the error of each question, nil if the process has answered.
func eachWithin(ctx context.Context, timeout time.Duration, n int, question func(context.Context, int) error) []error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reasons := make([]error, n)
	slots := make(chan struct{}, askAtOnce)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				reasons[i] = question(ctx, i)
			case <-ctx.Done():
				reasons[i] = ctx.Err()
			}
		})
	}
	all.Wait()
	return reasons
}

// maxReasonOf bounds the part of a region's own error that is passed on, in bytes.
const maxReasonOf = 300

// reason returns the reason why a region has not answered within a time.
func (a *API) reason(err error, timeout time.Duration) string {
	var e twirp.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		if timeout != a.cfg.QueryTimeout {
			return fmt.Sprintf("no answer within %s", timeout)
		}
		return fmt.Sprintf("no answer within %s (coordinator.query_timeout)", timeout)
	case errors.As(err, &e) && e.Code() == twirp.BadRoute:
		return "it runs a release of Roost that cannot be queried"
	}
	text := err.Error()
	if e != nil {
		text = e.Msg()
	}
	return strings.ToValidUTF8(text[:min(len(text), maxReasonOf)], "\ufffd")
}

// askItems is the number of subjects that one request names. Regions answer requests about at least as many.
const askItems = 1000

// failing is a question about what keeps failing, and the shards and types that it is about.
type failing struct {
	a    *API
	kind inspectionv1.Kind
	// owners are the regions of the shards.
	owners map[sharding.ShardID]asked
	// types are those with a journal: nothing of a volatile type is tried again.
	types map[sharding.EntityType]*sharding.TypeDesc
	// away are the shards that had an owner before and have none now.
	away map[sharding.ShardID]bool
	// unreadable are the shards that no region reads, with the index of the reason in lost.
	unreadable map[sharding.ShardID]int
	lost       []coordinator.UnreadableShards
}

// failing prepares a question about entities of a type, or of all.
func (a *API) failing(kind inspectionv1.Kind, w *wanted) *failing {
	f := &failing{a: a, kind: kind, owners: map[sharding.ShardID]asked{}, types: map[sharding.EntityType]*sharding.TypeDesc{}, away: map[sharding.ShardID]bool{}, unreadable: map[sharding.ShardID]int{}, lost: w.view.Unreadable}
	for i, u := range f.lost {
		for _, index := range u.Shards {
			f.unreadable[sharding.ShardID{Type: u.Type, Index: index}] = i
		}
	}
	named := names(&w.view)
	var only sharding.ShardID
	for i := range w.view.Types {
		t := &w.view.Types[i]
		if !t.Volatile {
			f.types[t.Type] = t
		}
		if t.Type == w.typ {
			only = t.ShardOf(w.id)
		}
	}
	for _, r := range w.view.Rows {
		switch {
		case f.types[r.Shard.Type] == nil || w.typ != "" && w.typ != r.Shard.Type || w.id != "" && only != r.Shard:
		case r.Owner.IsZero():
			f.away[r.Shard] = true
		default:
			f.owners[r.Shard] = asked{r.Owner, cmp.Or(named[r.Owner], r.Owner.Addr)}
		}
	}
	return f
}

// shard returns the shard of a subject.
func (f *failing) shard(x *inspectionv1.Subject) (id sharding.ShardID, ok bool) {
	t := f.types[sharding.EntityType(x.GetType())]
	if t == nil {
		return id, false
	}
	return t.ShardOf(sharding.EntityID(x.Id)), true
}

// owner is the region that has a subject, if one has.
func (f *failing) owner(x *inspectionv1.Subject) (asked, bool) {
	id, ok := f.shard(x)
	if !ok {
		return asked{}, false
	}
	r, ok := f.owners[id]
	return r, ok
}

// nobody reports the shards among the given ones that have no region, and those that no region reads. Nothing stored
// in such shards is tried, so none of it can fail.
func (f *failing) nobody(shards map[sharding.ShardID]bool) (silent []*adminv1.Silent) {
	others, lost := 0, make([]int, len(f.lost))
	for id := range shards { // order-free: it counts
		if i, ok := f.unreadable[id]; ok {
			lost[i]++
		} else {
			others++
		}
	}
	for i, n := range lost {
		if n > 0 {
			u := f.lost[i]
			silent = append(silent, &adminv1.Silent{Reason: fmt.Sprintf("unreadable are %d of the shards of %s, and nothing that is stored there is tried: %s",
				n, u.Type, UnreadableNow(coordinator.UnreadableNow(u)))})
		}
	}
	if others > 0 {
		some := "1 shard has"
		if others > 1 {
			some = fmt.Sprintf("%d shards have", others)
		}
		silent = append(silent, &adminv1.Silent{Reason: some + " no region now: nothing that is stored there is tried; see roost shard ls"})
	}
	return silent
}

// subjectKey tells subjects apart.
type subjectKey struct {
	typ, id, name string
	record        uint64
	place         uint32
}

func keyOf(x *inspectionv1.Subject) subjectKey {
	return subjectKey{x.GetType(), x.GetId(), string(x.GetName()), x.GetRecord(), x.GetPlace()}
}

// lookup asks the regions which of some subjects fail. The answers are in the order of the subjects: nil if a
// subject does not fail, or if its region has not answered.
func (f *failing) lookup(ctx context.Context, subjects []*inspectionv1.Subject) ([]*inspectionv1.Failing, []*adminv1.Silent) {
	index := map[asked][]int{}
	var regions []asked
	away := map[sharding.ShardID]bool{}
	found := make([]*inspectionv1.Failing, len(subjects))
	for i, x := range subjects {
		r, ok := f.owner(x)
		if !ok {
			if id, known := f.shard(x); known {
				away[id] = true
				found[i] = f.lostShard(id, x)
			}
			continue
		}
		if index[r] == nil {
			regions = append(regions, r)
		}
		index[r] = append(index[r], i)
	}
	answers, silent := ask(ctx, f.a, regions, func(ctx context.Context, c inspectionv1.Inspection, region int) (*inspectionv1.FailingResponse, error) {
		all := &inspectionv1.FailingResponse{}
		for some := range slices.Chunk(index[regions[region]], askItems) {
			req := f.request(regions[region])
			for _, i := range some {
				req.Of = append(req.Of, subjects[i])
			}
			res, err := c.Failing(ctx, req)
			if err != nil {
				return nil, err
			}
			trim(res, len(some))
			all.Failing, all.More = append(all.Failing, res.Failing...), all.More || res.More
		}
		return all, nil
	})
	for n, res := range answers {
		if res == nil {
			continue
		}
		by := make(map[subjectKey]*inspectionv1.Failing, len(res.Failing))
		for _, x := range res.Failing {
			by[keyOf(x.Subject)] = x
		}
		for _, i := range index[regions[n]] { // other subjects in the answer are ignored
			found[i] = by[keyOf(subjects[i])]
		}
		if res.More {
			silent = append(silent, &adminv1.Silent{Region: regions[n].name, Reason: "its answer had no room for all that fails; ask for fewer, for example for one entity"})
		}
	}
	return found, append(silent, f.nobody(away)...)
}

// lostShard returns the failure of a subject in a shard that no region reads; nil: some region reads the shard.
func (f *failing) lostShard(id sharding.ShardID, x *inspectionv1.Subject) *inspectionv1.Failing {
	i, ok := f.unreadable[id]
	if !ok {
		return nil
	}
	u := &f.lost[i]
	return &inspectionv1.Failing{
		Subject: x, Code: string(sharding.Unavailable), Message: "its shard is unreadable: no region reads all that may be stored there; start a region of " + readers(u.By, u.Version),
	}
}

// regions returns the regions that own the shards.
func (f *failing) regions() (list []asked) {
	for _, r := range f.owners { // order-free: sorted
		list = append(list, r)
	}
	return sortAsked(list)
}

// longest asks the regions what fails, and returns at most limit of it: what has failed for longest.
func (f *failing) longest(ctx context.Context, w *wanted) (found []*inspectionv1.Failing, more bool, silent []*adminv1.Silent) {
	regions := f.regions()
	answers, silent := ask(ctx, f.a, regions, func(ctx context.Context, c inspectionv1.Inspection, region int) (*inspectionv1.FailingResponse, error) {
		req := f.request(regions[region])
		req.Type, req.Id, req.Limit = string(w.typ), string(w.id), uint32(w.limit)
		res, err := c.Failing(ctx, req)
		if err == nil {
			trim(res, w.limit)
		}
		return res, err
	})
	for n, res := range answers {
		more = more || res.GetMore()
		for _, x := range res.GetFailing() {
			// Of a shard that has just moved, only its owner is believed.
			r, ok := f.owner(x.Subject)
			e := sharding.Entity{Type: sharding.EntityType(x.GetSubject().GetType()), ID: sharding.EntityID(x.GetSubject().GetId())}
			if ok && r == regions[n] && e.Check() == nil && (w.id == "" || w.id == e.ID) {
				found = append(found, x)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b *inspectionv1.Failing) int { return cmp.Compare(a.SinceUnixMs, b.SinceUnixMs) })
	if len(found) > w.limit {
		found, more = found[:w.limit], true
	}
	return found, more, append(silent, f.nobody(f.away)...)
}

// maxMessageOf bounds the part of a region's message that is passed on, in bytes; regions send less.
const maxMessageOf = 1000

// trim keeps a region from answering with more than it was asked for.
func trim(res *inspectionv1.FailingResponse, most int) {
	if len(res.Failing) > most {
		res.Failing, res.More = slices.Clone(res.Failing[:most]), true
	}
	for _, x := range res.Failing {
		x.Message = strings.ToValidUTF8(strings.Clone(x.Message[:min(len(x.Message), maxMessageOf)]), "")
		x.Code = strings.ToValidUTF8(strings.Clone(x.Code[:min(len(x.Code), maxMessageOf)]), "")
	}
}

func (f *failing) request(r asked) *inspectionv1.FailingRequest {
	return &inspectionv1.FailingRequest{Cluster: f.a.cfg.Cluster, To: uint64(r.node.UID), Kind: f.kind}
}

// failure turns a region's answer about one subject into an answer for operators; nil: the subject does not fail.
func (f *failing) failure(x *inspectionv1.Failing) *adminv1.Failure {
	if x == nil {
		return nil
	}
	r, _ := f.owner(x.Subject)
	return &adminv1.Failure{
		SinceUnixMs: x.SinceUnixMs, Times: x.Times, NextUnixMs: x.NextUnixMs, Code: x.Code, Message: x.Message, Region: r.name,
	}
}
