package wire

import (
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

// ToNode writes a node.
func ToNode(n sharding.NodeID) *controlv1.Node {
	return &controlv1.Node{Addr: n.Addr, Uid: uint64(n.UID)}
}

// FromNode reads a node; an absent one is the zero NodeID.
func FromNode(n *controlv1.Node) sharding.NodeID {
	return sharding.NodeID{Addr: n.GetAddr(), UID: sharding.NodeUID(n.GetUid())}
}

// toOwner writes a node that may be zero: no owner.
func toOwner(n sharding.NodeID) *controlv1.Node {
	if n.IsZero() {
		return nil
	}
	return ToNode(n)
}

func ToShard(s sharding.ShardID) *controlv1.Shard {
	return &controlv1.Shard{Type: string(s.Type), Index: s.Index}
}

func FromShard(s *controlv1.Shard) sharding.ShardID {
	return sharding.ShardID{Type: sharding.EntityType(s.GetType()), Index: s.GetIndex()}
}

// toLoad writes a load; nil if it is nothing.
func toLoad(l sharding.Load) *controlv1.Load {
	if l == (sharding.Load{}) {
		return nil
	}
	return &controlv1.Load{
		HandlerMicros: l.HandlerMicros, MilliCommands: l.MilliCommands, MilliWaiting: l.MilliWaiting,
		JournalBytes: l.JournalBytes, Entities: l.Entities, Bytes: l.Bytes,
	}
}

func fromLoad(l *controlv1.Load) sharding.Load {
	return sharding.Load{
		HandlerMicros: l.GetHandlerMicros(), MilliCommands: l.GetMilliCommands(), MilliWaiting: l.GetMilliWaiting(),
		JournalBytes: l.GetJournalBytes(), Entities: l.GetEntities(), Bytes: l.GetBytes(),
	}
}

func toVersion(v sharding.Version) *controlv1.Version {
	return &controlv1.Version{Term: uint32(v.Term), N: v.N}
}

// toOptionalVersion writes a version; nil if it is zero.
func toOptionalVersion(v sharding.Version) *controlv1.Version {
	if v == (sharding.Version{}) {
		return nil
	}
	return toVersion(v)
}

func fromVersion(v *controlv1.Version) sharding.Version {
	return sharding.Version{Term: sharding.Term(v.GetTerm()), N: v.GetN()}
}

// ToType writes a type.
func ToType(t *sharding.TypeDesc) *controlv1.Type {
	out := &controlv1.Type{Name: string(t.Type), Shards: t.Shards, Volatile: t.Volatile, Unhosted: t.Unhosted, LastHost: t.LastHost}
	for _, c := range t.Commands {
		out.Commands = append(out.Commands, &controlv1.Command{Name: c.Name, ReadOnly: c.ReadOnly, Stale: c.Stale, Input: c.Input})
	}
	out.Writes, out.Reads = ToForms(t.Writes), ToForms(t.Reads)
	if r := t.Rule; r != (sharding.ShardRule{}) {
		out.ShardRule = &controlv1.ShardRule{Separator: r.Separator, Part: uint32(r.Part), Method: uint32(r.Method)}
	}
	for _, q := range t.Quarantined {
		out.Quarantined = append(out.Quarantined, &controlv1.Quarantine{Id: string(q.ID), Suspect: q.Suspect, Why: q.Why})
	}
	return out
}

// FromType reads a type. Names and numbers are checked by the core that takes it.
func FromType(t *controlv1.Type) sharding.TypeDesc {
	out := sharding.TypeDesc{Type: sharding.EntityType(t.GetName()), Shards: t.GetShards(), Volatile: t.GetVolatile(), Unhosted: t.GetUnhosted(), LastHost: t.GetLastHost()}
	out.Commands = slices.Grow(out.Commands, len(t.GetCommands()))
	for _, c := range t.GetCommands() {
		out.Commands = append(out.Commands, sharding.CommandDesc{Name: c.GetName(), ReadOnly: c.GetReadOnly(), Stale: c.GetStale(), Input: c.GetInput()})
	}
	out.Writes, out.Reads = FromForms(t.GetWrites()), FromForms(t.GetReads())
	if r := t.GetShardRule(); r != nil {
		// A number that does not fit is kept as one that no method has, so that it is refused.
		out.Rule = sharding.ShardRule{Separator: r.GetSeparator(), Part: int(r.GetPart()), Method: sharding.ShardMethod(min(r.GetMethod(), 255))}
	}
	out.Quarantined = slices.Grow(out.Quarantined, len(t.GetQuarantined()))
	for _, q := range t.GetQuarantined() {
		out.Quarantined = append(out.Quarantined, sharding.Quarantined{ID: sharding.EntityID(q.GetId()), Suspect: q.GetSuspect(), Why: q.GetWhy()})
	}
	return out
}

// ToForms writes forms.
func ToForms(forms []sharding.Form) []*controlv1.Form {
	var out []*controlv1.Form
	for _, f := range forms {
		out = append(out, &controlv1.Form{
			Kind: controlv1.FormKind(f.Kind), Name: f.Name, Version: uint32(f.Version), ReadableBy: uint32(f.ReadableBy), Shape: f.Shape,
		})
	}
	return out
}

// FromForms reads forms. A number that is too large becomes 0, which no form has that is
// read.
func FromForms(forms []*controlv1.Form) []sharding.Form {
	out := slices.Grow([]sharding.Form(nil), len(forms))
	for _, f := range forms {
		out = append(out, sharding.Form{
			Kind: fromFormKind(f.GetKind()), Name: f.GetName(), Version: fromUint16(f.GetVersion()), ReadableBy: fromUint16(f.GetReadableBy()), Shape: f.GetShape(),
		})
	}
	return out
}

func fromFormKind(k controlv1.FormKind) sharding.FormKind {
	if k < 0 || k > math.MaxUint8 {
		return 0
	}
	return sharding.FormKind(k)
}

func fromUint16(n uint32) uint16 {
	if n > math.MaxUint16 {
		return 0
	}
	return uint16(n)
}

func toTypes(types []sharding.TypeDesc) (out []*controlv1.Type) {
	for i := range types {
		out = append(out, ToType(&types[i]))
	}
	return out
}

// fromTypes reads types. The receiver sorts them if their order matters.
func fromTypes(types []*controlv1.Type) []sharding.TypeDesc {
	out := slices.Grow([]sharding.TypeDesc(nil), len(types))
	for _, t := range types {
		out = append(out, FromType(t))
	}
	return out
}

// ToRow writes a row; a zero owner is absent.
func ToRow(r sharding.Row) *controlv1.Row {
	return &controlv1.Row{
		Type: string(r.Shard.Type), Index: r.Shard.Index, Epoch: uint64(r.Epoch), Phase: controlv1.Phase(r.Phase), Owner: toOwner(r.Owner),
		Reason: controlv1.RowReason(r.Reason),
	}
}

// FromRow reads a row.
func FromRow(r *controlv1.Row) sharding.Row {
	return sharding.Row{
		Shard: sharding.ShardID{Type: sharding.EntityType(r.GetType()), Index: r.GetIndex()},
		Owner: FromNode(r.GetOwner()), Epoch: sharding.Epoch(r.GetEpoch()), Phase: fromPhase(r.GetPhase()),
		Reason: fromReason(r.GetReason()),
	}
}

// fromReason gives 0 for a reason that is not known: the row waits for an owner.
func fromReason(r controlv1.RowReason) sharding.RowReason {
	if r < 0 || r > controlv1.RowReason(sharding.Unreadable) {
		return 0
	}
	return sharding.RowReason(r)
}

// fromPhase gives 0, which every table ignores, for a phase that is none.
func fromPhase(p controlv1.Phase) sharding.Phase {
	if p < 0 || p > controlv1.Phase(sharding.HandingOff) {
		return 0
	}
	return sharding.Phase(p)
}

func toDelta(d sharding.TableDelta) *controlv1.TableChanged {
	out := &controlv1.TableChanged{Version: toVersion(d.Version), Full: d.Full, Generation: uint64(d.Generation)}
	out.Types = toTypes(d.Types)
	for _, r := range d.Rows {
		out.Rows = append(out.Rows, ToRow(r))
	}
	return out
}

func fromDelta(w *controlv1.TableChanged) sharding.TableDelta {
	d := sharding.TableDelta{Version: fromVersion(w.GetVersion()), Full: w.GetFull(), Types: fromTypes(w.GetTypes()), Generation: sharding.Generation(w.GetGeneration())}
	d.Rows = slices.Grow(d.Rows, len(w.GetRows()))
	for _, r := range w.GetRows() {
		d.Rows = append(d.Rows, FromRow(r))
	}
	return d
}

func toJournalState(s sharding.JournalState) controlv1.JournalState {
	return controlv1.JournalState(s) + controlv1.JournalState_JOURNAL_STATE_ANSWERS
}

// fromJournalState reads a region's judgement of its journal. An unknown one may come
// from a newer region, and counts as a journal that answers.
func fromJournalState(s controlv1.JournalState) sharding.JournalState {
	switch s {
	case controlv1.JournalState_JOURNAL_STATE_RECOVERING:
		return sharding.JournalRecovering
	case controlv1.JournalState_JOURNAL_STATE_SILENT:
		return sharding.JournalSilent
	}
	return sharding.JournalAnswers
}
