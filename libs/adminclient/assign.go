package adminclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// MaxPins is the largest number of shards in one request of [Client.Pin]. [Client.Assign] makes several
// requests if there are more.
const MaxPins = 4096

// Assignment describes where a program wants the shards of an entity type.
type Assignment struct {
	Type string
	// Regions has the name of a region for each shard, by the index of the shard. A shard that is not in
	// Regions is not pinned: the strategy decides where it goes.
	Regions map[uint32]string
	// Ahead allows names that no region has now. The shards move when a region with this name comes. If
	// Ahead is not set, Assign returns an error for such a name.
	Ahead bool
	// By is the name of the program. It must not be empty, because Assign uses it to tell the pins of this
	// program from other pins, which it does not change. All instances of a program must have the same
	// name.
	By string
	// Reason is stored with each pin that changes, for operators. It may be empty.
	Reason string
}

// Assigned is the result of [Client.Assign].
type Assigned struct {
	// Changed is the number of shards whose pin was set, changed or removed.
	Changed int
	// Others are the pins that another program or an operator has set. They did not change.
	Others []*adminv1.PinnedShard
	// Remarks are sentences with more information for an operator.
	Remarks []string
}

// Assign pins the shards of a type to the regions where a program wants them. It compares the wanted pins with
// those that the program has set before, and changes only what differs. When Assign returns without an error,
// the pins are stored. Then the coordinator moves the shards in its next plans, without interrupting them. If
// the region of a pin is not there, or cannot serve the shard, another region serves it.
//
// After an error, a part of the pins may be stored. Call Assign again, with what is then wanted.
func (a *Client) Assign(ctx context.Context, want Assignment) (Assigned, error) {
	var done Assigned
	if want.Type == "" || want.By == "" {
		return done, errors.New("assignment: Type and By must not be empty")
	}
	for shard, region := range want.Regions { // order-free: any of them is an error
		if region == "" {
			return done, fmt.Errorf("assignment: shard %d has an empty region; leave it out to have it anywhere", shard)
		}
	}
	now, err := a.Steering(ctx, want.Type)
	if err != nil {
		return done, err
	}
	pins, others := want.changes(now.Pins)
	done.Others = others
	for batch := range slices.Chunk(pins, MaxPins) {
		res, err := a.Pin(ctx, &adminv1.PinRequest{Pins: batch, Ahead: want.Ahead, By: want.By, Reason: want.Reason})
		if err != nil {
			return done, err
		}
		done.Changed += len(batch)
		done.Remarks = append(done.Remarks, res.Remarks...)
	}
	return done, nil
}

// changes returns the pins to set so that the present pins become the wanted ones, sorted by shard. It also
// returns the present pins that another program or an operator has set.
func (a Assignment) changes(now []*adminv1.PinnedShard) (pins []*adminv1.Pin, others []*adminv1.PinnedShard) {
	wanted := maps.Clone(a.Regions)
	for _, p := range now {
		region := wanted[p.Index] // "": not pinned any more
		delete(wanted, p.Index)
		switch {
		case p.By != a.By:
			others = append(others, p)
		case p.Region != region:
			pins = append(pins, &adminv1.Pin{Type: a.Type, Index: p.Index, Region: region})
		}
	}
	for shard, region := range wanted { // sorted below
		pins = append(pins, &adminv1.Pin{Type: a.Type, Index: shard, Region: region})
	}
	slices.SortFunc(pins, func(x, y *adminv1.Pin) int { return cmp.Compare(x.Index, y.Index) })
	return pins, others
}
