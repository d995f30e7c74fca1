// Command list-region-v2 is list-region in its next version, for the tests of rollouts. A
// field of the event has another name, which version 1 cannot read. The snapshot has other
// fields. There is one more command, Append, which does what Add does.
//
// With LIST_EVENTS=1 in the environment, the event has version 1: then version 1 reads
// whatever this version stores.
//
// # What this does not do
//
// It is not an example: see examples/shop.
package main

import (
	"os"

	"github.com/roost-cluster/roost/e2e/cluster/history"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server"
)

// List is a list of numbers and the hash of them all.
type List struct {
	Numbers []int64
	Hash    uint64
}

// AddedV1 is the event of version 1.
type AddedV1 struct{ Value int64 }

// Added is the event of a list.
type Added struct{ Number int64 }

func (l *List) add(number int64) {
	l.Numbers, l.Hash = append(l.Numbers, number), history.Hash(l.Hash, number)
}

// AddRequest is the input of Add and of Append.
type AddRequest struct {
	Value int64 `json:"value"`
}

// Values is the reply of Values.
type Values struct {
	Values []int64 `json:"values"`
}

// Add appends a number, even if the list already has it.
func (l *List) Add(ctx *entity.Ctx, in AddRequest) (history.Reply, error) {
	event := any(Added{Number: in.Value})
	if storesV1 {
		event = AddedV1(in)
	}
	ctx.Persist(event)
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

// Get returns length and hash.
func (l *List) Get(*entity.Ctx, struct{}) (history.Reply, error) { return l.reply(), nil }

// All returns all values.
func (l *List) All(*entity.Ctx, struct{}) (Values, error) { return Values{l.Numbers}, nil }

func (l *List) reply() history.Reply {
	return history.Reply{Length: int64(len(l.Numbers)), Hash: l.Hash}
}

// storesV1 is true if the event of version 1 is stored.
var storesV1 = os.Getenv("LIST_EVENTS") == "1"

var (
	add      = entity.Command[AddRequest, history.Reply]("List", "Add")
	appendTo = entity.Command[AddRequest, history.Reply]("List", "Append")
	get      = entity.Command[struct{}, history.Reply]("List", "Get", entity.ReadOnly())
	all      = entity.Command[struct{}, Values]("List", "All", entity.ReadOnly())
	// peek is get without the fence.
	peek   = entity.Command[struct{}, history.Reply]("List", "Peek", entity.Stale())
	big    = entity.Command[struct{}, history.BigReply]("List", "Big", entity.ReadOnly())
	refuse = entity.Command[struct{}, history.Reply]("List", "Refuse")
	count  = entity.Command[struct{}, history.Reply]("Tally", "Count")

	lists = entity.Define("List", func(string) *List { return &List{} },
		entity.On(add, (*List).Add),
		entity.On(appendTo, (*List).Add),
		entity.On(get, (*List).Get),
		entity.On(all, (*List).All),
		entity.On(peek, (*List).Get),
		entity.On(big, (*List).Big),
		entity.On(refuse, (*List).Refuse),
		added(),
		entity.With[List](entity.SnapshotEvery(20), entity.Shards(64)),
	)

	tallies = entity.Define("Tally", func(string) *Tally { return &Tally{} }, entity.On(count, (*Tally).Count), entity.With[Tally](entity.Volatile(), entity.Shards(16)))
)

// added declares the event, under the name that it has had from the beginning.
func added() entity.Declaration[List] {
	if storesV1 {
		return entity.Event("Added", func(l *List, e AddedV1) { l.add(e.Value) })
	}
	return entity.Event("Added", func(l *List, e Added) { l.add(e.Number) },
		entity.V(2, entity.From(1, func(old AddedV1) Added { return Added{Number: old.Value} })))
}

func main() {
	server.AppVersion = "2"
	server.Main(lists, tallies)
}
