package allocation

import (
	"errors"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// The checker shares no code with what makes plans: it states the same rules in another way.
// Each region breaks some constraints if it gets the shard. Read as a binary number, with the
// most important constraint as the highest bit, this is its penalty. The new owner must be
// one of those with the lowest penalty, and the old owner is one of those that count.

// ErrMove is wrapped by every error about a move.
var ErrMove = errors.New("bad move")

// CheckMove returns an error if an optional move, only for balance, steering or load, is not allowed by the
// view of the type, or if the constraint that it repairs is not broken. The view is the one before the
// move. Only the strategy knows whether a move for balance or load still makes sense, see [Prefers].
func CheckMove(v View, m Move) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w of %v from %v to %v: "+format, append([]any{ErrMove, m.Shard, m.From, m.To}, args...)...)
	}
	var from, to *Region
	for i := range v.Regions {
		r := &v.Regions[i]
		if r.Node == m.From {
			from = r
		}
		if r.Node == m.To {
			to = r
		}
	}
	switch {
	case !v.Settled():
		return bad("the cluster is not settled; plan again when it is")
	case m.From == m.To:
		return bad("it is there already")
	case from == nil || !slices.Contains(from.Shards, m.Shard):
		return bad("it is not there any more; plan again")
	case m.Reason == ReasonLoad && v.ShardLoads == nil:
		return bad("too little is known of loads")
	case m.Reason == ReasonLoad && v.loadOf(m.Shard).Cooling: //mutant:false check-cooling
		return bad("it has not been there for as long as the cool-down")
	case to == nil:
		return bad("the new region is not here, or does not host the type")
	}
	if why := unable(v, to, m.Shard); why != "" {
		return bad("the new region %s", why)
	}
	zones := sharesOf(v, from)
	got := penalty(v, zones, to, from, m.Shard)
	lowest, with := got, to
	for i := range v.Regions {
		r := &v.Regions[i]
		if unable(v, r, m.Shard) != "" {
			continue
		}
		if p := penalty(v, zones, r, from, m.Shard); p < lowest {
			lowest, with = p, r
		}
	}
	//mutant:false check-reason
	if bit := repaired[m.Reason]; bit != 0 && (penalty(v, zones, from, from, m.Shard)&bit == 0 || got&bit != 0) {
		return bad("it repairs no broken %s: its reason is gone; plan again", m.Reason)
	}
	if with == to {
		return nil
	}
	for i, name := range constraintNames {
		if bit := bitCapacity >> i; got&bit != 0 && lowest&bit == 0 {
			return bad("it breaks the constraint %s, which %s keeps", name, with.label())
		}
	}
	return bad("%s breaks less", with.label())
}

// unable returns why a region cannot serve a shard, or "".
func unable(v View, r *Region, s sharding.ShardID) string {
	//mutant:false check-status
	if r.Status != Up {
		return "is " + r.Status.String() // none is unreachable, or the cluster would not be settled
	}
	if int(s.Index) < len(v.Forms) { //mutant:false check-reads
		for form := range v.Forms[s.Index].All() {
			if !r.Reads.Has(form) {
				return fmt.Sprintf("does not read form %d of the type, in which something may be stored in the shard", form)
			}
		}
	}
	return ""
}

// The bits of a penalty.
const bitCapacity, bitPin, bitCordon, bitZone = 8, 4, 2, 1

// repaired is the constraint that the owner must break, and the new region must keep, or the reason of
// the move is gone.
var repaired = map[Reason]int{ReasonCapacity: bitCapacity, ReasonPin: bitPin, ReasonZone: bitZone}

// penalty returns the constraints that a region breaks if it has the shard and its owner has not.
func penalty(v View, zones shares, r, owner *Region, s sharding.ShardID) int {
	p, one := 0, 1
	if r == owner {
		one = 0
	}
	if r.Capacity != 0 && r.Total+one > r.Capacity { //mutant:false check-capacity
		p += bitCapacity
	}
	if pin, pinned := v.Pins[s]; pinned && pin != "" && r.Name != pin { //mutant:false check-pin
		p += bitPin
	}
	if r.Cordoned { //mutant:false check-cordon
		p += bitCordon
	}
	if zones.exceeded(r.Zone) { //mutant:false check-zone
		p += bitZone
	}
	return p
}

// shares are the present and the allowed sizes of the zones of a view, without one shard of an owner.
type shares struct {
	of           map[string]share
	all, weights int
}

type share struct{ shards, weight int }

func sharesOf(v View, owner *Region) shares {
	list := shares{of: map[string]share{}}
	weight := weightsOf(v)
	for i := range v.Regions {
		r := &v.Regions[i]
		list.all += len(r.Shards)
		if r.Status != Up {
			continue
		}
		z := list.of[r.Zone]
		z.shards += len(r.Shards)
		if r == owner {
			z.shards--
		}
		z.weight += weight(r)
		list.weights += weight(r)
		list.of[r.Zone] = z
	}
	return list
}

// weightsOf returns the weight of a region that is up in the share of its zone. If all say their capacity,
// it is that. Otherwise all count the same, except those that are full before the others have so many
// shards: in each pass, those are full that have less room than an equal part of the remaining shards. All
// types' shards count.
func weightsOf(v View) func(*Region) int {
	up, said, left, full := 0, 0, 0, map[*Region]bool{}
	for i := range v.Regions {
		r := &v.Regions[i]
		left += max(r.Total, len(r.Shards))
		if r.Status == Up {
			up++
			said += min(r.Capacity, 1)
		}
	}
	if up == said {
		return func(r *Region) int { return r.Capacity }
	}
	free := up
	for before := 0; free != before; {
		before = free
		each, of := left, free
		for i := range v.Regions {
			r := &v.Regions[i]
			if r.Status == Up && r.Capacity > 0 && !full[r] && r.Capacity*of < each { //mutant:false check-share
				full[r] = true
				left -= r.Capacity
				free--
			}
		}
	}
	return func(r *Region) int {
		if full[r] {
			return r.Capacity * free
		}
		return left
	}
}

// exceeded reports whether a zone has its share without the shard: with n of N shards and
// the part w/W, whether n/N is at least w/W.
func (s shares) exceeded(zone string) bool {
	z := s.of[zone]
	return z.weight != s.weights && z.shards*s.weights >= z.weight*s.all
}

// CheckPlan returns an error if a plan breaks a rule, as the cluster would be when each
// move has been made before the next one.
func CheckPlan(in PlanInput, moves []Move) error {
	if len(moves) > max(0, in.Budget) {
		return fmt.Errorf("%w: %d moves, and the budget is %d", ErrMove, len(moves), in.Budget)
	}
	views := make([]View, len(in.Types))
	for i, t := range in.Types {
		views[i] = t.View
		views[i].Regions = slices.Clone(t.View.Regions)
	}
	moved := map[sharding.ShardID]bool{}
	for _, m := range moves {
		t := slices.IndexFunc(in.Types, func(t TypePlan) bool { return t.View.Type == m.Shard.Type })
		switch {
		case t < 0:
			return fmt.Errorf("%w of %v: the type is not planned", ErrMove, m.Shard)
		case moved[m.Shard]:
			return fmt.Errorf("%w of %v: it has moved before", ErrMove, m.Shard)
		case slices.Contains(in.Types[t].InFlight, m.Shard):
			return fmt.Errorf("%w of %v: it is on the move already", ErrMove, m.Shard)
		}
		if err := CheckMove(views[t], m); err != nil {
			return err
		}
		if (m.Reason == ReasonBalance || m.Reason == ReasonLoad) && !Prefers(in.Types[t].Strategy, views[t], m) {
			return fmt.Errorf("%w of %v: the strategy does not want it at %v", ErrMove, m.Shard, m.To)
		}
		moved[m.Shard] = true
		load := views[t].loadOf(m.Shard).Load
		for i := range views {
			carryOut(views[i].Regions, m, load, i == t)
		}
	}
	return nil
}

// carryOut makes a move in the view of the shard's type or of another one.
func carryOut(regions []Region, m Move, load Load, own bool) {
	for i := range regions {
		r := &regions[i]
		switch r.Node {
		case m.From:
			r.Total--
			r.Load = r.Load.Minus(load)
			if own {
				r.Shards = slices.DeleteFunc(slices.Clone(r.Shards), func(s sharding.ShardID) bool { return s == m.Shard })
			}
		case m.To:
			r.Total++
			r.Load = r.Load.Plus(load)
			if own {
				r.Shards = append(slices.Clip(r.Shards), m.Shard)
			}
		}
	}
}
