package factstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
)

// ErrRefused is wrapped if a repair would lose something that an operator has to give up explicitly.
var ErrRefused = errors.New("the facts are not repaired")

// Options say what a repair may drop, who requested it, and why.
type Options struct {
	// Term is the term of the repair, above all terms that were used: see [Examination.NextTerm].
	Term sharding.Term
	// All drops everything that the cluster can do without: where shards are, requests of operators, quarantined
	// entities, the target version. Types remain.
	All bool
	// Without names lost types that may be dropped.
	Without    []sharding.EntityType
	By, Reason string
	At         time.Time
}

// Remainder is the stream after a repair.
type Remainder struct {
	Facts []sharding.Event // in their order
	// Kept counts the facts that remain, by their names. GivenOut is the number of shards to be assigned
	// anew.
	Kept     map[string]int
	GivenOut int
	// Dropped says, for operators, which intact facts are dropped.
	Dropped []string
}

// Repair returns the stream that takes the place of the damaged one.
func (x *Examination) Repair(o Options) (Remainder, error) {
	var refused []string
	for _, typ := range x.Lost {
		if !slices.Contains(o.Without, typ) { //mutant:false facts-without
			refused = append(refused, string(typ))
		}
	}
	if len(refused) > 0 {
		return Remainder{}, fmt.Errorf("%w: the declaration of %s is lost, and with it the shard rule (ShardBy) and the forms in which something is stored; "+
			"restore a backup, or give --without %s: then start only regions whose code declares the same shard rule as before, and the newest version first",
			ErrRefused, strings.Join(refused, ", "), strings.Join(refused, " --without "))
	}
	out := Remainder{Kept: map[string]int{}}
	keep := func(e sharding.Event) {
		out.Facts = append(out.Facts, e)
		out.Kept[e.Name]++
	}
	repaired := Repaired{By: o.By, Reason: o.Reason, At: o.At, Record: x.stream.Last, All: o.All, Damaged: len(x.Findings)}
	for _, f := range x.Findings[:min(len(x.Findings), MaxDropped)] {
		repaired.Dropped = append(repaired.Dropped, f.String())
	}
	for _, r := range append(slices.Clone(x.Repairs), repaired)[max(0, len(x.Repairs)+1-MaxRepairs):] {
		keep(r.event())
	}
	// Regions declare lost types anew, and no record shows any more which of their shards were allocated.
	if _, before := x.at[lossKey]; before || len(x.Lost) > 0 { //mutant:false facts-loss
		keep(event(wire.LossFactName, &coordinatorv1.LossFact{}))
	}
	for _, typ := range sortedKeys(x.types) {
		keep(event(wire.TypeFactName, wire.ToTypeFact(x.types[typ].fact)))
	}
	var moves []sharding.Event
	dropped := map[string]int{}
	for _, a := range x.asked {
		switch {
		case a.event.Name == "" || a.ended || a.key == lossKey:
		case o.All: //mutant:false facts-all
			dropped[a.event.Name]++
		case a.event.Name == wire.MoveFactName:
			if f, found := x.types[a.typ].rows[a.shard.Index]; found && !x.anew(a.shard, o) && f.Row.Epoch == a.epoch && f.Row.Phase == sharding.HandingOff {
				moves = append(moves, a.event)
			}
		default:
			keep(a.event)
		}
	}
	for _, name := range sortedKeys(dropped) {
		out.Dropped = append(out.Dropped, fmt.Sprintf("%s: %d", name, dropped[name]))
	}
	n := uint32(0)
	for _, typ := range sortedKeys(x.types) {
		t := x.types[typ]
		for i := range t.fact.Desc.Shards {
			shard := sharding.ShardID{Type: typ, Index: i}
			f, found := t.rows[i]
			switch {
			case x.anew(shard, o):
				n++
				out.Facts = append(out.Facts, event(wire.RowFactName, wire.ToRowFact(x.giveOut(t, shard, f, o, n))))
			case found:
				keep(f.event)
			}
		}
	}
	out.GivenOut = int(n)
	for _, e := range moves { // a coordinator ignores a move that comes before its row
		keep(e)
	}
	return out, nil
}

// anew reports whether a shard is given out anew.
func (x *Examination) anew(s sharding.ShardID, o Options) bool {
	return x.holes || o.All || x.doubtful[s]
}

// giveOut returns the row of a shard that is given out anew. It has no owner, an epoch above all others, and all forms
// that may be stored.
func (x *Examination) giveOut(t *typeFacts, s sharding.ShardID, last rowFact, o Options, n uint32) wire.RowFact {
	f := wire.RowFact{Row: sharding.Row{Shard: s, Epoch: sharding.MakeEpoch(o.Term, n), Phase: sharding.Starting}, Cause: sharding.CauseRepaired}
	for i := range t.fact.Forms {
		f.Before = f.Before.With(i) //mutant:skip facts-forms
	}
	//mutant:do facts-epoch f.Row.Epoch = max(last.Row.Epoch, 1)
	if !o.All && !x.doubtful[s] {
		f.Successor = last.Row.Owner
		if last.Row.Phase == sharding.HandingOff && !last.Successor.IsZero() || last.Row.Owner.IsZero() {
			f.Successor = last.Successor
		}
	}
	return f
}

// String returns the finding in one line.
func (f Finding) String() string {
	where := f.Form
	if f.Record > 0 && f.Form != "record" {
		where += fmt.Sprintf(" in record %d", f.Record)
	} else if f.Record > 0 {
		where = fmt.Sprintf("record %d", f.Record)
	}
	if f.About != "" {
		where += " (" + f.About + ")"
	}
	return where + ": " + f.Wrong
}
