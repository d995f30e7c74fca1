package wire

import (
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
)

// FactsEntity has the coordinators' facts as its events. DecisionsEntity has the explanations of the
// coordinators' decisions. Tools read and repair both of them without a coordinator, so this file has
// everything that a tool needs for it: the names of all facts, and the codec of rows and types.
var (
	FactsEntity     = sharding.Entity{Type: "roost.coordinator", ID: "facts"}
	DecisionsEntity = sharding.Entity{Type: FactsEntity.Type, ID: "decisions"}
)

// Names of facts, of an explanation, and of a count of explanations that were dropped. They are stored.
const (
	RowFactName        = "row"
	TypeFactName       = "type"
	DrainFactName      = "drain"
	ResumeFactName     = "resume" // ends a drain
	TargetFactName     = "target"
	LossFactName       = "loss"
	CordonFactName     = "cordon"
	FreezeFactName     = "freeze"
	PinFactName        = "pin"
	MoveFactName       = "move"
	QuarantineFactName = "quarantine"
	ExplanationName    = "explanation"
	DroppedName        = "dropped"
)

// RowFact: the shard's row is now Row. The sets have indexes into the forms of its type.
type RowFact struct {
	Row sharding.Row
	// Before are the forms that earlier owners may have stored, May those that this
	// owner may store.
	Before, May sharding.FormSet
	// Successor is the region that is to get the shard next; zero: any.
	Successor sharding.NodeID
	// Next is the epoch that is reserved for the successor, and NextMay are the forms that it may
	// store then; 0: none is reserved.
	Next    sharding.Epoch
	NextMay sharding.FormSet
	// Previous has kept the states of the shard's entities; zero: no region has.
	Previous control.Previous
	// Cause is the reason why the shard is at its owner, or, while it is handed off, why it leaves.
	Cause sharding.Cause
}

// TypeFact: the type is declared with this descriptor, and regions have ever registered to
// store these forms. By are the versions of the application that were the first to do so.
type TypeFact struct {
	Desc  sharding.TypeDesc
	Forms []sharding.Form
	By    []string
}

// ToRowFact writes a fact.
func ToRowFact(f RowFact) *coordinatorv1.RowFact {
	w := &coordinatorv1.RowFact{Row: ToRow(f.Row), Before: []byte(f.Before), May: []byte(f.May), Previous: toPrevious(f.Previous), Cause: uint32(f.Cause)}
	if !f.Successor.IsZero() {
		w.Successor = ToNode(f.Successor)
	}
	if f.Next != 0 {
		w.Next, w.NextMay = uint64(f.Next), []byte(f.NextMay)
	}
	return w
}

// DecodeRowFact reads a fact.
func DecodeRowFact(b []byte) (RowFact, error) {
	var r coordinatorv1.RowFact
	if err := proto.Unmarshal(b, &r); err != nil {
		return RowFact{}, err
	}
	f := RowFact{
		Row: FromRow(r.GetRow()), Successor: FromNode(r.GetSuccessor()), Previous: fromPrevious(r.GetPrevious()),
		Before: sharding.MakeFormSet(r.GetBefore()), May: sharding.MakeFormSet(r.GetMay()), Cause: causeOf(r.GetCause()),
		Next: sharding.Epoch(r.GetNext()), NextMay: sharding.MakeFormSet(r.GetNextMay()),
	}
	return f, nil
}

// ToTypeFact writes a fact.
func ToTypeFact(f TypeFact) *coordinatorv1.TypeFact {
	return &coordinatorv1.TypeFact{Type: ToType(&f.Desc), Forms: ToForms(f.Forms), By: f.By}
}

// DecodeTypeFact reads a fact.
func DecodeTypeFact(b []byte) (TypeFact, error) {
	var t coordinatorv1.TypeFact
	if err := proto.Unmarshal(b, &t); err != nil {
		return TypeFact{}, err
	}
	return TypeFact{Desc: FromType(t.GetType()), Forms: FromForms(t.GetForms()), By: t.GetBy()}, nil
}

// causeOf reads a cause. One that does not fit comes from a later release, like others that this one does
// not know.
func causeOf(n uint32) sharding.Cause { return sharding.Cause(min(n, math.MaxUint8)) }
