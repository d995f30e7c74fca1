package factstream

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Record is a record of the fact stream.
type Record struct {
	Seq    uint64
	Events []sharding.Event
	Err    error // why it cannot be read
}

// Stream is the fact stream as it is stored.
type Stream struct {
	// Start is the record after which reading begins. An empty snapshot, the mark, says so. Last is the last record.
	Start, Last uint64
	Records     []Record // those after Start, by number; some may be missing
	// Mark is the error of reading the mark; nil: it can be read.
	Mark error
	// Fence is the epoch at which the stream was last claimed; 0: not known.
	Fence sharding.Epoch
	// Used is true if a coordinator was active with this journal at some time. Shards are the numbers of
	// shards of the types, as the journal itself has them.
	Used   bool
	Shards map[sharding.EntityType]uint32
}

// Finding is something that is damaged. If facts contradict each other, there is a finding for each fact that is
// dropped.
type Finding struct {
	Record uint64 `json:"record,omitempty"` // 0: the finding is about no record
	Fact   int    `json:"fact,omitempty"`   // the place of the fact in the record, from 1; 0: the whole record
	// Form is the kind of the damaged thing: "record", "mark", "stream", or the name of the fact.
	Form  string `json:"form"`
	About string `json:"about,omitempty"` // such as a shard
	Wrong string `json:"wrong"`
	// Cost describes the loss that its repair causes.
	Cost string `json:"cost"`
}

// Examination is the result of [Examine].
type Examination struct {
	// Findings list what is damaged.
	Findings []Finding
	// Lost are the types whose declarations are lost, or contradict the journal.
	Lost []sharding.EntityType
	// Repairs are the earlier repairs, oldest first.
	Repairs []Repaired

	stream Stream
	holes  bool // a row, or a type, may be lost
	types  map[sharding.EntityType]*typeFacts
	asked  []asked        // requests of operators and the like: the newest fact for each key, in their order
	at     map[string]int // the index in asked, by key
	// doubtful are the shards whose rows contradict each other, or make no sense.
	doubtful map[sharding.ShardID]bool
}

// typeFacts are the facts about one type.
type typeFacts struct {
	fact TypeFact
	rows map[uint32]rowFact
}

// TypeFact is the declaration of a type.
type TypeFact = wire.TypeFact

type rowFact struct {
	wire.RowFact
	event sharding.Event
	at    Finding
}

// Examine looks for what is damaged in a stream.
func Examine(s Stream) *Examination {
	x := &Examination{stream: s, types: map[sharding.EntityType]*typeFacts{}, at: map[string]int{}, doubtful: map[sharding.ShardID]bool{}}
	if s.Mark != nil {
		x.add(Finding{Record: s.Start, Form: "mark", Wrong: "it cannot be read: " + s.Mark.Error(), Cost: "nothing: it only marks the start of reading"})
	}
	if s.Last == 0 && s.Used && len(s.Shards) > 0 {
		x.hole(Finding{Form: "stream", Wrong: "a coordinator was active and types are declared, but no fact is stored"})
	}
	rows := x.readRecords()
	x.foldTypes()
	for _, r := range rows {
		x.foldRow(r)
	}
	x.findLost()
	x.checkForms()
	return x
}

// Damaged reports whether anything is damaged.
func (x *Examination) Damaged() bool { return len(x.Findings) > 0 }

func (x *Examination) add(f Finding) { x.Findings = append(x.Findings, f) }

const holeCost = "its facts. All shards are allocated anew. Operators' requests, quarantines and releases in it must be made again"

// hole adds a finding that means that rows and types may be lost.
func (x *Examination) hole(f Finding) {
	f.Cost = cmp.Or(f.Cost, holeCost)
	x.add(f)
	x.holes = true //mutant:skip facts-holes
}

// readRecords decodes all facts. It keeps types and what was asked for, and returns the rows.
func (x *Examination) readRecords() (rows []rowFact) {
	next := x.stream.Start + 1
	for _, r := range x.stream.Records {
		if r.Seq > next {
			x.missing(next, r.Seq-1)
		}
		next = r.Seq + 1
		if r.Err != nil {
			x.hole(Finding{Record: r.Seq, Form: "record", Wrong: r.Err.Error()})
			continue
		}
		for i, e := range r.Events {
			if row, is := x.readFact(e, Finding{Record: r.Seq, Fact: i + 1, Form: e.Name}); is {
				rows = append(rows, row)
			}
		}
	}
	if next <= x.stream.Last {
		x.missing(next, x.stream.Last)
	}
	return rows
}

func (x *Examination) missing(first, last uint64) {
	about := ""
	if last > first {
		about = fmt.Sprintf("records %d to %d", first, last)
	}
	x.hole(Finding{Record: first, Form: "record", About: about, Wrong: "it is missing"})
}

// readFact reads one fact.
func (x *Examination) readFact(e sharding.Event, at Finding) (row rowFact, is bool) {
	unreadable := func(err error) { at.Wrong = "it cannot be read: " + err.Error() }
	switch e.Name {
	case wire.RowFactName:
		f, err := wire.DecodeRowFact(e.Payload)
		if err != nil {
			unreadable(err)
			at.Cost = "the row of a shard. All shards are given out anew"
			x.hole(at)
			return row, false
		}
		at.About = f.Row.Shard.String()
		return rowFact{f, e, at}, true
	case wire.TypeFactName:
		f, err := wire.DecodeTypeFact(e.Payload)
		if err != nil {
			unreadable(err)
			at.Cost = "the declaration of a type as it was then. All shards are given out anew"
			x.hole(at)
			return row, false
		}
		x.readType(f, at)
	case RepairedName:
		if f, err := decodeRepaired(e.Payload); err == nil {
			x.Repairs = append(x.Repairs, f)
			x.Repairs = x.Repairs[max(0, len(x.Repairs)-MaxRepairs):]
		} else {
			unreadable(err)
			at.Cost = "who has repaired the facts, and why"
			x.add(at)
		}
	default:
		a, err := decodeAsked(e)
		if err != nil {
			unreadable(err)
			at.Cost = "its content: an earlier " + e.Name + " is in effect again, if there is one"
			x.add(at)
			return row, false
		}
		x.keep(a)
	}
	return row, false
}

// keep adds a fact, in place of an earlier fact with the same key.
func (x *Examination) keep(a asked) {
	if a.key != "" {
		if i, found := x.at[a.key]; found {
			x.asked[i] = asked{}
		}
		x.at[a.key] = len(x.asked)
	}
	x.asked = append(x.asked, a)
}

// readType folds the declaration of a type as the coordinator does: a declaration that contradicts the first one is
// ignored. Unlike there, the first one that counts here is the first that agrees with the journal.
func (x *Examination) readType(f TypeFact, at Finding) {
	d := f.Desc
	at.About, at.Cost = string(d.Type), "nothing that is in effect: it is ignored"
	declared := x.stream.Shards[d.Type]
	switch {
	case d.Shards == 0 || d.Shards > sharding.MaxShards || d.Rule.Check() != nil || sharding.CheckEntityType("type", d.Type) != nil:
		at.Wrong = "it makes no sense"
		x.add(at)
		return
	case declared != 0 && d.Shards != declared: //mutant:false facts-shards
		at.Wrong = fmt.Sprintf("it declares %d shards for the type, and the journal %d", d.Shards, declared)
		x.add(at)
		return
	}
	t := x.types[d.Type]
	if t == nil {
		x.types[d.Type] = &typeFacts{fact: f, rows: map[uint32]rowFact{}}
		return
	}
	if old := t.fact.Desc; old.Shards != d.Shards || old.Rule != d.Rule || old.Volatile != d.Volatile {
		at.Wrong = "it contradicts an earlier declaration of the type: another number of shards, another shard rule, or journaled instead of volatile"
		x.add(at)
		return
	}
	t.fact.Desc = d
	if n := len(t.fact.Forms); len(f.Forms) >= n && slices.Equal(f.Forms[:n], t.fact.Forms) {
		t.fact.Forms, t.fact.By = f.Forms, f.By
	} else if len(f.Forms) > len(t.fact.Forms) || !slices.Equal(f.Forms, t.fact.Forms[:len(f.Forms)]) {
		at.Wrong, at.Cost = "its forms do not continue the forms of an earlier declaration", "nothing: the forms of both are kept"
		x.add(at)
		for _, form := range f.Forms {
			if !slices.Contains(t.fact.Forms, form) {
				t.fact.Forms = append(slices.Clip(t.fact.Forms), form)
			}
		}
		x.holes = true
	}
}

// foldTypes does what can be done only when all types are known.
func (x *Examination) foldTypes() {
	for i := range x.asked {
		a := &x.asked[i]
		if t := x.types[a.typ]; a.typ != "" && (t == nil || a.shard.Type != "" && a.shard.Index >= t.fact.Desc.Shards) {
			x.asked[i] = asked{} // the coordinator ignores it
		}
	}
}

// foldRow keeps the newest row of a shard.
func (x *Examination) foldRow(f rowFact) {
	shard := f.Row.Shard
	t := x.types[shard.Type]
	if t == nil {
		if !x.holes && x.stream.Shards[shard.Type] == 0 {
			f.at.Wrong, f.at.Cost = "no fact declares its type", "nothing that is in effect: it is ignored"
			x.add(f.at)
		}
		return
	}
	f.at.Cost = "the row. The shard is given out anew"
	if wrong := x.wrongRow(t, f); wrong != "" {
		f.at.Wrong = wrong
		x.add(f.at)
		x.doubtful[shard] = true
		return
	}
	last, found := t.rows[shard.Index]
	if found && last.Row.Epoch == f.Row.Epoch && last.Row.Owner != f.Row.Owner {
		f.at.Wrong = fmt.Sprintf("at epoch %s the owner is %s, and in record %d it is %s", f.Row.Epoch, f.Row.Owner.Addr, last.at.Record, last.Row.Owner.Addr)
		x.add(f.at)
		x.doubtful[shard] = true //mutant:skip facts-contradiction
	}
	if !found || f.Row.Newer(last.Row) {
		t.rows[shard.Index] = f
	}
}

// wrongRow returns why a row makes no sense; "": it makes sense.
func (x *Examination) wrongRow(t *typeFacts, f rowFact) string {
	r := f.Row
	switch {
	case r.Shard.Index >= t.fact.Desc.Shards:
		return fmt.Sprintf("the type has %d shards", t.fact.Desc.Shards)
	case r.Epoch == 0 || r.Phase < sharding.Starting || r.Phase > sharding.HandingOff,
		r.Owner.IsZero() && r.Phase != sharding.Starting, !r.Owner.IsZero() && r.Reason != 0,
		f.Next != 0 && (r.Phase != sharding.HandingOff || f.Successor.IsZero() || f.Next <= r.Epoch):
		return "it makes no sense"
	case x.stream.Fence != 0 && max(r.Epoch, f.Next).Term() > x.stream.Fence.Term():
		return fmt.Sprintf("it is of epoch %s, and no coordinator had a term above %d", max(r.Epoch, f.Next), x.stream.Fence.Term())
	}
	return ""
}

// findLost finds types whose declarations are lost.
func (x *Examination) findLost() {
	for typ, shards := range x.stream.Shards { // order-free: sorted below
		if x.types[typ] != nil {
			continue
		}
		contradicted := slices.ContainsFunc(x.Findings, func(f Finding) bool { return f.Form == wire.TypeFactName && f.About == string(typ) })
		if x.holes || contradicted { //mutant:false facts-lost-type x.holes
			x.Lost = append(x.Lost, typ)
			x.add(Finding{Form: wire.TypeFactName, About: string(typ), Wrong: "no fact declares this type any more",
				Cost: fmt.Sprintf("its shard rule and its forms. In the journal it has %d shards. A repair drops it only with --without %s", shards, typ)})
		}
	}
	slices.Sort(x.Lost)
	slices.SortStableFunc(x.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Record, b.Record), cmp.Compare(a.Fact, b.Fact), cmp.Compare(a.About, b.About))
	})
}

// checkForms finds rows that name forms which their types do not have. It need not look if rows may be lost, because
// then no row is kept.
func (x *Examination) checkForms() {
	for _, typ := range sortedKeys(x.types) {
		t := x.types[typ]
		for _, i := range sortedKeys(t.rows) {
			f := t.rows[i]
			if n := len(t.fact.Forms); x.holes || max(f.Before.End(), f.May.End(), f.NextMay.End()) <= n {
				continue
			}
			f.at.Wrong, f.at.Cost = "it names forms that its type does not have", "which forms are stored in the shard: all that are known may be. The shard is given out anew"
			x.add(f.at)
			x.doubtful[f.Row.Shard] = true
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m { // order-free: sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// NextTerm returns the term of a repair, above all terms that were used. highest is the highest epoch of
// all fences of the journal, and heartbeat the term of its last heartbeat. known is true if all fences
// could be read. If they could not, or if the stream has no fence, the epochs in the facts are considered
// too, and the term is higher by margin, because terms may have been used that nothing shows any more.
func (x *Examination) NextTerm(highest sharding.Epoch, heartbeat sharding.Term, known bool, margin sharding.Term) (sharding.Term, error) {
	term := max(highest.Term(), x.stream.Fence.Term(), heartbeat)
	if !known || x.stream.Fence == 0 && (x.stream.Last > 0 || x.stream.Used) {
		for _, t := range x.types { // order-free: a maximum
			for _, f := range t.rows { // order-free: a maximum
				term = max(term, f.Row.Epoch.Term(), f.Next.Term())
			}
		}
		term += margin
		//mutant:do facts-margin term -= margin
	}
	if term > math.MaxUint32-2*margin {
		return 0, fmt.Errorf("the highest term is %d: a repair would leave no terms for the cluster; start it with a new journal", term)
	}
	//mutant:do facts-term return term, nil
	return term + 1, nil
}

// Types returns the declarations of the types that the facts have, sorted.
func (x *Examination) Types() (list []sharding.TypeDesc) {
	for _, typ := range sortedKeys(x.types) {
		list = append(list, x.types[typ].fact.Desc)
	}
	return list
}
