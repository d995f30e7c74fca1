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

// MaxPins is how many shards one request can pin. [Client.Assign] makes several requests if
// it has to.
const MaxPins = 4096

// Assignment says where a program wants the shards of an entity type.
type Assignment struct {
	Type string
	// Regions are names of regions, by the index of the shard. Other shards go where the
	// strategy puts them.
	Regions map[uint32]string
	// Ahead allows names that no region has now. The shards go there when such a region
	// comes. Without it Assign fails.
	Ahead bool
	// By is the name of the program. It must not be empty, because Assign leaves alone what
	// others have pinned. Instances of one program have one name.
	By string
	// Reason is kept with what changes, for those who see it later.
	Reason string
}

// Assigned is what [Client.Assign] has done.
type Assigned struct {
	// Changed is the number of shards that are pinned, or not pinned, unlike before.
	Changed int
	// Others are the pins of shards that somebody else has pinned. They stay as they are.
	Others []*adminv1.PinnedShard
	// Remarks are what the coordinator says besides, in sentences.
	Remarks []string
}

// Assign has the shards of a type be where a program wants them. It compares what is wanted with
// the pins that the program has set before, and pins what differs. When it returns, that is
// stored, and the shards move at the coordinator's next plans: none is interrupted, and a region
// that is not here, or cannot serve a shard, does not keep it from being served elsewhere.
//
// After an error a part may be stored. Call it again then, with what is wanted by that time.
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
		res, err := UntilStored(ctx, func(ctx context.Context) (*adminv1.SteerResponse, error) {
			return a.Pin(ctx, &adminv1.PinRequest{Pins: batch, Ahead: want.Ahead, By: want.By, Reason: want.Reason})
		})
		if err != nil {
			return done, err
		}
		done.Changed += len(batch)
		done.Remarks = append(done.Remarks, res.Remarks...)
	}
	return done, nil
}

// changes returns the pins that lead from those of now to those that are wanted, sorted by shard,
// and those of now that somebody else has set.
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
