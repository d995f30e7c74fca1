// Command list-region is a region that hosts lists for the tests of histories:
// entities whose every answer tells the whole state they are in.
//
// # What this does not do
//
// It is no example: a list here grows for ever, and so do its snapshots.
package main

import (
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server"
)

// List is a list of numbers and the hash of them all.
type List struct {
	Values []int64
	Hash   uint64
}

// Added is the event of a list.
type Added struct{ Value int64 }

// Apply changes the state; the only place that does.
func (l *List) Apply(event any) {
	switch e := event.(type) {
	case Added:
		l.Values, l.Hash = append(l.Values, e.Value), history.Hash(l.Hash, e.Value)
	}
}

// AddRequest is the input of Add.
type AddRequest struct {
	Value int64 `json:"value"`
}

// Values is the reply of Values.
type Values struct {
	Values []int64 `json:"values"`
}

// Add appends a number. It does not look whether it is there already.
func (l *List) Add(ctx *entity.Ctx, in AddRequest) (history.Reply, error) {
	if err := ctx.Persist(Added(in)); err != nil {
		return history.Reply{}, err
	}
	return l.reply(), nil
}

// Get tells length and hash.
func (l *List) Get(*entity.Ctx, struct{}) (history.Reply, error) { return l.reply(), nil }

// All tells all values.
func (l *List) All(*entity.Ctx, struct{}) (Values, error) { return Values{l.Values}, nil }

func (l *List) reply() history.Reply {
	return history.Reply{Length: int64(len(l.Values)), Hash: l.Hash}
}

var (
	add = entity.Command[AddRequest, history.Reply]("List", "Add")
	get = entity.Command[struct{}, history.Reply]("List", "Get").ReadOnly()
	all = entity.Command[struct{}, Values]("List", "All").ReadOnly()

	lists = entity.Define("List", func(string) *List { return &List{} },
		entity.On(add, (*List).Add),
		entity.On(get, (*List).Get),
		entity.On(all, (*List).All),
	).Events(Added{}).SnapshotEvery(20).Shards(64)
)

func main() { server.Main(lists) }
