// Package lists has the entities of the history tests: lists, whose
// answers identify their whole state. Some answers are large, some are errors of the list
// itself, some are stale reads. It also has volatile types.
//
// # What this does not do
//
// It is not an example: lists grow forever, and so do their snapshots.
package lists

import (
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/sdk/entity"
)

// List is a list of numbers and the hash of them all.
type List struct {
	Values []int64
	Hash   uint64
}

// Added is the event of a list.
type Added struct{ Value int64 }

// AddRequest is the input of Add.
type AddRequest struct {
	Value int64 `json:"value"`
}

// Values is the reply of Values.
type Values struct {
	Values []int64 `json:"values"`
}

// Add appends a number, even if the list already has it.
func (l *List) Add(ctx *entity.Ctx, in AddRequest) (history.Reply, error) {
	ctx.Persist(Added(in))
	return l.reply(), nil
}

// Refuse returns an error of the list itself, with the same state as [List.Get]. If it has a
// key, the error is stored, and a repeat gets the same one.
func (l *List) Refuse(*entity.Ctx, struct{}) (history.Reply, error) {
	return history.Reply{}, entity.Errorf(entity.FailedPrecondition, "%s", l.reply())
}

// Big returns length and hash, and padding.
func (l *List) Big(*entity.Ctx, struct{}) (history.BigReply, error) {
	return history.BigReply{Reply: l.reply(), Padding: history.Padding(l.Hash)}, nil
}

// Tally counts in memory only.
type Tally struct{ n int64 }

// Count counts up.
func (t *Tally) Count(*entity.Ctx, struct{}) (history.Reply, error) {
	t.n++
	return history.Reply{Length: t.n}, nil
}

// Visits counts in memory, and keeps the count when it moves.
type Visits struct{ Count int64 }

// Hit counts up.
func (v *Visits) Hit(*entity.Ctx, struct{}) (int64, error) {
	v.Count++
	return v.Count, nil
}

// Get returns length and hash.
func (l *List) Get(*entity.Ctx, struct{}) (history.Reply, error) { return l.reply(), nil }

// All returns all values.
func (l *List) All(*entity.Ctx, struct{}) (Values, error) { return Values{l.Values}, nil }

func (l *List) reply() history.Reply {
	return history.Reply{Length: int64(len(l.Values)), Hash: l.Hash}
}

var (
	add = entity.Command[AddRequest, history.Reply]("List", "Add")
	get = entity.Command[struct{}, history.Reply]("List", "Get", entity.ReadOnly())
	all = entity.Command[struct{}, Values]("List", "All", entity.ReadOnly())
	// peek is get without the fence.
	peek   = entity.Command[struct{}, history.Reply]("List", "Peek", entity.Stale())
	big    = entity.Command[struct{}, history.BigReply]("List", "Big", entity.ReadOnly())
	refuse = entity.Command[struct{}, history.Reply]("List", "Refuse")
	count  = entity.Command[struct{}, history.Reply]("Tally", "Count")

	lists = entity.Define("List", func(string) *List { return &List{} },
		entity.On(add, (*List).Add),
		entity.On(get, (*List).Get),
		entity.On(all, (*List).All),
		entity.On(peek, (*List).Get),
		entity.On(big, (*List).Big),
		entity.On(refuse, (*List).Refuse),
		entity.Event("Added", func(l *List, e Added) { l.Values, l.Hash = append(l.Values, e.Value), history.Hash(l.Hash, e.Value) }),
		entity.With[List](entity.SnapshotEvery(20), entity.Shards(64)),
	)

	tallies = entity.Define("Tally", func(string) *Tally { return &Tally{} }, entity.On(count, (*Tally).Count), entity.With[Tally](entity.Volatile(), entity.Shards(16)))

	visits = entity.Define("Visits", func(string) *Visits { return &Visits{} },
		entity.On(entity.Command[struct{}, int64]("Visits", "Hit"), (*Visits).Hit),
		entity.With[Visits](entity.Volatile(), entity.KeepOnMoves(), entity.PassivateAfter(0), entity.Shards(48)),
	)
)

// Types are the types of a region.
func Types() []entity.Definition { return []entity.Definition{lists, tallies, visits} }
